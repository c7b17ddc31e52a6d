//! Objects of an HCA for the connections of an interface, and queue pairs.

use crate::host::kernel::ipoib::Place;
use crate::host::kernel::store::SPAN_BYTES;
use softband_fabric::World;
use softband_model::verbs::api::{AddressVector, MrInit, QpCapabilities, QpInit, QpModification, VerbsError};
use softband_net::sdp::{RECEIVE_BUFFERS, SEND_MESSAGES, source_address};
use softband_sim::SimTime;
use softband_types::{Access, CqHandle, HcaId, LKey, Lid, Mtu, PdHandle, PortNumber, Psn, QpType, Qpn, RKey};

/// Requests besides messages: the end of the connection, a read, and spare requests.
const OTHER_SENDS: u32 = 8;
/// Mark of the addresses of connections in the kernel's memory: buffers, and sources behind them.
pub(super) const OF_SDP: u64 = 1 << 47;

/// Protection domain of an interface's connections, and the keys of the kernel's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Objects {
    pub(super) pd: PdHandle,
    /// Key of the own buffers.
    pub(super) lkey: LKey,
    /// Key of announced sources, which peers know.
    pub(super) rkey: RKey,
}

/// Queue pair of a connection with its completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) qpn: Qpn,
    pub(super) cq: CqHandle,
    /// First packet sequence number that it sends.
    psn: Psn,
}

/// Place of a queue pair, as its peer needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PairAddress {
    pub(super) port: (HcaId, PortNumber),
    qpn: Qpn,
    psn: Psn,
}

impl Objects {
    pub(super) fn new(place: &Place, world: &mut World) -> Result<Self, VerbsError> {
        let pd = world.alloc_pd(place.owner, place.hca)?;
        let sources = source_address(0);
        let region = |start: u64, end: u64, access| MrInit { owner: place.owner, pd, address: start, len_bytes: end - start, iova: start, access };
        let own = region(OF_SDP, sources, Access { local_write: true, ..Access::default() });
        let shared = region(sources, SPAN_BYTES, Access { remote_read: true, ..Access::default() });
        // The key that peers get opens no other memory of the kernel.
        let (_, lkey, _) = world.register_mr(place.hca, own)?;
        let (_, _, rkey) = world.register_mr(place.hca, shared)?;
        Ok(Self { pd, lkey, rkey })
    }
}

impl Pair {
    /// Creates a queue pair in the state Init.
    pub(super) fn new(place: &Place, objects: &Objects, psn: Psn, world: &mut World, now: SimTime) -> Option<Self> {
        let Place { owner, hca, port, pkey, .. } = *place;
        let cq = world.create_cq(owner, hca, RECEIVE_BUFFERS + SEND_MESSAGES + OTHER_SENDS).ok()?;
        let capabilities =
            QpCapabilities { max_send_wr: SEND_MESSAGES + OTHER_SENDS, max_recv_wr: RECEIVE_BUFFERS, max_send_sge: 2, ..QpCapabilities::default() };
        let init = QpInit { capabilities, ..QpInit::new(QpType::Rc, objects.pd, cq) };
        let Ok(made) = world.create_qp(owner, hca, init) else {
            // A queue of this owner without users exists until it is destroyed here.
            let _ = world.destroy_cq(owner, cq);
            return None;
        };
        let pair = Self { qpn: made.qpn, cq, psn };
        let pkey_index = world.pkeys(hca).iter().position(|key| key.partition() == pkey.partition()).unwrap_or(0) as u16;
        let access = Access { remote_read: true, ..Access::default() };
        let to_init = QpModification { pkey_index: Some(pkey_index), ..QpModification::to_init(port, access) };
        if world.modify_qp(now, owner, hca, pair.qpn, &to_init).is_err() {
            pair.destroy(place, world, now);
            return None;
        }
        Some(pair)
    }

    pub(super) fn address(&self, place: &Place) -> PairAddress {
        PairAddress { port: (place.hca, place.port), qpn: self.qpn, psn: self.psn }
    }

    /// Connects the queue pair to another one.
    pub(super) fn connect(&self, place: &Place, (lid, peer): (Lid, PairAddress), mtu: Mtu, world: &mut World, now: SimTime) -> Option<()> {
        let Place { owner, hca, port, .. } = *place;
        let vector = world.resolve(hca, &AddressVector { dlid: lid, port, ..AddressVector::default() }).ok()?;
        let to_rtr = QpModification { address_vector: Some(vector), ..QpModification::to_rtr(port, (lid, peer.qpn), mtu, peer.psn) };
        for step in [to_rtr, QpModification::to_rts(self.psn)] {
            world.modify_qp(now, owner, hca, self.qpn, &step).ok()?;
        }
        Some(())
    }

    pub(super) fn destroy(&self, place: &Place, world: &mut World, now: SimTime) {
        // Objects of this owner exist until they are destroyed here.
        let _ = world.destroy_qp(now, place.owner, place.hca, self.qpn);
        let _ = world.destroy_cq(place.owner, self.cq);
    }
}
