//! Makes both ends of a connection at once, without messages of communication management, and
//! destroys them. The Hello messages then cross the connection.

use super::Sdp;
use super::end::{End, Ground};
use super::objects::{Pair, PairAddress};
use crate::host::kernel::agenda::Due;
use crate::host::kernel::{Common, Kernels};
use softband_fabric::World;
use softband_net::sdp::{Order, abort};
use softband_net::{InterfaceConfig, InterfaceId, NetError, Payload, SocketId};
use softband_sim::{SimDuration, SimTime};
use softband_types::{Lid, Psn};
use std::net::IpAddr;

impl Kernels {
    /// Connects an end to the host that it wants. A failure leaves no queue pair behind.
    pub(in crate::host::kernel) fn sdp_connect(&mut self, world: &mut World, now: SimTime, (host, number): (usize, u32)) {
        let wanted = self.hosts[host].sdp_mut().wanted(number);
        let Some(wanted) = wanted.filter(|_| self.hosts[host].is_alive()) else { return };
        let error = match self.join_ends(world, now, (host, number), wanted) {
            Ok(()) => return self.hosts[host].sdp_mut().flush(world, &mut self.common, now, number),
            Err(error) => error,
        };
        self.hosts[host].sdp_mut().unmake(world, &mut self.common, now, number);
        // A host out of reach is like a neighbour that answers no request for its address.
        let is_silent = error == NetError::HostUnreachable;
        let time = if is_silent { self.hosts[host].neighbour_time() } else { SimDuration::ZERO };
        self.common.agenda.push(now + time, Due::SdpLost { host, end: number, error });
    }

    fn join_ends(
        &mut self,
        world: &mut World,
        now: SimTime,
        (host, number): (usize, u32),
        (interface, to): (InterfaceId, IpAddr),
    ) -> Result<(), NetError> {
        let found = if to.is_loopback() { Some((host, interface)) } else { self.sdp_host_of(to) };
        let (peer_host, peer_interface) = found.ok_or(NetError::HostUnreachable)?;
        let from = self.hosts[host].sdp_mut().make(world, &mut self.common, now, number)?;
        // A manager of communication without room rejects the request.
        let end = End::new(peer_interface, None, to);
        let peer = self.hosts[peer_host].sdp_mut().open(end).ok_or(NetError::Refused)?;
        let made = self.hosts[peer_host].sdp_mut().make(world, &mut self.common, now, peer);
        let made = made.map_err(|error| if error == NetError::NoBuffers { NetError::Refused } else { error });
        let joined = made.and_then(|at| {
            let own = self.hosts[host].sdp_mut().join(world, now, number, at);
            own.and_then(|()| self.hosts[peer_host].sdp_mut().join(world, now, peer, from)).ok_or(NetError::HostUnreachable)
        });
        if joined.is_err() {
            let sdp = self.hosts[peer_host].sdp_mut();
            sdp.unmake(world, &mut self.common, now, peer);
            sdp.forget(peer);
            return joined;
        }
        self.hosts[host].sdp_mut().set_peer(number, (peer_host, peer));
        self.hosts[peer_host].sdp_mut().set_peer(peer, (host, number));
        self.hosts[host].share_sdp_key(world, interface);
        self.hosts[peer_host].share_sdp_key(world, peer_interface);
        Ok(())
    }

    /// Returns the running host with an address on an interface that offers SDP.
    fn sdp_host_of(&mut self, to: IpAddr) -> Option<(usize, InterfaceId)> {
        (0..self.hosts.len()).find_map(|host| {
            let kernel = &mut self.hosts[host];
            let has = |config: &InterfaceConfig| config.addresses.iter().any(|own| own.address == to);
            let interface = kernel.stack().interfaces().find(|(_, config, _)| has(config)).map(|(number, ..)| number)?;
            (kernel.is_alive() && kernel.sdp_mut().devices.contains_key(&interface)).then_some((host, interface))
        })
    }

    /// Destroys a closed end. Its peer loses the connection if it has not ended it. A peer whose host
    /// has died goes, too.
    pub(in crate::host::kernel) fn sdp_release(&mut self, world: &mut World, now: SimTime, (host, number): (usize, u32)) {
        let sdp = self.hosts[host].sdp_mut();
        sdp.unmake(world, &mut self.common, now, number);
        let Some((peer_host, peer)) = sdp.forget(number).and_then(|end| end.peer) else { return };
        if !self.hosts[peer_host].is_alive() {
            return self.hosts[peer_host].sdp_mut().close(&mut self.common, now, peer);
        }
        if let Some(socket) = self.hosts[peer_host].sdp_mut().lose_peer(&mut self.common, now, peer) {
            self.hosts[peer_host].sdp_lost(world, &mut self.common, now, socket, NetError::Reset);
        }
    }

