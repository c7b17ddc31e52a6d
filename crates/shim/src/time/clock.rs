//! Clocks. Each of them shows the calling thread's own simulated time.

use crate::clib::args::Out;
use crate::clib::real;
use crate::runtime::world::{PICOS_PER_MICRO, PICOS_PER_SECOND, active, fail, to_timespec, to_timeval, walled};
use crate::shared;
use crate::time::pace::idle;
use libc::{c_int, clock_t, clockid_t, time_t, timespec, timeval, tms};
use softband_client as client;
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// Value of the monotonic clocks at simulated time zero, in seconds.
pub const MONOTONIC_START_SECONDS: u64 = 1_000;
/// Time in picoseconds after which a thread that only reads clocks gives the token away. It may
/// wait for another thread of its process.
const CLOCK_ONLY_PS: u64 = 1_000_000_000;

/// Divisor for pauses among sharers.
const PAUSE_SHARE: u64 = 64;
/// Turns of a loop that reads clocks before its first pause.
const ROW_WITHOUT_PAUSE: u32 = 4;

thread_local! {
    /// Number of consecutive turns of a loop that reads clocks.
    static ROW: Cell<u32> = const { Cell::new(0) };
    /// [`other_work`] at the last clock read, and the start of a period with only clock
    /// reads.
    static READING: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Reads the clock, in picoseconds. Pays its cost, and lets a due alarm through.
pub fn read_clock() -> u64 {
    let header = client::header();
    client::tick(header.cost_clock_read).unwrap_or_else(read_clock_closely)
}

#[cold]
fn read_clock_closely() -> u64 {
    let header = client::header();
    let now = client::now_ps();
    let deadline = header.deadline_ps.load(Ordering::Relaxed);
    let alarm_is_due = deadline != 0 && now >= deadline;
    let is_sharing = shared::is_sharing();
    if alarm_is_due || reads_only(now) {
        idle(|| if is_sharing { wait_among_sharers(now) } else { client::sync() });
        return client::now_ps();
    }
    let alarm = if deadline == 0 { u64::MAX } else { deadline };
    let limit = if is_sharing { now } else { READING.get().1.saturating_add(CLOCK_ONLY_PS) };
    client::set_clock_limit(alarm.min(limit));
    now
}

/// Returns a count of what the thread does beside reading clocks.
fn other_work() -> u64 {
    client::progress().wrapping_add(shared::guard::writes())
}

fn reads_only(now: u64) -> bool {
    let work = other_work();
    let (known, since) = READING.get();
    if known != work {
        READING.set((work, now));
        ROW.set(0);
        return false;
    }
    if shared::is_sharing() {
        return client::is_past_next_event() || now - since.min(now) > CLOCK_ONLY_PS;
    }
    now - since.min(now) > CLOCK_ONLY_PS
}

/// Gives the token away in a loop that reads clocks, and may poll shared memory or a time. It pauses
/// for a small share of the time that it has waited.
fn wait_among_sharers(now: u64) {
    let (_, since) = READING.get();
    let row = ROW.get();
    if row < ROW_WITHOUT_PAUSE {
        client::sync();
    } else {
        client::pause(now + now.saturating_sub(since) / PAUSE_SHARE);
    }
    ROW.set(row.saturating_add(1));
    READING.set((other_work(), since));
}

/// Returns the seconds that clock `id` shows at simulated time zero.
pub fn start_seconds(id: clockid_t) -> u64 {
    match id {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_REALTIME_ALARM | libc::CLOCK_TAI => client::header().epoch_seconds,
        libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_BOOTTIME | libc::CLOCK_BOOTTIME_ALARM => {
            MONOTONIC_START_SECONDS
        }
        _ => 0,
    }
}

/// Returns the simulated time at which clock `id` shows `time`, in picoseconds. Returns zero for a
/// time before the start.
pub fn from_clock(id: clockid_t, time: &timespec) -> u64 {
    crate::runtime::world::picos(time.tv_sec - start_seconds(id) as i64, time.tv_nsec)
}

/// Returns the value of clock `id` at simulated time `now`.
pub fn shows(id: clockid_t, now: u64) -> timespec {
    let mut time = to_timespec(now);
    time.tv_sec += start_seconds(id) as i64;
    time
}

/// Reads the host's clock. In wall pace, the C library asks the vDSO. That avoids a system call, in
/// which the host could stop a program that measures. The vDSO reads the time stamp counter, which
/// may trap outside wall pace.
fn host_clock(id: clockid_t, out: Out<timespec>) -> c_int {
    if walled() { real::clock_gettime(id, out) } else { real::kernel_clock_gettime(id, out) }
}

/// Finds the C library's clock before a program asks for the time in a signal handler or in its own
/// allocator.
pub fn find() {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    real::clock_gettime(libc::CLOCK_MONOTONIC, Out::of(&mut now));
}

#[unsafe(no_mangle)]
pub extern "C" fn clock_gettime(id: clockid_t, out: Out<timespec>) -> c_int {
    // Clocks above TAI do not exist; negative ids are CPU clocks of processes and threads.
    if !active() || id > libc::CLOCK_TAI {
        return host_clock(id, out);
    }
    if out.is_null() {
        return fail(libc::EFAULT);
    }
    // A loop that compares clocks keeps the token for long.
    crate::tsc::rewrite_due();
    out.set(shows(id, read_clock()));
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn clock_getres(id: clockid_t, out: Out<timespec>) -> c_int {
    if !active() || id > libc::CLOCK_TAI {
        return real::clock_getres(id, out);
    }
    out.set(timespec { tv_sec: 0, tv_nsec: 1 });
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn gettimeofday(out: Out<timeval>, zone: Out<[c_int; 2]>) -> c_int {
    zone.set([0; 2]); // minutes west and the kind of daylight saving
    if !active() {
        let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
        let status = host_clock(libc::CLOCK_REALTIME, Out::of(&mut now));
        out.set(timeval { tv_sec: now.tv_sec, tv_usec: now.tv_nsec / 1_000 });
        return status;
    }
    crate::tsc::rewrite_due();
    if !out.is_null() {
        let mut now = to_timeval(read_clock());
        now.tv_sec += client::header().epoch_seconds as i64;
        out.set(now);
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn time(out: Out<time_t>) -> time_t {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // The original also reads the coarse clock, because whole seconds need no more.
    clock_gettime(libc::CLOCK_REALTIME_COARSE, Out::of(&mut now));
    out.set(now.tv_sec);
    now.tv_sec
}

#[unsafe(no_mangle)]
pub extern "C" fn timespec_get(out: Out<timespec>, base: c_int) -> c_int {
    const TIME_UTC: c_int = 1;
    if base != TIME_UTC || clock_gettime(libc::CLOCK_REALTIME, out) != 0 {
        return 0;
    }
    base
}

#[unsafe(no_mangle)]
pub extern "C" fn clock() -> clock_t {
    if !active() {
        return real::clock();
    }
    (read_clock() / PICOS_PER_MICRO) as clock_t // CLOCKS_PER_SEC is a million
}

#[unsafe(no_mangle)]
pub extern "C" fn times(out: Out<tms>) -> clock_t {
    const TICKS_PER_SECOND: u64 = 100;
    if !active() {
        return real::times(out);
    }
    let ticks = (read_clock() / (PICOS_PER_SECOND / TICKS_PER_SECOND)) as clock_t;
    out.set(tms { tms_utime: ticks, tms_stime: 0, tms_cutime: 0, tms_cstime: 0 });
    ticks + (MONOTONIC_START_SECONDS * TICKS_PER_SECOND) as clock_t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_engine_the_clocks_are_the_hosts() {
        let mut first = timespec { tv_sec: 0, tv_nsec: 0 };
        let mut second = timeval { tv_sec: 0, tv_usec: 0 };
        assert_eq!(clock_gettime(libc::CLOCK_REALTIME, Out::of(&mut first)), 0);
        assert_eq!(gettimeofday(Out::of(&mut second), Out::NULL), 0);
        assert!(time(Out::NULL) >= first.tv_sec - 1);
        assert_eq!(clock_gettime(77, Out::of(&mut first)), -1);
        assert!(first.tv_sec > 1_500_000_000 && second.tv_sec >= first.tv_sec);
    }
}
