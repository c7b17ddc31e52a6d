//! Runs a workload on as many threads as its fabric has partitions, window by window (conservative
//! parallel simulation).
//!
//! In a window every partition executes its own nodes' events. Then the partitions exchange the
//! parcels that cross cables, agree on the earliest pending event, and continue with its window.
//! Results depend neither on the number of partitions nor on the host's scheduling.
//!
//! # Example
//!
//! ```
//! use softband_model::parts::{CablePart, HcaPart, HostPart, SwitchPart};
//! use softband_parallel::ParallelRunner;
//! use softband_spec::FabricBuilder;
//! use softband_workload::{Pattern, Settings, build};
//! use std::ops::ControlFlow;
//! use std::sync::Arc;
//!
//! let mut fabric = FabricBuilder::new("star");
//! let switch = fabric.switch("sw", SwitchPart::ideal(4));
//! for name in ["a", "b", "c", "d"] {
//!     let host = fabric.host(name, HostPart::ideal());
//!     let hca = fabric.hca(host, HcaPart::ideal());
//!     fabric.cable(hca, switch, CablePart::ideal(100_000));
//! }
//! let spec = fabric.build()?;
//! let settings = Settings { bytes: Some(16_384), ..Settings::default() };
//! let schedule = Arc::new(build(Pattern::AllToAll, 4, &settings)?);
//!
//! // Seed 1, a rank on each host: the same flows on one thread and on two.
//! let flows = |threads| {
//!     let mut runner = ParallelRunner::new(&spec, 1, &schedule, (1, threads))?;
//!     runner.run(&mut |_| ControlFlow::Continue(()))?;
//!     Ok::<_, softband_workload::RunError>(runner.measurements().flows)
//! };
//! assert_eq!(flows(1)?, flows(2)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![allow(clippy::disallowed_methods)] // threads are outside the pure model side

mod barrier;

use barrier::{Barrier, CalledOff, Participant};
use softband_fabric::{HcaCounters, Parcel, Partitioning, QueuePairRepeats, Starved, World, lookahead};
use softband_sim::SimTime;
use softband_spec::FabricSpec;
use softband_workload::{Failure, Measurements, PortReport, RunError, Runner, Schedule, Waiting, port_reports};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};

/// A single partition shows its progress after this number of events: some hundredths of a second.
const EVENTS_BETWEEN_SHOWS: u64 = 1 << 16;

/// Running workload, in partitions of its fabric: each has a World and a thread.
pub struct ParallelRunner {
    runners: Vec<Runner>,
    /// No useful event is left: the last events were timers without a waiter.
    is_stuck: bool,
}

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Time of the run: that of its last event.
    pub now: SimTime,
    /// Completed work, in the unit of `total`: bytes or steps.
    pub done: u64,
    /// Work of the whole run: bytes of payload, or steps if no step has payload.
    pub total: u64,
}

/// Receives a run's progress from time to time, and may end the run.
pub type Show<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// A partition's message to the others between two windows.
#[derive(Clone, Default)]
struct Report {
    /// `None` if no event is left.
    next: Option<SimTime>,
    wants_deadlock_check: bool,
    is_done: bool,
    /// The caller that shows the progress wants to end the run.
    is_interrupted: bool,
    failure: Option<Failure>,
    progress: (u64, u64),
    now: SimTime,
}

/// The common decision of all partitions after they have exchanged reports.
enum Verdict {
    GoOn(SimTime),
    CheckDeadlock,
    Done,
    Failed(RunError),
    Interrupted,
    Stuck,
}

/// The data that partitions exchange. Two copies of each round alternate. A partition that is ahead
/// writes to a copy that all others have finished reading: they passed the barrier afterwards.
struct Board {
    barrier: Barrier,
    rounds: [Round; 2],
    starved: Vec<Mutex<Vec<Starved>>>,
}

struct Round {
    reports: Vec<Mutex<Report>>,
    /// Parcels from each partition to each other partition.
    mail: Vec<Vec<Mutex<Vec<Parcel>>>>,
}

