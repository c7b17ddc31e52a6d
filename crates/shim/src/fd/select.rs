//! Implements `select` and `pselect` by `poll`.

use crate::clib::args::{In, InOut, slice};
use crate::clib::real;
use crate::fd::poll::{wait, with_mask};
use crate::runtime::world::{active, deadline_after, fail, timespec_picos, timeval_picos, to_timeval};
use libc::{c_int, fd_set, pollfd, sigset_t, timespec, timeval};
use softband_client::{self as client, Errno};
use std::cell::Cell;

const READ: i16 = libc::POLLIN | libc::POLLRDNORM | libc::POLLHUP | libc::POLLERR;
const WRITE: i16 = libc::POLLOUT | libc::POLLWRNORM | libc::POLLERR;
const EXCEPT: i16 = libc::POLLPRI;

/// The words of a set. An absent set has none. A program may pass a set twice.
type Words<'a> = &'a [Cell<u64>];

/// The three sets of a call.
struct Sets<'a> {
    read: Words<'a>,
    write: Words<'a>,
    except: Words<'a>,
}

/// Returns the words of a set for `count` descriptors. Programs use sets larger than FD_SETSIZE.
///
/// # Safety
/// `set` is null or has room for `count` descriptors, in whole words.
unsafe fn words<'a>(set: *mut fd_set, count: c_int) -> Words<'a> {
    // SAFETY: the kernel, too, reads and writes a set in whole words (select(2)).
    unsafe { slice(set.cast(), (count.max(0) as usize).div_ceil(64)) }
}

fn has(set: Words, fd: c_int) -> bool {
    set.get(fd as usize / 64).is_some_and(|word| word.get() & 1 << (fd % 64) != 0)
}

fn put(set: Words, fd: c_int, on: bool) -> usize {
    let Some(word) = set.get(fd as usize / 64) else { return 0 };
    let bit = 1u64 << (fd % 64);
    word.set(if on { word.get() | bit } else { word.get() & !bit });
    usize::from(on)
}

impl<'a> Sets<'a> {
    /// Takes the sets of a caller.
    ///
    /// # Safety
    /// Each set is null or has room for `count` descriptors.
    unsafe fn new(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set) -> Self {
        // SAFETY: each set has the words of `count` descriptors.
        unsafe { Self { read: words(read, count), write: words(write, count), except: words(except, count) } }
    }

    fn to_poll(&self, count: c_int) -> Vec<pollfd> {
        let mut list = Vec::new();
        for fd in 0..count {
            let mut events = 0;
            for (set, event) in [(self.read, libc::POLLIN), (self.write, libc::POLLOUT), (self.except, libc::POLLPRI)] {
                if has(set, fd) {
                    events |= event;
                }
            }
            if events != 0 {
                list.push(pollfd { fd, events, revents: 0 });
            }
        }
        list
    }

    /// Writes the result back into the sets. Returns the number of set bits.
    fn fill(&self, list: &[pollfd]) -> usize {
        let mut count = 0;
        for element in list {
            for (set, asked, means) in [(self.read, libc::POLLIN, READ), (self.write, libc::POLLOUT, WRITE), (self.except, libc::POLLPRI, EXCEPT)] {
                if element.events & asked != 0 {
                    count += put(set, element.fd, element.revents & means != 0);
                }
            }
        }
        count
    }
}

fn wait_sets(count: c_int, sets: &Sets, deadline: u64) -> c_int {
    if count < 0 {
        return fail(libc::EINVAL);
    }
    let mut list = sets.to_poll(count);
    if let Err(Errno(errno)) = wait(&mut list, deadline) {
        return fail(errno);
    }
    if list.iter().any(|element| element.revents & libc::POLLNVAL != 0) {
        return fail(libc::EBADF);
    }
    sets.fill(&list) as c_int
}

/// Implements `select`.
///
/// # Safety
/// Each set is null or has room for `count` descriptors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: InOut<timeval>) -> c_int {
    if !active() {
        // SAFETY: the sets have room for `count` descriptors, which is all that the kernel uses.
        return unsafe { real::select(count, read, write, except, timeout) };
    }
    let deadline = timeout.get().map_or(u64::MAX, |timeout| deadline_after(timeval_picos(&timeout)));
    // SAFETY: the caller's sets have room for `count` descriptors.
    let sets = unsafe { Sets::new(count, read, write, except) };
    let result = wait_sets(count, &sets, deadline);
    timeout.set(to_timeval(deadline.saturating_sub(client::now_ps()))); // Linux returns the remaining time
    result
}

/// Implements `pselect`.
///
/// # Safety
/// Each set is null or has room for `count` descriptors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: In<timespec>,
    mask: In<sigset_t>,
) -> c_int {
    if !active() {
        // SAFETY: the kernel uses no more of a set than the words of `count` descriptors.
        return unsafe { real::pselect(count, read, write, except, timeout, mask) };
    }
    let deadline = timeout.get().map_or(u64::MAX, |timeout| deadline_after(timespec_picos(&timeout)));
    // SAFETY: three sets, each null or with room for `count` descriptors.
    let sets = unsafe { Sets::new(count, read, write, except) };
    with_mask(mask, deadline, |deadline| wait_sets(count, &sets, deadline))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_go_to_poll_and_back() {
        // SAFETY: all zero is an empty set; the numbers are below FD_SETSIZE.
        unsafe {
            let mut read: fd_set = std::mem::zeroed();
            let mut write: fd_set = std::mem::zeroed();
            libc::FD_SET(3, &raw mut read);
            libc::FD_SET(3, &raw mut write);
            libc::FD_SET(70, &raw mut write);
            let sets = Sets::new(71, &raw mut read, &raw mut write, std::ptr::null_mut());
            let mut list = sets.to_poll(71);
            assert_eq!(
                list.iter().map(|element| (element.fd, element.events)).collect::<Vec<_>>(),
                [(3, libc::POLLIN | libc::POLLOUT), (70, libc::POLLOUT)]
            );
            list[0].revents = libc::POLLHUP;
            list[1].revents = libc::POLLOUT;
            assert_eq!(sets.fill(&list), 2);
            assert!(libc::FD_ISSET(3, &raw const read) && !libc::FD_ISSET(3, &raw const write) && libc::FD_ISSET(70, &raw const write));
        }
    }
}
