//! Names of sockets, families and protocols.

use std::net::IpAddr;

/// Socket of a stack. A closed socket's identifier never comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub(crate) u64);

/// Family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6, and IPv4 by mapped addresses (RFC 4291, 2.5.5.2) unless `IPV6_V6ONLY` is set.
    V6,
}

impl Family {
    /// Returns the address that stands for all of the host.
    pub const fn unspecified(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
            Self::V6 => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
        }
    }
}

/// Protocol of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Stream,
    /// UDP.
    Datagram,
    /// ICMP echo (`SOCK_DGRAM` with `IPPROTO_ICMP` or `IPPROTO_ICMPV6`). The identifier of the messages
    /// takes the place of the port.
    Echo,
    /// Sockets Direct Protocol.
    Sdp,
}

impl Protocol {
    /// Returns whether a socket of the protocol sends and receives whole messages.
    pub const fn has_messages(self) -> bool {
        matches!(self, Self::Datagram | Self::Echo)
    }
}
