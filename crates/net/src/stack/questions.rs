//! Questions about sockets and addresses that change nothing.

use super::Stack;
use crate::error::NetError;
use crate::interface::{InterfaceAddress, InterfaceId};
use crate::packet::HOP_LIMIT;
use crate::scope;
use crate::sdp::Role;
use crate::socket::{Kind, Socket};
use crate::socket_id::{Family, SocketId};
use crate::tcp::{SocketOptions, State};
use softband_model::parts::CongestionControl;
use softband_sim::SimDuration;
use std::net::{IpAddr, SocketAddr};

/// Values of a socket's options, as `getsockopt` shows them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptionValues {
    /// `SO_REUSEADDR`.
    pub reuse_address: bool,
    /// `SO_REUSEPORT`.
    pub reuse_port: bool,
    /// `SO_SNDBUF` in bytes, as the kernel counts them.
    pub send_buffer: u32,
    /// `SO_RCVBUF` in bytes, as the kernel counts them.
    pub receive_buffer: u32,
    /// `SO_ACCEPTCONN`.
    pub listens: bool,
    /// `SO_BROADCAST`.
    pub may_broadcast: bool,
    /// `IP_MULTICAST_LOOP`.
    pub multicast_loop: bool,
    /// `IP_MULTICAST_IF`.
    pub multicast_interface: Option<InterfaceId>,
    /// `IP_MULTICAST_TTL`.
    pub multicast_hop_limit: u8,
    /// `IP_MULTICAST_ALL`.
    pub hears_all_groups: bool,
    /// `IP_TTL`.
    pub hop_limit: u8,
    /// `IPV6_V6ONLY`.
    pub v6_only: bool,
    /// `SO_BINDTODEVICE`.
    pub device: Option<InterfaceId>,
    /// Options of a TCP socket.
    pub stream: Option<StreamValues>,
}

/// Values of a TCP socket's options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamValues {
    /// `SO_LINGER`.
    pub linger: Option<SimDuration>,
    /// `SO_OOBINLINE`.
    pub urgent_inline: bool,
    /// `SO_KEEPALIVE`.
    pub keep_alive: bool,
    /// `TCP_KEEPIDLE`.
    pub keepalive_idle: SimDuration,
    /// `TCP_KEEPINTVL`.
    pub keepalive_interval: SimDuration,
    /// `TCP_KEEPCNT`.
    pub keepalive_probes: u32,
    /// `TCP_NODELAY`.
    pub no_delay: bool,
    /// `TCP_CORK`.
    pub cork: bool,
    /// `TCP_USER_TIMEOUT`.
    pub user_timeout: SimDuration,
    /// `TCP_MAXSEG` in bytes: that of the connection, or the program's bound, or Linux's default.
    pub segment_bytes: u32,
    /// `TCP_CONGESTION`.
    pub congestion: CongestionControl,
}

/// `TCP_MAXSEG` before a connection: the least MSS of IPv4 (RFC 9293, 3.7.1).
const SEGMENT_BYTES_DEFAULT: u32 = 536;

impl StreamValues {
    fn new(options: &SocketOptions, segment_bytes: Option<u32>) -> Self {
        let unconnected = if options.mss_max == u32::MAX { SEGMENT_BYTES_DEFAULT } else { options.mss_max };
        Self {
            linger: options.linger,
            urgent_inline: options.urgent_inline,
            keep_alive: options.keep_alive,
            keepalive_idle: options.keepalive_idle,
            keepalive_interval: options.keepalive_interval,
            keepalive_probes: options.keepalive_probes,
            no_delay: options.no_delay,
            cork: options.cork,
            user_timeout: options.user_timeout,
            segment_bytes: segment_bytes.unwrap_or(unconnected),
            congestion: options.congestion,
        }
    }
}

impl Stack {
    /// Returns whether a TCP socket has neither a connection nor a queue of them, so that `connect`
    /// begins one.
    pub fn is_idle(&self, socket: SocketId) -> bool {
        matches!(self.sockets.get(&socket).map(|socket| &socket.kind), Some(Kind::Idle | Kind::Sdp(Role::Idle)))
    }

