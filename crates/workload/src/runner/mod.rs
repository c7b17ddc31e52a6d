//! Drives a World by a schedule. Each rank has one thread that posts and polls, at the costs of its
//! host's part.
//! It sees a completion as a program in simulated time does: at a poll, or on arrival if its polls
//! find nothing.
//!
//! The actions of a rank depend only on its own host's HCA. So a World may process its nodes one by
//! one, and a runner may have only some of the hosts.

mod library;
mod steps;
mod thread;
mod transfer;

use crate::connections::{Endpoint, Refusal, endpoint};
use crate::flows::{Flow, Flows};
use crate::measure::{Measurements, PhaseReport};
use crate::memory::NoMemory;
use crate::progress::{Costs, Due, Seen, Thread};
use crate::schedule::{Action, Followers, Schedule};
use library::Library;
use softband_fabric::World;
use softband_fabric::notice::Notice;
use softband_model::verbs::api::Completion;
use softband_sim::SimTime;
use softband_types::counted;
use softband_types::{WcOpcode, WcStatus};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
pub use steps::Waiting;
use steps::{Match, StepState};

/// Reason why a workload did not complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    #[error(
        "the workload has {}, and the fabric places for {places}: {} with {ranks_per_host} each\n  \
         help: --ranks-per-host {enough} makes places for all, or take a fabric with more hosts",
        counted(*ranks, "rank", "ranks"), counted(*hosts, "host", "hosts")
    )]
    /// The hosts have too few places for the ranks.
    TooManyRanks {
        /// Ranks of the workload.
        ranks: u32,
        /// Places for ranks on all hosts.
        places: usize,
        /// Hosts of the fabric.
        hosts: usize,
        /// Places on each host.
        ranks_per_host: u32,
        /// Places on each host that would suffice.
        enough: usize,
    },
    #[error(
        "host {host} takes part in the workload, and no port of it has a cable\n  \
         help: give it one under [[cables]], take the host out, or let the workload keep to others"
    )]
    /// A host takes part, and none of its ports has a cable.
    NoPort {
        /// Name of the host.
        host: String,
    },
    #[error(
        "mtu = {wanted} is more than the path between the hosts {} and {} carries, {carried}\n  \
         help: {carried} or less, or leave mtu out: each connection then has what its path carries",
        hosts[0], hosts[1]
    )]
    /// The workload's MTU exceeds the path MTU of a connection.
    PathMtu {
        /// Names of both hosts.
        hosts: [String; 2],
        /// MTU of the workload in bytes.
        wanted: u32,
        /// Path MTU in bytes.
        carried: u32,
    },
    /// An HCA refuses an object, mostly because it has too many.
    #[error("host {host} cannot make what the workload needs ({what})")]
    Verbs {
        /// Name of the host.
        host: String,
        /// Object, and the reason.
        what: String,
    },
    /// A message completed with an error.
    #[error("a message from {from} to {to} failed: {status}")]
    Failed {
        /// Name of the sender.
        from: String,
        /// Name of the receiver.
        to: String,
        /// Status of the completion.
        status: String,
    },
    /// No event is left, and steps still wait.
    #[error("the run stands still: no event is left, and these wait: {waiting}")]
    Stuck {
        /// Steps that wait.
        waiting: Waiting,
    },
    /// The operating system refuses a thread.
    #[error("no thread could be started for a partition of the fabric ({error}): ask for fewer with --threads")]
    NoThread {
        /// Error of the operating system.
        error: String,
    },
    /// Packets wait for each other's buffers in a cycle, for ever.
    #[error("deadlock in the fabric: {waits}")]
    Deadlock {
        /// Ports of the cycle.
        waits: String,
    },
    /// The caller ended the run.
    #[error("it was interrupted")]
    Interrupted,
}

/// Time, node and error of a failure. The first by time and node counts, in any partition.
pub type Failure = ((SimTime, u32), RunError);

