//! Sockets of programs on hosts with a modelled network: calls to the TCP/IP of the host.

mod connect;
mod datagrams;
mod listing;
mod option_bytes;
mod options;
mod sdp;
mod streams;

use crate::host::objects::Object;
use crate::host::stack_sockets::Place;
use crate::protocol::{Caller, Outcome};
use crate::rpc::host_calls::HostCalls;
use softband_ipc::calls::{self, Count, Endpoint, SocketNames, datagram, readiness, stream};
use softband_net::calls::{Close, LocalAddress, Open, PeerAddress};
use softband_net::{Call, Events, Family, NetError, Protocol};
use softband_sim::SimDuration;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// A socket of a stack by the object that a program holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnStack {
    object: u32,
    place: Place,
}

impl OnStack {
    pub(super) fn is_datagram(self) -> bool {
        self.place.is_datagram
    }
}

/// Result of a call to a stack, and the time that it costs its thread.
type Paid<Reply> = (Result<Reply, i32>, SimDuration);

impl HostCalls<'_> {
    /// Returns the socket behind an object if a stack carries it.
    pub(super) fn on_stack(&self, object: u32) -> Option<OnStack> {
        self.host.stack_sockets().place(object).map(|place| OnStack { object, place })
    }

    /// Returns the time that a call on a socket of a stack costs; `None` for another object.
    pub(super) fn call_price(&self, object: u32) -> Option<SimDuration> {
        self.on_stack(object).map(|at| self.world.spec().hosts[at.place.host].part.kernel_path.call)
    }

    /// Carries out a call on a socket, and notes the socket's new readiness.
    fn ask<C: Call>(&mut self, at: OnStack, call: C) -> Paid<C::Reply> {
        let Some(kernels) = self.kernels else { return (Err(libc::EBADF), SimDuration::ZERO) };
        let (reply, cost) = kernels.call(self.world, self.scheduler.now(), at.place.host, call);
        self.settle_kernels();
        self.look_at_stack(at.object);
        (reply.map_err(NetError::errno), cost)
    }

    /// Notes the readiness of a socket as its stack has it now.
    pub(crate) fn look_at_stack(&mut self, object: u32) {
        let (Some(at), Some(kernels)) = (self.on_stack(object), &mut *self.kernels) else { return };
        let stack = kernels.stack(at.place.host);
        let is_drained = !stack.lingers(at.place.socket);
        let twin = self.host.stack_sockets().twin(object).map_or(0, |twin| bits_of(stack.readiness(twin)) & readiness::READABLE);
        let ready = twin | bits_of(stack.readiness(at.place.socket)) | (u32::from(is_drained) * readiness::DRAINED);
        self.host.stack_sockets_mut().set_readiness(object, ready);
    }

    /// Opens a socket of the host's stack. Returns `None` if the host has none.
    pub(super) fn stack_new(&mut self, caller: Caller, wanted: &calls::SocketNew) -> Option<Outcome<calls::Object>> {
        let protocol = match wanted.datagram {
            0 => Protocol::Stream,
            calls::SocketNew::ECHO => Protocol::Echo,
            _ => Protocol::Datagram,
        };
        let family = if wanted.family == libc::AF_INET6 as u32 { Family::V6 } else { Family::V4 };
        self.stack_open(caller, family, protocol)
    }

    fn stack_open(&mut self, caller: Caller, family: Family, protocol: Protocol) -> Option<Outcome<calls::Object>> {
        let kernels = self.kernels.as_mut()?;
        let (host, is_datagram) = (self.processes[caller.process].host(), protocol.has_messages());
        let (socket, cost) = kernels.call(self.world, self.scheduler.now(), host, Open { family, protocol });
        self.settle_kernels();
        let opened = socket.map_err(NetError::errno).map(|socket| self.adopt(caller, Place { host, socket, is_datagram }));
        Some(Outcome::Paid(opened, cost))
    }

    /// Makes an object of a socket, and gives it to the caller.
    fn adopt(&mut self, caller: Caller, place: Place) -> calls::Object {
        let object = self.host.add(Object::StackSocket);
        self.host.stack_sockets_mut().open(object, place);
        if let Some(kernels) = self.kernels {
            kernels.register(place.host, place.socket, object);
        }
        self.look_at_stack(object);
        self.processes[caller.process].hold(object);
        calls::Object { object, reserved: 0 }
    }

    /// Closes the sockets whose last references have gone.
    pub(super) fn close_on_stacks(&mut self) {
        for place in self.host.stack_sockets_mut().take_closed() {
            if let Some(kernels) = self.kernels {
                kernels.forget(place.host, place.socket);
                // The kernel closes in the background, or after the program has waited.
                let _ = kernels.call(self.world, self.scheduler.now(), place.host, Close { socket: place.socket });
            }
            self.settle_kernels();
        }
    }

    /// Closes a socket as its last holder does, and tells whether the program has to wait
    /// (`SO_LINGER`). The object stays until the program has waited.
    pub(super) fn stack_linger(&mut self, at: OnStack) -> Outcome<Count> {
        let (_, cost) = self.ask(at, Close { socket: at.place.socket });
        self.host.stack_sockets_mut().linger(at.object);
        let waits = self.kernels.as_ref().is_some_and(|kernels| kernels.stack(at.place.host).lingers(at.place.socket));
        Outcome::Paid(Ok(Count { count: waits.into() }), cost)
    }

    pub(super) fn stack_names(&mut self, at: OnStack) -> Outcome<SocketNames> {
        let socket = at.place.socket;
        let (local, cost) = self.ask(at, LocalAddress { socket });
        let local = match local {
            Ok(local) => local.into(),
            Err(errno) => return Outcome::Paid(Err(errno), cost),
        };
        // One call of the program has one price.
        let peer = self.ask(at, PeerAddress { socket }).0;
        let listens = self.kernels.as_ref().and_then(|kernels| kernels.stack(at.place.host).listens(socket));
        let names = SocketNames {
            local,
            peer: peer.map_or(Endpoint::v4((0, 0)), Endpoint::from),
            connected: u32::from(peer.is_ok()),
            listening: u32::from(listens == Some(true)),
        };
        Outcome::Paid(Ok(names), cost)
    }

    fn family(&self, at: OnStack) -> Family {
        self.kernels.as_ref().and_then(|kernels| kernels.stack(at.place.host).family(at.place.socket)).unwrap_or(Family::V4)
    }

    /// Returns an address as the socket's stack takes it.
    ///
    /// # Errors
    /// If the family of the socket does not have the address.
    fn address_for(&self, at: OnStack, of: &Endpoint, flags: u32) -> Result<SocketAddr, i32> {
        let port = u16::try_from(of.port).map_err(|_| libc::EINVAL)?;
        let (is_v6, is_sdp) = (flags & datagram::IS_V6 != 0, flags & datagram::IS_SDP != 0);
        match (self.family(at), of.address()) {
            (Family::V4, _) if is_v6 || is_sdp && self.protocol(at) != Some(Protocol::Sdp) => Err(libc::EAFNOSUPPORT),
            // Linux: streams of IPv6 take IPv4 by mapped addresses alone, and others are too short.
            (Family::V6, _) if is_sdp || !is_v6 && !at.place.is_datagram => Err(libc::EINVAL),
            (_, IpAddr::V4(ip)) if !is_v6 => Ok((ip, port).into()),
            (..) => Ok(SocketAddrV6::new(Ipv6Addr::from(of.ip), port, 0, of.scope).into()),
        }
    }

    /// Returns the cost of a part of a call that may be paid for already.
    fn rest_of(&self, at: OnStack, flags: u32, cost: SimDuration) -> SimDuration {
        if flags & stream::IS_PAID == 0 {
            return cost;
        }
        cost - cost.min(self.world.spec().hosts[at.place.host].part.kernel_path.call)
    }
}

/// Returns readiness bits for the state of a socket.
fn bits_of(events: Events) -> u32 {
    let pairs = [
        (Events::READABLE, readiness::READABLE),
        (Events::WRITABLE, readiness::WRITABLE),
        (Events::ERROR, readiness::ERROR),
        (Events::HANG_UP, readiness::HANG_UP),
        (Events::READ_CLOSED, readiness::PEER_ENDED),
        (Events::URGENT, readiness::URGENT),
    ];
    pairs.into_iter().filter(|(event, _)| events.intersects(*event)).fold(0, |bits, (_, bit)| bits | bit)
}
