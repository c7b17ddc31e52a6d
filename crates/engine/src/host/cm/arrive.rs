//! Messages of peers.

use super::CmTable;
use super::address::{self, Address, HEADER_BYTES};
use super::events::{Event, Kind, Parameters};
use super::identifier::{QP_RC, QP_UC, QP_XRC_RECEIVE, Stage};
use super::ids::Peer;
use super::link::{SERVICE_TIMEOUT, State, ack_timeout, millis_of_code};
use super::path::{self, LocalPort, Path, Port, Subnet};
use softband_model::management::ManagementPacket;
use softband_sim::SimTime;
use softband_types::{Gid, Guid};
use softband_wire::mad::{
    AttributeId, CmMad, CmMessage, CmServiceType, Drep, Dreq, Header, Layout, ManagementClass, Method, Mra, MtuCode, RateCode, Rej, RejectReason,
    Rep, Req, Rtu, SidrRep, SidrReq,
};

/// The addresses of a request, and the bytes that they take of its private data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) own: Address,
    pub(super) peer: Address,
    pub(super) header_bytes: usize,
}

/// Most code of a time in a message, of five bits.
const CODE_MAX: u8 = 30;

impl CmTable {
    /// Handles a MAD that has arrived at a port. Returns whether it is of communication management, or
    /// the answer to a request of an identifier.
    pub(crate) fn arrive(&mut self, port: Port, packet: &ManagementPacket, subnet: &dyn Subnet, now: SimTime) -> bool {
        match Header::view(&packet.mad[..]).mgmt_class() {
            ManagementClass::COMMUNICATION => {
                self.communicate(port, packet, subnet, now);
                true
            }
            ManagementClass::SUBNET_ADMINISTRATION => self.group_answered(port, packet, now),
            _ => false,
        }
    }

    /// Handles a message of communication management.
    pub(super) fn communicate(&mut self, port: Port, packet: &ManagementPacket, subnet: &dyn Subnet, now: SimTime) {
        let Ok(mad) = CmMad::parse(&packet.mad[..]) else { return };
        let header = mad.header;
        let Some(local) = subnet.local_port(port) else { return };
        // Answers, and the queue pair of a connection, are of the partition of the request.
        let local = path::in_partition(&local, packet.pkey, subnet).unwrap_or(local);
        if header.method != Method::SEND {
            return;
        }
        match header.attribute_id {
            AttributeId::CM_REQ => self.on_request(&local, packet, &parsed(&mad), subnet, now),
            AttributeId::CM_REP => self.on_reply(&local, &parsed(&mad), now),
            AttributeId::CM_RTU => self.on_ready(&local, &parsed(&mad), now),
            AttributeId::CM_REJ => self.on_rejection(&local, packet, &parsed(&mad), now),
            AttributeId::CM_MRA => self.on_wait(&local, &parsed(&mad), now),
            AttributeId::CM_DREQ => self.on_leave(&local, packet, &parsed(&mad), now),
            AttributeId::CM_DREP => self.on_left(&local, &parsed(&mad), now),
            AttributeId::CM_SIDR_REQ => self.on_service_request(&local, packet, &parsed::<SidrReq>(&mad), subnet, now),
            AttributeId::CM_SIDR_REP => self.on_service_reply(&local, &parsed::<SidrRep>(&mad), now),
            _ => {}
        }
    }

    /// Returns the identifier of a host with this communication ID.
    pub(super) fn of_comm_id(&self, local: &LocalPort, comm_id: u32) -> Option<u32> {
        self.by_comm_id.get(&comm_id).copied().filter(|number| self.ids.get(number).is_some_and(|id| id.host == local.host))
    }

    /// Returns the identifier of a host that talks to this peer.
    fn of_both(&self, local: &LocalPort, own: u32, peer: u32) -> Option<u32> {
        let is_peer = |number: &u32| self.ids.get(number).and_then(|id| id.link.as_ref()).is_some_and(|link| link.remote_comm_id == peer);
        self.of_comm_id(local, own).filter(is_peer)
    }

    /// Returns the identifier that a peer's request has made.
    fn of_peer(&self, local: &LocalPort, peer: u32, guid: Guid) -> Option<u32> {
        self.ids.with_peer(Peer::Connection(local.host, guid, peer)).next().map(|(number, _)| number)
    }

