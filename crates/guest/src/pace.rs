//! How far time moves while a program looks again and again at something that only the operating system knows.

use softband_client::{self as client, Errno};
use softband_ipc::calls::{Op, Sleep, WaitReply, polls, reason};
use std::cell::Cell;

/// Shortest and longest step of simulated time between two polls.
const STEP_MIN_PS: u64 = 1_000_000;
const STEP_MAX_PS: u64 = 10_000_000_000;
/// Simulated time after which the other end is taken to be outside the simulation: the engine stops waiting for this thread.
const PATIENCE_PS: u64 = 10_000_000_000_000;

/// What a poll that found nothing costs first, and at most after many in a row.
const EMPTY_POLL_MIN_PS: u64 = 200_000;
const EMPTY_POLL_MAX_PS: u64 = 10_000_000;

/// What a system call costs: without a price, a loop of calls that succeed (a look at bytes that are there while waiting for
/// more) would stand still in time.
const CALL_PS: u64 = 200_000;

/// Pays for a system call.
pub fn pay_for_call() {
    client::advance_ps(CALL_PS);
}

/// Waits in steps that grow with the time already waited, so that the step is at most a thirty-second of the wait.
#[derive(Debug)]
pub struct Patience {
    since: u64,
    /// One of [`reason`].
    reason: u32,
}

impl Patience {
    pub fn new() -> Self {
        Self::of(reason::NONE)
    }

    /// The same for one of [`reason`].
    pub fn of(reason: u32) -> Self {
        Self { since: client::now_ps(), reason }
    }

    /// Until when to sleep before the next poll.
    pub fn next_poll(&self, now: u64) -> u64 {
        now + (now.saturating_sub(self.since) / 32).clamp(STEP_MIN_PS, STEP_MAX_PS)
    }

    pub fn is_over(&self) -> bool {
        client::now_ps().saturating_sub(self.since) > PATIENCE_PS
    }

    /// Sleeps until the next poll or the deadline. `Err(EINTR)` when a signal came.
    pub fn step(&self, deadline: u64) -> Result<(), Errno> {
        let before = crate::signals::raised();
        let until_ps = self.next_poll(client::now_ps()).min(deadline);
        // What has a deadline will go on by itself.
        sleep(Sleep { until_ps, polls: polls(deadline == u64::MAX, self.reason) })?;
        // A signal of the system interrupts as one of the engine does, only at the next poll.
        if crate::signals::raised() == before { Ok(()) } else { Err(Errno(libc::EINTR)) }
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self::new()
    }
}

/// Gives the token away until `until_ps`. `Err(EINTR)` when a signal came first.
pub fn sleep_until(until_ps: u64) -> Result<(), Errno> {
    sleep(Sleep { until_ps, polls: 0 })
}

fn sleep(request: Sleep) -> Result<(), Errno> {
    let reply: WaitReply = client::call(Op::Sleep, &request)?;
    if reply.interrupted != 0 { Err(Errno(libc::EINTR)) } else { Ok(()) }
}

thread_local! {
    static EMPTY: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// A poll that does not wait found nothing: it costs time, more the more of them come in a row, so that a loop of polls gets on.
pub fn empty_poll() {
    EMPTY.with(|cell| {
        let (at, cost) = cell.get();
        let now = client::now_ps();
        // In a row: nothing but polls (whose turns move no clock) since the last one.
        let cost = if at == now { (cost * 2).min(EMPTY_POLL_MAX_PS) } else { EMPTY_POLL_MIN_PS };
        client::advance_ps(cost);
        cell.set((client::now_ps(), cost));
    });
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
