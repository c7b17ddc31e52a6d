//! Network interfaces of hosts, for sockets.

use crate::{FabricSpec, PortRef};
use softband_types::{PKey, PortNumber};
use std::collections::BTreeSet;
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

/// Route of a host to a network behind another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteSpec {
    /// First address of the network, with its prefix. A prefix of 0 is the default route.
    pub network: InterfaceAddress,
    /// Address of the next host, which forwards packets.
    pub gateway: IpAddr,
    /// Index of the interface to the gateway among those of the host.
    pub interface: usize,
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
    /// Ethernet frames of a NIC, or of an HCA with Ethernet ports.
    Ethernet {
        /// Index of the card among the host's HCAs.
        hca: usize,
        /// Port of the card.
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
    /// Returns the first interface that no program could use: its host, its index there, and the
    /// reason.
    pub(crate) fn unusable_interface(&self) -> Option<(usize, usize, &'static str)> {
        let mut taken = BTreeSet::new();
        for (host, spec) in self.hosts.iter().enumerate() {
            for (index, interface) in spec.interfaces.iter().enumerate() {
                let is_known = spec.interfaces[..index].iter().any(|other| other.name == interface.name);
                let has_link = interface.port().is_none_or(|(hca, port)| self.cable_at(PortRef::Hca { host, hca, port }).is_some());
                let fresh = interface.addresses.iter().all(|own| taken.insert(own.address));
                let why = if !(1..=INTERFACE_NAME_MAX).contains(&interface.name.len()) || interface.name == "lo" || is_known {
                    "use a name of its own, of at most 15 bytes"
                } else if !has_link {
                    "no cable ends on its port"
                } else if !fresh {
                    "another interface has its address"
                } else if let Some(why) = self.ethernet_defect(host, index) {
                    why
                } else {
                    continue;
                };
                return Some((host, index, why));
            }
        }
        None
    }

    /// Returns the reason why an interface on Ethernet cannot work.
    fn ethernet_defect(&self, host: usize, index: usize) -> Option<&'static str> {
        let interfaces = &self.hosts[host].interfaces;
        let InterfaceKind::Ethernet { hca, port } = interfaces[index].kind else { return None };
        if !self.framing(self.link_layer(PortRef::Hca { host, hca, port })).has_raw_frames() {
            Some("its port is not of Ethernet")
        } else if interfaces[index].mtu_bytes > self.ethernet.mtu_bytes {
            Some("its MTU exceeds that of the Ethernet")
        } else if interfaces[..index].iter().any(|other| other.kind == interfaces[index].kind) {
            Some("another interface has its port")
        } else {
            None
        }
    }

    /// Checks whether a host forwards packets: a route of another host leads to one of its addresses.
    pub fn forwards(&self, host: usize) -> bool {
        let own = |address: IpAddr| self.hosts[host].interfaces.iter().flat_map(|interface| &interface.addresses).any(|own| own.address == address);
        self.hosts.iter().flat_map(|host| &host.routes).any(|route| own(route.gateway))
    }

    /// Checks whether any interface sends packets over modelled links.
    pub fn has_modelled_network(&self) -> bool {
        self.hosts.iter().flat_map(|host| &host.interfaces).any(|interface| interface.kind != InterfaceKind::Management)
    }
}

#[cfg(test)]
mod tests {
    use super::{InterfaceAddress, InterfaceKind, InterfaceSpec, IpoibMode};
    use crate::{BuildError, FabricBuilder};
    use softband_model::parts::{CablePart, HcaPart, HostPart};
    use softband_types::{PKey, PortNumber};
    use std::net::Ipv4Addr;

    fn ipoib(name: &str, port: u8, host: u8) -> InterfaceSpec {
        let kind = InterfaceKind::Ipoib { hca: 0, port: PortNumber(port), mode: IpoibMode::Datagram, pkey: PKey::DEFAULT_FULL };
        let address = InterfaceAddress { address: Ipv4Addr::new(10, 1, 0, host).into(), prefix: 16 };
        InterfaceSpec { name: name.into(), kind, addresses: vec![address], mtu_bytes: 2_044 }
    }

    fn reason(interfaces: [InterfaceSpec; 2]) -> Option<&'static str> {
        let mut fabric = FabricBuilder::new("two hosts");
        let [a, b] = ["a", "b"].map(|name| {
            let host = fabric.host(name, HostPart::ideal());
            fabric.hca(host, HcaPart::ideal())
        });
        fabric.cable(a, b, CablePart::ideal(1_000));
        interfaces.into_iter().enumerate().for_each(|(host, interface)| {
            fabric.interface(host, interface);
        });
        match fabric.build() {
            Ok(spec) => {
                assert!(spec.has_modelled_network());
                None
            }
            Err(BuildError::Interface { why, .. }) => Some(why),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn an_interface_has_a_name_a_cable_and_an_address_of_its_own() {
        assert_eq!(reason([ipoib("ib0", 1, 1), ipoib("ib0", 1, 2)]), None);
        let name = Some("use a name of its own, of at most 15 bytes");
        for wrong in ["lo", "", "eth0", "sixteen-bytes-ib"] {
            assert_eq!(reason([ipoib(wrong, 1, 1), ipoib("ib0", 1, 2)]), name, "{wrong}");
        }
        assert_eq!(reason([ipoib("ib0", 2, 1), ipoib("ib0", 1, 2)]), Some("no cable ends on its port"));
        assert_eq!(reason([ipoib("ib0", 1, 7), ipoib("ib0", 1, 7)]), Some("another interface has its address"));
        let ethernet = InterfaceSpec { kind: InterfaceKind::Ethernet { hca: 0, port: PortNumber(1) }, mtu_bytes: 1_500, ..ipoib("eth1", 1, 1) };
        assert_eq!(reason([ethernet, ipoib("ib0", 1, 2)]), Some("its port is not of Ethernet"));
    }
}
