//! The header before the data of a datagram with a global route (IBTA 8.3; annex A17 on Ethernet),
//! as the receiver's HCA would write it.

use crate::post::Data;
use softband_abi::verbs::{ibv_ah_attr, ibv_grh};
use softband_ipc::post::{GlobalRoute, ON_ETHERNET, PostRecord, opcode};
use softband_types::Gid;
use softband_wire::ethernet::{self, Way};

/// Room before the data for a global route, used or not (IBTA 11.4.1.2).
pub(super) const GRH_BYTES: u64 = size_of::<ibv_grh>() as u64;

const VERSION: u32 = 6 << 28;
const FLOW_LABEL_MASK: u32 = 0x000F_FFFF;
/// Value for a following InfiniBand transport.
const NEXT_HEADER: u8 = 0x1B;
/// Other bytes that count as payload: base and datagram transport headers and invariant CRC; below,
/// immediate data.
const OTHERS_BYTES: u64 = 12 + 8 + 4;
const IMMEDIATE_BYTES: u64 = 4;
/// Subnet prefix of all ports (IBTA 4.1.1).
const SUBNET_PREFIX: u64 = 0xFE80_0000_0000_0000;

/// Returns the route of an address handle with these attributes.
pub(crate) fn route_of(attributes: &ibv_ah_attr, source_ipv4: u32) -> GlobalRoute {
    let route = &attributes.grh;
    GlobalRoute {
        // SAFETY: any sixteen bytes are a GID.
        dgid: unsafe { route.dgid.raw },
        first_word: VERSION | u32::from(route.traffic_class) << 20 | route.flow_label & FLOW_LABEL_MASK,
        hop_limit: route.hop_limit,
        source_ipv4,
    }
}

/// Returns the header of a datagram from a port with this GUID.
#[inline(never)] // most have none
pub(super) fn header(port_guid: u64, record: &PostRecord, data: &Data<'_>) -> [u8; GRH_BYTES as usize] {
    let GlobalRoute { dgid, first_word, hop_limit, source_ipv4 } = record.route();
    let immediate = if record.opcode == opcode::SEND { 0 } else { IMMEDIATE_BYTES };
    // The caller rejects datagrams longer than the MTU. Payload is padded to whole words (IBTA 9.2.3).
    let transport_bytes = OTHERS_BYTES + immediate + data.len_bytes().next_multiple_of(4);
    let sgid = (u128::from(SUBNET_PREFIX) << 64 | u128::from(port_guid)).to_be_bytes();
    if record.path & ON_ETHERNET != 0 {
        let source = if source_ipv4 == 0 { Gid(sgid) } else { Gid::of_ipv4(source_ipv4.to_be_bytes()) };
        let way = Way { traffic_class: (first_word >> 20) as u8, flow_label: first_word & FLOW_LABEL_MASK, hop_limit };
        return ethernet::route_header(source, Gid(dgid), way, transport_bytes as u32);
    }
    let mut bytes = [0; GRH_BYTES as usize];
    bytes[..4].copy_from_slice(&first_word.to_be_bytes());
    bytes[4..6].copy_from_slice(&(transport_bytes as u16).to_be_bytes());
    (bytes[6], bytes[7]) = (NEXT_HEADER, hop_limit);
    bytes[8..24].copy_from_slice(&sgid);
    bytes[24..].copy_from_slice(&dgid);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_abi::verbs::{ibv_gid, ibv_global_route};

    #[test]
    fn the_header_is_what_the_wire_would_carry() {
        let dgid = ibv_gid { raw: [0xD0; 16] };
        let grh = ibv_global_route { dgid, flow_label: 0xFFF1_2345, sgid_index: 3, hop_limit: 64, traffic_class: 0xAB };
        let attributes = ibv_ah_attr { grh, dlid: 7, sl: 0, src_path_bits: 0, static_rate: 0, is_global: 1, port_num: 1 };
        let mut record = PostRecord { opcode: opcode::SEND, ..bytemuck::Zeroable::zeroed() };
        record.set_route(&route_of(&attributes, 0));
        let of = |record: &PostRecord, bytes| {
            let header = header(0x0002_C902_0000_0005, record, &Data::Copied(bytes));
            // SAFETY: any forty bytes are a GRH.
            unsafe { std::mem::transmute::<[u8; 40], ibv_grh>(header) }
        };
        let sent = of(&record, &[0; 5]);
        assert_eq!(u32::from_be(sent.version_tclass_flow), 0x6AB1_2345, "twenty bits of flow label");
        assert_eq!((u16::from_be(sent.paylen), sent.next_hdr, sent.hop_limit), (12 + 8 + 8 + 4, 0x1B, 64), "padded to whole words");
        // SAFETY: any sixteen bytes are a GID.
        let gids = unsafe { (sent.sgid.raw, sent.dgid.raw) };
        assert_eq!(gids, ([0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xC9, 2, 0, 0, 0, 5], [0xD0; 16]));
        record.opcode = opcode::SEND_WITH_IMM;
        assert_eq!(u16::from_be(of(&record, &[]).paylen), 12 + 8 + 4 + 4);
    }

    #[test]
    fn on_ethernet_it_is_an_ip_header() {
        let source_ipv4 = 0x0A4D_0001;
        let route = GlobalRoute { dgid: Gid::of_ipv4([10, 77, 0, 2]).0, first_word: VERSION | 0x0AB0_0000, hop_limit: 64, source_ipv4 };
        let mut record = PostRecord { opcode: opcode::SEND, path: ON_ETHERNET, ..bytemuck::Zeroable::zeroed() };
        record.set_route(&route);
        let bytes = header(5, &record, &Data::Copied(&[0; 5]));
        assert_eq!((bytes[0], bytes[20], bytes[21], bytes[29]), (0, 0x45, 0xAB, 17));
        assert_eq!(u16::from_be_bytes([bytes[22], bytes[23]]), 20 + 8 + 12 + 8 + 8 + 4);
        assert_eq!(bytes[32..], [10, 77, 0, 1, 10, 77, 0, 2]);
    }
}
