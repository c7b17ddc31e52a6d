//! Codes and flags of a port (IBTA 14.2.5.6).

use crate::mad::codes::{code, flags};
use softband_types::{Mtu, OperationalVls};

code! {
    /// Logical state of a port.
    pub struct PortState(u8) {
        /// In a request: leave the state.
        NO_CHANGE = 0;
        /// The link does not work.
        DOWN = 1;
        /// The link works, and carries SMPs only.
        INIT = 2;
        /// The link is ready, and carries SMPs only.
        ARMED = 3;
        /// The link carries all packets.
        ACTIVE = 4;
        /// The link recovers, and the port defers its transmission.
        ACTIVE_DEFER = 5;
    }
}

code! {
    /// Physical state of a port, also as the default of a link that goes down.
    pub struct PhysicalState(u8) {
        /// In a request: leave the state.
        NO_CHANGE = 0;
        /// The port waits without sending.
        SLEEP = 1;
        /// The port looks for its peer.
        POLLING = 2;
        /// The port is off.
        DISABLED = 3;
        /// The link negotiates its width and speed.
        PORT_CONFIGURATION_TRAINING = 4;
        /// The link works.
        LINK_UP = 5;
        /// The link recovers from an error.
        LINK_ERROR_RECOVERY = 6;
        /// The port tests its transmitter or receiver.
        PHY_TEST = 7;
    }
}

flags! {
    /// Widths of a link. An active width is a single flag.
    pub struct LinkWidthCode(u8) {
        /// One lane.
        X1 = 1;
        /// Four lanes.
        X4 = 2;
        /// Eight lanes.
        X8 = 4;
        /// Twelve lanes.
        X12 = 8;
        /// Two lanes.
        X2 = 16;
        /// In a request to enable widths: all that the port supports.
        ALL_SUPPORTED = 255;
    }
}

flags! {
    /// Speeds of a lane up to QDR. An active speed is a single flag.
    pub struct LinkSpeedCode(u8) {
        /// 2.5 Gb/s.
        SDR = 1;
        /// 5 Gb/s.
        DDR = 2;
        /// 10 Gb/s.
        QDR = 4;
        /// In a request to enable speeds: all that the port supports.
        ALL_SUPPORTED = 15;
    }
}

flags! {
    /// Speeds of a lane from FDR on. An active speed is a single flag. It is 0 if
    /// [`LinkSpeedCode`] holds the active speed.
    pub struct LinkSpeedExtCode(u8) {
        /// 14.0625 Gb/s.
        FDR = 1;
        /// 25.78125 Gb/s.
        EDR = 2;
        /// 53.125 Gb/s.
        HDR = 4;
        /// 106.25 Gb/s.
        NDR = 8;
        /// In a request to enable speeds: no extended speed.
        DISABLED = 30;
        /// In a request to enable speeds: all that the port supports.
        ALL_SUPPORTED = 31;
    }
}

code! {
    /// Code of an MTU, from 1 to 5.
    pub struct MtuCode(u8) {
        /// 256 bytes.
        B256 = 1;
        /// 512 bytes.
        B512 = 2;
        /// 1,024 bytes.
        B1024 = 3;
        /// 2,048 bytes.
        B2048 = 4;
        /// 4,096 bytes.
        B4096 = 5;
    }
}

impl MtuCode {
    /// Returns the MTU, or `None` if the code is reserved.
    pub fn mtu(self) -> Option<Mtu> {
        Mtu::ALL.get(usize::from(self.0).checked_sub(1)?).copied()
    }
}

impl From<Mtu> for MtuCode {
    fn from(mtu: Mtu) -> Self {
        match mtu {
            Mtu::B256 => Self::B256,
            Mtu::B512 => Self::B512,
            Mtu::B1024 => Self::B1024,
            Mtu::B2048 => Self::B2048,
            Mtu::B4096 => Self::B4096,
        }
    }
}

code! {
    /// Code of a number of data lanes.
    pub struct OperationalVlsCode(u8) {
        /// In a request: leave the number.
        NO_CHANGE = 0;
        /// VL 0.
        VL0 = 1;
        /// VL 0 and 1.
        VL0_1 = 2;
        /// VL 0 to 3.
        VL0_3 = 3;
        /// VL 0 to 7.
        VL0_7 = 4;
        /// VL 0 to 14.
        VL0_14 = 5;
    }
}

impl OperationalVlsCode {
    /// Returns the lanes, or `None` if the code is reserved or 0.
    pub fn lanes(self) -> Option<OperationalVls> {
        OperationalVls::from_code(self.0)
    }
}

impl From<OperationalVls> for OperationalVlsCode {
    fn from(lanes: OperationalVls) -> Self {
        Self(lanes.code())
    }
}

code! {
    /// Degree to which the M_Key protects a port (IBTA 14.2.4.1).
    pub struct MKeyProtection(u8) {
        /// Anyone may read all attributes, M_Key included.
        READ_ALL = 0;
        /// Requests with another M_Key read 0 as the M_Key.
        HIDE_KEY = 1;
        /// The port ignores all requests with another M_Key.
        REFUSE = 2;
        /// As [`MKeyProtection::REFUSE`].
        REFUSE_TOO = 3;
    }
}

