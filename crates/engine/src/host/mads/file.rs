//! Open files of a port's MAD device: their agents, and the records that wait for their reader.

use super::Port;
use super::record::header_bytes;
use softband_ipc::post::SHORT_MAD_BYTES;
use softband_sim::SimTime;
use std::collections::VecDeque;

/// Most agents of an open file (`IB_UMAD_MAX_AGENTS` of the kernel).
const AGENTS_MAX: usize = 32;
/// Most bytes of records that wait for their reader. A longer record waits alone.
const QUEUE_BYTES_MAX: usize = 2 * super::MESSAGE_BYTES_MAX;

/// A record that waits for its reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Received {
    /// Time from which the reader sees it.
    pub(super) at: SimTime,
    pub(super) record: Vec<u8>,
    /// Bytes up to the end of the first segment. A message of one segment has no others.
    pub(super) first: usize,
}

/// A record, or the part of it for which the reader has room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) bytes: Vec<u8>,
    /// `ENOSPC` if the record waits on, because the reader has too little room for all segments.
    pub(crate) error: i32,
}

/// An open file.
#[derive(Debug)]
pub(super) struct MadFile {
    pub(super) port: Port,
    has_pkey_index: bool,
    has_registered: bool,
    /// Numbers of the agents in their port.
    agents: [Option<u32>; AGENTS_MAX],
    received: VecDeque<Received>,
    received_bytes: usize,
    /// In wall pace: the first records, which a byte in the file's socket has announced.
    announced: usize,
}

impl MadFile {
    pub(super) fn new(port: Port) -> Self {
        Self {
            port,
            has_pkey_index: false,
            has_registered: false,
            agents: [None; AGENTS_MAX],
            received: VecDeque::new(),
            received_bytes: 0,
            announced: 0,
        }
    }

    pub(super) fn has_pkey_index(&self) -> bool {
        self.has_pkey_index
    }

    /// Gives the headers a P_Key index.
    ///
    /// # Errors
    /// `EINVAL` after the first agent.
    pub(super) fn enable_pkey_index(&mut self) -> Result<(), i32> {
        if self.has_registered {
            return Err(libc::EINVAL);
        }
        self.has_pkey_index = true;
        Ok(())
    }

