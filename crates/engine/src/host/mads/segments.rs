//! Messages of several MADs: the reliable multi-packet transaction protocol, RMPP (IBTA 13.6).
//!
//! A sender sends the segments of a window and awaits an acknowledgement. A receiver acknowledges the
//! end of each window, and the end of the message.

use super::fields::RMPP_HEADER_BYTES;
use softband_model::management::{MAD_BYTES, ManagementPacket};
use softband_sim::{SimDuration, SimTime};
use std::collections::BTreeMap;

/// The only version of the protocol.
pub(super) const VERSION: u8 = 1;
/// Flags of a segment (IBTA 13.6.2.1).
const ACTIVE: u8 = 1;
const FIRST: u8 = 2;
const LAST: u8 = 4;
/// Status codes (IBTA 13.6.2.2).
pub(super) const RESOURCES_EXHAUSTED: u8 = 1;
pub(super) const TOO_LONG: u8 = 118;
const BAD_SEGMENT: u8 = 120;
pub(super) const BAD_TYPE: u8 = 121;
const WINDOW_TOO_SMALL: u8 = 122;
const NUMBER_TOO_BIG: u8 = 123;
const BAD_STATUS: u8 = 124;
pub(super) const UNSUPPORTED_VERSION: u8 = 125;
/// Bytes of a segment after the RMPP header.
const PAYLOAD_BYTES: usize = MAD_BYTES - RMPP_HEADER_BYTES;
/// Segments that a receiver takes between two acknowledgements, as the kernel does.
const WINDOW: u32 = 64;
/// Longest wait for an acknowledgement, and lives of receptions, of the kernel.
pub(super) const ACKNOWLEDGEMENT_WAIT: SimDuration = SimDuration::from_nanos(2_000_000_000);
const RECEPTION_LIFE: SimDuration = SimDuration::from_nanos(40_000_000_000);
const FINISHED_LIFE: SimDuration = SimDuration::from_nanos(10_000_000_000);

/// Type of a MAD of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Acknowledgement,
    Stop,
    Abort,
}

impl Kind {
    const fn code(self) -> u8 {
        match self {
            Self::Data => 1,
            Self::Acknowledgement => 2,
            Self::Stop => 3,
            Self::Abort => 4,
        }
    }
}

/// The RMPP header of a MAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) version: u8,
    /// `None` if the type is unknown.
    pub(super) kind: Option<Kind>,
    flags: u8,
    pub(super) status: u8,
    pub(super) number: u32,
    /// Bytes of the payload, or the end of the receiver's window.
    pub(super) length_or_window: u32,
}

impl Segment {
    /// Reads the header of a MAD of a class with segments. Returns `None` if the MAD is a message of
    /// its own.
    pub(super) fn of(mad: &[u8; MAD_BYTES]) -> Option<Self> {
        let word = |at: usize| u32::from_be_bytes(mad[at..at + 4].try_into().expect("four bytes"));
        let kinds = [Kind::Data, Kind::Acknowledgement, Kind::Stop, Kind::Abort];
        let segment = Self {
            version: mad[24],
            kind: kinds.into_iter().find(|kind| kind.code() == mad[25]),
            flags: mad[26] & 7,
            status: mad[27],
            number: word(28),
            length_or_window: word(32),
        };
        (segment.flags & ACTIVE != 0).then_some(segment)
    }

    fn put(self, mad: &mut [u8; MAD_BYTES]) {
        mad[24] = self.version;
        mad[25] = self.kind.map_or(0, Kind::code);
        mad[26] = mad[26] & !7 | self.flags;
        mad[27] = self.status;
        mad[28..32].copy_from_slice(&self.number.to_be_bytes());
        mad[32..36].copy_from_slice(&self.length_or_window.to_be_bytes());
    }
}

/// Returns the MAD that controls the transfer to which `mad` belongs.
fn control(mad: &[u8; MAD_BYTES], kind: Kind, status: u8, (number, window): (u32, u32)) -> Box<[u8; MAD_BYTES]> {
    let mut answer = Box::new([0; MAD_BYTES]);
    answer[..RMPP_HEADER_BYTES].copy_from_slice(&mad[..RMPP_HEADER_BYTES]);
    // The receiver of a message answers in the direction of its requests.
    answer[3] ^= 0x80;
    Segment { version: VERSION, kind: Some(kind), flags: ACTIVE, status, number, length_or_window: window }.put(&mut answer);
    answer
}

