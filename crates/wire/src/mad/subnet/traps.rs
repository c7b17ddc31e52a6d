//! Details of the traps of subnet management (IBTA 14.2.5.1): the 54 bytes
//! [`Notice::data_details`](super::Notice::data_details), by trap number.

use super::port_codes::{CapabilityMask, CapabilityMask2};
use crate::mad::codes::flags;
use crate::mad::header::{AttributeId, Method};
use crate::mad::layout::layout;
use softband_types::{Gid, Guid, Lid, PKey, PortNumber, Qpn, ServiceLevel};

layout! {
    /// Details of traps 64 to 67: the port or multicast group.
    pub struct GidDetails: 54 bytes {
        /// GID of the port or multicast group.
        gid: Gid @ 48, 128;
    }
}

layout! {
    /// Details of trap 128: the switch whose port changed its state.
    pub struct LinkStateDetails: 54 bytes {
        /// LID of the switch.
        lid: Lid @ 0, 16;
    }
}

layout! {
    /// Details of traps 129 to 131: the port that exceeds a threshold.
    pub struct PortThresholdDetails: 54 bytes {
        /// LID of the port or switch.
        lid: Lid @ 16, 16;
        /// The port.
        port: PortNumber @ 32, 8;
    }
}

layout! {
    /// Details of trap 144: the new abilities and other changes of a node or port.
    pub struct LocalChangesDetails: 54 bytes {
        /// LID of the port or switch.
        lid: Lid @ 16, 16;
        /// The flags of `changes` are valid.
        other_local_changes: bool @ 47, 1;
        /// Abilities of the port.
        capability_mask: CapabilityMask @ 48, 32;
        /// Changes beside the abilities.
        changes: LocalChangeFlags @ 80, 16;
        /// More abilities of the port.
        capability_mask2: CapabilityMask2 @ 96, 16;
    }
}

flags! {
    /// Changes that trap 144 reports.
    pub struct LocalChangeFlags(u16) {
        /// The node's description changed.
        NODE_DESCRIPTION = 1 << 0;
        /// The enabled link widths changed.
        LINK_WIDTH_ENABLED = 1 << 1;
        /// The enabled link speeds changed.
        LINK_SPEED_ENABLED = 1 << 2;
        /// The priority of the port's subnet manager changed.
        SM_PRIORITY = 1 << 3;
        /// HierarchyInfo changed.
        HIERARCHY_INFO = 1 << 4;
        /// The second mask of abilities changed.
        CAPABILITY_MASK_2 = 1 << 5;
    }
}

layout! {
    /// Details of trap 145: the new GUID.
    pub struct SystemImageGuidDetails: 54 bytes {
        /// LID of the node.
        lid: Lid @ 16, 16;
        /// The new GUID.
        system_image_guid: Guid @ 48, 64;
    }
}

layout! {
    /// Details of trap 256: the SMP with the wrong M_Key.
    pub struct MKeyViolationDetails: 54 bytes {
        /// LID of the source.
        lid: Lid @ 16, 16;
        /// DrSLID of an SMP with a directed route.
        dr_slid: Lid @ 32, 16;
        /// Method of the SMP.
        method: Method @ 48, 8;
        /// Attribute of the SMP.
        attribute_id: AttributeId @ 64, 16;
        /// Attribute modifier of the SMP.
        attribute_modifier: u32 @ 80, 32;
        /// M_Key of the SMP.
        m_key: u64 @ 112, 64;
        /// The SMP had a directed route.
        dr_notice: bool @ 184, 1;
        /// `dr_return_path` is only the beginning of the path.
        dr_path_truncated: bool @ 185, 1;
        /// Number of hops.
        dr_hop_count: u8 @ 186, 6;
        /// Beginning of the return path.
        dr_return_path: [u8; 30] @ 192, 240;
    }
}

