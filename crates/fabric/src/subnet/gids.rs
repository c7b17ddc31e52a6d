//! Addresses of ports: GID tables, and the internal LID that represents an Ethernet address.
//!
//! Every port has a LID, and forwarding tables contain only LIDs. On Ethernet the LID represents
//! the MAC address, and programs never see it. Programs use GIDs, which this module resolves as a
//! host resolves network-layer addresses.

use super::{KnownPort, Subnet};
use crate::numbering::Owner;
use softband_model::packet::{LinkAddresses, Packet};
use softband_model::verbs::api::{AddressVector, GlobalRoute, VerbsError};
use softband_spec::{ETHERNET_LIDS, LIDS};
use softband_types::{Gid, Guid, HcaId, Lid, LinkLayer, Lmc, PortLids, VirtualLane};
use std::collections::BTreeMap;

/// The network of all Ethernet ports of a fabric, 10.77.0.0/16. The port's LID fills the rest of an
/// address.
const NETWORK: [u8; 2] = [10, 77];
/// Place of the IPv4 address in the GID table of an Ethernet port.
const IPV4_INDEX: u8 = 1;
/// Hop limit of the packets that hosts send by default (RFC 1340).
const HOP_LIMIT: u8 = 64;
/// First LID of the multicast groups on Ethernet.
const GROUP_LID_FIRST: u16 = 0xE000;
const GROUP_LIDS: u16 = 0x1FFF;
/// LID of frames to all ports of an Ethernet network, in front of those of groups. Switches of
/// InfiniBand have tables of their own.
pub(crate) const FLOOD: Lid = Lid(GROUP_LID_FIRST - 1);

/// Returns whether a port is Ethernet's.
pub(super) fn is_ethernet(port: &KnownPort) -> bool {
    port.framing.link_layer() == LinkLayer::Ethernet
}

/// Last LID before those of Ethernet's ports in a fabric whose manager is a program. Managers assign the
/// LIDs of InfiniBand's ports from 1 on, in any order and number.
const MANAGED_LAST: Lid = Lid((LIDS - ETHERNET_LIDS) as u16);

/// Assigns the LIDs of Ethernet's ports, beyond those that a program assigns on InfiniBand.
pub(super) fn assign_ethernet_lids(ports: &[KnownPort]) -> Vec<PortLids> {
    assign_from(ports, MANAGED_LAST, Lmc::ZERO, &[LinkLayer::Ethernet])
}

/// Assigns LIDs from 1 on: the HCAs' cabled ports in the order of the file, then the switches. All
/// InfiniBand ports come before all Ethernet ports. A switch has one LID, at its first port. `lmc` is
/// that of HCAs' ports on InfiniBand.
pub(super) fn assign_lids(ports: &[KnownPort], lmc: Lmc) -> Vec<PortLids> {
    assign_from(ports, Lid::NONE, lmc, &LinkLayer::ALL)
}

fn assign_from(ports: &[KnownPort], mut last: Lid, lmc: Lmc, layers: &[LinkLayer]) -> Vec<PortLids> {
    let mut lids = vec![PortLids::default(); ports.len()];
    for layer in layers.iter().copied() {
        let of_hca = |port: &KnownPort| matches!(port.owner, Owner::Hca { .. }) && port.is_cabled;
        let of_switch = |port: &KnownPort| matches!(port.owner, Owner::Switch { index: 0, .. });
        let kinds: [fn(&KnownPort) -> bool; 2] = [of_hca, of_switch];
        for (number, has_lid) in kinds.into_iter().enumerate() {
            let is_of_hcas = number == 0;
            let lmc = if is_of_hcas && layer == LinkLayer::Infiniband { lmc } else { Lmc::ZERO };
            let wanted = |(port, _): &(&KnownPort, _)| has_lid(port) && port.framing.link_layer() == layer;
            for (_, lid) in ports.iter().zip(&mut lids).filter(wanted) {
                *lid = PortLids::after(last, lmc).expect("a checked fabric has fewer ports");
                last = lid.last();
            }
        }
    }
    lids
}

