//! DMA reads computed ahead of time, which may be taken back.
//!
//! On PCI Express, reads depend on earlier reads and on entries to the card, and on nothing else. So
//! the ends of an HCA's next reads are known until something else happens there. Their requests to
//! the host delay writes, so they pass separately: see [`Bus::ask_host`].

use super::{Bus, MemoryController, Segment, SharedBus};
use softband_sim::{SimDuration, SimTime};

/// Largest number of requests of a read ahead of time.
pub const AHEAD_REQUESTS_MAX: u32 = 8;

/// State of a bus before a read ahead of time.
#[derive(Clone, Copy, Debug)]
pub struct ReadMark {
    oldest: usize,
    ends: [SimTime; AHEAD_REQUESTS_MAX as usize],
    reads: (SimTime, SimDuration),
    waits: SimDuration,
    waited_until: SimTime,
}

impl Bus {
    /// Checks whether reads of `bytes` can be computed ahead of time: they share no limit.
    pub fn reads_ahead(&self, shared: &SharedBus, memory: &MemoryController, bytes: u32) -> bool {
        let requests = self.requests(bytes);
        let fits = requests <= AHEAD_REQUESTS_MAX && requests as usize <= self.read_ends.len();
        matches!(self.segment, Segment::PciExpress(_)) && fits && !shared.bridge.is_limited() && memory.reads_freely()
    }

    /// Returns the number of requests of a read of `bytes`.
    pub fn requests(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.read_request_bytes)
    }

    /// As [`Self::read`] for a request, but does not carry the requests to the host. Returns also the
    /// state before. Call it only if [`Self::reads_ahead`] allows it.
    pub fn read_ahead(&mut self, memory: &MemoryController, now: SimTime, bytes: u32) -> (SimTime, ReadMark) {
        let latency = memory.read_latency() + self.bridge_delay * 2;
        let Segment::PciExpress(link) = &mut self.segment else { unreachable!("the caller looked") };
        let mut mark = ReadMark {
            oldest: self.read_oldest,
            ends: [SimTime::ZERO; AHEAD_REQUESTS_MAX as usize],
            reads: link.reads(),
            waits: self.read_waits,
            waited_until: self.waited_until,
        };
        let whole = link.read_time(self.read_request_bytes);
        let ((mut free, mut busy), mut rest) = (link.reads(), bytes);
        for place in mark.ends.iter_mut().take(bytes.div_ceil(self.read_request_bytes) as usize) {
            let part = rest.min(self.read_request_bytes);
            let time = if part == self.read_request_bytes { whole } else { link.read_time(part) };
            let former = self.read_ends[self.read_oldest];
            *place = former;
            if former > now {
                self.read_waits += former.saturating_since(now.max(self.waited_until));
                self.waited_until = self.waited_until.max(former);
            }
            free = free.max(former.max(now) + latency) + time;
            busy += time;
            self.read_ends[self.read_oldest] = free;
            self.read_oldest = if self.read_oldest + 1 == self.read_ends.len() { 0 } else { self.read_oldest + 1 };
            rest -= part;
        }
        link.set_reads((free, busy));
        (free, mark)
    }

    /// Returns the time of the data of a read of `bytes`.
    pub fn read_time(&self, bytes: u32) -> SimDuration {
        match &self.segment {
            Segment::PciExpress(link) => link.read_time(bytes),
            Segment::PciX(_) => SimDuration::ZERO,
        }
    }

    /// Returns times of writes of `bytes`, if they share no limit: that of a write with the requests of
    /// a read of the same size, that of its last packet, and that from the bus to memory.
    pub fn write_times(&self, shared: &SharedBus, memory: &MemoryController, bytes: u32) -> Option<[SimDuration; 3]> {
        let Segment::PciExpress(link) = &self.segment else { return None };
        let latency = memory.free_write_latency().filter(|_| !shared.bridge.is_limited())? + self.bridge_delay;
        let [write, last_packet, request] = link.write_times(bytes);
        Some([write + request * u64::from(self.requests(bytes)), last_packet, latency])
    }

    /// Returns the time for which writes wait that come at `now`.
    pub fn write_backlog(&self, now: SimTime) -> SimDuration {
        match &self.segment {
            Segment::PciExpress(link) => link.write_backlog(now),
            Segment::PciX(_) => SimDuration::ZERO,
        }
    }

    /// Takes back the last read ahead of time, of `bytes`.
    pub fn go_back(&mut self, mark: &ReadMark, bytes: u32) {
        let Segment::PciExpress(link) = &mut self.segment else { return };
        link.set_reads(mark.reads);
        let places = self.read_ends.len();
        for (index, end) in mark.ends.iter().take(bytes.div_ceil(self.read_request_bytes) as usize).enumerate() {
            self.read_ends[(mark.oldest + index) % places] = *end;
        }
        (self.read_oldest, self.read_waits, self.waited_until) = (mark.oldest, mark.waits, mark.waited_until);
    }

    /// Carries `count` requests of reads to the host at `now`.
    pub fn ask_host(&mut self, now: SimTime, count: u32) {
        if let Segment::PciExpress(link) = &mut self.segment {
            link.ask_host(now, count);
        }
    }
}
