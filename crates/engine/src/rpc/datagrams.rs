//! Datagram sockets of programs.

use crate::host::datagrams::{Address, DATAGRAM_MAX, Incoming, To};
use crate::host::sockets::Wakeups;
use crate::protocol::{Caller, Outcome};
use crate::rpc::host_calls::HostCalls;
use crate::rpc::sockets::path;
use crate::rpc::stack::OnStack;
use crate::scheduler::agenda::Event;
use softband_ipc::calls::{self, DatagramReceived, Endpoint, SocketAddress, SocketNames, SocketOption, WithTail, datagram, readiness, socket_option};
use softband_ipc::layout::PAYLOAD_BYTES;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

/// Returns a destination as a program names it. The management network has IPv4 alone, and `::` and
/// `::1` beside it.
///
/// # Errors
/// If the port is not a number of 16 bits, or the network has no such address.
pub(super) fn destination(at: &Endpoint) -> Result<To, i32> {
    let port = u16::try_from(at.port).map_err(|_| libc::EINVAL)?;
    let (address, is_v6) = match at.address() {
        IpAddr::V4(address) => (address, false),
        IpAddr::V6(address) if address.is_unspecified() => (Ipv4Addr::UNSPECIFIED, true),
        IpAddr::V6(address) if address.is_loopback() => (Ipv4Addr::LOCALHOST, true),
        IpAddr::V6(_) => return Err(libc::ENETUNREACH),
    };
    Ok(To { address: (address.into(), port), is_v6 })
}

