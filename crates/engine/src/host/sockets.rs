//! Plain sockets between hosts: the management network over which programs exchange addresses.
//!
//! Every byte carries the time at which it becomes visible at the other end. A reader's clock
//! therefore never depends on the host.

pub(crate) use crate::host::network::address as host_address;
use softband_ipc::calls::readiness::{ANY, ERROR, HANG_UP, PEER_ENDED, READABLE, WRITABLE};
use softband_ipc::calls::socket_option;
use softband_sim::{SimDuration, SimTime};
use std::collections::{BTreeMap, VecDeque};

/// Most bytes that are under way or unread at one end.
const WINDOW_BYTES: usize = 256 * 1024;
/// First port for sockets that request any port.
const EPHEMERAL_FIRST: u16 = 32_768;
pub(crate) const LOOPBACK: u32 = 0x7F00_0001;

/// Returns the host of an address, as seen from host `from` of `hosts`.
pub(crate) fn host_of(hosts: usize, address: u32, from: usize) -> Option<usize> {
    if address == LOOPBACK || address == 0 {
        return Some(from);
    }
    let index = address.checked_sub(host_address(0))? as usize;
    (index < hosts).then_some(index)
}

/// State of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketState {
    New,
    Listening,
    /// Waits for a listener.
    Seeking,
    /// The answer is under way.
    Connecting,
    Connected,
    Failed(i32),
}

#[derive(Debug)]
struct Chunk {
    visible: SimTime,
    bytes: VecDeque<u8>,
}

/// One socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) host: usize,
    pub(crate) state: SocketState,
    pub(crate) local: (u32, u16),
    pub(crate) peer_address: (u32, u16),
    /// Whether the program named its peer by an address of IPv6 itself.
    seeks_v6: bool,
    pub(crate) only_v6: bool,
    peer: Option<u32>,
    received: VecDeque<Chunk>,
    received_bytes: usize,
    last_visible: SimTime,
    end_of_stream: Option<SimTime>,
    write_shut: bool,
    read_shut: bool,
    /// Time at which the reset for bytes to a closed peer arrives.
    reset_at: Option<SimTime>,
    backlog: VecDeque<(SimTime, u32)>,
    /// Time at which a connecting socket is connected.
    connected_at: SimTime,
    /// Set if the program has seen that there is no room. New room is an edge only then, as in Linux
    /// (SOCK_NOSPACE).
    lacks_room: bool,
}

/// Objects whose readiness changes, each with the time of the change and the readiness bits that it
/// concerns.
pub(crate) type Wakeups = Vec<(SimTime, u32, u32)>;

/// One-way latency and rate between two programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) latency: SimDuration,
    pub(crate) bytes_per_second: u64,
}

/// All sockets of a fabric.
#[derive(Default)]
pub(crate) struct SocketTable {
    sockets: BTreeMap<u32, Socket>,
    /// By host, port, and whether the socket is for IPv6 only.
    listeners: BTreeMap<(usize, u16, bool), u32>,
    ephemeral_next: BTreeMap<usize, u16>,
    hosts: usize,
}

impl SocketTable {
    pub(crate) fn new(hosts: usize) -> Self {
        Self { hosts, ..Self::default() }
    }

    pub(crate) fn open(&mut self, object: u32, host: usize) {
        let socket = Socket {
            host,
            state: SocketState::New,
            local: (0, 0),
            peer_address: (0, 0),
            seeks_v6: false,
            only_v6: false,
            peer: None,
            received: VecDeque::new(),
            received_bytes: 0,
            last_visible: SimTime::ZERO,
            end_of_stream: None,
            write_shut: false,
            read_shut: false,
            reset_at: None,
            backlog: VecDeque::new(),
            connected_at: SimTime::ZERO,
            lacks_room: false,
        };
        self.sockets.insert(object, socket);
    }

    pub(crate) fn get(&self, object: u32) -> Result<&Socket, i32> {
        self.sockets.get(&object).ok_or(libc::EBADF)
    }
    fn get_mut(&mut self, object: u32) -> Result<&mut Socket, i32> {
        self.sockets.get_mut(&object).ok_or(libc::EBADF)
    }

