//! A host's memory as DMA sees it, behind the host bridge.

use super::rate::{Direction, SharedRate};
use crate::parts::MemoryPart;
use softband_sim::{SimDuration, SimTime};

/// Latencies and rates of one host's memory; all its HCAs share it.
pub struct MemoryController {
    read_latency: SimDuration,
    write_latency: SimDuration,
    reads: SharedRate,
    writes: SharedRate,
    both: SharedRate,
}

impl MemoryController {
    pub fn new(part: &MemoryPart) -> Self {
        Self {
            read_latency: part.read_latency,
            write_latency: part.write_latency,
            reads: SharedRate::new(part.read_bytes_per_second),
            writes: SharedRate::new(part.write_bytes_per_second),
            both: SharedRate::new(part.bytes_per_second),
        }
    }

    /// How long the busiest of its limits has been at work; nothing where it has none.
    pub fn busy(&self) -> SimDuration {
        [&self.reads, &self.writes, &self.both].map(SharedRate::busy).into_iter().max().unwrap_or_default()
    }

    /// From a read request to the first byte of its data.
    pub(super) fn read_latency(&self) -> SimDuration {
        self.read_latency
    }

    /// When a read asked for at `now` is over that the buses would have through at `end`.
    pub(super) fn read(&mut self, now: SimTime, bytes: u32, end: SimTime) -> SimTime {
        let end = self.reads.pass(now, bytes, end, Direction::Read);
        self.both.pass(now, bytes, end, Direction::Read)
    }

    /// When a write asked for at `now` is in memory whose last byte the buses bring at `end`.
    pub(super) fn write(&mut self, now: SimTime, bytes: u32, end: SimTime) -> SimTime {
        let end = self.writes.pass(now, bytes, end, Direction::Write);
        self.both.pass(now, bytes, end, Direction::Write) + self.write_latency
    }
}
