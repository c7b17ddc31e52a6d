//! `poll` and `ppoll`.

use crate::clib::real;
use crate::fd::interest::{self, Native, from_poll, to_poll};
use crate::runtime::world::{PICOS_PER_MICRO, active, deadline_after, fail, timespec_picos};
use libc::{c_int, nfds_t, pollfd, sigset_t, size_t, timespec};
use softband_client::{Errno, fds};
use softband_ipc::calls::WaitEntry;

/// Returns the deadline of a timeout in milliseconds. A negative timeout never ends.
pub fn millis_deadline(timeout: c_int) -> u64 {
    u64::try_from(timeout).map_or(u64::MAX, |millis| deadline_after(millis * 1_000 * PICOS_PER_MICRO))
}

/// Descriptors of the kernel in a set; the other descriptors are hidden from it.
struct Kernel {
    set: Vec<pollfd>,
}

impl Native for Kernel {
    fn poll(&mut self) -> Result<usize, Errno> {
        // SAFETY: the vector has the given length.
        let count = unsafe { real::poll(self.set.as_mut_ptr(), self.set.len() as nfds_t, 0) };
        usize::try_from(count).map_err(|_| Errno(crate::runtime::world::errno()))
    }
    fn block(&mut self) {
        // SAFETY: the pointer and the length belong to one vector, which only this call borrows.
        unsafe { real::poll(self.set.as_mut_ptr(), self.set.len() as nfds_t, -1) };
    }
}

/// Waits for the set until the deadline. Returns the number of elements with events.
pub fn wait(set: &mut [pollfd], deadline: u64) -> Result<usize, Errno> {
    let mut entries: Vec<WaitEntry> = Vec::new();
    // The element of each entry. An epoll descriptor has several entries.
    let mut owners = Vec::new();
    let mut kernel = Kernel { set: set.to_vec() };
    for (index, element) in set.iter_mut().enumerate() {
        element.revents = 0;
        if let Some(entry) = fds::lookup(element.fd) {
            kernel.set[index].fd = -1;
            entries.push(interest::entry(entry.object, from_poll(element.events)));
            owners.push(index);
        } else {
            for (object, interest) in crate::fd::epoll::objects_of(element.fd) {
                entries.push(interest::entry(object, interest));
                owners.push(index);
            }
        }
    }
    let native = kernel.set.iter().any(|element| element.fd >= 0);
    interest::wait(&mut entries, native.then_some(&mut kernel), deadline)?;
    for (entry, index) in entries.iter().zip(&owners) {
        if entry.ready != 0 {
            let is_epoll = fds::lookup(set[*index].fd).is_none();
            let wanted = set[*index].events | libc::POLLHUP | libc::POLLERR;
            set[*index].revents |= if is_epoll { libc::POLLIN & set[*index].events } else { to_poll(entry.ready) & wanted };
        }
    }
    for (element, native) in set.iter_mut().zip(&kernel.set) {
        if native.fd >= 0 {
            element.revents |= native.revents;
        }
    }
    Ok(set.iter().filter(|element| element.revents != 0).count())
}

fn outcome(result: Result<usize, Errno>) -> c_int {
    match result {
        Ok(count) => count as c_int,
        Err(Errno(errno)) => fail(errno),
    }
}

unsafe fn set_of<'a>(set: *mut pollfd, count: nfds_t) -> &'a mut [pollfd] {
    if set.is_null() || count == 0 { &mut [] } else { std::slice::from_raw_parts_mut(set, count as usize) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn poll(set: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    if !active() {
        return real::poll(set, count, timeout);
    }
    outcome(wait(set_of(set, count), millis_deadline(timeout)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(set: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int {
    if !active() {
        return real::ppoll(set, count, timeout, mask);
    }
    let deadline = if timeout.is_null() { u64::MAX } else { deadline_after(timespec_picos(&*timeout)) };
    with_mask(mask, || outcome(wait(set_of(set, count), deadline)))
}

/// Runs `body` under another signal mask.
pub unsafe fn with_mask(mask: *const sigset_t, body: impl FnOnce() -> c_int) -> c_int {
    if mask.is_null() {
        return body();
    }
    let mut old: sigset_t = std::mem::zeroed();
    crate::signal::actions::pthread_sigmask(libc::SIG_SETMASK, mask, &raw mut old);
    let result = body();
    crate::runtime::world::keeping_errno(|| real::pthread_sigmask(libc::SIG_SETMASK, &raw const old, std::ptr::null_mut()));
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __poll_chk(set: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int {
    crate::fd::io::check_room(count as usize * size_of::<pollfd>(), room);
    poll(set, count, timeout)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __ppoll_chk(set: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, room: size_t) -> c_int {
    crate::fd::io::check_room(count as usize * size_of::<pollfd>(), room);
    ppoll(set, count, timeout, mask)
}