impl ParallelRunner {
    /// Creates a World for each partition: as many as `threads` (at least 1), but at most one per
    /// host. A fabric without lookahead gets a single partition. Each host has `ranks_per_host`
    /// ranks.
    ///
    /// # Errors
    /// Fails if the fabric's hosts have no room for the ranks, or if a thread cannot start.
    pub fn new(spec: &FabricSpec, seed: u64, schedule: &Arc<Schedule>, (ranks_per_host, threads): (u32, u8)) -> Result<Self, RunError> {
        let most = u8::try_from(spec.hosts.len()).unwrap_or(u8::MAX);
        let partitioning = Partitioning::new(spec, if lookahead(spec).is_some() { threads.min(most) } else { 1 });
        let make = |partition: u8| {
            let mut world = World::new(spec, seed);
            world.work_in_windows();
            if partitioning.partitions() > 1 {
                world.take_partition(&partitioning, partition);
            }
            Runner::new(world, Arc::clone(schedule), ranks_per_host)
        };
        let made: Vec<Result<Runner, RunError>> = std::thread::scope(|scope| {
            let makers: Vec<_> = (1..partitioning.partitions()).map(|partition| start(scope, move || make_partition(make, partition))).collect();
            let own = make(0);
            std::iter::once(own).chain(makers.into_iter().map(|maker| maker.and_then(join))).collect()
        });
        Ok(Self { runners: made.into_iter().collect::<Result<_, _>>()?, is_stuck: false })
    }

    /// Handles each hop of each packet by an event of its own, as
    /// [`World::go_packet_by_packet`](softband_fabric::World::go_packet_by_packet).
    pub fn go_packet_by_packet(&mut self) {
        self.runners.iter_mut().for_each(|runner| runner.world_mut().go_packet_by_packet());
    }

    /// Runs the workload to its end, and shows the progress from time to time.
    ///
    /// # Errors
    /// Fails if the workload cannot finish, or if `show` ends it.
    pub fn run(&mut self, show: &mut Show) -> Result<(), RunError> {
        let outcome = self.work(show);
        self.is_stuck = matches!(outcome, Err(RunError::Stuck { .. }));
        self.runners.iter_mut().for_each(|runner| runner.world_mut().settle());
        outcome
    }

    fn work(&mut self, show: &mut Show) -> Result<(), RunError> {
        if let [runner] = &mut self.runners[..] {
            return run_alone(runner, show);
        }
        let board = Board::new(self.runners.len());
        let board = &board;
        let verdict = std::thread::scope(|scope| {
            // If a later step fails, the barrier releases the other partitions.
            let participant = board.barrier.join();
            let mut others = self.runners.iter_mut().enumerate();
            let first = others.next();
            let workers: Result<Vec<_>, RunError> = others
                .map(|(partition, runner)| {
                    start(scope, move || board.work(partition, runner, &board.barrier.join(), &mut |_| ControlFlow::Continue(())))
                })
                .collect();
            let workers = workers.inspect_err(|_| board.barrier.call_off())?;
            let own = first.map(|(partition, runner)| board.work(partition, runner, &participant, show));
            workers.into_iter().for_each(|worker| drop(join(worker)));
            Ok(own)
        })?;
        match verdict {
            Some(Ok(Verdict::Failed(error))) => Err(error),
            Some(Ok(Verdict::Interrupted)) => Err(RunError::Interrupted),
            Some(Ok(Verdict::Stuck)) => {
                let waiting = self.runners.iter().map(Runner::waiting).fold(Waiting::default(), Waiting::and);
                Err(RunError::Stuck { waiting })
            }
            _ => Ok(()),
        }
    }

    /// Lets trains form as soon as they can, for tests.
    #[doc(hidden)]
    pub fn seek_trains(&mut self) {
        self.runners.iter_mut().for_each(|runner| runner.world_mut().seek_trains());
    }

