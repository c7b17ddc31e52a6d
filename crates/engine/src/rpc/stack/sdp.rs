//! Sockets of SDP, and TCP sockets that programs' rules redirect to SDP as `libsdp` does.

use super::{OnStack, Paid};
use crate::protocol::{Caller, Outcome};
use crate::rpc::host_calls::HostCalls;
use softband_ipc::calls::{self, Count, transport};
use softband_net::calls::{Accept, Listen, ListenBeside, Send, SendPart, SetOption, SocketOption, UseSdp};
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
        match self.protocol(at) {
            // An address without an HCA fails at once, and needs no listener.
            Some(Protocol::Sdp) => !kernels.stack(at.place.host).reaches_by_sdp(to.ip()) || kernels.stack(target).has_sdp_listener(to),
            _ => kernels.stack(target).has_listener(to) || self.may_connect_by_sdp(at, (target, to)),
        }
    }

    /// Returns whether a socket that may use both protocols finds a listener of SDP.
    fn may_connect_by_sdp(&self, at: OnStack, (target, to): (usize, SocketAddr)) -> bool {
        let Some(kernels) = self.kernels.as_ref().filter(|_| self.host.stack_sockets().may_use_sdp(at.object)) else { return false };
        kernels.stack(at.place.host).reaches_by_sdp(to.ip()) && kernels.stack(target).has_sdp_listener(to)
    }

    /// Lets a socket that may use both protocols use SDP if a listener has it.
    pub(super) fn prefer_sdp(&mut self, at: OnStack, to: SocketAddr) {
        if self.protocol(at) != Some(Protocol::Stream) {
            return;
        }
        let target = self.target_of(at.place.host, to);
        if target.is_some_and(|target| self.may_connect_by_sdp(at, target)) {
            // A port that SDP's sockets have taken leaves the socket with TCP.
            let _ = self.ask(at, UseSdp { socket: at.place.socket });
        }
    }

    /// Warns of addresses that no HCA reaches, once for each host.
    pub(super) fn note_unreachable(&mut self, at: OnStack, errno: Option<i32>) {
        if errno == Some(libc::EHOSTUNREACH) && self.protocol(at) == Some(Protocol::Sdp) {
            let name = &self.world.spec().hosts[at.place.host].name;
            self.report.warn(format!("{name}: SDP does not reach the address of a peer: use that of an interface of kind \"ipoib\""));
        }
    }

    /// Lets a listening TCP socket accept connections of SDP, too, if its port is free there.
    pub(super) fn listen_beside(&mut self, at: OnStack, backlog: u32) {
        if let Some(twin) = self.host.stack_sockets().twin(at.object) {
            // The twin listens already, and takes the new backlog.
            let _ = self.ask(at, Listen { socket: twin, backlog });
        } else if self.host.stack_sockets().may_use_sdp(at.object)
            && let Ok(twin) = self.ask(at, ListenBeside { socket: at.place.socket, backlog }).0
        {
            self.host.stack_sockets_mut().set_twin(at.object, twin);
            if let Some(kernels) = self.kernels {
                kernels.register(at.place.host, twin, at.object);
            }
        }
    }

    /// Sets an option of a listening TCP socket at its socket of SDP, too.
    pub(super) fn set_option_beside(&mut self, at: OnStack, option: SocketOption) {
        if let Some(twin) = self.host.stack_sockets().twin(at.object) {
            // The TCP socket has taken the option. Some mean nothing to SDP.
            let _ = self.ask(at, SetOption { socket: twin, option });
        }
    }

    /// Closes the socket of SDP of a TCP socket that listens no more.
    pub(super) fn end_listening_beside(&mut self, at: OnStack) {
        let listens = self.kernels.as_ref().and_then(|kernels| kernels.stack(at.place.host).listens(at.place.socket));
        if listens != Some(true) && self.host.stack_sockets_mut().close_twin(at.object) {
            self.close_on_stacks();
            self.look_at_stack(at.object);
        }
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
