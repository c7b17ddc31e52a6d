//! Clocks. Each of them shows the calling thread's own simulated time.

use crate::clib::args::Out;
use crate::clib::real;
use crate::runtime::world::{PICOS_PER_MICRO, PICOS_PER_SECOND, active, fail, to_timespec, to_timeval, walled};
use crate::shared;
use crate::shared::looks::{self, Look};
use crate::sync::threads;
use crate::time::pace::idle;
use libc::{c_int, clock_t, clockid_t, time_t, timespec, timeval, tms};
use softband_client::{self as client, regions};
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// Value of the monotonic clocks at simulated time zero, in seconds.
pub const MONOTONIC_START_SECONDS: u64 = 1_000;
/// Longest time in picoseconds for which a thread that only reads clocks keeps the token.
const CLOCK_ONLY_PS: u64 = 1_000_000_000;
/// Such a thread may wait for memory that others write, and gives the token away at the next event of the
/// run. After this many hand-overs in a row it keeps the token for a share of the time for which it has
/// read clocks only, and at most for [`KEEP_MAX_PS`]. Each time of that length allows another hand-over.
const AT_ONCE_MAX: u64 = 64;
const KEEP_SHARE: u64 = 256;
const KEEP_MAX_PS: u64 = 20_000_000;

/// Divisor for pauses among sharers.
const PAUSE_SHARE: u64 = 64;
/// News end a pause early. The loop may find them, and then asks for their time without a pause.
const READS_AFTER_NEWS: u32 = 4;
/// Turns of a loop that reads clocks before a look at what it does.
const ROW_WITHOUT_LOOK: u32 = 4;

/// A period in which a thread only reads clocks.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// [`other_work`] at the last read.
    work: u64,
    since: u64,
    /// The last time at which the thread had given the token away.
    gave: u64,
    /// Hand-overs in the period.
    row: u32,
    /// Hand-overs without a pause that follow the early end of a pause.
    after_news: u32,
    /// Hand-overs that are left at the very next event.
    at_once: u64,
}

thread_local! {
    static READING: Cell<Reading> = const { Cell::new(Reading { work: 0, since: 0, gave: 0, row: 0, after_news: 0, at_once: 0 }) };
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
    let alarm = if deadline == 0 { u64::MAX } else { deadline };
    let known = READING.get();
    let work = other_work();
    if known.work != work {
        READING.set(Reading { work, since: now, gave: now, row: 0, after_news: 0, at_once: AT_ONCE_MAX });
        looks::end();
    } else if now >= due(known) {
        wait(now, known);
        return client::now_ps();
    }
    if now >= alarm {
        catch_up();
        return client::now_ps();
    }
    client::set_clock_limit(alarm.min(due(READING.get())));
    now
}

/// Returns a count of what the thread does beside reading clocks.
fn other_work() -> u64 {
    client::progress().wrapping_add(shared::guard::writes())
}

/// Returns whether a thread looks at memory that other processes write, as far as is known.
fn may_look_at_shared() -> bool {
    looks::of_thread() != Look::None && shared::is_sharing()
}

/// Returns whether another thread or a peer may write memory of this process.
fn may_await_memory() -> bool {
    threads::has_created() || !regions::are_all_listed() || regions::iter().any(|region| region.remote_writable)
}

/// Returns the time at which a thread that only reads clocks gives the token away.
fn due(reading: Reading) -> u64 {
    let event = client::next_event_ps();
    if may_look_at_shared() {
        return event.min(reading.since.saturating_add(CLOCK_ONLY_PS));
    }
    if !may_await_memory() {
        return reading.gave.saturating_add(CLOCK_ONLY_PS);
    }
    let share = (reading.gave.saturating_sub(reading.since) / KEEP_SHARE).min(KEEP_MAX_PS);
    let keeps = if reading.at_once > 0 { 0 } else { share };
    event.max(reading.gave.saturating_add(keeps)).min(reading.gave.saturating_add(CLOCK_ONLY_PS))
}

/// Gives the token away in a loop that reads clocks. If the loop looks at shared memory, it pauses for
/// a small share of the time that it has waited. A sharer's write ends the pause.
fn wait(now: u64, reading: Reading) {
    let is_sharing = shared::is_sharing();
    let look = looks::of_thread();
    let pauses = is_sharing && look == Look::Seen && reading.after_news == 0;
    let news = idle(|| {
        let until = now + now.saturating_sub(reading.since) / PAUSE_SHARE;
        if pauses {
            client::pause(until)
        } else {
            client::sync()
        }
        pauses && client::now_ps() < until
    });
    let row = reading.row.saturating_add(1);
    let after_news = if news { READS_AFTER_NEWS } else { reading.after_news.saturating_sub(1) };
    let earned = now.saturating_sub(reading.gave) / KEEP_MAX_PS;
    let at_once = reading.at_once.saturating_add(earned).min(AT_ONCE_MAX).saturating_sub(1);
    READING.set(Reading { work: other_work(), since: reading.since, gave: client::now_ps(), row, after_news, at_once });
    if is_sharing && row >= ROW_WITHOUT_LOOK {
        looks::begin();
    }
}

/// Lets what happens before the thread's clock come first. A loop that reads clocks stays one.
pub fn catch_up() {
    let reading = READING.get();
    let is_reading = reading.work == other_work();
    idle(client::sync);
    if is_reading {
        READING.set(Reading { work: other_work(), gave: client::now_ps(), ..reading });
    }
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
