//! Pseudo-terminals. A task of the kernel carries the bytes of one end to the other, at a moment
//! that depends on the machine. A `poll` of the other end waits for that task (`n_tty_poll` in
//! drivers/tty/n_tty.c). A wait on an epoll descriptor and FIONREAD do not.

use crate::fd::descriptors::{kind_of, poll_natively};
use crate::fd::epoll;
use libc::{c_int, pollfd};

/// Returns whether `fd` may be a terminal: a device of characters.
pub fn may_be(fd: c_int) -> bool {
    kind_of(fd) == libc::S_IFCHR
}

/// Waits until the terminals among `fds` have all bytes that programs wrote to their other ends.
pub fn settle(fds: impl Iterator<Item = c_int>) {
    let mut set: Vec<_> = fds.map(|fd| pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    if !set.is_empty() {
        poll_natively(&mut set, 0);
    }
}

/// Waits likewise for the terminals that epoll descriptors among `fds` watch.
pub fn settle_watched(fds: impl Iterator<Item = c_int>) {
    settle(epoll::terminals_of(fds).into_iter());
}
