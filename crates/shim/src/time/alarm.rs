//! Timers that raise a signal. The engine keeps them and delivers their signals at a turn.

use crate::clib::args::{In, Out, Zeroed};
use crate::clib::real;
use crate::runtime::world::{PICOS_PER_SECOND, active, deadline_after, fail, is_valid, timespec_picos, timeval_picos, to_timespec, to_timeval};
use crate::time::clock::from_clock;
use libc::{c_int, c_uint, clockid_t, itimerspec, itimerval, sigevent, timer_t};
use softband_client::{self as client, Errno, warn};
use softband_ipc::calls::{Alarm, op};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Most timers that `timer_create` creates.
const TIMERS_MAX: usize = 32;
/// Base of our timer ids. The system never uses it, so the library recognises its own timers.
const TIMER_TAG: usize = 0x5b00_0000;

/// The engine's timer of a signal, as last set here. `getitimer` and `timer_gettime` therefore need
/// no call.
struct Setting {
    at_ps: AtomicU64,
    interval_ps: AtomicU64,
}

static SETTINGS: [Setting; 65] = [const { Setting { at_ps: AtomicU64::new(0), interval_ps: AtomicU64::new(0) } }; 65];
/// Signal of each timer. 0 means free; [`NO_SIGNAL`] marks a timer that only counts.
static TIMERS: [AtomicU32; TIMERS_MAX] = [const { AtomicU32::new(0) }; TIMERS_MAX];
const NO_SIGNAL: u32 = 64;

/// Sets the timer of `signal`. Returns the former setting as (remaining, interval), in picoseconds.
fn set(signal: u32, at_ps: u64, interval_ps: u64) -> Result<(u64, u64), Errno> {
    let former = current(signal);
    if signal != NO_SIGNAL {
        client::call::<op::Alarm>(&Alarm { at_ps, interval_ps, signal, reserved: 0 })?;
    }
    let setting = &SETTINGS[signal as usize];
    setting.at_ps.store(at_ps, Ordering::Relaxed);
    setting.interval_ps.store(interval_ps, Ordering::Relaxed);
    Ok(former)
}

/// Returns the remaining time and the interval of the timer of `signal`, in picoseconds.
fn current(signal: u32) -> (u64, u64) {
    let setting = &SETTINGS[signal as usize];
    let (at, interval) = (setting.at_ps.load(Ordering::Relaxed), setting.interval_ps.load(Ordering::Relaxed));
    (remaining(at, interval, client::now_ps()), interval)
}

/// Returns the time from `now` to the next expiry of a timer first due at `at`. Returns 0 if the
/// timer is off.
fn remaining(at: u64, interval: u64, now: u64) -> u64 {
    if at == 0 || (at <= now && interval == 0) {
        0
    } else if at > now {
        at - now
    } else {
        interval - (now - at) % interval
    }
}

