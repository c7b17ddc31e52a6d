//! The header of all management datagrams (IBTA 13.4.2) and its codes.

use super::codes::code;
use super::layout::layout;

layout! {
    /// The header of all management datagrams (IBTA 13.4.2).
    pub struct Header: 24 bytes {
        /// Version of the datagram format: [`Header::BASE_VERSION`].
        base_version: u8 @ 0, 8;
        /// Management class.
        mgmt_class: ManagementClass @ 8, 8;
        /// Version of the class: 1, or 2 for subnet administration and communication management.
        class_version: u8 @ 16, 8;
        /// Method with its response bit.
        method: Method @ 24, 8;
        /// Status of a response. In an SMP with a directed route, the first bit is the direction.
        status: Status @ 32, 16;
        /// Bits of the class. Directed routes have hop pointer and hop count here.
        class_specific: u16 @ 48, 16;
        /// Identifier by which a requester finds the response.
        transaction_id: u64 @ 64, 64;
        /// Attribute that the method applies to.
        attribute_id: AttributeId @ 128, 16;
        /// Selects a part of the attribute, for example a port or block.
        attribute_modifier: u32 @ 160, 32;
    }
}

impl Header {
    /// Version of the datagram format that this module knows.
    pub const BASE_VERSION: u8 = 1;
}

code! {
    /// Management class (IBTA 13.4.4). The default, 0, is reserved.
    pub struct ManagementClass(u8) {
        /// Subnet management by LID-routed SMPs.
        SUBNET_LID_ROUTED = 0x01;
        /// Subnet administration.
        SUBNET_ADMINISTRATION = 0x03;
        /// Performance management.
        PERFORMANCE = 0x04;
        /// Baseboard management.
        BASEBOARD = 0x05;
        /// Device management.
        DEVICE = 0x06;
        /// Communication management.
        COMMUNICATION = 0x07;
        /// SNMP tunnelling.
        SNMP = 0x08;
        /// First class of vendors without an OUI.
        VENDOR_FIRST = 0x09;
        /// Last class of vendors without an OUI.
        VENDOR_LAST = 0x0F;
        /// First class of applications: device administration.
        APPLICATION_FIRST = 0x10;
        /// Boot management.
        BOOT = 0x11;
        /// Congestion control (IBTA annex A10).
        CONGESTION = 0x21;
        /// Last class of applications.
        APPLICATION_LAST = 0x2F;
        /// First class of vendors with an OUI.
        VENDOR_OUI_FIRST = 0x30;
        /// Last class of vendors with an OUI.
        VENDOR_OUI_LAST = 0x4F;
        /// Subnet management by SMPs with a directed route.
        SUBNET_DIRECTED_ROUTE = 0x81;
    }
}

impl ManagementClass {
    /// Checks whether datagrams of the class are SMPs, which travel between QPs 0 on VL 15.
    pub const fn is_subnet_management(self) -> bool {
        matches!(self, Self::SUBNET_LID_ROUTED | Self::SUBNET_DIRECTED_ROUTE)
    }
}

code! {
    /// Method with its response bit (IBTA 13.4.5, 15.2.2). The default, 0, is reserved.
    pub struct Method(u8) {
        /// Requests an attribute.
        GET = 0x01;
        /// Requests a change of an attribute.
        SET = 0x02;
        /// Sends a datagram of an exchange with its own rules, as in communication management.
        SEND = 0x03;
        /// Announces an event to a manager.
        TRAP = 0x05;
        /// Forwards an event to a subscriber.
        REPORT = 0x06;
        /// Stops the repetition of a trap.
        TRAP_REPRESS = 0x07;
        /// Requests all records that match.
        GET_TABLE = 0x12;
        /// Requests the records of a path trace.
        GET_TRACE_TABLE = 0x13;
        /// Requests records by a request of several datagrams.
        GET_MULTI = 0x14;
        /// Requests the end of a record.
        DELETE = 0x15;
        /// Answers [`Method::GET`] or [`Method::SET`].
        GET_RESP = 0x81;
        /// Answers [`Method::REPORT`].
        REPORT_RESP = 0x86;
        /// Answers [`Method::GET_TABLE`].
        GET_TABLE_RESP = 0x92;
        /// Answers [`Method::GET_MULTI`].
        GET_MULTI_RESP = 0x94;
        /// Answers [`Method::DELETE`].
        DELETE_RESP = 0x95;
    }
}

