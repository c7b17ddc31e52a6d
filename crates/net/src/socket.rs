//! Sockets of a host.

use crate::error::NetError;
use crate::socket_id::{Family, Protocol, SocketId};
use crate::tcp::{Connection, Listener, SocketOptions};
use crate::udp::DatagramSocket;
use std::net::SocketAddr;

/// State of a socket by protocol.
#[derive(Debug)]
pub(crate) enum Kind {
    /// TCP, before `connect` and `listen`.
    Idle,
    Listener(Box<Listener>),
    Connection(Box<Connection>),
    Datagram(Box<DatagramSocket>),
}

#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) family: Family,
    pub(crate) kind: Kind,
    pub(crate) bound: Option<SocketAddr>,
    /// Address that the program asked for, which outlives a connection.
    pub(crate) asked: Option<SocketAddr>,
    pub(crate) reuse_address: bool,
    pub(crate) reuse_port: bool,
    /// The kernel chose the port for `connect`.
    pub(crate) is_ephemeral: bool,
    /// Options of a TCP socket without a connection.
    pub(crate) options: Option<Box<SocketOptions>>,
    /// Listening socket whose queue holds this connection.
    pub(crate) parent: Option<SocketId>,
}

impl Socket {
    pub(crate) fn protocol(&self) -> Protocol {
        match self.kind {
            Kind::Datagram(_) => Protocol::Datagram,
            Kind::Idle | Kind::Listener(_) | Kind::Connection(_) => Protocol::Stream,
        }
    }
    pub(crate) fn connection(&mut self) -> Result<&mut Connection, NetError> {
        match &mut self.kind {
            Kind::Connection(connection) => Ok(connection),
            Kind::Idle | Kind::Listener(_) => Err(NetError::NotConnected),
            Kind::Datagram(_) => Err(NetError::Unsupported),
        }
    }
    pub(crate) fn datagram(&mut self) -> Result<&mut DatagramSocket, NetError> {
        match &mut self.kind {
            Kind::Datagram(socket) => Ok(socket),
            _ => Err(NetError::Unsupported),
        }
    }
}
