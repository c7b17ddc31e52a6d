//! Drives a World by a schedule. Each rank has one thread that posts and polls, and pays for both what its host's part says; it sees a
//! completion as a program in virtual pace does: when it looks, or, while it looks in vain, when the completion comes.

use crate::connections::{BASE, Connections, Endpoint, Refusal, Side, endpoint};
use crate::measure::{Measurements, PhaseReport, Tally};
use crate::memory::NoMemory;
use crate::progress::{Agenda, Costs, Due, POLL_BATCH, Seen, Thread};
use crate::schedule::{Action, Schedule, Wait};
use softband_fabric::World;
use softband_fabric::notice::Notice;
use softband_model::verbs::api::{Completion, ReceiveRequest, ScatterGatherEntry, SendOperation, SendRequest};
use softband_sim::SimTime;
use softband_types::{WcOpcode, WcStatus};
use std::collections::{BTreeMap, VecDeque};

/// Why a workload did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    #[error("the workload has {ranks} ranks, and the fabric places for {places}: {hosts} hosts with {ranks_per_host} each")]
    TooManyRanks { ranks: u32, places: usize, hosts: usize, ranks_per_host: u32 },
    #[error("host {host} has no cabled port")]
    NoPort { host: String },
    #[error("host {host} cannot make what the workload needs ({what})")]
    Verbs { host: String, what: String },
    #[error("a message from {from} to {to} failed: {status}")]
    Failed { from: String, to: String, status: String },
    #[error("nothing can happen any more, but these still wait: {}", waiting.join("; "))]
    Stuck { waiting: Vec<String> },
    #[error("deadlock in the fabric: {waits}")]
    Deadlock { waits: String },
}

/// Of those that wait at the end so many are named.
const WAITING_NAMED: usize = 8;

#[derive(Clone, Copy, Default)]
struct StepState {
    waits: u32,
    posted: u32,
    retired: u32,
    is_open: bool,
}

/// From one rank to another.
struct Way {
    side: Side,
    outstanding: u32,
    /// Steps that wait for room in the send queue.
    blocked: VecDeque<u32>,
    tally: Tally,
}

/// Messages that have come and receives that wait, of one source and tag.
#[derive(Default)]
struct Match {
    arrived: u32,
    waiting: VecDeque<u32>,
}

/// A workload under way.
pub struct Runner {
    world: World,
    schedule: Schedule,
    matches_receives: bool,
    endpoints: Vec<Endpoint>,
    ranks_per_host: u32,
    followers: Vec<Vec<(u32, Wait)>>,
    states: Vec<StepState>,
    threads: Vec<Thread>,
    cpus: BTreeMap<(u32, u32), SimTime>,
    connections: Connections,
    ways: BTreeMap<(u32, u32), Way>,
    matches: BTreeMap<(u32, u32, u32), Match>,
    agenda: Agenda,
    phases: Vec<PhaseReport>,
    notices: Vec<Notice>,
    failure: Option<RunError>,
    warnings: Vec<String>,
    steps_done: usize,
    bytes_done: u64,
    bytes_total: u64,
    ended: SimTime,
    events: u64,
}

