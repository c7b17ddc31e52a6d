//! Sockets of programs and the names of hosts.

use crate::host::addresses;
use crate::host::datagrams::To;
use crate::host::network;
use crate::host::objects::Object;
use crate::host::room::HostServices;
use crate::host::sockets::{Path, SocketState, Wakeups};
use crate::protocol::{Caller, Outcome};
use crate::rpc::datagrams::destination;
use crate::rpc::host_calls::HostCalls;
use crate::rpc::stack::OnStack;
use crate::scheduler::agenda::Event;
use softband_fabric::World;
use softband_ipc::calls::{self, AddressReply, Count, Endpoint, Name, SocketAccepted, SocketAddress, SocketData, SocketNames, WithTail, readiness};
use softband_ipc::layout::PAYLOAD_BYTES;
use softband_sim::{SimDuration, SimTime};
use softband_types::Gid;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Longest wait of a connection attempt for a listener on its target host.
pub(super) const SEEK_LIMIT: SimDuration = SimDuration::from_micros(10_000_000);

impl HostCalls<'_> {
    pub(crate) fn resolve(&mut self, _caller: Caller, name: &Name) -> Result<AddressReply, i32> {
        let len = (name.len as usize).min(name.bytes.len());
        let wanted = std::str::from_utf8(&name.bytes[..len]).map_err(|_| libc::ENOENT)?;
        let wanted = match wanted.parse() {
            Ok(address) => &self.host_of_gid(address).ok_or(libc::ENOENT)?,
            Err(_) => wanted,
        };
        if self.kernels.is_some() {
            let (v4, v6) = addresses::addresses_of(self.world.spec(), wanted).ok_or(libc::ENOENT)?;
            return Ok(AddressReply { address: v4.map_or(0, u32::from), v6: v6.unwrap_or(Ipv6Addr::UNSPECIFIED).octets() });
        }
        let host = self.world.spec().hosts.iter().position(|host| host.name == wanted).ok_or(libc::ENOENT)?;
        Ok(AddressReply { address: network::address(host), v6: [0; 16] })
    }

    /// Returns the name of the host whose Ethernet port has this address.
    fn host_of_gid(&self, address: Ipv4Addr) -> Option<String> {
        let (hca, _) = self.world.port_with_gid(Gid::of_ipv4(address.octets()))?;
        let host = &self.world.spec().hosts[self.world.place_of(hca).0];
        Some(host.name.clone())
    }

    pub(crate) fn reverse_resolve(&mut self, caller: Caller, of: &AddressReply) -> Result<Name, i32> {
        let address = Ipv4Addr::from(of.address);
        let v6 = Ipv6Addr::from(of.v6);
        if !v6.is_unspecified() {
            return addresses::name_of(self.world.spec(), v6.into()).map(|name| name_of(&name)).ok_or(libc::ENOENT);
        }
        if self.kernels.is_some() && !address.is_loopback() && !address.is_unspecified() {
            return addresses::name_of(self.world.spec(), address.into()).map(|name| name_of(&name)).ok_or(libc::ENOENT);
        }
        let host = self.host.sockets().host_of(of.address, self.processes[caller.process].host()).ok_or(libc::ENOENT)?;
        Ok(name_of(&self.world.spec().hosts[host].name))
    }

    fn path_of(&self, object: u32) -> Path {
        path_of(self.world, self.host, object)
    }

    pub(super) fn wake_at(&mut self, wakeups: Wakeups) {
        for (at, object, edge) in wakeups {
            self.scheduler.push(at.max(self.scheduler.now()), u32::MAX, Event::ObjectChanged { object, edge });
        }
    }

    /// Returns an object that the caller holds, with its socket if a stack carries it.
    fn held_on_stack(&self, caller: Caller, object: u32) -> Result<(u32, Option<OnStack>), i32> {
        let object = self.processes[caller.process].held(object)?;
        Ok((object, self.on_stack(object)))
    }

    pub(crate) fn socket_new(&mut self, caller: Caller, wanted: &calls::SocketNew) -> Outcome<calls::Object> {
        if wanted.datagram == calls::SocketNew::SDP {
            return self.sdp_new(caller);
        }
        match self.stack_new(caller, wanted) {
            Some(opened) => opened,
            None => self.plain_new(caller, wanted).into(),
        }
    }

    fn plain_new(&mut self, caller: Caller, wanted: &calls::SocketNew) -> Result<calls::Object, i32> {
        if wanted.datagram == calls::SocketNew::ECHO {
            return Err(libc::EPROTONOSUPPORT);
        }
        let host = self.processes[caller.process].host();
        let object = if wanted.datagram == 0 {
            let object = self.host.add(Object::Socket);
            self.host.sockets_mut().open(object, host);
            object
        } else {
            let object = self.host.add(Object::DatagramSocket);
            self.host.datagrams_mut().open(object, host);
            object
        };
        self.processes[caller.process].hold(object);
        Ok(calls::Object { object, reserved: 0 })
    }

    pub(crate) fn socket_bind(&mut self, caller: Caller, address: &SocketAddress) -> Outcome<SocketAddress> {
        match self.held_on_stack(caller, address.object) {
            Ok((_, Some(at))) => self.stack_bind(at, address),
            Ok((object, None)) => self.plain_bind(object, address).into(),
            Err(errno) => Outcome::Fail(errno),
        }
    }

    fn plain_bind(&mut self, object: u32, address: &SocketAddress) -> Result<SocketAddress, i32> {
        if self.host.is_datagram_socket(object) {
            return self.datagram_bind(object, address);
        }
        let To { address: (ip, port), is_v6 } = destination(&address.at)?;
        let bound = self.host.sockets_mut().bind(object, ip, port, is_v6)?;
        Ok(SocketAddress { at: Endpoint { port: u32::from(bound), ..address.at }, ..*address })
    }

    pub(crate) fn socket_listen(&mut self, caller: Caller, listen: &calls::SocketListen) -> Outcome<()> {
        match self.held_on_stack(caller, listen.object) {
            Ok((_, Some(at))) => self.stack_listen(at, listen),
            Ok((object, None)) => self.plain_listen(object).into(),
            Err(errno) => Outcome::Fail(errno),
        }
    }

    fn plain_listen(&mut self, object: u32) -> Result<(), i32> {
        for seeker in self.host.sockets_mut().listen(object)? {
            self.complete_connection(seeker);
        }
        Ok(())
    }

    pub(crate) fn socket_accept(&mut self, caller: Caller, listener: &calls::Object) -> Outcome<SocketAccepted> {
        match self.held_on_stack(caller, listener.object) {
            Ok((_, Some(at))) => self.stack_accept(caller, at),
            Ok((object, None)) => self.plain_accept(caller, object).into(),
            Err(errno) => Outcome::Fail(errno),
        }
    }

    fn plain_accept(&mut self, caller: Caller, object: u32) -> Result<SocketAccepted, i32> {
        let (server, peer) = self.host.sockets_mut().accept(object, self.scheduler.now())?;
        self.processes[caller.process].hold(server);
        Ok(SocketAccepted { object: server, reserved: 0, peer: Endpoint::v4(peer) })
    }

    pub(crate) fn socket_connect(&mut self, caller: Caller, to: &SocketAddress) -> Outcome<()> {
        match self.held_on_stack(caller, to.object) {
            Ok((_, Some(at))) => self.stack_connect(at, to),
            Ok((object, None)) => self.plain_connect(object, to).into(),
            Err(errno) => Outcome::Fail(errno),
        }
    }

    fn plain_connect(&mut self, object: u32, to: &SocketAddress) -> Result<(), i32> {
        if self.host.is_datagram_socket(object) {
            return self.datagram_connect(object, to);
        }
        let To { address: (ip, port), is_v6 } = destination(&to.at)?;
        let found = self.host.sockets_mut().connect(object, ip, port, is_v6)?;
        if found {
            self.complete_connection(object);
            return Ok(());
        }
        let host = self.host.socket(object)?.host;
        let target = self.host.sockets().host_of(ip, host).ok_or(libc::ENETUNREACH)?;
        let somebody = self.processes.any(|process| process.host() == target && process.is_alive()) || self.scheduler.now() == SimTime::ZERO;
        if somebody {
            self.scheduler.push(self.scheduler.now() + SEEK_LIMIT, u32::MAX, Event::SeekOver { object });
        } else {
            self.refuse_seeker(object);
        }
        Ok(())
    }

    pub(crate) fn socket_error(&mut self, caller: Caller, socket: &calls::Object) -> Outcome<()> {
        match self.held_on_stack(caller, socket.object) {
            Ok((_, Some(at))) => self.stack_error(at),
            Ok((object, None)) => self.plain_error(object).into(),
            Err(errno) => Outcome::Fail(errno),
        }
    }

    fn plain_error(&mut self, object: u32) -> Result<(), i32> {
        if self.host.is_datagram_socket(object) {
            return self.datagram_error(object);
        }
        self.host.sockets_mut().outcome(object, self.scheduler.now())
    }

    pub(crate) fn socket_names(&mut self, caller: Caller, socket: &calls::Object) -> Outcome<SocketNames> {
        match self.held_on_stack(caller, socket.object) {
            Ok((_, Some(at))) => self.stack_names(at),
            Ok((object, None)) => self.plain_names(object).into(),
            Err(errno) => Outcome::Fail(errno),
        }
    }

    fn plain_names(&mut self, object: u32) -> Result<SocketNames, i32> {
        if self.host.is_datagram_socket(object) {
            return self.datagram_names(object);
        }
        let connected = self.host.sockets_mut().outcome(object, self.scheduler.now()).is_ok();
        let socket = self.host.socket(object)?;
        Ok(SocketNames {
            local: Endpoint::v4(socket.local),
            peer: Endpoint::v4(socket.peer_address),
            connected: u32::from(connected && socket.state == SocketState::Connected),
            listening: u32::from(socket.state == SocketState::Listening),
        })
    }

    pub(crate) fn socket_send(&mut self, caller: Caller, request: &WithTail<SocketData, u8>) -> Outcome<Count> {
        match self.held_on_stack(caller, request.head.object) {
            Ok((_, Some(at))) => self.stack_send(at, request),
            Ok((object, None)) => self.plain_send(object, request).into(),
            Err(errno) => Outcome::Fail(errno),
        }
    }

    fn plain_send(&mut self, object: u32, request: &WithTail<SocketData, u8>) -> Result<Count, i32> {
        let data = request.tail.get(..request.head.len as usize).ok_or(libc::EPROTO)?;
        let (path, mut wakeups) = (self.path_of(object), Wakeups::new());
        let sent = self.host.sockets_mut().send(object, data, self.scheduler.now(), path, &mut wakeups);
        self.wake_at(wakeups);
        Ok(Count { count: sent? as u64 })
    }

    pub(crate) fn socket_linger(&mut self, caller: Caller, socket: &calls::Object) -> Outcome<Count> {
        match self.held_on_stack(caller, socket.object) {
            Ok((object, Some(at))) if self.host.references(object) == 1 => self.stack_linger(at),
            Ok(_) => Outcome::Reply(Count { count: 0 }),
            Err(errno) => Outcome::Fail(errno),
        }
    }

    pub(crate) fn socket_receive(&mut self, caller: Caller, request: &calls::SocketReceive) -> Outcome<WithTail<Count, u8>> {
        match self.held_on_stack(caller, request.object) {
            Ok((_, Some(at))) => self.stack_receive(caller, at, request),
            Ok((object, None)) => self.plain_receive(caller, object, request).into(),
            Err(errno) => Outcome::Fail(errno),
        }
    }

    fn plain_receive(&mut self, caller: Caller, object: u32, request: &calls::SocketReceive) -> Result<WithTail<Count, u8>, i32> {
        let len = (request.len_max as usize).min(PAYLOAD_BYTES - size_of::<Count>());
        let (path, mut wakeups) = (self.path_of(object), Wakeups::new());
        let received = self.host.sockets_mut().receive(object, len, request.peek != 0, self.scheduler.now(), path, &mut wakeups);
        self.wake_at(wakeups);
        let record = &mut self.processes[caller.process];
        if received == Err(libc::EAGAIN) {
            record.note_question(object, readiness::READABLE, false)
        } else {
            record.note_taken(object)
        }
        let tail = received?;
        Ok(WithTail { head: Count { count: tail.len() as u64 }, tail })
    }

    pub(crate) fn socket_shutdown(&mut self, caller: Caller, request: &calls::SocketShutdown) -> Outcome<()> {
        match self.held_on_stack(caller, request.object) {
            Ok((_, Some(at))) => self.stack_shutdown(at, request.how),
            Ok((object, None)) => self.plain_shutdown(object, request).into(),
            Err(errno) => Outcome::Fail(errno),
        }
    }

    fn plain_shutdown(&mut self, object: u32, request: &calls::SocketShutdown) -> Result<(), i32> {
        if self.host.is_datagram_socket(object) {
            return self.datagram_shutdown(object, request.how);
        }
        let (path, mut wakeups) = (self.path_of(object), Wakeups::new());
        let ended = self.host.sockets_mut().shutdown(object, request.how, self.scheduler.now(), path, &mut wakeups);
        self.wake_at(wakeups);
        ended
    }

    fn complete_connection(&mut self, object: u32) {
        let path = self.path_of(object);
        let wakeups = self.host.complete_connection(object, self.scheduler.now(), path);
        self.wake_at(wakeups);
    }

    pub(crate) fn refuse_seeker(&mut self, object: u32) {
        let Some((from, target, port)) = self.stack_seeks(object).or_else(|| self.plain_seeks(object)) else { return };
        let spec = self.world.spec();
        let (from, target) = (spec.hosts[from].name.clone(), target.map_or_else(String::new, |host| spec.hosts[host].name.clone()));
        let there = self.processes.ever().iter().filter(|process| spec.hosts[process.host()].name == target);
        let running: Vec<String> = there.map(|process| self.programs.name_for(self.world, process)).collect::<BTreeSet<_>>().into_iter().collect();
        let whose = if running.is_empty() { "no program was started there".to_owned() } else { format!("programs there: {}", running.join(", ")) };
        self.report.warn(format!("{from}: connection to {target}:{port} refused: nothing listens there ({whose})"));
        if self.on_stack(object).is_some() {
            self.end_seeker(object, libc::ECONNREFUSED);
            return;
        }
        self.host.sockets_mut().refuse(object, libc::ECONNREFUSED);
        self.scheduler.object_changed(self.processes, self.host, (object, readiness::ANY));
    }

    /// Returns the host of a socket that waits for a listener, that of the listener, and its port.
    fn plain_seeks(&self, object: u32) -> Option<(usize, Option<usize>, u16)> {
        let socket = self.host.socket(object).ok().filter(|socket| socket.state == SocketState::Seeking)?;
        let (address, port) = socket.peer_address;
        Some((socket.host, self.host.sockets().host_of(address, socket.host), port))
    }

    pub(crate) fn refuse_seekers_of(&mut self, host: usize) {
        for object in self.seekers(Some(host)) {
            self.refuse_seeker(object);
        }
    }

    /// Refuses all waiting connection attempts. Returns whether any existed.
    pub(crate) fn refuse_all_seekers(&mut self) -> bool {
        let seekers = self.seekers(None);
        for object in &seekers {
            self.refuse_seeker(*object);
        }
        !seekers.is_empty()
    }

    fn seekers(&self, target: Option<usize>) -> Vec<u32> {
        let mut seekers = self.host.sockets().seekers(target);
        seekers.extend(self.stack_seekers(target));
        seekers
    }
}

/// Returns the path over the management network. Within a host it takes a thread's wake-up.
pub(super) fn path(world: &World, from: usize, to: usize) -> Path {
    let part = &world.spec().hosts[from].part;
    let latency = if from == to { part.event_wakeup } else { part.ethernet_latency };
    Path { latency, bytes_per_second: part.ethernet_bytes_per_second }
}

/// Returns the path between a socket and its peer.
pub(super) fn path_of(world: &World, host: &HostServices, object: u32) -> Path {
    let Ok(socket) = host.socket(object) else { return path(world, 0, 0) };
    let peer = host.sockets().host_of(socket.peer_address.0, socket.host).unwrap_or(socket.host);
    path(world, socket.host, peer)
}

fn name_of(text: &str) -> Name {
    let (len, mut bytes) = (text.len().min(256), [0; 256]);
    bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
    Name { len: len as u32, bytes }
}
