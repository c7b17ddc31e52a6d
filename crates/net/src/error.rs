//! Failures of calls, by Linux's error numbers.

use std::fmt;

/// Reason why a call fails. Each has one error number of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetError {
    /// The call would block (EAGAIN).
    WouldBlock,
    /// No such socket (EBADF).
    BadSocket,
    /// The socket may not send to a broadcast address (EACCES).
    Denied,
    /// No such interface (ENODEV).
    NoDevice,
    /// The arguments or the state of the socket do not allow the call (EINVAL).
    Invalid,
    /// The socket cannot send any more (EPIPE).
    Broken,
    /// The message is larger than a packet can be (EMSGSIZE).
    MessageTooLong,
    /// The protocol of the socket does not have the call (EOPNOTSUPP).
    Unsupported,
    /// Another socket has the address (EADDRINUSE).
    AddressInUse,
    /// The host does not have the address, or no port is free (EADDRNOTAVAIL).
    AddressNotAvailable,
    /// No route leads to the address (ENETUNREACH).
    NetworkUnreachable,
    /// The next host on the route does not answer (EHOSTUNREACH).
    HostUnreachable,
    /// The peer reset the connection (ECONNRESET).
    Reset,
    /// This host aborted the connection (ECONNABORTED).
    Aborted,
    /// A queue of the kernel is full (ENOBUFS).
    NoBuffers,
    /// The socket is connected already (EISCONN).
    Connected,
    /// The socket is not connected (ENOTCONN).
    NotConnected,
    /// The peer did not answer (ETIMEDOUT).
    TimedOut,
    /// The peer refused (ECONNREFUSED).
    Refused,
    /// The connection is under way already (EALREADY).
    Already,
    /// The connection is under way (EINPROGRESS).
    InProgress,
    /// The call needs a destination (EDESTADDRREQ).
    DestinationRequired,
}

impl NetError {
    /// Returns Linux's error number.
    pub const fn errno(self) -> i32 {
        match self {
            Self::BadSocket => 9,
            Self::WouldBlock => 11,
            Self::Denied => 13,
            Self::NoDevice => 19,
            Self::Invalid => 22,
            Self::Broken => 32,
            Self::DestinationRequired => 89,
            Self::MessageTooLong => 90,
            Self::Unsupported => 95,
            Self::AddressInUse => 98,
            Self::AddressNotAvailable => 99,
            Self::NetworkUnreachable => 101,
            Self::Aborted => 103,
            Self::Reset => 104,
            Self::NoBuffers => 105,
            Self::Connected => 106,
            Self::NotConnected => 107,
            Self::TimedOut => 110,
            Self::Refused => 111,
            Self::HostUnreachable => 113,
            Self::Already => 114,
            Self::InProgress => 115,
        }
    }
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?} (error {})", self.errno())
    }
}

impl std::error::Error for NetError {}
