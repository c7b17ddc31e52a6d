//! The connection manager of hosts: channels of programs (`/dev/infiniband/rdma_cm`), their
//! identifiers, and the handshakes between them (IBTA chapter 12), as the kernel has them. Pure: the
//! caller passes the time and the subnet, and takes packets and deadlines.

mod address;
mod arrive;
mod attributes;
mod commands;
mod connect;
mod datagram;
mod events;
mod expire;
mod fields;
mod groups;
mod identifier;
mod ids;
mod link;
pub(in crate::host) mod memberships;
pub(in crate::host) mod path;
mod ports;
mod queries;
mod resolve;
mod seek;
#[cfg(test)]
mod tests;

use address::Address;
pub(crate) use commands::Command;
use events::{Event, Kind, Parameters};
use fields::Structure;
use identifier::{Id, Stage};
use ids::Ids;
use link::{Link, Pending};
pub(crate) use path::{LocalPort, Path, Port, Subnet};
use ports::Ports;
use softband_ipc::calls::readiness::{ERROR, HANG_UP, READABLE};
use softband_model::management::ManagementPacket;
use softband_sim::{SimDuration, SimTime};
use softband_types::Psn;
use softband_wire::mad::{AttributeId, Layout};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Factor that spreads the PSNs of successive identifiers (2^32 divided by the golden ratio).
const PSN_STEP: u32 = 0x9E37_79B1;

/// An open channel.
#[derive(Debug)]
struct Channel {
    host: usize,
    /// Time that an event takes to its program.
    wakeup: SimDuration,
    events: VecDeque<Event>,
}

/// All channels and identifiers of a fabric.
#[derive(Debug, Default)]
pub(crate) struct CmTable {
    channels: BTreeMap<u32, Channel>,
    ids: Ids,
    ports: Ports,
    groups: groups::Groups,
    seekers: seek::Seekers,
    /// Identifiers by the communication ID of their handshake.
    by_comm_id: BTreeMap<u32, u32>,
    last_comm_id: u32,
    last_psn: u32,
    deadlines: BTreeSet<(SimTime, u32)>,
    outgoing: Vec<(Port, Box<ManagementPacket>)>,
    changed: Vec<(SimTime, u32)>,
    /// The next deadline for which the caller has an event.
    scheduled: Option<SimTime>,
    /// Unread events that the last command has taken away from their channel.
    withdrawn: u32,
}

impl CmTable {
    /// Opens a channel of a program on `host`. Each of its events takes `wakeup` to the program.
    pub(crate) fn open(&mut self, object: u32, host: usize, wakeup: SimDuration) {
        self.channels.insert(object, Channel { host, wakeup, events: VecDeque::new() });
    }

    /// Destroys a channel with its identifiers. Their peers get a message.
    pub(crate) fn close(&mut self, object: u32, now: SimTime) {
        // Nobody reads the events any more.
        self.channels.remove(&object);
        for number in self.ids.of_channel(object) {
            self.destroy(number, now);
        }
    }

    /// Returns the readiness bits of a channel at `now`.
    pub(crate) fn readiness(&self, object: u32, now: SimTime) -> u32 {
        let Some(channel) = self.channels.get(&object) else { return ERROR | HANG_UP };
        if channel.events.front().is_some_and(|event| event.at <= now) { READABLE } else { 0 }
    }

    /// Takes the packets that the last operations have sent.
    pub(crate) fn take_outgoing(&mut self) -> Vec<(Port, Box<ManagementPacket>)> {
        std::mem::take(&mut self.outgoing)
    }

    pub(crate) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Takes the channels with new events, each with the time from which its program sees them.
    pub(crate) fn take_changed(&mut self) -> Vec<(SimTime, u32)> {
        std::mem::take(&mut self.changed)
    }

    /// Returns the number of unread events that the last command has taken away from their channel.
    pub(crate) fn withdrawn(&self) -> u32 {
        self.withdrawn
    }

    /// Returns the number of unread events of a channel.
    pub(crate) fn unread(&self, object: u32) -> usize {
        self.channels.get(&object).map_or(0, |channel| channel.events.len())
    }

