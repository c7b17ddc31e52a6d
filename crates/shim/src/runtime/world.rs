//! Checks whether the calling thread lives in simulated time, and provides helpers for all
//! interposers.

use crate::runtime::attach;
use libc::c_int;
use softband_client as client;
use std::cell::Cell;

pub const PICOS_PER_NANO: u64 = 1_000;
pub const PICOS_PER_MICRO: u64 = 1_000_000;
pub const PICOS_PER_SECOND: u64 = 1_000_000_000_000;

/// Returns whether the engine controls the waits and the clock of the calling thread.
#[inline]
pub fn active() -> bool {
    attach::attached() && !client::is_wall() && client::has_slot()
}

/// Returns whether this process runs in a fabric at wall pace. Its names and addresses belong to
/// the fabric, everything else to the host.
#[inline]
pub fn walled() -> bool {
    attach::attached() && client::is_wall()
}

thread_local! {
    /// Whether the calling thread has given the token away, and whether it blocks in the system
    /// meanwhile.
    static PARKED: Cell<bool> = const { Cell::new(false) };
    static AWAY: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the calling thread lacks the token.
pub fn is_parked() -> bool {
    PARKED.get()
}

pub fn set_parked(on: bool) {
    PARKED.set(on);
}

/// Returns whether the calling thread is in [`away`].
pub fn is_away() -> bool {
    AWAY.get()
}

/// Runs `blocking` while the engine does not wait for this thread.
pub fn away<R>(blocking: impl FnOnce() -> R) -> R {
    if !active() {
        return blocking();
    }
    client::away(|| {
        AWAY.set(true);
        let result = blocking();
        AWAY.set(false);
        result
    })
}

/// Ends [`away`] in a thread that a cancellation has ended there.
pub fn return_if_away() {
    AWAY.set(false);
    client::return_if_away();
}

/// Sets `errno` and returns -1, as C functions do.
pub fn fail<T: From<i8>>(errno: c_int) -> T {
    set_errno(errno);
    T::from(-1)
}

/// Returns the calling thread's `errno`.
fn errno_cell() -> &'static Cell<c_int> {
    // SAFETY: the number belongs to the calling thread and lives as long as it. A `Cell` does not
    // leave the thread.
    unsafe { &*libc::__errno_location().cast::<Cell<c_int>>() }
}

pub fn set_errno(errno: c_int) {
    errno_cell().set(errno);
}

pub fn errno() -> c_int {
    errno_cell().get()
}

/// Runs `body` and restores `errno`.
pub fn keeping_errno<R>(body: impl FnOnce() -> R) -> R {
    let saved = errno();
    let result = body();
    set_errno(saved);
    result
}

/// Returns a duration in picoseconds. A negative duration becomes 0; an excessive duration
/// saturates.
pub fn picos(seconds: i64, nanos: i64) -> u64 {
    let Ok(seconds) = u64::try_from(seconds) else { return 0 };
    let nanos = u64::try_from(nanos).unwrap_or(0);
    seconds.saturating_mul(PICOS_PER_SECOND).saturating_add(nanos.saturating_mul(PICOS_PER_NANO))
}

pub fn timespec_picos(time: &libc::timespec) -> u64 {
    picos(time.tv_sec, time.tv_nsec)
}

pub fn timeval_picos(time: &libc::timeval) -> u64 {
    picos(time.tv_sec, time.tv_usec.saturating_mul(1_000))
}

pub fn to_timespec(picos: u64) -> libc::timespec {
    libc::timespec { tv_sec: (picos / PICOS_PER_SECOND) as i64, tv_nsec: (picos % PICOS_PER_SECOND / PICOS_PER_NANO) as i64 }
}

pub fn to_timeval(picos: u64) -> libc::timeval {
    libc::timeval { tv_sec: (picos / PICOS_PER_SECOND) as i64, tv_usec: (picos % PICOS_PER_SECOND / PICOS_PER_MICRO) as i64 }
}

/// Returns whether the kernel accepts a `timespec`.
pub fn is_valid(time: &libc::timespec) -> bool {
    time.tv_sec >= 0 && (0..1_000_000_000).contains(&time.tv_nsec)
}

/// Returns the point `duration` after now on the calling thread's clock, in picoseconds.
pub fn deadline_after(duration: u64) -> u64 {
    client::now_ps().saturating_add(duration)
}
