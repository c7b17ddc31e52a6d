//! Records of the SA that hold an attribute of subnet management (IBTA 15.2.5).

use crate::mad::layout::layout;
use crate::mad::subnet::{
    GuidInfo, LinearForwardingTable, MulticastForwardingTable, NodeDescription, NodeInfo, PKeyTable, PortInfo, SlToVlMappingTable, SmInfo,
    SwitchInfo, VlArbitrationTable,
};
use softband_types::{Lid, PortNumber};

layout! {
    /// A node and a port of it (IBTA 15.2.5.2).
    pub struct NodeRecord: 108 bytes {
        /// LID of the port.
        lid: Lid @ 0, 16;
        /// The node.
        node_info: NodeInfo @ 32, 320;
        /// The node in words.
        node_description: NodeDescription @ 352, 512;
    }
}

layout! {
    /// A port (IBTA 15.2.5.3).
    pub struct PortInfoRecord: 68 bytes {
        /// LID of the port or of the switch's port 0.
        end_port_lid: Lid @ 0, 16;
        /// Number of the port.
        port_num: PortNumber @ 16, 8;
        /// In a request, bit 7 compares only the set bits of the capability mask.
        options: u8 @ 24, 8;
        /// The port.
        port_info: PortInfo @ 32, 512;
    }
}

layout! {
    /// Lane of each SL between two ports (IBTA 15.2.5.4).
    pub struct SlToVlMappingTableRecord: 16 bytes {
        /// LID of the port or of the switch's port 0.
        lid: Lid @ 0, 16;
        /// Input port of a switch.
        input_port_num: PortNumber @ 16, 8;
        /// Output port of a switch.
        output_port_num: PortNumber @ 24, 8;
        /// The table.
        sl_to_vl_mapping_table: SlToVlMappingTable @ 64, 64;
    }
}

layout! {
    /// A switch (IBTA 15.2.5.5).
    pub struct SwitchInfoRecord: 24 bytes {
        /// LID of the switch.
        lid: Lid @ 0, 16;
        /// The switch.
        switch_info: SwitchInfo @ 32, 160;
    }
}

layout! {
    /// Block of a switch's linear forwarding table (IBTA 15.2.5.6).
    pub struct LinearForwardingTableRecord: 72 bytes {
        /// LID of the switch.
        lid: Lid @ 0, 16;
        /// Number of the block.
        block_num: u16 @ 16, 16;
        /// The block.
        linear_forwarding_table: LinearForwardingTable @ 64, 512;
    }
}

layout! {
    /// Block of a switch's multicast forwarding table (IBTA 15.2.5.8).
    pub struct MulticastForwardingTableRecord: 72 bytes {
        /// LID of the switch.
        lid: Lid @ 0, 16;
        /// Position of the 16 ports.
        position: u8 @ 16, 4;
        /// Number of the block.
        block_num: u16 @ 23, 9;
        /// The block.
        multicast_forwarding_table: MulticastForwardingTable @ 64, 512;
    }
}

layout! {
    /// Half of a port's arbitration table (IBTA 15.2.5.9).
    pub struct VlArbitrationTableRecord: 72 bytes {
        /// LID of the port or of the switch's port 0.
        lid: Lid @ 0, 16;
        /// Output port of a switch.
        output_port_num: PortNumber @ 16, 8;
        /// The half, from 1 to 4, as in the attribute modifier of [`VlArbitrationTable`].
        block_num: u8 @ 24, 8;
        /// Entries.
        vl_arbitration_table: VlArbitrationTable @ 64, 512;
    }
}

layout! {
    /// A subnet manager (IBTA 15.2.5.10).
    pub struct SmInfoRecord: 25 bytes {
        /// LID of the manager's port.
        lid: Lid @ 0, 16;
        /// The manager.
        sm_info: SmInfo @ 32, 168;
    }
}

layout! {
    /// Block of a port's P_Key table (IBTA 15.2.5.11).
    pub struct PKeyTableRecord: 72 bytes {
        /// LID of the port or of the switch's port 0.
        lid: Lid @ 0, 16;
        /// Number of the block.
        block_num: u16 @ 16, 16;
        /// Port of a switch.
        port_num: PortNumber @ 32, 8;
        /// The block.
        p_key_table: PKeyTable @ 64, 512;
    }
}

layout! {
    /// A link in one direction (IBTA 15.2.5.13).
    pub struct LinkRecord: 6 bytes {
        /// LID of the first port or of its switch's port 0.
        from_lid: Lid @ 0, 16;
        /// Number of the first port.
        from_port: PortNumber @ 16, 8;
        /// Number of the second port.
        to_port: PortNumber @ 24, 8;
        /// LID of the second port or of its switch's port 0.
        to_lid: Lid @ 32, 16;
    }
}

layout! {
    /// Block of a port's GUIDs (IBTA 15.2.5.18).
    pub struct GuidInfoRecord: 72 bytes {
        /// LID of the port.
        lid: Lid @ 0, 16;
        /// Number of the block.
        block_num: u8 @ 16, 8;
        /// The block.
        guid_info: GuidInfo @ 64, 512;
    }
}

#[cfg(test)]
mod tests {
    use super::{LinearForwardingTableRecord, MulticastForwardingTableRecord, NodeRecord, PortInfoRecord, SmInfoRecord};
    use crate::mad::{Layout, NodeDescription, NodeInfo, NodeType, PortInfo, SmInfo, SmState};
    use softband_types::{Lid, PortNumber};

    #[test]
    fn a_record_has_its_attribute_after_the_key() {
        let port_info = PortInfo { lid: Lid(0x0102), ..PortInfo::default() };
        let record = PortInfoRecord { end_port_lid: Lid(3), port_num: PortNumber(1), options: 0x80, port_info };
        let bytes = record.to_bytes();
        assert_eq!((&bytes[..4], &bytes[4..]), (&[0, 3, 1, 0x80][..], &port_info.to_bytes()[..]));

        let node_info = NodeInfo { node_type: NodeType::SWITCH, ..NodeInfo::default() };
        let record = NodeRecord { lid: Lid(3), node_info, node_description: NodeDescription::new("sw") };
        let bytes = record.to_bytes();
        assert_eq!((bytes[1], bytes[6], &bytes[44..46]), (3, 2, &b"sw"[..]));

        let sm_info = SmInfo { sm_state: SmState::MASTER, ..SmInfo::default() };
        assert_eq!(SmInfoRecord { lid: Lid(1), sm_info }.to_bytes()[24], 3);
    }

    #[test]
    fn a_block_of_a_table_has_its_number_before_it() {
        let mut bytes = [0; 72];
        bytes[..4].copy_from_slice(&[0, 9, 0, 2]);
        bytes[71] = 5;
        let record = LinearForwardingTableRecord::parse(&bytes).unwrap();
        assert_eq!((record.lid, record.block_num, record.linear_forwarding_table.ports[63]), (Lid(9), 2, PortNumber(5)));
        bytes[2..4].copy_from_slice(&[0xF1, 0xFF]);
        let record = MulticastForwardingTableRecord::view(&bytes);
        assert_eq!((record.position(), record.block_num()), (15, 0x1FF));
    }
}