impl KnownPort {
    /// Returns the GUID of the port. A switch has a single GUID.
    fn guid(&self) -> Guid {
        match self.owner {
            Owner::Hca { .. } => Guid(self.node_guid.0.wrapping_add(u64::from(self.number.0))),
            Owner::Switch { .. } => self.node_guid,
        }
    }
}

/// Returns the InfiniBand port with each GUID: the first with a LID, or the first of all.
pub(super) fn ports_by_guid(ports: &[KnownPort], lids: &[PortLids]) -> BTreeMap<Guid, u32> {
    let mut by_guid = BTreeMap::new();
    for (id, port) in (0..).zip(ports) {
        note_guid(&mut by_guid, lids, (id, port));
    }
    by_guid
}

/// Notes the GUID of an InfiniBand port. GUIDs of descriptions can coincide: a port with a LID
/// replaces one without.
pub(super) fn note_guid(by_guid: &mut BTreeMap<Guid, u32>, lids: &[PortLids], (id, port): (u32, &KnownPort)) {
    if port.framing.link_layer() == LinkLayer::Infiniband {
        let known = by_guid.entry(port.guid()).or_insert(id);
        if lids[*known as usize].base == Lid::NONE && lids[id as usize].base != Lid::NONE {
            *known = id;
        }
    }
}

impl Subnet {
    /// Returns the InfiniBand port with this GID.
    pub(crate) fn port_with_gid(&self, gid: Gid) -> Option<u32> {
        let (prefix, guid) = gid.0.split_at(8);
        let guid = Guid(u64::from_be_bytes(guid.try_into().ok()?));
        self.port_of_guid.get(&guid).copied().filter(|_| *prefix == Gid::DEFAULT_PREFIX.to_be_bytes())
    }

    /// Returns the Ethernet port with this IPv4 address.
    pub(crate) fn port_with_ipv4(&self, gid: Gid) -> Option<u32> {
        let [.., high, low] = gid.ipv4()?;
        let port = self.port_with_lid(Lid(u16::from_be_bytes([high, low])))?;
        self.gids(port).contains(&Some(gid)).then_some(port)
    }

    /// Returns the GID table of a port. On Ethernet the table lists the interface's addresses in
    /// the kernel's order; it is empty while the interface is down.
    pub(crate) fn gids(&self, id: u32) -> [Option<Gid>; 2] {
        let (port, lid) = (&self.ports[id as usize], self.lid(id));
        let guid = port.guid();
        match port.framing.link_layer() {
            LinkLayer::Infiniband => [Some(Gid::new(Gid::DEFAULT_PREFIX, guid)), None],
            LinkLayer::Ethernet if lid == Lid::NONE => [None, None],
            LinkLayer::Ethernet => [Some(link_local(guid, lid)), Some(ipv4(lid))],
        }
    }

    /// Returns the source GID that the sender of a packet selected.
    pub(crate) fn source_gid(&self, packet: &Packet) -> Gid {
        let Some(port) = self.port_with_lid(packet.slid) else { return Gid::default() };
        let index = match self.ports[port as usize].framing.link_layer() {
            LinkLayer::Infiniband => 0,
            LinkLayer::Ethernet => packet.grh.map_or(0, |route| usize::from(route.sgid_index)),
        };
        self.gids(port).get(index).copied().flatten().unwrap_or_default()
    }

    /// Returns the route of a management packet that leaves by a port for the port with this LID. On
    /// Ethernet the packet goes between the IPv4 addresses of both.
    pub(crate) fn route_of_management(&self, port: u32, dlid: Lid) -> Option<GlobalRoute> {
        let is_ethernet = is_ethernet(&self.ports[port as usize]);
        is_ethernet.then(|| GlobalRoute { dgid: ipv4(dlid), sgid_index: IPV4_INDEX, hop_limit: HOP_LIMIT, ..GlobalRoute::default() })
    }

