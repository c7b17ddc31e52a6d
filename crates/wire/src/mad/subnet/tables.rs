//! Tables of a port or switch, in blocks of a datagram's size.

use crate::mad::layout::layout;
use softband_types::{Guid, PKey, PortNumber, VirtualLane};

layout! {
    /// Block of a port's GUIDs (IBTA 14.2.5.5). The attribute modifier is the block.
    pub struct GuidInfo: 64 bytes {
        /// GUIDs. The first of block 0 is read-only.
        guids: [Guid; 8] @ 0, 512;
    }
}

layout! {
    /// Block of a port's P_Key table (IBTA 14.2.5.7). The attribute modifier is the block, and of a
    /// switch also the port, in the upper 16 bits.
    pub struct PKeyTable: 64 bytes {
        /// P_Keys. Partition 0 marks an unused entry.
        p_keys: [PKey; 32] @ 0, 512;
    }
}

layout! {
    /// Lane of each SL (IBTA 14.2.5.8). In a switch, the attribute modifier has the input port in
    /// bits 15 to 8 and the output port in bits 7 to 0.
    pub struct SlToVlMappingTable: 8 bytes {
        /// Lanes by SL. A port discards packets whose lane is 15.
        vls: [VirtualLane; 16] @ 0, 64;
    }
}

layout! {
    /// Entry of an arbitration table.
    pub struct VlWeight: 2 bytes {
        /// Lane.
        vl: VirtualLane @ 4, 4;
        /// Bytes in units of 64. The port skips an entry of weight 0.
        weight: u8 @ 8, 8;
    }
}

layout! {
    /// Half of an arbitration table (IBTA 14.2.5.9). Bits 31 to 16 of the attribute modifier select
    /// the half: 1 and 2 of the low priority, 3 and 4 of the high.
    pub struct VlArbitrationTable: 64 bytes {
        /// Entries in the order of service.
        entries: [VlWeight; 32] @ 0, 512;
    }
}

layout! {
    /// Block of a linear forwarding table (IBTA 14.2.5.10). The attribute modifier is the block.
    pub struct LinearForwardingTable: 64 bytes {
        /// Output ports by LID: block n begins with LID 64 n. A switch discards packets to port
        /// 255.
        ports: [PortNumber; 64] @ 0, 512;
    }
}

layout! {
    /// Block of a multicast forwarding table (IBTA 14.2.5.12). The attribute modifier has the
    /// position of the 16 ports in bits 31 to 28, and the block in bits 8 to 0.
    pub struct MulticastForwardingTable: 64 bytes {
        /// Masks by multicast LID: block n begins with LID 0xC000 + 32 n. Bit i is port 16 position
        /// + i.
        port_masks: [u16; 32] @ 0, 512;
    }
}

#[cfg(test)]
mod tests {
    use super::{PKeyTable, SlToVlMappingTable, VlArbitrationTable, VlWeight};
    use crate::mad::Layout;
    use softband_types::{PKey, VirtualLane};

    #[test]
    fn two_service_levels_share_a_byte() {
        let table = SlToVlMappingTable { vls: std::array::from_fn(|sl| VirtualLane(sl as u8)) };
        assert_eq!(table.to_bytes(), [0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF]);
    }

    #[test]
    fn an_arbitration_entry_is_a_lane_and_a_weight() {
        let mut table = VlArbitrationTable::default();
        table.entries[1] = VlWeight { vl: VirtualLane(14), weight: 200 };
        assert_eq!(table.to_bytes()[..4], [0, 0, 0x0E, 200]);
        assert_eq!(VlArbitrationTable::view(&table.to_bytes()).entries()[1], table.entries[1]);
    }

    #[test]
    fn a_block_has_32_p_keys() {
        let mut bytes = [0; 64];
        bytes[62..].copy_from_slice(&[0xFF, 0xFF]);
        assert_eq!(PKeyTable::parse(&bytes).unwrap().p_keys[31], PKey::DEFAULT_FULL);
    }
}
