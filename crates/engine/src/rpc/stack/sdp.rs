//! Sockets of SDP, and TCP sockets that programs' rules redirect to SDP as `libsdp` does.

use super::{OnStack, Paid};
use crate::protocol::{Caller, Outcome};
use crate::rpc::host_calls::HostCalls;
use softband_ipc::calls::{self, Count, transport};
use softband_net::calls::{Accept, Bind, Listen, Open, Send, SendPart, UseSdp};
use softband_net::{Family, Protocol, SocketId};
use std::net::SocketAddr;

impl HostCalls<'_> {
    /// Opens a socket of family AF_INET_SDP. Fails if the host has no interface for it.
    pub(in crate::rpc) fn sdp_new(&mut self, caller: Caller) -> Outcome<calls::Object> {
        let host = self.processes[caller.process].host();
        if !self.offers_sdp(host) {
            let name = &self.world.spec().hosts[host].name;
            self.report.warn(format!("{name}: AF_INET_SDP needs an interface of kind \"ipoib\" (docs/network-interfaces.md)"));
            return Outcome::Fail(libc::EAFNOSUPPORT);
        }
        self.stack_open(caller, Family::V4, Protocol::Sdp).unwrap_or(Outcome::Fail(libc::EAFNOSUPPORT))
    }

    fn offers_sdp(&self, host: usize) -> bool {
        self.kernels.as_ref().is_some_and(|kernels| kernels.stack(host).offers_sdp())
    }

    pub(super) fn protocol(&self, at: OnStack) -> Option<Protocol> {
        self.kernels.as_ref()?.stack(at.place.host).protocol(at.place.socket)
    }

    /// Redirects a TCP socket without a connection by the rule of a program. A host without an interface
    /// for SDP keeps TCP.
    pub(super) fn redirect(&mut self, at: OnStack, rule: u32) -> Result<(), i32> {
        if rule & (transport::SDP | transport::EITHER) == 0 || self.protocol(at) != Some(Protocol::Stream) {
            return Ok(());
        }
        if !self.offers_sdp(at.place.host) {
            let name = &self.world.spec().hosts[at.place.host].name;
            self.report.warn(format!("{name}: streams use TCP in place of SDP, which needs an interface of kind \"ipoib\""));
            return Ok(());
        }
        if rule & transport::EITHER != 0 {
            self.host.stack_sockets_mut().allow_sdp(at.object);
            return Ok(());
        }
        match self.ask(at, UseSdp { socket: at.place.socket }).0 {
            // A socket that is connected already keeps its protocol.
            Ok(()) | Err(libc::EINVAL) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Returns whether a socket's connection to an address finds a listener.
    pub(super) fn finds_listener(&self, at: OnStack, (target, to): (usize, SocketAddr)) -> bool {
        let Some(kernels) = self.kernels.as_ref() else { return false };
        let by_sdp = || kernels.stack(at.place.host).reaches_by_sdp(to.ip()) && kernels.stack(target).has_sdp_listener(to);
        match self.protocol(at) {
            // An address without an HCA fails at once, and needs no listener.
            Some(Protocol::Sdp) => !kernels.stack(at.place.host).reaches_by_sdp(to.ip()) || by_sdp(),
            _ => kernels.stack(target).has_listener(to) || self.host.stack_sockets().may_use_sdp(at.object) && by_sdp(),
        }
    }

    /// Lets a socket that may use both protocols use SDP if a listener has it.
    pub(super) fn prefer_sdp(&mut self, at: OnStack, to: SocketAddr) {
        if !self.host.stack_sockets().may_use_sdp(at.object) || self.protocol(at) != Some(Protocol::Stream) {
            return;
        }
        let Some((target, to)) = self.target_of(at.place.host, to) else { return };
        let has = |kernels: &crate::host::kernel::Kernels| {
            kernels.stack(at.place.host).reaches_by_sdp(to.ip()) && kernels.stack(target).has_sdp_listener(to)
        };
        if self.kernels.as_ref().is_some_and(has) {
            // A port that SDP's sockets have taken leaves the socket with TCP.
            let _ = self.ask(at, UseSdp { socket: at.place.socket });
        }
    }

    /// Warns of an address that no HCA reaches.
    pub(super) fn note_unreachable(&mut self, at: OnStack, to: SocketAddr, errno: Option<i32>) {
        if errno == Some(libc::EHOSTUNREACH) && self.protocol(at) == Some(Protocol::Sdp) {
            let name = &self.world.spec().hosts[at.place.host].name;
            self.report.warn(format!("{name}: SDP does not reach {}: use the address of an interface of kind \"ipoib\"", to.ip()));
        }
    }

    /// Lets a listening TCP socket accept connections of SDP, too, if its port is free there.
    pub(super) fn listen_beside(&mut self, at: OnStack, backlog: u32) {
        if !self.host.stack_sockets().may_use_sdp(at.object) || self.host.stack_sockets().twin(at.object).is_some() {
            return;
        }
        let host = at.place.host;
        let Some(kernels) = self.kernels.as_mut() else { return };
        let stack = kernels.stack(host);
        let (Some(family), Some(address)) = (stack.family(at.place.socket), stack.local_address(at.place.socket)) else { return };
        let now = self.scheduler.now();
        let Ok(twin) = kernels.call(self.world, now, host, Open { family, protocol: Protocol::Sdp }).0 else { return };
        let bound = kernels.call(self.world, now, host, Bind { socket: twin, address }).0;
        let listens = bound.and_then(|()| kernels.call(self.world, now, host, Listen { socket: twin, backlog }).0);
        kernels.register(host, twin, at.object);
        self.host.stack_sockets_mut().set_twin(at.object, twin, listens.is_ok());
        self.settle_kernels();
    }

    /// Accepts a connection of SDP at a listening socket that takes both protocols.
    pub(super) fn accept_beside(&mut self, at: OnStack) -> Option<Paid<(SocketId, SocketAddr)>> {
        let twin = self.host.stack_sockets().twin(at.object)?;
        Some(self.ask(at, Accept { socket: twin })).filter(|(accepted, _)| accepted.is_ok())
    }

    /// Sends a part of a call. Returns the bytes taken, with a mark if the call has to wait for the peer.
    pub(super) fn send_part(&mut self, at: OnStack, part: Send, rest: Option<u32>) -> Paid<Count> {
        let (socket, len, is_last) = (part.socket, part.payload.len(), rest == Some(0));
        let (taken, cost) = match rest {
            Some(rest) => self.ask(at, SendPart { part, rest }),
            None => self.ask(at, part),
        };
        let awaits =
            |taken: u32| is_last && taken == len && self.kernels.as_ref().is_some_and(|kernels| kernels.stack(at.place.host).awaits_peer(socket));
        let count = taken.map(|taken| Count { count: u64::from(taken) | (u64::from(awaits(taken)) * calls::stream::AWAITS_PEER) });
        (count, cost)
    }
}