/// Clears all timers, because a child process inherits none.
pub fn forget_all() {
    for setting in &SETTINGS {
        setting.at_ps.store(0, Ordering::Relaxed);
        setting.interval_ps.store(0, Ordering::Relaxed);
    }
    for timer in &TIMERS {
        timer.store(0, Ordering::Relaxed);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn alarm(seconds: c_uint) -> c_uint {
    if !active() {
        return real::alarm(seconds);
    }
    let at = if seconds == 0 { 0 } else { deadline_after(u64::from(seconds) * PICOS_PER_SECOND) };
    let (left, _) = set(libc::SIGALRM as u32, at, 0).unwrap_or((0, 0));
    // Rounds to the nearest second, but never to zero while time is left (alarm(2) of Linux).
    if left == 0 { 0 } else { ((left + PICOS_PER_SECOND / 2) / PICOS_PER_SECOND).max(1) as c_uint }
}

#[unsafe(no_mangle)]
pub extern "C" fn ualarm(micros: libc::useconds_t, interval: libc::useconds_t) -> libc::useconds_t {
    let parts = |micros: libc::useconds_t| libc::timeval { tv_sec: i64::from(micros / 1_000_000), tv_usec: i64::from(micros % 1_000_000) };
    let new = itimerval { it_value: parts(micros), it_interval: parts(interval) };
    let mut old = itimerval::zeroed();
    if setitimer(libc::ITIMER_REAL, In::of(&new), Out::of(&mut old)) != 0 {
        return libc::useconds_t::MAX;
    }
    (old.it_value.tv_sec * 1_000_000 + old.it_value.tv_usec) as libc::useconds_t
}

#[unsafe(no_mangle)]
pub extern "C" fn setitimer(which: c_int, new: In<itimerval>, old: Out<itimerval>) -> c_int {
    if !active() || which != libc::ITIMER_REAL as c_int {
        if active() {
            warn::once("setitimer: timers over CPU time run on the host's clock");
        }
        return real::setitimer(which, new, old);
    }
    let Some(new) = new.get() else { return getitimer(which, old) };
    let (value, interval) = (timeval_picos(&new.it_value), timeval_picos(&new.it_interval));
    let at = if value == 0 { 0 } else { deadline_after(value) };
    match set(libc::SIGALRM as u32, at, interval) {
        Ok((left, interval)) => {
            old.set(itimerval { it_value: to_timeval(left), it_interval: to_timeval(interval) });
            0
        }
        Err(error) => fail(error.0),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn getitimer(which: c_int, out: Out<itimerval>) -> c_int {
    if !active() || which != libc::ITIMER_REAL as c_int {
        return real::getitimer(which, out);
    }
    let (left, interval) = current(libc::SIGALRM as u32);
    out.set(itimerval { it_value: to_timeval(left), it_interval: to_timeval(interval) });
    0
}

/// Returns the table entry of a timer of this library, if the calling thread may use it.
fn own_cell(timer: timer_t) -> Option<&'static AtomicU32> {
    TIMERS.get((timer as usize).wrapping_sub(TIMER_TAG)).filter(|_| active())
}

#[unsafe(no_mangle)]
pub extern "C" fn timer_create(clock: clockid_t, event: In<sigevent>, timer: Out<timer_t>) -> c_int {
    if !active() {
        return real::timer_create(clock, event, timer);
    }
    let signal = match event.get() {
        None => libc::SIGALRM as u32,
        Some(event) => match event.sigev_notify {
            libc::SIGEV_NONE => NO_SIGNAL,
            libc::SIGEV_SIGNAL | libc::SIGEV_THREAD_ID => event.sigev_signo as u32,
            _ => {
                warn::once("timer_create: SIGEV_THREAD is not supported in simulated time");
                return fail(libc::ENOTSUP);
            }
        },
    };
    if signal == 0 || signal > 64 {
        return fail(libc::EINVAL);
    }
    if signal != NO_SIGNAL && TIMERS.iter().any(|cell| cell.load(Ordering::Relaxed) == signal) {
        warn::once("timer_create: one timer for each signal is all that simulated time has");
        return fail(libc::EAGAIN);
    }
    let free = TIMERS.iter().position(|cell| cell.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed).is_ok());
    let Some(index) = free else { return fail(libc::EAGAIN) };
    // Absolute times need the clock, because the clocks start at different dates.
    CLOCKS[index].store(clock as u32, Ordering::Relaxed);
    timer.set((TIMER_TAG + index) as timer_t);
    0
}

static CLOCKS: [AtomicU32; TIMERS_MAX] = [const { AtomicU32::new(0) }; TIMERS_MAX];

/// Implements `timer_settime`.
///
/// # Safety
/// The timer comes from `timer_create`, and nobody deleted it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_settime(timer: timer_t, flags: c_int, new: In<itimerspec>, old: Out<itimerspec>) -> c_int {
    let Some(cell) = own_cell(timer) else {
        // SAFETY: the C library created the timer, or the kernel refuses an id of ours.
        return unsafe { real::timer_settime(timer, flags, new, old) };
    };
    let signal = cell.load(Ordering::Relaxed);
    let Some(new) = new.get().filter(|new| signal != 0 && is_valid(&new.it_value)) else { return fail(libc::EINVAL) };
    let clock = CLOCKS[timer as usize - TIMER_TAG].load(Ordering::Relaxed) as clockid_t;
    let at = due(clock, flags & libc::TIMER_ABSTIME != 0, &new.it_value);
    match set(signal, at, timespec_picos(&new.it_interval)) {
        Ok((left, interval)) => {
            old.set(itimerspec { it_value: to_timespec(left), it_interval: to_timespec(interval) });
            0
        }
        Err(error) => fail(error.0),
    }
}

/// Returns the first expiry of a timer set to `value`; 0 turns the timer off. A timer in the past
/// is due at once, not never.
pub fn due(clock: clockid_t, absolute: bool, value: &libc::timespec) -> u64 {
    if value.tv_sec == 0 && value.tv_nsec == 0 {
        0
    } else if absolute {
        from_clock(clock, value).max(client::now_ps()).max(1)
    } else {
        deadline_after(timespec_picos(value))
    }
}

/// Implements `timer_gettime`.
///
/// # Safety
/// The timer comes from `timer_create`, and nobody deleted it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_gettime(timer: timer_t, out: Out<itimerspec>) -> c_int {
    let Some(cell) = own_cell(timer) else {
        // SAFETY: the C library created the timer, or the kernel refuses an id of ours.
        return unsafe { real::timer_gettime(timer, out) };
    };
    let (left, interval) = current(cell.load(Ordering::Relaxed).min(64));
    out.set(itimerspec { it_value: to_timespec(left), it_interval: to_timespec(interval) });
    0
}

/// Implements `timer_delete`.
///
/// # Safety
/// The timer comes from `timer_create`, and nobody else deletes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_delete(timer: timer_t) -> c_int {
    let Some(cell) = own_cell(timer) else {
        // SAFETY: the C library created the timer, or the kernel refuses an id of ours.
        return unsafe { real::timer_delete(timer) };
    };
    match cell.swap(0, Ordering::Relaxed) {
        0 => fail(libc::EINVAL),
        signal => set(signal, 0, 0).map_or_else(|error| fail(error.0), |_| 0),
    }
}

/// Implements `timer_getoverrun`.
///
/// # Safety
/// The timer comes from `timer_create`, and nobody deleted it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timer_getoverrun(timer: timer_t) -> c_int {
    if own_cell(timer).is_some() {
        return 0;
    }
    // SAFETY: the C library created the timer, or the kernel refuses an id of ours.
    unsafe { real::timer_getoverrun(timer) }
}

#[cfg(test)]
mod tests {
    use super::remaining;

    #[test]
    fn a_periodic_timer_counts_down_to_its_next_expiry() {
        assert_eq!(remaining(0, 0, 5), 0);
        assert_eq!(remaining(10, 0, 4), 6);
        assert_eq!(remaining(10, 0, 10), 0);
        assert_eq!(remaining(10, 8, 20), 6);
        assert_eq!(remaining(10, 8, 18), 8);
    }
}
