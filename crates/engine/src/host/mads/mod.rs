//! Management datagrams (MADs) of programs, as the kernel's MAD layer and its devices `umadN` and
//! `issmN` have them. Pure: the caller passes the time, and takes the packets.

mod agents;
mod fields;
mod file;
mod messages;
mod record;
mod requests;
mod segments;
#[cfg(test)]
mod tests;

pub(crate) use agents::Registration;
use agents::{Agent, Agents};
use fields::{Fields, HEADER_BYTES, SUBNET_DIRECTED_ROUTE, class_header_bytes, is_segment, may_have_segments, refusal, set_agent};
pub(crate) use file::Taken;
use file::{MadFile, Received};
use messages::Receptions;
use record::{Header, header_bytes};
use requests::{Expired, Request, Requests, Transaction, packets};
use segments::{Message, Segment};
use softband_ipc::calls::readiness::{ERROR, HANG_UP, READABLE, WRITABLE};
use softband_model::management::{MAD_BYTES, ManagementPacket};
use softband_sim::{SimDuration, SimTime};
use softband_types::{HcaId, Lid, PKey, PortNumber, Qpn};
use std::collections::BTreeMap;

/// Most bytes that a program writes or reads at once.
pub(crate) const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Most bytes of a message that arrives: the path records of 1,448 ports, with the room that their
/// segments take here.
pub(crate) const RECEPTION_BYTES_MAX: usize = 176 << 20;
/// Most posted MADs of a port that await no answer, and have not entered the fabric yet. Lane 15 may
/// lose packets, and a program can post without an end.
const POSTS_MAX: u32 = 1_024;
/// Most open files of a port.
const FILES_MAX: usize = 256;
/// Most bytes of all records of a port that wait for their readers.
const WAITING_BYTES_MAX: usize = 16 * MESSAGE_BYTES_MAX;

pub(crate) type Port = (HcaId, PortNumber);

/// The facts about a port that its MADs need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortFacts<'a> {
    pub(crate) lid: Lid,
    pub(crate) pkeys: &'a [PKey],
}

/// The times of an arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) now: SimTime,
    /// Time from which the reader sees it.
    pub(crate) visible: SimTime,
}

/// All open files of MAD devices, their agents, and the MADs that await answers.
#[derive(Debug, Default)]
pub(crate) struct MadTable {
    files: BTreeMap<u32, MadFile>,
    /// Files that mark their port as one with a subnet manager.
    managers: BTreeMap<u32, Port>,
    agents: BTreeMap<Port, Agents>,
    requests: Requests,
    receptions: Receptions,
    outgoing: Vec<(Port, Box<ManagementPacket>)>,
    /// In wall pace: posted MADs without answers since the fabric last had no work.
    posts: BTreeMap<Port, u32>,
    /// The next deadline for which the caller has an event.
    scheduled: Option<SimTime>,
}

impl MadTable {
    /// Opens the device `umadN` of a port.
    ///
    /// # Errors
    /// `EMFILE` if too many files of the port are open.
    pub(crate) fn open(&mut self, object: u32, port: Port) -> Result<(), i32> {
        if self.files.values().filter(|file| file.port == port).count() >= FILES_MAX {
            return Err(libc::EMFILE);
        }
        self.files.insert(object, MadFile::new(port));
        Ok(())
    }

    /// Opens the device `issmN` of a port.
    ///
    /// # Errors
    /// `EBUSY` if another file of it is open.
    pub(crate) fn open_manager(&mut self, object: u32, port: Port) -> Result<(), i32> {
        if self.has_manager(port) {
            return Err(libc::EBUSY);
        }
        self.managers.insert(object, port);
        Ok(())
    }

    fn has_manager(&self, port: Port) -> bool {
        self.managers.values().any(|other| *other == port)
    }

    /// Returns the ports whose `issmN` is open: they set `IsSM` (IBTA 14.2.5.6).
    pub(crate) fn ports_with_sm(&self) -> impl Iterator<Item = Port> {
        self.managers.values().copied()
    }

    fn file(&mut self, object: u32) -> Result<&mut MadFile, i32> {
        self.files.get_mut(&object).ok_or(libc::EBADF)
    }

    pub(crate) fn enable_pkey_index(&mut self, object: u32) -> Result<(), i32> {
        self.file(object)?.enable_pkey_index()
    }