impl Method {
    /// The R bit, which marks a response.
    pub const RESPONSE: u8 = 0x80;

    /// Checks the response bit. Only [`Method::TRAP_REPRESS`] answers a datagram without it.
    pub const fn is_response(self) -> bool {
        self.0 & Self::RESPONSE != 0
    }

    /// Returns the method of the response, or `None` if the method has no response.
    pub const fn response(self) -> Option<Self> {
        match self {
            Self::GET | Self::SET => Some(Self::GET_RESP),
            Self::GET_TRACE_TABLE => Some(Self::GET_TABLE_RESP),
            Self::REPORT | Self::GET_TABLE | Self::GET_MULTI | Self::DELETE => Some(Self(self.0 | Self::RESPONSE)),
            _ => None,
        }
    }
}

code! {
    /// Status of a response (IBTA 13.4.7). The default, 0, is success.
    pub struct Status(u16) {
        /// The responder did as requested.
        SUCCESS = 0;
        /// The responder is busy and discarded the request.
        BUSY = 0x0001;
        /// Another port serves the class: see [`ClassPortInfo`](super::ClassPortInfo).
        REDIRECT = 0x0002;
        /// The responder does not know the base version or class version.
        BAD_VERSION = 1 << 2;
        /// The responder does not know the method.
        METHOD_NOT_SUPPORTED = 2 << 2;
        /// The responder does not know the attribute, or not with this method.
        METHOD_ATTRIBUTE_NOT_SUPPORTED = 3 << 2;
        /// A field of the attribute or the attribute modifier has an invalid value.
        INVALID_FIELD = 7 << 2;
        /// SA: the request exceeds the resources (IBTA 15.2.2, as all that follow).
        SA_NO_RESOURCES = 1 << 8;
        /// SA: the request is invalid.
        SA_REQUEST_INVALID = 2 << 8;
        /// SA: no record matches.
        SA_NO_RECORDS = 3 << 8;
        /// SA: several records match a request for a single record.
        SA_TOO_MANY_RECORDS = 4 << 8;
        /// SA: the GID of the requester is invalid.
        SA_INVALID_GID = 5 << 8;
        /// SA: the component mask lacks a required component.
        SA_INSUFFICIENT_COMPONENTS = 6 << 8;
        /// SA: the requester has no right to the request.
        SA_DENIED = 7 << 8;
        /// SA: the response suggests another priority.
        SA_PRIORITY_SUGGESTED = 8 << 8;
    }
}

impl Status {
    /// Bit of the status of an SMP with a directed route: it is set on the way back (IBTA 14.2.1).
    pub const DIRECTION: u16 = 0x8000;
}