layout! {
    /// Details of traps 257 and 258: the packet with the wrong P_Key or Q_Key. The layout is that of
    /// `ntc_257_258` in OpenSM's `ib_types.h`.
    pub struct KeyViolationDetails: 54 bytes {
        /// LID of the source.
        lid1: Lid @ 16, 16;
        /// LID of the destination.
        lid2: Lid @ 32, 16;
        /// The key. A P_Key takes the low 16 bits.
        key: u32 @ 48, 32;
        /// SL of the packet.
        sl: ServiceLevel @ 80, 4;
        /// QP of the source.
        qp1: Qpn @ 88, 24;
        /// QP of the destination.
        qp2: Qpn @ 120, 24;
        /// GID of the source.
        gid1: Gid @ 144, 128;
        /// GID of the destination.
        gid2: Gid @ 272, 128;
    }
}

layout! {
    /// Details of trap 259: the packet with a wrong P_Key that a switch saw. The layout is that of
    /// `ntc_259` in OpenSM's `ib_types.h`.
    pub struct SwitchPKeyViolationDetails: 54 bytes {
        /// Flags of the valid fields, in the order of the fields from the highest bit on.
        data_valid: u16 @ 0, 16;
        /// LID of the source.
        lid1: Lid @ 16, 16;
        /// LID of the destination.
        lid2: Lid @ 32, 16;
        /// The P_Key.
        p_key: PKey @ 48, 16;
        /// SL of the packet.
        sl: ServiceLevel @ 64, 4;
        /// QP of the source.
        qp1: Qpn @ 72, 24;
        /// QP of the destination.
        qp2: Qpn @ 104, 24;
        /// GID of the source.
        gid1: Gid @ 128, 128;
        /// GID of the destination.
        gid2: Gid @ 256, 128;
        /// LID of the switch.
        switch_lid: Lid @ 384, 16;
        /// Port of the switch.
        port: PortNumber @ 400, 8;
    }
}

#[cfg(test)]
mod tests {
    use super::{GidDetails, KeyViolationDetails, LocalChangeFlags, LocalChangesDetails, MKeyViolationDetails, PortThresholdDetails};
    use crate::mad::{AttributeId, CapabilityMask, Layout, Method};
    use softband_types::{Gid, Lid, PortNumber, Qpn, ServiceLevel};

    #[test]
    fn details_stand_where_the_specification_puts_them() {
        let gid = GidDetails { gid: Gid([7; 16]) }.to_bytes();
        assert_eq!((&gid[..6], &gid[6..22]), (&[0; 6][..], &[7; 16][..]));
        let port = PortThresholdDetails { lid: Lid(0x0102), port: PortNumber(3) }.to_bytes();
        assert_eq!(port[..6], [0, 0, 1, 2, 3, 0]);
        let changes = LocalChangesDetails {
            lid: Lid(1),
            other_local_changes: true,
            capability_mask: CapabilityMask::IS_SM,
            changes: LocalChangeFlags::NODE_DESCRIPTION,
            ..Default::default()
        };
        assert_eq!(changes.to_bytes()[..14], [0, 0, 0, 1, 0, 1, 0, 0, 0, 2, 0, 1, 0, 0]);
    }

    #[test]
    fn a_wrong_m_key_keeps_the_smp_s_identity() {
        let mut bytes = [0; 54];
        bytes[..10].copy_from_slice(&[0, 0, 0, 9, 0xFF, 0xFF, 2, 0, 0, 0x15]);
        bytes[23..26].copy_from_slice(&[0xC3, 1, 4]);
        let details = MKeyViolationDetails::parse(&bytes).unwrap();
        assert_eq!(
            (details.lid, details.dr_slid, details.method, details.attribute_id),
            (Lid(9), Lid::PERMISSIVE, Method::SET, AttributeId::PORT_INFO)
        );
        assert_eq!((details.dr_notice, details.dr_path_truncated, details.dr_hop_count), (true, true, 3));
        assert_eq!(details.dr_return_path[..2], [1, 4]);
    }

    #[test]
    fn a_wrong_key_names_both_queue_pairs() {
        let details = KeyViolationDetails { key: 0x8001, sl: ServiceLevel(5), qp1: Qpn(0x123456), qp2: Qpn(1), ..Default::default() };
        assert_eq!(details.to_bytes()[6..18], [0, 0, 0x80, 1, 0x50, 0x12, 0x34, 0x56, 0, 0, 0, 1]);
    }
}
