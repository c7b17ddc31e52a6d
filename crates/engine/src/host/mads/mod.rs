//! Management datagrams (MADs) of programs, as the kernel's MAD layer and its devices `umadN` and
//! `issmN` have them. Pure: the caller passes the time, and takes the packets.

mod agents;
mod fields;
mod file;
mod record;
mod requests;
#[cfg(test)]
mod tests;

pub(crate) use agents::Registration;
use agents::{Agent, Agents};
use fields::{Fields, HEADER_BYTES, SUBNET_DIRECTED_ROUTE, class_header_bytes, is_segment, may_have_segments, refusal, set_agent};
pub(crate) use file::Taken;
use file::{MadFile, Received};
use record::{Header, header_bytes};
use requests::{Expired, Request, Requests, Transaction};
use softband_ipc::calls::readiness::{ERROR, HANG_UP, READABLE, WRITABLE};
use softband_model::management::{MAD_BYTES, ManagementPacket};
use softband_sim::{SimDuration, SimTime};
use softband_types::{HcaId, Lid, PKey, PortNumber, Qpn};
use std::collections::BTreeMap;

/// Most bytes that a program writes or reads at once.
pub(crate) const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Most open files of a port.
const FILES_MAX: usize = 256;

pub(crate) type Port = (HcaId, PortNumber);

/// The facts about a port that its MADs need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortFacts<'a> {
    pub(crate) lid: Lid,
    pub(crate) pkeys: &'a [PKey],
}