impl Runner {
    /// # Errors
    /// When the ranks have no place on the fabric's hosts.
    pub fn new(mut world: World, schedule: Schedule, ranks_per_host: u32) -> Result<Self, RunError> {
        world.count_payload_only();
        let hosts = world.spec().hosts.len();
        let places = hosts * ranks_per_host as usize;
        if schedule.ranks as usize > places {
            return Err(RunError::TooManyRanks { ranks: schedule.ranks, places, hosts, ranks_per_host });
        }
        let mut endpoints = Vec::new();
        for rank in 0..schedule.ranks {
            let host = (rank / ranks_per_host) as usize;
            let made = endpoint(&mut world, rank, host);
            endpoints.push(made.map_err(|refusal| refused(&world, host, &refusal))?);
        }
        let thread = |rank: u32| Thread {
            clock: SimTime::ZERO,
            parked: true,
            ring: VecDeque::new(),
            open: VecDeque::new(),
            costs: Costs::of(&world, (rank / ranks_per_host) as usize, schedule.reads_clock),
        };
        let threads = (0..schedule.ranks).map(thread).collect();
        let mut states = vec![StepState::default(); schedule.steps.len()];
        schedule.order.iter().for_each(|(_, later, _)| states[*later as usize].waits += 1);
        let mut runner = Self {
            world,
            matches_receives: schedule.has_receives(),
            endpoints,
            ranks_per_host,
            followers: schedule.followers(),
            states,
            threads,
            cpus: BTreeMap::new(),
            connections: Connections::default(),
            ways: BTreeMap::new(),
            matches: BTreeMap::new(),
            agenda: Agenda::default(),
            phases: schedule.phases.iter().map(|name| PhaseReport::new(name)).collect(),
            notices: Vec::new(),
            failure: None,
            warnings: Vec::new(),
            steps_done: 0,
            bytes_done: 0,
            bytes_total: schedule.bytes(),
            ended: SimTime::ZERO,
            events: 0,
            schedule,
        };
        let free: Vec<u32> = (0..runner.states.len() as u32).filter(|step| runner.states[*step as usize].waits == 0).collect();
        runner.settle(free.into_iter().map(|step| (step, SimTime::ZERO)).collect());
        Ok(runner)
    }

