//! Commands of programs in a handshake, and the messages that they send.

use super::address;
use super::commands::Parameters;
use super::events::{self, Kind};
use super::identifier::{QP_UC, QP_XRC_SEND, Stage};
use super::link::{Link, RESPONSE_TIMEOUT, RETRIES, State};
use super::path::private;
use super::{CmTable, path};
use softband_sim::SimTime;
use softband_types::{Lid, Qpn, ServiceLevel};
use softband_wire::mad::{AttributeId, CmMessage, CmPath, CmServiceType, Drep, Dreq, Rej, RejectReason, Rep, Req, Rtu};

/// Largest number of a retry count, of three bits.
const RETRIES_OF_QUEUE_PAIR: u8 = 7;
/// Time until an HCA acknowledges, as a code: the value that `ibv_query_device` reports.
const ACK_DELAY: u8 = 15;
/// `IB_EVENT_COMM_EST`.
const COMMUNICATION_ESTABLISHED: u32 = 4;

impl CmTable {
    pub(super) fn connect(&mut self, number: u32, given: &Parameters, now: SimTime) -> Result<(), i32> {
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        id.advance(Stage::RouteResolved, Stage::Connect)?;
        let outcome = if id.is_datagram() { self.ask_for_service(number, given, now) } else { self.request_connection(number, given, now) };
        if outcome.is_err()
            && let Some(id) = self.ids.get_mut(&number)
        {
            id.stage = Stage::RouteResolved;
        }
        outcome
    }

    fn request_connection(&mut self, number: u32, given: &Parameters, now: SimTime) -> Result<(), i32> {
        let id = self.ids.get(&number).ok_or(libc::ENOENT)?;
        let path = id.path.ok_or(libc::EINVAL)?;
        let private_data = private(&[address::header(&id.source, &id.destination).as_slice(), &given.private_data])?;
        let (service_id, qp_type) = (id.service_id(&id.destination), id.qp_type);
        let link = self.new_link(number, path)?;
        link.state = State::ReqSent;
        link.responder_resources = given.responder_resources;
        link.initiator_depth = given.initiator_depth;
        link.retry_count = given.retry_count.min(RETRIES_OF_QUEUE_PAIR);
        link.rnr_retry_count = given.rnr_retry_count.min(RETRIES_OF_QUEUE_PAIR);
        // The peer's answer takes two more ways.
        link.response_timeout += super::link::millis_of_code(path.packet_life_time) * 2;
        let (transport_service_type, extended_transport_type) = match qp_type {
            QP_UC => (CmServiceType::UC, 0),
            QP_XRC_SEND => (CmServiceType::EXTENDED, 1),
            _ => (CmServiceType::RC, 0),
        };
        let request = Req {
            local_comm_id: link.local_comm_id,
            service_id,
            local_ca_guid: path.source.node_guid,
            local_qpn: Qpn(given.qpn),
            responder_resources: given.responder_resources,
            initiator_depth: given.initiator_depth,
            remote_cm_response_timeout: RESPONSE_TIMEOUT,
            local_cm_response_timeout: RESPONSE_TIMEOUT,
            transport_service_type,
            extended_transport_type,
            end_to_end_flow_control: given.flow_control,
            starting_psn: link.receive_psn,
            retry_count: link.retry_count,
            rnr_retry_count: link.rnr_retry_count,
            max_cm_retries: RETRIES,
            p_key: path.source.pkey,
            path_mtu: path.mtu,
            srq: given.srq,
            primary_path: cm_path(&path),
            private_data,
            ..Req::default()
        };
        self.send_until_answered(number, AttributeId::CM_REQ, &request, now);
        Ok(())
    }

