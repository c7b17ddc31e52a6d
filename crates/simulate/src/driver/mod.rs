//! Drives a World by a plan, under the eyes of the oracle.

mod post;
mod setup;
mod steps;
mod windows;

use crate::Digest;
use crate::memory::Memory;
use crate::oracle::{Effect, Oracle, Rule, Violation};
use crate::plan::{End, Message, Plan};
use crate::sabotage::Sabotage;
use softband_catalog::Catalog;
use softband_fabric::World;
use softband_fabric::notice::Notice;
use softband_sim::{SimDuration, SimTime};
use softband_spec::FabricSpec;
use softband_types::{AhHandle, HcaId, LKey, MrHandle, MwHandle, PdHandle, ProcessId, RKey, SrqHandle, XrcdHandle};
use std::collections::{BTreeMap, VecDeque};

/// A run that has more events than this does not end.
const EVENTS_MAX: u64 = 3_000_000;
/// Events between two audits of credits and PSNs.
const AUDIT_EVERY: u64 = 16;

/// A time after all runs, for the counters.
const AT_END: SimTime = SimTime::from_picos(1 << 50);

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    pub violation: Option<Violation>,
    pub events: u64,
    /// Simulated time of the last event.
    pub ended: SimTime,
    pub digest: Digest,
    /// Requests that succeeded, by operation, and those that failed, by status.
    pub successes: BTreeMap<&'static str, u64>,
    pub failures: BTreeMap<&'static str, u64>,
    pub packets: u64,
    /// Passages of packets through switches in trains.
    pub passages: u64,
    pub deadlocks: u64,
}

/// A process's objects.
struct Objects {
    id: ProcessId,
    hca: HcaId,
    pd: PdHandle,
    srq: Option<SrqHandle>,
    /// Domain and queue of extended reliable connections.
    extended: Option<(XrcdHandle, SrqHandle)>,
    regions: Vec<(MrHandle, LKey, RKey)>,
}

/// Reason for a wakeup.
#[derive(Clone, Copy, Debug)]
enum Timer {
    Action(usize),
    /// Posts receive requests of a generation of an end.
    Receive {
        end: End,
        generation: u32,
        count: u32,
    },
    /// Every fault has ended.
    Calm,
}

pub(crate) struct Driver<'a> {
    plan: &'a Plan,
    spec: FabricSpec,
    world: World,
    memory: Memory,
    oracle: Oracle,
    objects: Vec<Objects>,
    address_handles: BTreeMap<End, AhHandle>,
    /// Messages that wait for room in a send queue.
    backlog: BTreeMap<End, VecDeque<Message>>,
    timers: Vec<Timer>,
    /// Handles of the memory's windows.
    handles: Vec<MwHandle>,
    /// Tag of the next request.
    next_tag: u64,
    digest: Digest,
    events: u64,
    deadlocks: u64,
    /// Packets wait for each other for ever.
    is_stuck: bool,
}

/// Way in which the World handles packets on quiet ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packets {
    /// In trains that form as soon as they can.
    InTrains,
    /// Hop by hop.
    OneByOne,
}

/// Runs a plan. Panics of the model pass through.
pub(crate) fn run(plan: &Plan, catalog: &Catalog, packets: Packets, sabotage: Option<Sabotage>) -> Report {
    match Driver::new(plan, catalog, sabotage) {
        Ok(mut driver) => {
            match packets {
                Packets::InTrains => driver.world.seek_trains(),
                Packets::OneByOne => driver.world.go_packet_by_packet(),
            }
            let violation = driver.drive().err();
            driver.report(violation)
        }
        Err(violation) => Report::of_violation(violation),
    }
}

impl Report {
    /// Returns the report of a run that ended before it could be measured.
    pub(crate) fn of_violation(violation: Violation) -> Self {
        Self {
            violation: Some(violation),
            events: 0,
            ended: SimTime::ZERO,
            digest: Digest::default(),
            successes: BTreeMap::new(),
            failures: BTreeMap::new(),
            packets: 0,
            passages: 0,
            deadlocks: 0,
        }
    }
}

