//! Values of the verbs boundary with defaults, for callers that set few attributes.

use super::{AddressVector, QpCapabilities, QpInit, QpModification, ReceiveRequest, ScatterGatherEntry, SendOperation, SendRequest};
use softband_types::{Access, CqHandle, Lid, Mtu, PdHandle, PortNumber, Psn, QpState, QpType, Qpn};

impl Default for QpCapabilities {
    /// Returns room for 128 send and 128 receive requests, each with a single entry, and no inline
    /// data.
    fn default() -> Self {
        Self { max_send_wr: 128, max_recv_wr: 128, max_send_sge: 1, max_recv_sge: 1, max_inline_bytes: 0 }
    }
}

impl QpInit {
    /// Returns a queue pair that completes into `cq` on both sides, with the default capabilities.
    /// Only signaled requests give completions. It uses no SRQ.
    pub fn new(qp_type: QpType, pd: PdHandle, cq: CqHandle) -> Self {
        Self {
            qp_type,
            pd,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            xrcd: None,
            capabilities: QpCapabilities::default(),
            signal_all: false,
            block_own_multicast: false,
        }
    }
}

impl SendRequest {
    /// Returns a signaled request. It is not solicited, has no fence and no inline data.
    pub fn new(wr_id: u64, operation: SendOperation, entries: Vec<ScatterGatherEntry>) -> Self {
        Self { wr_id, operation, signaled: true, solicited: false, fence: false, inline: None, entries, datagram: None, xrc_srq: None }
    }
}

impl ReceiveRequest {
    /// Returns a request for a queue pair's own receive queue.
    pub fn new(wr_id: u64, entries: Vec<ScatterGatherEntry>) -> Self {
        Self { wr_id, entries, srq: None }
    }
}

impl QpModification {
    /// Returns the step from Reset to Init of a connected queue pair: its port, the rights of its
    /// peer, and the first P_Key of the port's table.
    pub fn to_init(port: PortNumber, access: Access) -> Self {
        Self { state: Some(QpState::Init), port: Some(port), access: Some(access), pkey_index: Some(0), ..Self::default() }
    }

    /// Returns the step from Init to RTR of a reliable connection over InfiniBand: the LID and QP of
    /// the peer, the path MTU, and the PSN of the first packet expected. `port` is that of this
    /// side.
    ///
    /// The service level is 0. The peer may have a single read outstanding, and waits 0.64 ms after
    /// an RNR NAK (code 12).
    pub fn to_rtr(port: PortNumber, (dlid, dest_qpn): (Lid, Qpn), path_mtu: Mtu, receive_psn: Psn) -> Self {
        Self {
            state: Some(QpState::Rtr),
            address_vector: Some(AddressVector { dlid, port, ..AddressVector::default() }),
            dest_qpn: Some(dest_qpn),
            path_mtu: Some(path_mtu),
            receive_psn: Some(receive_psn),
            max_dest_rd_atomic: Some(1),
            min_rnr_timer: Some(12),
            ..Self::default()
        }
    }

    /// Returns the step from RTR to RTS of a reliable connection: the PSN of the first packet sent.
    ///
    /// The local ACK timeout is 67 ms (code 14), with seven repeats. Repeats after RNR NAKs have no
    /// limit. A single read may be outstanding.
    pub fn to_rts(send_psn: Psn) -> Self {
        Self {
            state: Some(QpState::Rts),
            send_psn: Some(send_psn),
            local_ack_timeout: Some(14),
            retry_count: Some(7),
            rnr_retry: Some(7),
            max_rd_atomic: Some(1),
            ..Self::default()
        }
    }
}
