//! Network interfaces of hosts, for sockets.

use crate::FabricSpec;
use softband_types::{PKey, PortNumber};
use std::net::{IpAddr, Ipv4Addr};

/// Most bytes of an interface's name: `IFNAMSIZ` of Linux without its final zero.
pub const INTERFACE_NAME_MAX: usize = 15;
/// Name of the interface on the management network.
pub const MANAGEMENT_NAME: &str = "eth0";
/// Address of host 0 on the management network. RFC 2544 reserves 198.18.0.0/15 for tests.
pub const MANAGEMENT_FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Bits of the management network's prefix.
pub const MANAGEMENT_PREFIX: u8 = 16;
/// MTU of the management network in bytes.
pub const MANAGEMENT_MTU_BYTES: u32 = 1_500;

/// Interface of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceSpec {
    /// Name, unique in the host, at most [`INTERFACE_NAME_MAX`] bytes.
    pub name: String,
    /// Link that carries its packets.
    pub kind: InterfaceKind,
    /// Addresses of the host on this interface. The first is the source of new connections.
    pub addresses: Vec<InterfaceAddress>,
    /// Largest IP packet in bytes.
    pub mtu_bytes: u32,
}

/// Address with the length of its subnet's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceAddress {
    /// Address of the host.
    pub address: IpAddr,
    /// Bits of the prefix.
    pub prefix: u8,
}

/// Link of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceKind {
    /// The management network: a latency and a rate of the host's part, without loss.
    Management,
    /// IP over InfiniBand (RFC 4391).
    Ipoib {
        /// Index of the HCA in the host.
        hca: usize,
        /// Port of the HCA.
        port: PortNumber,
        /// Transport of unicast packets.
        mode: IpoibMode,
        /// Partition of the link.
        pkey: PKey,
    },
    /// Ethernet frames.
    Ethernet {
        /// Index of the HCA in the host.
        hca: usize,
        /// Port of the HCA.
        port: PortNumber,
    },
}

/// Transport of IP over InfiniBand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpoibMode {
    /// Unreliable datagrams (RFC 4391).
    Datagram,
    /// A connection for each neighbour, and datagrams for multicast (RFC 4755).
    Connected,
}

impl IpoibMode {
    /// All modes.
    pub const ALL: [Self; 2] = [Self::Datagram, Self::Connected];

    /// Returns the name that fabric files and `/sys/class/net/*/mode` use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Datagram => "datagram",
            Self::Connected => "connected",
        }
    }
}

impl InterfaceSpec {
    /// Returns the interface of a host on the management network, by the host's index.
    pub fn management(host: usize) -> Self {
        let address = u32::from(MANAGEMENT_FIRST).wrapping_add(host as u32);
        Self {
            name: MANAGEMENT_NAME.into(),
            kind: InterfaceKind::Management,
            addresses: vec![InterfaceAddress { address: Ipv4Addr::from(address).into(), prefix: MANAGEMENT_PREFIX }],
            mtu_bytes: MANAGEMENT_MTU_BYTES,
        }
    }

    /// Returns the HCA and port whose link carries the packets. `None` for the management network.
    pub fn port(&self) -> Option<(usize, PortNumber)> {
        match self.kind {
            InterfaceKind::Management => None,
            InterfaceKind::Ipoib { hca, port, .. } | InterfaceKind::Ethernet { hca, port } => Some((hca, port)),
        }
    }
}

impl FabricSpec {
    /// Checks whether any interface sends packets over modelled links.
    pub fn has_modelled_network(&self) -> bool {
        self.hosts.iter().flat_map(|host| &host.interfaces).any(|interface| interface.kind != InterfaceKind::Management)
    }
}