flags! {
    /// Abilities of a port.
    pub struct CapabilityMask(u32) {
        /// The port runs a subnet manager.
        IS_SM = 1 << 1;
        /// Notice is supported.
        IS_NOTICE_SUPPORTED = 1 << 2;
        /// The port sends traps.
        IS_TRAP_SUPPORTED = 1 << 3;
        /// Optional inter-packet delays are supported.
        IS_OPTIONAL_IPD_SUPPORTED = 1 << 4;
        /// Automatic path migration is supported.
        IS_AUTOMATIC_MIGRATION_SUPPORTED = 1 << 5;
        /// SLtoVLMappingTable is supported.
        IS_SL_MAPPING_SUPPORTED = 1 << 6;
        /// The M_Key outlives a loss of power.
        IS_M_KEY_NVRAM = 1 << 7;
        /// The P_Key table outlives a loss of power.
        IS_P_KEY_NVRAM = 1 << 8;
        /// LedInfo is supported.
        IS_LED_INFO_SUPPORTED = 1 << 9;
        /// The port's subnet manager is off.
        IS_SM_DISABLED = 1 << 10;
        /// The node has a system image GUID.
        IS_SYSTEM_IMAGE_GUID_SUPPORTED = 1 << 11;
        /// The switch sends traps about P_Keys of its external ports.
        IS_P_KEY_SWITCH_EXTERNAL_PORT_TRAP_SUPPORTED = 1 << 12;
        /// CableInfo is supported.
        IS_CABLE_INFO_SUPPORTED = 1 << 13;
        /// Extended speeds are supported: the fields of [`LinkSpeedExtCode`] are valid.
        IS_EXTENDED_SPEEDS_SUPPORTED = 1 << 14;
        /// [`CapabilityMask2`] is valid.
        IS_CAPABILITY_MASK_2_SUPPORTED = 1 << 15;
        /// Communication management is supported.
        IS_COMMUNICATION_MANAGEMENT_SUPPORTED = 1 << 16;
        /// SNMP tunnelling is supported.
        IS_SNMP_TUNNELING_SUPPORTED = 1 << 17;
        /// InitType is supported.
        IS_REINIT_SUPPORTED = 1 << 18;
        /// Device management is supported.
        IS_DEVICE_MANAGEMENT_SUPPORTED = 1 << 19;
        /// Classes of vendors are supported.
        IS_VENDOR_CLASS_SUPPORTED = 1 << 20;
        /// The port sends notices about directed routes.
        IS_DR_NOTICE_SUPPORTED = 1 << 21;
        /// The port sends notices about changes of this mask.
        IS_CAPABILITY_MASK_NOTICE_SUPPORTED = 1 << 22;
        /// Boot management is supported.
        IS_BOOT_MANAGEMENT_SUPPORTED = 1 << 23;
        /// The port measures the round-trip time of its link.
        IS_LINK_ROUND_TRIP_LATENCY_SUPPORTED = 1 << 24;
        /// The port can ask its clients to register again.
        IS_CLIENT_REREGISTRATION_SUPPORTED = 1 << 25;
        /// Notices about local changes have flags beside this mask.
        IS_OTHER_LOCAL_CHANGES_NOTICE_SUPPORTED = 1 << 26;
        /// LinkSpeedWidthPairsTable is supported.
        IS_LINK_SPEED_WIDTH_PAIRS_TABLE_SUPPORTED = 1 << 27;
        /// VendorSpecificMadsTable is supported.
        IS_VENDOR_SPECIFIC_MADS_TABLE_SUPPORTED = 1 << 28;
        /// The port can suppress traps about P_Keys of multicast packets.
        IS_MULTICAST_P_KEY_TRAP_SUPPRESSION_SUPPORTED = 1 << 29;
        /// The switch has the field MulticastFDBTop.
        IS_MULTICAST_FDB_TOP_SUPPORTED = 1 << 30;
        /// HierarchyInfo is supported.
        IS_HIERARCHY_INFO_SUPPORTED = 1 << 31;
    }
}

flags! {
    /// More abilities of a port, valid with
    /// [`CapabilityMask::IS_CAPABILITY_MASK_2_SUPPORTED`].
    pub struct CapabilityMask2(u16) {
        /// A manager can set the node's description.
        IS_SET_NODE_DESCRIPTION_SUPPORTED = 1 << 0;
        /// PortInfoExtended is supported.
        IS_PORT_INFO_EXTENDED_SUPPORTED = 1 << 1;
        /// Virtual ports are supported.
        IS_VIRTUALIZATION_SUPPORTED = 1 << 2;
        /// SwitchPortStateTable is supported.
        IS_SWITCH_PORT_STATE_TABLE_SUPPORTED = 1 << 3;
        /// Links of two lanes are supported.
        IS_LINK_WIDTH_2X_SUPPORTED = 1 << 4;
        /// Links at 53.125 Gb/s a lane are supported.
        IS_LINK_SPEED_HDR_SUPPORTED = 1 << 5;
    }
}

#[cfg(test)]
mod tests {
    use super::{CapabilityMask, MtuCode, OperationalVlsCode};
    use softband_types::Mtu;

    #[test]
    fn codes_of_mtus_and_lanes_lead_there_and_back() {
        for mtu in Mtu::ALL {
            assert_eq!(MtuCode::from(mtu).mtu(), Some(mtu));
        }
        assert_eq!([MtuCode(0), MtuCode(6), MtuCode(255)].map(MtuCode::mtu), [None; 3]);
        assert_eq!(OperationalVlsCode::VL0_14.lanes().map(OperationalVlsCode::from), Some(OperationalVlsCode(5)));
        assert_eq!(OperationalVlsCode::NO_CHANGE.lanes(), None);
    }

    #[test]
    fn a_set_of_flags_contains_its_parts() {
        let both = CapabilityMask::IS_SM | CapabilityMask::IS_TRAP_SUPPORTED;
        assert!(both.contains(CapabilityMask::IS_SM) && !both.contains(CapabilityMask::IS_NOTICE_SUPPORTED));
        assert_eq!(both & CapabilityMask::IS_SM, CapabilityMask(2));
    }
}
