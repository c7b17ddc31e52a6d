//! A card on a PCI-X bus. All requests, completions and writes of all cards use the bus one at a
//! time. Reads are split: the bus is free while memory answers.

use super::rate::{Direction, Shared};
use crate::parts::PciX;
use softband_sim::{SimDuration, SimTime};

pub(super) struct Card {
    part: PciX,
    completions_free: SimTime,
    writes_free: SimTime,
}

impl Card {
    pub(super) fn new(part: &PciX) -> Self {
        Self { part: *part, completions_free: SimTime::ZERO, writes_free: SimTime::ZERO }
    }

    fn clocks(&self, clocks: u32) -> SimDuration {
        self.part.clock.period() * u64::from(clocks)
    }

    fn burst(&self, bytes: u32) -> SimDuration {
        self.clocks(self.part.burst_clocks + bytes.div_ceil(self.part.width_bytes))
    }

    /// Returns the bus time of the request of a split read.
    pub(super) fn request(&self) -> SimDuration {
        self.clocks(self.part.request_clocks)
    }

    /// Carries the data of one read request, which come from `first` on. The card requested the
    /// read at `now`. Returns the time when the last byte is through.
    pub(super) fn complete_read(&mut self, lines: &mut Shared, now: SimTime, first: SimTime, bytes: u32) -> SimTime {
        let burst = self.burst(bytes);
        let turn = lines.pass(now, self.request() + burst, Direction::Read);
        self.completions_free = (first.max(self.completions_free) + burst).max(turn);
        self.completions_free
    }

    /// Carries a write requested at `now` that may start at `start`. Its last byte comes at `tail`
    /// at the earliest. Returns the time when the last byte is through.
    pub(super) fn write(&mut self, lines: &mut Shared, now: SimTime, start: SimTime, tail: SimTime, bytes: u32) -> SimTime {
        let size = self.part.write_burst_bytes;
        let last = if bytes.is_multiple_of(size) { size } else { bytes % size };
        let time = self.burst(size) * u64::from(bytes.div_ceil(size) - 1) + self.burst(last);
        let turn = lines.pass(now, time, Direction::Write);
        self.writes_free = start.max(self.writes_free) + time;
        self.writes_free.max(turn).max(tail + self.burst(last))
    }
}