/// A running workload, or its part on the hosts of its World.
pub struct Runner {
    world: World,
    schedule: Arc<Schedule>,
    /// Whether ranks see incoming messages and match them with receives.
    matches_receives: bool,
    endpoints: Vec<Endpoint>,
    ranks_per_host: u32,
    followers: Followers,
    states: Vec<StepState>,
    threads: Vec<Thread>,
    cpus: BTreeMap<(u32, u32), SimTime>,
    flows: Vec<Flow>,
    /// Flow of the messages of each step.
    flow_of_step: Vec<u32>,
    connections: usize,
    /// Libraries of the ranks, if the workload has a protocol.
    library: Option<Library>,
    matches: BTreeMap<(u32, u32, u32), Match>,
    phases: Vec<PhaseReport>,
    notices: Vec<Notice>,
    failure: Option<Failure>,
    /// Dead hosts, whose ranks do nothing more.
    dead_hosts: Vec<usize>,
    warnings: Vec<(SimTime, String)>,
    steps_left: usize,
    steps_total: usize,
    sends_payload: bool,
    bytes_total: u64,
    ended: SimTime,
    events: u64,
}

impl Runner {
    /// Creates a runner for the hosts of `world`, with `ranks_per_host` ranks on each host (at
    /// least 1): rank r is on host r / `ranks_per_host`. Other runners have the other hosts of a
    /// World in partitions.
    ///
    /// # Errors
    /// If the fabric's hosts have too few places for the ranks, or if a connection cannot be made.
    pub fn new(mut world: World, schedule: Arc<Schedule>, ranks_per_host: u32) -> Result<Self, RunError> {
        world.count_payload_only();
        let hosts = world.spec().hosts.len();
        let places = hosts * ranks_per_host as usize;
        if schedule.ranks as usize > places {
            let enough = (schedule.ranks as usize).div_ceil(hosts.max(1));
            return Err(RunError::TooManyRanks { ranks: schedule.ranks, places, hosts, ranks_per_host, enough });
        }
        let takes_part = schedule.ranks_that_take_part();
        let mut endpoints = Vec::new();
        for rank in 0..schedule.ranks {
            let host = (rank / ranks_per_host) as usize;
            let made = endpoint(&mut world, rank, host, (takes_part[rank as usize], schedule.protocol.is_some()));
            endpoints.push(made.map_err(|refusal| refused(&world, rank, ranks_per_host, &refusal))?);
        }
        let Flows { flows, of_step, connections, known } =
            Flows::of(&mut world, &schedule, &endpoints).map_err(|(rank, refusal)| refused(&world, rank, ranks_per_host, &refusal))?;
        let library = schedule.protocol.as_ref().map(|protocol| Library::new(protocol, &world, &schedule, &endpoints, known));
        let thread = |rank: u32| Thread {
            clock: SimTime::ZERO,
            parked: true,
            ring: VecDeque::new(),
            open: VecDeque::new(),
            costs: Costs::of(&world, (rank / ranks_per_host) as usize, schedule.reads_clock),
        };
        let threads = (0..schedule.ranks).map(thread).collect();
        let is_own = |rank: u32| world.has_hca(endpoints[rank as usize].hca);
        let own = schedule.steps.iter().filter(|step| is_own(step.rank));
        let bytes_total = own.clone().map(|step| step.bytes()).sum();
        let steps_left = own.count();
        let mut states = vec![StepState::default(); schedule.steps.len()];
        schedule.order.iter().for_each(|(_, later, _)| states[*later as usize].waits += 1);
        let free = (0..states.len() as u32).filter(|step| states[*step as usize].waits == 0 && is_own(schedule.steps[*step as usize].rank));
        let free: VecDeque<(u32, SimTime)> = free.map(|step| (step, SimTime::ZERO)).collect();
        let mut runner = Self {
            world,
            matches_receives: schedule.has_receives(),
            endpoints,
            ranks_per_host,
            followers: schedule.followers(),
            states,
            threads,
            cpus: BTreeMap::new(),
            flows,
            flow_of_step: of_step,
            connections,
            library,
            matches: BTreeMap::new(),
            phases: schedule.phases.iter().map(|name| PhaseReport::new(name)).collect(),
            notices: Vec::new(),
            failure: None,
            dead_hosts: Vec::new(),
            warnings: Vec::new(),
            steps_left,
            steps_total: steps_left,
            sends_payload: schedule.steps.iter().any(|step| step.bytes() > 0),
            bytes_total,
            ended: SimTime::ZERO,
            events: 0,
            schedule,
        };
        runner.settle(free);
        Ok(runner)
    }