    /// Accepts a request with these parameters, or without them confirms a reply.
    pub(super) fn accept(&mut self, number: u32, given: Option<&Parameters>, now: SimTime) -> Result<(), i32> {
        let id = self.ids.get(&number).ok_or(libc::ENOENT)?;
        if id.stage != Stage::Connect {
            return Err(libc::EINVAL);
        }
        if id.is_datagram() {
            return self.offer_service(number, given);
        }
        let outcome = match given {
            Some(given) => self.reply(number, given, now),
            None => self.confirm(number),
        };
        if outcome.is_err() {
            // The kernel also refuses the peer then.
            let _ = self.refuse(number, RejectReason::CONSUMER_REJECT, &[], now);
        }
        outcome
    }

    fn reply(&mut self, number: u32, given: &Parameters, now: SimTime) -> Result<(), i32> {
        let private_data = private(&[&given.private_data])?;
        let link = self.link(number)?;
        if link.state != State::ReqReceived {
            return Err(libc::EINVAL);
        }
        link.state = State::RepSent;
        link.responder_resources = given.responder_resources;
        link.initiator_depth = given.initiator_depth;
        let reply = Rep {
            local_comm_id: link.local_comm_id,
            remote_comm_id: link.remote_comm_id,
            local_qpn: Qpn(given.qpn),
            starting_psn: link.receive_psn,
            responder_resources: given.responder_resources,
            initiator_depth: given.initiator_depth,
            target_ack_delay: ACK_DELAY,
            end_to_end_flow_control: given.flow_control,
            rnr_retry_count: given.rnr_retry_count.min(RETRIES_OF_QUEUE_PAIR),
            srq: given.srq,
            local_ca_guid: link.path.source.node_guid,
            private_data,
            ..Rep::default()
        };
        self.send_until_answered(number, AttributeId::CM_REP, &reply, now);
        Ok(())
    }

    fn confirm(&mut self, number: u32) -> Result<(), i32> {
        let link = self.link(number)?;
        if link.state != State::RepReceived {
            return Err(libc::EINVAL);
        }
        link.state = State::Established;
        let ready = Rtu { local_comm_id: link.local_comm_id, remote_comm_id: link.remote_comm_id, ..Rtu::default() };
        self.send(number, AttributeId::CM_RTU, &ready);
        Ok(())
    }

    pub(super) fn reject(&mut self, number: u32, reason: u8, private_data: &[u8], now: SimTime) -> Result<(), i32> {
        let reason = match RejectReason(reason.into()) {
            RejectReason(0) => RejectReason::CONSUMER_REJECT,
            reason @ (RejectReason::CONSUMER_REJECT | RejectReason::VENDOR_OPTION_NOT_SUPPORTED) => reason,
            _ => return Err(libc::EINVAL),
        };
        let id = self.ids.get(&number).ok_or(libc::ENOENT)?;
        if id.is_datagram() {
            return self.refuse_service(number, private_data);
        }
        self.refuse(number, reason, private_data, now)
    }

    fn refuse(&mut self, number: u32, reason: RejectReason, private_data: &[u8], now: SimTime) -> Result<(), i32> {
        let private_data = private(&[private_data])?;
        let link = self.link(number)?;
        let rejection = Rej { private_data, ..rejection(link, reason) };
        match link.state {
            State::ReqSent | State::ReqReceived | State::RepReceived => link.state = State::Idle,
            State::RepSent => {}
            State::TimeWait => {
                self.send(number, AttributeId::CM_REJ, &rejection);
                return Ok(());
            }
            _ => return Err(libc::EINVAL),
        }
        let has_replied = link.state == State::RepSent;
        self.stop_repeating(number);
        if has_replied {
            self.enter_time_wait(number, now);
        }
        self.send(number, AttributeId::CM_REJ, &rejection);
        Ok(())
    }

    /// Begins a disconnection, or answers the peer's.
    pub(super) fn disconnect(&mut self, number: u32, now: SimTime) -> Result<(), i32> {
        let link = self.link(number)?;
        match link.state {
            State::Established => {
                link.state = State::DreqSent;
                let request = leave_request(link);
                self.send_until_answered(number, AttributeId::CM_DREQ, &request, now);
            }
            State::DreqReceived => {
                let answer = Drep { local_comm_id: link.local_comm_id, remote_comm_id: link.remote_comm_id, ..Drep::default() };
                self.enter_time_wait(number, now);
                self.send(number, AttributeId::CM_DREP, &answer);
            }
            _ => {}
        }
        Ok(())
    }

