//! Implements `syscall`, by which runtimes of other languages wait and ask the time (Rust, atomics
//! of OpenMP and C++). Calls about time, processes and randomness go to the functions of their
//! names. All others pass through.

use crate::clib::real;
use crate::fd::descriptors::{close, close_range};
use crate::fd::random::getrandom;
use crate::process::exec::{Strings, execve, execveat};
use crate::process::pid::{gettid, kill, own_number, system_thread, tgkill};
use crate::runtime::world::{active, deadline_after, fail, is_away, is_parked, keeping_errno, timespec_picos};
use crate::spin;
use crate::sync::doorbell::{self, Place};
use crate::time::clock::{clock_gettime, from_clock, gettimeofday};
use crate::time::pace::Patience;
use crate::time::sleep::{clock_nanosleep, nanosleep, sched_yield};
use libc::{c_char, c_int, c_long, c_uint, clockid_t, timespec};
use softband_client as client;
use softband_ipc::calls::reason;
use std::sync::atomic::{AtomicU32, Ordering};

/// Takes six arguments without variadic parameters. They travel in the same places whether present
/// or not (System V ABI).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long {
    match number {
        // A program must not close the descriptors of this library.
        libc::SYS_close_range => return close_range(a as c_uint, b as c_uint, c as c_int).into(),
        libc::SYS_close => return close(a as c_int).into(),
        // The new image needs a ticket and the machine's own time-stamp counter.
        libc::SYS_execve => return execve(a as *const c_char, b as Strings, c as Strings).into(),
        libc::SYS_execveat => return execveat(a as c_int, b as *const c_char, c as Strings, d as Strings, e as c_int).into(),
        _ => {}
    }
    // A thread that waits for the token may call this in a signal handler or in our own code.
    if !active() || is_parked() || is_away() {
        return real::syscall(number, a, b, c, d, e, f);
    }
    match number {
        libc::SYS_futex => {
            if let Some(result) = futex(a as *const AtomicU32, b as c_int, c as u32, d) {
                return result;
            }
        }
        libc::SYS_nanosleep => return nanosleep(a as *const timespec, b as *mut timespec).into(),
        libc::SYS_clock_nanosleep => {
            return match clock_nanosleep(a as clockid_t, b as c_int, c as *const timespec, d as *mut timespec) {
                0 => 0,
                error => fail(error),
            };
        }
        libc::SYS_clock_gettime => return clock_gettime(a as clockid_t, b as *mut timespec).into(),
        libc::SYS_gettimeofday => return gettimeofday(a as *mut libc::timeval, b as *mut libc::timezone).into(),
        libc::SYS_sched_yield => return sched_yield().into(),
        libc::SYS_getpid => return own_number().into(),
        libc::SYS_gettid => return gettid().into(),
        libc::SYS_tgkill => return tgkill(a as c_int, b as c_int, c as c_int).into(),
        libc::SYS_tkill => return kernel!(libc::SYS_tkill, system_thread(a as c_int), b),
        libc::SYS_kill => return kill(a as c_int, b as c_int).into(),
        libc::SYS_getrandom => return getrandom(a as *mut libc::c_void, b as usize, c as c_uint) as c_long,
        _ => {}
    }
    spin::before_native();
    let a = if names_thread(number) { system_thread(a as c_int).into() } else { a };
    real::syscall(number, a, b, c, d, e, f)
}

/// Returns whether the first argument of a call is a thread.
fn names_thread(number: c_long) -> bool {
    use libc::{SYS_sched_getaffinity, SYS_sched_getattr, SYS_sched_getparam, SYS_sched_getscheduler};
    use libc::{SYS_sched_setaffinity, SYS_sched_setattr, SYS_sched_setparam, SYS_sched_setscheduler};
    let asks = [SYS_sched_getaffinity, SYS_sched_getattr, SYS_sched_getparam, SYS_sched_getscheduler];
    let sets = [SYS_sched_setaffinity, SYS_sched_setattr, SYS_sched_setparam, SYS_sched_setscheduler];
    asks.contains(&number) || sets.contains(&number)
}

/// Handles waits and wake-ups. Returns `None` for operations left to the kernel.
unsafe fn futex(word: *const AtomicU32, operation: c_int, value: u32, timeout: c_long) -> Option<c_long> {
    let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
    let until = timeout as *const timespec;
    match operation & !flags {
        libc::FUTEX_WAIT => {
            let deadline = if until.is_null() { u64::MAX } else { deadline_after(timespec_picos(&*until)) };
            Some(wait(&*word, operation & libc::FUTEX_PRIVATE_FLAG != 0, value, deadline))
        }
        libc::FUTEX_WAIT_BITSET => {
            let clock = if operation & libc::FUTEX_CLOCK_REALTIME == 0 { libc::CLOCK_MONOTONIC } else { libc::CLOCK_REALTIME };
            let deadline = if until.is_null() { u64::MAX } else { from_clock(clock, &*until) };
            Some(wait(&*word, operation & libc::FUTEX_PRIVATE_FLAG != 0, value, deadline))
        }
        // Too many of the threads that wait for certain bits may wake; they check again.
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET if doorbell::is_awaited(word as usize) => {
            let woken = keeping_errno(|| doorbell::wake(word as usize, value as usize)) as c_long;
            let left = c_long::from(value) - woken;
            let natively = if left > 0 { kernel!(libc::SYS_futex, word, libc::FUTEX_WAKE | operation & libc::FUTEX_PRIVATE_FLAG, left) } else { 0 };
            Some(woken + natively.max(0))
        }
        _ => None,
    }
}

fn wait(word: &AtomicU32, is_private: bool, value: u32, deadline: u64) -> c_long {
    let has_changed = || word.load(Ordering::SeqCst) != value;
    if has_changed() {
        return fail(libc::EAGAIN);
    }
    if is_private && let Some(place) = Place::take(std::ptr::from_ref(word) as usize) {
        // The call above may have given the token away.
        if has_changed() {
            return fail(libc::EAGAIN);
        }
        return if keeping_errno(|| place.wait(deadline)) { 0 } else { fail(libc::ETIMEDOUT) };
    }
    let patience = Patience::of(reason::LOCK);
    while !has_changed() {
        if deadline <= client::now_ps() {
            return fail(libc::ETIMEDOUT);
        }
        if patience.step(deadline).is_err() {
            return fail(libc::EINTR);
        }
    }
    0
}
