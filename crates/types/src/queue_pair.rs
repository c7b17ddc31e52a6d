//! Queue pairs, access rights and completions.

/// Transport service of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QpType {
    Rc,
    Uc,
    Ud,
    /// Sending side of an extended reliable connection.
    XrcSend,
    /// Receiving side of an extended reliable connection. Each message names the SRQ, in the domain
    /// of the QP, that takes it.
    XrcRecv,
}

impl QpType {
    /// Checks whether the service acknowledges messages.
    pub const fn is_reliable(self) -> bool {
        matches!(self, Self::Rc | Self::XrcSend | Self::XrcRecv)
    }
}

/// State of a queue pair (IBTA 10.3.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QpState {
    Reset,
    Init,
    Rtr,
    Rts,
    Sqd,
    Sqe,
    Error,
}

/// Service level, 0 to 15, end to end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ServiceLevel(pub u8);

/// Access rights of a memory region or queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Access {
    pub local_write: bool,
    pub remote_write: bool,
    pub remote_read: bool,
    pub remote_atomic: bool,
    /// Permission to bind memory windows to the region.
    pub mw_bind: bool,
}

/// Status of a work completion, with the number that verbs uses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum WcStatus {
    Success = 0,
    LocalLengthError = 1,
    LocalQpOperationError = 2,
    LocalProtectionError = 4,
    FlushError = 5,
    WindowBindError = 6,
    BadResponseError = 7,
    LocalAccessError = 8,
    RemoteInvalidRequestError = 9,
    RemoteAccessError = 10,
    RemoteOperationError = 11,
    RetryExceeded = 12,
    RnrRetryExceeded = 13,
    FatalError = 19,
    GeneralError = 21,
}

/// Operation of a work completion, with the number that verbs uses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum WcOpcode {
    Send = 0,
    RdmaWrite = 1,
    RdmaRead = 2,
    CompareSwap = 3,
    FetchAdd = 4,
    BindWindow = 5,
    LocalInvalidate = 6,
    AtomicWrite = 9,
    Receive = 128,
    ReceiveRdmaWithImmediate = 129,
}