    /// Returns the number of passages of packets through switches without an event of their own.
    pub fn passages_in_trains(&self) -> u64 {
        self.runners.iter().map(|runner| runner.world().passages_in_trains()).sum()
    }

    /// Returns the number of packets of trains that came to their HCA without an event of their own.
    pub fn silent_arrivals(&self) -> u64 {
        self.runners.iter().map(|runner| runner.world().silent_arrivals()).sum()
    }

    /// Returns the time of the latest event.
    pub fn now(&self) -> SimTime {
        self.runners.iter().map(Runner::now).max().unwrap_or_default()
    }

    /// Returns the number of threads, which is that of partitions.
    pub fn threads(&self) -> usize {
        self.runners.len()
    }

    /// Returns the problems that did not end the run, in order of time.
    pub fn warnings(&self) -> impl Iterator<Item = &String> {
        let mut warnings: Vec<&(SimTime, String)> = self.runners.iter().flat_map(Runner::warnings).collect();
        warnings.sort();
        warnings.into_iter().map(|(_, warning)| warning)
    }

    /// Returns the time of the run's last step; before the end, the current time of the run.
    fn completion(&self) -> SimTime {
        let is_over = self.is_stuck || self.runners.iter().all(Runner::is_done);
        let of = if is_over { Runner::last_done } else { Runner::now };
        self.runners.iter().map(of).max().unwrap_or_default()
    }

    /// Returns the measurements of the whole run so far.
    pub fn measurements(&self) -> Measurements {
        Measurements { completion: self.completion(), ..Measurements::of_partitions(self.runners.iter().map(Runner::measurements)) }
    }

    /// Returns the load of every cabled port, in the order of the fabric's cables.
    pub fn port_reports(&self) -> Vec<PortReport> {
        let counters = self.runners.iter().flat_map(|runner| runner.world().counters());
        port_reports(self.runners[0].world().spec(), counters, self.completion())
    }

    /// Returns the counters of every HCA, by name.
    pub fn hca_counters(&self) -> Vec<HcaCounters> {
        let mut counters: Vec<HcaCounters> = self.runners.iter().flat_map(|runner| runner.world().hca_counters()).collect();
        counters.sort_by(|a, b| a.node.cmp(&b.node));
        counters
    }

    /// Returns all queue pairs that had to resend or wait, by HCA and number.
    pub fn repeats(&self) -> Vec<QueuePairRepeats> {
        let mut repeats: Vec<QueuePairRepeats> = self.runners.iter().flat_map(|runner| runner.world().repeats()).collect();
        repeats.sort_by_key(|qp| (qp.hca, qp.qpn));
        repeats
    }
}

/// Runs a single partition, which needs no barrier.
fn run_alone(runner: &mut Runner, show: &mut Show) -> Result<(), RunError> {
    while !runner.run(EVENTS_BETWEEN_SHOWS)? {
        let (done, total) = runner.progress();
        if show(Progress { now: runner.now(), done, total }).is_break() {
            return Err(RunError::Interrupted);
        }
    }
    Ok(())
}

fn make_partition<T>(make: impl Fn(u8) -> T, partition: u8) -> T {
    make(partition)
}

/// Starts a thread in `scope`. Fails if the system permits no further thread.
fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, RunError> {
    std::thread::Builder::new().spawn_scoped(scope, work).map_err(|error| RunError::NoThread { error: error.to_string() })
}