    /// Returns the listener of a service with these addresses.
    pub(super) fn listener(&self, local: &LocalPort, service_id: u64, is_v6: bool) -> Option<u32> {
        let (space, port) = ((service_id >> 16) as u16, service_id as u16);
        if service_id >> 32 != 0 {
            return None;
        }
        let accepts = |number: &u32| {
            let has_family = |id: &super::Id| id.source.is_ib() || id.source.is_v6() == is_v6 || id.source.is_v6() && !id.only_own_family;
            self.ids.get(number).is_some_and(|id| id.stage == Stage::Listen && has_family(id))
        };
        self.ports.users(local.host, space, port).find(accepts)
    }

    fn on_request(&mut self, local: &LocalPort, packet: &ManagementPacket, request: &Req, subnet: &dyn Subnet, now: SimTime) {
        if let Some(number) = self.of_peer(local, request.local_comm_id, request.local_ca_guid) {
            return self.on_repeated_request(number);
        }
        let way = path_back(local, packet);
        let refuse = |table: &mut Self, reason| {
            let rejection = Rej { remote_comm_id: request.local_comm_id, message_rejected: CmMessage::REQ, reason, ..Rej::default() };
            table.outgoing.push(path::packet(&way, AttributeId::CM_REJ, u64::from(request.local_comm_id) << 32, &rejection));
        };
        let service = (request.service_id, address::is_v6(&request.private_data));
        let Some(listener) = self.listener(local, service.0, service.1) else { return self.seek(local, packet, service, subnet, now) };
        let path = &request.primary_path;
        let ends = self.ends_of_request(listener, service.0, (path.local_gid, path.remote_gid), &request.private_data);
        let Some((qp_type, ends)) = qp_type_of(request).zip(ends) else { return refuse(self, RejectReason::CONSUMER_REJECT) };
        let Some((channel, space)) = self.ids.get_mut(&listener).filter(|id| id.backlog > 0).map(|id| (id.channel, id.space)) else {
            return; // the peer repeats its request
        };
        let Ok(number) = self.add(channel, (0, space, qp_type)) else { return };
        let path = Path {
            dlid: if local.is_ethernet() { packet.slid } else { path.local_lid },
            dgid: path.local_gid,
            service_level: path.sl,
            mtu: request.path_mtu,
            rate: path.packet_rate,
            packet_life_time: path.local_ack_timeout.saturating_sub(1).min(CODE_MAX),
            traffic_class: path.traffic_class,
            ..way
        };
        if let Some(id) = self.ids.get_mut(&number) {
            (id.stage, id.source, id.destination) = (Stage::Connect, ends.own, ends.peer);
            (id.port, id.path) = (Some(*local), Some(path));
        }
        if let Ok(link) = self.new_link(number, path) {
            link.state = State::ReqReceived;
            (link.remote_comm_id, link.remote_guid) = (request.local_comm_id, request.local_ca_guid);
            (link.remote_qpn, link.send_psn) = (request.local_qpn, request.starting_psn);
            (link.initiator_depth, link.responder_resources) = (request.responder_resources, request.initiator_depth);
            (link.retry_count, link.rnr_retry_count) = (request.retry_count, request.rnr_retry_count);
            link.response_timeout = millis_of_code(request.local_cm_response_timeout);
            link.retries_max = request.max_cm_retries;
        }
        self.ids.set_peer(number, Peer::Connection(local.host, request.local_ca_guid, request.local_comm_id));
        self.announce(listener, number, qp_parameters(request, ends.header_bytes), now);
    }

    /// Returns the addresses at the ends of a request: from its header, or for a listener at a GID from
    /// its path (`cma_save_net_info` of the kernel). `None` if a header is missing or wrong.
    pub(super) fn ends_of_request(&self, listener: u32, service_id: u64, (peer, own): (Gid, Gid), private_data: &[u8]) -> Option<Ends> {
        let source = &self.ids.get(&listener)?.source;
        if source.is_ib() {
            let pkey = source.pkey();
            return Some(Ends { own: Address::ib(own, pkey, service_id), peer: Address::ib(peer, pkey, 0), header_bytes: 0 });
        }
        let (peer, own) = address::read_header(private_data, service_id as u16)?;
        Some(Ends { own, peer, header_bytes: HEADER_BYTES })
    }

    /// Announces a new identifier to the program that listens.
    pub(super) fn announce(&mut self, listener: u32, number: u32, parameters: Parameters, now: SimTime) {
        let Some(id) = self.ids.get_mut(&listener) else { return };
        id.backlog = id.backlog.saturating_sub(1);
        let (channel, uid, is_datagram) = (id.channel, id.uid, id.is_datagram());
        let kind = Kind::ConnectRequest;
        let event = Event { at: now, counted_by: listener, multicast: None, uid, id: number, kind, status: 0, is_datagram, parameters };
        self.queue(channel, event);
    }

