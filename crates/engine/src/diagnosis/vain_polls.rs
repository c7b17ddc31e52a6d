//! Detects programs that poll in vain for ever in simulated time. The engine names each of them
//! once.
//!
//! A poll counts only while nothing but vain polls happens. An event of the fabric or a byte of a
//! socket ends this state. So does a single future event: the end of a sleep, a timer, a thread in
//! the operating system. A recurring wait with a short limit in a loop is no such event.

use crate::diagnosis::observer::Observer;
use crate::diagnosis::waits::{Detail, moment};
use crate::process::record::{Process, ProcessState};
use crate::process::thread::{ThreadState, Waiting};
use softband_ipc::calls;
use softband_sim::SimTime;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Wall-clock time of nothing but polls after which the engine names a program.
const LIMIT: Duration = Duration::from_secs(10);
/// Most time between two checks that counts. A program that computes meanwhile does not poll.
const GAP_MAX: Duration = Duration::from_secs(1);
/// Most queue pairs that a line names.
const QUEUE_PAIRS_MAX: usize = 2;

/// A future event that does not depend on the fabric.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ahead {
    /// End of a thread's wait, by the generation of the wait, or return from the operating system.
    Wait {
        process: usize,
        slot: usize,
        generation: u32,
    },
    Alarm {
        process: usize,
        at: SimTime,
    },
    Timer {
        at: SimTime,
    },
    Outside {
        process: usize,
    },
}

/// The room of vain polls: how long only polls have happened.
#[derive(Default)]
pub(crate) struct VainPolls {
    checked_at: Option<Instant>,
    spent: Duration,
    /// Events of the fabric and of objects up to the last check.
    happened: u64,
    /// Events of objects, for example data at sockets.
    objects_changed: u64,
    /// Future events when the polls began.
    ahead: BTreeSet<Ahead>,
    named: BTreeSet<usize>,
    /// Lines that the engine has printed about vain polls.
    told: Vec<String>,
}

impl VainPolls {
    pub(crate) fn note_object(&mut self) {
        self.objects_changed += 1;
    }

    /// Returns the lines that the engine has printed.
    pub(crate) fn told(&self) -> &[String] {
        &self.told
    }

    /// Checks at `now` whether programs poll in vain. Prints a line for each that it finds.
    /// `fabric_events` is the number of events so far.
    pub(crate) fn check(&mut self, now: Instant, fabric_events: u64, observer: &Observer<'_>) {
        let happened = fabric_events + self.objects_changed;
        let gap = self.checked_at.replace(now).map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        if happened != self.happened {
            (self.happened, self.spent) = (happened, Duration::ZERO);
            self.ahead = observer.ahead();
            return;
        }
        self.spent += gap.min(GAP_MAX);
        if self.spent < LIMIT || !observer.ahead().is_disjoint(&self.ahead) {
            return;
        }
        for process in observer.processes.living().filter(|process| polling_slot(process).is_some()) {
            if self.named.insert(process.index()) {
                let line = observer.vain_poll_line(process);
                eprintln!("softband: {line}");
                self.told.push(line);
            }
        }
    }
}

impl Observer<'_> {
    fn ahead(&self) -> BTreeSet<Ahead> {
        let mut ahead: BTreeSet<Ahead> = self.host.timers().map(|at| Ahead::Timer { at }).collect();
        for process in self.processes.living() {
            let number = process.index();
            if process.state() != ProcessState::Attached && process.state() != ProcessState::Ended {
                ahead.insert(Ahead::Outside { process: number });
            }
            ahead.extend(process.alarms().map(|at| Ahead::Alarm { process: number, at }));
            let waits = process
                .threads()
                .iter()
                .enumerate()
                .filter(|(_, thread)| matches!(thread.state(), ThreadState::Away | ThreadState::Waiting(Waiting::Sleep | Waiting::Objects(_))));
            let ends = waits.filter(|(slot, thread)| *thread.state() == ThreadState::Away || has_end(process, *slot as u32));
            ahead.extend(ends.map(|(slot, thread)| Ahead::Wait { process: number, slot, generation: thread.generation() }));
        }
        ahead
    }

    fn vain_poll_line(&self, process: &Process) -> String {
        let Some(slot) = polling_slot(process) else { return String::new() };
        let name = self.name_of_thread(process, slot);
        let since = process.thread(slot as u32).waiting_since().map_or_else(String::new, |since| format!(" since {}", moment(since)));
        let request = process.shared().request(slot as u32);
        let cq = crate::protocol::request::<calls::Handle>(&request).ok().map(|handle| handle.handle).filter(|cq| self.cqs.contains(*cq));
        let (what, detail) = match (process.thread(slot as u32).state(), cq) {
            (ThreadState::Waiting(Waiting::Poll), Some(cq)) => (format!("polls {} in vain{since}", self.name_of_cq(cq)), Detail::CompletionQueue(cq)),
            (ThreadState::Waiting(Waiting::Pause), _) => (format!("polls memory, a clock or a descriptor in vain{since}"), Detail::Process),
            _ => (format!("spins on memory in vain{since}"), Detail::Process),
        };
        let mut queue_pairs: Vec<String> = self.queue_pair_lines(process, detail).iter().map(|line| line.trim_start().to_owned()).collect();
        if queue_pairs.len() > QUEUE_PAIRS_MAX {
            let more = queue_pairs.len() - QUEUE_PAIRS_MAX;
            queue_pairs.truncate(QUEUE_PAIRS_MAX);
            queue_pairs.push(format!("and {more} more"));
        }
        format!("{name} {what}, and nothing else happens: {} (--timeout SECONDS ends a run that waits for ever)", queue_pairs.join("; "))
    }
}

/// Returns the first thread of a process that waits for news of a CQ, of memory, or of something else
/// that it polls.
fn polling_slot(process: &Process) -> Option<usize> {
    let waits = |state: &ThreadState| matches!(state, ThreadState::Waiting(Waiting::Poll | Waiting::Pause | Waiting::Spin));
    process.threads().iter().position(|thread| waits(thread.state()))
}

/// Returns whether the wait of a thread ends by itself.
fn has_end(process: &Process, slot: u32) -> bool {
    let request = process.shared().request(slot);
    let end = match process.thread(slot).state() {
        ThreadState::Waiting(Waiting::Sleep) => crate::protocol::request::<calls::Sleep>(&request).map(|sleep| sleep.until_ps),
        _ => crate::protocol::request::<calls::WaitRequest>(&request).map(|wait| wait.deadline_ps),
    };
    end.is_ok_and(|end| crate::protocol::program_time(end).is_some())
}