    /// Returns the host of an address, as seen from host `from`.
    pub(crate) fn host_of(&self, address: u32, from: usize) -> Option<usize> {
        host_of(self.hosts, address, from)
    }

    /// Returns the listening socket at a port, as seen by an address of IPv6 itself or not.
    fn listener(&self, target: usize, port: u16, is_v6: bool) -> Option<u32> {
        let only_v6 = self.listeners.get(&(target, port, true)).filter(|_| is_v6);
        only_v6.or_else(|| self.listeners.get(&(target, port, false))).copied()
    }

    /// Reads an option, after it has the new value if there is one.
    pub(crate) fn option(&mut self, object: u32, name: u32, value: Option<u32>) -> Result<u32, i32> {
        let socket = self.get_mut(object)?;
        if name != socket_option::ONLY_V6 {
            return Err(libc::ENOPROTOOPT);
        }
        if let Some(value) = value {
            if socket.local.1 != 0 {
                return Err(libc::EINVAL);
            }
            socket.only_v6 = value != 0;
        }
        Ok(socket.only_v6.into())
    }

    /// Binds a socket to an address, of IPv6 itself or not.
    pub(crate) fn bind(&mut self, object: u32, address: u32, port: u16, is_v6: bool) -> Result<u16, i32> {
        let Socket { host, only_v6, .. } = *self.get(object)?;
        if only_v6 && !is_v6 {
            return Err(libc::EINVAL);
        }
        if self.host_of(address, host) != Some(host) {
            return Err(libc::EADDRNOTAVAIL);
        }
        if self.get(object)?.local.1 != 0 {
            return Err(libc::EINVAL);
        }
        let taken = |port: u16| {
            self.sockets.values().any(|socket| (socket.host, socket.local.1, socket.only_v6) == (host, port, only_v6) && socket.peer.is_none())
        };
        let port = if port != 0 {
            if taken(port) {
                return Err(libc::EADDRINUSE);
            }
            port
        } else {
            self.ephemeral(host)
        };
        self.get_mut(object)?.local = (address, port);
        Ok(port)
    }

    fn ephemeral(&mut self, host: usize) -> u16 {
        let next = self.ephemeral_next.entry(host).or_insert(EPHEMERAL_FIRST);
        let port = *next;
        *next = next.checked_add(1).unwrap_or(EPHEMERAL_FIRST);
        port
    }

    /// Starts to listen. The caller connects the returned sockets, which seek this port.
    pub(crate) fn listen(&mut self, object: u32) -> Result<Vec<u32>, i32> {
        if self.get(object)?.local.1 == 0 {
            self.bind(object, 0, 0, true)?;
        }
        let Socket { host, local: (_, port), only_v6, .. } = *self.get(object)?;
        match self.listeners.get(&(host, port, only_v6)) {
            Some(other) if *other != object => return Err(libc::EADDRINUSE),
            _ => {}
        }
        self.listeners.insert((host, port, only_v6), object);
        self.get_mut(object)?.state = SocketState::Listening;
        let seekers = self.sockets.iter().filter(|(_, socket)| socket.state == SocketState::Seeking);
        let seekers = seekers.filter(|(_, socket)| self.host_of(socket.peer_address.0, socket.host) == Some(host) && socket.peer_address.1 == port);
        let found = seekers.filter(|(_, socket)| self.listener(host, port, socket.seeks_v6).is_some());
        Ok(found.map(|(object, _)| *object).collect())
    }

