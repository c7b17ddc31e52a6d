//! The header that a datagram with a global route leaves in front of its data (IBTA 8.3), as the HCA of its receiver would write it.

use crate::post::Data;
use softband_abi::verbs::{ibv_ah_attr, ibv_gid, ibv_grh};
use softband_ipc::post::{GlobalRoute, PostRecord, opcode};

/// Room in front of the data for a global route, whether it has one or not (IBTA 11.4.1.2).
pub(super) const GRH_BYTES: u64 = size_of::<ibv_grh>() as u64;

const VERSION: u32 = 6 << 28;
const FLOW_LABEL_MASK: u32 = 0x000F_FFFF;
/// An InfiniBand transport follows.
const NEXT_HEADER: u8 = 0x1B;
/// What else is counted as payload: base and datagram transport headers, invariant CRC; and immediate data.
const OTHERS_BYTES: u64 = 12 + 8 + 4;
const IMMEDIATE_BYTES: u64 = 4;
/// Every port's (IBTA 4.1.1).
const SUBNET_PREFIX: u64 = 0xFE80_0000_0000_0000;

/// The route that an address handle with these attributes has.
pub(crate) fn route_of(attributes: &ibv_ah_attr) -> GlobalRoute {
    let route = &attributes.grh;
    GlobalRoute {
        // SAFETY: any sixteen bytes are a GID.
        dgid: unsafe { route.dgid.raw },
        first_word: VERSION | u32::from(route.traffic_class) << 20 | route.flow_label & FLOW_LABEL_MASK,
        hop_limit: route.hop_limit,
    }
}

/// The header of a datagram that a port with this GUID sends.
#[inline(never)] // most have none
pub(super) fn header(port_guid: u64, record: &PostRecord, data: &Data<'_>) -> ibv_grh {
    let GlobalRoute { dgid, first_word, hop_limit } = record.route();
    let immediate = if record.opcode == opcode::SEND { 0 } else { IMMEDIATE_BYTES };
    let sgid = u128::from(SUBNET_PREFIX) << 64 | u128::from(port_guid);
    ibv_grh {
        version_tclass_flow: first_word.to_be(),
        // What is too long is sent by nobody. Payload is padded to whole words (IBTA 9.2.3).
        paylen: ((OTHERS_BYTES + immediate + data.len_bytes().next_multiple_of(4)) as u16).to_be(),
        next_hdr: NEXT_HEADER,
        hop_limit,
        sgid: ibv_gid { raw: sgid.to_be_bytes() },
        dgid: ibv_gid { raw: dgid },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_abi::verbs::ibv_global_route;

    #[test]
    fn the_header_is_what_the_wire_would_carry() {
        let dgid = ibv_gid { raw: [0xD0; 16] };
        let grh = ibv_global_route { dgid, flow_label: 0xFFF1_2345, sgid_index: 3, hop_limit: 64, traffic_class: 0xAB };
        let attributes = ibv_ah_attr { grh, dlid: 7, sl: 0, src_path_bits: 0, static_rate: 0, is_global: 1, port_num: 1 };
        let mut record = PostRecord { opcode: opcode::SEND, ..bytemuck::Zeroable::zeroed() };
        record.set_route(&route_of(&attributes));
        let of = |record: &PostRecord, bytes| header(0x0002_C902_0000_0005, record, &Data::Copied(bytes));
        let sent = of(&record, &[0; 5]);
        assert_eq!(u32::from_be(sent.version_tclass_flow), 0x6AB1_2345, "twenty bits of flow label");
        assert_eq!((u16::from_be(sent.paylen), sent.next_hdr, sent.hop_limit), (12 + 8 + 8 + 4, 0x1B, 64), "padded to whole words");
        // SAFETY: any sixteen bytes are a GID.
        let gids = unsafe { (sent.sgid.raw, sent.dgid.raw) };
        assert_eq!(gids, ([0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xC9, 2, 0, 0, 0, 5], [0xD0; 16]));
        record.opcode = opcode::SEND_WITH_IMM;
        assert_eq!(u16::from_be(of(&record, &[]).paylen), 12 + 8 + 4 + 4);
    }
}
