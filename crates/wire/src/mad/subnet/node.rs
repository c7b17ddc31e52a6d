//! Attributes of a whole node.

use crate::mad::codes::code;
use crate::mad::layout::layout;
use softband_types::{Guid, PortNumber};

layout! {
    /// Describes a node in words (IBTA 14.2.5.2).
    pub struct NodeDescription: 64 bytes {
        /// UTF-8 text, with zeros after its end.
        text: [u8; 64] @ 0, 512;
    }
}

impl NodeDescription {
    /// Makes a description of `text`, cut off after 64 bytes at the end of a character.
    pub fn new(text: &str) -> Self {
        let mut end = text.len().min(64);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = [0; 64];
        bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
        Self { text: bytes }
    }

    /// Returns the text up to its first zero, or up to the first byte that is no UTF-8.
    pub fn as_str(&self) -> &str {
        let text = self.text.split(|byte| *byte == 0).next().unwrap_or_default();
        match core::str::from_utf8(text) {
            Ok(text) => text,
            Err(error) => core::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default(),
        }
    }
}

layout! {
    /// Describes a node (IBTA 14.2.5.3).
    pub struct NodeInfo: 40 bytes {
        /// Version of the datagram format that the node knows.
        base_version: u8 @ 0, 8;
        /// Version of subnet management that the node knows.
        class_version: u8 @ 8, 8;
        /// Kind of the node.
        node_type: NodeType @ 16, 8;
        /// Number of ports, without port 0 of a switch.
        num_ports: u8 @ 24, 8;
        /// GUID of the system that contains the node. It is 0 if the system has none.
        system_image_guid: Guid @ 32, 64;
        /// GUID of the node.
        node_guid: Guid @ 96, 64;
        /// GUID of the port that received the request. A switch has the same for all ports.
        port_guid: Guid @ 160, 64;
        /// Entries of the P_Key table of each port of an HCA or router, or of port 0 of a switch.
        partition_cap: u16 @ 224, 16;
        /// Device number, by the vendor.
        device_id: u16 @ 240, 16;
        /// Revision of the device, by the vendor.
        revision: u32 @ 256, 32;
        /// Port that received the request.
        local_port_num: PortNumber @ 288, 8;
        /// IEEE number of the vendor.
        vendor_id: u32 @ 296, 24;
    }
}

code! {
    /// Kind of a node (IBTA 14.2.5.3).
    pub struct NodeType(u8) {
        /// Channel adapter.
        CHANNEL_ADAPTER = 1;
        /// Switch.
        SWITCH = 2;
        /// Router.
        ROUTER = 3;
    }
}

layout! {
    /// Describes and controls a switch (IBTA 14.2.5.4).
    pub struct SwitchInfo: 20 bytes {
        /// Entries of the linear forwarding table. It is 0 if the switch has no linear table.
        linear_fdb_cap: u16 @ 0, 16;
        /// Entries of the random forwarding table. It is 0 if the switch has no random table.
        random_fdb_cap: u16 @ 16, 16;
        /// Entries of the multicast forwarding table.
        multicast_fdb_cap: u16 @ 32, 16;
        /// Last used entry of the linear forwarding table.
        linear_fdb_top: u16 @ 48, 16;
        /// Port for LIDs that the random forwarding table does not contain.
        default_port: PortNumber @ 64, 8;
        /// Port for multicast packets of unknown groups, except from this port itself.
        default_multicast_primary_port: PortNumber @ 72, 8;
        /// Port for multicast packets of unknown groups from the primary port.
        default_multicast_not_primary_port: PortNumber @ 80, 8;
        /// Longest time of a packet in the switch: code n is 4.096 us x 2^n, and 20 and more are
        /// unlimited.
        life_time_value: u8 @ 88, 5;
        /// Set after a state change of any port. Writing 1 clears it.
        port_state_change: bool @ 93, 1;
        /// Methods of writing several SL to VL mapping tables at once.
        optimized_sl_to_vl_mapping_programming: u8 @ 94, 2;
        /// LIDs that each entry of the random forwarding table covers.
        lids_per_port: u16 @ 96, 16;
        /// Entries of the partition enforcement table of each port.
        partition_enforcement_cap: u16 @ 112, 16;
        /// The switch can check P_Keys of packets that arrive.
        inbound_enforcement_cap: bool @ 128, 1;
        /// The switch can check P_Keys of packets that leave.
        outbound_enforcement_cap: bool @ 129, 1;
        /// The switch can discard raw packets that arrive.
        filter_raw_inbound_cap: bool @ 130, 1;
        /// The switch can discard raw packets that leave.
        filter_raw_outbound_cap: bool @ 131, 1;
        /// Port 0 is enhanced: it has the functions of a port of an HCA.
        enhanced_port_0: bool @ 132, 1;
        /// Last used entry of the multicast forwarding table, as a LID.
        multicast_fdb_top: u16 @ 144, 16;
    }
}

