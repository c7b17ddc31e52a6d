//! Traffic that programs carry themselves, for port counters. A sender counts the packets that its
//! HCA would have sent, in memory that it shares with the engine. The engine adds them up when
//! somebody asks for counters.
//!
//! A row of the memory belongs to one queue pair and one way at a time, so adding needs no locked
//! instruction. Its numbers stay when the queue pair goes. The next queue pair with this way
//! continues them (`rows`).

mod rows;

pub use rows::LOCK;
use softband_ipc::layout::TrafficRow;
use softband_ipc::post::opcode;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of headers (IBTA 9.2 and 9.3), as `softband_wire` has them.
mod bytes {
    /// BTH and invariant CRC.
    pub(super) const BASE: u64 = 12 + 4;
    pub(super) const DETH: u64 = 8;
    pub(super) const XRC_ETH: u64 = 4;
    pub(super) const RETH: u64 = 16;
    pub(super) const ATOMIC_ETH: u64 = 28;
    pub(super) const IMMEDIATE: u64 = 4;
    pub(super) const AETH: u64 = 4;
    /// Operand of an atomic write, and result of an atomic.
    pub(super) const WORD: u64 = 8;
}

/// Packets of a message between two that ask for an acknowledgement, as the model's requester has
/// it. The last packet asks as well.
const PACKETS_PER_ACK: u64 = 128;

/// Header between the LRH and the BTH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteHeader {
    None,
    /// GRH, or IP header of version 6.
    Global,
    /// IP header of version 4.
    Ipv4,
}

/// Port and destination of packets at an HCA. Bits: 16 of the destination's LID, 8 of the port, 4
/// of the path MTU (its logarithm), 2 of the route header. The highest bit marks a way that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way(pub u32);

impl Way {
    const EXISTS: u32 = 1 << 31;

    pub fn new(port: u8, lid: u16, mtu_bytes: u32, header: RouteHeader) -> Self {
        let mtu = mtu_bytes.max(1).ilog2() & 0xF;
        Self(Self::EXISTS | (header as u32) << 28 | mtu << 24 | u32::from(port) << 16 | u32::from(lid))
    }

    /// Returns the same way to another destination.
    #[inline]
    pub fn to(self, lid: u16, header: RouteHeader) -> Self {
        Self(self.0 & !(0xFFFF | 3 << 28) | (header as u32) << 28 | u32::from(lid))
    }

    pub fn port(self) -> u8 {
        (self.0 >> 16) as u8
    }

    pub fn lid(self) -> u16 {
        self.0 as u16
    }

    pub fn header(self) -> RouteHeader {
        match self.0 >> 28 & 3 {
            0 => RouteHeader::None,
            1 => RouteHeader::Global,
            _ => RouteHeader::Ipv4,
        }
    }

    #[inline(always)]
    fn exists(self) -> bool {
        self.0 & Self::EXISTS != 0
    }

    #[inline(always)]
    fn packets_of(self, len_bytes: u64) -> u64 {
        let shift = self.0 >> 24 & 0xF;
        ((len_bytes + (1 << shift) - 1) >> shift).max(1)
    }
}

/// Packets, and their bytes from BTH to invariant CRC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    pub bytes: u64,
    pub packets: u64,
}

impl Volume {
    const fn one(bytes: u64) -> Self {
        Self { bytes, packets: 1 }
    }

    /// Returns the growth since an earlier reading. A number that has not grown gives 0.
    fn since(self, earlier: Self) -> Self {
        Self { bytes: self.bytes.saturating_sub(earlier.bytes), packets: self.packets.saturating_sub(earlier.packets) }
    }
}

/// Packets of requests and of their responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    pub sent: Volume,
    pub returned: Volume,
    pub requests: Requests,
}

/// Requests that the receiving port counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    pub writes: u64,
    pub reads: u64,
    pub atomics: u64,
    /// Datagrams that found no receive request.
    pub lost: u64,
}

impl Requests {
    #[inline(always)]
    const fn of(operation: u32) -> Self {
        let none = Self { writes: 0, reads: 0, atomics: 0, lost: 0 };
        match operation {
            opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM => Self { writes: 1, ..none },
            opcode::RDMA_READ => Self { reads: 1, ..none },
            opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD | opcode::ATOMIC_WRITE => Self { atomics: 1, ..none },
            _ => none,
        }
    }

    /// Returns the growth since an earlier reading.
    fn since(self, earlier: Self) -> Self {
        Self {
            writes: self.writes.saturating_sub(earlier.writes),
            reads: self.reads.saturating_sub(earlier.reads),
            atomics: self.atomics.saturating_sub(earlier.atomics),
            lost: self.lost.saturating_sub(earlier.lost),
        }
    }
}

/// Transport service of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    Reliable,
    /// Extended reliable connection.
    Extended,
    Unreliable,
    Datagram,
}

