//! Semaphores, private or shared. A doorbell wakes the waiters of a private semaphore; the waiters
//! of a shared semaphore poll.

use crate::clib::real;
use crate::runtime::world::{active, errno, fail, keeping_errno};
use crate::sync::doorbell::{self, Place};
use crate::time::clock::from_clock;
use crate::time::pace::Patience;
use libc::{c_int, clockid_t, sem_t, timespec};
use softband_client as client;
use softband_ipc::calls::reason;

/// Layout of glibc's `struct new_sem` on x86-64: value and waiters in eight bytes, then zero for
/// private or nonzero for shared.
const SEM_PRIVATE: usize = 8;

unsafe fn is_shared(semaphore: *mut sem_t) -> bool {
    semaphore.cast::<u8>().add(SEM_PRIVATE).cast::<c_int>().read() != 0
}

unsafe fn wait_until(semaphore: *mut sem_t, deadline: u64) -> c_int {
    let patience = Patience::of(reason::LOCK);
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
        let place = if is_shared(semaphore) { None } else { Place::take(semaphore as usize) };
        match place {
            Some(place) => {
                place.wait(deadline);
            }
            None => {
                if patience.step(deadline).is_err() {
                    return fail(libc::EINTR);
                }
            }
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_wait(semaphore: *mut sem_t) -> c_int {
    if active() { wait_until(semaphore, u64::MAX) } else { real::sem_wait(semaphore) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_timedwait(semaphore: *mut sem_t, until: *const timespec) -> c_int {
    if active() { wait_until(semaphore, from_clock(libc::CLOCK_REALTIME, &*until)) } else { real::sem_timedwait(semaphore, until) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, until: *const timespec) -> c_int {
    if active() {
        return wait_until(semaphore, from_clock(clock, &*until));
    }
    // Only newer C libraries have the original. During a wait, the two clocks differ by a constant.
    if clock == libc::CLOCK_REALTIME {
        return real::sem_timedwait(semaphore, until);
    }
    let (mut monotonic, mut realtime): (timespec, timespec) = std::mem::zeroed();
    real::kernel_clock_gettime(clock, &raw mut monotonic);
    real::kernel_clock_gettime(libc::CLOCK_REALTIME, &raw mut realtime);
    let nanos = |time: &timespec| i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    let at = (nanos(&*until) - nanos(&monotonic) + nanos(&realtime)).max(0);
    let until = timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
    real::sem_timedwait(semaphore, &raw const until)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sem_post(semaphore: *mut sem_t) -> c_int {
    let status = real::sem_post(semaphore);
    if status == 0 && doorbell::is_awaited(semaphore as usize) && active() {
        keeping_errno(|| doorbell::wake(semaphore as usize, 1));
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_semaphore_is_told_from_a_private_one() {
        // SAFETY: the semaphores are initialised.
        unsafe {
            let mut semaphore: sem_t = std::mem::zeroed();
            libc::sem_init(&raw mut semaphore, 0, 1);
            assert!(!is_shared(&raw mut semaphore));
            assert_eq!(sem_wait(&raw mut semaphore), 0);
            assert_eq!(sem_post(&raw mut semaphore), 0);
            libc::sem_init(&raw mut semaphore, 1, 1);
            assert!(is_shared(&raw mut semaphore));
        }
    }
}