code! {
    /// Number of an attribute. Its meaning depends on the management class.
    pub struct AttributeId(u16) {
        /// [`ClassPortInfo`](super::ClassPortInfo), in all classes except subnet management (IBTA
        /// 13.4.8).
        CLASS_PORT_INFO = 0x0001;
        /// [`Notice`](super::Notice), in all classes.
        NOTICE = 0x0002;
        /// [`InformInfo`](super::InformInfo), in classes that forward notices.
        INFORM_INFO = 0x0003;

        /// SM: [`NodeDescription`](super::NodeDescription) (IBTA 14.2.5, as all with "SM").
        NODE_DESCRIPTION = 0x0010;
        /// SM: [`NodeInfo`](super::NodeInfo).
        NODE_INFO = 0x0011;
        /// SM: [`SwitchInfo`](super::SwitchInfo).
        SWITCH_INFO = 0x0012;
        /// SM: [`GuidInfo`](super::GuidInfo).
        GUID_INFO = 0x0014;
        /// SM: [`PortInfo`](super::PortInfo).
        PORT_INFO = 0x0015;
        /// SM: [`PKeyTable`](super::PKeyTable).
        P_KEY_TABLE = 0x0016;
        /// SM: [`SlToVlMappingTable`](super::SlToVlMappingTable).
        SL_TO_VL_MAPPING_TABLE = 0x0017;
        /// SM: [`VlArbitrationTable`](super::VlArbitrationTable).
        VL_ARBITRATION_TABLE = 0x0018;
        /// SM: [`LinearForwardingTable`](super::LinearForwardingTable).
        LINEAR_FORWARDING_TABLE = 0x0019;
        /// SM: RandomForwardingTable.
        RANDOM_FORWARDING_TABLE = 0x001A;
        /// SM: [`MulticastForwardingTable`](super::MulticastForwardingTable).
        MULTICAST_FORWARDING_TABLE = 0x001B;
        /// SM: [`SmInfo`](super::SmInfo).
        SM_INFO = 0x0020;
        /// SM: VendorDiag.
        VENDOR_DIAG = 0x0030;
        /// SM: [`LedInfo`](super::LedInfo).
        LED_INFO = 0x0031;

        /// Performance: [`PortSamplesControl`](super::PortSamplesControl) (IBTA 16.1.3).
        PORT_SAMPLES_CONTROL = 0x0010;
        /// Performance: [`PortSamplesResult`](super::PortSamplesResult).
        PORT_SAMPLES_RESULT = 0x0011;
        /// Performance: [`PortCounters`](super::PortCounters).
        PORT_COUNTERS = 0x0012;
        /// Performance: [`PortCountersExtended`](super::PortCountersExtended).
        PORT_COUNTERS_EXTENDED = 0x001D;
        /// Performance: [`PortRcvErrorDetails`](super::PortRcvErrorDetails).
        PORT_RCV_ERROR_DETAILS = 0x0015;
        /// Performance: [`PortXmitDiscardDetails`](super::PortXmitDiscardDetails).
        PORT_XMIT_DISCARD_DETAILS = 0x0016;
        /// Performance: [`PortVlXmitWaitCounters`](super::PortVlXmitWaitCounters).
        PORT_VL_XMIT_WAIT_COUNTERS = 0x001C;
        /// Performance: [`PortRcvConCtrl`](super::PortRcvConCtrl).
        PORT_RCV_CON_CTRL = 0x0031;
        /// Performance: [`PortXmitConCtrl`](super::PortXmitConCtrl).
        PORT_XMIT_CON_CTRL = 0x0034;

        /// SA: [`NodeRecord`](super::NodeRecord) (IBTA 15.2.5, as all with "SA").
        NODE_RECORD = 0x0011;
        /// SA: [`PortInfoRecord`](super::PortInfoRecord).
        PORT_INFO_RECORD = 0x0012;
        /// SA: [`SlToVlMappingTableRecord`](super::SlToVlMappingTableRecord).
        SL_TO_VL_MAPPING_TABLE_RECORD = 0x0013;
        /// SA: [`SwitchInfoRecord`](super::SwitchInfoRecord).
        SWITCH_INFO_RECORD = 0x0014;
        /// SA: [`LinearForwardingTableRecord`](super::LinearForwardingTableRecord).
        LINEAR_FORWARDING_TABLE_RECORD = 0x0015;
        /// SA: RandomForwardingTableRecord.
        RANDOM_FORWARDING_TABLE_RECORD = 0x0016;
        /// SA: [`MulticastForwardingTableRecord`](super::MulticastForwardingTableRecord).
        MULTICAST_FORWARDING_TABLE_RECORD = 0x0017;
        /// SA: [`SmInfoRecord`](super::SmInfoRecord).
        SM_INFO_RECORD = 0x0018;
        /// SA: [`LinkRecord`](super::LinkRecord).
        LINK_RECORD = 0x0020;
        /// SA: [`GuidInfoRecord`](super::GuidInfoRecord).
        GUID_INFO_RECORD = 0x0030;
        /// SA: [`ServiceRecord`](super::ServiceRecord).
        SERVICE_RECORD = 0x0031;
        /// SA: [`PKeyTableRecord`](super::PKeyTableRecord).
        P_KEY_TABLE_RECORD = 0x0033;
        /// SA: [`PathRecord`](super::PathRecord).
        PATH_RECORD = 0x0035;
        /// SA: [`VlArbitrationTableRecord`](super::VlArbitrationTableRecord).
        VL_ARBITRATION_TABLE_RECORD = 0x0036;
        /// SA: [`McMemberRecord`](super::McMemberRecord).
        MC_MEMBER_RECORD = 0x0038;
        /// SA: TraceRecord.
        TRACE_RECORD = 0x0039;
        /// SA: [`MultiPathRecord`](super::MultiPathRecord).
        MULTI_PATH_RECORD = 0x003A;
        /// SA: ServiceAssociationRecord.
        SERVICE_ASSOCIATION_RECORD = 0x003B;
        /// SA: [`InformInfoRecord`](super::InformInfoRecord).
        INFORM_INFO_RECORD = 0x00F3;

        /// CM: [`Req`](super::Req) (IBTA 12.6, as all with "CM").
        CM_REQ = 0x0010;
        /// CM: [`Mra`](super::Mra).
        CM_MRA = 0x0011;
        /// CM: [`Rej`](super::Rej).
        CM_REJ = 0x0012;
        /// CM: [`Rep`](super::Rep).
        CM_REP = 0x0013;
        /// CM: [`Rtu`](super::Rtu).
        CM_RTU = 0x0014;
        /// CM: [`Dreq`](super::Dreq).
        CM_DREQ = 0x0015;
        /// CM: [`Drep`](super::Drep).
        CM_DREP = 0x0016;
        /// CM: [`SidrReq`](super::SidrReq).
        CM_SIDR_REQ = 0x0017;
        /// CM: [`SidrRep`](super::SidrRep).
        CM_SIDR_REP = 0x0018;
        /// CM: [`Lap`](super::Lap).
        CM_LAP = 0x0019;
        /// CM: [`Apr`](super::Apr).
        CM_APR = 0x001A;
    }
}