impl Driver<'_> {
    fn report(mut self, violation: Option<Violation>) -> Report {
        self.memory.add_to(&mut self.digest);
        // Without trains, events without effect may come later.
        self.world.look_at(AT_END);
        self.digest.add(&self.world.counters());
        self.digest.add(&self.world.hca_counters());
        Report {
            violation,
            events: self.events,
            ended: self.world.now(),
            digest: self.digest,
            successes: self.oracle.successes,
            failures: self.oracle.failures,
            packets: self.world.packets_sent(),
            passages: self.world.passages_in_trains(),
            deadlocks: self.deadlocks,
        }
    }

    fn drive(&mut self) -> Result<(), Violation> {
        let mut notices = Vec::new();
        let mut before = SimTime::ZERO;
        while self.world.next_event_time().is_some() {
            self.world.step(&mut self.memory, &mut notices);
            self.events += 1;
            self.commit_sabotage(&mut notices);
            let now = self.memory.saboteur.time(self.world.now());
            if now < before {
                return Err(Violation::new(Rule::Time, format!("from {} ps to {} ps", before.as_picos(), now.as_picos())));
            }
            before = now;
            if self.events > EVENTS_MAX {
                return Err(Violation::new(Rule::End, format!("{EVENTS_MAX} events have happened by {} ns", now.as_nanos())));
            }
            if !notices.is_empty() {
                self.digest.add(&(now.as_picos(), &notices));
            }
            for notice in notices.drain(..) {
                self.on_notice(&notice)?;
            }
            if self.events.is_multiple_of(AUDIT_EVERY) {
                self.audit()?;
            }
            if let Some(violation) = self.memory.violation.take() {
                return Err(violation);
            }
        }
        self.audit()?;
        if self.is_stuck { Ok(()) } else { self.judge_rest() }
    }

    fn commit_sabotage(&mut self, notices: &mut Vec<Notice>) {
        self.memory.saboteur.on_notices(notices);
        if self.memory.saboteur.swallows_credit() {
            self.world.lose_credits();
        }
        if self.memory.saboteur.plan() == Some(Sabotage::GoOn) {
            let (hca, at) = (self.objects[0].hca, self.world.now() + SimDuration::from_nanos(1));
            self.wake_at(hca, at, Timer::Calm);
        }
        if self.memory.saboteur.invents_deadlock() {
            notices.push(Notice::Deadlock { waits: "invented".into(), is_broken_up: true });
        }
    }

    fn audit(&mut self) -> Result<(), Violation> {
        self.world.audit().map_err(|detail| Violation::new(Rule::Credits, detail))?;
        let skips = self.memory.saboteur.skips_psn();
        self.oracle.judge_psns(&self.plan.connections, &self.world, skips)?;
        self.oracle.atomics.judge_updates(&self.memory)
    }

    fn judge_rest(&mut self) -> Result<(), Violation> {
        let packets = self.world.packets_under_way();
        if packets > 0 {
            return Err(Violation::new(Rule::Progress, format!("{packets} packets remain under way without an event")));
        }
        self.world.assert_credits_are_back();
        self.oracle.judge_rest(&self.world, &mut self.memory)?;
        let waiting: usize = self.backlog.iter().filter(|(end, _)| self.can_post(**end)).map(|(_, messages)| messages.len()).sum();
        if waiting > 0 {
            return Err(Violation::new(Rule::Progress, format!("{waiting} messages wait for room in idle send queues")));
        }
        Ok(())
    }

    fn on_notice(&mut self, notice: &Notice) -> Result<(), Violation> {
        match notice {
            Notice::Completed { process, cq, completion } => {
                match self.oracle.on_completed((*process, *cq), completion, &self.world, &mut self.memory)? {
                    Effect::Sent(end) => self.post_backlog(end),
                    Effect::Received(end) => self.renew_receive(end),
                }
                Ok(())
            }
            Notice::Wakeup { token } => self.on_timer(self.timers[*token as usize]),
            Notice::HostDied { host } => {
                let on_host = (0..self.plan.processes.len()).filter(|process| self.plan.processes[*process].host == *host);
                on_host.collect::<Vec<_>>().into_iter().for_each(|process| self.kill(process));
                Ok(())
            }
            Notice::Deadlock { waits, is_broken_up } => {
                self.deadlocks += 1;
                self.is_stuck |= !is_broken_up;
                // Packets that the switches discard are lost.
                self.oracle.calm = false;
                if softband_spec::credit_loops(&self.spec).is_empty() {
                    return Err(Violation::new(Rule::Deadlock, waits.clone()));
                }
                Ok(())
            }
            Notice::CqError { process, .. } => Err(Violation::new(Rule::Completions, format!("a completion queue of {process:?} overran"))),
            Notice::CqEvent { .. }
            | Notice::MemoryWritten { .. }
            | Notice::QpEvent { .. }
            | Notice::SrqEvent { .. }
            | Notice::PortEvent { .. }
            | Notice::LinkSwitched
            | Notice::FrameSent { .. }
            | Notice::FrameArrived { .. }
            | Notice::ManagementArrived { .. } => Ok(()),
        }
    }

    fn on_timer(&mut self, timer: Timer) -> Result<(), Violation> {
        match timer {
            Timer::Action(index) => self.take_step(&self.plan.actions[index].step),
            Timer::Receive { end, generation, count } => {
                if self.oracle.ends[&end].generation == generation {
                    (0..count).for_each(|_| self.post_receive(end));
                }
                Ok(())
            }
            Timer::Calm => {
                self.world.set_packet_loss(0);
                let ends: Vec<End> = self.oracle.ends.keys().copied().collect();
                let refused = |error| Violation::new(Rule::Outcome, format!("the return to RTS was refused: {error}"));
                ends.into_iter().try_for_each(|end| self.resume(end)).map_err(refused)
            }
        }
    }

    /// Wakes a process of an end, or any process, after `nanos`.
    fn wake_at(&mut self, hca: HcaId, at: SimTime, timer: Timer) {
        self.timers.push(timer);
        self.world.wake_at(hca, at, self.timers.len() as u32 - 1);
    }
}
