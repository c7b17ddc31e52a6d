//! Responses to reads and atomics.

use super::Requester;
use crate::packet::{Packet, PacketKind};
use crate::transport::dma_write::{DmaWrite, DmaWriteEnd, Placement};
use crate::verbs::Verbs;
use crate::verbs::api::{PayloadSlice, QpSnapshot};
use softband_sim::SimTime;
use softband_types::{HcaId, WcStatus};

impl Requester {
    /// Takes data for the oldest read or atomic. Returns its DMA write, or `None` if another
    /// response is due or the response is bad.
    pub fn on_response(&mut self, a: &QpSnapshot, hca: HcaId, verbs: &Verbs, packet: &Packet, now: SimTime) -> Option<DmaWrite> {
        let psn = packet.psn;
        if self.halted || psn.since(self.unacked_psn) >= self.sent_psn.since(self.unacked_psn) {
            return None;
        }
        if !self.settle_before(a, psn, now) {
            self.response_lost(a, now);
            return None;
        }
        let wqe = self.queue.get_mut(self.settled).filter(|wqe| wqe.expects_response() && wqe.started)?;
        let (payload, offset, expected_len) = match packet.kind {
            PacketKind::AtomicAck { .. } if wqe.is_atomic_write() => (None, 0, 0),
            PacketKind::AtomicAck { original } => {
                let buffer = Some(std::sync::Arc::from(original.to_ne_bytes().as_slice()));
                (Some(PayloadSlice { buffer, offset: 0, len: 8 }), 0, 8)
            }
            _ => {
                let offset = wqe.received * a.path_mtu.bytes();
                (packet.payload.clone(), offset, (wqe.len_bytes - offset).min(a.path_mtu.bytes()))
            }
        };
        let is_read_response = matches!(packet.kind, PacketKind::ReadResponse { .. });
        let len = payload.as_ref().map_or(0, |payload| payload.len);
        if wqe.is_read() != is_read_response || len != expected_len {
            self.fail(WcStatus::BadResponseError);
            return None;
        }
        let mut placement = Placement::default();
        let range = (u64::from(offset), len);
        if verbs.walk_local(hca, a.init.pd, &wqe.request.entries, range, true, |segment| placement.push(segment)).is_none() {
            self.fail(WcStatus::LocalProtectionError);
            return None;
        }
        wqe.received += 1;
        let last = wqe.received == wqe.packets;
        self.recovering = false;
        if last {
            self.settled += 1;
            self.pass_local();
        }
        self.advance(a, psn.plus(1), now);
        Some(DmaWrite { placement, payload, fetches_receive_wqe: false, last, end: DmaWriteEnd::Response { last } })
    }

    /// Handles response data that has reached memory, or found none (`fault`).
    pub fn on_response_in_memory(&mut self, last: bool, fault: bool) {
        let Some(wqe) = self.queue.iter_mut().find(|wqe| wqe.outcome.is_none() && wqe.expects_response()) else { return };
        if fault {
            wqe.outcome = Some(WcStatus::LocalProtectionError);
            self.halted = true;
            self.deadline = None;
        } else if last {
            wqe.outcome = Some(WcStatus::Success);
            if std::mem::take(&mut wqe.requested) {
                self.reads_outstanding -= 1;
            }
        }
    }
}
