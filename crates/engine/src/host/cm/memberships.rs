//! Memberships of ports in multicast groups: their joins and leaves at subnet administration (IBTA
//! 15.2.5.17), as the kernel's `ib_sa` has them. Identifiers of a port that want the same group share
//! its membership. Pure.

use super::path::{GENERAL_QKEY, LocalPort, Port};
use softband_model::management::ManagementPacket;
use softband_sim::{SimDuration, SimTime};
use softband_types::{Gid, Qpn, ServiceLevel};
use softband_wire::mad::{
    AttributeId, ComponentMask, Header, JoinState, Layout, MAD_BYTES, ManagementClass, McMemberRecord, Method, SA_DATA_BYTES, SaMad, Status,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Wait for an answer, repetitions of a request, and repetitions of a leave that failed, as the kernel
/// has them (`send_mad` in `sa_query.c`, `acquire_group` in `multicast.c`).
const TIMEOUT: SimDuration = SimDuration::from_micros(300_000);
const RETRIES: u8 = 10;
const LEAVES: u8 = 3;
/// First of the numbers that no program's agent has, downwards: the upper half of transaction ids.
const AGENT: u32 = u32::MAX;
const CLASS_VERSION: u8 = 2;
/// Components of a leave (`send_leave` of the kernel).
const LEAVE: ComponentMask =
    ComponentMask(ComponentMask::MC_MEMBER_MGID.0 | ComponentMask::MC_MEMBER_PORT_GID.0 | ComponentMask::MC_MEMBER_JOIN_STATE.0);

/// The wish of an identifier to be a member.
#[derive(Clone, Copy, Debug)]
pub(in crate::host) struct Wish {
    pub(in crate::host) record: McMemberRecord,
    /// Components of the record that the request names.
    pub(in crate::host) mask: ComponentMask,
}

/// The end of a join: the number of the wish, and the group or an error number.
pub(in crate::host) type Outcome = (u32, Result<McMemberRecord, i32>);

/// A request under way.
#[derive(Debug)]
struct Request {
    packet: Box<ManagementPacket>,
    transaction: u64,
    retries_left: u8,
    deadline: SimTime,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Number of the wish, and its kinds of membership.
    Join(u32, JoinState),
    Leave(JoinState),
}

/// The membership of a port in a group.
#[derive(Debug)]
struct Membership {
    port: LocalPort,
    /// GID of the group; 0 until subnet administration has chosen it.
    mgid: Gid,
    /// The group, while the port is a member.
    record: Option<McMemberRecord>,
    joined: u8,
    wishes: BTreeMap<u32, Wish>,
    /// Wishes that subnet administration has not fulfilled yet, the oldest first.
    waiting: VecDeque<u32>,
    request: Option<Request>,
    leaves_left: u8,
}

/// The memberships of all ports.
#[derive(Debug, Default)]
pub(in crate::host) struct Memberships {
    all: BTreeMap<u32, Membership>,
    of_group: BTreeMap<(Port, Gid), u32>,
    of_wish: BTreeMap<u32, u32>,
    of_transaction: BTreeMap<u64, u32>,
    deadlines: BTreeSet<(SimTime, u32)>,
    last: u32,
    last_transaction: u32,
    /// Distance of the number of its agent from [`AGENT`].
    agent: u32,
    outgoing: Vec<(Port, Box<ManagementPacket>)>,
    outcomes: Vec<Outcome>,
}

impl Memberships {
    /// Returns an empty table beside that of connection managers, with an agent of its own.
    pub(in crate::host) fn of_interfaces() -> Self {
        Self { agent: 1, ..Self::default() }
    }

    pub(in crate::host) fn take_outgoing(&mut self) -> Vec<(Port, Box<ManagementPacket>)> {
        std::mem::take(&mut self.outgoing)
    }

    pub(in crate::host) fn take_outcomes(&mut self) -> Vec<Outcome> {
        std::mem::take(&mut self.outcomes)
    }

    pub(in crate::host) fn next_deadline(&self) -> Option<SimTime> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Begins to fulfil a wish. Its number is new.
    pub(in crate::host) fn join(&mut self, number: u32, port: LocalPort, wish: Wish, now: SimTime) {
        let key = ((port.hca, port.port), wish.record.mgid);
        let known = self.of_group.get(&key).copied().filter(|_| wish.record.mgid != Gid::default());
        let index = known.unwrap_or_else(|| self.add(port, wish.record.mgid));
        self.of_wish.insert(number, index);
        if let Some(membership) = self.all.get_mut(&index) {
            membership.port = port;
            membership.wishes.insert(number, wish);
            membership.waiting.push_back(number);
        }
        self.advance(index, now);
    }

    fn add(&mut self, port: LocalPort, mgid: Gid) -> u32 {
        self.last = self.last.wrapping_add(1);
        let (wishes, waiting) = (BTreeMap::new(), VecDeque::new());
        let membership = Membership { port, mgid, record: None, joined: 0, wishes, waiting, request: None, leaves_left: LEAVES };
        self.all.insert(self.last, membership);
        // A group without a name is of one wish only.
        if mgid != Gid::default() {
            self.of_group.insert(((port.hca, port.port), mgid), self.last);
        }
        self.last
    }

    /// Gives up a wish. The port leaves the group if no other wish needs it.
    pub(super) fn leave(&mut self, number: u32, now: SimTime) {
        let Some(index) = self.of_wish.remove(&number) else { return };
        if let Some(membership) = self.all.get_mut(&index) {
            membership.wishes.remove(&number);
            membership.waiting.retain(|waiting| *waiting != number);
        }
        self.advance(index, now);
    }

    /// Handles the answer to a request. Returns whether it is one.
    pub(in crate::host) fn arrive(&mut self, port: Port, packet: &ManagementPacket, now: SimTime) -> bool {
        let header = Header::view(&packet.mad[..]);
        let Some(index) = self.of_transaction.get(&header.transaction_id()).copied().filter(|_| header.method().is_response()) else { return false };
        let is_answer = |membership: &Membership| {
            let request = membership.request.as_ref();
            (membership.port.hca, membership.port.port) == port && request.is_some_and(|request| request.packet.dlid == packet.slid)
        };
        if !self.all.get(&index).is_some_and(is_answer) {
            return false;
        }
        let is_good = header.status() == Status::SUCCESS && header.attribute_id() == AttributeId::MC_MEMBER_RECORD;
        let record = McMemberRecord::parse(&SaMad::view(&packet.mad[..]).data()).ok().filter(|_| is_good);
        self.finish(index, record.ok_or(libc::EINVAL), now);
        true
    }

    /// Ends all memberships of a port: its manager may not know them any more. Programs join again
    /// (`process_group_error` in `multicast.c` of the kernel). Joins under way go on.
    pub(in crate::host) fn lose(&mut self, port: Port, now: SimTime) {
        let of_port = |(_, membership): &(&u32, &mut Membership)| (membership.port.hca, membership.port.port) == port;
        let mut lost = Vec::new();
        for (index, membership) in self.all.iter_mut().filter(of_port).filter(|(_, membership)| membership.joined != 0) {
            (membership.joined, membership.record) = (0, None);
            let ended = membership.wishes.keys().copied().filter(|number| !membership.waiting.contains(number)).collect::<Vec<_>>();
            for number in &ended {
                membership.wishes.remove(number);
                self.of_wish.remove(number);
                self.outcomes.push((*number, Err(libc::ENETRESET)));
            }
            lost.push(*index);
        }
        lost.into_iter().for_each(|index| self.advance(index, now));
    }

    /// Repeats requests without an answer, and ends those without repetitions.
    pub(in crate::host) fn expire(&mut self, now: SimTime) {
        while let Some((at, index)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, index));
            let Some(membership) = self.all.get_mut(&index) else { continue };
            let port = (membership.port.hca, membership.port.port);
            match membership.request.as_mut() {
                Some(request) if request.retries_left > 0 => {
                    request.retries_left -= 1;
                    request.deadline = now + TIMEOUT;
                    self.deadlines.insert((request.deadline, index));
                    self.outgoing.push((port, request.packet.clone()));
                }
                _ => self.finish(index, Err(libc::ETIMEDOUT), now),
            }
        }
    }

    /// Ends the request of a membership, with the record of the answer or an error number.
    fn finish(&mut self, index: u32, answer: Result<McMemberRecord, i32>, now: SimTime) {
        let Some(membership) = self.all.get_mut(&index) else { return };
        let Some(request) = membership.request.take() else { return };
        self.deadlines.remove(&(request.deadline, index));
        self.of_transaction.remove(&request.transaction);
        match (request.kind, answer) {
            (Kind::Join(_, state), Ok(record)) => {
                membership.joined |= state.0;
                membership.record = Some(record);
                if membership.mgid != record.mgid {
                    membership.mgid = record.mgid;
                    self.of_group.entry(((membership.port.hca, membership.port.port), record.mgid)).or_insert(index);
                }
            }
            (Kind::Join(number, _), Err(errno)) => {
                if membership.waiting.front() == Some(&number) {
                    membership.waiting.pop_front();
                    membership.wishes.remove(&number);
                    self.of_wish.remove(&number);
                    self.outcomes.push((number, Err(errno)));
                }
            }
            (Kind::Leave(_), Err(_)) if membership.leaves_left > 0 => membership.leaves_left -= 1,
            (Kind::Leave(state), _) => {
                membership.joined &= !state.0;
                membership.leaves_left = LEAVES;
            }
        }
        if membership.joined == 0 {
            membership.record = None;
        }
        self.advance(index, now);
    }

    /// Fulfils wishes and sends the next request, one at a time.
    fn advance(&mut self, index: u32, now: SimTime) {
        while let Some(membership) = self.all.get_mut(&index).filter(|membership| membership.request.is_none()) {
            if let Some(number) = membership.waiting.front().copied() {
                let Some(wish) = membership.wishes.get(&number).copied() else { return };
                let state = wish.record.join_state;
                match membership.record.filter(|_| membership.joined & state.0 == state.0) {
                    Some(record) => {
                        membership.waiting.pop_front();
                        self.settle(index, number, wish, record);
                        continue;
                    }
                    None => return self.request(index, Kind::Join(number, state), wish, now),
                }
            }
            let needed = membership.wishes.values().fold(0, |bits, wish| bits | wish.record.join_state.0);
            let surplus = JoinState(membership.joined & !needed);
            if surplus != JoinState(0) {
                let record = McMemberRecord { mgid: membership.mgid, port_gid: membership.port.gid, join_state: surplus, ..Default::default() };
                return self.request(index, Kind::Leave(surplus), Wish { record, mask: LEAVE }, now);
            }
            if membership.wishes.is_empty() {
                self.remove(index);
            }
            return;
        }
    }

    /// Ends a join of a port that is a member: the wish must agree with the group (`cmp_rec` of the
    /// kernel).
    fn settle(&mut self, index: u32, number: u32, wish: Wish, record: McMemberRecord) {
        let names_key = wish.mask.0 & ComponentMask::MC_MEMBER_Q_KEY.0 != 0;
        let agrees = (!names_key || wish.record.q_key == record.q_key) && wish.record.p_key.partition() == record.p_key.partition();
        if !agrees {
            self.of_wish.remove(&number);
            self.all.get_mut(&index).map(|membership| membership.wishes.remove(&number));
        }
        self.outcomes.push((number, if agrees { Ok(record) } else { Err(libc::EINVAL) }));
    }

    fn remove(&mut self, index: u32) {
        let Some(membership) = self.all.remove(&index) else { return };
        let key = ((membership.port.hca, membership.port.port), membership.mgid);
        if self.of_group.get(&key) == Some(&index) {
            self.of_group.remove(&key);
        }
    }

    fn request(&mut self, index: u32, kind: Kind, wish: Wish, now: SimTime) {
        let Some(membership) = self.all.get_mut(&index) else { return };
        self.last_transaction = self.last_transaction.wrapping_add(1);
        let transaction = u64::from(AGENT - self.agent) << 32 | u64::from(self.last_transaction);
        let method = if matches!(kind, Kind::Join(..)) { Method::SET } else { Method::DELETE };
        let packet = request_packet(&membership.port, (AttributeId::MC_MEMBER_RECORD, method), transaction, (wish.mask, &wish.record));
        let deadline = now + TIMEOUT;
        self.outgoing.push(((membership.port.hca, membership.port.port), packet.clone()));
        membership.request = Some(Request { packet, transaction, retries_left: RETRIES, deadline, kind });
        self.of_transaction.insert(transaction, index);
        self.deadlines.insert((deadline, index));
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let maps = self.all.is_empty() && self.of_group.is_empty() && self.of_wish.is_empty() && self.of_transaction.is_empty();
        maps && self.deadlines.is_empty()
    }
}

/// Returns the packet of a request to subnet administration.
pub(in crate::host) fn request_packet<Record: Layout>(
    port: &LocalPort,
    (attribute, method): (AttributeId, Method),
    transaction: u64,
    (mask, record): (ComponentMask, &Record),
) -> Box<ManagementPacket> {
    let header = Header {
        base_version: Header::BASE_VERSION,
        mgmt_class: ManagementClass::SUBNET_ADMINISTRATION,
        class_version: CLASS_VERSION,
        method,
        transaction_id: transaction,
        attribute_id: attribute,
        ..Header::default()
    };
    let mut data = [0; SA_DATA_BYTES];
    record.emit(&mut data);
    let mut mad = Box::new([0; MAD_BYTES]);
    SaMad { header, component_mask: mask, data, ..SaMad::default() }.emit(&mut mad[..]);
    Box::new(ManagementPacket {
        slid: port.lid,
        dlid: port.sm_lid,
        service_level: ServiceLevel(0),
        source: Qpn(1),
        destination: Qpn(1),
        qkey: GENERAL_QKEY,
        pkey: port.pkey,
        mad,
    })
}
