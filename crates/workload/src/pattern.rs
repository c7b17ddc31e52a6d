//! Named workloads: patterns of flows, and collectives as steps that wait for each other.

use crate::schedule::{Action, Schedule};
use softband_sim::RandomStream;
use softband_types::{Mtu, ServiceLevel};

mod collectives;

/// Operation that carries messages. The default is `Send`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    /// Sends to receive requests that are always ready.
    #[default]
    Send,
    /// RDMA writes; with immediate data if a rank waits for the message.
    Write,
}

/// Named workload: flows between ranks, or a collective whose steps wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every rank sends to one other rank, and every rank receives from one rank.
    Permutation,
    /// Every rank sends to the rank a fixed number of places on. In a full fat tree these flows share
    /// no link.
    Shift,
    /// Every rank sends to every other rank.
    AllToAll,
    /// Many ranks send to one rank.
    Incast,
    /// Each message goes to a newly drawn rank.
    UniformRandom,
    /// All-reduce around a ring: a reduce-scatter, then an all-gather, each with `ranks - 1` steps.
    RingAllreduce,
    /// All-reduce along a binomial tree: a reduction to the root, then a broadcast.
    TreeAllreduce,
    /// Broadcast from the root along a binomial tree.
    Broadcast,
    /// One rank sends to another, as a bandwidth program does.
    Stream,
}

impl Pattern {
    /// All patterns with their names on the command line.
    pub const ALL: [(&'static str, Self); 9] = [
        ("permutation", Self::Permutation),
        ("shift", Self::Shift),
        ("all-to-all", Self::AllToAll),
        ("incast", Self::Incast),
        ("uniform-random", Self::UniformRandom),
        ("ring-allreduce", Self::RingAllreduce),
        ("tree-allreduce", Self::TreeAllreduce),
        ("broadcast", Self::Broadcast),
        ("stream", Self::Stream),
    ];

    /// Returns the pattern with this name, or `None` if no pattern has it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, pattern)| *pattern)
    }

    /// Returns the name of the pattern on the command line, such as `all-to-all`.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, pattern)| *pattern == self).map_or("", |(name, _)| name)
    }

    /// Checks whether `bytes` is the size of a whole collective instead of a message.
    pub fn is_collective(self) -> bool {
        matches!(self, Self::RingAllreduce | Self::TreeAllreduce | Self::Broadcast)
    }
}

/// Settings of a workload. `None` selects the default of the pattern. [`build`] checks them and
/// refuses settings without effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of each message, from 1 to 2^30. For collectives: bytes of the whole vector of each
    /// rank. The default is 1 MiB; for all-to-all, uniform random and stream it is 64 KiB.
    pub bytes: Option<u64>,
    /// Messages from each sender to each of its receivers, or from each sender if receivers are
    /// drawn: from 1 to 2^31 - 1. The default is 16; all-to-all has 1, uniform random has 64, and a
    /// stream has 1,000.
    pub messages: Option<u32>,
    /// Messages outstanding in each flow, from 1 to 1,024. The default is 16; a stream has 128, as
    /// perftest does.
    pub window: Option<u32>,
    /// Seed of drawn receivers and permutations. The default is 0.
    pub seed: u64,
    /// Receiver of an incast, or first rank of a broadcast or tree. The default is rank 0.
    pub root: Option<u32>,
    /// Number of senders in an incast, from 1. The default is all ranks but the root.
    pub senders: Option<u32>,
    /// Places from the sender to the receiver of a shift, from 1 to the number of ranks less 1. The
    /// default is half of the ranks.
    pub distance: Option<u32>,
    /// Sender of a stream. The default is rank 0.
    pub from: Option<u32>,
    /// Receiver of a stream. The default is rank 1, or rank 0 if rank 1 sends.
    pub to: Option<u32>,
    /// Operation that carries messages. The default is `Send`.
    pub operation: Operation,
    /// Number of rounds, from 1 to 30,000. The default is 1. A rank begins a round after its own
    /// part of the previous round.
    pub repeat: Option<u32>,
    /// MTU of all connections in bytes. The default is the path MTU of each connection.
    pub mtu: Option<u32>,
    /// Service level of all connections, from 0 (the default) to 15.
    pub service_level: Option<u32>,
}

