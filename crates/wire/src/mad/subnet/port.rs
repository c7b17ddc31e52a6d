//! PortInfo, the attribute of a port.

use super::port_codes::{
    CapabilityMask, CapabilityMask2, LinkSpeedCode, LinkSpeedExtCode, LinkWidthCode, MKeyProtection, MtuCode, OperationalVlsCode, PhysicalState,
    PortState,
};
use crate::mad::layout::layout;
use softband_types::{Lid, PortNumber, ServiceLevel};

layout! {
    /// Describes and controls a port (IBTA 14.2.5.6). The attribute modifier is the port number.
    pub struct PortInfo: 64 bytes {
        /// M_Key of the port. It is 0 if any manager may change the port.
        m_key: u64 @ 0, 64;
        /// Subnet prefix: the upper half of the port's GIDs.
        gid_prefix: u64 @ 64, 64;
        /// Base LID of the port.
        lid: Lid @ 128, 16;
        /// LID of the master subnet manager.
        master_sm_lid: Lid @ 144, 16;
        /// Abilities of the port.
        capability_mask: CapabilityMask @ 160, 32;
        /// Diagnosis, by the vendor except for the low 4 bits.
        diag_code: u16 @ 192, 16;
        /// Time in seconds after which the M_Key protects no longer. 0 is for ever.
        m_key_lease_period: u16 @ 208, 16;
        /// Port that received the request.
        local_port_num: PortNumber @ 224, 8;
        /// Widths that the link may have.
        link_width_enabled: LinkWidthCode @ 232, 8;
        /// Widths that the port supports.
        link_width_supported: LinkWidthCode @ 240, 8;
        /// Width of the link.
        link_width_active: LinkWidthCode @ 248, 8;
        /// Speeds that the port supports, up to QDR.
        link_speed_supported: LinkSpeedCode @ 256, 4;
        /// Logical state.
        port_state: PortState @ 260, 4;
        /// Physical state.
        port_physical_state: PhysicalState @ 264, 4;
        /// Physical state after the link goes down: sleep or polling.
        link_down_default_state: PhysicalState @ 268, 4;
        /// Degree to which the M_Key protects the port.
        m_key_protect_bits: MKeyProtection @ 272, 2;
        /// LID mask control: the port has 2^LMC LIDs.
        lmc: u8 @ 277, 3;
        /// Speed of the link, up to QDR.
        link_speed_active: LinkSpeedCode @ 280, 4;
        /// Speeds that the link may have, up to QDR.
        link_speed_enabled: LinkSpeedCode @ 284, 4;
        /// Largest MTU that the neighbour can receive.
        neighbor_mtu: MtuCode @ 288, 4;
        /// SL of packets to the master subnet manager's SA.
        master_sm_sl: ServiceLevel @ 292, 4;
        /// Data lanes that the port supports.
        vl_cap: OperationalVlsCode @ 296, 4;
        /// Kind of initialization that the port asks for.
        init_type: u8 @ 300, 4;
        /// Limit of high priority: bytes in units of 4,096. 255 is unlimited.
        vl_high_limit: u8 @ 304, 8;
        /// Entries of the high-priority arbitration table.
        vl_arbitration_high_cap: u8 @ 312, 8;
        /// Entries of the low-priority arbitration table.
        vl_arbitration_low_cap: u8 @ 320, 8;
        /// Kind of initialization that the manager did.
        init_type_reply: u8 @ 328, 4;
        /// Largest MTU that the port supports.
        mtu_cap: MtuCode @ 332, 4;
        /// Discarded packets in a row after which a lane stalls.
        vl_stall_count: u8 @ 336, 3;
        /// Longest time of a packet at the head of a queue: code n is 4.096 us x 2^n, and 20 and
        /// more are unlimited.
        hoq_life: u8 @ 339, 5;
        /// Data lanes in use.
        operational_vls: OperationalVlsCode @ 344, 4;
        /// The switch port checks P_Keys of packets that arrive.
        partition_enforcement_inbound: bool @ 348, 1;
        /// The switch port checks P_Keys of packets that leave.
        partition_enforcement_outbound: bool @ 349, 1;
        /// The switch port discards raw packets that arrive.
        filter_raw_inbound: bool @ 350, 1;
        /// The switch port discards raw packets that leave.
        filter_raw_outbound: bool @ 351, 1;
        /// Number of SMPs with an invalid M_Key.
        m_key_violations: u16 @ 352, 16;
        /// Number of packets with an invalid P_Key.
        p_key_violations: u16 @ 368, 16;
        /// Number of packets with an invalid Q_Key.
        q_key_violations: u16 @ 384, 16;
        /// Entries of the GUID table.
        guid_cap: u8 @ 400, 8;
        /// The manager asks the port's clients to register again.
        client_reregister: bool @ 408, 1;
        /// Suppression of traps about P_Keys of multicast packets.
        multicast_p_key_trap_suppression_enabled: u8 @ 409, 2;
        /// Longest delay through the subnet: code n is 4.096 us x 2^n.
        subnet_timeout: u8 @ 411, 5;
        /// Longest time before a response: code n is 4.096 us x 2^n.
        resp_time_value: u8 @ 419, 5;
        /// Threshold of physical errors for a trap.
        local_phy_errors: u8 @ 424, 4;
        /// Threshold of buffer overruns for a trap.
        overrun_errors: u8 @ 428, 4;
        /// Largest number of 64-byte blocks that the port wants as credits.
        max_credit_hint: u16 @ 432, 16;
        /// Round-trip time of the link in units of 4 ns.
        link_round_trip_latency: u32 @ 456, 24;
        /// More abilities of the port.
        capability_mask2: CapabilityMask2 @ 480, 16;
        /// Speed of the link, from FDR on.
        link_speed_ext_active: LinkSpeedExtCode @ 496, 4;
        /// Speeds that the port supports, from FDR on.
        link_speed_ext_supported: LinkSpeedExtCode @ 500, 4;
        /// Speeds that the link may have, from FDR on.
        link_speed_ext_enabled: LinkSpeedExtCode @ 507, 5;
    }
}

