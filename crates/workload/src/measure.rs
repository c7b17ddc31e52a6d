//! Measurements of a run: its end, its phases, its flows.

use softband_sim::SimTime;
use std::sync::Arc;

/// Part of a workload, from the beginning of its first step to the end of its last step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseReport {
    /// Name of the phase, such as `reduce-scatter`.
    pub name: String,
    /// Time when its first step began, or `None` if none has begun. A step that only receives does
    /// not count.
    pub begun: Option<SimTime>,
    /// Time when its last step was done, or zero before its first end.
    pub ended: SimTime,
}

impl PhaseReport {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), begun: None, ended: SimTime::ZERO }
    }
    pub(crate) fn begun(&mut self, at: SimTime) {
        self.begun = Some(self.begun.map_or(at, |begun| begun.min(at)));
    }
    fn join(&mut self, other: &Self) {
        other.begun.into_iter().for_each(|at| self.begun(at));
        self.done(other.ended);
    }
    pub(crate) fn done(&mut self, at: SimTime) {
        self.ended = self.ended.max(at);
    }
}

/// Traffic of a flow between two ranks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    messages: u64,
    bytes: u64,
    begun: Option<SimTime>,
    ended: SimTime,
}

impl Tally {
    pub(crate) fn posted(&mut self, at: SimTime) {
        self.begun.get_or_insert(at);
    }
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }
    pub(crate) fn completed(&mut self, at: SimTime, messages: u32, bytes: u64) {
        self.ended = self.ended.max(at);
        self.messages += u64::from(messages);
        self.bytes += bytes;
    }
    pub(crate) fn report(&self, (from_rank, to_rank): (u32, u32), (from_host, to_host): (Arc<str>, Arc<str>)) -> FlowReport {
        let begun = self.begun.unwrap_or_default();
        let (messages, bytes, ended) = (self.messages, self.bytes, self.ended.max(begun));
        FlowReport { from_rank, to_rank, from_host, to_host, messages, bytes, begun, ended }
    }
}

/// All messages from one rank to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowReport {
    /// Rank that sends.
    pub from_rank: u32,
    /// Rank that receives.
    pub to_rank: u32,
    /// Host of the sender.
    pub from_host: Arc<str>,
    /// Host of the receiver.
    pub to_host: Arc<str>,
    /// Completed messages. After the end of a run, these are all messages.
    pub messages: u64,
    /// Payload of the completed messages in bytes.
    pub bytes: u64,
    /// Time of the first post.
    pub begun: SimTime,
    /// Time at which the sender saw its last completion.
    pub ended: SimTime,
}

impl FlowReport {
    /// Returns the payload divided by the time from the first post to the last completion. Returns
    /// 0 for a flow without duration.
    pub fn bytes_per_second(&self) -> f64 {
        let seconds = self.ended.saturating_since(self.begun).as_secs_f64();
        if seconds > 0.0 { self.bytes as f64 / seconds } else { 0.0 }
    }
}

/// Rates of all flows, in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateSummary {
    /// Rate of the slowest flow.
    pub min: f64,
    /// Median of all flows.
    pub median: f64,
    /// Rate of the fastest flow.
    pub max: f64,
    /// Mean of all flows.
    pub mean: f64,
}

/// Measurements of a whole run.
#[derive(Clone, Debug)]
pub struct Measurements {
    /// Time when the last step was done. For an unfinished run: its progress in simulated time.
    pub completion: SimTime,
    /// Phases, in the order of the workload.
    pub phases: Vec<PhaseReport>,
    /// Flows that have begun, by sender and receiver.
    pub flows: Vec<FlowReport>,
    /// Number of connections between ranks, each with a queue pair at both ends.
    pub connections: usize,
    /// Number of events that the World has executed.
    pub events: u64,
    /// Number of packets, counted once for each link that they crossed, with acknowledgements.
    pub packet_hops: u64,
}

impl Measurements {
    /// Merges the measurements of the partitions of a fabric.
    pub fn of_partitions(partitions: impl Iterator<Item = Self>) -> Self {
        let together = |mut all: Self, part: Self| {
            all.completion = all.completion.max(part.completion);
            all.phases.iter_mut().zip(part.phases).for_each(|(phase, other)| phase.join(&other));
            all.flows.extend(part.flows);
            all.events += part.events;
            all.packet_hops += part.packet_hops;
            all
        };
        let mut all = partitions.reduce(together).expect("there is a partition");
        all.flows.sort_by_key(|flow| (flow.from_rank, flow.to_rank));
        all
    }

    /// Returns the rates of all flows in bytes per second, or zeros without flows.
    pub fn rates(&self) -> RateSummary {
        let mut rates: Vec<f64> = self.flows.iter().map(FlowReport::bytes_per_second).collect();
        rates.sort_by(f64::total_cmp);
        let count = rates.len();
        let (Some(min), Some(max)) = (rates.first(), rates.last()) else { return RateSummary::default() };
        let median = (rates[(count - 1) / 2] + rates[count / 2]) / 2.0;
        RateSummary { min: *min, median, max: *max, mean: rates.iter().sum::<f64>() / count as f64 }
    }
}
