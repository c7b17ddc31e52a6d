//! Membership of an interface in the broadcast group of its partition.

use super::address::{BROADCAST_QKEY, SCOPE, broadcast_group};
use super::paths::PortPaths;
use super::{CLIENT_REREGISTER, Common, IpoibLink, LID_CHANGE, PORT_ACTIVE, PORT_ERROR};
use crate::host::cm::memberships::Wish;
use crate::host::cm::path::LocalPort;
use softband_fabric::World;
use softband_model::verbs::api::{AddressVector, GlobalRoute, QpModification};
use softband_sim::SimTime;
use softband_types::{Lid, PKey};
use softband_wire::mad::{ComponentMask, JoinState, McMemberRecord};

/// Components of the join to a group that exists: its creator has chosen the others
/// (`ipoib_mcast_join` of the kernel).
const JOIN: ComponentMask = ComponentMask(
    ComponentMask::MC_MEMBER_MGID.0 | ComponentMask::MC_MEMBER_PORT_GID.0 | ComponentMask::MC_MEMBER_P_KEY.0 | ComponentMask::MC_MEMBER_JOIN_STATE.0,
);
/// Components of the join that may create the group (IBTA o15-0.2.3).
const CREATE: ComponentMask = ComponentMask(
    JOIN.0
        | ComponentMask::MC_MEMBER_Q_KEY.0
        | ComponentMask::MC_MEMBER_SL.0
        | ComponentMask::MC_MEMBER_FLOW_LABEL.0
        | ComponentMask::MC_MEMBER_TCLASS.0,
);

impl IpoibLink {
    /// Asks subnet administration for membership, unless the port is not active.
    pub(in crate::host::kernel) fn join(&mut self, world: &World, common: &mut Common, now: SimTime) {
        if let Some(port) = self.local_port(world) {
            let record = McMemberRecord {
                mgid: broadcast_group(self.place.pkey),
                port_gid: port.gid,
                q_key: BROADCAST_QKEY,
                p_key: PKey(self.place.pkey.0 | 0x8000),
                scope: SCOPE,
                join_state: JoinState::FULL_MEMBER,
                ..McMemberRecord::default()
            };
            let wish = |creates| Wish { record, mask: if creates { CREATE } else { JOIN } };
            common.join((self.place.host, self.place.interface), port, wish, now);
        }
    }

    /// Returns the facts about the port of the interface, if a subnet manager has made it active.
    pub(super) fn local_port(&self, world: &World) -> Option<LocalPort> {
        let super::Place { host, hca, port, pkey, .. } = self.place;
        let snapshot = world.port(hca, port).filter(|port| port.active && port.sm_lid != Lid::NONE)?;
        let (node_guid, gid) = (world.node_guid(hca), snapshot.gids[0]?);
        let (lid, sm_lid) = (snapshot.lid, snapshot.sm_lid);
        // Requests to administration have the default key of the port's table.
        let first = world.pkeys(hca).first().copied().unwrap_or(pkey);
        Some(LocalPort { host, hca, port, lid, gid, gid_index: 0, interface: None, node_guid, pkey: first, pkey_index: 0, sm_lid })
    }

    /// Notes the membership, and sends the packets that waited for it.
    pub(in crate::host::kernel) fn joined(&mut self, world: &mut World, common: &mut Common, now: SimTime, record: &McMemberRecord) {
        let super::Place { owner, hca, port, .. } = self.place;
        let (flow_label, traffic_class) = (record.flow_label, record.tclass);
        let grh = Some(GlobalRoute { dgid: record.mgid, hop_limit: record.hop_limit, flow_label, traffic_class, ..GlobalRoute::default() });
        let vector = AddressVector { dlid: record.mlid, service_level: record.sl, port, grh, ..AddressVector::default() };
        let is_attached = world.attach_multicast(owner, hca, self.qpn, record.mgid, record.mlid).is_ok();
        // All packets of the interface have the key of the group (RFC 4391, 4).
        let with_key = QpModification { qkey: Some(record.q_key), ..QpModification::default() };
        let _ = world.modify_qp(now, owner, hca, self.qpn, &with_key);
        self.qkey = record.q_key;
        self.has_given_up = false;
        let group = world.create_ah(owner, self.pd, vector).ok().filter(|_| is_attached);
        if let Some(old) = std::mem::replace(&mut self.group, group) {
            self.retire(old);
        }
        self.send_waiting(world, common, now);
    }

    /// Notes that the interface stays without membership: it has no carrier, and packets are lost.
    pub(in crate::host::kernel) fn give_up(&mut self, common: &mut Common, now: SimTime) {
        self.has_given_up = true;
        self.drop_waiting(common, now);
    }

    /// Notes an event of the port.
    pub(in crate::host::kernel) fn port_event(&mut self, world: &mut World, common: &mut Common, now: SimTime, event: u32) {
        if [PORT_ERROR, LID_CHANGE, CLIENT_REREGISTER].contains(&event) {
            common.memberships.lose((self.place.hca, self.place.port), now);
            let handles = std::mem::take(&mut self.handles);
            let by_path: Vec<_> = self.paths.iter_mut().flat_map(PortPaths::forget).collect();
            common.paths.forget((self.place.host, self.place.interface));
            for handle in handles.into_values().map(|neighbour| neighbour.handle).chain(by_path).chain(self.group.take()) {
                self.retire(handle);
            }
            self.destroy_retired(world);
        }
        if event == LID_CHANGE {
            self.fail_connections(world, common, now);
        }
        self.has_given_up = false;
        common.failed_joins.remove(&(self.place.host, self.place.interface));
        match event {
            PORT_ERROR => self.drop_waiting(common, now),
            PORT_ACTIVE | LID_CHANGE | CLIENT_REREGISTER if self.group.is_none() => self.join(world, common, now),
            _ => {}
        }
    }
}
