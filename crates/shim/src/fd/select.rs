//! Implements `select` and `pselect` by `poll`.

use crate::clib::real;
use crate::fd::poll::{wait, with_mask};
use crate::runtime::world::{active, deadline_after, fail, timespec_picos, timeval_picos, to_timeval};
use libc::{c_int, fd_set, pollfd, sigset_t, timespec, timeval};
use softband_client::{self as client, Errno};

const READ: i16 = libc::POLLIN | libc::POLLRDNORM | libc::POLLHUP | libc::POLLERR;
const WRITE: i16 = libc::POLLOUT | libc::POLLWRNORM | libc::POLLERR;
const EXCEPT: i16 = libc::POLLPRI;

/// The three sets of a call.
struct Sets {
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
}

unsafe fn has(set: *mut fd_set, fd: c_int) -> bool {
    // Programs use sets larger than FD_SETSIZE, so this code computes the word itself.
    !set.is_null() && *set.cast::<u64>().add(fd as usize / 64) & 1 << (fd % 64) != 0
}

unsafe fn put(set: *mut fd_set, fd: c_int, on: bool) -> usize {
    if set.is_null() {
        return 0;
    }
    let word = &mut *set.cast::<u64>().add(fd as usize / 64);
    let bit = 1u64 << (fd % 64);
    *word = if on { *word | bit } else { *word & !bit };
    usize::from(on)
}

impl Sets {
    unsafe fn to_poll(&self, count: c_int) -> Vec<pollfd> {
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
    unsafe fn fill(&self, list: &[pollfd]) -> usize {
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

unsafe fn wait_sets(count: c_int, sets: &Sets, deadline: u64) -> c_int {
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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int {
    if !active() {
        return real::select(count, read, write, except, timeout);
    }
    let deadline = if timeout.is_null() { u64::MAX } else { deadline_after(timeval_picos(&*timeout)) };
    let result = wait_sets(count, &Sets { read, write, except }, deadline);
    if !timeout.is_null() {
        *timeout = to_timeval(deadline.saturating_sub(client::now_ps())); // Linux returns the remaining time
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    if !active() {
        return real::pselect(count, read, write, except, timeout, mask);
    }
    let deadline = if timeout.is_null() { u64::MAX } else { deadline_after(timespec_picos(&*timeout)) };
    with_mask(mask, || wait_sets(count, &Sets { read, write, except }, deadline))
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
            let sets = Sets { read: &raw mut read, write: &raw mut write, except: std::ptr::null_mut() };
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
