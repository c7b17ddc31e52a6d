//! Advances simulated time while a program polls something that only the operating system knows.

use crate::shared::is_sharing;
use softband_client::{self as client, Errno};
use softband_ipc::calls::{Sleep, op, polls, reason};
use std::cell::Cell;

/// Shortest and longest step of simulated time between two polls, in picoseconds.
const STEP_MIN_PS: u64 = 1_000_000;
const STEP_MAX_PS: u64 = 10_000_000_000;
/// Simulated time, in picoseconds, after which the other end counts as outside the simulation. The
/// engine then stops waiting for this thread.
const PATIENCE_PS: u64 = 10_000_000_000_000;

/// Cost of the first empty poll, and the largest cost in a row of empty polls, in picoseconds.
const EMPTY_POLL_MIN_PS: u64 = 200_000;
const EMPTY_POLL_MAX_PS: u64 = 10_000_000;

/// Looks in vain at descriptors of the kernel, without any passage of time, that cost nothing.
const VAIN_LOOKS_MAX: u32 = 256;

/// Longest time between two yields in a row, in picoseconds.
const YIELD_ROW_PS: u64 = 1_000_000;

/// Cost of a system call, in picoseconds. Without it, simulated time would stand still in a loop of
/// successful calls, such as a peek at available bytes while waiting for more.
const CALL_PS: u64 = 200_000;

/// Pays the cost of a system call.
pub fn pay_for_call() {
    client::advance_ps(CALL_PS);
}

/// Waits in steps that grow with the time already waited. Each step is at most a thirty-second of
/// the wait, within bounds.
#[derive(Debug)]
pub struct Patience {
    since: u64,
    /// A value of [`reason`].
    reason: u32,
}

impl Patience {
    pub fn new() -> Self {
        Self::of(reason::NONE)
    }

    /// Starts a wait for a value of [`reason`].
    pub fn of(reason: u32) -> Self {
        Self { since: client::now_ps(), reason }
    }

    /// Returns the time of the next poll.
    pub fn next_poll(&self, now: u64) -> u64 {
        now + (now.saturating_sub(self.since) / 32).clamp(STEP_MIN_PS, STEP_MAX_PS)
    }

    pub fn is_over(&self) -> bool {
        client::now_ps().saturating_sub(self.since) > PATIENCE_PS
    }

    /// Sleeps until the next poll or the deadline. Fails with `EINTR` after a signal.
    pub fn step(&self, deadline: u64) -> Result<(), Errno> {
        let before = crate::signal::actions::raised();
        let until_ps = self.next_poll(client::now_ps()).min(deadline);
        // A wait with a deadline continues by itself.
        sleep(Sleep { until_ps, polls: polls(deadline == u64::MAX, self.reason) })?;
        // A system signal interrupts like a signal of the engine, but only at the next poll.
        if crate::signal::actions::raised() == before { Ok(()) } else { Err(Errno(libc::EINTR)) }
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self::new()
    }
}

/// Gives the token away until `until_ps`. Fails with `EINTR` if a signal comes first.
pub fn sleep_until(until_ps: u64) -> Result<(), Errno> {
    sleep(Sleep { until_ps, polls: 0 })
}

fn sleep(request: Sleep) -> Result<(), Errno> {
    let reply = client::call::<op::Sleep>(&request)?;
    if reply.interrupted != 0 { Err(Errno(libc::EINTR)) } else { Ok(()) }
}

