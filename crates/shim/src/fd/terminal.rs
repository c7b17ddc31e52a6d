//! Pseudo-terminals. A task of the kernel carries the bytes of one end to the other, at a moment
//! that depends on the machine. A `poll` of the other end waits for that task (`n_tty_poll` in
//! drivers/tty/n_tty.c). A wait on an epoll descriptor and FIONREAD do not.

use crate::clib::args::In;
use crate::clib::real;
use crate::fd::descriptors::{kind_of, poll_natively};
use crate::fd::epoll;
use crate::runtime::world::keeping_errno;
use libc::{c_int, epoll_event, pollfd};

/// Returns whether `fd` may be a terminal: a device of characters.
pub fn may_be(fd: c_int) -> bool {
    kind_of(fd) == libc::S_IFCHR
}

/// Interest of an epoll descriptor in a terminal.
#[derive(Clone, Copy)]
pub struct Watched {
    pub epoll: c_int,
    pub fd: c_int,
    pub event: epoll_event,
}

/// Interests that a repetition would change: it reports an edge or a shot once more, or fails.
const ONCE: u32 = (libc::EPOLLET | libc::EPOLLONESHOT | libc::EPOLLEXCLUSIVE) as u32;

/// Waits until the terminals among `fds` have all bytes that programs wrote to their other ends.
pub fn settle(fds: impl Iterator<Item = c_int>) {
    readable(fds);
}

/// Waits likewise, and returns each terminal with whether it has bytes.
fn readable(fds: impl Iterator<Item = c_int>) -> Vec<pollfd> {
    let mut set: Vec<_> = fds.map(|fd| pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    if !set.is_empty() {
        poll_natively(&mut set, 0);
    }
    set
}

/// Waits likewise for the terminals that epoll descriptors among `fds` watch. The kernel's task tells
/// epoll descriptors of the bytes a moment after `poll` finds them. A repetition of the interest makes
/// the kernel look at once.
pub fn settle_watched(fds: impl Iterator<Item = c_int>) {
    let watched = epoll::terminals_of(fds);
    for (watched, found) in watched.iter().zip(readable(watched.iter().map(|watched| watched.fd))) {
        if found.revents & libc::POLLIN != 0 && watched.event.events & ONCE == 0 {
            keeping_errno(|| real::epoll_ctl(watched.epoll, libc::EPOLL_CTL_MOD, watched.fd, In::of(&watched.event)));
        }
    }
}
