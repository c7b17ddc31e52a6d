//! INIT_QP_ATTR: the attributes by which a program changes the state of its queue pair.

use super::events::address_vector;
use super::fields::Structure;
use super::identifier::{Id, QP_RC, QP_XRC_RECEIVE, QP_XRC_SEND};
use super::link::{Link, State};

/// Bytes of `struct ib_uverbs_qp_attr`.
const ATTRIBUTES_BYTES: usize = 144;
/// `enum ibv_qp_state`.
const INIT: u32 = 1;
const RTR: u32 = 2;
const RTS: u32 = 3;
const STATE_MAX: u32 = 6;
/// `enum ibv_access_flags`.
const REMOTE_WRITE: u32 = 2;
const REMOTE_READ_AND_ATOMIC: u32 = 4 | 8;

/// `enum ibv_qp_attr_mask`.
mod mask {
    pub(super) const STATE: u32 = 1;
    pub(super) const ACCESS_FLAGS: u32 = 1 << 3;
    pub(super) const PKEY_INDEX: u32 = 1 << 4;
    pub(super) const PORT: u32 = 1 << 5;
    pub(super) const QKEY: u32 = 1 << 6;
    pub(super) const AV: u32 = 1 << 7;
    pub(super) const PATH_MTU: u32 = 1 << 8;
    pub(super) const TIMEOUT: u32 = 1 << 9;
    pub(super) const RETRY_CNT: u32 = 1 << 10;
    pub(super) const RNR_RETRY: u32 = 1 << 11;
    pub(super) const RQ_PSN: u32 = 1 << 12;
    pub(super) const MAX_QP_RD_ATOMIC: u32 = 1 << 13;
    pub(super) const MIN_RNR_TIMER: u32 = 1 << 15;
    pub(super) const SQ_PSN: u32 = 1 << 16;
    pub(super) const MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
    pub(super) const DEST_QPN: u32 = 1 << 20;
}

impl Id {
    /// Returns the attributes for a state, with their mask.
    ///
    /// # Errors
    /// `EINVAL` without an HCA, or if the handshake has not got that far.
    pub(super) fn qp_attributes(&mut self, state: u32) -> Result<Structure, i32> {
        let port = self.port.ok_or(libc::EINVAL)?;
        if state > STATE_MAX {
            return Err(libc::EINVAL);
        }
        let mut attributes = Structure::of(ATTRIBUTES_BYTES);
        attributes.u32(4, state).u16(124, port.pkey_index);
        let of_port = mask::STATE | mask::PKEY_INDEX | mask::PORT;
        let link = self.link.as_ref().filter(|_| !self.is_datagram());
        let bits = match (link, state) {
            (None, _) if self.is_datagram() => {
                attributes.u8(133, port.port.0).u32(20, self.own_qkey());
                of_port | mask::QKEY
            }
            (None, _) => {
                attributes.u8(133, port.port.0);
                of_port | mask::ACCESS_FLAGS
            }
            (Some(link), INIT) => {
                link.state.is_under_way(false)?;
                let reads = if link.responder_resources > 0 { REMOTE_READ_AND_ATOMIC } else { 0 };
                attributes.u8(133, port.port.0).u32(36, REMOTE_WRITE | reads);
                of_port | mask::ACCESS_FLAGS
            }
            (Some(link), RTR) => self.receiving(link, &mut attributes)?,
            (Some(link), RTS) => self.sending(link, &mut attributes)?,
            _ => return Err(libc::EINVAL),
        };
        attributes.u32(0, bits);
        Ok(attributes)
    }

    fn receiving(&self, link: &Link, attributes: &mut Structure) -> Result<u32, i32> {
        link.state.is_under_way(true)?;
        attributes.u32(12, link.path.mtu.0.into()).u32(24, self.psn.value()).u32(32, link.remote_qpn.0);
        address_vector(attributes, 40, &link.path);
        let bits = mask::STATE | mask::AV | mask::PATH_MTU | mask::DEST_QPN | mask::RQ_PSN;
        if !matches!(self.qp_type, QP_RC | QP_XRC_RECEIVE) {
            return Ok(bits);
        }
        attributes.u8(131, link.responder_resources);
        Ok(bits | mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER)
    }

    fn sending(&self, link: &Link, attributes: &mut Structure) -> Result<u32, i32> {
        link.state.is_under_way(true)?;
        attributes.u32(28, link.send_psn.value());
        let mut bits = mask::STATE | mask::SQ_PSN;
        if matches!(self.qp_type, QP_RC | QP_XRC_SEND) {
            attributes.u8(130, link.initiator_depth).u8(135, link.retry_count).u8(136, link.rnr_retry_count);
            bits |= mask::RETRY_CNT | mask::RNR_RETRY | mask::MAX_QP_RD_ATOMIC;
        }
        if matches!(self.qp_type, QP_RC | QP_XRC_SEND | QP_XRC_RECEIVE) {
            attributes.u8(134, self.ack_timeout.unwrap_or(link.ack_timeout));
            bits |= mask::TIMEOUT;
        }
        Ok(bits)
    }
}

impl State {
    /// Checks that a handshake is under way, and with `knows_peer` that its peer's queue pair is known.
    fn is_under_way(self, knows_peer: bool) -> Result<(), i32> {
        match self {
            Self::ReqSent if !knows_peer => Ok(()),
            Self::ReqReceived | Self::RepSent | Self::RepReceived | Self::Established => Ok(()),
            _ => Err(libc::EINVAL),
        }
    }
}