    /// Goes on for at most so many events; whether everything is done.
    ///
    /// # Errors
    /// When the workload cannot come to its end.
    pub fn run(&mut self, events_max: u64) -> Result<bool, RunError> {
        for _ in 0..events_max {
            if self.steps_done == self.schedule.steps.len() {
                return Ok(true);
            }
            match (self.world.next_event_time(), self.agenda.next_time()) {
                // Events of the fabric come before those of programs of the same instant.
                (Some(event), due) if due.is_none_or(|due| event <= due) => self.step_world(),
                (_, Some(_)) => self.step_agenda(),
                (_, None) => return Err(RunError::Stuck { waiting: self.waiting() }),
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
        }
        Ok(self.steps_done == self.schedule.steps.len())
    }

    pub fn world(&self) -> &World {
        &self.world
    }

    pub fn now(&self) -> SimTime {
        self.world.now()
    }

    /// What went wrong without ending the run.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Between 0 and 1: of the payload that is to be sent, or where there is none of the steps.
    pub fn part_done(&self) -> f64 {
        match self.bytes_total {
            0 => self.steps_done as f64 / self.schedule.steps.len().max(1) as f64,
            total => self.bytes_done as f64 / total as f64,
        }
    }

    pub fn measurements(&self) -> Measurements {
        let flows = self.ways.iter().map(|((from, to), way)| way.tally.report((*from, *to), (self.host_of(*from), self.host_of(*to)))).collect();
        Measurements {
            completion: self.ended,
            phases: self.phases.clone(),
            flows,
            connections: self.connections.len(),
            events: self.events,
            packet_hops: self.world.counters().iter().map(|port| port.port_xmit_pkts).sum(),
        }
    }

    fn host_of(&self, rank: u32) -> String {
        self.world.spec().hosts[(rank / self.ranks_per_host) as usize].name.clone()
    }

    fn name_of(&self, rank: u32) -> String {
        format!("rank {rank} (host {})", self.host_of(rank))
    }

    fn step_world(&mut self) {
        self.events += 1;
        self.world.step(&mut NoMemory, &mut self.notices);
        let now = self.world.now();
        let mut notices = std::mem::take(&mut self.notices);
        for notice in notices.drain(..) {
            match notice {
                Notice::Completed { process, completion, .. } => self.on_completed(process.0, &completion, now),
                Notice::Deadlock { waits, is_broken_up: true } => self.warnings.push(format!("deadlock, broken up by lifetime limits: {waits}")),
                Notice::Deadlock { waits, is_broken_up: false } => self.failure = Some(RunError::Deadlock { waits }),
                _ => {}
            }
        }
        self.notices = notices;
    }

    fn on_completed(&mut self, rank: u32, completion: &Completion, now: SimTime) {
        let (step, index) = ((completion.wr_id >> 32) as u32, completion.wr_id as u32);
        if completion.status != WcStatus::Success {
            let sender = self.schedule.steps[step as usize];
            if let Action::Send { to, .. } = sender.action {
                let status = format!("{:?}", completion.status);
                self.failure.get_or_insert(RunError::Failed { from: self.name_of(sender.rank), to: self.name_of(to), status });
            }
            return;
        }
        let received = matches!(completion.opcode, WcOpcode::Receive | WcOpcode::ReceiveRdmaWithImmediate);
        let seen = if received { Seen::Received { step } } else { Seen::Sent { step, index } };
        self.threads[rank as usize].ring.push_back(seen);
        self.rouse(rank, now);
    }

    /// Lets a thread that looks in vain look at `at`.
    fn rouse(&mut self, rank: u32, at: SimTime) {
        let thread = &mut self.threads[rank as usize];
        if std::mem::take(&mut thread.parked) {
            self.agenda.push(at.max(thread.clock), Due::Look { rank });
        }
    }

    fn step_agenda(&mut self) {
        let Some((at, due)) = self.agenda.pop() else { return };
        match due {
            Due::Look { rank } => self.look(rank, at),
            Due::Calculated { step } => self.finish(step, at),
        }
    }

    /// One round of a thread's loop: what has completed, then what may be posted.
    fn look(&mut self, rank: u32, at: SimTime) {
        let thread = &mut self.threads[rank as usize];
        thread.clock = thread.clock.max(at);
        if thread.ring.is_empty() && thread.open.is_empty() {
            thread.parked = true;
            return;
        }
        let count = thread.ring.len().min(POLL_BATCH);
        let batch: Vec<Seen> = thread.ring.drain(..count).collect();
        for seen in batch {
            match seen {
                Seen::Sent { step, index } => self.on_sent(rank, step, index),
                Seen::Received { step } => self.on_received(rank, step),
            }
        }
        while let Some(step) = self.threads[rank as usize].open.pop_front() {
            self.post_one(rank, step);
        }
        let thread = &self.threads[rank as usize];
        self.agenda.push(thread.clock + thread.costs.poll, Due::Look { rank });
    }

    /// A completion covers all messages of its step up to its own.
    fn on_sent(&mut self, rank: u32, step: u32, index: u32) {
        let Action::Send { to, bytes, messages, .. } = self.schedule.steps[step as usize].action else { return };
        let thread = &mut self.threads[rank as usize];
        thread.clock += thread.costs.clock;
        let now = thread.clock;
        let state = &mut self.states[step as usize];
        let count = index + 1 - state.retired;
        state.retired = index + 1;
        let (done, goes_on) = (state.retired == messages, state.posted < messages);
        self.bytes_done += u64::from(bytes) * u64::from(count);
        let way = self.ways.get_mut(&(rank, to)).expect("what was sent went some way");
        way.outstanding -= count;
        way.tally.completed(now);
        let blocked = std::mem::take(&mut way.blocked);
        blocked.into_iter().for_each(|step| self.open(step));
        if goes_on {
            self.open(step);
        }
        if done {
            self.finish(step, now);
        }
    }

    fn on_received(&mut self, rank: u32, step: u32) {
        let thread = &mut self.threads[rank as usize];
        // The request that the message has used is replaced.
        thread.clock += thread.costs.post_receive;
        let now = thread.clock;
        let sender = self.schedule.steps[step as usize];
        let Action::Send { tag, .. } = sender.action else { return };
        if !self.matches_receives {
            return;
        }
        let entry = self.matches.entry((sender.rank, rank, tag)).or_default();
        match entry.waiting.pop_front() {
            Some(receive) => self.finish(receive, now),
            None => entry.arrived += 1,
        }
    }

    fn open(&mut self, step: u32) {
        let rank = self.schedule.steps[step as usize].rank;
        if !std::mem::replace(&mut self.states[step as usize].is_open, true) {
            self.threads[rank as usize].open.push_back(step);
        }
    }

    /// Posts the next message of a step, if its window and the queue have room.
    fn post_one(&mut self, rank: u32, step: u32) {
        self.states[step as usize].is_open = false;
        let Action::Send { to, bytes, messages, .. } = self.schedule.steps[step as usize].action else { return };
        let state = self.states[step as usize];
        if state.posted == messages || state.posted - state.retired >= self.schedule.window {
            return;
        }
        if let Err(refusal) = self.make_way(rank, to) {
            self.failure = Some(refused(&self.world, (rank / self.ranks_per_host) as usize, &refusal));
            return;
        }
        let way = self.ways.get_mut(&(rank, to)).expect("just made");
        if way.outstanding == way.side.depth {
            way.blocked.push_back(step);
            return;
        }
        way.outstanding += 1;
        let side = way.side;
        let thread = &mut self.threads[rank as usize];
        thread.clock += thread.costs.clock;
        way.tally.posted(thread.clock, bytes);
        thread.clock += thread.costs.post_send;
        let at = thread.clock;
        let interval = self.schedule.completion_interval;
        let signaled = state.posted % interval == interval - 1 || state.posted + 1 == messages;
        let wr_id = u64::from(step) << 32 | u64::from(state.posted);
        self.states[step as usize].posted += 1;
        self.post(at, (rank, to), side, (bytes, wr_id, signaled));
        if state.posted + 1 < messages {
            self.open(step);
        }
    }

    fn make_way(&mut self, rank: u32, to: u32) -> Result<(), Refusal> {
        if !self.ways.contains_key(&(rank, to)) {
            // Both directions and several steps share the queues.
            let depth = self.schedule.window.saturating_mul(4).clamp(128, 4_096);
            let (from, peer) = ((rank, self.endpoints[rank as usize]), (to, self.endpoints[to as usize]));
            let side = self.connections.side(&mut self.world, from, peer, depth)?;
            self.ways.insert((rank, to), Way { side, outstanding: 0, blocked: VecDeque::new(), tally: Tally::default() });
        }
        Ok(())
    }

    /// Hands a message to the World, with the receive request that it will use: receivers are never late.
    fn post(&mut self, at: SimTime, (from, to): (u32, u32), side: Side, (bytes, wr_id, signaled): (u32, u64, bool)) {
        let (own, peer) = (self.endpoints[from as usize], self.endpoints[to as usize]);
        let entries = |lkey| if bytes == 0 { Vec::new() } else { vec![ScatterGatherEntry { address: BASE, len_bytes: bytes, lkey }] };
        let told = self.matches_receives;
        let operation = match self.schedule.writes {
            true => SendOperation::RdmaWrite { remote_address: BASE, rkey: peer.rkey, immediate: told.then_some(0) },
            false => SendOperation::Send { immediate: None },
        };
        if told || !self.schedule.writes {
            let request = ReceiveRequest { wr_id, entries: entries(peer.lkey), srq: None };
            self.world.post_receive(at, peer.process, peer.hca, side.receiver, request);
        }
        let request = SendRequest {
            wr_id,
            operation,
            signaled,
            solicited: false,
            fence: false,
            inline: None,
            entries: entries(own.lkey),
            datagram: None,
            xrc_srq: None,
        };
        self.world.post_send(at, own.process, own.hca, side.sender, request);
    }

    fn finish(&mut self, step: u32, at: SimTime) {
        let mut begun = VecDeque::new();
        self.note_done(step, at, &mut begun);
        self.settle(begun);
    }

    fn note_done(&mut self, step: u32, at: SimTime, begun: &mut VecDeque<(u32, SimTime)>) {
        self.steps_done += 1;
        self.ended = self.ended.max(at);
        self.phases[usize::from(self.schedule.steps[step as usize].phase)].done(at);
        self.release(step, at, Wait::UntilDone, begun);
    }

    /// One wait less for those who wait for this of a step.
    fn release(&mut self, step: u32, at: SimTime, what: Wait, begun: &mut VecDeque<(u32, SimTime)>) {
        for (later, wait) in &self.followers[step as usize] {
            if *wait == what {
                let state = &mut self.states[*later as usize];
                state.waits -= 1;
                if state.waits == 0 {
                    begun.push_back((*later, at));
                }
            }
        }
    }

    /// Begins steps, and those that can begin by that: a list, since chains of them may be as long as a trace.
    fn settle(&mut self, mut begun: VecDeque<(u32, SimTime)>) {
        while let Some((number, at)) = begun.pop_front() {
            let step = self.schedule.steps[number as usize];
            // A receive may wait from the beginning on: that begins nothing.
            if !matches!(step.action, Action::Receive { .. }) {
                self.phases[usize::from(step.phase)].begun(at);
            }
            self.release(number, at, Wait::UntilBegun, &mut begun);
            match step.action {
                Action::Send { messages: 0, .. } => self.note_done(number, at, &mut begun),
                Action::Send { .. } => {
                    self.open(number);
                    self.rouse(step.rank, at);
                }
                Action::Receive { from, tag } => {
                    let entry = self.matches.entry((from, step.rank, tag)).or_default();
                    if entry.arrived > 0 {
                        entry.arrived -= 1;
                        self.note_done(number, at, &mut begun);
                    } else {
                        entry.waiting.push_back(number);
                    }
                }
                Action::Calculate { nanos, cpu } => {
                    let free = self.cpus.entry((step.rank, cpu)).or_default();
                    *free = at.max(*free) + softband_sim::SimDuration::from_nanos(nanos);
                    self.agenda.push(*free, Due::Calculated { step: number });
                }
            }
        }
    }

    fn waiting(&self) -> Vec<String> {
        let begun = |(step, state): &(usize, &StepState)| {
            let unsent = |to: u32, messages: u32| state.retired < messages && self.ways.contains_key(&(self.schedule.steps[*step].rank, to));
            match self.schedule.steps[*step].action {
                Action::Send { to, messages, .. } => state.waits == 0 && unsent(to, messages),
                Action::Receive { from, tag } => {
                    let key = (from, self.schedule.steps[*step].rank, tag);
                    self.matches.get(&key).is_some_and(|entry| entry.waiting.contains(&(*step as u32)))
                }
                Action::Calculate { .. } => false,
            }
        };
        let stuck: Vec<usize> = self.states.iter().enumerate().filter(begun).map(|(step, _)| step).collect();
        let mut named: Vec<String> = stuck.iter().take(WAITING_NAMED).map(|step| self.describe(*step)).collect();
        if stuck.len() > WAITING_NAMED {
            named.push(format!("and {} more", stuck.len() - WAITING_NAMED));
        }
        named
    }

    fn describe(&self, step: usize) -> String {
        let step = self.schedule.steps[step];
        let who = self.name_of(step.rank);
        match step.action {
            Action::Send { to, tag, .. } => format!("{who} for its send to rank {to}, tag {tag}"),
            Action::Receive { from, tag } => format!("{who} for a message from rank {from}, tag {tag}"),
            Action::Calculate { .. } => format!("{who} for its processor"),
        }
    }
}

fn refused(world: &World, host: usize, refusal: &Refusal) -> RunError {
    let host = world.spec().hosts[host].name.clone();
    match refusal {
        Refusal::NoPort => RunError::NoPort { host },
        Refusal::Verbs(error) => RunError::Verbs { host, what: error.to_string() },
    }
}
