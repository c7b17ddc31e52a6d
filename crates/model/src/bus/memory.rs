//! A host's memory as DMA sees it, behind the host bridge.

use super::rate::{Direction, SharedRate};
use crate::parts::MemoryPart;
use softband_sim::{SimDuration, SimTime};

/// Latencies and rates of one host's memory, which all its HCAs share.
pub struct MemoryController {
    read_latency: SimDuration,
    write_latency: SimDuration,
    reads: SharedRate,
    writes: SharedRate,
    both: SharedRate,
}

impl MemoryController {
    /// Creates the memory of a host without load.
    pub fn new(part: &MemoryPart) -> Self {
        Self {
            read_latency: part.read_latency,
            write_latency: part.write_latency,
            reads: SharedRate::new(part.read_bytes_per_second),
            writes: SharedRate::new(part.write_bytes_per_second),
            both: SharedRate::new(part.bytes_per_second),
        }
    }

    /// Returns the busy time of the busiest limit, or zero if there is no limit.
    pub fn busy(&self) -> SimDuration {
        [&self.reads, &self.writes, &self.both].map(SharedRate::busy).into_iter().max().unwrap_or_default()
    }

    /// Checks whether reads have no limit.
    pub(super) fn reads_freely(&self) -> bool {
        !self.reads.is_limited() && !self.both.is_limited()
    }

    /// Returns the time from the last byte of a write to its place in memory, if writes have no limit.
    pub(super) fn free_write_latency(&self) -> Option<SimDuration> {
        (!self.writes.is_limited() && !self.both.is_limited()).then_some(self.write_latency)
    }

    /// Returns the time from a read request to the first byte of its data.
    pub(super) fn read_latency(&self) -> SimDuration {
        self.read_latency
    }

    /// Returns the end of a read requested at `now` that the buses would finish at `end`.
    pub(super) fn read(&mut self, now: SimTime, bytes: u32, end: SimTime) -> SimTime {
        let end = self.reads.pass(now, bytes, end, Direction::Read);
        self.both.pass(now, bytes, end, Direction::Read)
    }

    /// Returns the time when a write requested at `now` is in memory. The buses bring its last byte
    /// at `end`.
    pub(super) fn write(&mut self, now: SimTime, bytes: u32, end: SimTime) -> SimTime {
        let end = self.writes.pass(now, bytes, end, Direction::Write);
        self.both.pass(now, bytes, end, Direction::Write) + self.write_latency
    }
}
