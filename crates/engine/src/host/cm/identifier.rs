//! Connection identifiers (`rdma_cm_id`).

use super::address::Address;
use super::ids::Peer;
use super::link::Link;
use super::path::{LocalPort, Path};
use softband_sim::SimTime;
use softband_types::Psn;
use std::collections::BTreeSet;

/// Port spaces (`enum rdma_ucm_port_space`).
pub(super) const SPACE_IPOIB: u16 = 0x0002;
pub(super) const SPACE_TCP: u16 = 0x0106;
pub(super) const SPACE_UDP: u16 = 0x0111;
pub(super) const SPACE_IB: u16 = 0x013F;
/// Q_Key of services without their own (`RDMA_UDP_QKEY`).
pub(super) const DEFAULT_QKEY: u32 = 0x0123_4567;
/// Q_Key of IPoIB's broadcast group as OpenSM creates it.
pub(super) const IPOIB_QKEY: u32 = 0x0B1B;
/// Types of queue pairs (`enum ibv_qp_type`).
pub(super) const QP_RC: u8 = 2;
pub(super) const QP_UC: u8 = 3;
pub(super) const QP_UD: u8 = 4;
pub(super) const QP_XRC_SEND: u8 = 9;
pub(super) const QP_XRC_RECEIVE: u8 = 10;

/// State as the kernel's `enum rdma_cm_state` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Idle,
    AddressQuery,
    AddressResolved,
    RouteResolved,
    Connect,
    Disconnect,
    Bound,
    Listen,
}

/// An identifier of a program.
#[derive(Debug)]
pub(super) struct Id {
    pub(super) channel: u32,
    pub(super) host: usize,
    /// Number by which the program knows it. Events before it has one are lost.
    pub(super) uid: u64,
    pub(super) space: u16,
    /// Space of the bound port. An address of `AF_IB` can name another than `space`.
    pub(super) port_space: u16,
    pub(super) qp_type: u8,
    pub(super) stage: Stage,
    pub(super) source: Address,
    pub(super) destination: Address,
    /// The port of the bound HCA.
    pub(super) port: Option<LocalPort>,
    /// The port of the peer, after the address is resolved.
    pub(super) peer: Option<LocalPort>,
    /// The peer by which messages find the identifier. [`super::ids::Ids`] sets it.
    pub(super) known_peer: Option<Peer>,
    pub(super) path: Option<Path>,
    pub(super) link: Option<Link>,
    /// Time at which [`Link::pending`] or a state ends.
    pub(super) deadline: Option<SimTime>,
    pub(super) events_reported: u32,
    /// Requests that a listener may still get before its program reads events.
    pub(super) backlog: u32,
    pub(super) psn: Psn,
    pub(super) qkey: u32,
    pub(super) may_share_port: bool,
    pub(super) only_own_family: bool,
    /// Type of service that the program chose: the traffic class of RoCE.
    pub(super) type_of_service: u8,
    /// Local ACK timeout that the program chose.
    pub(super) ack_timeout: Option<u8>,
    /// Its multicast groups, by the number that the program knows.
    pub(super) multicasts: BTreeSet<u32>,
}

impl Id {
    pub(super) fn is_datagram(&self) -> bool {
        self.qp_type == QP_UD
    }

    pub(super) fn service_id(&self, of: &Address) -> u64 {
        of.own_service_id().unwrap_or(u64::from(self.space) << 16 | u64::from(of.port))
    }

    /// Returns the Q_Key of its datagrams. Without one so far, the identifier gets that of its port
    /// space (`cma_set_default_qkey` of the kernel).
    pub(super) fn own_qkey(&mut self) -> u32 {
        if self.qkey == 0 {
            self.qkey = if self.space == SPACE_IPOIB { IPOIB_QKEY } else { DEFAULT_QKEY };
        }
        self.qkey
    }

    /// Returns its place in the table of ports.
    pub(super) fn port_key(&self) -> (usize, u16, u16) {
        (self.host, self.port_space, self.source.port)
    }

    /// Moves on from a stage.
    ///
    /// # Errors
    /// `EINVAL` in another stage.
    pub(super) fn advance(&mut self, from: Stage, to: Stage) -> Result<(), i32> {
        if self.stage != from {
            return Err(libc::EINVAL);
        }
        self.stage = to;
        Ok(())
    }
}

/// Returns the type of queue pairs of a port space.
///
/// # Errors
/// `EINVAL` for an unknown space.
pub(super) fn qp_type_of(space: u16, wanted: u8) -> Result<u8, i32> {
    match space {
        SPACE_TCP => Ok(QP_RC),
        SPACE_UDP | SPACE_IPOIB => Ok(QP_UD),
        SPACE_IB => Ok(wanted),
        _ => Err(libc::EINVAL),
    }
}