    /// Handles the news of a program that data came before the RTU (IBTA 12.9.7.1).
    pub(super) fn notify(&mut self, number: u32, event: u32, now: SimTime) -> Result<(), i32> {
        let link = self.link(number)?;
        match (event, link.state) {
            (COMMUNICATION_ESTABLISHED, State::RepSent) => {
                link.state = State::Established;
                self.stop_repeating(number);
                self.post(number, Kind::Established, 0, events::Parameters::default(), now);
                Ok(())
            }
            (COMMUNICATION_ESTABLISHED, State::Established) => Err(libc::EISCONN),
            _ => Err(libc::EINVAL),
        }
    }

    /// Tells the peer of a destroyed identifier about its end, as `cm_destroy_id` of the kernel does.
    pub(super) fn say_farewell(&mut self, link: &Link) {
        let reason = match link.state {
            State::ReqSent => RejectReason::TIMEOUT,
            State::ReqReceived | State::RepSent | State::RepReceived => RejectReason::CONSUMER_REJECT,
            State::Established => return self.send_last(link, AttributeId::CM_DREQ, &leave_request(link)),
            State::DreqReceived => {
                let answer = Drep { local_comm_id: link.local_comm_id, remote_comm_id: link.remote_comm_id, ..Drep::default() };
                return self.send_last(link, AttributeId::CM_DREP, &answer);
            }
            State::SidrReqReceived => return self.refuse_last(link),
            State::Idle | State::DreqSent | State::TimeWait | State::SidrReqSent => return,
        };
        let mut rejection = rejection(link, reason);
        if reason == RejectReason::TIMEOUT {
            // The peer does not know the request's answer, but knows its sender's GUID (IBTA 12.6.7.2).
            rejection.reject_info_length = 8;
            rejection.additional_info[..8].copy_from_slice(&link.path.source.node_guid.0.to_be_bytes());
        }
        self.send_last(link, AttributeId::CM_REJ, &rejection);
    }

    pub(super) fn send_last<Message: softband_wire::mad::Layout>(&mut self, link: &Link, attribute: AttributeId, message: &Message) {
        self.outgoing.push(path::packet(&link.path, attribute, link.transaction(), message));
    }
}

/// Returns a request to end a connection.
fn leave_request(link: &Link) -> Dreq {
    Dreq { local_comm_id: link.local_comm_id, remote_comm_id: link.remote_comm_id, remote_qpn_eecn: link.remote_qpn, ..Dreq::default() }
}

/// Returns a rejection of the last message of the peer.
fn rejection(link: &Link, reason: RejectReason) -> Rej {
    let message_rejected = match link.state {
        State::ReqReceived => CmMessage::REQ,
        State::RepReceived => CmMessage::REP,
        _ => CmMessage::OTHER,
    };
    Rej { local_comm_id: link.local_comm_id, remote_comm_id: link.remote_comm_id, message_rejected, reason, ..Rej::default() }
}

/// Returns a path as its sender's request states it.
fn cm_path(path: &super::Path) -> CmPath {
    // The kernel has permissive LIDs for paths through routers (`cm_format_req`).
    let [local_lid, remote_lid] = if path.hop_limit() > 1 { [Lid::PERMISSIVE; 2] } else { path.lids() };
    CmPath {
        local_lid,
        remote_lid,
        local_gid: path.source.gid,
        remote_gid: path.dgid,
        packet_rate: path.rate,
        sl: ServiceLevel(path.service_level.0),
        traffic_class: path.traffic_class,
        hop_limit: path.hop_limit(),
        subnet_local: path.hop_limit() <= 1,
        local_ack_timeout: super::link::ack_timeout(ACK_DELAY, path.packet_life_time),
        ..CmPath::default()
    }
}
