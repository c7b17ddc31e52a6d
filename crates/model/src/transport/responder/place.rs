//! Sends and RDMA writes: payload into memory.

use super::{Outcome, Receiving, Responder, completion, length_fits, request_end};
use crate::packet::{NakCode, Packet, PacketKind, Position, RemoteRange};
use crate::transport::dma_write::{DmaWrite, Placement};
use crate::verbs::api::{Completion, QpSnapshot, ReceiveRequest};
use crate::verbs::{Reach, RemoteAccess, Verbs};
use softband_types::{HcaId, Psn, QpType, RKey, WcOpcode, WcStatus};

/// Message that is being received.
pub(super) enum Message {
    Receive { request: ReceiveRequest, received: u64 },
    Write { range: RemoteRange, written: u32 },
}

impl Responder {
    pub(super) fn place_send(&mut self, r: &mut Receiving, packet: &Packet, position: Position) -> Outcome {
        let PacketKind::Send { immediate, invalidate, .. } = packet.kind else { return Outcome::default() };
        let (request, received) = match self.message.take() {
            Some(Message::Receive { request, received }) => (request, received),
            Some(Message::Write { .. }) => return self.refuse(r, packet.psn, NakCode::InvalidRequest),
            None => match self.take_receive(r) {
                Some(request) => (request, 0),
                None => return self.not_ready(r, packet.psn),
            },
        };
        let len = packet.payload_bytes();
        if !length_fits(r.a.path_mtu, position.last, len) {
            self.message = Some(Message::Receive { request, received });
            return self.refuse(r, packet.psn, NakCode::InvalidRequest);
        }
        let room: u64 = request.entries.iter().map(|entry| u64::from(entry.len_bytes)).sum();
        if received + u64::from(len) > room {
            return self.fail_receive(r.a, packet, &request, WcStatus::LocalLengthError, NakCode::InvalidRequest);
        }
        let mut placement = Placement::default();
        let range = (received, len);
        if r.verbs.walk_local(r.hca, r.receive_pd, &request.entries, range, true, |segment| placement.push(segment)).is_none() {
            return self.fail_receive(r.a, packet, &request, WcStatus::LocalProtectionError, NakCode::RemoteOperationalError);
        }
        if let Some(rkey) = invalidate
            && r.verbs.invalidate(r.by, RKey(rkey)).is_err()
        {
            self.message = Some(Message::Receive { request, received });
            return self.refuse(r, packet.psn, NakCode::RemoteAccessError);
        }
        self.step_over(1);
        let received = received + u64::from(len);
        let done = position.last.then(|| Completion {
            byte_len: received as u32,
            immediate,
            invalidated: invalidate.map(RKey),
            solicited: packet.solicited,
            source_lid: packet.slid,
            destination_lid: packet.dlid,
            ..completion(r.a, &request, WcOpcode::Receive)
        });
        if !position.last {
            self.message = Some(Message::Receive { request, received });
        }
        self.accepted(placement, packet, position.first, position.last, done)
    }

    pub(super) fn place_write(
        &mut self,
        r: &mut Receiving,
        packet: &Packet,
        position: Position,
        range: Option<RemoteRange>,
        immediate: Option<u32>,
    ) -> Outcome {
        let (range, written) = match (range, &self.message) {
            (Some(range), None) => (range, 0),
            (None, Some(Message::Write { range, written })) => (*range, *written),
            _ => return self.refuse(r, packet.psn, NakCode::InvalidRequest),
        };
        let len = packet.payload_bytes();
        let written_next = u64::from(written) + u64::from(len);
        let complete = written_next == u64::from(range.len_bytes);
        if !length_fits(r.a.path_mtu, position.last, len) || written_next > u64::from(range.len_bytes) || position.last != complete {
            return self.refuse(r, packet.psn, NakCode::InvalidRequest);
        }
        let Some(placement) = write_placement(r, range, written, len, position.first) else {
            return self.refuse(r, packet.psn, NakCode::RemoteAccessError);
        };
        let mut done = None;
        if immediate.is_some() {
            let Some(request) = self.take_receive(r) else { return self.not_ready(r, packet.psn) };
            done = Some(Completion {
                byte_len: range.len_bytes,
                immediate,
                solicited: packet.solicited,
                source_lid: packet.slid,
                destination_lid: packet.dlid,
                ..completion(r.a, &request, WcOpcode::ReceiveRdmaWithImmediate)
            });
        }
        self.step_over(1);
        self.message = (!position.last).then_some(Message::Write { range, written: written_next as u32 });
        let fetches_receive_wqe = done.is_some();
        self.accepted(placement, packet, fetches_receive_wqe, position.last, done)
    }

