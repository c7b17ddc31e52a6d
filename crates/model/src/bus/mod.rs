//! The path between an HCA and its host's memory, as the HCA's DMA engine sees it: when a transfer will be over.
//!
//! No events: transfers are granted in the order in which they are asked for, reads and writes in turns, so each one's end is known at once.

mod memory;
mod pci_express;
mod pci_x;
mod rate;

pub use memory::MemoryController;

use crate::parts::{BusPart, Slot};
use rate::{Direction, Shared, SharedRate};
use softband_sim::{SimDuration, SimTime};

/// One HCA's side of its slot.
pub struct Bus {
    read_request_bytes: u32,
    /// When each of the outstanding read requests will have its last byte; the oldest at `read_oldest`.
    read_ends: Vec<SimTime>,
    read_oldest: usize,
    segment: Segment,
    bridge_delay: SimDuration,
    /// While every request was under way and another one wanted a place.
    read_waits: SimDuration,
    /// The end of the last such wait.
    waited_until: SimTime,
}

/// What an HCA's path to memory has done so far, each limit by itself, as time at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusUsage {
    /// The slot's direction towards the HCA, and away from it, where each has its own (PCI Express).
    pub slot_reads: SimDuration,
    pub slot_writes: SimDuration,
    /// What all cards have of the bus (PCI-X) or of the bridge behind it, both directions together.
    pub shared: SimDuration,
    /// While all read requests were under way and another one waited for its place.
    pub read_waits: SimDuration,
}

/// What all cards on one bus share: the lines of PCI-X, and the bridge behind the slots, if the host has one.
pub struct SharedBus {
    lines: Shared,
    bridge: SharedRate,
}

impl SharedBus {
    pub fn new(part: &BusPart) -> Self {
        Self { lines: Shared::default(), bridge: SharedRate::new(part.bridge.and_then(|bridge| bridge.bytes_per_second)) }
    }

    fn busy(&self) -> SimDuration {
        self.lines.busy().max(self.bridge.busy())
    }
}

/// What the card itself is on.
enum Segment {
    PciExpress(pci_express::Link),
    PciX(pci_x::Card),
}

impl Bus {
    /// The bus of an HCA that keeps `outstanding_reads` requests of `read_request_bytes` in flight; `part` as both have trained.
    pub fn new(part: &BusPart, read_request_bytes: u32, outstanding_reads: u32) -> Self {
        let least = match part.slot {
            Slot::PciExpress(_) => 64,
            // The least of the field in the command register (PCI-X 1.0a).
            Slot::PciX(_) => 512,
        };
        let read_request_bytes = read_request_bytes.max(least);
        let segment = match &part.slot {
            Slot::PciExpress(slot) => Segment::PciExpress(pci_express::Link::new(slot, read_request_bytes)),
            Slot::PciX(slot) => Segment::PciX(pci_x::Card::new(slot)),
        };
        Self {
            read_request_bytes,
            read_ends: vec![SimTime::ZERO; outstanding_reads.max(1) as usize],
            read_oldest: 0,
            segment,
            bridge_delay: part.bridge.map_or(SimDuration::ZERO, |bridge| bridge.delay),
            read_waits: SimDuration::ZERO,
            waited_until: SimTime::ZERO,
        }
    }

    /// What it has done since the beginning; `shared` is the bus that it is on.
    pub fn usage(&self, shared: &SharedBus) -> BusUsage {
        let (slot_reads, slot_writes) = match &self.segment {
            Segment::PciExpress(link) => (link.read_busy, link.write_busy),
            Segment::PciX(_) => (SimDuration::ZERO, SimDuration::ZERO),
        };
        BusUsage { slot_reads, slot_writes, shared: shared.busy(), read_waits: self.read_waits }
    }

    /// A request that is wanted at `now` finds its place at `issued`: waits that overlap count once.
    fn note_wait(&mut self, now: SimTime, issued: SimTime) {
        self.read_waits += issued.saturating_since(now.max(self.waited_until));
        self.waited_until = self.waited_until.max(issued);
    }

    /// DMA read of `bytes` asked for at `now`: when the last byte is in the HCA.
    ///
    /// Each request waits for a free place among the outstanding ones, then a memory latency, then for its turn on the bus.
    pub fn read(&mut self, shared: &mut SharedBus, memory: &mut MemoryController, now: SimTime, bytes: u32) -> SimTime {
        let latency = memory.read_latency() + self.bridge_delay * 2;
        let mut rest = bytes;
        let mut end = now;
        while rest > 0 {
            let part = rest.min(self.read_request_bytes);
            let issued = now.max(self.read_ends[self.read_oldest]);
            self.note_wait(now, issued);
            end = match &mut self.segment {
                Segment::PciExpress(link) => link.complete_read(issued + latency, part),
                Segment::PciX(card) => {
                    let first = issued + card.request() + latency;
                    card.complete_read(&mut shared.lines, now, first, part)
                }
            };
            self.read_ends[self.read_oldest] = end;
            self.read_oldest = (self.read_oldest + 1) % self.read_ends.len();
            rest -= part;
        }
        let end = shared.bridge.pass(now, bytes, end, Direction::Read);
        memory.read(now, bytes, end)
    }

    /// DMA write of `bytes` that may start at `start` and whose last byte reaches the bus at `tail` at the earliest:
    /// when the last byte is in memory.
    pub fn write(
        &mut self,
        shared: &mut SharedBus,
        memory: &mut MemoryController,
        now: SimTime,
        start: SimTime,
        tail: SimTime,
        bytes: u32,
    ) -> SimTime {
        if bytes == 0 {
            return tail;
        }
        let through = match &mut self.segment {
            Segment::PciExpress(link) => link.write(start, tail, bytes),
            Segment::PciX(card) => card.write(&mut shared.lines, now, start, tail, bytes),
        };
        let end = shared.bridge.pass(now, bytes, through, Direction::Write) + self.bridge_delay;
        memory.write(now, bytes, end)
    }
}

#[cfg(test)]
mod tests;
