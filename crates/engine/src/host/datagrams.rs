//! Datagram sockets (UDP) between hosts, over the same management network as [`super::sockets`].
//!
//! A datagram finds its socket when it arrives, and only then takes room there. All methods first
//! carry out the arrivals up to now, so their order alone decides about drops and refusals.

use crate::host::sockets::{LOOPBACK, Path, Wakeups, host_address, host_of};
use bytemuck::Zeroable;
use softband_ipc::calls::{DatagramReceived, Endpoint, readiness, socket_option};
use softband_sim::{SimDuration, SimTime};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most bytes of a datagram: 65,535 without the headers of IPv4 and UDP.
pub(crate) const DATAGRAM_MAX: usize = 65_507;
/// Bytes of a socket's buffers by default, and the most that a program can set: `rmem_default` and
/// `rmem_max` of Linux.
const BUFFER_DEFAULT: u32 = 212_992;
/// Least bytes of both buffers (`SOCK_MIN_RCVBUF`, `SOCK_MIN_SNDBUF` of Linux).
const RECEIVE_BUFFER_MIN: u32 = 2_304;
const SEND_BUFFER_MIN: u32 = 4_608;
/// Bytes that a datagram takes beside its payload (`SKB_TRUESIZE` of Linux on x86-64).
const OVERHEAD: usize = 576;
const EPHEMERAL_FIRST: u16 = 32_768;
const BROADCAST: u32 = u32::MAX;

pub(crate) type Address = (u32, u16);

/// A datagram with its sender's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) from: Address,
    pub(crate) bytes: Vec<u8>,
}

/// A datagram that a thread reads, in several parts if it is long.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    /// Description for the thread. The lengths are those of each part.
    pub(crate) head: DatagramReceived,
    pub(crate) bytes: Vec<u8>,
}

impl Incoming {
    /// Returns a datagram of the management network, which has no further facts.
    pub(crate) fn plain(Received { from, bytes }: Received) -> Self {
        Self { head: DatagramReceived { from: Endpoint::v4(from), ..DatagramReceived::zeroed() }, bytes }
    }
}

/// A destination. `is_v6` marks an address of IPv6 itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct To {
    pub(crate) address: Address,
    pub(crate) is_v6: bool,
}

#[derive(Debug)]
struct UnderWay {
    sender: u32,
    to_host: usize,
    to: To,
    latency: SimDuration,
    datagram: Received,
}

#[derive(Debug)]
enum Arrival {
    Datagram(UnderWay),
    /// The answer of a host without a socket at this address.
    Refusal {
        object: u32,
        about: Address,
    },
}

/// One datagram socket.
#[derive(Debug, Default)]
pub(crate) struct DatagramSocket {
    pub(crate) host: usize,
    pub(crate) local: Address,
    pub(crate) peer: Option<To>,
    pub(crate) only_v6: bool,
    /// Whether the program chose the local address. Else it follows the peer.
    has_chosen_address: bool,
    may_share: bool,
    received: VecDeque<Received>,
    received_bytes: usize,
    receive_buffer: u32,
    send_buffer: u32,
    /// Datagrams that have not left yet: the time at which each leaves, and its bytes.
    leaving: VecDeque<(SimTime, usize)>,
    leaving_bytes: usize,
    free_at: SimTime,
    error: Option<i32>,
    read_shut: bool,
    write_shut: bool,
}

impl DatagramSocket {
    /// Returns whether the socket takes a datagram, and how exactly its addresses match.
    fn fit(&self, to: To, from: Address) -> Option<u32> {
        let fits = (self.local.0 == 0 || self.local.0 == to.address.0) && (to.is_v6 || !self.only_v6);
        let has_peer = self.peer.is_some();
        let is_peer = self.peer.is_none_or(|peer| peer.address == from);
        (fits && is_peer).then_some(u32::from(has_peer) * 4 + u32::from(self.local.0 != 0) * 2 + u32::from(self.only_v6))
    }

    /// Returns the address from which datagrams to `to` come.
    fn source(&self, to: u32) -> u32 {
        match self.local.0 {
            0 if to == LOOPBACK => LOOPBACK,
            0 => host_address(self.host),
            chosen => chosen,
        }
    }

    /// Takes the datagrams that have left by `now` out of the send buffer.
    fn note_departures(&mut self, now: SimTime) {
        while let Some((_, bytes)) = self.leaving.front().copied().filter(|(at, _)| *at <= now) {
            self.leaving.pop_front();
            self.leaving_bytes -= bytes;
        }
    }