    /// Returns a free place for an agent.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn free_place(&self) -> Result<u32, i32> {
        self.agents.iter().position(Option::is_none).map(|place| place as u32).ok_or(libc::ENOMEM)
    }

    /// Stores an agent at a free place. The newer request for an agent brings P_Key indices if it is
    /// the first.
    pub(super) fn set_agent(&mut self, place: u32, number: u32, is_newer: bool) {
        self.has_pkey_index |= is_newer && !self.has_registered;
        self.has_registered = true;
        self.agents[place as usize] = Some(number);
    }

    pub(super) fn agent(&self, place: u32) -> Option<u32> {
        self.agents.get(place as usize).copied().flatten()
    }

    pub(super) fn has_place(place: u32) -> bool {
        (place as usize) < AGENTS_MAX
    }

    pub(super) fn take_agent(&mut self, place: u32) -> Option<u32> {
        self.agents.get_mut(place as usize)?.take()
    }

    pub(super) fn agents(&self) -> impl Iterator<Item = u32> {
        self.agents.iter().flatten().copied()
    }

    /// Adds a record. Returns false if the reader has too many already.
    pub(super) fn queue(&mut self, received: Received) -> bool {
        if self.received_bytes > 0 && self.received_bytes + received.record.len() > QUEUE_BYTES_MAX {
            return false;
        }
        self.received_bytes += received.record.len();
        self.received.push_back(received);
        true
    }

    pub(super) fn received_bytes(&self) -> usize {
        self.received_bytes
    }

    pub(super) fn is_readable(&self, now: SimTime) -> bool {
        self.received.front().is_some_and(|first| first.at <= now)
    }

    /// Takes the next record into a reader's room of `room` bytes.
    ///
    /// # Errors
    /// `EAGAIN` without a record, `EINVAL` without room for its first segment.
    pub(super) fn take(&mut self, room: usize, now: SimTime) -> Result<Taken, i32> {
        if room < header_bytes(self.has_pkey_index) {
            return Err(libc::EINVAL);
        }
        let first = self.received.front().filter(|first| first.at <= now).ok_or(libc::EAGAIN)?;
        if room < first.first {
            return Err(libc::EINVAL);
        }
        if room < first.record.len() {
            return Ok(Taken { bytes: first.record[..first.first].to_vec(), error: libc::ENOSPC });
        }
        self.announced = self.announced.saturating_sub(1);
        Ok(Taken { bytes: self.pop().ok_or(libc::EAGAIN)?, error: 0 })
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        let Received { record, .. } = self.received.pop_front()?;
        self.received_bytes -= record.len();
        Some(record)
    }

    /// Returns the next record if the socket of the file may carry it: it is short, and overtakes none.
    pub(super) fn short_record(&self) -> Option<&[u8]> {
        let next = self.received.front().filter(|_| self.announced == 0)?;
        (next.record.len() <= SHORT_MAD_BYTES).then_some(&next.record[..])
    }

    /// Notes that the socket of the file has taken the next record or its announcement.
    pub(super) fn note_told(&mut self) {
        if self.short_record().is_some() {
            self.pop();
        } else {
            self.announced = (self.announced + 1).min(self.received.len());
        }
    }

    /// Notes that a reader has taken an announcement, and left the record.
    pub(super) fn note_left(&mut self) {
        self.announced = self.announced.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_types::{HcaId, PortNumber};

    const NOW: SimTime = SimTime::from_picos(5);

    fn file() -> MadFile {
        MadFile::new((HcaId(0), PortNumber(1)))
    }

    #[test]
    fn a_reader_without_room_leaves_the_record() {
        let mut file = file();
        assert!(file.queue(Received { at: NOW, record: vec![7; 700], first: 312 }));
        assert_eq!(file.take(1_000, SimTime::ZERO), Err(libc::EAGAIN), "not visible yet");
        assert_eq!(file.take(55, NOW), Err(libc::EINVAL));
        assert_eq!(file.take(311, NOW), Err(libc::EINVAL));
        assert_eq!(file.take(699, NOW).map(|taken| (taken.bytes.len(), taken.error)), Ok((312, libc::ENOSPC)));
        assert_eq!(file.take(700, NOW).map(|taken| (taken.bytes.len(), taken.error)), Ok((700, 0)));
        assert_eq!(file.take(700, NOW), Err(libc::EAGAIN));
    }

    #[test]
    fn a_socket_carries_short_records_and_none_past_a_long_one() {
        let mut file = file();
        for len in [320, 321, 100, 99] {
            assert!(file.queue(Received { at: NOW, record: vec![7; len], first: len.min(312) }));
        }
        assert_eq!(file.short_record().map(<[u8]>::len), Some(320));
        file.note_told();
        // A byte announces the long record, and all behind it.
        for announced in 1..=3 {
            assert_eq!(file.short_record(), None);
            file.note_told();
            assert_eq!(file.announced, announced);
        }
        file.note_left();
        file.note_told();
        assert_eq!(file.take(321, NOW).map(|taken| taken.bytes.len()), Ok(321));
        assert_eq!(file.short_record(), None, "announced already");
        assert_eq!(file.take(321, NOW).map(|taken| taken.bytes.len()), Ok(100));
        // A reader with too little room leaves the last one: it may come by the socket.
        file.note_left();
        assert_eq!(file.short_record().map(<[u8]>::len), Some(99));
        file.note_told();
        assert_eq!((file.received_bytes(), file.announced), (0, 0));
    }

    #[test]
    fn a_file_that_nobody_reads_has_an_end() {
        let mut file = file();
        let record = Received { at: NOW, record: vec![0; QUEUE_BYTES_MAX / 2], first: 0 };
        assert!(file.queue(record.clone()) && file.queue(record.clone()) && !file.queue(record.clone()));
        file.take(QUEUE_BYTES_MAX, NOW).expect("a record");
        assert!(file.queue(record));
    }

    #[test]
    fn indices_come_before_the_first_agent_or_with_it() {
        let mut older = file();
        older.set_agent(0, 1, false);
        assert_eq!((older.enable_pkey_index(), older.has_pkey_index()), (Err(libc::EINVAL), false));
        older.set_agent(1, 2, true);
        assert!(!older.has_pkey_index());
        let mut newer = file();
        newer.set_agent(0, 1, true);
        assert!(newer.has_pkey_index());
    }
}