    /// Returns the values of a packet's headers that follow from its lane and from the addresses of
    /// ports.
    pub(crate) fn link_addresses(&self, packet: &Packet, lane: VirtualLane) -> LinkAddresses {
        let group = packet.grh.map(|route| route.dgid).filter(|gid| gid.is_multicast());
        let destination = group.map_or_else(|| self.mac(packet.dlid), mac_of_group);
        LinkAddresses { lane, source: self.source_gid(packet), macs: [self.mac(packet.slid), destination] }
    }

    /// Returns the LID of the host's port with a MAC address in a port's network.
    pub(crate) fn lid_with_mac(&self, from: u32, mac: [u8; 6]) -> Option<Lid> {
        let lid = Lid(u16::from_be_bytes([mac[4], mac[5]]));
        let port = self.port_with_lid(lid).filter(|port| self.mac(lid) == mac && self.network(*port) == self.network(from))?;
        matches!(self.ports[port as usize].owner, Owner::Hca { .. }).then_some(lid)
    }

    /// Returns the MAC address that a LID stands for: the vendor's three bytes and the LID.
    pub(crate) fn mac(&self, lid: Lid) -> [u8; 6] {
        let guid = self.port_with_lid(lid).map_or(Guid(0), |port| self.ports[port as usize].node_guid);
        let ([a, b, c, ..], [high, low]) = (guid.0.to_be_bytes(), lid.0.to_be_bytes());
        [a, b, c, 0, high, low]
    }

    /// Returns a program's address vector with the destination's LID filled in. InfiniBand vectors
    /// keep every field except the service level, which the routing engine may set per path. On
    /// real fabrics programs query the subnet manager for it; here they need no query. Ethernet
    /// vectors always have a global route (`IB_QP_AV` of RoCE in the kernel's
    /// `ib_resolve_eth_dmac`).
    ///
    /// # Errors
    /// `Invalid` for a vector without a global route, or for a GID index that does not match the
    /// destination. `Unresolved` if no host has the IPv4 address. A link-local address needs no
    /// resolution: packets to an unknown link-local address are lost.
    pub(crate) fn resolve(&self, port: u32, vector: &AddressVector) -> Result<AddressVector, VerbsError> {
        if self.ports[port as usize].framing.link_layer() == LinkLayer::Infiniband {
            return Ok(AddressVector { service_level: self.level_of_path(self.lid(port), vector), ..*vector });
        }
        let route = vector.grh.ok_or(VerbsError::Invalid)?;
        let source = self.gids(port).get(usize::from(route.sgid_index)).copied().flatten().ok_or(VerbsError::Invalid)?;
        if source.ipv4().is_some() != route.dgid.ipv4().is_some() {
            return Err(VerbsError::Invalid);
        }
        let dlid = if route.dgid.is_multicast() { Some(group_lid(route.dgid)) } else { self.ethernet_lid(port, route.dgid) };
        match dlid {
            Some(dlid) => Ok(AddressVector { dlid, ..*vector }),
            None if route.dgid.is_link_local() => Ok(AddressVector { dlid: Lid::NONE, ..*vector }),
            None => Err(VerbsError::Unresolved),
        }
    }

    /// Returns the LID of the host that has this address in the port's network. Switches have no
    /// addresses.
    fn ethernet_lid(&self, from: u32, gid: Gid) -> Option<Lid> {
        let network = self.network(from);
        let is_host_there = |port: &KnownPort| port.network == network && matches!(port.owner, Owner::Hca { .. });
        let mut ports = (0..).zip(&self.ports).filter(|(_, port)| is_host_there(port));
        ports.find(|(id, _)| self.gids(*id).contains(&Some(gid))).map(|(id, _)| self.lid(id))
    }

