//! Connections of stacks. A connection waits for its listener, because programs start in any order.

use super::OnStack;
use crate::host::addresses;
use crate::protocol::Outcome;
use crate::rpc::host_calls::HostCalls;
use crate::rpc::sockets::SEEK_LIMIT;
use crate::scheduler::agenda::Event;
use softband_ipc::calls::{SocketAddress, SocketListen, datagram, readiness};
use softband_net::calls::{Connect, Disconnect, Listen};
use softband_sim::{SimDuration, SimTime};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

impl HostCalls<'_> {
    pub(super) fn target_of(&self, host: usize, to: SocketAddr) -> Option<(usize, SocketAddr)> {
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        let own = match to.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Some(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => Some(Ipv6Addr::LOCALHOST.into()),
            ip if ip.is_loopback() => Some(ip),
            _ => None,
        };
        match own {
            Some(ip) => Some((host, SocketAddr::new(ip, to.port()))),
            None => addresses::host_of(self.world.spec(), to.ip()).or_else(|| self.neighbour(to.ip())).map(|target| (target, to)),
        }
    }

    /// Returns the host that has a link-local address, which no file states.
    fn neighbour(&self, address: IpAddr) -> Option<usize> {
        let kernels = self.kernels.as_ref()?;
        (0..self.world.spec().hosts.len()).find(|host| kernels.stack(*host).has_address(address))
    }

    /// Carries out `connect`, which fails with EINPROGRESS where Linux's waits.
    pub(in crate::rpc) fn stack_connect(&mut self, at: OnStack, to: &SocketAddress) -> Outcome<()> {
        let socket = at.place.socket;
        if to.flags & datagram::NO_ADDRESS != 0 {
            self.host.stack_sockets_mut().end_seek(at.object);
            let (done, cost) = self.ask(at, Disconnect { socket });
            self.end_listening_beside(at);
            return Outcome::Paid(done, cost);
        }
        if let Err(errno) = self.host.stack_sockets_mut().take_refusal(at.object) {
            return Outcome::Fail(errno);
        }
        if self.host.stack_sockets().sought(at.object).is_some() {
            return Outcome::Fail(libc::EALREADY);
        }
        let to = match self.redirect(at, to.flags).and_then(|()| self.address_for(at, &to.at, to.flags)) {
            Ok(to) => to,
            Err(errno) => return Outcome::Fail(errno),
        };
        self.note_keepalive(at);
        if let Some(target) = self.missing_listener(at, to) {
            return Outcome::Fail(self.seek(at, to, target));
        }
        self.prefer_sdp(at, to);
        let (done, cost) = self.ask(at, Connect { socket, to });
        self.note_unreachable(at, done.err());
        Outcome::Paid(done, cost)
    }

    /// Returns the host on which a listener for a new connection is missing.
    fn missing_listener(&self, at: OnStack, to: SocketAddr) -> Option<usize> {
        let kernels = self.kernels.as_ref()?;
        if at.place.is_datagram || to.port() == 0 || !kernels.stack(at.place.host).is_idle(at.place.socket) {
            return None;
        }
        let (target, to) = self.target_of(at.place.host, to)?;
        (kernels.is_alive(target) && !self.finds_listener(at, (target, to))).then_some(target)
    }

    /// Begins to wait for a listener on the host `target`. Returns the error of the program's call.
    fn seek(&mut self, at: OnStack, to: SocketAddr, target: usize) -> i32 {
        let now = self.scheduler.now();
        self.host.stack_sockets_mut().seek(at.object, to, now + SEEK_LIMIT);
        let somebody = self.processes.any(|process| process.host() == target && process.is_alive()) || now == SimTime::ZERO;
        if somebody {
            self.scheduler.push(now + SEEK_LIMIT, u32::MAX, Event::SeekOver { object: at.object });
        } else {
            self.refuse_seeker(at.object);
        }
        libc::EINPROGRESS
    }

    /// Returns whether a socket has waited long enough for a listener. One that waits for another
    /// reason has time left.
    pub(crate) fn seek_is_over(&self, object: u32) -> bool {
        self.host.stack_sockets().seeks_until(object).is_none_or(|until| until <= self.scheduler.now())
    }

    pub(in crate::rpc) fn stack_listen(&mut self, at: OnStack, listen: &SocketListen) -> Outcome<()> {
        let backlog = listen.backlog;
        if let Err(errno) = self.redirect(at, listen.flags) {
            return Outcome::Fail(errno);
        }
        self.note_keepalive(at);
        let (done, cost) = self.ask(at, Listen { socket: at.place.socket, backlog });
        if done.is_ok() {
            self.listen_beside(at, backlog);
            self.meet_seekers(at.place.host);
        }
        Outcome::Paid(done, cost)
    }

    /// Connects the sockets that waited for a listener on the host.
    fn meet_seekers(&mut self, target: usize) {
        for (object, host, to) in self.host.stack_sockets().seekers() {
            let Some(seeker) = self.on_stack(object) else { continue };
            let is_met = self.target_of(host, to).is_some_and(|(on, to)| on == target && self.finds_listener(seeker, (on, to)));
            if is_met {
                self.host.stack_sockets_mut().end_seek(object);
                self.prefer_sdp(seeker, to);
                let begun = self.ask(seeker, Connect { socket: seeker.place.socket, to }).0;
                if let Err(errno) = begun
                    && errno != libc::EINPROGRESS
                {
                    self.end_seeker(object, errno);
                }
            }
        }
    }

    /// Ends the wait of a socket with an error for its program.
    pub(in crate::rpc) fn end_seeker(&mut self, object: u32, errno: i32) {
        self.host.stack_sockets_mut().refuse(object, errno);
        self.scheduler.object_changed(self.processes, self.host, (object, readiness::ANY));
    }

    /// Returns the host and the address at which a socket of a stack waits for a listener.
    pub(in crate::rpc) fn stack_seeks(&self, object: u32) -> Option<(usize, Option<usize>, u16)> {
        let to = self.host.stack_sockets().sought(object)?;
        let from = self.host.stack_sockets().place(object)?.host;
        Some((from, self.target_of(from, to).map(|(target, _)| target), to.port()))
    }

    /// Returns the sockets of stacks that wait for a listener, on the `target` host or on any.
    pub(in crate::rpc) fn stack_seekers(&self, target: Option<usize>) -> Vec<u32> {
        let leads = |host: usize, to: SocketAddr| target.is_none() || self.target_of(host, to).map(|(on, _)| on) == target;
        self.host.stack_sockets().seekers().into_iter().filter(|(_, host, to)| leads(*host, *to)).map(|(object, ..)| object).collect()
    }

    /// Gives up an attempt that waits for a listener, as `shutdown` does. Returns whether there was one.
    pub(super) fn give_up_seek(&mut self, at: OnStack) -> bool {
        let sought = self.host.stack_sockets().sought(at.object).is_some();
        if sought {
            self.host.stack_sockets_mut().end_seek(at.object);
            self.scheduler.push(self.scheduler.now(), u32::MAX, Event::ObjectChanged { object: at.object, edge: readiness::ANY });
        }
        sought
    }
}

/// Cost of a call that the stack never sees.
pub(super) const FREE: SimDuration = SimDuration::ZERO;