    /// Runs at most `events_max` further events. Returns whether all steps are done. Requires a
    /// runner with all hosts.
    ///
    /// # Errors
    /// If the workload cannot complete.
    pub fn run(&mut self, events_max: u64) -> Result<bool, RunError> {
        let until = self.events + events_max;
        if self.is_done() {
            self.world.end_window();
        }
        while !self.run_window(until) {
            if let Some((_, failure)) = self.failure.take() {
                return Err(failure);
            }
            if self.is_done() {
                return Ok(true);
            }
            if !self.world.next_window() {
                return Err(RunError::Stuck { waiting: self.waiting() });
            }
        }
        Ok(false)
    }

    /// Runs all events up to the end of the World's window, until `events_max` events of the whole
    /// run. Returns whether that limit ended the call.
    pub fn run_window(&mut self, events_max: u64) -> bool {
        while self.events < events_max {
            self.events += self.world.run_in_window(&mut NoMemory, &mut self.notices, events_max - self.events);
            if !self.notices.is_empty() {
                self.take_notices();
                if self.is_done() || self.failure.is_some() {
                    self.world.end_window();
                }
            } else if self.events < events_max {
                return false;
            }
        }
        true
    }

    /// Returns the first reason why the workload cannot complete, with its time.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    fn fail(&mut self, error: RunError) {
        let at = self.world.present();
        if self.failure.as_ref().is_none_or(|(first, _)| at < *first) {
            self.failure = Some((at, error));
        }
    }

    /// Returns whether all steps of this runner's hosts are done.
    pub fn is_done(&self) -> bool {
        self.steps_left == 0
    }

    /// Returns the World, with its counters.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Returns the World for changes, such as faults.
    pub fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    /// Returns the time of the World: that of its last event.
    pub fn now(&self) -> SimTime {
        self.world.now()
    }

    /// Returns the problems that did not end the run, with their times.
    pub fn warnings(&self) -> &[(SimTime, String)] {
        &self.warnings
    }

    /// Returns the finished and the total amount of work. The unit is bytes of payload: received by
    /// these hosts, of those that they send.
    /// If the whole workload has no payload, the unit is steps.
    pub fn progress(&self) -> (u64, u64) {
        // The libraries' headers count as delivered bytes.
        if self.sends_payload && self.library.is_none() {
            return (self.world.delivered_bytes(), self.bytes_total);
        }
        ((self.steps_total - self.steps_left) as u64, self.steps_total as u64)
    }

    /// Returns the time when the last finished step of this runner's hosts was done.
    pub fn last_done(&self) -> SimTime {
        self.ended
    }

    /// Returns the measurements so far.
    pub fn measurements(&self) -> Measurements {
        let names: Vec<Arc<str>> = self.world.spec().hosts.iter().map(|host| host.name.as_str().into()).collect();
        let name = |rank: u32| Arc::clone(&names[(rank / self.ranks_per_host) as usize]);
        let report = |flow: &Flow| flow.tally.report((flow.from, flow.to), (name(flow.from), name(flow.to)));
        let mut flows: Vec<_> = self.flows.iter().filter(|flow| flow.tally.has_begun()).map(report).collect();
        flows.sort_by_key(|flow| (flow.from_rank, flow.to_rank));
        Measurements {
            completion: if self.is_done() { self.ended } else { self.now() },
            phases: self.phases.clone(),
            flows,
            connections: self.connections,
            events: self.events,
            packet_hops: self.world.packets_sent(),
        }
    }

    fn host_of(&self, rank: u32) -> String {
        self.world.spec().hosts[(rank / self.ranks_per_host) as usize].name.clone()
    }

    fn name_of(&self, rank: u32) -> String {
        format!("rank {rank} (host {})", self.host_of(rank))
    }

    fn take_notices(&mut self) {
        let now = self.world.now();
        let mut notices = std::mem::take(&mut self.notices);
        for notice in notices.drain(..) {
            match notice {
                Notice::Completed { process, completion, .. } => self.on_completed(process.0, &completion, now),
                Notice::Wakeup { token } => match Due::of_token(token) {
                    Due::Poll { rank } if self.is_dead(rank) => {}
                    Due::Calculated { step } if self.is_dead(self.schedule.steps[step as usize].rank) => {}
                    Due::Poll { rank } if self.library.is_some() => self.look(rank, now),
                    Due::Poll { rank } => self.poll(rank, now),
                    Due::Calculated { step } => self.finish(step, now),
                },
                Notice::Deadlock { waits, is_broken_up: true } => {
                    self.warnings.push((now, format!("deadlock, broken up by lifetime limits: {waits}")))
                }
                Notice::Deadlock { waits, is_broken_up: false } => self.fail(RunError::Deadlock { waits }),
                Notice::HostDied { host } => {
                    self.dead_hosts.push(host);
                    self.warnings.push((now, format!("host {} died after {:.6} s", self.world.spec().hosts[host].name, now.as_secs_f64())));
                }
                _ => {}
            }
        }
        self.notices = notices;
    }

    fn is_dead(&self, rank: u32) -> bool {
        self.dead_hosts.contains(&((rank / self.ranks_per_host) as usize))
    }

    fn on_completed(&mut self, rank: u32, completion: &Completion, now: SimTime) {
        if self.is_dead(rank) {
            return;
        }
        let received = matches!(completion.opcode, WcOpcode::Receive | WcOpcode::ReceiveRdmaWithImmediate);
        let seen = match received {
            true => Seen::Received { step: completion.immediate },
            false => Seen::Sent { step: (completion.wr_id >> 32) as u32, index: completion.wr_id as u32 },
        };
        if completion.status == WcStatus::Success {
            match (&mut self.library, received) {
                (Some(library), true) => library.receive(rank, completion.immediate),
                _ => self.threads[rank as usize].ring.push_back(seen),
            }
            return self.rouse(rank, now);
        }
        // A failure at the receiver also fails at the sender, which reports it.
        let Seen::Sent { step, .. } = seen else { return };
        let sender = self.schedule.steps[step as usize];
        if let Action::Send { to, .. } = sender.action {
            let status = format!("{:?}", completion.status);
            self.fail(RunError::Failed { from: self.name_of(sender.rank), to: self.name_of(to), status });
        }
    }

    fn wake_at(&mut self, rank: u32, at: SimTime, due: Due) {
        self.world.wake_at(self.endpoints[rank as usize].hca, at, due.token());
    }
}

fn refused(world: &World, rank: u32, ranks_per_host: u32, refusal: &Refusal) -> RunError {
    let host_of = |rank: u32| world.spec().hosts[(rank / ranks_per_host) as usize].name.clone();
    let host = host_of(rank);
    match refusal {
        Refusal::NoPort => RunError::NoPort { host },
        Refusal::PathMtu { ranks, wanted, carried } => {
            RunError::PathMtu { hosts: ranks.map(host_of), wanted: wanted.bytes(), carried: carried.bytes() }
        }
        Refusal::Verbs(error) => RunError::Verbs { host, what: error.to_string() },
    }
}
