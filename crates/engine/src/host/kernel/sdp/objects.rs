//! Objects of an HCA for the connections of an interface, and queue pairs.

use crate::host::kernel::ipoib::Place;
use softband_fabric::World;
use softband_model::verbs::api::{AddressVector, MrInit, QpCapabilities, QpInit, QpModification, VerbsError};
use softband_net::sdp::{RECEIVE_BUFFERS, SEND_MESSAGES};
use softband_sim::SimTime;
use softband_types::{Access, CqHandle, LKey, Lid, Mtu, PdHandle, Psn, QpType, Qpn, RKey};

/// Requests besides messages: the one that ends the connection, a read, and some to spare.
const OTHER_SENDS: u32 = 8;

/// Protection domain of an interface's connections, and the key of the kernel's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Objects {
    pub(super) pd: PdHandle,
    pub(super) lkey: LKey,
    pub(super) rkey: RKey,
}

/// Queue pair of a connection with its completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) qpn: Qpn,
    pub(super) cq: CqHandle,
}

impl Objects {
    pub(super) fn new(place: &Place, world: &mut World) -> Result<Self, VerbsError> {
        let pd = world.alloc_pd(place.owner, place.hca)?;
        let access = Access { local_write: true, remote_read: true, ..Access::default() };
        let init = MrInit { owner: place.owner, pd, address: 0, len_bytes: crate::host::kernel::store::SPAN_BYTES, iova: 0, access };
        let (_, lkey, rkey) = world.register_mr(place.hca, init)?;
        Ok(Self { pd, lkey, rkey })
    }
}

impl Pair {
    /// Creates a queue pair in the state Init.
    pub(super) fn new(place: &Place, objects: &Objects, world: &mut World, now: SimTime) -> Option<Self> {
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
        let pair = Self { qpn: made.qpn, cq };
        let pkey_index = world.pkeys(hca).iter().position(|key| key.partition() == pkey.partition()).unwrap_or(0) as u16;
        let access = Access { remote_read: true, ..Access::default() };
        let to_init = QpModification { pkey_index: Some(pkey_index), ..QpModification::to_init(port, access) };
        if world.modify_qp(now, owner, hca, pair.qpn, &to_init).is_err() {
            pair.destroy(place, world, now);
            return None;
        }
        Some(pair)
    }

    /// Connects the queue pair to another one.
    pub(super) fn connect(&self, place: &Place, (lid, qpn): (Lid, Qpn), mtu: Mtu, world: &mut World, now: SimTime) -> Option<()> {
        let Place { owner, hca, port, .. } = *place;
        let vector = world.resolve(hca, &AddressVector { dlid: lid, port, ..AddressVector::default() }).ok()?;
        let to_rtr = QpModification { address_vector: Some(vector), ..QpModification::to_rtr(port, (lid, qpn), mtu, Psn::new(0)) };
        for step in [to_rtr, QpModification::to_rts(Psn::new(0))] {
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