    /// Returns the time of the first unread event of a channel that ends a connection.
    pub(crate) fn ended_at(&self, object: u32) -> Option<SimTime> {
        let events = &self.channels.get(&object)?.events;
        events.iter().filter(|event| event.kind == Kind::Disconnected).map(|event| event.at).min()
    }

    pub(crate) fn next_deadline(&self) -> Option<SimTime> {
        let of_ids = self.deadlines.first().map(|(at, _)| *at);
        [of_ids, self.seekers.next_deadline(), self.groups.next_deadline()].into_iter().flatten().min()
    }

    /// Returns the next deadline if it is earlier than those returned before, up to now.
    pub(crate) fn take_due(&mut self) -> Option<SimTime> {
        let next = self.next_deadline().filter(|next| self.scheduled.is_none_or(|scheduled| *next < scheduled))?;
        self.scheduled = Some(next);
        Some(next)
    }

    /// Carries out a command of a channel. Returns the reply, at most `room` bytes.
    ///
    /// # Errors
    /// As in the kernel: `ENOENT` for an unknown identifier, `EINVAL` for that of another channel, or
    /// in a state that the command does not fit.
    pub(crate) fn command(&mut self, channel: u32, command: &Command, room: usize, subnet: &dyn Subnet, now: SimTime) -> Result<Vec<u8>, i32> {
        self.withdrawn = 0;
        match *command {
            Command::Create { uid, space, qp_type } => self.create(channel, (uid, space, qp_type)).map(number),
            Command::Destroy { id } => {
                self.own(channel, id)?;
                Ok(number(self.destroy(id, now)))
            }
            Command::GetEvent => Ok(self.next_event(channel, now)?.cut(room)),
            Command::Migrate { id, from } => self.migrate(id, (from, channel), now).map(number),
            Command::Join { id, uid, to, send_only } => {
                self.own(channel, id)?;
                self.join(id, uid, (to, send_only), subnet, now).map(number)
            }
            Command::Leave { multicast } => self.leave(channel, multicast, now).map(number),
            Command::QueryRoute { id } => Ok(self.own(channel, id)?.route().cut(room)),
            Command::Query { id, option } => self.own(channel, id)?.query(option, room),
            Command::InitQpAttributes { id, state } => Ok(self.own(channel, id)?.qp_attributes(state)?.cut(room)),
            ref command => self.act(channel, command, subnet, now).map(|()| Vec::new()),
        }
    }

    /// Carries out a command without a reply.
    fn act(&mut self, channel: u32, command: &Command, subnet: &dyn Subnet, now: SimTime) -> Result<(), i32> {
        match *command {
            Command::Bind { id, to } => {
                self.own(channel, id)?;
                self.bind(id, to, subnet)
            }
            Command::ResolveAddress { id, source, destination, millis } => {
                self.own(channel, id)?;
                self.resolve_address(id, (source, destination), millis, subnet, now)
            }
            Command::ResolveRoute { id } => {
                self.own(channel, id)?;
                self.resolve_route(id, subnet, now)
            }
            Command::Listen { id, backlog } => {
                self.own(channel, id)?;
                self.listen(id, backlog, subnet)?;
                let host = self.own(channel, id)?.host;
                self.serve_seekers(host, subnet, now);
                Ok(())
            }
            Command::Connect { id, ref parameters } => {
                self.own(channel, id)?;
                self.connect(id, parameters, now)
            }
            Command::Accept { id, uid, ref parameters } => {
                self.own(channel, id)?;
                self.accept(id, parameters.as_ref(), now)?;
                if parameters.is_some() {
                    self.own(channel, id)?.uid = uid;
                }
                Ok(())
            }
            Command::Reject { id, reason, ref private_data } => {
                self.own(channel, id)?;
                self.reject(id, reason, private_data, now)
            }
            Command::Disconnect { id } => {
                self.own(channel, id)?;
                self.disconnect(id, now)
            }
            Command::SetOption { id, level, name, ref value } => {
                self.own(channel, id)?;
                self.set_option(id, (level, name), value, now)
            }
            Command::Notify { id, event } => {
                self.own(channel, id)?;
                self.notify(id, event, now)
            }
            _ => Err(libc::EINVAL),
        }
    }