    /// Refuses a connection that no socket accepts.
    pub(in crate::host::kernel) fn sdp_refuse(&mut self, world: &mut World, now: SimTime, (host, number): (usize, u32)) {
        let sdp = self.hosts[host].sdp_mut();
        let refusal = Order::Send { header: abort(), payload: Payload::empty() };
        sdp.carry_out(world, &mut self.common, now, number, refusal);
        sdp.close(&mut self.common, now, number);
    }
}

impl Sdp {
    /// Returns the interface and the wanted host of an end.
    fn wanted(&self, number: u32) -> Option<(InterfaceId, IpAddr)> {
        self.ends.get(&number).filter(|end| !end.is_closed).map(|end| (end.interface, end.to))
    }

    fn set_peer(&mut self, number: u32, peer: (usize, u32)) {
        if let Some(end) = self.ends.get_mut(&number) {
            end.peer = Some(peer);
        }
    }

    /// Makes the queue pair of an end. Fails with `HostUnreachable` if its port is down, and with
    /// `NoBuffers` if its HCA has no queue pair left.
    fn make(&mut self, world: &mut World, common: &mut Common, now: SimTime, number: u32) -> Result<PairAddress, NetError> {
        let end = self.ends.get_mut(&number).ok_or(NetError::HostUnreachable)?;
        let device = self.devices.get_mut(&end.interface).ok_or(NetError::HostUnreachable)?;
        let place = device.place;
        world.port(place.hca, place.port).filter(|port| port.active).ok_or(NetError::HostUnreachable)?;
        let objects = device.objects(world).map_err(|_| NetError::NoBuffers)?;
        let psn = Psn::new(self.random.next_u64() as u32);
        let pair = Pair::new(&place, &objects, psn, world, now).ok_or(NetError::NoBuffers)?;
        end.pair = Some(pair);
        common.sdp_queues.insert(pair.cq, (place.host, number));
        let mut ground = Ground { place, objects, store: &mut common.store, world };
        end.post_receives(number, now, &mut ground);
        Ok(pair.address(&place))
    }

    /// Connects the queue pair of an end to that of its peer.
    fn join(&mut self, world: &mut World, now: SimTime, number: u32, peer: PairAddress) -> Option<()> {
        let (hca, port) = peer.port;
        let end = self.ends.get(&number)?;
        let place = self.devices.get(&end.interface)?.place;
        let lid: Lid = world.port(hca, port)?.lid;
        let own = (place.hca, place.port);
        let mtu = if own == (hca, port) { world.port(hca, port)?.mtu_active } else { world.path_mtu(own, (hca, port))? };
        end.pair?.connect(&place, (lid, peer), mtu, world, now)
    }

    /// Destroys the queue pair of an end.
    fn unmake(&mut self, world: &mut World, common: &mut Common, now: SimTime, number: u32) {
        let Some(end) = self.ends.get_mut(&number) else { return };
        let Some(device) = self.devices.get(&end.interface) else { return };
        if let Some(pair) = end.pair.take() {
            pair.destroy(&device.place, world, now.max(world.now()));
            common.sdp_queues.remove(&pair.cq);
            End::release(number, &device.place, &mut common.store);
        }
    }

    /// Carries out the orders that waited for the queue pair.
    fn flush(&mut self, world: &mut World, common: &mut Common, now: SimTime, number: u32) {
        let Some(end) = self.ends.get_mut(&number) else { return };
        for (at, order) in std::mem::take(&mut end.waiting) {
            self.carry_out(world, common, at.max(now), number, order);
        }
    }

    /// Notes that the peer of an end is gone. Returns the socket of an end that is not closed.
    fn lose_peer(&mut self, common: &mut Common, now: SimTime, number: u32) -> Option<SocketId> {
        let end = self.ends.get_mut(&number)?;
        end.peer = None;
        if end.socket.is_none() && !end.is_closed {
            self.close(common, now, number);
            return None;
        }
        end.socket
    }

    /// Returns the key by which peers read the memory of an interface.
    pub(in crate::host::kernel) fn rkey(&mut self, world: &mut World, interface: InterfaceId) -> Option<u32> {
        let device = self.devices.get_mut(&interface)?;
        Some(device.objects(world).ok()?.rkey.0)
    }
}
