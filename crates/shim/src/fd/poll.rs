//! `poll` and `ppoll`.

use crate::clib::args::{In, Out, Zeroed, slice_mut};
use crate::clib::real;
use crate::fd::descriptors::poll_natively;
use crate::fd::interest::{self, Native, from_poll, to_poll};
use crate::fd::{management, terminal};
use crate::runtime::world::{PICOS_PER_MICRO, active, deadline_after, fail, timespec_picos};
use crate::signal::handlers;
use crate::sync::doorbell::Place;
use crate::sync::threads::pthread_testcancel;
use libc::{c_int, nfds_t, pollfd, sigset_t, size_t, timespec};
use softband_client::{Errno, fds};
use softband_ipc::calls::WaitEntry;
use softband_ipc::calls::readiness::READABLE;

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
        terminal::settle_watched(self.set.iter().map(|element| element.fd));
        usize::try_from(poll_natively(&mut self.set, 0)).map_err(|_| Errno(crate::runtime::world::errno()))
    }
    fn block(&mut self) {
        poll_natively(&mut self.set, -1);
    }
}

/// Waits for the set until the deadline. Returns the number of elements with events.
pub fn wait(set: &mut [pollfd], deadline: u64) -> Result<usize, Errno> {
    wait_beside(set, deadline, None).map(|(count, _)| count)
}

/// Waits as [`wait`], at most until the object `bell` is readable. Also returns whether it is.
fn wait_beside(set: &mut [pollfd], deadline: u64, bell: Option<u32>) -> Result<(usize, bool), Errno> {
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
            for entry in crate::fd::epoll::entries_of(element.fd) {
                entries.push(entry);
                owners.push(index);
            }
        }
    }
    let native = kernel.set.iter().any(|element| element.fd >= 0);
    entries.extend(bell.map(|bell| interest::entry(bell, READABLE)));
    interest::wait(&mut entries, native.then_some(&mut kernel), deadline)?;
    let rang = bell.is_some() && entries.last().is_some_and(|bell| bell.ready != 0);
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
    Ok((set.iter().filter(|element| element.revents != 0).count(), rang))
}

/// Waits as [`wait`], at most until another thread cancels this one. Returns `None` then.
fn wait_until_cancelled(set: &mut [pollfd], deadline: u64) -> Option<c_int> {
    // Nobody else wakes threads at this address.
    let place = Place::take(set.as_ptr() as usize);
    let waited = wait_beside(set, deadline, place.as_ref().map(Place::bell));
    if let (Ok((0, true)), Some(place)) = (&waited, &place) {
        place.hear();
        return None;
    }
    Some(outcome(waited.map(|(count, _)| count)))
}

/// Returns whether a set has a MAD device. Its readers may end by `pthread_cancel` (OpenSM). A wait
/// for other descriptors is no cancellation point.
fn has_device(set: &[pollfd]) -> bool {
    set.iter().any(|element| management::entry(element.fd).is_some())
}

fn outcome(result: Result<usize, Errno>) -> c_int {
    match result {
        Ok(count) => count as c_int,
        Err(Errno(errno)) => fail(errno),
    }
}

/// Implements `poll`.
///
/// # Safety
/// `set` has `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn poll(set: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    if !active() {
        // SAFETY: the kernel uses the caller's `count` elements alone.
        return unsafe { real::poll(set, count, timeout) };
    }
    // SAFETY: the caller's array has `count` elements, which nothing else uses during the call.
    let set = unsafe { slice_mut(set, count as usize) };
    let deadline = millis_deadline(timeout);
    if !has_device(set) {
        return outcome(wait(set, deadline));
    }
    loop {
        pthread_testcancel();
        if let Some(result) = wait_until_cancelled(set, deadline) {
            return result;
        }
    }
}

/// Implements `ppoll`.
///
/// # Safety
/// `set` has `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(set: *mut pollfd, count: nfds_t, timeout: In<timespec>, mask: In<sigset_t>) -> c_int {
    if !active() {
        // SAFETY: the C library gets the caller's array with its own length.
        return unsafe { real::ppoll(set, count, timeout, mask) };
    }
    let deadline = timeout.get().map_or(u64::MAX, |timeout| deadline_after(timespec_picos(&timeout)));
    // SAFETY: the caller's array has `count` elements, which the program leaves alone meanwhile.
    let set = unsafe { slice_mut(set, count as usize) };
    with_mask(mask, deadline, |deadline| outcome(wait(set, deadline)))
}

/// Waits by `wait` under another signal mask until the deadline. A signal that the mask lets in at
/// once ends the wait, unless something is ready.
pub fn with_mask(mask: In<sigset_t>, deadline: u64, wait: impl FnOnce(u64) -> c_int) -> c_int {
    if mask.is_null() {
        return wait(deadline);
    }
    let mut old = sigset_t::zeroed();
    let known = handlers::runs();
    crate::signal::actions::pthread_sigmask(libc::SIG_SETMASK, mask, Out::of(&mut old));
    let is_interrupted = handlers::runs() != known;
    let result = wait(if is_interrupted { 0 } else { deadline });
    crate::runtime::world::keeping_errno(|| real::pthread_sigmask(libc::SIG_SETMASK, In::of(&old), Out::NULL));
    if is_interrupted && result == 0 { fail(libc::EINTR) } else { result }
}

/// Implements `poll` with a known size of the array, in bytes.
///
/// # Safety
/// `set` has `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll_chk(set: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int {
    crate::fd::io::check_room(count as usize * size_of::<pollfd>(), room);
    // SAFETY: the check ends the process unless `count` elements fit into the array.
    unsafe { poll(set, count, timeout) }
}

/// Implements `ppoll` with a known size of the array, in bytes.
///
/// # Safety
/// `set` has `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __ppoll_chk(set: *mut pollfd, count: nfds_t, timeout: In<timespec>, mask: In<sigset_t>, room: size_t) -> c_int {
    crate::fd::io::check_room(count as usize * size_of::<pollfd>(), room);
    // SAFETY: the array holds `count` elements, or the check above ended the process.
    unsafe { ppoll(set, count, timeout, mask) }
}
