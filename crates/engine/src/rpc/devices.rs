//! The HCAs of a host and their ports.

use crate::host::ports::{abi_lid, interface};
use crate::protocol::Caller;
use crate::protocol::convert;
use crate::rpc::room::Verbs;
use softband_ipc::calls::{Device, DeviceList, PortQuery, PortReply, WithTail};
use softband_spec::HcaSpec;
use softband_types::{HcaId, LinkLayer, PortNumber};

impl Verbs<'_> {
    pub(crate) fn device_list(&mut self, caller: Caller, (): &()) -> Result<WithTail<DeviceList, Device>, i32> {
        let host = self.processes[caller.process].host();
        let devices = self.world.spec().hosts[host].verbs_devices();
        let tail: Vec<Device> = devices.map(|(index, spec)| device(self.world.hca_id(host, index), spec)).collect();
        Ok(WithTail { head: DeviceList { count: tail.len() as u32, reserved: 0 }, tail })
    }

    pub(crate) fn port_query(&mut self, caller: Caller, query: &PortQuery) -> Result<PortReply, i32> {
        let hca = self.own_hca(caller, query.hca)?;
        let number = u8::try_from(query.port).map_err(|_| libc::EINVAL)?;
        let port = self.world.port(hca, PortNumber(number)).ok_or(libc::EINVAL)?;
        let mut pkeys = [0; 32];
        for (entry, key) in pkeys.iter_mut().zip(self.world.pkeys(hca)) {
            *entry = key.0;
        }
        Ok(PortReply {
            state: convert::state_code(port.state).into(),
            lid: u32::from(abi_lid(port.link_layer, port.lid).0),
            lmc: u32::from(port.lmc.value()),
            sm_lid: u32::from(abi_lid(port.link_layer, port.sm_lid).0),
            mtu_max_code: convert::mtu_code(port.mtu_max),
            mtu_active_code: convert::mtu_code(port.mtu_active),
            vl_cap_code: if port.link_layer == LinkLayer::Ethernet { 0 } else { u32::from(port.vl_cap.code()) },
            width_code: u32::from(port.rate.width.code()),
            speed_code: convert::speed_code(port.link_layer, port.rate.speed),
            physical_state: convert::physical_state_code(port.state, port.is_disabled).into(),
            pkey_count: self.world.pkeys(hca).len() as u32,
            link_layer: convert::link_layer_code(port.link_layer),
            interface_index: interface(self.world, PortNumber(number), &port).filter(|_| port.active).map_or(0, |(_, index)| index),
            gid_count: port.gids.iter().flatten().count() as u32,
            gids: port.gids.map(|gid| gid.unwrap_or_default().0),
            pkeys,
        })
    }
}

fn device(hca: HcaId, spec: &HcaSpec) -> Device {
    let part = &spec.part;
    Device {
        hca: hca.0,
        vendor_id: part.vendor_id,
        vendor_part_id: part.vendor_part_id,
        hardware_version: part.hardware_version,
        node_guid: spec.node_guid.0,
        name: padded(&spec.device),
        firmware_version: padded(&part.firmware_version),
        board_id: padded(&part.board_id),
        ports: u32::from(part.ports),
        max_qp: part.max_qp,
        max_qp_wr: part.max_qp_wr,
        max_sge: part.max_sge,
        max_cq: part.max_cq,
        max_cqe: part.max_cqe,
        max_mr: part.max_mr,
        max_pd: part.max_pd,
        max_ah: part.max_ah,
        max_inline: part.max_inline_bytes,
        max_rd_atomic: part.max_rd_atomic,
        max_srq: part.optional.max_srq,
        max_srq_wr: part.optional.max_srq_wr,
        max_srq_sge: part.optional.max_srq_sge,
        max_xrcd: part.optional.max_xrcd,
        max_mw: part.optional.max_mw,
        max_multicast_groups: part.optional.max_multicast_groups,
        max_multicast_members: part.optional.max_multicast_members,
        // At least the entries of its first port.
        gid_table_len: part.optional.gid_table_len.max(if spec.link_layer == LinkLayer::Ethernet { 2 } else { 1 }),
        on_demand_paging: u32::from(part.optional.on_demand_paging),
        atomic_write: u32::from(part.optional.atomic_write),
        doorbell_carries_wqe: u32::from(part.entries.doorbell_carries_wqe),
    }
}

fn padded(text: &str) -> [u8; 64] {
    let mut bytes = [0; 64];
    let len = text.len().min(63);
    bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
    bytes
}