thread_local! {
    static EMPTY: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    /// Hand-overs of the token by polls, clock reads and yields, less other work.
    static IDLE: Cell<u64> = const { Cell::new(0) };
    /// The last yield: its time, its cost, and [`work`] then.
    static YIELD: Cell<(u64, u64, u64)> = const { Cell::new((0, 0, 0)) };
    /// Time of the last look in vain at a descriptor of the kernel, and looks in a row.
    static VAIN_LOOKS: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// Runs `body`, whose hand-overs of the token are no work of the program.
pub fn idle<R>(body: impl FnOnce() -> R) -> R {
    let before = client::progress();
    let result = body();
    IDLE.set(IDLE.get().wrapping_add(client::progress().wrapping_sub(before)));
    result
}

/// Runs `body`, whose hand-overs of the token are no work of the program if no time passes.
pub fn idle_if_at_once<R>(body: impl FnOnce() -> R) -> R {
    let (before, begun) = (client::progress(), client::now_ps());
    let result = body();
    if client::now_ps() == begun {
        IDLE.set(IDLE.get().wrapping_add(client::progress().wrapping_sub(before)));
    }
    result
}

/// Counts work of the program that needs no hand-over of the token.
pub fn note_work() {
    IDLE.set(IDLE.get().wrapping_sub(1));
}

/// Returns a count of the thread's calls except polls of descriptors, clock reads and yields.
fn work() -> u64 {
    client::progress().wrapping_sub(IDLE.get()).wrapping_add(client::cq_polls()).wrapping_add(crate::shared::guard::writes())
}

/// Yields the processor. The cost grows with each yield in a row. A thread may look at descriptors
/// and clocks between two yields, as UCX does while another thread keeps a lock.
pub fn yield_turn() {
    let (at, cost, known) = YIELD.get();
    let since = client::now_ps().saturating_sub(at);
    let is_in_row = since == 0 || (work() == known && since <= YIELD_ROW_PS);
    let cost = if is_in_row { (cost * 2).clamp(EMPTY_POLL_MIN_PS, EMPTY_POLL_MAX_PS) } else { EMPTY_POLL_MIN_PS };
    idle(|| {
        pay_for_empty_poll(cost);
        client::sync();
    });
    YIELD.set((client::now_ps(), cost, work()));
}

/// Pays for a nonblocking poll that found nothing. The cost grows with each empty poll in a row, so
/// that a polling loop advances.
pub fn empty_poll() {
    EMPTY.with(|cell| {
        let (at, cost) = cell.get();
        let now = client::now_ps();
        // A poll is in a row if nothing but polls happened since the last. Turns of polls move no
        // clock.
        let cost = if at == now { (cost * 2).clamp(EMPTY_POLL_MIN_PS, EMPTY_POLL_MAX_PS) } else { EMPTY_POLL_MIN_PS };
        pay_for_empty_poll(cost);
        cell.set((client::now_ps(), cost));
    });
}

/// Notes a look at a nonblocking descriptor of the kernel that finds nothing. A few looks cost nothing.
/// A program that looks again and again, and neither reads, writes nor lets time pass meanwhile, pays
/// for its looks. So its other threads go on.
pub fn look_in_vain() {
    let (at, count) = VAIN_LOOKS.get();
    let count = if at == client::now_ps() { count + 1 } else { 0 };
    if count >= VAIN_LOOKS_MAX {
        empty_poll();
        client::sync();
    }
    VAIN_LOOKS.set((client::now_ps(), count.min(VAIN_LOOKS_MAX)));
}

/// Notes that a descriptor of the kernel has something: looks after it are not in a row with looks
/// before.
pub fn found_news() {
    VAIN_LOOKS.set((0, 0));
}

fn pay_for_empty_poll(cost: u64) {
    if cost > EMPTY_POLL_MIN_PS && is_sharing() {
        // Another process may end the wait.
        let end = client::now_ps() + cost;
        client::advance_ps(EMPTY_POLL_MIN_PS);
        client::pause(end);
    } else {
        client::advance_ps(cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_a_thirty_second_of_the_wait_within_bounds() {
        let patience = Patience { since: 0, reason: reason::NONE };
        assert_eq!(patience.next_poll(0), STEP_MIN_PS);
        assert_eq!(patience.next_poll(64_000_000), 66_000_000);
        assert_eq!(patience.next_poll(1 << 50), (1 << 50) + STEP_MAX_PS);
    }
}