/// Returns the MAD that ends the transfer to which `mad` belongs.
pub(super) fn end(mad: &[u8; MAD_BYTES], status: u8) -> Box<[u8; MAD_BYTES]> {
    let kind = if status == RESOURCES_EXHAUSTED { Kind::Stop } else { Kind::Abort };
    control(mad, kind, status, (0, 0))
}

/// A message on its way to a receiver.
#[derive(Clone, Debug)]
pub(super) struct Message {
    bytes: Vec<u8>,
    /// Bytes of the class header, which each segment repeats.
    header_bytes: usize,
    sent: u32,
    acknowledged: u32,
    window_end: u32,
}

/// Outcome of an acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Acknowledged {
    /// The message goes on with these segments. An old acknowledgement has none.
    GoesOn(Vec<[u8; MAD_BYTES]>),
    Complete,
    /// The receiver made an error. The transfer ends with this status.
    Broken(u8),
}

impl Message {
    /// Takes the bytes of a class header and of the data behind it, at least the header.
    pub(super) fn new(bytes: Vec<u8>, header_bytes: usize) -> Self {
        Self { bytes, header_bytes, sent: 0, acknowledged: 0, window_end: 1 }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn data_bytes(&self) -> usize {
        MAD_BYTES - self.header_bytes
    }

    pub(super) fn segments(&self) -> u32 {
        (self.bytes.len() - self.header_bytes).div_ceil(self.data_bytes()).max(1) as u32
    }

    /// Returns how many segments the receiver has acknowledged.
    pub(super) fn acknowledged(&self) -> u32 {
        self.acknowledged
    }

    pub(super) fn is_acknowledged(&self) -> bool {
        self.acknowledged == self.segments()
    }

    /// Returns segment `number`, from 1.
    fn segment(&self, number: u32) -> [u8; MAD_BYTES] {
        let (count, data_bytes) = (self.segments(), self.data_bytes());
        let start = self.header_bytes + (number as usize - 1) * data_bytes;
        let data = &self.bytes[start.min(self.bytes.len())..self.bytes.len().min(start + data_bytes)];
        let mut mad = [0; MAD_BYTES];
        mad[..self.header_bytes].copy_from_slice(&self.bytes[..self.header_bytes]);
        mad[self.header_bytes..self.header_bytes + data.len()].copy_from_slice(data);
        // IBTA 13.6.3.3.1: the first segment states the whole length, with the class header's part
        // of each segment. The last states its own.
        let padding = (count as usize * data_bytes) - (self.bytes.len() - self.header_bytes);
        let (first, last) = (number == 1, number == count);
        let length = match (first, last) {
            (_, true) => PAYLOAD_BYTES - padding,
            (true, false) => count as usize * PAYLOAD_BYTES - padding,
            (false, false) => 0,
        };
        let flags = ACTIVE | if first { FIRST } else { 0 } | if last { LAST } else { 0 };
        Segment { version: VERSION, kind: Some(Kind::Data), flags, status: 0, number, length_or_window: length as u32 }.put(&mut mad);
        mad
    }

    /// Returns the segments that the receiver's window admits now.
    pub(super) fn next(&mut self) -> Vec<[u8; MAD_BYTES]> {
        let end = self.window_end.min(self.segments());
        let numbers = self.sent + 1..=end;
        self.sent = self.sent.max(end);
        numbers.map(|number| self.segment(number)).collect()
    }

    /// Returns the segments that no acknowledgement has covered, as far as the window admits.
    pub(super) fn again(&mut self) -> Vec<[u8; MAD_BYTES]> {
        self.sent = self.acknowledged;
        self.next()
    }

    /// Handles an acknowledgement.
    pub(super) fn acknowledge(&mut self, answer: Segment) -> Acknowledged {
        let (number, window) = (answer.number, answer.length_or_window);
        if answer.status != 0 {
            return Acknowledged::Broken(BAD_STATUS);
        }
        if window < number {
            return Acknowledged::Broken(WINDOW_TOO_SMALL);
        }
        if self.is_acknowledged() {
            return Acknowledged::GoesOn(Vec::new());
        }
        if number > self.segments() || number > self.window_end {
            return Acknowledged::Broken(NUMBER_TOO_BIG);
        }
        if window < self.window_end || number < self.acknowledged {
            return Acknowledged::GoesOn(Vec::new());
        }
        (self.acknowledged, self.window_end) = (number, window);
        self.sent = self.sent.max(number);
        if self.is_acknowledged() { Acknowledged::Complete } else { Acknowledged::GoesOn(self.next()) }
    }
}

/// A message that arrives.
#[derive(Debug)]
pub(super) struct Reception {
    /// The packet of the first segment. Its addresses are those of the message.
    pub(super) packet: ManagementPacket,
    header_bytes: usize,
    /// Segments behind the first, by number.
    segments: BTreeMap<u32, Box<[u8; MAD_BYTES]>>,
    in_order: u32,
    last_acknowledged: u32,
    window_end: u32,
    is_complete: bool,
    /// The end of its life.
    pub(super) until: SimTime,
}

/// Outcome of a segment's arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrived {
    pub(super) acknowledgement: Option<Box<[u8; MAD_BYTES]>>,
    /// The whole message, if it is complete now.
    pub(super) message: Option<Vec<u8>>,
}

