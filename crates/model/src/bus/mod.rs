//! PCI Express as an HCA's DMA engine sees it: when a transfer will be over.
//!
//! No events: transfers are granted in the order in which they are asked for, so each one's end is known at once.

use crate::parts::BusPart;
use softband_sim::{SimDuration, SimTime};

/// One slot, both directions.
pub struct PcieBus {
    read_request_bytes: u32,
    memory_read_latency: SimDuration,
    memory_write_latency: SimDuration,
    max_payload_bytes: u32,
    read_rate: Rate,
    write_rate: Rate,
    duplex_rate: Option<Rate>,
    /// When each of the outstanding read requests will have its last byte; the oldest at `read_oldest`.
    read_ends: Vec<SimTime>,
    read_oldest: usize,
    read_free: SimTime,
    write_free: SimTime,
    duplex_free: SimTime,
}

/// Picoseconds a byte in 1/2^20, so that a transfer costs one multiplication.
#[derive(Clone, Copy)]
struct Rate(u64);

impl Rate {
    const SHIFT: u32 = 20;

    /// `payload` out of every `payload + header` bytes at `raw` bytes per second, less `ppm` parts per million.
    fn new(raw: u64, ppm: u32, payload: u32, header: u32) -> Self {
        let usable = u128::from(raw) * u128::from(1_000_000 - ppm.min(999_999)) * u128::from(payload);
        let picos = (1_000_000_000_000_u128 << Self::SHIFT) * 1_000_000 * u128::from(payload + header);
        Self(u64::try_from(picos / usable.max(1)).expect("a bus moves more than a byte in a while"))
    }

    fn duration(self, bytes: u32) -> SimDuration {
        SimDuration::from_picos((self.0 * u64::from(bytes)) >> Self::SHIFT)
    }
}

impl PcieBus {
    /// A slot with these latencies to memory, whose HCA keeps `outstanding_reads` requests of `read_request_bytes` in flight.
    pub fn new(
        part: &BusPart,
        read_request_bytes: u32,
        outstanding_reads: u32,
        memory_read_latency: SimDuration,
        memory_write_latency: SimDuration,
    ) -> Self {
        let rate = |payload, header| Rate::new(part.raw_bytes_per_second, part.link_layer_ppm, payload, header);
        Self {
            read_request_bytes: read_request_bytes.max(64),
            memory_read_latency,
            memory_write_latency,
            max_payload_bytes: part.max_payload_bytes,
            read_rate: rate(part.completion_bytes, part.completion_header_bytes),
            write_rate: rate(part.max_payload_bytes, part.write_header_bytes),
            duplex_rate: part.duplex_bytes_per_second.map(|duplex| Rate::new(duplex, 0, 1, 0)),
            read_ends: vec![SimTime::ZERO; outstanding_reads.max(1) as usize],
            read_oldest: 0,
            read_free: SimTime::ZERO,
            write_free: SimTime::ZERO,
            duplex_free: SimTime::ZERO,
        }
    }

    /// DMA read of `bytes` asked for at `now`: when the last byte is in the HCA.
    ///
    /// Each request waits for a free place among the outstanding ones, then a memory latency, then for its turn on the bus.
    pub fn read(&mut self, now: SimTime, bytes: u32) -> SimTime {
        let mut rest = bytes;
        let mut end = now;
        while rest > 0 {
            let part = rest.min(self.read_request_bytes);
            let issued = now.max(self.read_ends[self.read_oldest]);
            let start = (issued + self.memory_read_latency).max(self.read_free);
            end = start + self.read_rate.duration(part);
            self.read_free = end;
            self.read_ends[self.read_oldest] = end;
            self.read_oldest = (self.read_oldest + 1) % self.read_ends.len();
            rest -= part;
        }
        self.share(now, bytes, end)
    }

    /// DMA write of `bytes` that may start at `start` and whose last byte reaches the bus at `tail` at the earliest:
    /// when the last byte is in memory.
    pub fn write(&mut self, now: SimTime, start: SimTime, tail: SimTime, bytes: u32) -> SimTime {
        if bytes == 0 {
            return tail;
        }
        // A direction that waits for arriving bytes is free for others meanwhile, so only its own time is taken.
        self.write_free = start.max(self.write_free) + self.write_rate.duration(bytes);
        let last_packet = self.write_rate.duration(bytes.min(self.max_payload_bytes));
        let end = self.write_free.max(tail + last_packet);
        self.share(now, bytes, end) + self.memory_write_latency
    }

    /// Both directions together: a server of its own that a transfer asked for at `now` has to pass as well.
    fn share(&mut self, now: SimTime, bytes: u32, end: SimTime) -> SimTime {
        let Some(rate) = self.duplex_rate else { return end };
        self.duplex_free = self.duplex_free.max(now) + rate.duration(bytes);
        end.max(self.duplex_free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gen1_x8(duplex: Option<u64>) -> BusPart {
        BusPart {
            name: "test".into(),
            raw_bytes_per_second: 2_000_000_000,
            max_payload_bytes: 128,
            write_header_bytes: 24,
            completion_bytes: 64,
            completion_header_bytes: 20,
            link_layer_ppm: 20_000,
            duplex_bytes_per_second: duplex,
        }
    }

    fn bus(latency_nanos: u64, mrrs: u32, duplex: Option<u64>) -> PcieBus {
        let latency = SimDuration::from_nanos(latency_nanos);
        PcieBus::new(&gen1_x8(duplex), mrrs, 4, latency, SimDuration::from_nanos(300))
    }

    /// Megabytes per second of back-to-back 2 KiB reads.
    fn read_rate(mut bus: PcieBus) -> u64 {
        let end = (0..1_000).map(|_| bus.read(SimTime::ZERO, 2_048)).last().unwrap();
        2_048_000 * 1_000_000 / end.as_picos()
    }

    #[test]
    fn reads_run_at_the_buses_efficiency_when_enough_are_outstanding() {
        assert_eq!(read_rate(bus(600, 512, None)), 1_492);
    }

    #[test]
    fn a_long_memory_latency_limits_reads_until_the_requests_grow() {
        assert_eq!(read_rate(bus(1_955, 512, None)), 890);
        assert!(read_rate(bus(1_955, 2_048, None)) > 1_480);
    }

    #[test]
    fn both_directions_share_what_the_host_bridge_can_move() {
        let mut bus = bus(600, 512, Some(2_727_000_000));
        let (mut read, mut write, mut bytes) = (SimTime::ZERO, SimTime::ZERO, 0);
        while read.max(write) < SimTime::from_picos(10_000_000_000) {
            read = bus.read(read, 2_048);
            let at = write;
            write = bus.write(at, at, at, 2_048);
            bytes += 4_096;
        }
        let rate = bytes * 1_000_000 / read.max(write).as_picos();
        assert!(rate <= 2_727, "{rate}");
    }

    #[test]
    fn a_cut_through_write_ends_a_bus_packet_after_the_tail() {
        let mut bus = bus(600, 512, None);
        let tail = SimTime::from_picos(2_082_000);
        let in_memory = bus.write(SimTime::ZERO, SimTime::ZERO, tail, 2_048);
        // 128 bytes at 1,650 MB/s are 77.5 ns; then 300 ns to memory.
        assert_eq!((in_memory - tail).as_nanos(), 377);
    }
}