    /// Starts to connect. Returns true if a socket listens; the caller then calls
    /// [`SocketTable::complete`]. Returns false if no socket listens yet.
    pub(crate) fn connect(&mut self, object: u32, address: u32, port: u16, is_v6: bool) -> Result<bool, i32> {
        let Socket { host, only_v6, .. } = *self.get(object)?;
        if only_v6 && !is_v6 {
            return Err(libc::ENETUNREACH);
        }
        match self.get(object)?.state {
            SocketState::New | SocketState::Failed(_) => {}
            SocketState::Connected => return Err(libc::EISCONN),
            SocketState::Listening => return Err(libc::EISCONN),
            SocketState::Seeking | SocketState::Connecting => return Err(libc::EALREADY),
        }
        let target = self.host_of(address, host).ok_or(libc::ENETUNREACH)?;
        if self.get(object)?.local.1 == 0 {
            let port = self.ephemeral(host);
            self.get_mut(object)?.local = (host_address(host), port);
        }
        let found = self.listener(target, port, is_v6).is_some();
        let socket = self.get_mut(object)?;
        socket.peer_address = (address, port);
        socket.seeks_v6 = is_v6;
        socket.state = SocketState::Seeking;
        Ok(found)
    }

    /// Connects a seeking socket to the listening socket. `server` is a new object for the other
    /// end.
    pub(crate) fn complete(&mut self, object: u32, server: u32, now: SimTime, path: Path, wakeups: &mut Wakeups) -> Result<(), i32> {
        let Socket { host, local, peer_address: (address, port), seeks_v6, .. } = *self.get(object)?;
        let target = self.host_of(address, host).ok_or(libc::ENETUNREACH)?;
        let listener = self.listener(target, port, seeks_v6).ok_or(libc::ECONNREFUSED)?;
        self.open(server, target);
        let (arrives, connected) = (now + path.latency, now + path.latency * 2);
        let target_address = if address == LOOPBACK || address == 0 { LOOPBACK } else { host_address(target) };
        let end = self.get_mut(server)?;
        end.state = SocketState::Connected;
        end.local = (target_address, port);
        end.peer_address = if target == host && target_address == LOOPBACK { (LOOPBACK, local.1) } else { (host_address(host), local.1) };
        end.peer = Some(object);
        end.last_visible = arrives;
        let socket = self.get_mut(object)?;
        socket.state = SocketState::Connecting;
        socket.connected_at = connected;
        socket.last_visible = connected;
        socket.peer = Some(server);
        self.get_mut(listener)?.backlog.push_back((arrives, server));
        wakeups.push((arrives, listener, READABLE));
        wakeups.push((connected, object, ANY));
        Ok(())
    }

    /// Returns the outcome of a connection attempt, and updates its state if its time has come.
    pub(crate) fn outcome(&mut self, object: u32, now: SimTime) -> Result<(), i32> {
        let socket = self.get_mut(object)?;
        if socket.state == SocketState::Connecting && socket.connected_at <= now {
            socket.state = SocketState::Connected;
        }
        match socket.state {
            SocketState::Seeking | SocketState::Connecting => Err(libc::EINPROGRESS),
            SocketState::Failed(errno) => Err(errno),
            _ => Ok(()),
        }
    }

    /// Returns the sockets that seek a listener, on the `target` host or on any.
    pub(crate) fn seekers(&self, target: Option<usize>) -> Vec<u32> {
        let seeking = self.sockets.iter().filter(|(_, socket)| socket.state == SocketState::Seeking);
        let wanted = seeking.filter(|(_, socket)| target.is_none() || self.host_of(socket.peer_address.0, socket.host) == target);
        wanted.map(|(object, _)| *object).collect()
    }

    pub(crate) fn refuse(&mut self, object: u32, errno: i32) {
        if let Some(socket) = self.sockets.get_mut(&object)
            && socket.state == SocketState::Seeking
        {
            socket.state = SocketState::Failed(errno);
        }
    }

    pub(crate) fn accept(&mut self, object: u32, now: SimTime) -> Result<(u32, (u32, u16)), i32> {
        let socket = self.get_mut(object)?;
        if socket.state != SocketState::Listening {
            return Err(libc::EINVAL);
        }
        match socket.backlog.front() {
            Some((at, server)) if *at <= now => {
                let server = *server;
                socket.backlog.pop_front();
                Ok((server, self.get(server)?.peer_address))
            }
            _ => Err(libc::EAGAIN),
        }
    }