/// Checks the header of a data segment.
///
/// # Errors
/// The status with which the transfer ends.
pub(super) fn check_data(segment: Segment) -> Result<(), u8> {
    let is_first = segment.flags & FIRST != 0;
    match (segment.status, segment.number) {
        (1.., _) => Err(BAD_STATUS),
        (0, 0) => Err(BAD_SEGMENT),
        (0, number) if (number == 1) != is_first => Err(BAD_SEGMENT),
        _ => Ok(()),
    }
}

impl Reception {
    /// Begins with the first segment.
    pub(super) fn new(packet: ManagementPacket, header_bytes: usize, now: SimTime) -> Self {
        Self {
            packet,
            header_bytes,
            segments: BTreeMap::new(),
            in_order: 0,
            last_acknowledged: 0,
            window_end: 1,
            is_complete: false,
            until: now.saturating_add(RECEPTION_LIFE),
        }
    }

    /// Returns whether the program has the message.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the bytes of the segments that wait here.
    pub(super) fn bytes(&self) -> usize {
        self.segments.len() * MAD_BYTES
    }

    /// Takes a segment.
    pub(super) fn take(&mut self, mad: &[u8; MAD_BYTES], segment: Segment, now: SimTime) -> Arrived {
        let nothing = Arrived { acknowledgement: None, message: None };
        if self.is_complete || segment.number <= self.last_acknowledged {
            return Arrived { acknowledgement: Some(self.acknowledgement()), message: None };
        }
        if segment.number > self.window_end || self.segments.contains_key(&segment.number) {
            return nothing;
        }
        self.segments.insert(segment.number, Box::new(*mad));
        let before = self.in_order;
        while self.segments.contains_key(&(self.in_order + 1)) {
            self.in_order += 1;
            if self.is_last(self.in_order) {
                return self.complete(now);
            }
        }
        if self.in_order == before || self.in_order < self.window_end {
            return nothing;
        }
        self.window_end = self.window_end.saturating_add(WINDOW);
        Arrived { acknowledgement: Some(self.acknowledgement()), message: None }
    }

    fn is_last(&self, number: u32) -> bool {
        self.segments.get(&number).and_then(|mad| Segment::of(mad)).is_some_and(|segment| segment.flags & LAST != 0)
    }

    fn acknowledgement(&mut self) -> Box<[u8; MAD_BYTES]> {
        self.last_acknowledged = self.in_order;
        control(&self.packet.mad, Kind::Acknowledgement, 0, (self.in_order, self.window_end))
    }

    fn complete(&mut self, now: SimTime) -> Arrived {
        self.is_complete = true;
        // A repeated segment may still come, and needs its acknowledgement.
        self.until = now.saturating_add(FINISHED_LIFE);
        let message = self.join();
        self.segments.clear();
        Arrived { acknowledgement: Some(self.acknowledgement()), message: Some(message) }
    }

    fn join(&self) -> Vec<u8> {
        let mut message = self.packet.mad[..self.header_bytes].to_vec();
        let mut length = PAYLOAD_BYTES;
        for mad in self.segments.range(..=self.in_order).map(|(_, mad)| mad) {
            message.extend_from_slice(&mad[self.header_bytes..]);
            length = Segment::of(mad).map_or(PAYLOAD_BYTES, |segment| segment.length_or_window as usize);
        }
        // As the kernel, takes a false length of the last segment for a full one.
        let padding = PAYLOAD_BYTES.checked_sub(length).filter(|padding| *padding <= MAD_BYTES - self.header_bytes).unwrap_or(0);
        message.truncate(message.len() - padding);
        message
    }
}

#[cfg(test)]
mod tests;