/// Reason why settings do not fit a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The workload has fewer than two ranks.
    #[error("a workload needs two ranks at least, and there are {0}")]
    TooFewRanks(u32),
    /// A setting is out of range.
    #[error("{key} = {value} is out of range: {range}")]
    OutOfRange {
        /// Name of the setting.
        key: &'static str,
        /// Its value.
        value: u64,
        /// Values that are possible.
        range: String,
    },
    /// The pattern does not use a setting.
    #[error("{key} has no effect on {pattern}: leave it out")]
    Needless {
        /// Name of the setting.
        key: &'static str,
        /// Name of the pattern.
        pattern: &'static str,
    },
    /// Sender and receiver of a stream are the same rank.
    #[error("a stream goes from one rank to another, not to itself")]
    ToItself,
}

/// Largest message in bytes: half of the largest RDMA message (IBTA 9.7.7: 2^31 bytes).
const BYTES_MAX: u64 = 1 << 30;
/// perftest's bandwidth defaults: 128 requests in the send queue, and 100 messages per completion
/// up to 8 KiB. In runs of at most 20000 messages, it reads the clock at each.
const STREAM_WINDOW: u32 = 128;
const STREAM_INTERVAL: u32 = 100;
const STREAM_INTERVAL_BYTES_MAX: u64 = 8_192;
const STREAM_CLOCK_MESSAGES_MAX: u32 = 20_000;
const STEPS_MAX: u64 = 50_000_000;

/// Builds the steps of a named workload for `ranks` ranks. The result depends only on the
/// arguments.
///
/// # Errors
/// If there are fewer than two ranks, or if a setting is out of range or has no meaning for the
/// pattern.
pub fn build(pattern: Pattern, ranks: u32, settings: &Settings) -> Result<Schedule, PatternError> {
    if ranks < 2 {
        return Err(PatternError::TooFewRanks(ranks));
    }
    refuse_needless(pattern, settings)?;
    let plan = Plan::new(pattern, ranks, settings)?;
    let mut schedule = Schedule::new(ranks);
    schedule.window = plan.window;
    schedule.writes = settings.operation == Operation::Write;
    schedule.mtu = settings.mtu.map(parse_mtu).transpose()?;
    schedule.service_level = parse_service_level(settings.service_level.unwrap_or(0))?;
    if pattern == Pattern::Stream {
        let interval = if u64::from(plan.bytes) <= STREAM_INTERVAL_BYTES_MAX { STREAM_INTERVAL } else { 1 };
        schedule.completion_interval = interval.min(plan.window);
        schedule.reads_clock = plan.messages <= STREAM_CLOCK_MESSAGES_MAX;
    }
    let mut random = RandomStream::new(settings.seed, 1);
    let mut joins = Vec::new();
    for round in 0..plan.repeat {
        let prefix = if plan.repeat > 1 { format!("{}: ", round + 1) } else { String::new() };
        let first = schedule.steps.len() as u32;
        plan.round(&mut schedule, &prefix, round, &mut random);
        chain_rounds(&mut schedule, first, &mut joins, round + 1 < plan.repeat);
    }
    Ok(schedule)
}

/// A pattern with all settings resolved.
struct Plan {
    pattern: Pattern,
    ranks: u32,
    bytes: u32,
    messages: u32,
    window: u32,
    root: u32,
    senders: u32,
    distance: u32,
    ends: (u32, u32),
    repeat: u32,
}

fn within(key: &'static str, value: u64, range: std::ops::RangeInclusive<u64>) -> Result<u32, PatternError> {
    if range.contains(&value) {
        return Ok(value as u32);
    }
    Err(PatternError::OutOfRange { key, value, range: format!("from {} to {}", range.start(), range.end()) })
}

/// Parses a service level, 0 to 15.
///
/// # Errors
/// If the number is above 15.
pub fn parse_service_level(level: u32) -> Result<ServiceLevel, PatternError> {
    let parsed = u8::try_from(level).ok().filter(|level| *level < 16).map(ServiceLevel);
    parsed.ok_or_else(|| PatternError::OutOfRange { key: "service_level", value: u64::from(level), range: "from 0 to 15".into() })
}

