//! Datagrams (IBTA 9.8.3): one packet, a Q_Key, and room for a GRH before the payload.

use super::{Outcome, Receiving, Responder, completion, request_end};
use crate::packet::{NakCode, Packet, PacketKind};
use crate::transport::dma_write::{DmaWrite, Placement};
use crate::transport::hardware_counters::Remark;
use crate::verbs::api::{Completion, PayloadSlice};
use softband_types::{WcOpcode, WcStatus};
use softband_wire::GRH_BYTES;

impl Responder {
    /// Places a datagram into a receive buffer. If it carries a GRH, the receiving port has put the
    /// 40 bytes before the payload.
    pub(super) fn on_datagram(&mut self, r: &mut Receiving, packet: &Packet) -> Outcome {
        let PacketKind::Datagram { qkey, immediate } = packet.kind else { return Outcome::default() };
        if qkey != r.a.qkey {
            return Outcome::default();
        }
        let Some(request) = self.take_receive(r) else { return Outcome::default().with(Remark::OutOfBuffer) };
        let has_grh = packet.grh.is_some();
        let skipped = if has_grh { 0 } else { GRH_BYTES };
        let len = packet.payload_bytes();
        let room: u64 = request.entries.iter().map(|entry| u64::from(entry.len_bytes)).sum();
        if u64::from(skipped) + u64::from(len) > room {
            return self.fail_receive(r.a, packet, &request, WcStatus::LocalLengthError, NakCode::InvalidRequest);
        }
        let mut placement = Placement::default();
        let range = (u64::from(skipped), len);
        if r.verbs.walk_local(r.hca, r.receive_pd, &request.entries, range, true, |segment| placement.push(segment)).is_none() {
            return self.fail_receive(r.a, packet, &request, WcStatus::LocalProtectionError, NakCode::InvalidRequest);
        }
        let done = Completion {
            byte_len: skipped + len,
            immediate,
            has_grh,
            solicited: packet.solicited,
            source_qpn: packet.source,
            source_lid: packet.slid,
            destination_lid: packet.dlid,
            service_level: packet.service_level,
            ..completion(r.a, &request, WcOpcode::Receive)
        };
        let payload: Option<PayloadSlice> = packet.payload.clone();
        let end = request_end(Some(done), packet, 0);
        Outcome { dma_write: Some(DmaWrite { placement, payload, fetches_receive_wqe: true, last: true, end }), ..Outcome::default() }
    }
}
