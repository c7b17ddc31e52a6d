//! The datagram of communication management and its codes.

use crate::mad::codes::code;
use crate::mad::header::Header;
use crate::mad::layout::layout;

layout! {
    /// A datagram of communication management (IBTA 12.6.2). It has the class
    /// [`ManagementClass::COMMUNICATION`](crate::mad::ManagementClass::COMMUNICATION), class
    /// version 2, and the method [`Method::SEND`](crate::mad::Method::SEND).
    pub struct CmMad: 256 bytes {
        /// The header. The attribute names the message.
        header: Header @ 0, 192;
        /// The message.
        data: [u8; 232] @ 192, 1856;
    }
}

code! {
    /// Transport service of a connection (IBTA 12.7.26).
    pub struct CmServiceType(u8) {
        /// Reliable connection.
        RC = 0;
        /// Unreliable connection.
        UC = 1;
        /// Reliable datagram.
        RD = 2;
        /// Extended: the REQ has a type of its own (IBTA annex A14).
        EXTENDED = 3;
    }
}

code! {
    /// Message that an MRA or REJ is about (IBTA 12.6.6, 12.6.7).
    pub struct CmMessage(u8) {
        /// REQ.
        REQ = 0;
        /// REP.
        REP = 1;
        /// Another: of an MRA LAP, and of a REJ none.
        OTHER = 2;
    }
}

code! {
    /// Reason of a REJ (IBTA 12.6.7.2).
    pub struct RejectReason(u16) {
        /// No QP is available.
        NO_QP = 1;
        /// No EE context is available.
        NO_EEC = 2;
        /// No other resource is available.
        NO_RESOURCES = 3;
        /// No message came in time.
        TIMEOUT = 4;
        /// The request is not supported.
        UNSUPPORTED_REQUEST = 5;
        /// The communication ID is unknown.
        INVALID_COMMUNICATION_ID = 6;
        /// The communication instance is unknown.
        INVALID_COMMUNICATION_INSTANCE = 7;
        /// The service ID is unknown.
        INVALID_SERVICE_ID = 8;
        /// The transport service is unknown.
        INVALID_TRANSPORT_SERVICE_TYPE = 9;
        /// The connection is stale.
        STALE_CONNECTION = 10;
        /// The RDC does not exist.
        RDC_DOES_NOT_EXIST = 11;
        /// The primary remote port's GID is unknown.
        PRIMARY_REMOTE_PORT_GID = 12;
        /// The primary remote port's LID is unknown.
        PRIMARY_REMOTE_PORT_LID = 13;
        /// The primary path's SL is invalid.
        INVALID_PRIMARY_SL = 14;
        /// The primary path's traffic class is invalid.
        INVALID_PRIMARY_TRAFFIC_CLASS = 15;
        /// The primary path's hop limit is invalid.
        INVALID_PRIMARY_HOP_LIMIT = 16;
        /// The primary path's rate is invalid.
        INVALID_PRIMARY_PACKET_RATE = 17;
        /// The alternate remote port's GID is unknown.
        ALTERNATE_REMOTE_PORT_GID = 18;
        /// The alternate remote port's LID is unknown.
        ALTERNATE_REMOTE_PORT_LID = 19;
        /// The alternate path's SL is invalid.
        INVALID_ALTERNATE_SL = 20;
        /// The alternate path's traffic class is invalid.
        INVALID_ALTERNATE_TRAFFIC_CLASS = 21;
        /// The alternate path's hop limit is invalid.
        INVALID_ALTERNATE_HOP_LIMIT = 22;
        /// The alternate path's rate is invalid.
        INVALID_ALTERNATE_PACKET_RATE = 23;
        /// Another port or CM serves the service.
        PORT_AND_CM_REDIRECTION = 24;
        /// Another port serves the service.
        PORT_REDIRECTION = 25;
        /// The path MTU is invalid.
        INVALID_PATH_MTU = 26;
        /// The responder resources do not suffice.
        INSUFFICIENT_RESPONDER_RESOURCES = 27;
        /// The consumer rejects the request.
        CONSUMER_REJECT = 28;
        /// The RNR retry count is invalid.
        RNR_RETRY_COUNT_REJECT = 29;
        /// The local communication ID is in use.
        DUPLICATE_LOCAL_COMMUNICATION_ID = 30;
        /// The class version is unknown.
        INVALID_CLASS_VERSION = 31;
        /// The primary path's flow label is invalid.
        INVALID_PRIMARY_FLOW_LABEL = 32;
        /// The alternate path's flow label is invalid.
        INVALID_ALTERNATE_FLOW_LABEL = 33;
        /// The service handles requests of another kind (IBTA annex A11).
        VENDOR_OPTION_NOT_SUPPORTED = 35;
    }
}

code! {
    /// Status of a SIDR_REP (IBTA 12.11.2.1).
    pub struct SidrStatus(u8) {
        /// The QP of the message serves the request.
        VALID_QPN = 0;
        /// The service ID is unknown.
        SERVICE_ID_NOT_SUPPORTED = 1;
        /// The service rejects the request.
        REJECTED_BY_SERVICE_PROVIDER = 2;
        /// No QP is available.
        NO_QP_AVAILABLE = 3;
        /// Another port serves the service.
        REDIRECTED = 4;
        /// The class version is unknown.
        VERSION_NOT_SUPPORTED = 5;
    }
}