layout! {
    /// Describes a subnet manager (IBTA 14.2.5.13).
    pub struct SmInfo: 21 bytes {
        /// GUID of the subnet manager's port.
        guid: Guid @ 0, 64;
        /// Key that proves the manager's authority. Others than trusted managers read 0.
        sm_key: u64 @ 64, 64;
        /// Counter of the manager's activity, by which others see that it lives.
        act_count: u32 @ 128, 32;
        /// Priority, from 0 to 15, which is the highest.
        priority: u8 @ 160, 4;
        /// State of the manager.
        sm_state: SmState @ 164, 4;
    }
}

code! {
    /// State of a subnet manager (IBTA 14.4.1).
    pub struct SmState(u8) {
        /// The manager does not take part.
        NOT_ACTIVE = 0;
        /// The manager looks for others.
        DISCOVERING = 1;
        /// The manager polls the master and can replace it.
        STANDBY = 2;
        /// The manager configures the subnet.
        MASTER = 3;
    }
}

layout! {
    /// Controls the LED of a port (IBTA 14.2.5.15).
    pub struct LedInfo: 4 bytes {
        /// The LED is on.
        led_mask: bool @ 0, 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{NodeDescription, NodeInfo, NodeType, SmInfo, SmState, SwitchInfo};
    use crate::mad::Layout;
    use softband_types::{Guid, PortNumber};

    #[test]
    fn node_info_is_read_as_in_the_specification() {
        let mut bytes = [0; 40];
        bytes[..4].copy_from_slice(&[1, 1, 2, 36]);
        bytes[11] = 0xAA;
        bytes[19] = 0xBB;
        bytes[27] = 0xCC;
        bytes[28..].copy_from_slice(&[0, 8, 0xCF, 8, 0, 0, 0, 0xA0, 21, 0x00, 0x02, 0xC9]);
        let info = NodeInfo::parse(&bytes).unwrap();
        assert_eq!((info.node_type, info.num_ports, info.local_port_num), (NodeType::SWITCH, 36, PortNumber(21)));
        assert_eq!((info.system_image_guid, info.node_guid, info.port_guid), (Guid(0xAA), Guid(0xBB), Guid(0xCC)));
        assert_eq!((info.partition_cap, info.device_id, info.revision, info.vendor_id), (8, 0xCF08, 0xA0, 0x02C9));
        assert_eq!(info.to_bytes(), bytes);
    }

    #[test]
    fn switch_info_packs_its_flags_into_bits() {
        let info = SwitchInfo { life_time_value: 18, port_state_change: true, enhanced_port_0: true, ..SwitchInfo::default() };
        let bytes = info.to_bytes();
        assert_eq!((bytes[11], bytes[16]), (0x94, 0x08));
        assert_eq!(SwitchInfo::view(&bytes).life_time_value(), 18);
    }

    #[test]
    fn sm_info_has_priority_and_state_in_its_last_byte() {
        let info = SmInfo { priority: 15, sm_state: SmState::MASTER, ..SmInfo::default() };
        assert_eq!(info.to_bytes()[20], 0xF3);
    }

    #[test]
    fn a_description_is_text_whatever_its_bytes_are() {
        assert_eq!(NodeDescription::new("sw HCA-1").as_str(), "sw HCA-1");
        // The 64th byte would be the first half of the last character.
        let long = format!("{}ä", "x".repeat(63));
        assert_eq!(NodeDescription::new(&long).as_str(), "x".repeat(63));
        let mut text = [b'a'; 64];
        text[3] = 0xFF;
        assert_eq!(NodeDescription { text }.as_str(), "aaa");
    }
}
