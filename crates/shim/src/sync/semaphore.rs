//! Semaphores, private or shared. A doorbell wakes the waiters of a private semaphore; the waiters
//! of a shared semaphore poll.

use crate::clib::args::{In, Managed, Out, Zeroed};
use crate::clib::real;
use crate::runtime::world::{active, errno, fail, keeping_errno};
use crate::signal::handlers;
use crate::sync::doorbell::{self, End, Place};
use crate::sync::threads::pthread_testcancel;
use crate::time::clock::from_clock;
use crate::time::pace::Patience;
use libc::{c_int, clockid_t, sem_t, timespec};
use softband_client as client;
use softband_ipc::calls::reason;

/// Layout of glibc's `struct new_sem` on x86-64: value and waiters in eight bytes, then zero for
/// private or nonzero for shared.
const SEM_PRIVATE: usize = 8;

fn is_shared(semaphore: Managed<sem_t>) -> bool {
    semaphore.field(SEM_PRIVATE) != 0
}

fn wait_until(semaphore: Managed<sem_t>, deadline: u64) -> c_int {
    let patience = Patience::of(reason::LOCK);
    let mut known = handlers::runs();
    loop {
        if real::sem_trywait(semaphore) == 0 {
            return 0;
        }
        if errno() != libc::EAGAIN {
            return -1;
        }
        if deadline <= client::now_ps() {
            return fail(libc::ETIMEDOUT);
        }
        pthread_testcancel();
        let place = if is_shared(semaphore) { None } else { Place::take(semaphore.address()) };
        let end = if let Some(place) = place {
            Some(place.wait_interruptibly(deadline))
        } else {
            let _ = patience.step(deadline);
            doorbell::interruption(&mut known, deadline)
        };
        if end == Some(End::Interrupted) {
            return fail(libc::EINTR);
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn sem_wait(semaphore: Managed<sem_t>) -> c_int {
    if active() { wait_until(semaphore, u64::MAX) } else { real::sem_wait(semaphore) }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn sem_timedwait(semaphore: Managed<sem_t>, until: In<timespec>) -> c_int {
    if !active() {
        return real::sem_timedwait(semaphore, until);
    }
    let Some(until) = until.get() else { return fail(libc::EINVAL) };
    wait_until(semaphore, from_clock(libc::CLOCK_REALTIME, &until))
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn sem_clockwait(semaphore: Managed<sem_t>, clock: clockid_t, until: In<timespec>) -> c_int {
    let Some(limit) = until.get() else { return fail(libc::EINVAL) };
    if active() {
        return wait_until(semaphore, from_clock(clock, &limit));
    }
    // Only newer C libraries have the original. During a wait, the two clocks differ by a constant.
    if clock == libc::CLOCK_REALTIME {
        return real::sem_timedwait(semaphore, until);
    }
    let (mut monotonic, mut realtime) = (timespec::zeroed(), timespec::zeroed());
    real::kernel_clock_gettime(clock, Out::of(&mut monotonic));
    real::kernel_clock_gettime(libc::CLOCK_REALTIME, Out::of(&mut realtime));
    let nanos = |time: &timespec| i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    let at = (nanos(&limit) - nanos(&monotonic) + nanos(&realtime)).max(0);
    let until = timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
    real::sem_timedwait(semaphore, In::of(&until))
}

#[unsafe(no_mangle)]
pub extern "C" fn sem_post(semaphore: Managed<sem_t>) -> c_int {
    let status = real::sem_post(semaphore);
    if status == 0 && doorbell::is_awaited(semaphore.address()) && active() {
        keeping_errno(|| doorbell::wake(semaphore.address(), 1));
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_semaphore_is_told_from_a_private_one() {
        let mut semaphores = [sem_t::zeroed(); 2];
        let [private, shared] = semaphores.each_mut().map(std::ptr::from_mut);
        // SAFETY: nothing else uses the semaphores; the calls initialise them.
        let (private, shared) = unsafe {
            libc::sem_init(private, 0, 1);
            libc::sem_init(shared, 1, 1);
            (Managed::of(&mut *private), Managed::of(&mut *shared))
        };
        assert!(!is_shared(private));
        assert_eq!(sem_wait(private), 0);
        assert_eq!(sem_post(private), 0);
        assert!(is_shared(shared));
    }
}