    fn own(&mut self, channel: u32, id: u32) -> Result<&mut Id, i32> {
        self.ids.get_mut(&id).ok_or(libc::ENOENT).and_then(|id| if id.channel == channel { Ok(id) } else { Err(libc::EINVAL) })
    }

    fn create(&mut self, channel: u32, (uid, space, qp_type): (u64, u16, u8)) -> Result<u32, i32> {
        let qp_type = identifier::qp_type_of(space, qp_type)?;
        self.add(channel, (uid, space, qp_type))
    }

    fn add(&mut self, channel: u32, (uid, space, qp_type): (u64, u16, u8)) -> Result<u32, i32> {
        let host = self.channels.get(&channel).ok_or(libc::EBADF)?.host;
        self.last_psn = self.last_psn.wrapping_add(PSN_STEP);
        let id = Id {
            channel,
            host,
            uid,
            space,
            port_space: space,
            qp_type,
            stage: Stage::Idle,
            source: Address::default(),
            destination: Address::default(),
            port: None,
            peer: None,
            known_peer: None,
            path: None,
            link: None,
            deadline: None,
            events_reported: 0,
            backlog: 0,
            psn: Psn::new(self.last_psn >> 8),
            qkey: 0,
            may_share_port: false,
            only_own_family: false,
            type_of_service: 0,
            ack_timeout: None,
            multicasts: BTreeSet::new(),
        };
        self.ids.add(id)
    }

    /// Destroys an identifier. Returns the number of events that its program has got.
    fn destroy(&mut self, number: u32, now: SimTime) -> u32 {
        self.set_deadline(number, None);
        self.leave_groups(number, now);
        let Some(mut id) = self.ids.remove(number) else { return 0 };
        self.ports.remove(id.port_key(), number);
        if let Some(link) = id.link.take() {
            self.by_comm_id.remove(&link.local_comm_id);
            self.say_farewell(&link);
        }
        let mut requests = Vec::new();
        if let Some(channel) = self.channels.get_mut(&id.channel) {
            let unread = |event: &Event| event.counted_by == number;
            requests.extend(channel.events.iter().filter(|event| unread(event) && event.kind == Kind::ConnectRequest).map(|event| event.id));
            let before = channel.events.len();
            channel.events.retain(|event| !unread(event));
            self.withdrawn += (before - channel.events.len()) as u32;
        }
        // Nobody knows the identifiers of unread requests.
        for request in requests {
            self.destroy(request, now);
        }
        id.events_reported
    }

    /// Takes the next event of a channel.
    ///
    /// # Errors
    /// `EAGAIN` without an event.
    fn next_event(&mut self, object: u32, now: SimTime) -> Result<Structure, i32> {
        let channel = self.channels.get_mut(&object).ok_or(libc::EBADF)?;
        if channel.events.front().is_none_or(|event| event.at > now) {
            return Err(libc::EAGAIN);
        }
        let event = channel.events.pop_front().ok_or(libc::EAGAIN)?;
        if let Some(id) = self.ids.get_mut(&event.counted_by) {
            id.events_reported += 1;
            id.backlog += u32::from(event.kind == Kind::ConnectRequest);
        }
        if let Some(multicast) = event.multicast {
            self.groups.count_event(multicast);
        }
        Ok(event.bytes())
    }