    /// Returns whether a socket accepts connections to an address of the host.
    pub fn has_listener(&self, at: SocketAddr) -> bool {
        // Scopes are of the asking host, and this host has others.
        let is_bound = |bound: SocketAddr| scope::plain(bound.ip()) == scope::plain(at.ip());
        let covers = |socket: &Socket| socket.covers(at.ip()) || socket.bound.is_some_and(is_bound);
        self.ports.listeners(at.port()).filter_map(|id| self.sockets.get(&id)).any(covers)
    }

    /// Returns the family of a socket's addresses.
    pub fn family(&self, socket: SocketId) -> Option<Family> {
        self.sockets.get(&socket).map(|socket| socket.family)
    }

    /// Returns the address to which a socket is bound.
    pub fn local_address(&self, socket: SocketId) -> Option<SocketAddr> {
        self.sockets.get(&socket)?.bound
    }

    /// Returns whether a socket accepts connections.
    pub fn listens(&self, socket: SocketId) -> Option<bool> {
        self.sockets.get(&socket).map(|socket| matches!(socket.kind, Kind::Listener(_) | Kind::Sdp(Role::Listener(_))))
    }

    /// Returns the state of a socket's connection.
    pub fn state(&self, socket: SocketId) -> Option<State> {
        match &self.sockets.get(&socket)?.kind {
            Kind::Connection(connection) => Some(connection.state()),
            Kind::Sdp(Role::Connection(connection)) => Some(connection.state()),
            _ => None,
        }
    }

    /// Returns whether the host has the address on one of its interfaces.
    pub fn has_address(&self, address: IpAddr) -> bool {
        let is_it = |own: &InterfaceAddress| scope::plain(own.address) == address;
        self.interfaces.iter().any(|interface| interface.config.addresses.iter().any(is_it))
    }

    /// Returns whether packets to the address may end at the host: it is its own, or one of several hosts.
    pub fn takes(&self, address: IpAddr) -> bool {
        address.is_multicast() || self.has_address(address) || self.interfaces.iter().any(|interface| interface.is_broadcast(address))
    }

    pub(crate) fn option_values(&mut self, id: SocketId) -> Result<OptionValues, NetError> {
        let (send_default, receive_default) = (self.kernel.send_buffer.initial_bytes, self.kernel.receive_buffer.initial_bytes);
        let socket = self.socket_mut(id)?;
        let own = socket.options.as_deref();
        let (stream, buffers) = match &socket.kind {
            Kind::Connection(connection) => {
                let info = connection.info();
                (Some(StreamValues::new(connection.options(), Some(info.mss))), (info.send_buffer, info.receive_buffer))
            }
            Kind::Datagram(datagram) => (None, datagram.buffers()),
            Kind::Idle | Kind::Listener(_) | Kind::Sdp(_) => {
                let sizes = own.map_or((None, None), |own| (own.send_buffer, own.receive_buffer));
                (own.map(|own| StreamValues::new(own, None)), (sizes.0.unwrap_or(send_default), sizes.1.unwrap_or(receive_default)))
            }
        };
        let datagram = match &socket.kind {
            Kind::Datagram(datagram) => Some(datagram),
            _ => None,
        };
        Ok(OptionValues {
            reuse_address: socket.reuse_address,
            reuse_port: socket.reuse_port,
            send_buffer: buffers.0,
            receive_buffer: buffers.1,
            listens: matches!(socket.kind, Kind::Listener(_) | Kind::Sdp(Role::Listener(_))),
            may_broadcast: datagram.is_some_and(|datagram| datagram.may_broadcast),
            multicast_loop: datagram.is_none_or(|datagram| datagram.multicast_loop),
            multicast_interface: datagram.and_then(|datagram| datagram.multicast_interface),
            multicast_hop_limit: datagram.map_or(1, |datagram| datagram.multicast_hop_limit),
            hears_all_groups: datagram.is_none_or(|datagram| datagram.hears_all_groups),
            hop_limit: socket.hop_limit.unwrap_or(HOP_LIMIT),
            v6_only: socket.v6_only,
            device: socket.device,
            stream,
        })
    }
}