/// Joins a worker, and passes its panic on.
fn join<T>(worker: ScopedJoinHandle<'_, T>) -> T {
    worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn lock<T>(place: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Round {
    fn new(partitions: usize) -> Self {
        Self {
            reports: (0..partitions).map(|_| Mutex::default()).collect(),
            mail: (0..partitions).map(|_| (0..partitions).map(|_| Mutex::default()).collect()).collect(),
        }
    }

    /// Posts the parcels for the other partitions. Returns the earliest arrival time among them.
    fn send(&self, partition: usize, runner: &mut Runner) -> Option<SimTime> {
        let mut first = None;
        for to in (0..self.mail.len()).filter(|to| *to != partition) {
            let parcels = runner.world_mut().take_parcels(to as u8);
            first = parcels.iter().map(Parcel::arrival).chain(first).min();
            *lock(&self.mail[partition][to]) = parcels;
        }
        first
    }

    fn receive(&self, partition: usize, runner: &mut Runner) {
        for from in (0..self.mail.len()).filter(|from| *from != partition) {
            let parcels = std::mem::take(&mut *lock(&self.mail[from][partition]));
            runner.world_mut().take_in(parcels);
        }
    }

    /// Returns the common decision and the common progress.
    fn verdict(&self) -> (Verdict, Progress) {
        let reports: Vec<Report> = self.reports.iter().map(|report| lock(report).clone()).collect();
        let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum();
        let now = reports.iter().map(|report| report.now).max().unwrap_or_default();
        let progress = Progress { now, done: sum(|report| report.progress.0), total: sum(|report| report.progress.1) };
        (verdict(&reports), progress)
    }
}

fn verdict(reports: &[Report]) -> Verdict {
    if let Some((_, error)) = reports.iter().filter_map(|report| report.failure.clone()).min_by_key(|(at, _)| *at) {
        return Verdict::Failed(error);
    }
    if reports.iter().all(|report| report.is_done) {
        return Verdict::Done;
    }
    if reports.iter().any(|report| report.is_interrupted) {
        return Verdict::Interrupted;
    }
    if reports.iter().any(|report| report.wants_deadlock_check) {
        return Verdict::CheckDeadlock;
    }
    reports.iter().filter_map(|report| report.next).min().map_or(Verdict::Stuck, Verdict::GoOn)
}

impl Board {
    fn new(partitions: usize) -> Self {
        Self {
            barrier: Barrier::new(partitions),
            rounds: [Round::new(partitions), Round::new(partitions)],
            starved: (0..partitions).map(|_| Mutex::default()).collect(),
        }
    }

    /// Runs one partition up to the end of the workload.
    fn work(&self, partition: usize, runner: &mut Runner, participant: &Participant, show: &mut Show) -> Result<Verdict, CalledOff> {
        let mut is_interrupted = false;
        for round in self.rounds.iter().cycle() {
            runner.run_window(u64::MAX);
            let first_sent = round.send(partition, runner);
            *lock(&round.reports[partition]) = Report { is_interrupted, ..Report::of(runner, first_sent) };
            participant.wait()?;
            let (verdict, progress) = round.verdict();
            // The other partitions learn of it in the next round.
            is_interrupted = show(progress).is_break();
            round.receive(partition, runner);
            match verdict {
                Verdict::GoOn(next) => runner.world_mut().open_window(next),
                // The window is over: the next round only agrees on the changes that the check
                // made.
                Verdict::CheckDeadlock => self.check_deadlock(partition, runner, participant)?,
                end => return Ok(end),
            }
        }
        unreachable!("rounds follow each other for ever")
    }

    /// Checks the starved lanes of all partitions, in each partition.
    fn check_deadlock(&self, partition: usize, runner: &mut Runner, participant: &Participant) -> Result<(), CalledOff> {
        *lock(&self.starved[partition]) = runner.world().starved_lanes();
        participant.wait()?;
        let mut starved: Vec<Starved> = self.starved.iter().flat_map(|lanes| lock(lanes).clone()).collect();
        starved.sort_by_key(Starved::place);
        runner.world_mut().check_deadlock(starved);
        Ok(())
    }
}

impl Report {
    /// Reports on a window; `first_sent` is the earliest arrival of its parcels.
    fn of(runner: &Runner, first_sent: Option<SimTime>) -> Self {
        let world = runner.world();
        Self {
            next: world.next_event_time().into_iter().chain(first_sent).min(),
            wants_deadlock_check: world.wants_deadlock_check(),
            is_done: runner.is_done(),
            is_interrupted: false,
            failure: runner.failure().cloned(),
            progress: runner.progress(),
            now: world.now(),
        }
    }
}

/// Runs the examples of the README file.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
