//! Services of datagrams: identifiers ask for a queue pair (IBTA 12.11).

use super::CmTable;
use super::address::{self, header};
use super::arrive::path_back;
use super::commands::Parameters as Given;
use super::events::{Kind, Parameters};
use super::identifier::{QP_UD, Stage};
use super::ids::Peer;
use super::link::{Link, State};
use super::path::{LocalPort, Subnet, private};
use softband_model::management::ManagementPacket;
use softband_sim::SimTime;
use softband_types::{Gid, QKey, Qpn};
use softband_wire::mad::{AttributeId, SidrRep, SidrReq, SidrStatus};

impl CmTable {
    pub(super) fn ask_for_service(&mut self, number: u32, given: &Given, now: SimTime) -> Result<(), i32> {
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        let path = id.path.ok_or(libc::EINVAL)?;
        let private_data = private(&[header(&id.source, &id.destination).as_slice(), &given.private_data])?;
        let service_id = id.service_id(&id.destination);
        let link = self.new_link(number, path)?;
        (link.state, link.service_id) = (State::SidrReqSent, service_id);
        let request = SidrReq { request_id: link.local_comm_id, p_key: path.source.pkey, service_id, private_data };
        self.send_until_answered(number, AttributeId::CM_SIDR_REQ, &request, now);
        Ok(())
    }

    pub(super) fn on_service_request(&mut self, local: &LocalPort, packet: &ManagementPacket, request: &SidrReq, subnet: &dyn Subnet, now: SimTime) {
        let peer = Peer::Service(local.host, packet.slid, request.request_id);
        let is_open = |id: &super::Id| id.link.as_ref().is_some_and(|link| link.state == State::SidrReqReceived);
        if self.ids.with_peer(peer).any(|(_, id)| is_open(id)) {
            return; // the program has not answered it yet
        }
        let way = path_back(local, packet);
        let service = (request.service_id, address::is_v6(&request.private_data));
        let Some(listener) = self.listener(local, service.0, service.1) else { return self.seek(local, packet, service, subnet, now) };
        // A request for a service states no GID of its sender.
        let ends = self.ends_of_request(listener, service.0, (Gid::default(), local.gid), &request.private_data);
        let Some(ends) = ends else { return self.refuse_unheard(local, packet) };
        let Some((channel, space)) = self.ids.get(&listener).filter(|id| id.backlog > 0).map(|id| (id.channel, id.space)) else { return };
        let Ok(number) = self.add(channel, (0, space, QP_UD)) else { return };
        if let Some(id) = self.ids.get_mut(&number) {
            (id.stage, id.source, id.destination, id.port) = (Stage::Connect, ends.own, ends.peer, Some(*local));
        }
        if let Ok(link) = self.new_link(number, way) {
            (link.state, link.remote_comm_id, link.service_id) = (State::SidrReqReceived, request.request_id, request.service_id);
        }
        self.ids.set_peer(number, peer);
        let parameters = Parameters { private_data: request.private_data[ends.header_bytes..].to_vec(), ..Parameters::default() };
        self.announce(listener, number, parameters, now);
    }

    /// Answers a request with the queue pair of the program.
    pub(super) fn offer_service(&mut self, number: u32, given: Option<&Given>) -> Result<(), i32> {
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        let (qpn, qkey) = (given.map_or(0, |given| given.qpn), id.own_qkey());
        let data = given.map_or(&[][..], |given| &given.private_data);
        self.answer_service(number, (SidrStatus::VALID_QPN, Qpn(qpn), QKey(qkey)), data)
    }

    pub(super) fn refuse_service(&mut self, number: u32, data: &[u8]) -> Result<(), i32> {
        self.answer_service(number, (SidrStatus::REJECTED_BY_SERVICE_PROVIDER, Qpn(0), QKey(0)), data)
    }

    fn answer_service(&mut self, number: u32, (status, qpn, q_key): (SidrStatus, Qpn, QKey), data: &[u8]) -> Result<(), i32> {
        let private_data = private(&[data])?;
        let link = self.link(number)?;
        if link.state != State::SidrReqReceived {
            return Err(libc::EINVAL);
        }
        link.state = State::Idle;
        let reply = SidrRep { request_id: link.remote_comm_id, status, qpn, q_key, service_id: link.service_id, private_data, ..SidrRep::default() };
        self.send(number, AttributeId::CM_SIDR_REP, &reply);
        Ok(())
    }

    /// Refuses the request of a destroyed identifier.
    pub(super) fn refuse_last(&mut self, link: &Link) {
        let status = SidrStatus::REJECTED_BY_SERVICE_PROVIDER;
        let reply = SidrRep { request_id: link.remote_comm_id, status, service_id: link.service_id, ..SidrRep::default() };
        self.send_last(link, AttributeId::CM_SIDR_REP, &reply);
    }

    pub(super) fn on_service_reply(&mut self, local: &LocalPort, reply: &SidrRep, now: SimTime) {
        let Some(number) = self.of_comm_id(local, reply.request_id) else { return };
        let Ok(link) = self.link(number) else { return };
        if link.state != State::SidrReqSent {
            return;
        }
        link.state = State::Idle;
        let path = link.path;
        self.stop_repeating(number);
        let private_data = reply.private_data.to_vec();
        if reply.status != SidrStatus::VALID_QPN {
            let parameters = Parameters { private_data, ..Parameters::default() };
            return self.post_while(Stage::Connect, number, (Kind::Unreachable, i32::from(reply.status.0)), parameters, now);
        }
        if let Some(id) = self.ids.get_mut(&number) {
            id.qkey = reply.q_key.0;
        }
        let parameters = Parameters { qpn: reply.qpn.0, qkey: reply.q_key.0, private_data, path: Some(path), ..Parameters::default() };
        self.post_while(Stage::Connect, number, (Kind::Established, 0), parameters, now);
    }
}