    /// Takes in a packet in the middle of a message, if it is the expected packet, only its length
    /// counts, and nothing follows from it. Returns its bytes of payload. `None` changes nothing:
    /// [`Self::on_request`] handles the packet then.
    #[inline]
    pub fn take_middle(&mut self, a: &QpSnapshot, hca: HcaId, verbs: &Verbs, packet: &Packet) -> Option<u32> {
        let payload = packet.payload.as_ref().filter(|payload| payload.buffer.is_none() && !packet.ack_request)?;
        let writes = match &packet.kind {
            PacketKind::Send { position, .. } if position.is_middle() => false,
            PacketKind::Write { position, range: None, immediate: None } if position.is_middle() => true,
            _ => return None,
        };
        let len = payload.len;
        self.take_counted(a, hca, verbs, (packet.psn, len, writes)).map(|()| len)
    }

    /// As [`Self::take_middle`], for a packet of `len` bytes in the middle of a send or RDMA write. It
    /// asks for no acknowledgement.
    #[inline]
    pub fn take_counted(&mut self, a: &QpSnapshot, hca: HcaId, verbs: &Verbs, packet: (Psn, u32, bool)) -> Option<()> {
        self.take_many(a, hca, verbs, packet, 1)
    }

    /// As [`Self::take_counted`], for `count` packets from a PSN on.
    #[inline]
    pub fn take_many(&mut self, a: &QpSnapshot, hca: HcaId, verbs: &Verbs, (psn, len, writes): (Psn, u32, bool), count: u32) -> Option<()> {
        let is_plain = a.init.qp_type == QpType::Rc && a.init.srq.is_none() && psn == self.expected_psn;
        if !is_plain || writes && !a.access.remote_write || !length_fits(a.path_mtu, false, len) || self.is_ending() {
            return None;
        }
        let len = len * count;
        match &mut self.message {
            Some(Message::Receive { request, received }) if !writes => {
                verbs.walk_local(hca, a.init.pd, &request.entries, (*received, len), true, |_| ())?;
                *received += u64::from(len);
            }
            Some(Message::Write { range, written }) if writes => {
                // The last packet follows, so the range does not end here.
                written.checked_add(len).filter(|end| *end < range.len_bytes)?;
                let by = Reach { hca, pd: a.init.pd, qpn: a.qpn };
                let address = range.address.checked_add(u64::from(*written))?;
                verbs.check_remote(by, range.rkey, address, len, RemoteAccess::Write)?;
                *written += len;
            }
            _ => return None,
        }
        self.step_over(count);
        Some(())
    }

    /// Checks whether [`Self::take_counted`] will accept all packets before `end`, if none is lost. They
    /// belong to a message from PSN `first` on that has begun to arrive.
    pub fn will_take(&self, a: &QpSnapshot, hca: HcaId, verbs: &Verbs, (first, end): (Psn, Psn), writes: bool) -> bool {
        let ahead = self.expected_psn.since(first);
        let is_plain = a.init.qp_type == QpType::Rc && a.init.srq.is_none() && !self.is_ending() && ahead > 0 && ahead <= end.since(first);
        if !is_plain || writes && !a.access.remote_write {
            return false;
        }
        let left = end.since(self.expected_psn) * a.path_mtu.bytes();
        match &self.message {
            Some(Message::Receive { request, received }) if !writes => {
                verbs.walk_local(hca, a.init.pd, &request.entries, (*received, left), true, |_| ()).is_some()
            }
            Some(Message::Write { range, written }) if writes => {
                let by = Reach { hca, pd: a.init.pd, qpn: a.qpn };
                let address = range.address.checked_add(u64::from(*written));
                written.checked_add(left).is_some_and(|end| end < range.len_bytes)
                    && address.is_some_and(|address| verbs.check_remote(by, range.rkey, address, left, RemoteAccess::Write).is_some())
            }
            _ => false,
        }
    }

    /// Counts a message with its last packet, and returns the write of the packet's payload.
    fn accepted(&mut self, placement: Placement, packet: &Packet, fetches_receive_wqe: bool, last: bool, done: Option<Completion>) -> Outcome {
        self.messages = self.messages.wrapping_add(u32::from(last));
        let end = request_end(done, packet, self.messages);
        let dma_write = DmaWrite { placement, payload: packet.payload.clone(), fetches_receive_wqe, last, end };
        Outcome { dma_write: Some(dma_write), begun: packet.kind.begun_operation(), ..Outcome::default() }
    }
}

/// Returns the destination of a write's packet. The first packet answers for the whole range: no
/// byte moves unless all may (IBTA 9.7.4.1.7).
fn write_placement(r: &Receiving, range: RemoteRange, written: u32, len: u32, first: bool) -> Option<Placement> {
    let mut placement = Placement::default();
    if range.len_bytes == 0 {
        return Some(placement); // A write of nothing needs no key (IBTA 9.7.4.1.5).
    }
    let checked = if first { range.len_bytes } else { len };
    let address = range.address.checked_add(u64::from(written))?;
    let segment = r.verbs.check_remote(r.by, range.rkey, address, checked, RemoteAccess::Write)?;
    placement.push(crate::verbs::Segment { len_bytes: len, ..segment });
    Some(placement)
}