    /// Returns the peer of a socket that can send.
    fn receiver(&mut self, object: u32, now: SimTime) -> Result<u32, i32> {
        self.outcome(object, now).map_err(|errno| if errno == libc::EINPROGRESS { libc::ENOTCONN } else { errno })?;
        let socket = self.get(object)?;
        if socket.state != SocketState::Connected {
            return Err(libc::ENOTCONN);
        }
        if socket.write_shut || socket.reset_at.is_some_and(|at| at <= now) {
            return Err(libc::EPIPE);
        }
        socket.peer.ok_or(libc::EPIPE)
    }

    /// Returns the bytes that a send takes at `now`.
    pub(crate) fn room(&mut self, object: u32, now: SimTime) -> Result<u32, i32> {
        let peer = self.receiver(object, now)?;
        let unread = self.sockets.get(&peer).filter(|end| !end.read_shut).map_or(0, |end| end.received_bytes);
        let room = WINDOW_BYTES.saturating_sub(unread);
        self.get_mut(object)?.lacks_room |= room == 0;
        Ok(room as u32)
    }

    pub(crate) fn send(&mut self, object: u32, bytes: &[u8], now: SimTime, path: Path, wakeups: &mut Wakeups) -> Result<usize, i32> {
        let peer = self.receiver(object, now)?;
        let Some(end) = self.sockets.get(&peer).filter(|end| !end.read_shut) else {
            return self.send_to_nobody(object, bytes.len(), now, path);
        };
        let len = bytes.len().min(WINDOW_BYTES.saturating_sub(end.received_bytes));
        if len < bytes.len() {
            self.get_mut(object)?.lacks_room = true;
        }
        if len == 0 && !bytes.is_empty() {
            return Err(libc::EAGAIN);
        }
        let Some(end) = self.sockets.get_mut(&peer) else { return Err(libc::EPIPE) };
        // The wire carries bytes in sequence at its rate, and they become visible when the last has
        // arrived.
        let start = end.last_visible.max(now + path.latency);
        let visible = start + SimDuration::of_bytes(len as u64, path.bytes_per_second);
        end.last_visible = visible;
        end.received_bytes += len;
        end.received.push_back(Chunk { visible, bytes: bytes[..len].iter().copied().collect() });
        wakeups.push((visible, peer, READABLE));
        Ok(len)
    }

    /// Accepts bytes for a closed peer, as TCP does. The peer's answer ends the connection a round
    /// trip later.
    fn send_to_nobody(&mut self, object: u32, len: usize, now: SimTime, path: Path) -> Result<usize, i32> {
        let socket = self.get_mut(object)?;
        socket.reset_at.get_or_insert(now + path.latency * 2);
        Ok(len)
    }

    /// Takes the visible bytes, or only copies them if `peek`. An empty result is the end of the
    /// stream.
    pub(crate) fn receive(
        &mut self,
        object: u32,
        len_max: usize,
        peek: bool,
        now: SimTime,
        path: Path,
        wakeups: &mut Wakeups,
    ) -> Result<Vec<u8>, i32> {
        self.outcome(object, now).map_err(|errno| if errno == libc::EINPROGRESS { libc::ENOTCONN } else { errno })?;
        let socket = self.get_mut(object)?;
        if socket.state != SocketState::Connected {
            return Err(libc::ENOTCONN);
        }
        let mut taken = Vec::new();
        let mut index = 0;
        while taken.len() < len_max && !socket.read_shut {
            let Some(chunk) = socket.received.get_mut(index) else { break };
            if chunk.visible > now {
                break;
            }
            let len = chunk.bytes.len().min(len_max - taken.len());
            if peek {
                taken.extend(chunk.bytes.iter().take(len));
                index += 1;
                continue;
            }
            taken.extend(chunk.bytes.drain(..len));
            if chunk.bytes.is_empty() {
                socket.received.pop_front();
            }
        }
        if !peek && !taken.is_empty() {
            socket.received_bytes -= taken.len();
            if let Some(peer) = socket.peer {
                wakeups.push((now + path.latency, peer, WRITABLE));
            }
        }
        let ended = socket.read_shut || (socket.received.is_empty() && socket.end_of_stream.is_some_and(|at| at <= now));
        if taken.is_empty() && len_max > 0 && !ended { Err(libc::EAGAIN) } else { Ok(taken) }
    }

