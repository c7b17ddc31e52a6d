//! Datagrams of a port. The engine has a twin of the program's socket at each public address. A
//! datagram that reaches a twin goes through the model from its sender's host to that of the twin.

use super::model::{Model, Thread};
use super::native;
use super::places::Places;
use rustix::fd::OwnedFd;
use softband_ipc::layout::relay::{HIDDEN, PUBLIC};
use softband_net::calls::{ReceiveFrom, SendTo};
use softband_net::{NetError, Payload, SocketId};
use softband_sim::SimTime;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr, SocketAddrV4};

/// Most bytes of a sender that wait for its host. Further datagrams are lost.
const WAITING_BYTES_MAX: usize = 256 << 10;
/// Bytes that a waiting datagram costs beside its own.
const WAITING_OVERHEAD_BYTES: usize = 512;
/// Longest datagram.
pub(super) const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Most datagrams of a port that leave or arrive before others have their turn.
const DATAGRAMS_PER_TURN: u32 = 64;

/// The engine's socket at a public address of a port.
#[derive(Debug)]
pub(super) struct Twin {
    pub(super) place: usize,
    /// Number of the socket's news.
    pub(super) news: u64,
    pub(super) socket: OwnedFd,
}

/// A port for datagrams on a host.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) host: usize,
    pub(super) place: usize,
    pub(super) port: u16,
    pub(super) socket: SocketId,
    twins: Vec<Twin>,
    waiting: VecDeque<(SocketAddrV4, Vec<u8>)>,
    waiting_bytes: usize,
    writer: Thread,
    reader: Thread,
    /// The program's socket has gone, at this time. Its datagrams may be under way.
    pub(super) gone_at: Option<SimTime>,
}

impl Port {
    pub(super) fn new((place, port): (usize, u16), (host, socket): (usize, SocketId), twins: Vec<Twin>) -> Self {
        let (waiting, waiting_bytes) = (VecDeque::new(), 0);
        let (writer, reader) = (Thread::default(), Thread::default());
        Self { host, place, port, socket, twins, waiting, waiting_bytes, writer, reader, gone_at: None }
    }

    /// Takes a datagram that the port's program sends, unless too many wait.
    pub(super) fn send(&mut self, to: SocketAddrV4, bytes: &[u8]) {
        let size = bytes.len() + WAITING_OVERHEAD_BYTES;
        if self.waiting_bytes + size <= WAITING_BYTES_MAX {
            self.waiting_bytes += size;
            self.waiting.push_back((to, bytes.to_vec()));
        }
    }

    /// Hands the waiting datagrams to the host. Returns the time at which it takes more, or `None` if
    /// it does so after news.
    pub(super) fn depart(&mut self, model: &mut Model<'_>) -> Option<SimTime> {
        while let Some((to, bytes)) = self.waiting.front() {
            if self.writer.is_busy(model.now) {
                return self.writer.busy_until(model.now);
            }
            let call = SendTo { socket: self.socket, payload: Payload::from(bytes.as_slice()), to: Some((*to).into()) };
            let (sent, cost) = model.ask(self.host, call);
            if sent == Err(NetError::WouldBlock) {
                break;
            }
            self.writer.pay(model.now, cost);
            // Other errors lose the datagram: its program has gone on.
            self.waiting_bytes -= bytes.len() + WAITING_OVERHEAD_BYTES;
            self.waiting.pop_front();
        }
        self.writer.rests();
        None
    }

    /// Takes a datagram that has arrived, with its sender's address and the one that it had.
    pub(super) fn arrive(&mut self, model: &mut Model<'_>) -> Arrival {
        if self.reader.is_busy(model.now)
            && let Some(until) = self.reader.busy_until(model.now)
        {
            return Arrival::Later(until);
        }
        let (received, cost) = model.ask(self.host, ReceiveFrom { socket: self.socket, most: DATAGRAM_BYTES_MAX as u32, peek: false });
        match received {
            Ok(received) => {
                self.reader.pay(model.now, cost);
                Arrival::Datagram { from: received.from, bytes: received.payload.to_vec() }
            }
            Err(NetError::WouldBlock) => {
                self.reader.rests();
                Arrival::Nothing
            }
            // An error of an earlier datagram, which a call sees once.
            Err(_) => Arrival::Error,
        }
    }

    /// Returns the twin at a place.
    pub(super) fn twin(&self, place: usize) -> Option<&OwnedFd> {
        self.twins.iter().find(|twin| twin.place == place).map(|twin| &twin.socket)
    }

    /// Returns the bytes that wait for the host.
    #[cfg(test)]
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Returns the numbers of the twins' news.
    pub(super) fn news(&self) -> impl Iterator<Item = u64> {
        self.twins.iter().map(|twin| twin.news)
    }

    /// Returns the kernel's address of the program's socket.
    pub(super) fn program(&self, places: &Places) -> SocketAddrV4 {
        SocketAddrV4::new(places.in_kernel(HIDDEN, self.place), self.port)
    }
}

