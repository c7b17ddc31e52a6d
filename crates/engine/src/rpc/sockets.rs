//! Sockets of programs and the names of hosts.

use crate::engine::{Engine, Event};
use crate::host::objects::Object;
use crate::host::sockets::{self, Path, SocketState, Wakeups};
use crate::rpc::calls::Caller;
use softband_ipc::calls::{self, AddressReply, Count, Name, SocketAccepted, SocketAddress, SocketData, SocketNames, WithTail};
use softband_ipc::layout::PAYLOAD_BYTES;
use softband_sim::{SimDuration, SimTime};
use std::collections::BTreeSet;

/// Longest wait of a connection attempt for a listener on its target host.
const SEEK_LIMIT: SimDuration = SimDuration::from_micros(10_000_000);

impl Engine {
    pub(crate) fn resolve(&mut self, _caller: Caller, name: &Name) -> Result<AddressReply, i32> {
        let len = (name.len as usize).min(name.bytes.len());
        let wanted = std::str::from_utf8(&name.bytes[..len]).map_err(|_| libc::ENOENT)?;
        let host = self.world.spec().hosts.iter().position(|host| host.name == wanted).ok_or(libc::ENOENT)?;
        Ok(AddressReply { address: sockets::host_address(host), reserved: 0 })
    }

    pub(crate) fn reverse_resolve(&mut self, caller: Caller, of: &AddressReply) -> Result<Name, i32> {
        let host = self.sockets.host_of(of.address, self.processes[caller.process].host).ok_or(libc::ENOENT)?;
        Ok(name_of(&self.world.spec().hosts[host].name))
    }

    /// Returns the path over the management network. Within a host it takes a thread's wake-up.
    fn path(&self, from: usize, to: usize) -> Path {
        let part = &self.world.spec().hosts[from].part;
        let latency = if from == to { part.event_wakeup } else { part.ethernet_latency };
        Path { latency, bytes_per_second: part.ethernet_bytes_per_second }
    }

    pub(super) fn path_of(&self, object: u32) -> Path {
        let Ok(socket) = self.sockets.get(object) else { return self.path(0, 0) };
        let peer = self.sockets.host_of(socket.peer_address.0, socket.host).unwrap_or(socket.host);
        self.path(socket.host, peer)
    }

    pub(super) fn wake_at(&mut self, wakeups: Wakeups) {
        for (at, object) in wakeups {
            self.queue.push(at.max(self.now), u32::MAX, Event::ObjectChanged { object });
        }
    }

    pub(crate) fn socket_new(&mut self, caller: Caller, wanted: &calls::SocketNew) -> Result<calls::Object, i32> {
        if wanted.datagram != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        let object = self.objects.add(Object::Socket);
        self.sockets.open(object, self.processes[caller.process].host);
        self.hold(caller.process, object);
        Ok(calls::Object { object, reserved: 0 })
    }

    pub(crate) fn socket_bind(&mut self, caller: Caller, address: &SocketAddress) -> Result<SocketAddress, i32> {
        let object = self.held(caller.process, address.object)?;
        let port = u16::try_from(address.port).map_err(|_| libc::EINVAL)?;
        let bound = self.sockets.bind(object, address.address, port)?;
        Ok(SocketAddress { port: u32::from(bound), ..*address })
    }

    pub(crate) fn socket_listen(&mut self, caller: Caller, listen: &calls::SocketListen) -> Result<(), i32> {
        let object = self.held(caller.process, listen.object)?;
        for seeker in self.sockets.listen(object)? {
            self.complete_connection(seeker);
        }
        Ok(())
    }

    pub(crate) fn socket_accept(&mut self, caller: Caller, listener: &calls::Object) -> Result<SocketAccepted, i32> {
        let object = self.held(caller.process, listener.object)?;
        let (server, (address, port)) = self.sockets.accept(object, self.now)?;
        self.hold(caller.process, server);
        Ok(SocketAccepted { object: server, address, port: u32::from(port), reserved: 0 })
    }

    pub(crate) fn socket_connect(&mut self, caller: Caller, to: &SocketAddress) -> Result<(), i32> {
        let object = self.held(caller.process, to.object)?;
        let port = u16::try_from(to.port).map_err(|_| libc::EINVAL)?;
        let found = self.sockets.connect(object, to.address, port)?;
        if found {
            self.complete_connection(object);
            return Ok(());
        }
        let host = self.sockets.get(object)?.host;
        let target = self.sockets.host_of(to.address, host).ok_or(libc::ENETUNREACH)?;
        let somebody = self.processes.any(|process| process.host == target && process.is_alive()) || self.now == SimTime::ZERO;
        if somebody {
            self.queue.push(self.now + SEEK_LIMIT, u32::MAX, Event::SeekOver { object });
        } else {
            self.refuse_seeker(object);
        }
        Ok(())
    }