    /// Moves an identifier and its events to another channel of the same program.
    fn migrate(&mut self, id: u32, (from, to): (u32, u32), now: SimTime) -> Result<u32, i32> {
        let reported = self.own(from, id)?.events_reported;
        if from == to {
            return Ok(reported);
        }
        let old = self.channels.get_mut(&from).ok_or(libc::EINVAL)?;
        let (moved, kept) = std::mem::take(&mut old.events).into_iter().partition(|event| event.counted_by == id);
        old.events = kept;
        let moved: VecDeque<Event> = moved;
        let new = self.channels.get_mut(&to).ok_or(libc::EBADF)?;
        self.withdrawn = moved.len() as u32;
        for event in moved {
            if event.kind == Kind::ConnectRequest {
                self.ids.migrate(event.id, to);
            }
            self.changed.push((event.at.max(now), to));
            new.events.push_back(event);
        }
        new.events.make_contiguous().sort_by_key(|event| event.at);
        self.ids.migrate(id, to);
        Ok(reported)
    }

    /// Posts an event of an identifier. An identifier that its program does not know gets none.
    fn post(&mut self, number: u32, kind: Kind, status: i32, parameters: Parameters, now: SimTime) {
        let Some(id) = self.ids.get(&number).filter(|id| id.uid != 0) else { return };
        let (uid, is_datagram) = (id.uid, id.is_datagram());
        let event = Event { at: now, counted_by: number, multicast: None, uid, id: number, kind, status, is_datagram, parameters };
        self.queue(id.channel, event);
    }

    fn queue(&mut self, object: u32, mut event: Event) {
        let Some(channel) = self.channels.get_mut(&object) else { return };
        event.at += channel.wakeup;
        self.changed.push((event.at, object));
        channel.events.push_back(event);
    }

    fn set_deadline(&mut self, number: u32, deadline: Option<SimTime>) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        if let Some(former) = std::mem::replace(&mut id.deadline, deadline) {
            self.deadlines.remove(&(former, number));
        }
        if let Some(at) = deadline {
            self.deadlines.insert((at, number));
        }
    }

    fn link(&mut self, number: u32) -> Result<&mut Link, i32> {
        self.ids.get_mut(&number).and_then(|id| id.link.as_mut()).ok_or(libc::EINVAL)
    }

    /// Begins a handshake of an identifier.
    fn new_link(&mut self, number: u32, path: Path) -> Result<&mut Link, i32> {
        self.last_comm_id = self.last_comm_id.wrapping_add(1).max(1);
        while self.by_comm_id.contains_key(&self.last_comm_id) {
            self.last_comm_id = self.last_comm_id.wrapping_add(1).max(1);
        }
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        self.by_comm_id.insert(self.last_comm_id, number);
        Ok(id.link.insert(Link::new(self.last_comm_id, path, id.psn)))
    }

    /// Sends a message of an identifier. Nobody repeats it.
    fn send<Message: Layout>(&mut self, number: u32, attribute: AttributeId, message: &Message) {
        let Some(link) = self.ids.get_mut(&number).and_then(|id| id.link.as_mut()) else { return };
        let packet = path::packet(&link.path, attribute, link.transaction(), message);
        link.answer = Some(packet.clone());
        self.outgoing.push(packet);
    }

    /// Sends a message of an identifier again and again, up to its answer.
    fn send_until_answered<Message: Layout>(&mut self, number: u32, attribute: AttributeId, message: &Message, now: SimTime) {
        let Some(link) = self.ids.get_mut(&number).and_then(|id| id.link.as_mut()) else { return };
        let (port, packet) = path::packet(&link.path, attribute, link.transaction(), message);
        let timeout = link.response_timeout;
        link.pending = Some(Pending { port, packet: packet.clone(), timeout, retries_left: link.retries_max });
        self.outgoing.push((port, packet));
        self.set_deadline(number, Some(now + timeout));
    }

    /// Ends the repetition of a message.
    fn stop_repeating(&mut self, number: u32) {
        if let Ok(link) = self.link(number) {
            link.pending = None;
        }
        self.set_deadline(number, None);
    }

    /// Keeps the queue pair of an ended connection unused for a while.
    fn enter_time_wait(&mut self, number: u32, now: SimTime) {
        self.stop_repeating(number);
        let Ok(link) = self.link(number) else { return };
        link.state = link::State::TimeWait;
        let at = now + link.time_wait();
        self.set_deadline(number, Some(at));
    }
}

/// Returns a reply that consists of a number.
fn number(value: u32) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}