    /// Adds an agent to a file, and returns its number there. `is_newer` states that the program
    /// used the newer of both requests.
    ///
    /// # Errors
    /// `ENOMEM` if the file has no room, `EINVAL` if the port refuses.
    pub(crate) fn register(&mut self, object: u32, registration: Registration, is_newer: bool) -> Result<u32, i32> {
        let file = self.files.get_mut(&object).ok_or(libc::EBADF)?;
        let id = file.free_place()?;
        let number = self.agents.entry(file.port).or_default().register(Agent { file: object, id, registration })?;
        file.set_agent(id, number, is_newer);
        Ok(id)
    }

    pub(crate) fn unregister(&mut self, object: u32, id: u32) -> Result<(), i32> {
        let file = self.file(object)?;
        let (number, port) = (file.take_agent(id).ok_or(libc::EINVAL)?, file.port);
        self.forget_agent(port, number);
        Ok(())
    }

    fn forget_agent(&mut self, port: Port, number: u32) {
        self.requests.cancel(port, number);
        self.receptions.forget(port, number);
        if let Some(agents) = self.agents.get_mut(&port) {
            agents.unregister(number);
        }
    }

    pub(crate) fn close(&mut self, object: u32) {
        self.managers.remove(&object);
        let Some(file) = self.files.remove(&object) else { return };
        for number in file.agents() {
            self.forget_agent(file.port, number);
        }
    }

    /// Returns the port of an open file.
    pub(crate) fn port_of(&self, object: u32) -> Option<Port> {
        self.files.get(&object).map(|file| file.port).or_else(|| self.managers.get(&object).copied())
    }

    /// Returns the readiness bits at `now`.
    pub(crate) fn readiness(&self, object: u32, now: SimTime) -> u32 {
        match self.files.get(&object) {
            Some(file) if file.is_readable(now) => READABLE | WRITABLE,
            Some(_) => WRITABLE,
            // A device without a poll function is always ready.
            None if self.managers.contains_key(&object) => READABLE | WRITABLE,
            None => ERROR | HANG_UP,
        }
    }

    /// Sends the MAD of a record that a program writes.
    ///
    /// # Errors
    /// `EINVAL` for a record without sense, `EIO` without its agent, `ENOMEM` with too many MADs
    /// under way.
    pub(crate) fn send(&mut self, object: u32, record: &[u8], facts: PortFacts<'_>, now: SimTime) -> Result<(), i32> {
        let file = self.files.get(&object).ok_or(libc::EBADF)?;
        let port = file.port;
        let (header, mad) = Header::split(record, file.has_pkey_index()).ok_or(libc::EINVAL)?;
        let fields = Fields::new(mad).ok_or(libc::EINVAL)?;
        let class = fields.class();
        if !MadFile::has_place(header.agent()) {
            return Err(libc::EINVAL);
        }
        let number = file.agent(header.agent()).ok_or(libc::EIO)?;
        let registration = self.agents.get(&port).and_then(|agents| agents.get(number)).ok_or(libc::EIO)?.registration;
        let is_of_wrong_class = registration.rmpp_version != 0 && !may_have_segments(class);
        let is_message = registration.joins_segments() && is_segment(fields);
        let is_too_long = mad.len() > if is_message { MESSAGE_BYTES_MAX } else { MAD_BYTES };
        if is_too_long || mad.len() < class_header_bytes(class) || is_of_wrong_class {
            return Err(libc::EINVAL);
        }
        let mut mad = mad.to_vec();
        mad.resize(mad.len().max(if is_message { 0 } else { MAD_BYTES }), 0);
        if !fields.is_response() {
            set_agent(&mut mad, number);
        }
        let mut first = Box::new([0; MAD_BYTES]);
        let shown = mad.len().min(MAD_BYTES);
        first[..shown].copy_from_slice(&mad[..shown]);
        let packet = packet_of(&header, registration.source(), first, facts)?;
        let transaction = Transaction::of_sent(port, number, Fields::of(&packet.mad), packet.dlid);
        let mut message = is_message.then(|| Message::new(mad, class_header_bytes(class)));
        let leaving = message.as_mut().map_or_else(|| vec![(*packet).clone()], |message| packets(&packet, message.next()));
        let timeout = SimDuration::from_micros(u64::from(header.timeout_millis()) * 1_000);
        if timeout != SimDuration::ZERO || is_message {
            let is_own_segment = registration.has_own_rmpp && is_segment(Fields::of(&packet.mad));
            let request = Request { header, packet, timeout, retries: header.retries(), retries_left: header.retries(), message };
            if is_own_segment { self.requests.replace(transaction, request, now)? } else { self.requests.add(transaction, request, now)? }
        }
        self.leave(port, leaving);
        Ok(())
    }

