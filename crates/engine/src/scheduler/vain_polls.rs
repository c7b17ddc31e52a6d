//! Detects programs that poll in vain for ever in simulated time. The engine names each of them
//! once.
//!
//! A poll counts only while nothing but vain polls happens. An event of the fabric or a byte of a
//! socket ends this state. So does a single future event: the end of a sleep, a timer, a thread in
//! the operating system. A recurring wait with a short limit in a loop is no such event.

use crate::engine::Engine;
use crate::process::image::{Process, ProcessState, ThreadState, Waiting};
use crate::scheduler::waits::{Detail, moment};
use softband_ipc::calls;
use softband_sim::SimTime;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Wall-clock time of nothing but polls after which the engine names a program.
const LIMIT: Duration = Duration::from_secs(10);
/// Most time between two checks that counts. A program that computes meanwhile does not poll.
const GAP_MAX: Duration = Duration::from_secs(1);
/// Polls between two checks of the host's clock.
const POLLS_PER_CHECK: u32 = 512;
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

/// Measures how long only polls have happened.
#[derive(Default)]
pub(crate) struct VainPolls {
    polls: u32,
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
    pub(crate) told: Vec<String>,
}

impl VainPolls {
    pub(crate) fn note_object(&mut self) {
        self.objects_changed += 1;
    }
}

impl Engine {
    /// Counts a vain poll of a thread that waits now.
    pub(crate) fn note_vain_poll(&mut self) {
        self.vain_polls.polls = self.vain_polls.polls.wrapping_add(1);
        if self.vain_polls.polls.is_multiple_of(POLLS_PER_CHECK) {
            self.check_vain_polls(Instant::now());
        }
    }

    fn check_vain_polls(&mut self, now: Instant) {
        let happened = self.fabric_events + self.vain_polls.objects_changed;
        let polls = &mut self.vain_polls;
        let gap = polls.checked_at.replace(now).map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        if happened != polls.happened {
            (polls.happened, polls.spent) = (happened, Duration::ZERO);
            self.vain_polls.ahead = self.ahead();
            return;
        }
        polls.spent += gap.min(GAP_MAX);
        if polls.spent < LIMIT || !self.ahead().is_disjoint(&self.vain_polls.ahead) {
            return;
        }
        let polling: Vec<usize> =
            self.processes.living().filter(|process| polling_slot(process).is_some()).map(|process| process.number.0 as usize).collect();
        for process in polling {
            if self.vain_polls.named.insert(process) {
                let line = self.vain_poll_line(&self.processes[process]);
                eprintln!("softband: {line}");
                self.vain_polls.told.push(line);
            }
        }
    }

    fn ahead(&self) -> BTreeSet<Ahead> {
        let mut ahead: BTreeSet<Ahead> = self.objects.timers().map(|at| Ahead::Timer { at }).collect();
        for process in self.processes.living() {
            let number = process.number.0 as usize;
            if process.state != ProcessState::Attached && process.state != ProcessState::Ended {
                ahead.insert(Ahead::Outside { process: number });
            }
            ahead.extend(process.alarms.values().map(|alarm| Ahead::Alarm { process: number, at: alarm.at }));
            let waits = process
                .threads
                .iter()
                .enumerate()
                .filter(|(_, thread)| matches!(thread.state, ThreadState::Away | ThreadState::Waiting(Waiting::Sleep | Waiting::Objects(_))));
            let ends = waits.filter(|(slot, thread)| thread.state == ThreadState::Away || has_end(process, *slot as u32));
            ahead.extend(ends.map(|(slot, thread)| Ahead::Wait { process: number, slot, generation: thread.generation }));
        }
        ahead
    }

    fn vain_poll_line(&self, process: &Process) -> String {
        let Some(slot) = polling_slot(process) else { return String::new() };
        let name = self.name_of_thread(process, slot);
        let since = process.threads[slot].waiting_since.map_or_else(String::new, |since| format!(" since {}", moment(since)));
        let request = process.shared.request(slot as u32);
        let cq = crate::rpc::calls::request::<calls::Handle>(&request).ok().map(|handle| handle.handle).filter(|cq| self.cqs.contains_key(cq));
        let (what, detail) = match (&process.threads[slot].state, cq) {
            (ThreadState::Waiting(Waiting::Poll), Some(cq)) => (format!("polls {} in vain{since}", self.name_of_cq(cq)), Detail::CompletionQueue(cq)),
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

/// Returns the first thread of a process that waits for news of a CQ or of memory.
fn polling_slot(process: &Process) -> Option<usize> {
    let waits = |state: &ThreadState| matches!(state, ThreadState::Waiting(Waiting::Poll | Waiting::Spin));
    process.threads.iter().position(|thread| waits(&thread.state))
}

/// Returns whether the wait of a thread ends by itself.
fn has_end(process: &Process, slot: u32) -> bool {
    let request = process.shared.request(slot);
    let end = match &process.threads[slot as usize].state {
        ThreadState::Waiting(Waiting::Sleep) => crate::rpc::calls::request::<calls::Sleep>(&request).map(|sleep| sleep.until_ps),
        _ => crate::rpc::calls::request::<calls::WaitRequest>(&request).map(|wait| wait.deadline_ps),
    };
    end.is_ok_and(|end| crate::rpc::calls::program_time(end).is_some())
}
