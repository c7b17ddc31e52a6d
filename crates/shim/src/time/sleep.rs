//! Sleeps. The thread gives the token away until the end of its sleep.

use crate::clib::args::{In, Out, Zeroed};
use crate::clib::real;
use crate::process::children;
use crate::runtime::world::{
    PICOS_PER_MICRO, PICOS_PER_SECOND, active, deadline_after, errno, fail, is_valid, keeping_errno, timespec_picos, to_timespec,
};
use crate::signal::{actions, handlers};
use crate::sync::threads::pthread_testcancel;
use crate::time::clock::from_clock;
use crate::time::pace::{Patience, sleep_until};
use libc::{c_int, c_uint, clockid_t, timespec, useconds_t};
use softband_client as client;
use softband_ipc::calls::reason;
use std::sync::atomic::Ordering;

/// Implements `clock_nanosleep`, a cancellation point.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn clock_nanosleep(id: clockid_t, flags: c_int, request: In<timespec>, remain: Out<timespec>) -> c_int {
    let result = sleep_on_clock(id, flags, request, remain);
    pthread_testcancel();
    result
}

/// Implements `nanosleep`, a cancellation point.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn nanosleep(request: In<timespec>, remain: Out<timespec>) -> c_int {
    let result = sleep_for(request, remain);
    pthread_testcancel();
    result
}

/// `clock_nanosleep`, which cancellation does not end.
pub fn sleep_on_clock(id: clockid_t, flags: c_int, request: In<timespec>, remain: Out<timespec>) -> c_int {
    if !active() {
        return real::clock_nanosleep(id, flags, request, remain);
    }
    let exists = (0..=libc::CLOCK_TAI).contains(&id);
    let Some(request) = request.get().filter(|request| exists && is_valid(request)) else { return libc::EINVAL };
    let absolute = flags & libc::TIMER_ABSTIME != 0;
    let until = if absolute { from_clock(id, &request) } else { deadline_after(timespec_picos(&request)) };
    if until <= client::now_ps() {
        return 0;
    }
    match keeping_errno(|| sleep_until(until)) {
        Ok(()) => 0,
        Err(error) => {
            if !absolute {
                remain.set(to_timespec(until.saturating_sub(client::now_ps())));
            }
            error.0
        }
    }
}

/// `nanosleep`, which cancellation does not end.
pub fn sleep_for(request: In<timespec>, remain: Out<timespec>) -> c_int {
    if !active() {
        return real::nanosleep(request, remain);
    }
    match sleep_on_clock(libc::CLOCK_MONOTONIC, 0, request, remain) {
        0 => 0,
        error => fail(error),
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn usleep(micros: useconds_t) -> c_int {
    if !active() {
        return real::usleep(micros);
    }
    let slept = sleep_until(deadline_after(u64::from(micros) * PICOS_PER_MICRO));
    pthread_testcancel();
    match slept {
        Ok(()) => 0,
        Err(error) => fail(error.0),
    }
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn sleep(seconds: c_uint) -> c_uint {
    if !active() {
        return real::sleep(seconds);
    }
    let until = deadline_after(u64::from(seconds) * PICOS_PER_SECOND);
    let saved = errno();
    let slept = sleep_until(until);
    pthread_testcancel();
    if slept.is_ok() {
        crate::runtime::world::set_errno(saved);
        return 0;
    }
    (until.saturating_sub(client::now_ps()).div_ceil(PICOS_PER_SECOND)) as c_uint
}

#[unsafe(no_mangle)]
pub extern "C" fn thrd_sleep(request: In<timespec>, remain: Out<timespec>) -> c_int {
    match sleep_on_clock(libc::CLOCK_REALTIME, 0, request, remain) {
        0 => 0,
        libc::EINTR => -1,
        _ => -2,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn sched_yield() -> c_int {
    if !active() {
        return real::sched_yield();
    }
    // A yield is a poll for the progress of another thread.
    crate::time::pace::yield_turn();
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn thrd_yield() {
    sched_yield();
}

/// Implements the name `pthread_yield` of older programs.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_yield() -> c_int {
    sched_yield()
}

/// Waits for a signal of the engine or of the system, without a limit.
#[unsafe(no_mangle)]
pub extern "C" fn pause() -> c_int {
    if !active() {
        return real::pause();
    }
    wait_for_signal(handlers::runs(), real::pause)
}

#[unsafe(no_mangle)]
pub extern "C" fn sigsuspend(mask: In<libc::sigset_t>) -> c_int {
    if !active() {
        return real::sigsuspend(mask);
    }
    let mut old = libc::sigset_t::zeroed();
    let known = handlers::runs();
    let allowed = mask.get().map(actions::without_ours);
    let mask = allowed.as_ref().map_or(In::NULL, In::of);
    real::pthread_sigmask(libc::SIG_SETMASK, mask, Out::of(&mut old));
    let result = wait_for_signal(known, || real::sigsuspend(mask));
    let saved = errno();
    real::pthread_sigmask(libc::SIG_SETMASK, In::of(&old), Out::NULL);
    crate::runtime::world::set_errno(saved);
    result
}

/// Sleeps until a handler has run that `known` does not count. Alarms and the ends of children come
/// in simulated time. If neither is possible, the thread waits for a system signal outside
/// simulated time.
fn wait_for_signal(known: u64, native: impl FnOnce() -> c_int) -> c_int {
    let patience = Patience::of(reason::SIGNAL);
    while handlers::runs() == known {
        let alarm = match client::header().deadline_ps.load(Ordering::Relaxed) {
            0 => u64::MAX,
            at => at,
        };
        let handles_child_signals = children::any_unreported() && handlers::handles_child_signals();
        if !handles_child_signals && alarm == u64::MAX {
            return crate::runtime::world::away(native);
        }
        if let Some(child) = if handles_child_signals { children::unreported_end() } else { None } {
            await_end_of(child, known);
            break;
        }
        let waited = if handles_child_signals { patience.step(alarm) } else { sleep_until(u64::MAX) };
        if waited.is_err() {
            break;
        }
    }
    fail(libc::EINTR)
}

/// Waits for the signal of an ended child. The kernel sends the signal at any time, but it belongs
/// to this moment of simulated time.
fn await_end_of(child: libc::pid_t, known: u64) {
    for _ in 0..200 {
        if handlers::runs() != known {
            return;
        }
        crate::fd::descriptors::await_natively(&mut [], 1);
    }
    // One signal may report several ends, or it came during our own code and was kept.
    children::report_end(child);
    client::sync();
}
