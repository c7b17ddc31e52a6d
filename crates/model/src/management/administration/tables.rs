//! Answers of several segments (RMPP, IBTA 13.6).
//!
//! Paths are many: the square of the number of ports. So a table of them keeps only their LIDs, and
//! makes the records of a segment as it sends it.

use super::paths::{self, Paths};
use super::{ManagementPacket, NO_TIME};
use softband_types::Lid;
use softband_wire::mad::{Header, Layout, PathRecord, RmppFlags, RmppHeader, RmppStatus, RmppType, SA_DATA_BYTES, SaMad, room_of_record};
use std::collections::BTreeMap;

/// Bytes of the header of subnet administration, which each segment repeats.
const SA_HEADER_BYTES: usize = 20;
/// Most segments that an acknowledgement admits. The windows of Linux have 64.
const WINDOW_MAX: usize = 4_096;
/// Most tables under way, and their memory in bytes. The oldest requester loses its table.
const TABLES_MAX: usize = 64;
const MEMORY_MAX: usize = 64 << 20;

/// The records of a table.
pub(super) enum Records {
    /// Records in full, each with this room in bytes.
    Bytes(usize, Vec<u8>),
    /// Source and destination of path records.
    Paths(Vec<(Lid, Lid)>),
}

impl Records {
    fn room(&self) -> usize {
        match self {
            Self::Bytes(room, _) => *room,
            Self::Paths(_) => room_of_record::<PathRecord>(),
        }
    }

    /// Returns the length of all records in bytes.
    fn len(&self) -> usize {
        match self {
            Self::Bytes(_, data) => data.len(),
            Self::Paths(ends) => ends.len() * self.room(),
        }
    }

    /// Returns the bytes that the table needs here.
    fn memory(&self) -> usize {
        match self {
            Self::Bytes(_, data) => data.len(),
            Self::Paths(ends) => ends.len() * size_of::<(Lid, Lid)>(),
        }
    }

    /// Copies the bytes from `start` on, as many as `into` takes.
    fn copy(&self, start: usize, into: &mut [u8], paths: &dyn Paths) {
        match self {
            Self::Bytes(_, data) => into.copy_from_slice(&data[start..start + into.len()]),
            Self::Paths(ends) => {
                let (room, end) = (self.room(), start + into.len());
                for (number, lids) in ends.iter().enumerate().take(end.div_ceil(room)).skip(start / room) {
                    let mut record = vec![0; room];
                    paths::present_record(*lids, paths).emit(&mut record);
                    let (from, until) = (start.max(number * room), end.min((number + 1) * room));
                    into[from - start..until - start].copy_from_slice(&record[from - number * room..until - number * room]);
                }
            }
        }
    }
}

/// A table under way.
struct Table {
    /// The first segment without its data. All others follow it.
    head: ManagementPacket,
    records: Records,
    /// Segments sent so far.
    sent: usize,
}

impl Table {
    fn segments(&self) -> usize {
        // An empty table has a segment, too.
        self.records.len().div_ceil(SA_DATA_BYTES).max(1)
    }

    /// Returns a segment, counted from 1.
    fn segment(&self, number: usize, paths: &dyn Paths) -> ManagementPacket {
        let (last, all) = (self.segments(), self.records.len());
        let start = (number - 1) * SA_DATA_BYTES;
        let len = SA_DATA_BYTES.min(all - start);
        let mut flags = RmppFlags::ACTIVE;
        let mut payload_length = 0;
        if number == 1 {
            flags = flags | RmppFlags::FIRST;
            payload_length = all + last * SA_HEADER_BYTES;
        }
        if number == last {
            flags = flags | RmppFlags::LAST;
            payload_length = len + SA_HEADER_BYTES;
        }
        let rmpp = RmppHeader {
            version: 1,
            rmpp_type: RmppType::DATA,
            resp_time: NO_TIME,
            flags,
            status: RmppStatus::NORMAL,
            segment_number: number as u32,
            payload_length: payload_length as u32,
        };
        let mut packet = self.head.clone();
        let mut data = [0; SA_DATA_BYTES];
        self.records.copy(start, &mut data[..len], paths);
        SaMad::view_mut(&mut packet.mad[..]).rmpp(rmpp).data(data);
        packet
    }
}

/// The tables under way, by requester and transaction.
#[derive(Default)]
pub(super) struct Tables(BTreeMap<(Lid, u64), Table>);

impl Tables {
    /// Begins to send a table. The receiver's window has one segment at first.
    pub(super) fn begin(&mut self, mut head: ManagementPacket, records: Records, paths: &dyn Paths) -> ManagementPacket {
        SaMad::view_mut(&mut head.mad[..]).attribute_offset((records.room() / 8) as u16);
        let key = (head.dlid, Header::view(&head.mad[..]).transaction_id());
        let table = Table { head, records, sent: 1 };
        let first = table.segment(1, paths);
        if table.segments() > 1 {
            let is_full = |tables: &BTreeMap<_, Table>| {
                let held: usize = tables.values().map(|table| table.records.memory()).sum();
                !tables.is_empty() && (tables.len() >= TABLES_MAX || held + table.records.memory() > MEMORY_MAX)
            };
            while is_full(&self.0) {
                self.0.pop_first();
            }
            self.0.insert(key, table);
        }
        first
    }

    /// Sends the segments that an acknowledgement admits.
    pub(super) fn go_on(&mut self, packet: &ManagementPacket, paths: &dyn Paths) -> Vec<ManagementPacket> {
        let key = (packet.slid, Header::view(&packet.mad[..]).transaction_id());
        let rmpp = SaMad::view(&packet.mad[..]).rmpp();
        let Some(table) = self.0.get_mut(&key) else { return Vec::new() };
        let last = table.segments();
        if rmpp.rmpp_type != RmppType::ACK || rmpp.segment_number as usize >= last {
            // The receiver has everything, or gives up.
            self.0.remove(&key);
            return Vec::new();
        }
        // The field has the end of the receiver's window, which a program states as it likes.
        let admitted = (rmpp.payload_length as usize).min(last).min(table.sent.saturating_add(WINDOW_MAX));
        let numbers = table.sent + 1..=admitted;
        table.sent = table.sent.max(admitted);
        numbers.map(|number| table.segment(number, paths)).collect()
    }
}
