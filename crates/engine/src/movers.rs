//! Waiting for programs that move data themselves: what the engine takes out of its tables is no longer used when that has ended.

use crate::pace::Engine;
use crate::process::{Process, ProcessState};
use rustix::thread::{MembarrierCommand, membarrier};
use softband_ipc::layout::MOVERS;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a program that is stopped may take for one transfer before it is not waited for any more.
const GRACE: Duration = Duration::from_millis(200);
/// So many times as long is one waited for that runs, or would if it had a processor.
const GRACES_OF_RUNNING: u32 = 10;
/// So many times as long, and this part of the time since the first, programs are waited for in vain in all: they may lie.
const GRACES_IN_ALL: u32 = 50;
const GRACE_PART: u32 = 8;

/// How the engine waits for them.
pub(crate) struct Waiting {
    /// [`GRACE`], but for tests.
    pub(crate) grace: Duration,
    /// The kernel puts barriers between the instructions of programs that have asked for it: those announce a transfer by a plain store.
    pub(crate) has_barriers: bool,
}

impl Waiting {
    pub(crate) fn new() -> Self {
        Self { grace: GRACE, has_barriers: membarrier(MembarrierCommand::GlobalExpedited).is_ok() }
    }

    /// Whatever a program has announced is to be seen when this returns, or else what was written before is seen by that program.
    fn put_barrier(&self) {
        if self.has_barriers && membarrier(MembarrierCommand::GlobalExpedited).is_err() {
            // No memory for it, or forbidden since: within that time each processor has been interrupted, which is a barrier, too.
            std::thread::sleep(self.grace);
        }
    }
}

impl Engine {
    /// Waits until every program that was moving data when this began has finished that transfer.
    pub(crate) fn await_movers(&self) {
        self.waiting.put_barrier();
        for process in self.processes.living().filter(|process| process.state == ProcessState::Attached) {
            let mut given_up = process.given_up.get();
            for (slot, transfer) in process.shared.header().movers.iter().zip(&mut given_up.transfers) {
                let seen = slot.0.load(Ordering::SeqCst);
                if seen % 2 == 0 || seen == *transfer {
                    continue;
                }
                // For one transfer nobody waits twice, and who is in vain waited for takes at most a part of the time: a lying program
                // could hold everybody back.
                let (grace, started) = (self.waiting.grace, Instant::now());
                let since = *given_up.since.get_or_insert(started);
                let left = (grace * GRACES_IN_ALL + (started - since) / GRACE_PART).saturating_sub(given_up.in_vain);
                let has_ended = has_changed(&slot.0, seen, started + grace.min(left))
                    || !is_stopped(process.pid) && has_changed(&slot.0, seen, started + (grace * GRACES_OF_RUNNING).min(left));
                if !has_ended {
                    *transfer = seen;
                    given_up.in_vain += started.elapsed();
                }
            }
            process.given_up.set(given_up);
        }
    }
}

/// What was waited for in vain: the last transfer in each slot, since when there was anything to wait for, and for how long in all.
#[derive(Clone, Copy, Default)]
pub(crate) struct GivenUp {
    transfers: [u64; MOVERS],
    since: Option<Instant>,
    in_vain: Duration,
}

impl Process {
    /// Whether it is still in the midst of a transfer that was waited for in vain.
    pub(crate) fn is_held_up(&self) -> bool {
        let given_up = self.given_up.get().transfers;
        self.shared.header().movers.iter().zip(given_up).any(|(slot, given_up)| given_up % 2 == 1 && slot.0.load(Ordering::SeqCst) == given_up)
    }
}

/// Whether a process is stopped, by a signal or a debugger.
fn is_stopped(pid: i32) -> bool {
    let stat = crate::process::stat(format!("/proc/{pid}/stat"));
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

/// One transfer is short: longer ones are cut, and begin anew. Only a stopped program takes as long as the time of grace.
fn has_changed(slot: &AtomicU64, seen: u64, deadline: Instant) -> bool {
    while slot.load(Ordering::SeqCst) == seen {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::yield_now();
    }
    true
}
