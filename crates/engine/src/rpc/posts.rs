//! Carries posted work of programs from the protocol to the World.

use crate::protocol::convert;
use crate::protocol::{END, own_hca, program_time, request};
use crate::realtime::datagrams::receiver_of_datagram;
use crate::realtime::direct::named_peer;
use crate::rpc::room::Verbs;
use softband_ipc::post::{PostRecord, PostSge, kind, opcode, record_bytes};
use softband_model::verbs::api::QpSnapshot;
use softband_sim::SimTime;
use softband_types::{CqHandle, QpType, Qpn, SrqHandle};

impl Verbs<'_> {
    /// Carries out records that the engine has copied. Returns false if some make no sense.
    pub(crate) fn carry_out_posts(&mut self, process: usize, posted: &[u8]) -> bool {
        self.each_post(process, posted, |_, _| false)
    }

    /// Carries out all records except send requests, and keeps those for later. No other record
    /// depends on the sends before it. Returns false if some make no sense.
    pub(crate) fn carry_out_posts_but_sends(&mut self, process: usize, posted: &[u8]) -> bool {
        let mut held = self.processes[process].take_held_sends();
        let makes_sense = self.each_post(process, posted, |record, bytes| {
            let is_send = record.kind == kind::SEND;
            if is_send {
                held.extend_from_slice(bytes);
            }
            is_send
        });
        self.processes[process].hold_sends(held);
        makes_sense
    }

    /// Carries out the records for which `keeps` returns false. Stops at a record that makes no
    /// sense, and then returns false.
    fn each_post(&mut self, process: usize, posted: &[u8], mut keeps: impl FnMut(&PostRecord, &[u8]) -> bool) -> bool {
        let mut at = 0;
        while at < posted.len() {
            match parse_post(&posted[at..]) {
                Some((record, entries, inline, len)) => {
                    if !keeps(&record, &posted[at..at + len]) {
                        self.post(process, &record, &entries, inline);
                    }
                    at += len;
                }
                None => return false,
            }
        }
        true
    }

    fn post(&mut self, process: usize, record: &PostRecord, entries: &[PostSge], inline: &[u8]) {
        if record.kind == kind::MAD {
            return self.mad_posted(process, record.object, inline);
        }
        let owner = self.processes[process].number();
        let Ok(hca) = own_hca(self.world, self.processes[process].host(), record.hca) else { return };
        // A lying program cannot post into the past. In wall pace it cannot post into the future
        // either.
        let stamp = if self.scheduler.is_wall() { SimTime::ZERO } else { program_time(record.time_ps).unwrap_or(END) };
        let at = stamp.max(self.scheduler.now()).max(self.world.now());
        // In wall pace the engine reads the rings of receiver and sender in turn, while the clock
        // goes on. A receive request must precede every send that the World has not reached: its
        // sender may know of it.
        let received_at = if self.scheduler.is_wall() { self.world.now() } else { at };
        let qpn = Qpn(record.object);
        match record.kind {
            kind::SEND => {
                let Ok(qp) = self.world.query_qp(owner, hca, qpn) else { return };
                let takes_receive =
                    matches!(record.opcode, opcode::SEND | opcode::SEND_WITH_IMM | opcode::SEND_WITH_INV | opcode::RDMA_WRITE_WITH_IMM);
                let send = convert::send_request(record, entries, inline, qp.init.qp_type);
                self.plane().note_given(hca, &qp, send.as_ref(), takes_receive);
                // The receive requests that the engine has just taken over precede this request.
                let at = at.max(self.scheduler.now());
                if let Some(send) = send {
                    self.world.post_send(at, owner, hca, qpn, send);
                }
            }
            kind::RECEIVE => self.world.post_receive(received_at, owner, hca, qpn, convert::receive_request(record, entries)),
            kind::SRQ_RECEIVE => self.world.post_srq_receive(received_at, owner, SrqHandle(record.object), convert::receive_request(record, entries)),
            kind::CQ_OVERRUN if self.cqs.get(record.object).is_some_and(|cq| cq.process() == process) => {
                self.cqs.mark_overflowed(self.processes, record.object);
                self.world.overflow_cq(at, CqHandle(record.object));
            }
            // The program has waited for this call. All later completions count, even if the World
            // dates them slightly earlier.
            kind::ARM_CQ if self.scheduler.is_wall() => {
                self.world.arm_cq(SimTime::ZERO, owner, CqHandle(record.object), record.flags & 1 != 0);
            }
            kind::ESTABLISHED => {
                let receiver_of = |qp: QpSnapshot| match qp.init.qp_type {
                    QpType::Ud => receiver_of_datagram(self.world, (hca, &qp), record),
                    _ => named_peer(self.world, hca, &qp),
                };
                if let Some((peer_hca, peer)) = self.world.query_qp(owner, hca, qpn).ok().and_then(receiver_of) {
                    self.world.establish(at, peer_hca, peer);
                }
            }
            kind::NOTIFY_OWN => self.plane().notify_own(process, record.object),
            kind::NOTIFY_PEER => self.plane().notify_peer(owner, hca, qpn, record),
            kind::ARM_CQ => self.world.arm_cq(at, owner, CqHandle(record.object), record.flags & 1 != 0),
            _ => {}
        }
    }
}

/// Returns the first record with its entries, inline bytes and length in bytes. Returns `None` for
/// an invalid record.
fn parse_post(bytes: &[u8]) -> Option<(PostRecord, Vec<PostSge>, &[u8], usize)> {
    let record: PostRecord = request(bytes).ok()?;
    let (count, inline_len) = (record.sge_count as usize, record.inline_len as usize);
    if count > bytes.len() || inline_len > bytes.len() {
        return None;
    }
    let len = record_bytes(count, inline_len);
    let rest = bytes.get(size_of::<PostRecord>()..len)?;
    let (entries, tail) = rest.split_at(count * size_of::<PostSge>());
    let entries = entries.chunks_exact(size_of::<PostSge>()).map(bytemuck::pod_read_unaligned).collect();
    Some((record, entries, &tail[..inline_len], len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_with_absurd_counts_is_nonsense_and_not_a_crash() {
        let mut record: PostRecord = bytemuck::Zeroable::zeroed();
        record.sge_count = u32::MAX;
        assert!(parse_post(bytemuck::bytes_of(&record)).is_none());
        record.sge_count = 0;
        record.inline_len = 9;
        assert!(parse_post(bytemuck::bytes_of(&record)).is_none());
        record.inline_len = 0;
        assert!(parse_post(bytemuck::bytes_of(&record)).is_some());
        assert!(parse_post(&bytemuck::bytes_of(&record)[..10]).is_none());
    }
}
