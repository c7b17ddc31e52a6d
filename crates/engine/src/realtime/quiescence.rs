//! Quiescence for programs that move data themselves. Programs no longer use an entry that the
//! engine removed from its tables once their transfers have ended.

use crate::process::announced::Pending;
use crate::process::processes::Processes;
use crate::process::record::Process;
use rustix::thread::{MembarrierCommand, membarrier};
use softband_shm_transport::quiescence::await_end;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Time that a stopped program may take for one transfer before the engine gives up on it.
const GRACE: Duration = Duration::from_millis(200);
/// Multiple of [`GRACE`] for a program that runs, or would run if it had a processor.
const GRACES_OF_RUNNING: u32 = 10;
/// Bound on all vain waits together: this multiple of [`GRACE`], plus one part in `GRACE_PART` of
/// the time since the first wait. Programs may lie, and new programs may replace them.
const GRACES_IN_ALL: u32 = 50;
const GRACE_PART: u32 = 8;
/// Part of [`GRACE`] that remains for each wait after that: longer than a processor needs for a
/// piece of a transfer.
const GRACE_LEFT: u32 = 100;
/// Interval between checks whether an awaited program is stopped or gone.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// State of the engine's waits for quiescence.
pub(crate) struct Quiescence {
    /// [`GRACE`], except in tests.
    grace: Duration,
    /// Set if the kernel puts barriers between the instructions of programs that registered for it.
    /// These programs announce a transfer with a plain store.
    has_barriers: bool,
    /// Total time of vain waits for all programs, and time of the first wait.
    in_vain: Cell<Duration>,
    since: Cell<Option<Instant>>,
}

impl Quiescence {
    pub(crate) fn new() -> Self {
        let has_barriers = membarrier(MembarrierCommand::GlobalExpedited).is_ok();
        Self { grace: GRACE, has_barriers, in_vain: Cell::default(), since: Cell::default() }
    }

    /// Puts a barrier between the instructions of all programs. Afterwards the engine sees each
    /// earlier announcement of a program, or the program sees the engine's earlier writes.
    fn put_barrier(&self) {
        if self.has_barriers && membarrier(MembarrierCommand::GlobalExpedited).is_err() {
            // The kernel had no memory for the barrier or forbids it by now. Within this time an
            // interrupt reaches each processor, which is also a barrier.
            std::thread::sleep(self.grace);
        }
    }

    /// Returns the longest time that a wait may last in vain if it begins now.
    fn limit(&self, now: Instant) -> Duration {
        let since = self.since.get().unwrap_or(now);
        self.since.set(Some(since));
        let left = (self.grace * GRACES_IN_ALL + (now - since) / GRACE_PART).saturating_sub(self.in_vain.get());
        left.clamp(self.grace / GRACE_LEFT, self.grace * GRACES_OF_RUNNING)
    }

    fn note_in_vain(&self, time: Duration) {
        self.in_vain.set(self.in_vain.get() + time);
    }

    /// Shortens the grace, for a harness.
    pub(crate) fn set_grace(&mut self, grace: Duration) {
        self.grace = grace;
    }

    /// Returns whether the kernel orders the announcements of programs.
    pub(crate) fn has_barriers(&self) -> bool {
        self.has_barriers
    }

    /// Waits until each transfer under way has ended, or gives up on it. The engine never waits
    /// twice for the same transfer.
    pub(crate) fn await_end_of_transfers(&self, processes: &Processes) {
        self.put_barrier();
        let attached = processes.living().filter(|process| process.is_attached());
        let mut pending: Vec<_> = attached.flat_map(Process::transfers_under_way).collect();
        pending.retain(|transfer| !transfer.has_ended());
        if pending.is_empty() {
            return;
        }
        let started = Instant::now();
        let limit = self.limit(started);
        let looks = (self.grace.min(LOOK_INTERVAL).min(limit), LOOK_INTERVAL, limit);
        let given_up = await_end(pending, looks, Pending::has_ended, |transfer, elapsed| match state_of(transfer.pid()) {
            State::Gone => true,
            State::Stopped => elapsed >= limit.min(self.grace),
            State::Runs => elapsed >= limit,
        });
        if !given_up.is_empty() {
            self.note_in_vain(started.elapsed());
        }
        given_up.iter().filter(|transfer| !transfer.has_ended()).for_each(Pending::give_up);
    }
}

/// Whether a process can end a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    /// Stopped by a signal or a debugger.
    Stopped,
    Gone,
}

fn state_of(pid: i32) -> State {
    let stat = crate::procfs::stat(pid);
    match stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes().first().copied().unwrap_or(b'X')) {
        None | Some(b'Z' | b'X') => State::Gone,
        Some(b'T' | b't') => State::Stopped,
        Some(_) => State::Runs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_in_vain_is_bounded_for_all_programs_together() {
        let quiescence = Quiescence::new();
        let now = Instant::now();
        assert_eq!(quiescence.limit(now), GRACE * GRACES_OF_RUNNING);
        quiescence.note_in_vain(GRACE * GRACES_IN_ALL);
        assert_eq!(quiescence.limit(now), GRACE / GRACE_LEFT);
        assert_eq!(quiescence.limit(now + GRACE * GRACE_PART), GRACE);
    }

    #[test]
    fn a_process_that_is_gone_is_not_waited_for() {
        assert_eq!(state_of(std::process::id() as i32), State::Runs);
        assert_eq!(state_of(1 << 30), State::Gone);
    }
}