    fn on_repeated_request(&mut self, number: u32) {
        let Ok(link) = self.link(number) else { return };
        if link.state == State::ReqReceived {
            self.ask_for_time(number, CmMessage::REQ);
        }
    }

    /// Tells the peer that the program has not answered its message yet.
    fn ask_for_time(&mut self, number: u32, message_mraed: CmMessage) {
        let Ok(link) = self.link(number) else { return };
        let (local_comm_id, remote_comm_id) = (link.local_comm_id, link.remote_comm_id);
        let wait = Mra { local_comm_id, remote_comm_id, message_mraed, service_timeout: SERVICE_TIMEOUT, ..Mra::default() };
        self.send(number, AttributeId::CM_MRA, &wait);
    }

    fn on_reply(&mut self, local: &LocalPort, reply: &Rep, now: SimTime) {
        let Some(number) = self.of_comm_id(local, reply.remote_comm_id) else { return };
        let Ok(link) = self.link(number) else { return };
        match link.state {
            State::ReqSent => {}
            State::Established if link.remote_comm_id == reply.local_comm_id => {
                let ready = link.answer.clone();
                return self.outgoing.extend(ready);
            }
            State::RepReceived if link.remote_comm_id == reply.local_comm_id => return self.ask_for_time(number, CmMessage::REP),
            _ => return,
        }
        link.state = State::RepReceived;
        (link.remote_comm_id, link.remote_guid) = (reply.local_comm_id, reply.local_ca_guid);
        (link.remote_qpn, link.send_psn) = (reply.local_qpn, reply.starting_psn);
        (link.initiator_depth, link.responder_resources) = (reply.responder_resources, reply.initiator_depth);
        link.rnr_retry_count = reply.rnr_retry_count;
        link.ack_timeout = ack_timeout(reply.target_ack_delay, link.ack_timeout - 1);
        self.ids.set_peer(number, Peer::Connection(local.host, reply.local_ca_guid, reply.local_comm_id));
        self.stop_repeating(number);
        let parameters = Parameters {
            qpn: reply.local_qpn.0,
            private_data: reply.private_data.to_vec(),
            srq: reply.srq,
            responder_resources: reply.initiator_depth,
            initiator_depth: reply.responder_resources,
            flow_control: reply.end_to_end_flow_control,
            rnr_retry_count: reply.rnr_retry_count,
            ..Parameters::default()
        };
        self.post_while(Stage::Connect, number, (Kind::ConnectResponse, 0), parameters, now);
    }

    fn on_ready(&mut self, local: &LocalPort, ready: &Rtu, now: SimTime) {
        let Some(number) = self.of_both(local, ready.remote_comm_id, ready.local_comm_id) else { return };
        let Ok(link) = self.link(number) else { return };
        if link.state == State::RepSent {
            link.state = State::Established;
            self.stop_repeating(number);
            self.post_while(Stage::Connect, number, (Kind::Established, 0), Parameters::default(), now);
        }
    }

    fn on_rejection(&mut self, local: &LocalPort, packet: &ManagementPacket, rejection: &Rej, now: SimTime) {
        self.seekers.forget(local, packet, rejection.local_comm_id);
        let number = if rejection.reason == RejectReason::TIMEOUT && rejection.reject_info_length >= 8 {
            let guid = rejection.additional_info.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
            self.of_peer(local, rejection.local_comm_id, Guid(guid))
        } else if rejection.message_rejected == CmMessage::REQ {
            self.of_both(local, rejection.remote_comm_id, 0)
        } else {
            self.of_both(local, rejection.remote_comm_id, rejection.local_comm_id)
        };
        let Some((number, link)) = number.and_then(|number| Some((number, self.link(number).ok()?))) else { return };
        match link.state {
            State::ReqSent | State::ReqReceived | State::RepSent if rejection.reason != RejectReason::STALE_CONNECTION => {
                link.state = State::Idle;
                self.stop_repeating(number);
            }
            State::Idle | State::TimeWait | State::SidrReqSent | State::SidrReqReceived => return,
            _ => self.enter_time_wait(number, now),
        }
        let parameters = Parameters { private_data: rejection.private_data.to_vec(), ..Parameters::default() };
        self.post_while(Stage::Connect, number, (Kind::Rejected, i32::from(rejection.reason.0)), parameters, now);
    }

