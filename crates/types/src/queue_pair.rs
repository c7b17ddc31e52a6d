//! Queue pairs, access rights and completions.

/// Transport service of a queue pair (XRC: IBTA annex A14).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QpType {
    /// Reliable connection: each message arrives once and in order, or completes with an error.
    Rc,
    /// Unreliable connection: a message arrives once, or the fabric loses it without notice.
    Uc,
    /// Unreliable datagram: a message of one packet to any UD queue pair, which the fabric may
    /// lose.
    Ud,
    /// Sending side of an extended reliable connection. It receives no messages.
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

/// State of a queue pair, in the order of its life (IBTA 10.3.1). The verb `modify_qp` moves a QP
/// from state to state; an error moves it to `Sqe` or `Error`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QpState {
    /// The QP has just been created: it neither sends nor receives, and it accepts no work request.
    Reset,
    /// The QP has a port and access rights. It accepts receive requests and discards arriving
    /// packets.
    Init,
    /// Ready to receive: the QP knows its peer and executes arriving messages.
    Rtr,
    /// Ready to send: the QP executes work requests of both queues.
    Rts,
    /// Send queue drained: the QP receives, and begins no further send request.
    Sqd,
    /// Send queue error: a send request of an unreliable QP failed, and the QP still receives.
    Sqe,
    /// All outstanding and new work requests complete with `WcStatus::FlushError`.
    Error,
}

/// Service level of a packet, from 0 (the default) to 15, on its whole way. Each port maps it to a
/// virtual lane (IBTA 7.6.6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ServiceLevel(pub u8);

/// Access rights of a memory region, memory window or queue pair (IBTA 10.6.3). The default grants
/// local reads only, which every region permits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Access {
    /// The HCA may write received data and the results of reads and atomics to the region. IBTA
    /// requires this right for `remote_write` and `remote_atomic`.
    pub local_write: bool,
    /// A remote QP may write by RDMA.
    pub remote_write: bool,
    /// A remote QP may read by RDMA.
    pub remote_read: bool,
    /// A remote QP may execute atomic operations.
    pub remote_atomic: bool,
    /// A program may bind memory windows to the region.
    pub mw_bind: bool,
}

/// Status of a work completion, with the number of `ibv_wc_status` (IBTA 11.6.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum WcStatus {
    /// The request is complete. All other statuses move its queue to an error state.
    Success = 0,
    /// A message is longer than its receive request, or than a datagram may be.
    LocalLengthError = 1,
    /// The QP cannot execute the request.
    LocalQpOperationError = 2,
    /// A local buffer lies outside its region, or its L_Key is invalid.
    LocalProtectionError = 4,
    /// The QP was in an error state before the request finished. The request may have had effects.
    FlushError = 5,
    /// The program has no right to bind the memory window to that region.
    WindowBindError = 6,
    /// The responder returned an unexpected packet.
    BadResponseError = 7,
    /// An RDMA write with immediate data hit a local buffer without the right to write.
    LocalAccessError = 8,
    /// The responder does not support the request, or the message is too long for its buffer.
    RemoteInvalidRequestError = 9,
    /// The R_Key does not permit the request at the remote address.
    RemoteAccessError = 10,
    /// The responder failed for a reason of its own, such as an invalid local buffer.
    RemoteOperationError = 11,
    /// No ACK came within the local ACK timeout, after all repeats.
    RetryExceeded = 12,
    /// The responder had no receive request, after all repeats.
    RnrRetryExceeded = 13,
    /// The HCA failed, and the QP may be lost.
    FatalError = 19,
    /// The operation failed for a reason that no other status names.
    GeneralError = 21,
}

/// Operation of a work completion, with the number of `ibv_wc_opcode`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum WcOpcode {
    /// A send, with or without immediate data.
    Send = 0,
    /// An RDMA write, with or without immediate data.
    RdmaWrite = 1,
    /// An RDMA read: the data is in the local buffer.
    RdmaRead = 2,
    /// An atomic compare-and-swap of 8 bytes.
    CompareSwap = 3,
    /// An atomic fetch-and-add of 8 bytes.
    FetchAdd = 4,
    /// A bind of a memory window.
    BindWindow = 5,
    /// An invalidation of a local key.
    LocalInvalidate = 6,
    /// An atomic write of 8 bytes.
    AtomicWrite = 9,
    /// A receive request that took a send.
    Receive = 128,
    /// A receive request that took the immediate data of an RDMA write.
    ReceiveRdmaWithImmediate = 129,
}