#[cfg(test)]
mod tests {
    use super::{AttributeId, Header, ManagementClass, Method, Status};
    use crate::mad::Layout;

    /// Get(NodeInfo) by a directed route, and its fields (IBTA 13.4.2).
    const GET_NODE_INFO: [u8; 24] = [
        0x01, 0x81, 0x01, 0x01, 0x00, 0x00, 0x00, 0x02, //
        0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, //
        0x00, 0x11, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03,
    ];

    #[test]
    fn a_header_is_read_and_written_as_in_the_specification() {
        let header = Header {
            base_version: 1,
            mgmt_class: ManagementClass::SUBNET_DIRECTED_ROUTE,
            class_version: 1,
            method: Method::GET,
            status: Status::SUCCESS,
            class_specific: 2,
            transaction_id: 0x0001_0203_0405_0607,
            attribute_id: AttributeId::NODE_INFO,
            attribute_modifier: 3,
        };
        assert_eq!(Header::parse(&GET_NODE_INFO), Ok(header));
        assert_eq!(header.to_bytes(), GET_NODE_INFO);
        assert!(header.mgmt_class.is_subnet_management());
    }

    #[test]
    fn requests_have_responses_and_responses_have_none() {
        assert_eq!(Method::SET.response(), Some(Method::GET_RESP));
        assert_eq!(Method::DELETE.response(), Some(Method::DELETE_RESP));
        assert_eq!(Method::REPORT.response(), Some(Method::REPORT_RESP));
        assert_eq!([Method::SEND, Method::TRAP, Method::GET_RESP].map(Method::response), [None; 3]);
        assert!(Method::GET_TABLE_RESP.is_response() && !Method::GET_TABLE.is_response());
    }
}