    pub(crate) fn socket_error(&mut self, caller: Caller, socket: &calls::Object) -> Result<(), i32> {
        let object = self.held(caller.process, socket.object)?;
        self.sockets.outcome(object, self.now)
    }

    pub(crate) fn socket_names(&mut self, caller: Caller, socket: &calls::Object) -> Result<SocketNames, i32> {
        let object = self.held(caller.process, socket.object)?;
        let connected = self.sockets.outcome(object, self.now).is_ok();
        let socket = self.sockets.get(object)?;
        Ok(SocketNames {
            local_address: socket.local.0,
            local_port: u32::from(socket.local.1),
            peer_address: socket.peer_address.0,
            peer_port: u32::from(socket.peer_address.1),
            connected: u32::from(connected && socket.state == SocketState::Connected),
            listening: u32::from(socket.state == SocketState::Listening),
        })
    }

    pub(crate) fn socket_send(&mut self, caller: Caller, request: &WithTail<SocketData, u8>) -> Result<Count, i32> {
        let object = self.held(caller.process, request.head.object)?;
        let data = request.tail.get(..request.head.len as usize).ok_or(libc::EPROTO)?;
        let (path, mut wakeups) = (self.path_of(object), Wakeups::new());
        let sent = self.sockets.send(object, data, self.now, path, &mut wakeups);
        self.wake_at(wakeups);
        Ok(Count { count: sent? as u64 })
    }

    pub(crate) fn socket_receive(&mut self, caller: Caller, request: &calls::SocketReceive) -> Result<WithTail<Count, u8>, i32> {
        let object = self.held(caller.process, request.object)?;
        let len = (request.len_max as usize).min(PAYLOAD_BYTES - size_of::<Count>());
        let (path, mut wakeups) = (self.path_of(object), Wakeups::new());
        let received = self.sockets.receive(object, len, request.peek != 0, self.now, path, &mut wakeups);
        self.wake_at(wakeups);
        let tail = received?;
        Ok(WithTail { head: Count { count: tail.len() as u64 }, tail })
    }

    pub(crate) fn socket_shutdown(&mut self, caller: Caller, request: &calls::SocketShutdown) -> Result<(), i32> {
        let object = self.held(caller.process, request.object)?;
        let (path, mut wakeups) = (self.path_of(object), Wakeups::new());
        let ended = self.sockets.shutdown(object, request.how, self.now, path, &mut wakeups);
        self.wake_at(wakeups);
        ended
    }

    fn complete_connection(&mut self, object: u32) {
        let server = self.objects.add(Object::Socket);
        let mut wakeups = Wakeups::new();
        let path = self.path_of(object);
        if self.sockets.complete(object, server, self.now, path, &mut wakeups).is_err() {
            self.objects.release(server);
        }
        self.wake_at(wakeups);
    }

    pub(crate) fn refuse_seeker(&mut self, object: u32) {
        let Ok(socket) = self.sockets.get(object) else { return };
        if socket.state != SocketState::Seeking {
            return;
        }
        let (address, port) = socket.peer_address;
        let (from, target) = (socket.host, self.sockets.host_of(address, socket.host));
        let spec = self.world.spec();
        let (from, target) = (spec.hosts[from].name.clone(), target.map_or_else(String::new, |host| spec.hosts[host].name.clone()));
        let there = self.processes.ever().iter().filter(|process| spec.hosts[process.host].name == target);
        let running: Vec<String> = there.map(|process| self.command_of(process.number.0 as usize)).collect::<BTreeSet<_>>().into_iter().collect();
        let whose = if running.is_empty() { "no program was started there".to_owned() } else { format!("programs there: {}", running.join(", ")) };
        self.warn(format!("{from}: connection to {target}:{port} refused: nothing listens there ({whose})"));
        self.sockets.refuse(object, libc::ECONNREFUSED);
        self.object_changed(object);
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
        let seeking = self.sockets.sockets.iter().filter(|(_, socket)| socket.state == SocketState::Seeking);
        let wanted = seeking.filter(|(_, socket)| target.is_none() || self.sockets.host_of(socket.peer_address.0, socket.host) == target);
        wanted.map(|(object, _)| *object).collect()
    }
}

fn name_of(text: &str) -> Name {
    let (len, mut bytes) = (text.len().min(256), [0; 256]);
    bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
    Name { len: len as u32, bytes }
}