impl Exchange {
    /// Returns the packets of a message of `len_bytes`, as the model's HCAs send them without
    /// losses.
    #[inline(always)]
    pub fn of(service: Service, operation: u32, len_bytes: u64, way: Way) -> Self {
        let extension = match service {
            Service::Extended => bytes::XRC_ETH,
            Service::Datagram => bytes::DETH,
            Service::Reliable | Service::Unreliable => 0,
        };
        let each = bytes::BASE + extension;
        let padded = (len_bytes + 3) & !3;
        let packets = if service == Service::Datagram { 1 } else { way.packets_of(len_bytes) };
        let requests = Requests::of(operation);
        let answer = Volume::one(bytes::BASE + bytes::AETH + bytes::WORD);
        let headers = match operation {
            opcode::RDMA_READ => {
                // The first and the last packet of the response have an AETH.
                let response = Volume { bytes: packets * bytes::BASE + padded + packets.min(2) * bytes::AETH, packets };
                return Self { sent: Volume::one(each + bytes::RETH), returned: response, requests };
            }
            opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD => {
                return Self { sent: Volume::one(each + bytes::ATOMIC_ETH), returned: answer, requests };
            }
            opcode::ATOMIC_WRITE => return Self { sent: Volume::one(each + bytes::RETH + bytes::WORD), returned: answer, requests },
            opcode::RDMA_WRITE => bytes::RETH,
            opcode::RDMA_WRITE_WITH_IMM => bytes::RETH + bytes::IMMEDIATE,
            opcode::SEND_WITH_IMM => bytes::IMMEDIATE,
            _ => 0,
        };
        let acknowledgements = match service {
            Service::Reliable | Service::Extended => packets.div_ceil(PACKETS_PER_ACK),
            Service::Unreliable | Service::Datagram => 0,
        };
        let returned = Volume { bytes: acknowledgements * (bytes::BASE + bytes::AETH), packets: acknowledgements };
        Self { sent: Volume { bytes: packets * each + padded + headers, packets }, returned, requests }
    }
}

/// The row of a sender, once it has one.
#[derive(Default)]
pub struct Lane {
    /// The way of the row, or the way for which no row was left.
    way: u64,
    row: Option<&'static TrafficRow>,
}

impl Lane {
    /// Counts packets that this process has carried from `hca`. `own` is its PID. Callers hold the
    /// lock of the queue pair, so no other thread counts here.
    #[inline(always)]
    pub fn count(&mut self, (rows, own): (&'static [TrafficRow], u32), (hca, way): (u32, Way), exchange: Exchange) {
        if self.way != name(hca, way) || self.row.is_some_and(|row| row.writer.load(Ordering::Relaxed) != own) {
            self.turn_to((rows, own), (hca, way));
        }
        let Some(row) = self.row else { return };
        let add = |counter: &AtomicU64, more: u64| counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        add(&row.sent_bytes, exchange.sent.bytes);
        add(&row.sent_packets, exchange.sent.packets);
        add(&row.returned_bytes, exchange.returned.bytes);
        add(&row.returned_packets, exchange.returned.packets);
        if exchange.requests != Requests::default() {
            add(&row.writes, exchange.requests.writes);
            add(&row.reads, exchange.requests.reads);
            add(&row.lost, exchange.requests.lost);
            add(&row.atomics, exchange.requests.atomics);
        }
    }

    #[cold]
    fn turn_to(&mut self, (rows, own): (&'static [TrafficRow], u32), (hca, way): (u32, Way)) {
        self.release(own);
        self.way = name(hca, way);
        self.row = way.exists().then(|| rows::take((rows, own), self.way)).flatten();
    }

    /// Leaves the row to other queue pairs of the process. A child of a fork leaves its parent's
    /// alone.
    pub fn release(&mut self, own: u32) {
        if let Some(row) = self.row.take() {
            rows::give_back(row, own);
        }
    }
}

fn name(hca: u32, Way(way): Way) -> u64 {
    u64::from(hca) << 32 | u64::from(way)
}

/// The engine's last reading of a process's rows.
#[derive(Default)]
pub struct Readings(Vec<(u64, Exchange)>);

impl Readings {
    /// Returns the growth of each row since the last call, with HCA and way. Trusts nothing: a lying
    /// program gives wrong numbers only.
    pub fn growth<'a>(&'a mut self, rows: &'a [TrafficRow]) -> impl Iterator<Item = (u32, Way, Exchange)> + 'a {
        rows.iter().enumerate().map_while(|(index, row)| self.read(index, row)).filter(|(.., growth)| *growth != Exchange::default())
    }

    /// Returns `None` for the first row that was never used: the rest is empty.
    fn read(&mut self, index: usize, row: &TrafficRow) -> Option<(u32, Way, Exchange)> {
        let way = Some(row.way.load(Ordering::Acquire)).filter(|way| *way != 0)?;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let now = Exchange {
            sent: Volume { bytes: of(&row.sent_bytes), packets: of(&row.sent_packets) },
            returned: Volume { bytes: of(&row.returned_bytes), packets: of(&row.returned_packets) },
            requests: Requests { writes: of(&row.writes), reads: of(&row.reads), atomics: of(&row.atomics), lost: of(&row.lost) },
        };
        if self.0.len() <= index {
            self.0.resize(index + 1, (way, Exchange::default()));
        }
        let (known, last) = std::mem::replace(&mut self.0[index], (way, now));
        let last = if known == way { last } else { now }; // only a liar changes the way
        let growth =
            Exchange { sent: now.sent.since(last.sent), returned: now.returned.since(last.returned), requests: now.requests.since(last.requests) };
        Some(((way >> 32) as u32, Way(way as u32), growth))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