/// Parses the MTU of a connection, in bytes.
///
/// # Errors
/// If no MTU has this size.
pub fn parse_mtu(bytes: u32) -> Result<Mtu, PatternError> {
    let all = Mtu::ALL.map(|mtu| mtu.bytes().to_string());
    let [others @ .., last] = &all;
    let range = || format!("{} or {last}", others.join(", "));
    Mtu::from_bytes(bytes).ok_or_else(|| PatternError::OutOfRange { key: "mtu", value: u64::from(bytes), range: range() })
}

fn refuse_needless(pattern: Pattern, settings: &Settings) -> Result<(), PatternError> {
    use Pattern::{Broadcast, Incast, Shift, Stream, TreeAllreduce};
    let needless = [
        ("root", settings.root.is_some() && !matches!(pattern, Incast | TreeAllreduce | Broadcast)),
        ("senders", settings.senders.is_some() && pattern != Incast),
        ("distance", settings.distance.is_some() && pattern != Shift),
        ("from", settings.from.is_some() && pattern != Stream),
        ("to", settings.to.is_some() && pattern != Stream),
        ("messages", settings.messages.is_some() && pattern.is_collective()),
        ("window", settings.window.is_some() && pattern.is_collective()),
    ];
    match needless.iter().find(|(_, needless)| *needless) {
        Some((key, _)) => Err(PatternError::Needless { key, pattern: pattern.name() }),
        None => Ok(()),
    }
}

impl Plan {
    fn new(pattern: Pattern, ranks: u32, settings: &Settings) -> Result<Self, PatternError> {
        let (bytes, messages, window) = match pattern {
            Pattern::Stream => (65_536, 1_000, STREAM_WINDOW),
            Pattern::AllToAll => (65_536, 1, 16),
            Pattern::UniformRandom => (65_536, 64, 16),
            Pattern::Permutation | Pattern::Shift | Pattern::Incast => (1 << 20, 16, 16),
            Pattern::RingAllreduce | Pattern::TreeAllreduce | Pattern::Broadcast => (1 << 20, 1, 1),
        };
        let last = u64::from(ranks) - 1;
        let rank = |key, given: Option<u32>, default| within(key, u64::from(given.unwrap_or(default)), 0..=last);
        let (from, to) = (rank("from", settings.from, 0)?, rank("to", settings.to, u32::from(settings.from != Some(1)))?);
        if pattern == Pattern::Stream && from == to {
            return Err(PatternError::ToItself);
        }
        let plan = Self {
            pattern,
            ranks,
            bytes: within("bytes", settings.bytes.unwrap_or(bytes), 1..=BYTES_MAX)?,
            messages: within("messages", u64::from(settings.messages.unwrap_or(messages)), 1..=u64::from(u32::MAX >> 1))?,
            window: within("window", u64::from(settings.window.unwrap_or(window)), 1..=1_024)?,
            root: rank("root", settings.root, 0)?,
            senders: within("senders", u64::from(settings.senders.unwrap_or(ranks - 1)), 1..=last)?,
            distance: within("distance", u64::from(settings.distance.unwrap_or(ranks / 2)), 1..=last)?,
            ends: (from, to),
            repeat: within("repeat", u64::from(settings.repeat.unwrap_or(1)), 1..=30_000)?,
        };
        within("repeat", plan.steps_about().min(u64::from(u32::MAX)), 1..=STEPS_MAX).map_err(|_| PatternError::OutOfRange {
            key: "repeat",
            value: u64::from(plan.repeat),
            range: format!("the workload would have {} steps, {STEPS_MAX} are the most", plan.steps_about()),
        })?;
        Ok(plan)
    }

    fn steps_about(&self) -> u64 {
        let ranks = u64::from(self.ranks);
        let a_round = match self.pattern {
            Pattern::AllToAll => ranks * ranks,
            Pattern::RingAllreduce => 4 * ranks * ranks,
            Pattern::UniformRandom => ranks * u64::from(self.messages),
            _ => 4 * ranks,
        };
        a_round * u64::from(self.repeat)
    }