    pub(crate) fn shutdown(&mut self, object: u32, how: u32, now: SimTime, path: Path, wakeups: &mut Wakeups) -> Result<(), i32> {
        let socket = self.get_mut(object)?;
        if !matches!(socket.state, SocketState::Connected | SocketState::Connecting) {
            return Err(libc::ENOTCONN);
        }
        socket.read_shut |= how == libc::SHUT_RD as u32 || how == libc::SHUT_RDWR as u32;
        if how == libc::SHUT_WR as u32 || how == libc::SHUT_RDWR as u32 {
            socket.write_shut = true;
            self.end_peer_stream(object, now, path, wakeups);
        }
        wakeups.push((now, object, ANY));
        Ok(())
    }

    fn end_peer_stream(&mut self, object: u32, now: SimTime, path: Path, wakeups: &mut Wakeups) {
        let Some(peer) = self.sockets.get(&object).and_then(|socket| socket.peer) else { return };
        if let Some(end) = self.sockets.get_mut(&peer)
            && end.end_of_stream.is_none()
        {
            let at = end.last_visible.max(now + path.latency);
            end.end_of_stream = Some(at);
            wakeups.push((at, peer, ANY));
        }
    }

    /// Closes a socket after its last reference has gone.
    pub(crate) fn close(&mut self, object: u32, now: SimTime, path: Path, wakeups: &mut Wakeups) {
        self.end_peer_stream(object, now, path, wakeups);
        let Some(socket) = self.sockets.remove(&object) else { return };
        if socket.state == SocketState::Listening {
            self.listeners.retain(|_, listener| *listener != object);
            for (_, server) in socket.backlog {
                self.close(server, now, path, wakeups);
            }
        }
    }

    /// Returns whether a send can proceed. Remembers a lack of room.
    fn takes_bytes(&mut self, object: u32) -> bool {
        let room = |peer: u32| self.sockets.get(&peer).is_none_or(|end| end.received_bytes < WINDOW_BYTES);
        let takes = self.sockets.get(&object).is_none_or(|socket| socket.write_shut || socket.peer.is_none_or(room));
        if let Some(socket) = self.sockets.get_mut(&object) {
            socket.lacks_room |= !takes;
        }
        takes
    }

    /// Returns whether new room is an edge: the program has seen that there was none.
    pub(crate) fn ends_lack_of_room(&mut self, object: u32) -> bool {
        let takes = self.takes_bytes(object);
        takes && self.sockets.get_mut(&object).is_some_and(|socket| std::mem::take(&mut socket.lacks_room))
    }

    /// Returns the readiness bits at `now`.
    pub(crate) fn readiness(&mut self, object: u32, now: SimTime) -> u32 {
        let _ = self.outcome(object, now);
        let Some(socket) = self.sockets.get(&object) else { return ERROR | HANG_UP };
        match socket.state {
            SocketState::New => WRITABLE | HANG_UP,
            SocketState::Listening => socket.backlog.front().map_or(0, |(at, _)| if *at <= now { READABLE } else { 0 }),
            SocketState::Seeking | SocketState::Connecting => 0,
            SocketState::Failed(_) => ANY,
            SocketState::Connected => {
                let ended = socket.read_shut || socket.end_of_stream.is_some_and(|at| at <= now);
                let readable = ended || socket.received.front().is_some_and(|chunk| chunk.visible <= now);
                let both_shut = ended && socket.write_shut;
                let writable = self.takes_bytes(object);
                u32::from(readable) * READABLE + u32::from(writable) * WRITABLE + u32::from(ended) * PEER_ENDED + u32::from(both_shut) * HANG_UP
            }
        }
    }
}

#[cfg(test)]
mod tests;
