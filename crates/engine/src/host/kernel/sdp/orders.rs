//! Carries out the orders of connections.

use super::end::{End, Ground};
use super::{DRAIN, Sdp};
use crate::host::kernel::Common;
use crate::host::kernel::agenda::Due;
use softband_fabric::World;
use softband_net::sdp::{Order, source_address};
use softband_net::{InterfaceId, NetError, SocketId};
use softband_sim::SimTime;

impl Sdp {
    /// Carries out an order of a socket at `at`, or as soon as its queue pair exists. Fails with
    /// `NoBuffers` if the host has no room for a connection.
    pub(in crate::host::kernel) fn order(
        &mut self,
        world: &mut World,
        common: &mut Common,
        at: SimTime,
        (socket, interface): (SocketId, InterfaceId),
        order: Order,
    ) -> Result<(), NetError> {
        if let Order::Connect { to } = order {
            return self.begin(common, at, End::new(interface, Some(socket), to));
        }
        let Some(number) = self.by_socket.get(&socket).copied() else { return Ok(()) };
        let Some(end) = self.ends.get_mut(&number) else { return Ok(()) };
        match order {
            Order::Close => self.close(common, at, number),
            order if end.pair.is_none() => end.waiting.push_back((at, order)),
            order => self.carry_out(world, common, at, number, order),
        }
        Ok(())
    }

    /// Asks for a connection.
    fn begin(&mut self, common: &mut Common, at: SimTime, end: End) -> Result<(), NetError> {
        let host = self.devices.get(&end.interface).map(|device| device.place.host).ok_or(NetError::HostUnreachable)?;
        let end = self.open(end).ok_or(NetError::NoBuffers)?;
        common.agenda.push(at, Due::SdpConnect { host, end });
        Ok(())
    }

    /// Carries out an order of an end with a queue pair.
    pub(super) fn carry_out(&mut self, world: &mut World, common: &mut Common, at: SimTime, number: u32, order: Order) {
        #[cfg(test)]
        {
            self.reads += u32::from(matches!(order, Order::Read { .. }));
        }
        let Self { devices, ends, .. } = self;
        let Some(end) = ends.get_mut(&number).filter(|end| !end.is_closed) else { return };
        let Some(device) = devices.get_mut(&end.interface) else { return };
        let Ok(objects) = device.objects(world) else { return };
        let owner = device.place.owner;
        let at = at.max(world.now());
        let mut ground = Ground { place: device.place, objects, store: &mut common.store, world };
        match order {
            Order::Send { header, payload } => end.send(number, (header, payload), at, &mut ground),
            Order::Read { address, rkey, bytes } => end.read(number, (address, rkey, bytes), at, &mut ground),
            Order::Expose { source, payload } => common.store.put_region(owner, source_address(source), payload.to_vec()),
            Order::Conceal { source } => drop(common.store.take_region(owner, source_address(source))),
            Order::Repost { buffers } => end.repost(number, buffers, at, &mut ground),
            Order::Connect { .. } | Order::Close => {}
        }
    }

    /// Ends a connection. Its queue pair stays until its last messages have left. A closed end stays
    /// as it is.
    pub(super) fn close(&mut self, common: &mut Common, at: SimTime, number: u32) {
        let Some(end) = self.ends.get_mut(&number).filter(|end| !end.is_closed) else { return };
        (end.is_closed, end.waiting) = (true, Default::default());
        if let Some(socket) = end.socket.take() {
            self.by_socket.remove(&socket);
        }
        if let Some(device) = self.devices.get(&end.interface) {
            common.agenda.push(at + DRAIN, Due::SdpRelease { host: device.place.host, end: number });
        }
    }
}