/// All open files of MAD devices, their agents, and the MADs that await answers.
#[derive(Debug, Default)]
pub(crate) struct MadTable {
    files: BTreeMap<u32, MadFile>,
    /// Files that mark their port as one with a subnet manager.
    managers: BTreeMap<u32, Port>,
    agents: BTreeMap<Port, Agents>,
    requests: Requests,
    outgoing: Vec<(Port, Box<ManagementPacket>)>,
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
    #[cfg_attr(not(test), expect(dead_code, reason = "the World does not keep port capabilities yet"))]
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
        let class = Fields::new(mad).ok_or(libc::EINVAL)?.class();
        if !MadFile::has_place(header.agent()) {
            return Err(libc::EINVAL);
        }
        let number = file.agent(header.agent()).ok_or(libc::EIO)?;
        let registration = self.agents.get(&port).and_then(|agents| agents.get(number)).ok_or(libc::EIO)?.registration;
        let is_of_wrong_class = registration.rmpp_version != 0 && !may_have_segments(class);
        if mad.len() > MAD_BYTES || mad.len() < class_header_bytes(class) || is_of_wrong_class {
            return Err(libc::EINVAL);
        }
        let mut whole = Box::new([0; MAD_BYTES]);
        whole[..mad.len()].copy_from_slice(mad);
        if !Fields::of(&whole).is_response() {
            set_agent(&mut whole[..], number);
        }
        let packet = packet_of(&header, registration.source(), whole, facts)?;
        if header.timeout_millis() != 0 {
            let transaction = Transaction::of_sent(port, number, Fields::of(&packet.mad), packet.dlid);
            let timeout = SimDuration::from_micros(u64::from(header.timeout_millis()) * 1_000);
            let request = Request { header, packet: packet.clone(), timeout, retries_left: header.retries() };
            self.requests.add(transaction, request, now)?;
        }
        self.outgoing.push((port, packet));
        Ok(())
    }

    /// Handles a MAD that has arrived at a port. The reader sees it from `visible` on. Returns the
    /// file that becomes readable.
    pub(crate) fn arrive(&mut self, port: Port, packet: &ManagementPacket, facts: PortFacts<'_>, visible: SimTime) -> Option<u32> {
        let mad = Fields::of(&packet.mad);
        let agents = self.agents.get(&port);
        let Some(number) = agents.and_then(|agents| agents.receiver(mad)) else {
            self.refuse(port, packet, facts);
            return None;
        };
        let agent = *agents?.get(number)?;
        if mad.is_response() {
            let is_awaited = self.requests.remove(&Transaction::of_response(port, number, mad)).is_some();
            // The kernel drops a response that nobody awaits. A program with its own RMPP judges
            // further segments itself.
            if !(is_awaited || agent.registration.has_own_rmpp && is_segment(mad)) {
                return None;
            }
        }
        let index = facts.pkeys.iter().position(|key| *key == packet.pkey).unwrap_or(0);
        let header = Header::of_received(packet.slid, packet.source, packet.service_level, index as u16);
        self.queue(agent.file, (agent.id, 0), &header, &packet.mad[..], visible)
    }

    /// Adds a record to a file. Returns the file, unless its queue is full.
    fn queue(&mut self, object: u32, (id, status): (u32, i32), header: &Header, mad: &[u8], at: SimTime) -> Option<u32> {
        let file = self.files.get_mut(&object)?;
        let record = header.record((id, status), mad, file.has_pkey_index());
        let first = record.len().min(header_bytes(file.has_pkey_index()) + MAD_BYTES);
        file.queue(Received { at, record, first }).then_some(object)
    }

    /// Answers a request that no agent takes.
    fn refuse(&mut self, port: Port, packet: &ManagementPacket, facts: PortFacts<'_>) {
        let Some(mad) = refusal(&packet.mad) else { return };
        let slid = if packet.slid == Lid::PERMISSIVE { Lid::PERMISSIVE } else { facts.lid };
        let answer = ManagementPacket { slid, dlid: packet.slid, source: packet.destination, destination: packet.source, mad, ..packet.clone() };
        self.outgoing.push((port, Box::new(answer)));
    }

    /// Handles the deadlines up to `now`. A report of a timeout is visible from the time on that
    /// `visible` returns for its HCA. Returns these times, each with a file that becomes readable.
    pub(crate) fn expire(&mut self, now: SimTime, visible: impl Fn(HcaId) -> SimTime) -> Vec<(SimTime, u32)> {
        let mut changed = Vec::new();
        self.scheduled = self.scheduled.filter(|at| *at > now);
        while let Some(expired) = self.requests.expire(now) {
            match expired {
                Expired::Repeated(port, packet) => self.outgoing.push((port, packet)),
                Expired::Ended(Transaction { port, agent, .. }, request) => {
                    let Some(of) = self.agents.get(&port).and_then(|agents| agents.get(agent)).copied() else { continue };
                    let start = &request.packet.mad[..HEADER_BYTES];
                    let at = visible(port.0);
                    changed.extend(self.queue(of.file, (of.id, libc::ETIMEDOUT), &request.header, start, at).map(|file| (at, file)));
                }
            }
        }
        changed
    }

    /// Takes the next record of a file into a room of `room` bytes.
    ///
    /// # Errors
    /// `EAGAIN` without a record, `EINVAL` without room for its first segment.
    pub(crate) fn receive(&mut self, object: u32, room: usize, now: SimTime) -> Result<Taken, i32> {
        self.file(object)?.take(room, now)
    }

    /// Takes the packets that the last operations have sent.
    pub(crate) fn take_outgoing(&mut self) -> Vec<(Port, Box<ManagementPacket>)> {
        std::mem::take(&mut self.outgoing)
    }

    pub(crate) fn next_deadline(&self) -> Option<SimTime> {
        self.requests.next_deadline()
    }

    /// Returns the next deadline if it is earlier than those returned before, up to now.
    pub(crate) fn take_due(&mut self) -> Option<SimTime> {
        let next = self.next_deadline().filter(|next| self.scheduled.is_none_or(|scheduled| *next < scheduled))?;
        self.scheduled = Some(next);
        Some(next)
    }
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
    let packet = ManagementPacket {
        slid,
        dlid: header.lid(),
        service_level: header.service_level(),
        source,
        destination: header.destination(),
        qkey: header.qkey(),
        pkey: header.pkey(facts.pkeys).ok_or(libc::EINVAL)?,
        mad,
    };
    Ok(Box::new(packet))
}