    /// Handles a MAD that has arrived at a port. Returns the file that becomes readable.
    pub(crate) fn arrive(&mut self, port: Port, packet: &ManagementPacket, facts: PortFacts<'_>, times: Times) -> Option<u32> {
        let mad = Fields::of(&packet.mad);
        let agents = self.agents.get(&port);
        let Some(number) = agents.and_then(|agents| agents.receiver(mad)) else {
            self.refuse(port, packet, facts);
            return None;
        };
        let registration = agents?.get(number)?.registration;
        if registration.joins_segments()
            && is_segment(mad)
            && let Some(segment) = Segment::of(&packet.mad)
        {
            return self.arrive_segment((port, number), packet, segment, facts, times);
        }
        self.deliver((port, number), packet, &packet.mad[..], facts, times.visible)
    }

    /// Queues a whole message for its agent. Its first MAD came in `packet`. Returns the file that
    /// becomes readable.
    fn deliver(&mut self, (port, number): (Port, u32), packet: &ManagementPacket, message: &[u8], facts: PortFacts<'_>, at: SimTime) -> Option<u32> {
        let mad = Fields::of(&packet.mad);
        let agent = *self.agents.get(&port)?.get(number)?;
        if mad.is_response() {
            let transaction = Transaction::of_received(port, number, mad, packet.slid);
            let is_awaited = self.requests.remove(&transaction).is_some();
            // The kernel drops a response that nobody awaits. A program with its own RMPP judges
            // further segments itself.
            if !(is_awaited || agent.registration.has_own_rmpp && is_segment(mad)) {
                return None;
            }
        }
        let index = facts.pkeys.iter().position(|key| *key == packet.pkey).unwrap_or(0);
        let header = Header::of_received(packet.slid, packet.source, packet.service_level, index as u16);
        self.queue(agent.file, (agent.id, 0), &header, message, at)
    }

    /// Adds a record to a file. Returns the file, unless its queue or that of its
    /// port is full.
    fn queue(&mut self, object: u32, (id, status): (u32, i32), header: &Header, mad: &[u8], at: SimTime) -> Option<u32> {
        let port = self.files.get(&object)?.port;
        let waiting: usize = self.files.values().filter(|file| file.port == port).map(MadFile::received_bytes).sum();
        if waiting > WAITING_BYTES_MAX {
            return None;
        }
        let file = self.files.get_mut(&object)?;
        let record = header.record((id, status), mad, file.has_pkey_index());
        let first = record.len().min(header_bytes(file.has_pkey_index()) + MAD_BYTES);
        file.queue(Received { at, record, first }).then_some(object)
    }

    /// Sends packets from a port.
    fn leave(&mut self, port: Port, packets: Vec<ManagementPacket>) {
        self.outgoing.extend(packets.into_iter().map(|packet| (port, Box::new(packet))));
    }

    /// Answers a request that no agent takes.
    fn refuse(&mut self, port: Port, packet: &ManagementPacket, facts: PortFacts<'_>) {
        if let Some(mad) = refusal(&packet.mad) {
            self.outgoing.push((port, answer_to(packet, facts.lid, mad)));
        }
    }

    /// Handles the deadlines up to `now`. A report of a timeout is visible from the time on that
    /// `visible` returns for its HCA. Returns these times, each with a file that becomes readable.
    pub(crate) fn expire(&mut self, now: SimTime, visible: impl Fn(HcaId) -> SimTime) -> Vec<(SimTime, u32)> {
        let mut changed = Vec::new();
        self.scheduled = self.scheduled.filter(|at| *at > now);
        while let Some(expired) = self.requests.expire(now) {
            match expired {
                Expired::Repeated(port, packets) => self.leave(port, packets),
                Expired::Ended(Transaction { port, agent, .. }, request) => {
                    let Some(of) = self.agents.get(&port).and_then(|agents| agents.get(agent)).copied() else { continue };
                    let start = &request.packet.mad[..HEADER_BYTES];
                    let at = visible(port.0);
                    changed.extend(self.queue(of.file, (of.id, libc::ETIMEDOUT), &request.header, start, at).map(|file| (at, file)));
                }
            }
        }
        self.outgoing.extend(self.receptions.expire(now));
        changed
    }

    /// Takes the next record of a file into a room of `room` bytes.
    ///
    /// # Errors
    /// `EAGAIN` without a record, `EINVAL` without room for its first segment.
    pub(crate) fn receive(&mut self, object: u32, room: usize, now: SimTime) -> Result<Taken, i32> {
        self.file(object)?.take(room, now)
    }