/// Result of [`Port::arrive`].
pub(super) enum Arrival {
    Datagram { from: SocketAddr, bytes: Vec<u8> },
    Nothing,
    Error,
    Later(SimTime),
}

/// Opens the twins of a program's socket.
///
/// # Errors
/// If another socket has an address, or the engine has no more files.
pub(super) fn open_twins(places: &Places, place: usize, port: u16) -> rustix::io::Result<Vec<Twin>> {
    let at = |covered: usize| SocketAddrV4::new(places.in_kernel(PUBLIC, covered), port);
    let twin = |place: usize| native::datagrams(at(place)).map(|socket| Twin { place, news: 0, socket });
    places.covered_by(place).into_iter().map(twin).collect()
}

/// Ports for datagrams of all hosts.
#[derive(Debug, Default)]
pub(super) struct Ports {
    all: Vec<Option<Port>>,
    /// Ports by place and number.
    by_name: BTreeMap<(usize, u16), usize>,
    /// Unused indices.
    free: Vec<usize>,
    /// Number of twins.
    sockets: usize,
}

impl Ports {
    pub(super) fn add(&mut self, port: Port) {
        let free = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        self.by_name.insert((port.place, port.port), free);
        self.sockets += port.twins.len();
        self.all[free] = Some(port);
    }

    pub(super) fn remove(&mut self, index: usize) -> Option<Port> {
        let port = self.all.get_mut(index)?.take()?;
        self.by_name.remove(&(port.place, port.port));
        self.free.push(index);
        self.sockets -= port.twins.len();
        Some(port)
    }

    /// Returns the port of a program's socket that is bound at this very place.
    pub(super) fn named(&self, place: usize, port: u16) -> Option<usize> {
        self.by_name.get(&(place, port)).copied()
    }

    /// Returns up to `most` indices behind `after`, from the first one behind the last.
    pub(super) fn behind(&self, after: usize, most: usize) -> Vec<usize> {
        let used = |index: &usize| self.all[*index].is_some();
        let (from, len) = ((after + 1).min(self.all.len()), self.all.len());
        (from..len).chain(0..from).filter(used).take(most).collect()
    }

    /// Returns the number of twins.
    pub(super) fn sockets(&self) -> usize {
        self.sockets
    }

    /// Returns the index of the next port that somebody adds.
    pub(super) fn next_index(&self) -> usize {
        self.free.last().copied().unwrap_or(self.all.len())
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Port> {
        self.all.get_mut(index)?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Port)> {
        self.all.iter().enumerate().filter_map(|(index, port)| port.as_ref().map(|port| (index, port)))
    }

    /// Returns the port of a program's socket at a place.
    pub(super) fn at(&self, places: &Places, place: usize, port: u16) -> Option<usize> {
        self.named(place, port).or_else(|| self.named(places.get(place).host, port))
    }

    /// Hands the datagrams of a twin to the ports of their senders. Returns those ports.
    pub(super) fn collect(&mut self, places: &Places, (index, place): (usize, usize), room: &mut [u8]) -> Vec<usize> {
        let mut senders = Vec::new();
        for _ in 0..DATAGRAMS_PER_TURN {
            let Some(port) = self.all.get(index).and_then(Option::as_ref) else { break };
            let Some(twin) = port.twin(place) else { break };
            let to = SocketAddrV4::new(places.get(place).address, port.port);
            let Ok((count, from)) = native::receive_from(twin, room) else { return senders };
            let sender = places.of_kernel(HIDDEN, *from.ip()).and_then(|place| self.at(places, place, from.port()));
            if let Some(sender) = sender
                && let Some(port) = self.get_mut(sender)
            {
                port.send(to, &room[..count]);
                senders.push(sender);
            }
        }
        // More may wait, and the twin tells of none that came before.
        senders.push(usize::MAX);
        senders
    }

    /// Sends what has arrived at a port to its program. Returns the time of the next look, or `None`
    /// if news announce it.
    pub(super) fn deliver(&mut self, places: &Places, index: usize, model: &mut Model<'_>) -> Option<SimTime> {
        for _ in 0..DATAGRAMS_PER_TURN {
            let port = self.get_mut(index)?;
            let (from, bytes) = match port.arrive(model) {
                Arrival::Datagram { from, bytes } => (from, bytes),
                Arrival::Error => continue,
                Arrival::Nothing => return None,
                Arrival::Later(at) => return Some(at),
            };
            let program = port.program(places);
            let own = places.get(port.place).host;
            let sender = match from.ip() {
                IpAddr::V4(ip) if ip.is_loopback() => Some(own),
                ip => places.of_address(ip),
            };
            let twin = sender.and_then(|place| self.at(places, place, from.port()).and_then(|index| self.all[index].as_ref()?.twin(place)));
            if let Some(twin) = twin {
                native::send_to(twin, &bytes, program);
            }
        }
        Some(model.now)
    }
}
