//! Requests for services on which no program listens yet. They wait for a listener, as connection
//! attempts of sockets do, because a run starts its servers and clients together.

use super::CmTable;
use super::path::{LocalPort, Port, Subnet};
use softband_model::management::ManagementPacket;
use softband_sim::{SimDuration, SimTime};
use softband_wire::mad::{AttributeId, CmMad, Layout, Rej, RejectReason, SidrRep, SidrReq, SidrStatus};
use std::collections::VecDeque;

/// Longest wait of a request for its listener.
const SEEK_LIMIT: SimDuration = SimDuration::from_micros(10_000_000);
/// Most requests of a sender that wait at a time. Each has 256 bytes.
const SEEKERS_MAX: usize = 1_024;

/// Service of a request: its ID, and whether its addresses are those of IP version 6.
pub(super) type Service = (u64, bool);

#[derive(Debug)]
struct Seeker {
    local: LocalPort,
    packet: Box<ManagementPacket>,
    service: Service,
    until: SimTime,
}

/// The waiting requests, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Seekers(VecDeque<Seeker>);

impl Seekers {
    pub(super) fn next_deadline(&self) -> Option<SimTime> {
        self.0.front().map(|seeker| seeker.until)
    }

    /// Forgets the request with this communication ID of a peer, because the peer has given up.
    pub(super) fn forget(&mut self, local: &LocalPort, packet: &ManagementPacket, peer: u32) {
        let is_of_peer = |seeker: &Seeker| seeker.local == *local && seeker.packet.slid == packet.slid && comm_id(&seeker.packet) == peer;
        self.0.retain(|seeker| !is_of_peer(seeker));
    }

    fn take(&mut self, mut wanted: impl FnMut(&Seeker) -> bool) -> Vec<Seeker> {
        let (taken, kept) = std::mem::take(&mut self.0).into_iter().partition(|seeker| wanted(seeker));
        self.0 = kept;
        VecDeque::into(taken)
    }
}

impl CmTable {
    /// Lets a request wait for a listener. Refuses it if no program of the host can become one.
    pub(super) fn seek(&mut self, local: &LocalPort, packet: &ManagementPacket, service: Service, subnet: &dyn Subnet, now: SimTime) {
        let of_sender = || self.seekers.0.iter().filter(|seeker| seeker.packet.slid == packet.slid);
        if of_sender().any(|seeker| seeker.packet.mad == packet.mad) {
            return;
        }
        if !subnet.may_listen(local.host) || of_sender().count() >= SEEKERS_MAX {
            return self.refuse_unheard(local, packet);
        }
        self.seekers.0.push_back(Seeker { local: *local, packet: Box::new(packet.clone()), service, until: now + SEEK_LIMIT });
    }

    /// Hands the requests that waited for a new listener of this host to it.
    pub(super) fn serve_seekers(&mut self, host: usize, subnet: &dyn Subnet, now: SimTime) {
        let mut seekers = std::mem::take(&mut self.seekers);
        let found = seekers.take(|seeker| {
            let (service_id, is_v6) = seeker.service;
            seeker.local.host == host && self.listener(&seeker.local, service_id, is_v6).is_some()
        });
        self.seekers = seekers;
        for Seeker { local, packet, .. } in found {
            let port: Port = (local.hca, local.port);
            self.communicate(port, &packet, subnet, now);
        }
    }

    /// Refuses the requests that have waited long enough.
    pub(super) fn refuse_late(&mut self, now: SimTime) {
        for seeker in self.seekers.take(|seeker| seeker.until <= now) {
            self.refuse_unheard(&seeker.local, &seeker.packet);
        }
    }

    /// Refuses the waiting requests for a host whose programs have ended.
    pub(crate) fn refuse_seekers_of(&mut self, host: usize) {
        for seeker in self.seekers.take(|seeker| seeker.local.host == host) {
            self.refuse_unheard(&seeker.local, &seeker.packet);
        }
    }

    /// Tells the peer that nobody listens (IBTA 12.6.7.2, reason 8; IBTA 12.11.2, status 1).
    pub(super) fn refuse_unheard(&mut self, local: &LocalPort, packet: &ManagementPacket) {
        let Ok(mad) = CmMad::parse(&packet.mad[..]) else { return };
        let (way, peer) = (super::arrive::path_back(local, packet), comm_id(packet));
        let transaction = u64::from(peer) << 32;
        let answer = if mad.header.attribute_id == AttributeId::CM_REQ {
            let message_rejected = softband_wire::mad::CmMessage::REQ;
            let rejection = Rej { remote_comm_id: peer, message_rejected, reason: RejectReason::INVALID_SERVICE_ID, ..Rej::default() };
            super::path::packet(&way, AttributeId::CM_REJ, transaction, &rejection)
        } else {
            let service_id = SidrReq::parse(&mad.data).map_or(0, |request| request.service_id);
            let refusal = SidrRep { request_id: peer, status: SidrStatus::SERVICE_ID_NOT_SUPPORTED, service_id, ..SidrRep::default() };
            super::path::packet(&way, AttributeId::CM_SIDR_REP, transaction, &refusal)
        };
        self.outgoing.push(answer);
    }
}

/// Returns the communication ID of a REQ, or the request ID of a SIDR_REQ: both stand first.
fn comm_id(packet: &ManagementPacket) -> u32 {
    const FIRST: usize = 24;
    packet.mad[FIRST..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
