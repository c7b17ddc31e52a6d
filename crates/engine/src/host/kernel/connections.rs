//! Connections between the interfaces of two hosts, in connected mode of IPoIB.
//!
//! Both ends are made at once, without messages of communication management.

use super::Kernels;
use softband_fabric::World;
use softband_net::{InterfaceId, LinkAddress};
use softband_sim::SimTime;
use softband_types::Qpn;

impl Kernels {
    /// Connects an interface to a neighbour. A failure leaves no queue pair behind.
    pub(super) fn connect(&mut self, world: &mut World, now: SimTime, (host, interface): (usize, InterfaceId), to: LinkAddress) {
        let ready = self.make_connection(world, now, (host, interface), to);
        let (hosts, common) = (&mut self.hosts, &mut self.common);
        if let Some((_, link)) = hosts[host].ipoib(interface) {
            link.connected(world, common, now, to, ready);
        }
    }

    /// Makes both ends of a connection. Returns the queue pair of the sending end.
    fn make_connection(&mut self, world: &mut World, now: SimTime, (host, interface): (usize, InterfaceId), to: LinkAddress) -> Option<Qpn> {
        let (peer_host, peer_interface) = self.interface_with(world, to)?;
        let (_, link) = self.hosts[host].ipoib(interface)?;
        let request = link.begin_connection(world, now)?;
        let (_, peer) = self.hosts[peer_host].ipoib(peer_interface)?;
        let accepted = peer.accept_connection(world, now, &request);
        let (_, link) = self.hosts[host].ipoib(interface)?;
        if accepted.and_then(|qpn| link.complete_connection(world, now, &request, (to, qpn))).is_some() {
            return Some(request.qpn);
        }
        link.destroy(world, now, request.qpn);
        let (_, peer) = self.hosts[peer_host].ipoib(peer_interface)?;
        peer.disconnected(world, now, request.from, request.qpn);
        None
    }

    /// Destroys both ends of a connection.
    pub(super) fn disconnect(&mut self, world: &mut World, now: SimTime, (host, interface): (usize, InterfaceId), (to, qpn): (LinkAddress, Qpn)) {
        let Some((_, link)) = self.hosts[host].ipoib(interface) else { return };
        link.destroy(world, now, qpn);
        let Some(from) = link.address(world) else { return };
        if let Some((host, interface)) = self.interface_with(world, to)
            && let Some((_, link)) = self.hosts[host].ipoib(interface)
        {
            link.disconnected(world, now, from, qpn);
        }
    }

    /// Returns the interface with a link address, if its host runs.
    fn interface_with(&self, world: &World, address: LinkAddress) -> Option<(usize, InterfaceId)> {
        let has = |host: usize| self.hosts[host].interface_with(world, address).map(|interface| (host, interface));
        (0..self.hosts.len()).find_map(has)
    }
}