    /// Returns the HCA that packets with this LID reach from a port; `None` without an HCA or a
    /// route.
    pub(crate) fn hca_reached(&self, from: u32, lid: Lid) -> Option<HcaId> {
        let to = &self.ports[self.port_with_lid(lid)? as usize];
        match to.owner {
            Owner::Hca { hca, .. } if to.is_cabled && to.network == self.network(from) => Some(HcaId(hca)),
            _ => None,
        }
    }

    /// Returns the LID of a group of a port's link layer: the program's LID, or on Ethernet the LID
    /// that the GID maps to.
    pub(crate) fn lid_of_group(&self, layer: LinkLayer, mgid: Gid, mlid: Lid) -> Lid {
        match layer {
            LinkLayer::Infiniband => mlid,
            LinkLayer::Ethernet => group_lid(mgid),
        }
    }
}

/// Maps a group to its LID. Groups may share a LID, as they share a MAC address (RFC 1112, 6.4):
/// HCAs check the GID.
fn group_lid(mgid: Gid) -> Lid {
    Lid(GROUP_LID_FIRST + u16::from_be_bytes([mgid.0[14], mgid.0[15]]) % GROUP_LIDS)
}

/// Returns the MAC address of a multicast group (RFC 1112, 6.4; RFC 2464, 7).
fn mac_of_group(mgid: Gid) -> [u8; 6] {
    match mgid.ipv4() {
        Some([_, b, c, d]) => [0x01, 0x00, 0x5E, b & 0x7F, c, d],
        None => [0x33, 0x33, mgid.0[12], mgid.0[13], mgid.0[14], mgid.0[15]],
    }
}

fn ipv4(lid: Lid) -> Gid {
    let [high, low] = lid.0.to_be_bytes();
    Gid::of_ipv4([NETWORK[0], NETWORK[1], high, low])
}

/// Derives the address from the MAC address: the vendor's three bytes and the LID (RFC 4291,
/// appendix A).
fn link_local(guid: Guid, lid: Lid) -> Gid {
    const UNIVERSAL: u8 = 2;
    let ([a, b, c, ..], [high, low]) = (guid.0.to_be_bytes(), lid.0.to_be_bytes());
    Gid::new(Gid::DEFAULT_PREFIX, Guid(u64::from_be_bytes([a ^ UNIVERSAL, b, c, 0xFF, 0xFE, 0, high, low])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_model::link::Framing;
    use softband_types::PortNumber;

    #[test]
    fn addresses_follow_from_the_maker_and_the_lid() {
        assert_eq!(ipv4(Lid(0x102)).ipv4(), Some([10, 77, 1, 2]));
        let local = link_local(Guid(0x0002_c903_0000_1f02), Lid(0x102));
        assert_eq!(local.0, [0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0x02, 0xC9, 0xFF, 0xFE, 0, 1, 2]);
    }

    #[test]
    fn a_port_with_a_lid_has_the_guid() {
        let port = |hca, number, node_guid, is_cabled| KnownPort {
            owner: Owner::Hca { hca, index: number - 1 },
            number: PortNumber(number),
            node_guid: Guid(node_guid),
            framing: Framing::Infiniband,
            is_cabled,
            network: 0,
        };
        // Port 2 of the first HCA has the GUID of port 1 of the second.
        let ports = [port(0, 1, 0x10, true), port(0, 2, 0x10, false), port(1, 1, 0x11, true)];
        assert_eq!(ports_by_guid(&ports, &assign_lids(&ports, Lmc::ZERO)), BTreeMap::from([(Guid(0x11), 0), (Guid(0x12), 2)]));
        assert_eq!(ports_by_guid(&ports, &[PortLids::default(); 3])[&Guid(0x12)], 1);
    }

    #[test]
    fn groups_have_lids_of_groups() {
        for last in [0, 1, 0xFFFE, 0xFFFF] {
            let mut mgid = Gid([0xFF; 16]);
            mgid.0[14..].copy_from_slice(&u16::to_be_bytes(last));
            assert!(group_lid(mgid).is_multicast(), "{last}");
        }
    }
}
