//! A queue pair: its attributes, and the two sides that use them.

use super::requester::Requester;
use super::responder::Responder;
use crate::packet::PacketPool;
use crate::verbs::api::{AddressVector, HostMemory, QpInit, QpModification, QpSnapshot};
use crate::verbs::{ChunkPool, Verbs};
use softband_types::{Access, HcaId, Mtu, PKey, PortLids, PortNumber, ProcessId, Psn, QKey, QpState, Qpn};

/// Side of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Side that sends requests.
    Requester,
    /// Side that answers requests.
    Responder,
}

/// Surroundings that both sides need while they work.
pub struct Environment<'a> {
    /// Objects against which keys and handles are checked.
    pub verbs: &'a mut Verbs,
    /// Memory of programs.
    pub memory: &'a mut dyn HostMemory,
    /// Buffers for payload.
    pub chunks: &'a mut ChunkPool,
    /// Boxes for packets.
    pub packets: &'a mut PacketPool,
    /// LIDs of the QP's port.
    pub lids: PortLids,
}

/// Queue pair: its attributes, and the state machines of both sides.
pub struct QueuePair {
    /// Process that created the QP.
    pub owner: ProcessId,
    /// HCA of the QP.
    pub hca: HcaId,
    /// Attributes as last modified. [`QueuePair::snapshot`] adds the present PSNs.
    pub attributes: QpSnapshot,
    /// Number of resets. Work that was under way before a reset is void after it.
    pub epoch: u32,
    /// State of the send queue.
    pub requester: Requester,
    /// State of the receive queue.
    pub responder: Responder,
}

impl QueuePair {
    /// Creates a QP in state `Reset`.
    pub fn new(owner: ProcessId, hca: HcaId, qpn: Qpn, init: QpInit) -> Self {
        let attributes = initial_attributes(qpn, init);
        Self { owner, hca, attributes, epoch: 0, requester: Requester::default(), responder: Responder::default() }
    }

    /// Applies a modification that has been checked; `next` is the state that it leads to.
    pub fn modify(&mut self, next: QpState, m: &QpModification) {
        if next == QpState::Reset {
            let QpSnapshot { init, qpn, .. } = self.attributes;
            self.attributes = initial_attributes(qpn, init);
            self.epoch += 1;
            self.requester = self.requester.renewed();
            self.responder = Responder::default();
            return;
        }
        let a = &mut self.attributes;
        a.state = next;
        set(&mut a.access, m.access);
        set(&mut a.pkey_index, m.pkey_index);
        set(&mut a.port, m.port);
        set(&mut a.qkey, m.qkey);
        set(&mut a.address_vector, m.address_vector);
        set(&mut a.path_mtu, m.path_mtu);
        set(&mut a.local_ack_timeout, m.local_ack_timeout);
        set(&mut a.retry_count, m.retry_count);
        set(&mut a.rnr_retry, m.rnr_retry);
        set(&mut a.max_rd_atomic, m.max_rd_atomic);
        set(&mut a.max_dest_rd_atomic, m.max_dest_rd_atomic);
        set(&mut a.min_rnr_timer, m.min_rnr_timer);
        set(&mut a.dest_qpn, m.dest_qpn);
        if let Some(psn) = m.receive_psn {
            self.responder.begin_at(psn);
        }
        if let Some(psn) = m.send_psn {
            self.requester.begin_at(psn);
        }
        self.requester.renew_retries(&self.attributes);
    }

    /// Returns the attributes with the present PSNs, as `query_qp` does.
    pub fn snapshot(&self) -> QpSnapshot {
        QpSnapshot {
            receive_psn: self.responder.expected_psn(),
            send_psn: self.requester.next_psn(),
            send_queue_draining: self.attributes.state == QpState::Sqd && !self.requester.is_drained(),
            ..self.attributes
        }
    }
}

fn set<T>(attribute: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *attribute = value;
    }
}

fn initial_attributes(qpn: Qpn, init: QpInit) -> QpSnapshot {
    QpSnapshot {
        init,
        qpn,
        state: QpState::Reset,
        access: Access::default(),
        pkey_index: 0,
        pkey: PKey::DEFAULT_FULL,
        port: PortNumber(0),
        qkey: QKey(0),
        address_vector: AddressVector::default(),
        path_mtu: Mtu::B256,
        local_ack_timeout: 0,
        retry_count: 0,
        rnr_retry: 0,
        receive_psn: Psn::new(0),
        send_psn: Psn::new(0),
        max_rd_atomic: 0,
        max_dest_rd_atomic: 0,
        min_rnr_timer: 0,
        dest_qpn: Qpn(0),
        send_queue_draining: false,
    }
}
