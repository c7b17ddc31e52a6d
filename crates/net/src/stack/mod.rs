//! The stack of a host: sockets, interfaces, routes and timers.

mod datagram;
mod deliver;
mod disconnect;
mod echo;
mod forward;
mod fragments;
mod groups;
mod listing;
mod neighbours;
mod path_mtu;
mod ports;
mod questions;
mod sdp;
mod sources;
mod stream;
mod transmit;

use crate::error::NetError;
use crate::events::Events;
use crate::frame::{Frame, LinkDestination};
use crate::interface::{Interface, InterfaceAddress, InterfaceConfig, InterfaceCounters, InterfaceId};
use crate::neighbour::Neighbours;
use crate::packet::Packet;
use crate::route::{Route, Routes};
use crate::scope;
use crate::sdp::{Order, Role};
use crate::socket::{Kind, Socket};
use crate::socket_id::SocketId;
use crate::tcp::{Remains, Secret};
use fragments::{FragmentKey, Fragments};
pub use listing::{ListPlace, Listed, SocketDescription};
use path_mtu::PathMtus;
use ports::Ports;
pub use questions::OptionValues;
use softband_model::parts::KernelPart;
use softband_sim::{RandomStream, SimDuration, SimTime};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Least time between two runs of a socket's timers.
const TIMER_STEP: SimDuration = SimDuration::from_micros(1);

/// MTU of `lo` in bytes.
const LOOPBACK_MTU_BYTES: u32 = 65_536;

/// Cost of the kernel, which the host part prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// A call of a program.
    Call,
    /// Bytes that a call copied between the program and the kernel.
    Copied {
        /// Number of bytes.
        bytes: u32,
    },
    /// Bytes of a program whose pages the kernel pins for the HCA.
    Pinned {
        /// Number of bytes.
        bytes: u32,
    },
    /// A frame that goes to an interface's ring, as one piece.
    Sent {
        /// Interface.
        interface: InterfaceId,
        /// Packets that it becomes.
        packets: u32,
    },
    /// A frame of an interface.
    Received {
        /// Interface.
        interface: InterfaceId,
        /// Packets that it stands for.
        packets: u32,
    },
}

/// Effect of an entry of the stack.
#[derive(Clone, Debug)]
pub enum Effect {
    /// The frame goes to the ring of the interface. [`Stack::tx_done`] must follow.
    Transmit {
        /// Interface.
        interface: InterfaceId,
        /// Receiver on the link.
        to: LinkDestination,
        /// Content.
        frame: Frame,
    },
    /// [`Stack::timer`] must be called then. A later effect of this kind replaces this one.
    SetTimer(SimTime),
    /// A socket has news. Its whole state is [`Stack::readiness`].
    Ready {
        /// Socket.
        socket: SocketId,
        /// News.
        events: Events,
    },
    /// A connection of SDP needs its queue pair on this interface.
    Sdp {
        /// Socket of the connection.
        socket: SocketId,
        /// Interface.
        interface: InterfaceId,
        /// Request.
        order: Order,
    },
    /// The kernel worked.
    Charge(Charge),
    /// The interface must receive frames to the group: the host or its first socket joined. `lo` has no
    /// link that must know.
    Join {
        /// Interface.
        interface: InterfaceId,
        /// Group.
        group: IpAddr,
    },
    /// The interface needs no more frames to the group: its last socket left.
    Leave {
        /// Interface.
        interface: InterfaceId,
        /// Group.
        group: IpAddr,
    },
}

/// Local and remote address of a connection.
pub(crate) type Addresses = (SocketAddr, SocketAddr);

/// Owner of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TimerOf {
    Socket(SocketId),
    TimeWait(Addresses),
    Neighbour(InterfaceId, IpAddr),
    Fragments(FragmentKey),
}

/// Mark of the calls of this crate.
pub trait Sealed {}

/// Call of a program with its reply.
pub trait Call: Sealed {
    /// Result of the call.
    type Reply;
    #[doc(hidden)]
    fn socket(&self) -> Option<SocketId>;
    #[doc(hidden)]
    fn run(self, stack: &mut Stack, now: SimTime) -> Result<Self::Reply, NetError>;
}

/// TCP/IP of one host.
#[derive(Debug)]
pub struct Stack {
    kernel: KernelPart,
    /// Time of the current entry.
    now: SimTime,
    random: RandomStream,
    /// Secret of SYN cookies.
    cookie_secret: Secret,
    neighbours: Neighbours,
    interfaces: Vec<Interface>,
    routes: Routes,
    sockets: BTreeMap<SocketId, Socket>,
    next_socket: u64,
    connections: BTreeMap<Addresses, SocketId>,
    time_wait: BTreeMap<Addresses, (Remains, SimTime)>,
    ports: Ports,
    timers: BTreeSet<(SimTime, TimerOf)>,
    /// Time under which a socket stands in `timers`, which its deadline may have left behind.
    queued: BTreeMap<SocketId, SimTime>,
    set: Option<SimTime>,
    loopback: VecDeque<Packet>,
    fragments: Fragments,
    path_mtus: PathMtus,
    /// Whether the host forwards packets for others.
    forwards: bool,
    /// Keys of the memory of SDP, by interface that offers SDP.
    sdp_keys: BTreeMap<InterfaceId, u32>,
    /// Closed sockets whose connections still end.
    orphans: u32,
    /// Bytes that all connections keep.
    tcp_memory: u64,
    /// Connections whose programs wait for memory.
    starved: BTreeSet<SocketId>,
    effects: VecDeque<Effect>,
}