    /// Returns the record that the socket of a file may carry next, in wall pace. `None` if a byte
    /// announces it.
    pub(crate) fn short_record(&self, object: u32) -> Option<&[u8]> {
        self.files.get(&object)?.short_record()
    }

    /// Notes that the socket of a file has taken the next record or its announcement.
    pub(crate) fn note_told(&mut self, object: u32) {
        if let Some(file) = self.files.get_mut(&object) {
            file.note_told();
        }
    }

    /// Notes that a reader has taken the announcement of a record, and left the record.
    pub(crate) fn note_left(&mut self, object: u32) {
        if let Some(file) = self.files.get_mut(&object) {
            file.note_left();
        }
    }

    /// Counts a posted record. Returns false if the port has too many: the MAD is lost. A MAD that
    /// awaits an answer has another limit.
    pub(crate) fn takes_post(&mut self, object: u32, record: &[u8]) -> bool {
        let Some(file) = self.files.get(&object) else { return true };
        if Header::split(record, file.has_pkey_index()).is_some_and(|(header, _)| header.timeout_millis() != 0) {
            return true;
        }
        let posts = self.posts.entry(file.port).or_default();
        *posts = posts.saturating_add(1);
        *posts <= POSTS_MAX
    }

    /// Notes that all posted MADs have entered the fabric.
    pub(crate) fn note_posts_carried_out(&mut self) {
        self.posts.clear();
    }

    /// Queues a written record that could not leave for its writer, as a request without an answer.
    /// Programs know this status alone: libibmad takes `ENOMEM` for a success. Returns the file that
    /// becomes readable.
    pub(crate) fn send_back(&mut self, object: u32, record: &[u8], at: SimTime) -> Option<u32> {
        let (header, mad) = Header::split(record, self.files.get(&object)?.has_pkey_index())?;
        self.queue(object, (header.agent(), libc::ETIMEDOUT), &header, mad.get(..HEADER_BYTES)?, at)
    }

    /// Takes the packets that the last operations have sent.
    pub(crate) fn take_outgoing(&mut self) -> Vec<(Port, Box<ManagementPacket>)> {
        std::mem::take(&mut self.outgoing)
    }

    pub(crate) fn next_deadline(&self) -> Option<SimTime> {
        self.requests.next_deadline().into_iter().chain(self.receptions.next_deadline()).min()
    }

    /// Returns the next deadline if it is earlier than those returned before, up to now.
    pub(crate) fn take_due(&mut self) -> Option<SimTime> {
        let next = self.next_deadline().filter(|next| self.scheduled.is_none_or(|scheduled| *next < scheduled))?;
        self.scheduled = Some(next);
        Some(next)
    }
}

/// Returns the packet that answers `packet` from a port with this LID.
fn answer_to(packet: &ManagementPacket, lid: Lid, mad: Box<[u8; MAD_BYTES]>) -> Box<ManagementPacket> {
    let slid = if packet.slid == Lid::PERMISSIVE { Lid::PERMISSIVE } else { lid };
    Box::new(ManagementPacket { slid, dlid: packet.slid, source: packet.destination, destination: packet.source, mad, ..packet.clone() })
}

/// Returns the packet of a MAD with the addresses of its header.
///
/// # Errors
/// `EINVAL` if the port has no such P_Key.
fn packet_of(header: &Header, source: Qpn, mad: Box<[u8; MAD_BYTES]>, facts: PortFacts<'_>) -> Result<Box<ManagementPacket>, i32> {
    let fields = Fields::of(&mad);
    // IBTA 14.2.2.1: a directed route that begins at the sender has the permissive source.
    let is_directed = fields.class() == SUBNET_DIRECTED_ROUTE && fields.directed_source() == Lid::PERMISSIVE.0;
    let slid = if is_directed { Lid::PERMISSIVE } else { facts.lid };
    // Packets to QP 0 have no partition (IBTA 10.9.8).
    let pkey = if header.destination() == Qpn(0) { Some(PKey::DEFAULT_FULL) } else { header.pkey(facts.pkeys) };
    let packet = ManagementPacket {
        slid,
        dlid: header.lid(),
        service_level: header.service_level(),
        source,
        destination: header.destination(),
        qkey: header.qkey(),
        pkey: pkey.ok_or(libc::EINVAL)?,
        mad,
    };
    Ok(Box::new(packet))
}