impl HostCalls<'_> {
    /// Carries out arrivals. Returns the sockets whose readiness has changed.
    pub(crate) fn datagrams_arrive(&mut self) -> BTreeSet<u32> {
        let changed = self.host.datagrams_mut().arrive(self.scheduler.now());
        self.schedule_arrivals();
        changed
    }

    /// Schedules the arrivals that the last operations have caused.
    pub(super) fn schedule_arrivals(&mut self) {
        for at in self.host.datagrams_mut().take_due() {
            self.scheduler.push(at.max(self.scheduler.now()), u32::MAX, Event::DatagramsArrive);
        }
    }

    pub(super) fn datagram_bind(&mut self, object: u32, at: &SocketAddress) -> Result<SocketAddress, i32> {
        let to = destination(&at.at)?;
        let port = self.host.datagrams_mut().bind(object, to, self.scheduler.now());
        self.schedule_arrivals();
        Ok(SocketAddress { at: Endpoint { port: u32::from(port?), ..at.at }, ..*at })
    }

    pub(super) fn datagram_connect(&mut self, object: u32, to: &SocketAddress) -> Result<(), i32> {
        let peer = if to.flags & datagram::NO_ADDRESS == 0 { Some(destination(&to.at)?) } else { None };
        let connected = self.host.datagrams_mut().connect(object, peer, self.scheduler.now());
        self.schedule_arrivals();
        connected
    }

    pub(super) fn datagram_error(&mut self, object: u32) -> Result<(), i32> {
        self.host.datagrams_mut().arrive(self.scheduler.now());
        self.schedule_arrivals();
        self.host.datagrams_mut().take_error(object)
    }

    pub(super) fn datagram_names(&self, object: u32) -> Result<SocketNames, i32> {
        let socket = self.host.datagrams().get(object)?;
        let peer: Address = socket.peer.map_or((0, 0), |peer| peer.address);
        Ok(SocketNames { local: Endpoint::v4(socket.local), peer: Endpoint::v4(peer), connected: u32::from(socket.peer.is_some()), listening: 0 })
    }

    pub(super) fn datagram_shutdown(&mut self, object: u32, how: u32) -> Result<(), i32> {
        let ended = self.host.datagrams_mut().shutdown(object, how, self.scheduler.now());
        self.schedule_arrivals();
        self.wake_at(vec![(self.scheduler.now(), object, readiness::ANY)]);
        ended
    }

    pub(crate) fn datagram_send(&mut self, caller: Caller, request: &WithTail<calls::DatagramSend, u8>) -> Outcome<()> {
        let head = &request.head;
        match self.whole_datagram(caller, request) {
            Ok(None) => Outcome::Reply(()),
            Ok(Some(bytes)) => match self.on_stack(head.object) {
                Some(at) => self.stack_datagram_send(at, head, &bytes),
                None => self.plain_datagram_send(head.object, head, &bytes).into(),
            },
            Err(errno) => Outcome::Fail(errno),
        }
    }

    /// Returns a datagram whose last part has come.
    fn whole_datagram(&mut self, caller: Caller, request: &WithTail<calls::DatagramSend, u8>) -> Result<Option<Vec<u8>>, i32> {
        let head = &request.head;
        let object = self.processes[caller.process].held(head.object)?;
        self.check_datagram(object)?;
        let part = request.tail.get(..head.len as usize).ok_or(libc::EPROTO)?;
        let outgoing = self.host.outgoing_part((caller.process, caller.slot), head.offset as usize, part, DATAGRAM_MAX)?;
        if head.flags & datagram::MORE != 0 {
            self.host.keep_outgoing((caller.process, caller.slot), outgoing);
            return Ok(None);
        }
        Ok(Some(outgoing))
    }

    fn check_datagram(&self, object: u32) -> Result<(), i32> {
        let is_datagram = self.host.is_datagram_socket(object) || self.on_stack(object).is_some_and(OnStack::is_datagram);
        if is_datagram { Ok(()) } else { Err(libc::EOPNOTSUPP) }
    }

    fn plain_datagram_send(&mut self, object: u32, head: &calls::DatagramSend, bytes: &[u8]) -> Result<(), i32> {
        let to = if head.flags & datagram::NO_ADDRESS == 0 { Some(destination(&head.to)?) } else { None };
        let mut wakeups = Wakeups::new();
        let (world, now) = (&*self.world, self.scheduler.now());
        let sent = self.host.datagrams_mut().send(object, bytes, to, now, |from, to| path(world, from, to), &mut wakeups);
        self.schedule_arrivals();
        self.wake_at(wakeups);
        sent
    }

    pub(crate) fn datagram_receive(&mut self, caller: Caller, request: &calls::DatagramReceive) -> Outcome<WithTail<DatagramReceived, u8>> {
        let checked = self.processes[caller.process].held(request.object).and_then(|object| self.check_datagram(object).map(|()| object));
        match checked {
            Ok(object) => match self.on_stack(object) {
                Some(at) => self.stack_datagram_receive(caller, at, request),
                None => self.plain_datagram_receive(caller, object, request).into(),
            },
            Err(errno) => Outcome::Fail(errno),
        }
    }

    fn plain_datagram_receive(
        &mut self,
        caller: Caller,
        object: u32,
        request: &calls::DatagramReceive,
    ) -> Result<WithTail<DatagramReceived, u8>, i32> {
        let place = (caller.process, caller.slot);
        if request.offset == 0 {
            let received = self.host.datagrams_mut().receive(object, request.peek != 0, self.scheduler.now());
            self.schedule_arrivals();
            self.host.keep_incoming(place, Incoming::plain(received?));
        }
        self.next_part(place, request)
    }

    /// Returns the part of a thread's last datagram that it asks for.
    pub(super) fn next_part(&self, place: (usize, u32), request: &calls::DatagramReceive) -> Result<WithTail<DatagramReceived, u8>, i32> {
        let datagram = self.host.incoming(place).ok_or(libc::EPROTO)?;
        let rest = datagram.bytes.get(request.offset as usize..).ok_or(libc::EPROTO)?;
        let len = rest.len().min(request.len_max as usize).min(PAYLOAD_BYTES - size_of::<DatagramReceived>());
        let head = DatagramReceived { len: len as u32, whole: datagram.bytes.len() as u32, ..datagram.head };
        Ok(WithTail { head, tail: rest[..len].to_vec() })
    }

    pub(crate) fn socket_option(&mut self, caller: Caller, option: &SocketOption) -> Outcome<SocketOption> {
        match self.processes[caller.process].held(option.object) {
            Ok(object) => match self.on_stack(object) {
                Some(_) if option.name == socket_option::OWNER && option.set != 0 => {
                    self.host.stack_sockets_mut().set_owner(object, (option.value != 0).then_some(caller.process));
                    Outcome::Reply(*option)
                }
                Some(at) => self.stack_option(at, option),
                None => self.plain_option(object, option).into(),
            },
            Err(errno) => Outcome::Fail(errno),
        }
    }

    fn plain_option(&mut self, object: u32, option: &SocketOption) -> Result<SocketOption, i32> {
        let new = (option.set != 0).then_some(option.value);
        let value = if self.host.is_datagram_socket(object) {
            self.host.datagrams_mut().option(object, option.name, new)?
        } else if (option.name, new) == (socket_option::ROOM, None) {
            self.host.sockets_mut().room(object, self.scheduler.now())?
        } else {
            self.host.sockets_mut().option(object, option.name, new)?
        };
        Ok(SocketOption { value, ..*option })
    }
}