    fn has_room(&self) -> bool {
        self.leaving_bytes < self.send_buffer as usize
    }

    /// Returns when the send buffer has room again.
    fn room_at(&self) -> Option<SimTime> {
        let mut rest = self.leaving_bytes;
        let frees = |(at, bytes): &(SimTime, usize)| {
            rest -= bytes;
            (rest < self.send_buffer as usize).then_some(*at)
        };
        self.leaving.iter().find_map(frees)
    }
}

/// All datagram sockets of a fabric, and the datagrams under way.
#[derive(Default)]
pub(crate) struct DatagramTable {
    sockets: BTreeMap<u32, DatagramSocket>,
    bound: BTreeMap<(usize, u16), Vec<u32>>,
    ephemeral_next: BTreeMap<usize, u16>,
    under_way: BTreeMap<(SimTime, u64), Arrival>,
    sent: u64,
    /// Times of arrivals that the caller has not scheduled yet.
    due: Vec<SimTime>,
    changed: BTreeSet<u32>,
    hosts: usize,
}

impl DatagramTable {
    pub(crate) fn new(hosts: usize) -> Self {
        Self { hosts, ..Self::default() }
    }

    pub(crate) fn open(&mut self, object: u32, host: usize) {
        let socket = DatagramSocket { host, receive_buffer: BUFFER_DEFAULT, send_buffer: BUFFER_DEFAULT, ..DatagramSocket::default() };
        self.sockets.insert(object, socket);
    }

    pub(crate) fn get(&self, object: u32) -> Result<&DatagramSocket, i32> {
        self.sockets.get(&object).ok_or(libc::EBADF)
    }

    fn get_mut(&mut self, object: u32) -> Result<&mut DatagramSocket, i32> {
        self.sockets.get_mut(&object).ok_or(libc::EBADF)
    }

    /// Takes the times at which [`DatagramTable::arrive`] is due.
    pub(crate) fn take_due(&mut self) -> Vec<SimTime> {
        std::mem::take(&mut self.due)
    }

    /// Carries out the arrivals up to `now`. Returns the sockets whose readiness has changed since
    /// the last call.
    pub(crate) fn arrive(&mut self, now: SimTime) -> BTreeSet<u32> {
        self.admit(now);
        std::mem::take(&mut self.changed)
    }

