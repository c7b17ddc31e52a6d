//! The kernel of a host as its connections of SDP need it.

use super::completions::{News, Taken};
use crate::host::kernel::agenda::Due;
use crate::host::kernel::host::HostKernel;
use crate::host::kernel::{Common, Kernels};
use softband_fabric::World;
use softband_model::verbs::api::Completion;
use softband_net::{InterfaceId, NetError, SocketId};
use softband_sim::{SimDuration, SimTime};

impl HostKernel {
    /// Returns the time after which a neighbour counts as unreachable.
    pub(super) fn neighbour_time(&self) -> SimDuration {
        let kernel = self.stack().kernel();
        kernel.neighbour_retransmit * u64::from(kernel.neighbour_requests)
    }

    /// Tells the stack the key of the host's memory on an interface.
    pub(super) fn share_sdp_key(&mut self, world: &mut World, interface: InterfaceId) {
        if let Some(rkey) = self.sdp_mut().rkey(world, interface) {
            self.stack_mut().set_sdp_key(interface, rkey);
        }
    }

    /// Notes a completion of a connection. A card that interrupts starts a core.
    pub(in crate::host::kernel) fn sdp_completed(&mut self, world: &mut World, common: &mut Common, now: SimTime, end: u32, completion: &Completion) {
        match self.sdp_mut().completed(common, now, end, completion) {
            News::None => {}
            News::Interrupt(interface) => self.start_sdp(common, now, interface),
            News::Sent(socket) if self.is_alive() => {
                self.stack_mut().sdp_sent(now, socket);
                self.settle(world, common, now, None);
            }
            News::Sent(_) => {}
            News::Failed(socket) => self.sdp_lost(world, common, now, socket, NetError::Reset),
        }
    }

    pub(in crate::host::kernel) fn sdp_lost(&mut self, world: &mut World, common: &mut Common, now: SimTime, socket: SocketId, error: NetError) {
        if self.is_alive() {
            self.stack_mut().sdp_lost(now, socket, error);
            self.settle(world, common, now, None);
        }
    }

    /// Tells a connection that could not begin, unless it has ended meanwhile.
    pub(in crate::host::kernel) fn sdp_failed(&mut self, world: &mut World, common: &mut Common, now: SimTime, (end, error): (u32, NetError)) {
        if let Some(socket) = self.sdp_mut().socket_of(end) {
            self.sdp_lost(world, common, now, socket, error);
        }
    }

    /// Handles the end of the card's wait for more messages.
    pub(in crate::host::kernel) fn sdp_interrupt(&mut self, common: &mut Common, now: SimTime, interface: InterfaceId) {
        if self.sdp_mut().awaits_interrupt(now, interface) {
            self.start_sdp(common, now, interface);
        }
    }

    fn start_sdp(&mut self, common: &mut Common, now: SimTime, interface: InterfaceId) {
        self.sdp_mut().begin_polling(interface);
        let end = self.work(now, interface, |path| path.interrupt + path.receive_packet);
        common.agenda.push(end, Due::SdpTaken { host: self.number(), interface });
    }
}

impl Kernels {
    /// Hands the message that a core has taken to its socket. The core takes the next one, if any.
    pub(in crate::host::kernel) fn sdp_taken(&mut self, world: &mut World, now: SimTime, (host, interface): (usize, InterfaceId)) {
        let kernel = &mut self.hosts[host];
        let taken = kernel.sdp_mut().take(&mut self.common, interface).filter(|_| kernel.is_alive());
        match taken {
            Some(Taken::Message(socket, bytes)) => kernel.stack_mut().sdp_arrived(now, socket, &bytes),
            Some(Taken::Read(socket, data)) => kernel.stack_mut().sdp_read(now, socket, &data),
            Some(Taken::Request(end, bytes)) => match kernel.stack_mut().sdp_request(now, interface, &bytes) {
                Some(socket) => kernel.sdp_mut().adopt(end, socket),
                None => self.sdp_refuse(world, now, (host, end)),
            },
            None => {}
        }
        let kernel = &mut self.hosts[host];
        kernel.settle(world, &mut self.common, now, None);
        if kernel.sdp_mut().go_on_polling(interface) {
            let end = kernel.work(now, interface, |path| path.receive_packet);
            self.common.agenda.push(end, Due::SdpTaken { host, interface });
        }
    }
}
