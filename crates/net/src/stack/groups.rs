//! Multicast groups: sockets join them on interfaces, and interfaces on their links.

use super::{Effect, Stack};
use crate::error::NetError;
use crate::interface::InterfaceId;
use crate::neighbour::solicited_group;
use crate::scope;
use crate::socket_id::SocketId;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Groups of all hosts on a link.
const ALL_HOSTS: IpAddr = IpAddr::V4(Ipv4Addr::new(224, 0, 0, 1));
const ALL_HOSTS_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1));

/// Most groups of a socket, as Linux's `igmp_max_memberships`.
const GROUPS_MAX: usize = 20;

impl Stack {
    /// Returns the interface, the next host and the source for a datagram of a socket.
    /// `by` is the interface that the program named for this datagram.
    pub(super) fn way_of(&mut self, id: SocketId, destination: IpAddr, by: Option<InterfaceId>) -> Result<(InterfaceId, IpAddr, IpAddr), NetError> {
        let device = by.or(self.socket_mut(id)?.device);
        if destination == IpAddr::V4(Ipv4Addr::BROADCAST) {
            return match device {
                Some(device) => self.way_to_group(device, destination).ok_or(NetError::NetworkUnreachable),
                None => self.group_way(destination),
            };
        }
        if !destination.is_multicast() {
            return self.way_by(device, destination);
        }
        match device.or(self.socket_mut(id)?.datagram()?.multicast_interface) {
            Some(interface) => self.way_to_group(interface, destination).ok_or(NetError::NetworkUnreachable),
            None => self.group_way(destination),
        }
    }

    /// Returns the way to a group: by its route, or by the first link, where hosts have their default
    /// route.
    fn group_way(&self, group: IpAddr) -> Result<(InterfaceId, IpAddr, IpAddr), NetError> {
        let first = || (1..self.interfaces.len()).find_map(|index| self.way_to_group(InterfaceId(index as u32), group));
        self.way(group).ok().or_else(first).ok_or(NetError::NetworkUnreachable)
    }

    fn way_to_group(&self, interface: InterfaceId, group: IpAddr) -> Option<(InterfaceId, IpAddr, IpAddr)> {
        let addresses = &self.interfaces.get(interface.0 as usize)?.config.addresses;
        let all = || addresses.iter().map(|own| own.address).filter(|own| own.is_ipv4() == group.is_ipv4());
        // RFC 6724, 5, rule 2: a source whose scope is that of the group.
        let is_of_link = |address: &IpAddr| *address != scope::plain(*address);
        let is_link_group = matches!(group, IpAddr::V6(group) if group.segments()[0] & 0xf == 2);
        let source = all().find(|own| is_of_link(own) == is_link_group).or_else(|| all().next())?;
        Some((interface, group, source))
    }

    pub(crate) fn set_multicast_interface(&mut self, id: SocketId, interface: Option<InterfaceId>) -> Result<(), NetError> {
        if interface.is_some_and(|interface| interface.0 as usize >= self.interfaces.len()) {
            return Err(NetError::AddressNotAvailable);
        }
        self.socket_mut(id)?.datagram()?.multicast_interface = interface;
        Ok(())
    }

    /// Joins or leaves a group on an interface.
    pub(crate) fn change_membership(&mut self, id: SocketId, group: IpAddr, interface: Option<InterfaceId>, joins: bool) -> Result<(), NetError> {
        let group = self.socket_mut(id)?.canonical((group, 0).into())?.ip();
        if !group.is_multicast() {
            return Err(NetError::Invalid);
        }
        if joins { self.join(id, group, interface) } else { self.leave(id, group, interface) }
    }

    fn join(&mut self, id: SocketId, group: IpAddr, interface: Option<InterfaceId>) -> Result<(), NetError> {
        let interface = match interface {
            Some(interface) if interface.0 as usize >= self.interfaces.len() => return Err(NetError::NoDevice),
            Some(interface) => interface,
            None => self.group_way(group).map_err(|_| NetError::NoDevice)?.0,
        };
        let groups = &mut self.socket_mut(id)?.datagram()?.groups;
        if groups.contains(&(interface, group)) {
            return Err(NetError::AddressInUse);
        }
        if groups.len() >= GROUPS_MAX {
            return Err(NetError::NoBuffers);
        }
        groups.insert((interface, group));
        self.join_group(interface, group);
        Ok(())
    }

    /// Notes that a socket, or the host itself, joined a group.
    fn join_group(&mut self, interface: InterfaceId, group: IpAddr) {
        let Some(at) = self.interfaces.get_mut(interface.0 as usize) else { return };
        let members = at.groups.entry(group).or_default();
        *members += 1;
        if *members == 1 && interface != InterfaceId(0) {
            self.effects.push_back(Effect::Join { interface, group });
        }
    }

    /// Joins the groups of all hosts (RFC 1112, 7.2; RFC 4291, 2.8), and those that hear requests for
    /// the interface's addresses. No socket's end leaves them.
    pub(super) fn join_groups_of_all(&mut self, interface: InterfaceId) {
        let Some(at) = self.interfaces.get(interface.0 as usize) else { return };
        let mut groups = BTreeSet::new();
        for own in &at.config.addresses {
            match own.address {
                IpAddr::V4(_) => groups.extend([ALL_HOSTS]),
                IpAddr::V6(address) => groups.extend([ALL_HOSTS_V6, solicited_group(address)]),
            }
        }
        groups.into_iter().for_each(|group| self.join_group(interface, group));
    }

    fn leave(&mut self, id: SocketId, group: IpAddr, interface: Option<InterfaceId>) -> Result<(), NetError> {
        let groups = &mut self.socket_mut(id)?.datagram()?.groups;
        let matches = |(at, joined): &&(InterfaceId, IpAddr)| *joined == group && interface.is_none_or(|interface| *at == interface);
        let left = groups.iter().find(matches).copied().ok_or(NetError::AddressNotAvailable)?;
        groups.remove(&left);
        self.socket_mut(id)?.datagram()?.filters.remove(&left);
        self.leave_group(left.0, group);
        Ok(())
    }

    /// Notes that a socket left a group.
    pub(super) fn leave_group(&mut self, interface: InterfaceId, group: IpAddr) {
        let Some(at) = self.interfaces.get_mut(interface.0 as usize) else { return };
        let Some(members) = at.groups.get_mut(&group) else { return };
        *members -= 1;
        if *members == 0 {
            at.groups.remove(&group);
            if interface != InterfaceId(0) {
                self.effects.push_back(Effect::Leave { interface, group });
            }
        }
    }
}