    fn round(&self, schedule: &mut Schedule, prefix: &str, round: u32, random: &mut RandomStream) {
        match self.pattern {
            Pattern::RingAllreduce => return collectives::ring_allreduce(schedule, prefix, self.bytes, round),
            Pattern::TreeAllreduce => return collectives::tree_allreduce(schedule, prefix, (self.bytes, self.root), round),
            Pattern::Broadcast => {
                schedule.phase(format!("{prefix}broadcast"));
                collectives::broadcast(schedule, (self.bytes, self.root), round, &mut vec![None; self.ranks as usize]);
                return;
            }
            _ => schedule.phase(format!("{prefix}{}", self.pattern.name())),
        }
        match self.pattern {
            Pattern::Permutation => {
                let permutation = cycle(self.ranks, random);
                (0..self.ranks).zip(permutation).for_each(|(from, to)| self.flow(schedule, from, to));
            }
            Pattern::Shift => (0..self.ranks).for_each(|from| self.flow(schedule, from, (from + self.distance) % self.ranks)),
            // In turn k, each rank sends to the k-th rank after itself, so that no receiver comes
            // first for all senders.
            Pattern::AllToAll => (1..self.ranks).for_each(|shift| {
                (0..self.ranks).for_each(|from| self.flow(schedule, from, (from + shift) % self.ranks));
            }),
            Pattern::Incast => {
                let senders = (0..self.ranks).filter(|rank| *rank != self.root).take(self.senders as usize);
                senders.for_each(|from| self.flow(schedule, from, self.root));
            }
            Pattern::UniformRandom => (0..self.ranks).for_each(|from| self.draw(schedule, from, random)),
            _ => self.flow(schedule, self.ends.0, self.ends.1),
        }
    }

    fn flow(&self, schedule: &mut Schedule, from: u32, to: u32) {
        schedule.push(from, Action::Send { to, bytes: self.bytes, messages: self.messages, tag: 0 });
    }

    /// Adds one step for each message, with at most `window` messages outstanding.
    fn draw(&self, schedule: &mut Schedule, from: u32, random: &mut RandomStream) {
        let first = schedule.steps.len() as u32;
        for number in 0..self.messages {
            let other = below(random, self.ranks - 1);
            let to = if other >= from { other + 1 } else { other };
            let step = schedule.push(from, Action::Send { to, bytes: self.bytes, messages: 1, tag: 0 });
            if number >= self.window {
                schedule.after(first + number - self.window, step);
            }
        }
    }
}

/// Returns a uniform number below `bound`: the high half of a product of 64 bits each.
fn below(random: &mut RandomStream, bound: u32) -> u32 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u32
}

/// Returns a permutation without fixed points: one cycle through all ranks (Sattolo 1986).
fn cycle(ranks: u32, random: &mut RandomStream) -> Vec<u32> {
    let mut permutation: Vec<u32> = (0..ranks).collect();
    for last in (1..ranks).rev() {
        permutation.swap(last as usize, below(random, last) as usize);
    }
    permutation
}

/// Lets each rank begin a round after its own part of the previous round.
fn chain_rounds(schedule: &mut Schedule, first: u32, joins: &mut Vec<u32>, goes_on: bool) {
    let steps: Vec<(u32, u32)> = (first..).zip(&schedule.steps[first as usize..]).map(|(number, step)| (number, step.rank)).collect();
    if !joins.is_empty() {
        steps.iter().for_each(|(step, rank)| schedule.after(joins[*rank as usize], *step));
    }
    if goes_on {
        let next: Vec<u32> = (0..schedule.ranks).map(|rank| schedule.push(rank, Action::Calculate { nanos: 0, cpu: 0 })).collect();
        for (rank, join) in next.iter().enumerate() {
            if let Some(former) = joins.get(rank) {
                schedule.after(*former, *join);
            }
        }
        steps.iter().for_each(|(step, rank)| schedule.after(*step, next[*rank as usize]));
        *joins = next;
    }
}

#[cfg(test)]
mod tests;