impl Stack {
    /// Returns the stack of a host with `lo` alone. `seed` chooses ports and first numbers.
    pub fn new(kernel: KernelPart, seed: u64) -> Self {
        let mut secrets = RandomStream::new(seed, 1);
        let mut stack = Self {
            kernel,
            now: SimTime::ZERO,
            random: RandomStream::new(seed, 0),
            cookie_secret: [secrets.next_u64(), secrets.next_u64()],
            neighbours: Neighbours::default(),
            interfaces: Vec::new(),
            routes: Routes::default(),
            sockets: BTreeMap::new(),
            next_socket: 0,
            connections: BTreeMap::new(),
            time_wait: BTreeMap::new(),
            ports: Ports::default(),
            timers: BTreeSet::new(),
            queued: BTreeMap::new(),
            set: None,
            loopback: VecDeque::new(),
            fragments: Fragments::new(seed as u32),
            path_mtus: PathMtus::default(),
            forwards: false,
            sdp_keys: BTreeMap::new(),
            orphans: 0,
            tcp_memory: 0,
            starved: BTreeSet::new(),
            effects: VecDeque::new(),
        };
        let addresses = vec![
            InterfaceAddress { address: Ipv4Addr::LOCALHOST.into(), prefix: 8 },
            InterfaceAddress { address: Ipv6Addr::LOCALHOST.into(), prefix: 128 },
        ];
        stack.add_interface(InterfaceConfig {
            name: "lo".into(),
            mtu_bytes: LOOPBACK_MTU_BYTES,
            addresses,
            link_address: None,
            has_segmentation: true,
            ring_packets: 1,
            queue_packets: 1,
        });
        stack
    }

    /// Adds an interface, with a route to the subnet of each of its addresses.
    /// It joins the groups that each host has.
    pub fn add_interface(&mut self, mut config: InterfaceConfig) -> InterfaceId {
        let interface = InterfaceId(self.interfaces.len() as u32);
        for own in &mut config.addresses {
            own.address = scope::on_link(own.address, interface);
        }
        for InterfaceAddress { address, prefix } in config.addresses.iter().copied() {
            let route = Route { network: address, prefix, gateway: None, interface, source: Some(address), metric: 0 };
            self.routes.add(route);
        }
        self.interfaces.push(Interface::new(config));
        self.join_groups_of_all(interface);
        interface
    }

    /// Limits the packets of a super-segment to those for which the card of an interface has room.
    pub fn limit_super_segments(&mut self, interface: InterfaceId, packets: u32) {
        if let Some(at) = self.interfaces.get_mut(interface.0 as usize) {
            at.super_segment_packets = packets.max(1);
        }
    }

    /// Adds a route.
    pub fn add_route(&mut self, route: Route) {
        self.routes.add(route);
    }
    /// Returns the routes, the most specific first.
    pub fn routes(&self) -> &[Route] {
        self.routes.all()
    }
    /// Returns the interfaces with their counters. The first is `lo`. Link-local addresses hold the
    /// number of their interface.
    pub fn interfaces(&self) -> impl Iterator<Item = (InterfaceId, &InterfaceConfig, InterfaceCounters)> {
        self.interfaces.iter().enumerate().map(|(index, interface)| (InterfaceId(index as u32), &interface.config, interface.counters))
    }
    /// Returns the kernel of the host.
    pub fn kernel(&self) -> &KernelPart {
        &self.kernel
    }
    /// Returns the kernel of the host, to change its settings. Sockets keep the defaults of their
    /// creation.
    pub fn kernel_mut(&mut self) -> &mut KernelPart {
        &mut self.kernel
    }

    /// Carries out a program's call at `now`. The reply and the failure belong to the call.
    pub fn call<C: Call>(&mut self, now: SimTime, call: C) -> Result<C::Reply, NetError> {
        self.now = now;
        self.charge(Charge::Call);
        let is_closed = call.socket().is_some_and(|socket| self.is_closed(socket));
        let reply = if is_closed { Err(NetError::BadSocket) } else { call.run(self, now) };
        self.settle(now);
        reply
    }

    /// Takes a frame that an interface received.
    pub fn packet_in(&mut self, now: SimTime, interface: InterfaceId, frame: Frame) {
        self.now = now;
        self.frame_in(now, interface, frame);
        self.settle(now);
    }