    fn admit(&mut self, now: SimTime) {
        while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((at, _), arrival) = entry.remove_entry();
            match arrival {
                Arrival::Datagram(datagram) => self.deliver(at, datagram),
                Arrival::Refusal { object, about } => {
                    if let Some(socket) = self.sockets.get_mut(&object).filter(|socket| socket.peer.is_some_and(|peer| peer.address == about)) {
                        socket.error = Some(libc::ECONNREFUSED);
                        self.changed.insert(object);
                    }
                }
            }
        }
    }

    fn set_under_way(&mut self, at: SimTime, arrival: Arrival) {
        self.sent += 1;
        self.under_way.insert((at, self.sent), arrival);
        self.due.push(at);
    }

    /// Hands a datagram to its socket. A full socket drops it; a host without that socket refuses
    /// it.
    fn deliver(&mut self, at: SimTime, arrived: UnderWay) {
        let UnderWay { sender, to_host, to, latency, datagram } = arrived;
        let there = self.bound.get(&(to_host, to.address.1)).map_or(&[][..], Vec::as_slice);
        let fits = there.iter().filter_map(|object| Some((self.sockets.get(object)?.fit(to, datagram.from)?, *object)));
        // Of equals, the last one in the list was bound last.
        let Some((_, object)) = fits.max_by_key(|(fit, _)| *fit) else {
            return self.set_under_way(at + latency, Arrival::Refusal { object: sender, about: to.address });
        };
        let Ok(socket) = self.get_mut(object) else { return };
        let bytes = datagram.bytes.len() + OVERHEAD;
        if socket.read_shut || socket.received_bytes + bytes > socket.receive_buffer as usize {
            return;
        }
        socket.received_bytes += bytes;
        socket.received.push_back(datagram);
        self.changed.insert(object);
    }

    pub(crate) fn bind(&mut self, object: u32, at: To, now: SimTime) -> Result<u16, i32> {
        self.admit(now);
        let (address, port) = at.address;
        let socket = self.get(object)?;
        let host = socket.host;
        if host_of(self.hosts, address, host) != Some(host) {
            return Err(libc::EADDRNOTAVAIL);
        }
        if socket.local.1 != 0 || (socket.only_v6 && !at.is_v6) {
            return Err(libc::EINVAL);
        }
        let port = if port == 0 { self.ephemeral(host)? } else { port };
        if self.is_taken(object, (address, port)) {
            return Err(libc::EADDRINUSE);
        }
        self.take_port(object, host, port)?;
        let socket = self.get_mut(object)?;
        socket.local.0 = address;
        socket.has_chosen_address = address != 0;
        Ok(port)
    }

    fn take_port(&mut self, object: u32, host: usize, port: u16) -> Result<(), i32> {
        self.get_mut(object)?.local.1 = port;
        self.bound.entry((host, port)).or_default().push(object);
        Ok(())
    }

    fn is_taken(&self, object: u32, (address, port): Address) -> bool {
        let Some(socket) = self.sockets.get(&object) else { return true };
        let others = self.bound.get(&(socket.host, port)).into_iter().flatten().filter_map(|other| self.sockets.get(other));
        others.into_iter().any(|other| {
            let overlaps = other.local.0 == address || other.local.0 == 0 || address == 0;
            overlaps && other.only_v6 == socket.only_v6 && !(other.may_share && socket.may_share)
        })
    }

    fn ephemeral(&mut self, host: usize) -> Result<u16, i32> {
        let next = self.ephemeral_next.entry(host).or_insert(EPHEMERAL_FIRST);
        for _ in EPHEMERAL_FIRST..=u16::MAX {
            let port = *next;
            *next = next.checked_add(1).unwrap_or(EPHEMERAL_FIRST);
            if self.bound.get(&(host, port)).is_none_or(Vec::is_empty) {
                return Ok(port);
            }
        }
        Err(libc::EADDRINUSE)
    }

    fn ensure_port(&mut self, object: u32) -> Result<(), i32> {
        let socket = self.get(object)?;
        let host = socket.host;
        if socket.local.1 == 0 {
            let port = self.ephemeral(host)?;
            self.take_port(object, host, port)?;
        }
        Ok(())
    }

    /// Returns the host of a destination, and the destination as its host knows it.
    fn destination(&self, socket: &DatagramSocket, to: To) -> Result<(usize, To), i32> {
        let (address, port) = to.address;
        if address == BROADCAST {
            return Err(libc::EACCES);
        }
        let address = if address == 0 { LOOPBACK } else { address };
        let target = host_of(self.hosts, address, socket.host).ok_or(libc::ENETUNREACH)?;
        if socket.only_v6 && !to.is_v6 {
            return Err(libc::ENETUNREACH);
        }
        if socket.local.0 == LOOPBACK && target != socket.host {
            return Err(libc::EINVAL);
        }
        Ok((target, To { address: (address, port), is_v6: to.is_v6 }))
    }

    /// Sets the peer, or removes it. The peer may have an address outside the fabric.
    pub(crate) fn connect(&mut self, object: u32, to: Option<To>, now: SimTime) -> Result<(), i32> {
        self.admit(now);
        let Some(to) = to else {
            let socket = self.get_mut(object)?;
            socket.peer = None;
            if !socket.has_chosen_address {
                socket.local.0 = 0;
            }
            return Ok(());
        };
        let peer = match self.destination(self.get(object)?, to) {
            Ok((_, peer)) => peer,
            Err(libc::ENETUNREACH) if !self.get(object)?.only_v6 => to,
            Err(errno) => return Err(errno),
        };
        self.ensure_port(object)?;
        let socket = self.get_mut(object)?;
        if !socket.has_chosen_address {
            socket.local.0 = 0;
        }
        socket.local.0 = socket.source(peer.address.0);
        socket.peer = Some(peer);
        Ok(())
    }

    /// Sends a datagram to `to` or to the peer. `path` returns the path to a host.
    pub(crate) fn send(
        &mut self,
        object: u32,
        bytes: &[u8],
        to: Option<To>,
        now: SimTime,
        path: impl Fn(usize, usize) -> Path,
        wakeups: &mut Wakeups,
    ) -> Result<(), i32> {
        self.admit(now);
        self.take_error(object)?;
        let socket = self.get(object)?;
        if socket.write_shut {
            return Err(libc::EPIPE);
        }
        if bytes.len() > DATAGRAM_MAX {
            return Err(libc::EMSGSIZE);
        }
        let to = to.or(socket.peer).ok_or(libc::EDESTADDRREQ)?;
        if to.address.1 == 0 {
            return Err(libc::EINVAL);
        }
        let (to_host, to) = self.destination(socket, to)?;
        let path = path(socket.host, to_host);
        self.ensure_port(object)?;
        let socket = self.get_mut(object)?;
        socket.note_departures(now);
        if !socket.has_room() {
            return Err(libc::EAGAIN);
        }
        let leaves = socket.free_at.max(now) + SimDuration::of_bytes(bytes.len() as u64, path.bytes_per_second);
        socket.free_at = leaves;
        socket.leaving.push_back((leaves, bytes.len() + OVERHEAD));
        socket.leaving_bytes += bytes.len() + OVERHEAD;
        if !socket.has_room() {
            wakeups.extend(socket.room_at().map(|at| (at, object, readiness::WRITABLE)));
        }
        let datagram = Received { from: (socket.source(to.address.0), socket.local.1), bytes: bytes.to_vec() };
        self.set_under_way(leaves + path.latency, Arrival::Datagram(UnderWay { sender: object, to_host, to, latency: path.latency, datagram }));
        Ok(())
    }

    /// Takes the next datagram, or only copies it if `peek`.
    pub(crate) fn receive(&mut self, object: u32, peek: bool, now: SimTime) -> Result<Received, i32> {
        self.admit(now);
        self.take_error(object)?;
        let socket = self.get_mut(object)?;
        if peek && let Some(first) = socket.received.front() {
            return Ok(first.clone());
        }
        match socket.received.pop_front() {
            Some(datagram) => {
                socket.received_bytes -= datagram.bytes.len() + OVERHEAD;
                Ok(datagram)
            }
            None if socket.read_shut => Ok(Received { from: (0, 0), bytes: Vec::new() }),
            None => Err(libc::EAGAIN),
        }
    }

    /// Fails with the pending error, and forgets it.
    pub(crate) fn take_error(&mut self, object: u32) -> Result<(), i32> {
        self.get_mut(object)?.error.take().map_or(Ok(()), Err)
    }

    pub(crate) fn shutdown(&mut self, object: u32, how: u32, now: SimTime) -> Result<(), i32> {
        self.admit(now);
        let socket = self.get_mut(object)?;
        if socket.peer.is_none() {
            return Err(libc::ENOTCONN);
        }
        socket.read_shut |= how != libc::SHUT_WR as u32;
        socket.write_shut |= how != libc::SHUT_RD as u32;
        Ok(())
    }

    /// Reads an option, after it has the new value if there is one.
    pub(crate) fn option(&mut self, object: u32, name: u32, value: Option<u32>) -> Result<u32, i32> {
        let socket = self.get_mut(object)?;
        let doubled = |value: u32, least| (value.min(BUFFER_DEFAULT) * 2).max(least);
        match (name, value) {
            (socket_option::RECEIVE_BUFFER, Some(value)) => socket.receive_buffer = doubled(value, RECEIVE_BUFFER_MIN),
            (socket_option::SEND_BUFFER, Some(value)) => socket.send_buffer = doubled(value, SEND_BUFFER_MIN),
            (socket_option::ONLY_V6, Some(_)) if socket.local.1 != 0 => return Err(libc::EINVAL),
            (socket_option::ONLY_V6, Some(value)) => socket.only_v6 = value != 0,
            (socket_option::SHARE_ADDRESS, Some(value)) => socket.may_share = value != 0,
            _ => {}
        }
        Ok(match name {
            socket_option::RECEIVE_BUFFER => socket.receive_buffer,
            socket_option::SEND_BUFFER => socket.send_buffer,
            socket_option::ONLY_V6 => socket.only_v6.into(),
            socket_option::SHARE_ADDRESS => socket.may_share.into(),
            _ => return Err(libc::ENOPROTOOPT),
        })
    }

    pub(crate) fn close(&mut self, object: u32, now: SimTime) {
        self.admit(now);
        let Some(socket) = self.sockets.remove(&object) else { return };
        let place = (socket.host, socket.local.1);
        if let Some(others) = self.bound.get_mut(&place) {
            others.retain(|other| *other != object);
            if others.is_empty() {
                self.bound.remove(&place);
            }
        }
    }

    /// Returns the readiness bits at `now`.
    pub(crate) fn readiness(&mut self, object: u32, now: SimTime) -> u32 {
        use softband_ipc::calls::readiness::{ERROR, HANG_UP, READABLE, WRITABLE};
        self.admit(now);
        let Some(socket) = self.sockets.get_mut(&object) else { return ERROR | HANG_UP };
        socket.note_departures(now);
        u32::from(!socket.received.is_empty() || socket.read_shut) * READABLE
            + u32::from(socket.has_room()) * WRITABLE
            + u32::from(socket.error.is_some()) * ERROR
            + u32::from(socket.read_shut && socket.write_shut) * HANG_UP
    }
}

#[cfg(test)]
mod tests;
