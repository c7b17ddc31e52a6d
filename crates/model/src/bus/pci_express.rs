//! A PCI Express link: independent directions, packets of limited size.

use super::ReadPurpose;
use super::rate::Rate;
use crate::parts::PciExpress;
use softband_sim::{SimDuration, SimTime};

pub(super) struct Link {
    max_payload_bytes: u32,
    /// Bytes of a packet beside its payload.
    packet_bytes: u32,
    /// Rate of packets, headers included.
    packet_rate: Rate,
    read_rate: Rate,
    /// Rate of reads for responses.
    response_rate: Rate,
    write_rate: Rate,
    read_free: SimTime,
    write_free: SimTime,
    /// Busy time of each direction.
    pub(super) read_busy: SimDuration,
    pub(super) write_busy: SimDuration,
}

impl Link {
    /// Creates the link of a card in `slot` that requests `read_request_bytes` at a time. Reads for
    /// responses have completions of at most `response_bytes`.
    pub(super) fn new(slot: &PciExpress, read_request_bytes: u32, response_bytes: u32) -> Self {
        let raw = slot.raw_bytes_per_second();
        let rate = |payload, header| Rate::new(raw, slot.link_layer_ppm, payload, header + slot.framing_bytes());
        // A completion answers a single request, and no more than its bytes (PCI Express Base
        // 2.2.9), however much the host would join.
        let completion_bytes = slot.completion_bytes.min(read_request_bytes);
        Self {
            max_payload_bytes: slot.max_payload_bytes,
            packet_bytes: slot.write_header_bytes + slot.framing_bytes(),
            packet_rate: Rate::new(raw, slot.link_layer_ppm, 1, 0),
            read_rate: rate(completion_bytes, slot.completion_header_bytes),
            response_rate: rate(completion_bytes.min(response_bytes), slot.completion_header_bytes),
            write_rate: rate(slot.max_payload_bytes, slot.write_header_bytes),
            read_free: SimTime::ZERO,
            write_free: SimTime::ZERO,
            read_busy: SimDuration::ZERO,
            write_busy: SimDuration::ZERO,
        }
    }

    /// Carries a packet with `bytes` of payload to the card, as soon as the direction is free. The
    /// packet delays later ones.
    pub(super) fn packet_to_card(&mut self, now: SimTime, bytes: u32) {
        let time = self.packet_rate.duration(bytes + self.packet_bytes);
        self.read_busy += time;
        self.read_free = self.read_free.max(now) + time;
    }

    /// As [`Self::packet_to_card`], to the host.
    pub(super) fn packet_to_host(&mut self, now: SimTime, bytes: u32) {
        let time = self.packet_rate.duration(bytes + self.packet_bytes);
        self.write_busy += time;
        self.write_free = self.write_free.max(now) + time;
    }

    /// Returns the state of reads: the time when their direction is free, and its busy time.
    pub(super) fn reads(&self) -> (SimTime, SimDuration) {
        (self.read_free, self.read_busy)
    }

    /// Returns the time of the data of a read for a request.
    pub(super) fn read_time(&self, bytes: u32) -> SimDuration {
        self.read_rate.duration(bytes)
    }

    /// Returns the times of a write, of its last packet, and of a request to the host.
    pub(super) fn write_times(&self, bytes: u32) -> [SimDuration; 3] {
        let last_packet = self.write_rate.duration(bytes.min(self.max_payload_bytes));
        [self.write_rate.duration(bytes), last_packet, self.packet_rate.duration(self.packet_bytes)]
    }

    /// Carries `count` requests to the host, as [`Self::packet_to_host`].
    pub(super) fn ask_host(&mut self, now: SimTime, count: u32) {
        let time = self.packet_rate.duration(self.packet_bytes) * u64::from(count);
        self.write_busy += time;
        self.write_free = self.write_free.max(now) + time;
    }

    /// Returns the time for which writes wait that come at `now`.
    pub(super) fn write_backlog(&self, now: SimTime) -> SimDuration {
        self.write_free.saturating_since(now)
    }

    /// Goes back to an earlier state of reads.
    pub(super) fn set_reads(&mut self, (free, busy): (SimTime, SimDuration)) {
        (self.read_free, self.read_busy) = (free, busy);
    }

    /// Lets no write start for `pause` after those before.
    pub(super) fn pause_writes(&mut self, now: SimTime, pause: SimDuration) {
        self.write_free = self.write_free.max(now) + pause;
    }

    /// Carries the data of one read request, which come from `first` on. Returns the time when the
    /// last byte is through.
    ///
    /// A smaller last packet pays only its share of a header. So no transfer costs more per byte
    /// than transfers that fill their completions.
    pub(super) fn complete_read(&mut self, first: SimTime, bytes: u32, purpose: ReadPurpose) -> SimTime {
        let time = match purpose {
            ReadPurpose::Request => self.read_rate,
            ReadPurpose::Response => self.response_rate,
        }
        .duration(bytes);
        self.read_busy += time;
        self.read_free = first.max(self.read_free) + time;
        self.read_free
    }

    /// Carries a write that may start at `start`. Its last byte comes at `tail` at the earliest.
    /// Returns the time when the last byte is through.
    pub(super) fn write(&mut self, start: SimTime, tail: SimTime, bytes: u32) -> SimTime {
        // A direction that waits for arriving bytes is free for others meanwhile, so the write
        // takes only its own time.
        let time = self.write_rate.duration(bytes);
        self.write_busy += time;
        self.write_free = start.max(self.write_free) + time;
        let last_packet = self.write_rate.duration(bytes.min(self.max_payload_bytes));
        self.write_free.max(tail + last_packet)
    }
}