    /// Runs the timers that are due. A call before their time does nothing.
    pub fn timer(&mut self, now: SimTime) {
        self.now = now;
        self.set = self.set.filter(|at| *at > now);
        while let Some((at, of)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, of));
            match of {
                TimerOf::Socket(socket) => {
                    self.queued.remove(&socket);
                    self.socket_timer(now, socket);
                    self.set_timer_of(socket);
                }
                TimerOf::TimeWait(addresses) => self.end_time_wait(addresses),
                TimerOf::Fragments(key) => self.fragments_expired(key),
                TimerOf::Neighbour(interface, address) => self.neighbour_timer((interface, address)),
            }
        }
        self.settle(now);
    }

    /// Notes that an interface has sent the oldest frame of its ring.
    pub fn tx_done(&mut self, now: SimTime, interface: InterfaceId) {
        self.frame_done(now, interface, None);
    }

    /// Notes that an interface has sent a frame of its ring. `frame` counts its
    /// [`Effect::Transmit`] from 0. Rings of several connections do not keep the order.
    pub fn tx_done_of(&mut self, now: SimTime, interface: InterfaceId, frame: u64) {
        self.frame_done(now, interface, Some(frame));
    }

    fn frame_done(&mut self, now: SimTime, interface: InterfaceId, frame: Option<u64>) {
        self.now = now;
        let Some(owner) = self.interfaces.get_mut(interface.0 as usize).map(|at| at.complete(frame)) else { return };
        self.fill_ring(interface);
        if let Some(owner) = owner {
            let left = self.with_connection(now, owner.socket, |connection, cx| connection.bytes_left_host(owner.bytes, cx));
            if left.is_none() {
                self.lose(Some(owner));
            }
        }
        self.settle(now);
    }

    /// Returns the next effect of the entries so far.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Returns the state of a socket as `poll` shows it, or no event if there is no such socket.
    pub fn readiness(&self, socket: SocketId) -> Events {
        match self.sockets.get(&socket).map(|socket| &socket.kind) {
            Some(Kind::Connection(connection)) => connection.readiness(),
            Some(Kind::Listener(listener)) => Events::READABLE.when(listener.has_ready()),
            Some(Kind::Datagram(datagram)) => datagram.readiness(),
            Some(Kind::Sdp(_)) => self.sdp_readiness(socket),
            Some(Kind::Idle) => Events::WRITABLE | Events::HANG_UP,
            None => Events::NONE,
        }
    }

    /// Returns the number of sockets, with closed ones that still talk to their peers.
    pub fn sockets(&self) -> usize {
        self.sockets.len()
    }
    /// Returns whether `close` of the socket waits, by `SO_LINGER`, until [`Events::LINGERED`].
    pub fn lingers(&self, socket: SocketId) -> bool {
        match self.sockets.get(&socket).map(|socket| &socket.kind) {
            Some(Kind::Connection(connection)) => connection.lingers(),
            Some(Kind::Sdp(Role::Connection(connection))) => connection.lingers(),
            _ => false,
        }
    }
    /// Returns the number of closed sockets whose connections still end.
    pub fn orphans(&self) -> u32 {
        self.orphans
    }
    /// Returns the bytes that all TCP connections keep.
    pub fn tcp_memory_bytes(&self) -> u64 {
        self.tcp_memory
    }
    /// Returns the number of connections in TIME_WAIT.
    pub fn time_waits(&self) -> usize {
        self.time_wait.len()
    }

    pub(crate) fn charge(&mut self, charge: Charge) {
        self.effects.push_back(Effect::Charge(charge));
    }

    pub(crate) fn ready(&mut self, socket: SocketId, events: Events) {
        if !events.is_empty() {
            self.effects.push_back(Effect::Ready { socket, events });
        }
    }

    pub(crate) fn socket_mut(&mut self, socket: SocketId) -> Result<&mut Socket, NetError> {
        self.sockets.get_mut(&socket).ok_or(NetError::BadSocket)
    }

    /// Delivers what the host sent to itself, then states the time of the next timer.
    fn settle(&mut self, now: SimTime) {
        while let Some(packet) = self.loopback.pop_front() {
            self.frame_in(now, InterfaceId(0), Frame::Packet(packet));
        }
        self.feed_starved(now);
        let next = self.timers.first().map(|(at, _)| *at);
        if let Some(at) = next
            && self.set.is_none_or(|set| at < set)
        {
            self.set = Some(at);
            self.effects.push_back(Effect::SetTimer(at));
        }
    }

    /// Queues the socket's deadline, unless it stands under an earlier time already.
    fn set_timer_of(&mut self, id: SocketId) {
        let deadline = match self.sockets.get(&id).map(|socket| &socket.kind) {
            Some(Kind::Connection(connection)) => connection.deadline(),
            Some(Kind::Listener(listener)) => listener.deadline(),
            Some(Kind::Sdp(Role::Connection(connection))) => connection.deadline(),
            _ => None,
        };
        let queued = self.queued.get(&id).copied();
        // A deadline that has passed already must not hold time: its timer runs a moment later.
        let soon = self.now.saturating_add(TIMER_STEP);
        if let Some(at) = deadline.map(|at| if at > self.now { at } else { soon })
            && queued.is_none_or(|queued| at < queued)
        {
            if let Some(queued) = queued {
                self.timers.remove(&(queued, TimerOf::Socket(id)));
            }
            self.timers.insert((at, TimerOf::Socket(id)));
            self.queued.insert(id, at);
        }
    }
}