    /// Gives the peer the time for which it asks.
    fn on_wait(&mut self, local: &LocalPort, wait: &Mra, now: SimTime) {
        let Some(number) = self.of_comm_id(local, wait.remote_comm_id) else { return };
        let Ok(link) = self.link(number) else { return };
        let timeout = millis_of_code(wait.service_timeout) + millis_of_code(link.ack_timeout);
        let concerns = matches!((link.state, wait.message_mraed), (State::ReqSent, CmMessage::REQ) | (State::RepSent, CmMessage::REP));
        if let Some(pending) = link.pending.as_mut().filter(|_| concerns) {
            pending.timeout = timeout;
            self.set_deadline(number, Some(now + timeout));
        }
    }

    fn on_leave(&mut self, local: &LocalPort, packet: &ManagementPacket, leave: &Dreq, now: SimTime) {
        let known = self.of_both(local, leave.remote_comm_id, leave.local_comm_id);
        let Some((number, link)) = known.and_then(|number| Some((number, self.link(number).ok()?))) else {
            // IBTA 12.9.8.3: the peer must not wait for an end that nobody remembers.
            let answer = Drep { local_comm_id: leave.remote_comm_id, remote_comm_id: leave.local_comm_id, ..Drep::default() };
            let transaction = u64::from(leave.local_comm_id) << 32;
            return self.outgoing.push(path::packet(&path_back(local, packet), AttributeId::CM_DREP, transaction, &answer));
        };
        match link.state {
            State::RepSent | State::Established | State::DreqSent => link.state = State::DreqReceived,
            State::TimeWait => {
                let answer = link.answer.clone();
                return self.outgoing.extend(answer);
            }
            _ => return,
        }
        self.stop_repeating(number);
        self.disconnected(number, 0, now);
    }

    fn on_left(&mut self, local: &LocalPort, left: &Drep, now: SimTime) {
        let Some(number) = self.of_both(local, left.remote_comm_id, left.local_comm_id) else { return };
        let Ok(link) = self.link(number) else { return };
        if matches!(link.state, State::DreqSent | State::DreqReceived) {
            self.enter_time_wait(number, now);
            self.disconnected(number, 0, now);
        }
    }

    /// Reports the end of a connection, once.
    pub(super) fn disconnected(&mut self, number: u32, status: i32, now: SimTime) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        if id.advance(Stage::Connect, Stage::Disconnect).is_ok() {
            self.post(number, Kind::Disconnected, status, Parameters::default(), now);
        }
    }

    /// Posts an event if the identifier is in a stage where its program expects it.
    pub(super) fn post_while(&mut self, stage: Stage, number: u32, (kind, status): (Kind, i32), parameters: Parameters, now: SimTime) {
        if self.ids.get(&number).is_some_and(|id| id.stage == stage) {
            self.post(number, kind, status, parameters, now);
        }
    }
}

/// Parses the message of a MAD. Its room is as long as each message.
fn parsed<Message: Layout>(mad: &CmMad) -> Message {
    Message::parse(&mad.data).unwrap_or_default()
}

/// Returns the path back to the sender of a packet.
pub(super) fn path_back(local: &LocalPort, packet: &ManagementPacket) -> Path {
    let (mtu, rate) = (MtuCode::default(), RateCode::default());
    Path { source: *local, dlid: packet.slid, dgid: local.gid, service_level: packet.service_level, mtu, rate, packet_life_time: 0, traffic_class: 0 }
}

fn qp_type_of(request: &Req) -> Option<u8> {
    match (request.transport_service_type, request.extended_transport_type) {
        (CmServiceType::RC, _) => Some(QP_RC),
        (CmServiceType::UC, _) => Some(QP_UC),
        (CmServiceType::EXTENDED, 1) => Some(QP_XRC_RECEIVE),
        _ => None,
    }
}

/// Returns a request's parameters as its receiver sees them. The sender's reads are the receiver's
/// responses.
fn qp_parameters(request: &Req, header_bytes: usize) -> Parameters {
    Parameters {
        qpn: request.local_qpn.0,
        private_data: request.private_data[header_bytes..].to_vec(),
        srq: request.srq,
        responder_resources: request.initiator_depth,
        initiator_depth: request.responder_resources,
        flow_control: request.end_to_end_flow_control,
        retry_count: request.retry_count,
        rnr_retry_count: request.rnr_retry_count,
        ..Parameters::default()
    }
}
