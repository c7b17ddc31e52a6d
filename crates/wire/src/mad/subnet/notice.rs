//! Notice: an event that an agent reports to its manager (IBTA 13.4.8.2, 14.2.5.1).

use crate::mad::codes::code;
use crate::mad::layout::layout;
use softband_types::{Gid, Lid};

layout! {
    /// Event that an agent reports to its manager (IBTA 13.4.8.2).
    pub struct Notice: 64 bytes {
        /// The event is defined by IBTA, and not by a vendor.
        is_generic: bool @ 0, 1;
        /// Severity.
        notice_type: NoticeType @ 1, 7;
        /// Kind of the agent's node, as [`NodeType`](super::NodeType). Of a vendor's event: the
        /// vendor.
        producer_type: u32 @ 8, 24;
        /// Number of the event. Of a vendor's event: the device.
        trap_number: TrapNumber @ 32, 16;
        /// LID of the agent.
        issuer_lid: Lid @ 48, 16;
        /// Differs from the last notice of a notice queue.
        notice_toggle: bool @ 64, 1;
        /// Number of notices in the queue.
        notice_count: u16 @ 65, 15;
        /// Details by trap number, for example [`GidDetails`](super::GidDetails).
        data_details: [u8; 54] @ 80, 432;
    }
}

layout! {
    /// Notice in other datagrams than SMPs (IBTA 13.4.8.2).
    pub struct GmpNotice: 80 bytes {
        /// The notice.
        notice: Notice @ 0, 512;
        /// GID of the agent. The SA fills it in a report.
        issuer_gid: Gid @ 512, 128;
    }
}

code! {
    /// Severity of an event. 0x7F marks an empty notice.
    pub struct NoticeType(u8) {
        /// Fatal.
        FATAL = 0;
        /// Urgent.
        URGENT = 1;
        /// Security.
        SECURITY = 2;
        /// Subnet management.
        SUBNET_MANAGEMENT = 3;
        /// Informational.
        INFORMATIONAL = 4;
        /// No event.
        EMPTY = 0x7F;
    }
}

code! {
    /// Number of an event of subnet management (IBTA 14.2.5.1).
    pub struct TrapNumber(u16) {
        /// A port can be reached: [`GidDetails`](super::GidDetails).
        GID_IN_SERVICE = 64;
        /// A port can be reached no longer: [`GidDetails`](super::GidDetails).
        GID_OUT_OF_SERVICE = 65;
        /// A multicast group is new: [`GidDetails`](super::GidDetails).
        MULTICAST_GROUP_CREATED = 66;
        /// A multicast group is gone: [`GidDetails`](super::GidDetails).
        MULTICAST_GROUP_DELETED = 67;
        /// A port of a switch changed its state: [`LinkStateDetails`](super::LinkStateDetails).
        LINK_STATE_CHANGED = 128;
        /// A link has many errors: [`PortThresholdDetails`](super::PortThresholdDetails).
        LOCAL_LINK_INTEGRITY = 129;
        /// A buffer overran often: [`PortThresholdDetails`](super::PortThresholdDetails).
        EXCESSIVE_BUFFER_OVERRUN = 130;
        /// Flow control stopped: [`PortThresholdDetails`](super::PortThresholdDetails).
        FLOW_CONTROL_WATCHDOG = 131;
        /// Abilities changed: [`LocalChangesDetails`](super::LocalChangesDetails).
        LOCAL_CHANGES = 144;
        /// The GUID changed: [`SystemImageGuidDetails`](super::SystemImageGuidDetails).
        SYSTEM_IMAGE_GUID_CHANGED = 145;
        /// An M_Key was wrong: [`MKeyViolationDetails`](super::MKeyViolationDetails).
        BAD_M_KEY = 256;
        /// A P_Key was wrong: [`KeyViolationDetails`](super::KeyViolationDetails).
        BAD_P_KEY = 257;
        /// A Q_Key was wrong: [`KeyViolationDetails`](super::KeyViolationDetails).
        BAD_Q_KEY = 258;
        /// A switch saw a wrong P_Key:
        /// [`SwitchPKeyViolationDetails`](super::SwitchPKeyViolationDetails).
        SWITCH_BAD_P_KEY = 259;
    }
}

#[cfg(test)]
mod tests {
    use super::{GmpNotice, Notice, NoticeType, TrapNumber};
    use crate::mad::{Layout, LinkStateDetails, NodeType};
    use softband_types::{Gid, Lid};

    #[test]
    fn a_link_state_trap_of_a_switch_names_the_switch() {
        let mut bytes = [0; 64];
        bytes[..12].copy_from_slice(&[0x81, 0, 0, 2, 0, 128, 0, 7, 0x80, 1, 0, 7]);
        let notice = Notice::parse(&bytes).unwrap();
        assert_eq!((notice.is_generic, notice.notice_type, notice.producer_type), (true, NoticeType::URGENT, NodeType::SWITCH.0.into()));
        assert_eq!((notice.trap_number, notice.issuer_lid), (TrapNumber::LINK_STATE_CHANGED, Lid(7)));
        assert_eq!((notice.notice_toggle, notice.notice_count), (true, 1));
        assert_eq!(LinkStateDetails::parse(&notice.data_details).unwrap().lid, Lid(7));
        assert_eq!(notice.to_bytes(), bytes);
    }

    #[test]
    fn the_issuer_s_gid_follows_the_details() {
        let notice = GmpNotice { issuer_gid: Gid([0xAB; 16]), ..GmpNotice::default() };
        assert_eq!(notice.to_bytes()[64..], [0xAB; 16]);
    }
}