#[cfg(test)]
mod tests {
    use super::{CapabilityMask, LinkSpeedCode, LinkSpeedExtCode, LinkWidthCode, MtuCode, OperationalVlsCode, PhysicalState, PortInfo, PortState};
    use crate::mad::Layout;
    use softband_types::{Gid, Lid, PortNumber, ServiceLevel};

    /// PortInfo of a 4X EDR port with LID 4 and LMC 2, whose manager has LID 1.
    #[rustfmt::skip]
    const EDR: [u8; 64] = [
        0, 0, 0, 0, 0, 0, 0, 0, 0xFE, 0x80, 0, 0, 0, 0, 0, 0,
        0, 4, 0, 1, 0x00, 0x00, 0x40, 0x48, 0, 0, 0, 15, 1, 0x03, 0x03, 0x02,
        0x74, 0x52, 0x02, 0x47, 0x53, 0x40, 4, 8, 8, 0x05, 0xF2, 0x40, 0, 0, 0, 1,
        0, 2, 8, 0x12, 0x10, 0x88, 0, 0, 0, 0, 0, 9, 0, 0, 0x23, 0x03,
    ];

    #[test]
    fn port_info_is_read_as_in_the_specification() {
        let info = PortInfo::parse(&EDR).unwrap();
        let expected = PortInfo {
            gid_prefix: Gid::DEFAULT_PREFIX,
            lid: Lid(4),
            master_sm_lid: Lid(1),
            capability_mask: CapabilityMask::IS_TRAP_SUPPORTED
                | CapabilityMask::IS_SL_MAPPING_SUPPORTED
                | CapabilityMask::IS_EXTENDED_SPEEDS_SUPPORTED,
            m_key_lease_period: 15,
            local_port_num: PortNumber(1),
            link_width_enabled: LinkWidthCode::X1 | LinkWidthCode::X4,
            link_width_supported: LinkWidthCode::X1 | LinkWidthCode::X4,
            link_width_active: LinkWidthCode::X4,
            link_speed_supported: LinkSpeedCode::SDR | LinkSpeedCode::DDR | LinkSpeedCode::QDR,
            port_state: PortState::ACTIVE,
            port_physical_state: PhysicalState::LINK_UP,
            link_down_default_state: PhysicalState::POLLING,
            lmc: 2,
            link_speed_active: LinkSpeedCode::QDR,
            link_speed_enabled: LinkSpeedCode::SDR | LinkSpeedCode::DDR | LinkSpeedCode::QDR,
            neighbor_mtu: MtuCode::B4096,
            master_sm_sl: ServiceLevel(3),
            vl_cap: OperationalVlsCode::VL0_7,
            vl_high_limit: 4,
            vl_arbitration_high_cap: 8,
            vl_arbitration_low_cap: 8,
            mtu_cap: MtuCode::B4096,
            vl_stall_count: 7,
            hoq_life: 18,
            operational_vls: OperationalVlsCode::VL0_7,
            p_key_violations: 1,
            q_key_violations: 2,
            guid_cap: 8,
            subnet_timeout: 18,
            resp_time_value: 16,
            local_phy_errors: 8,
            overrun_errors: 8,
            link_round_trip_latency: 9,
            link_speed_ext_active: LinkSpeedExtCode::EDR,
            link_speed_ext_supported: LinkSpeedExtCode::FDR | LinkSpeedExtCode::EDR,
            link_speed_ext_enabled: LinkSpeedExtCode::FDR | LinkSpeedExtCode::EDR,
            ..PortInfo::default()
        };
        assert_eq!(info, expected);
        assert_eq!(info.to_bytes(), EDR);
    }

    #[test]
    fn a_value_that_is_too_wide_leaves_its_neighbours() {
        let mut bytes = EDR;
        PortInfo::view_mut(&mut bytes).lmc(0xFF).port_state(PortState(0x11));
        let info = PortInfo::view(&bytes);
        assert_eq!((info.lmc(), info.port_state()), (7, PortState::DOWN));
        assert_eq!((info.m_key_protect_bits(), info.link_speed_supported()), (Default::default(), LinkSpeedCode(7)));
    }
}
