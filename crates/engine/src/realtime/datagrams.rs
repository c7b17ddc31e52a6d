//! Table entries of UD queue pairs, for programs that send datagrams themselves in wall pace
//! (`softband_shm_transport::tables`).

use crate::realtime::room::DataPlane;
use softband_fabric::World;
use softband_ipc::post::{PostRecord, split_path};
use softband_model::verbs::api::QpSnapshot;
use softband_shm_transport::tables::QpEntry;
use softband_types::{CqHandle, HcaId, Lid, QpType, Qpn};
use std::sync::atomic::Ordering;

/// Returns the receiver of a datagram that a program reports as sent by itself.
pub(crate) fn receiver_of_datagram(world: &World, (hca, qp): (HcaId, &QpSnapshot), record: &PostRecord) -> Option<(HcaId, Qpn)> {
    world.hca_reached((hca, qp.port), Lid(split_path(record.path).0)).map(|hca| (hca, Qpn(record.remote_qpn)))
}

impl DataPlane<'_> {
    /// Writes into an entry how datagrams reach a queue pair. Returns whether the entry of a UD
    /// queue pair has changed.
    pub(crate) fn write_datagram_part(&self, entry: &QpEntry, hca: HcaId, qp: &QpSnapshot) -> bool {
        let is_for_datagrams = qp.init.qp_type == QpType::Ud;
        let port = self.world.port(hca, qp.port).filter(|port| is_for_datagrams && port.active && !self.may_meet_faults(hca, qp));
        let fields = [
            (&entry.lid, port.as_ref().map_or(0, |port| u32::from(port.lid.0))),
            (&entry.qkey, qp.qkey.0),
            (&entry.pkey, u32::from(qp.pkey.0)),
            (&entry.mtu_bytes, qp.path_mtu.bytes()),
        ];
        let gid = port.as_ref().and_then(|port| port.gids[0]).map_or(0, |gid| u128::from_be_bytes(gid.0));
        entry.port_guid.store(gid as u64, Ordering::SeqCst); // changes only together with the LID
        let others = fields.into_iter().filter(|(field, value)| field.swap(*value, Ordering::SeqCst) != *value);
        others.count() > 0 && is_for_datagrams
    }

    /// Returns the service level in completions of receives. For a UD queue pair, it only states whether
    /// they have the type of the packet in its place.
    pub(crate) fn level_of_receives(&self, hca: HcaId, qp: &QpSnapshot) -> u16 {
        match qp.init.qp_type {
            QpType::Ud => {
                let (host, index) = self.world.place_of(hca);
                u16::from(self.world.spec().hosts[host].hcas[index].part.optional.states_packet_type)
            }
            _ => u16::from(qp.address_vector.service_level.0),
        }
    }

    /// Returns whether packets of a queue pair may meet a fault. The World then carries them.
    pub(crate) fn may_meet_faults(&self, hca: HcaId, qp: &QpSnapshot) -> bool {
        match qp.init.qp_type {
            QpType::Ud => self.world.is_any_way_affected(hca, qp.port, self.scheduler.now()),
            _ => self.world.is_way_affected((hca, qp.port), qp.address_vector.dlid, self.scheduler.now()),
        }
    }

    /// Returns the completion queues that receive datagrams. An ended process may have been the
    /// sender of any of them.
    pub(crate) fn queues_of_datagrams(&self) -> Vec<CqHandle> {
        let all = self.world.queue_pairs().filter(|(_, _, qp)| qp.init.qp_type == QpType::Ud).map(|(_, _, qp)| qp.init.recv_cq);
        let mut queues: Vec<_> = all.collect();
        queues.sort_unstable();
        queues.dedup();
        queues
    }
}
