//! Sockets of a host.

use crate::error::NetError;
use crate::interface::InterfaceId;
use crate::scope;
use crate::sdp;
use crate::socket_id::{Family, Protocol, SocketId};
use crate::tcp::{Connection, Listener, SocketOptions};
use crate::udp::DatagramSocket;
use std::net::{IpAddr, SocketAddr};

/// State of a socket by protocol.
#[derive(Debug)]
pub(crate) enum Kind {
    /// TCP, before `connect` and `listen`.
    Idle,
    Listener(Box<Listener>),
    Connection(Box<Connection>),
    Datagram(Box<DatagramSocket>),
    Sdp(sdp::Role),
}

#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) family: Family,
    /// An IPv6 socket refuses IPv4 (`IPV6_V6ONLY`).
    pub(crate) v6_only: bool,
    pub(crate) kind: Kind,
    pub(crate) bound: Option<SocketAddr>,
    /// Address that the program asked for, which outlives a connection.
    pub(crate) asked: Option<SocketAddr>,
    pub(crate) reuse_address: bool,
    pub(crate) reuse_port: bool,
    /// The kernel chose the port for `connect`.
    pub(crate) is_ephemeral: bool,
    /// Interface of all its packets (`SO_BINDTODEVICE`).
    pub(crate) device: Option<InterfaceId>,
    /// Hop limit of packets to one host (`IP_TTL`), or `None` for the kernel's.
    pub(crate) hop_limit: Option<u8>,
    /// Options of a TCP socket without a connection.
    pub(crate) options: Option<Box<SocketOptions>>,
    /// Listening socket whose queue holds this connection.
    pub(crate) parent: Option<SocketId>,
}

impl Socket {
    /// Returns the address that a program means: IPv4 in place of a mapped address (RFC 4291, 2.5.5.2).
    /// Fails if the socket cannot have it.
    pub(crate) fn canonical(&self, address: SocketAddr) -> Result<SocketAddr, NetError> {
        let given = scope::of_program(address);
        let meant = SocketAddr::new(given.ip().to_canonical(), address.port());
        match self.family {
            // Linux: an address of a link means nothing without the link.
            Family::V6 if scope::lacks_scope(meant.ip()) => Err(NetError::Invalid),
            Family::V4 if address.is_ipv6() => Err(NetError::Invalid),
            Family::V6 if self.v6_only && address.is_ipv4() => Err(NetError::Invalid),
            // Linux: a socket for IPv6 alone has no way to IPv4.
            Family::V6 if self.v6_only && meant.is_ipv4() => Err(NetError::NetworkUnreachable),
            Family::V4 | Family::V6 => Ok(meant),
        }
    }
    /// Returns the address as the program sees it.
    pub(crate) fn shown(&self, address: SocketAddr) -> SocketAddr {
        scope::shown(SocketAddr::new(self.mapped(address.ip()), address.port()))
    }
    pub(crate) fn shown_ip(&self, address: IpAddr) -> IpAddr {
        scope::plain(self.mapped(address))
    }
    fn mapped(&self, address: IpAddr) -> IpAddr {
        match (self.family, address) {
            (Family::V6, IpAddr::V4(address)) => IpAddr::V6(address.to_ipv6_mapped()),
            _ => address,
        }
    }
    /// Returns whether a packet to `address` may reach the socket by its local address.
    pub(crate) fn covers(&self, address: IpAddr) -> bool {
        let Some(bound) = self.bound.map(|bound| bound.ip()) else { return false };
        bound == address || bound.is_unspecified() && self.takes_any(bound, address)
    }
    /// Returns whether an unspecified address of this socket stands for `address`, too.
    pub(crate) fn takes_any(&self, any: IpAddr, address: IpAddr) -> bool {
        any.is_ipv4() == address.is_ipv4() || any.is_ipv6() && !self.v6_only
    }
    /// Returns whether packets of the interface may reach the socket.
    pub(crate) fn hears(&self, interface: InterfaceId) -> bool {
        self.device.is_none_or(|device| device == interface)
    }
    pub(crate) fn protocol(&self) -> Protocol {
        match self.kind {
            Kind::Datagram(ref datagram) => {
                if datagram.is_echo {
                    Protocol::Echo
                } else {
                    Protocol::Datagram
                }
            }
            Kind::Sdp(_) => Protocol::Sdp,
            Kind::Idle | Kind::Listener(_) | Kind::Connection(_) => Protocol::Stream,
        }
    }
    pub(crate) fn connection(&mut self) -> Result<&mut Connection, NetError> {
        match &mut self.kind {
            Kind::Connection(connection) => Ok(connection),
            Kind::Idle | Kind::Listener(_) => Err(NetError::NotConnected),
            Kind::Datagram(_) | Kind::Sdp(_) => Err(NetError::Unsupported),
        }
    }
    pub(crate) fn sdp(&mut self) -> Result<&mut sdp::Connection, NetError> {
        match &mut self.kind {
            Kind::Sdp(sdp::Role::Connection(connection)) => Ok(connection),
            _ => Err(NetError::NotConnected),
        }
    }
    pub(crate) fn datagram(&mut self) -> Result<&mut DatagramSocket, NetError> {
        match &mut self.kind {
            Kind::Datagram(socket) => Ok(socket),
            _ => Err(NetError::Unsupported),
        }
    }
}
