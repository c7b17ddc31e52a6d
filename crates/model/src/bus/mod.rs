//! The path between an HCA and its host's memory, as the HCA's DMA engine sees it. It computes the
//! end of each transfer.
//!
//! The path needs no events. It grants transfers in the order of their requests, reads and writes
//! in turns, so each end is known at once.

mod ahead;
mod memory;
mod pci_express;
mod pci_x;
mod rate;

pub use ahead::{AHEAD_REQUESTS_MAX, ReadMark};
pub use memory::MemoryController;

use crate::parts::{BusPart, Slot};
use rate::{Direction, Shared, SharedRate};
use softband_sim::{SimDuration, SimTime};

/// One HCA's side of its slot.
pub struct Bus {
    read_request_bytes: u32,
    /// End of each outstanding read request; the oldest stands at `read_oldest`.
    read_ends: Vec<SimTime>,
    read_oldest: usize,
    segment: Segment,
    bridge_delay: SimDuration,
    /// Time in which every request was under way and another request waited for a place.
    read_waits: SimDuration,
    /// End of the last such wait.
    waited_until: SimTime,
}

/// Purpose of a DMA read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPurpose {
    /// Payload of a request.
    Request,
    /// Payload of a response to an RDMA read.
    Response,
}

/// Busy time of each limit on an HCA's path to memory, since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusUsage {
    /// Time of data towards the HCA, on a slot with a rate for each direction (PCI Express).
    pub slot_reads: SimDuration,
    /// Time of data away from the HCA, on a slot with a rate for each direction.
    pub slot_writes: SimDuration,
    /// Time of the bus that all cards share (PCI-X), or of the bridge behind it, both directions
    /// together.
    pub shared: SimDuration,
    /// Time in which all read requests were under way and another request waited for a place.
    pub read_waits: SimDuration,
}

/// Resources that all cards on one bus share: the lines of PCI-X, and the bridge behind the slots,
/// if any.
pub struct SharedBus {
    lines: Shared,
    bridge: SharedRate,
}

impl SharedBus {
    /// Creates the resources of a bus without load.
    pub fn new(part: &BusPart) -> Self {
        Self { lines: Shared::default(), bridge: SharedRate::new(part.bridge.and_then(|bridge| bridge.bytes_per_second)) }
    }

    fn busy(&self) -> SimDuration {
        self.lines.busy().max(self.bridge.busy())
    }
}

/// Connection of the card itself.
enum Segment {
    PciExpress(pci_express::Link),
    PciX(pci_x::Card),
}

impl Bus {
    /// Creates the bus of an HCA that keeps up to `outstanding_reads` requests of
    /// `read_request_bytes` in flight. `part` is the bus as both ends have trained. DMA reads for
    /// responses have completions of at most `response_bytes`, or of any size.
    pub fn new(part: &BusPart, read_request_bytes: u32, outstanding_reads: u32, response_bytes: Option<u32>) -> Self {
        let least = match part.slot {
            Slot::PciExpress(_) => 64,
            // Least value of the field in the command register (PCI-X 1.0a).
            Slot::PciX(_) => 512,
        };
        let read_request_bytes = read_request_bytes.max(least);
        let segment = match &part.slot {
            Slot::PciExpress(slot) => Segment::PciExpress(pci_express::Link::new(slot, read_request_bytes, response_bytes.unwrap_or(u32::MAX))),
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

    /// Returns the usage since the beginning; `shared` is the bus of the HCA.
    pub fn usage(&self, shared: &SharedBus) -> BusUsage {
        let (slot_reads, slot_writes) = match &self.segment {
            Segment::PciExpress(link) => (link.read_busy, link.write_busy),
            Segment::PciX(_) => (SimDuration::ZERO, SimDuration::ZERO),
        };
        BusUsage { slot_reads, slot_writes, shared: shared.busy(), read_waits: self.read_waits }
    }

    /// Counts the wait of a request from `now` until it gets a place at `issued`. Waits that
    /// overlap count once.
    fn note_wait(&mut self, now: SimTime, issued: SimTime) {
        self.read_waits += issued.saturating_since(now.max(self.waited_until));
        self.waited_until = self.waited_until.max(issued);
    }

    /// Returns the time when the last byte of a DMA read is in the HCA. The HCA requests `bytes` at
    /// `now`.
    ///
    /// Each request waits for a free place among the outstanding requests. Then it waits for a
    /// memory latency, then for its turn on the bus.
    pub fn read(&mut self, shared: &mut SharedBus, memory: &mut MemoryController, now: SimTime, bytes: u32, purpose: ReadPurpose) -> SimTime {
        let latency = memory.read_latency() + self.bridge_delay * 2;
        let mut rest = bytes;
        let mut end = now;
        while rest > 0 {
            let part = rest.min(self.read_request_bytes);
            let issued = now.max(self.read_ends[self.read_oldest]);
            self.note_wait(now, issued);
            end = match &mut self.segment {
                Segment::PciExpress(link) => {
                    link.packet_to_host(now, 0);
                    link.complete_read(issued + latency, part, purpose)
                }
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

    /// Carries a doorbell or a queue entry of `bytes` to the card. It costs bandwidth only: its
    /// latency is part of the HCA's own times, and on PCI-X its bus time is part of each burst's.
    pub fn entry_to_card(&mut self, now: SimTime, bytes: u32) {
        if let Segment::PciExpress(link) = &mut self.segment {
            link.packet_to_card(now, bytes);
        }
    }

    /// Carries a queue entry of `bytes`, or with 0 bytes the request for an entry, to the host. As
    /// [`Self::entry_to_card`].
    pub fn entry_to_host(&mut self, now: SimTime, bytes: u32) {
        if let Segment::PciExpress(link) = &mut self.segment {
            link.packet_to_host(now, bytes);
        }
    }

    /// Lets no DMA write start for `pause` after those before. Does nothing on PCI-X.
    pub fn pause_writes(&mut self, now: SimTime, pause: SimDuration) {
        if let Segment::PciExpress(link) = &mut self.segment {
            link.pause_writes(now, pause);
        }
    }

    /// Returns the time when the last byte of a DMA write of `bytes` is in memory. The write may
    /// start at `start`; its last byte reaches the bus at `tail` at the earliest.
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
