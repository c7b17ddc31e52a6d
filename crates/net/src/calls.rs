//! Calls of programs: a type for each. [`Stack::call`] carries them out.

mod streams;

use crate::error::NetError;
use crate::interface::InterfaceId;
use crate::payload::Payload;
use crate::sdp::Role;
use crate::socket::Kind;
use crate::socket_id::{Family, Protocol, SocketId};
use crate::stack::{Call, Charge, OptionValues, Sealed, Stack};
use crate::tcp::{ConnectionInfo, SocketOptions, State};
use crate::udp::Received;
pub use crate::udp::{SourceChange, Way};
use softband_model::parts::CongestionControl;
use softband_sim::{SimDuration, SimTime};
use std::net::{IpAddr, SocketAddr};
use streams::{receive, send};

/// Least buffer of a socket in bytes, as Linux rounds a program's wish.
const BUFFER_BYTES_MIN: u32 = 2_304;

/// Least send buffer of a socket in bytes (SOCK_MIN_SNDBUF).
const SEND_BUFFER_BYTES_MIN: u32 = 2 * BUFFER_BYTES_MIN;

const SECOND: SimDuration = SimDuration::from_micros(1_000_000);

/// Returns the socket of a call that has one.
macro_rules! socket_of {
    ($call:ident, socket) => {
        Some($call.socket)
    };
    ($call:ident, $other:ident) => {
        None
    };
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty),* } -> $reply:ty = $run:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name { $($(#[$field_doc])* pub $field: $kind),* }
        impl Sealed for $name {}
        impl Call for $name {
            type Reply = $reply;
            fn socket(&self) -> Option<SocketId> {
                [$(socket_of!(self, $field)),*].into_iter().flatten().next()
            }
            fn run(self, stack: &mut Stack, now: SimTime) -> Result<$reply, NetError> {
                let run: fn(Self, &mut Stack, SimTime) -> Result<$reply, NetError> = $run;
                run(self, stack, now)
            }
        }
    )*};
}

calls! {
    /// `socket`: opens a socket.
    Open {
        /// Family of its addresses.
        family: Family,
        /// Protocol.
        protocol: Protocol
    } -> SocketId = |call, stack, _| Ok(stack.open(call.family, call.protocol));
    /// `bind`: gives the socket its local address. Port 0 means an ephemeral port.
    Bind {
        /// Socket.
        socket: SocketId,
        /// Local address.
        address: SocketAddr
    } -> () = |call, stack, _| stack.bind(call.socket, call.address);
    /// `listen`: makes the socket accept connections.
    Listen {
        /// Socket.
        socket: SocketId,
        /// Connections that may wait, at most the kernel's bound.
        backlog: u32
    } -> () = |call, stack, _| stack.listen(call.socket, call.backlog);
    /// `accept`: returns the oldest connection that waits, with the peer's address.
    Accept {
        /// Listening socket.
        socket: SocketId
    } -> (SocketId, SocketAddr) = |call, stack, _| stack.accept(call.socket);
    /// `connect`: begins a connection and fails with `InProgress`. A further call fails with
    /// `Already` until the handshake ends, then it returns its result. On a UDP socket it sets the
    /// peer.
    Connect {
        /// Socket.
        socket: SocketId,
        /// Address of the peer.
        to: SocketAddr
    } -> () = |call, stack, now| match stack.socket_mut(call.socket)?.protocol() {
        Protocol::Stream => stack.connect_stream(now, call.socket, call.to),
        Protocol::Datagram | Protocol::Echo => stack.connect_datagram(call.socket, Some(call.to)),
        Protocol::Sdp => stack.connect_sdp(now, call.socket, call.to),
    };
    /// `connect` with `AF_UNSPEC`: takes the peer from the socket, and resets a TCP connection.
    Disconnect {
        /// Socket.
        socket: SocketId
    } -> () = |call, stack, now| match stack.socket_mut(call.socket)?.protocol() {
        Protocol::Stream | Protocol::Sdp => stack.disconnect_stream(now, call.socket),
        Protocol::Datagram | Protocol::Echo => stack.connect_datagram(call.socket, None),
    };
    /// `send`: returns the number of bytes taken.
    Send {
        /// Socket.
        socket: SocketId,
        /// Data. The stack keeps references to its buffers, which must not change.
        payload: Payload,
        /// Whether the last byte is urgent (`MSG_OOB`).
        urgent: bool,
        /// Whether more data follows, so that a packet with room waits (`MSG_MORE`).
        more: bool
    } -> u32 = |call, stack, now| send(call, None, stack, now);
    /// A part of a `send` that waits until it is whole, so that SDP may send it without a copy.
    SendPart {
        /// Part.
        part: Send,
        /// Bytes of the call behind this part.
        rest: u32
    } -> u32 = |call, stack, now| send(call.part, Some(call.rest), stack, now);
    /// `sendto` on a UDP socket: returns the length of the datagram.
    SendTo {
        /// Socket.
        socket: SocketId,
        /// Datagram.
        payload: Payload,
        /// Destination, or `None` for the peer.
        to: Option<SocketAddr>
    } -> u32 = |call, stack, _| {
        stack.charge(Charge::Copied { bytes: call.payload.len() });
        stack.send_datagram(call.socket, call.payload, call.to, Way::default())
    };
    /// `sendmsg` on a UDP socket with control messages: returns the length of the datagram.
    SendMessage {
        /// Socket.
        socket: SocketId,
        /// Datagram.
        payload: Payload,
        /// Destination, or `None` for the peer.
        to: Option<SocketAddr>,
        /// Way that this datagram takes.
        way: Way
    } -> u32 = |call, stack, _| {
        stack.charge(Charge::Copied { bytes: call.payload.len() });
        stack.send_datagram(call.socket, call.payload, call.to, call.way)
    };
    /// `recv` on a stream: returns an empty payload at its end.
    Receive {
        /// Socket.
        socket: SocketId,
        /// Most bytes.
        most: u32,
        /// Whether the data stays in the queue (`MSG_PEEK`).
        peek: bool
    } -> Payload = |call, stack, now| receive(call, 0, stack, now);
    /// A part of a `recv` on a stream, which SDP may fill without a copy.
    ReceivePart {
        /// Part.
        part: Receive,
        /// Bytes that the call wants behind this part.
        rest: u32
    } -> Payload = |call, stack, now| receive(call.part, call.rest, stack, now);
    /// `recv` with `MSG_OOB`: returns the urgent byte.
    ReceiveUrgent {
        /// Socket.
        socket: SocketId,
        /// Whether the byte stays (`MSG_PEEK`).
        peek: bool
    } -> u8 = |call, stack, _| match stack.socket_mut(call.socket)?.protocol() {
        Protocol::Sdp => stack.receive_urgent_sdp(call.socket, call.peek),
        _ => stack.socket_mut(call.socket)?.connection()?.receive_urgent(call.peek),
    };
    /// `recvfrom` on a UDP socket: returns the oldest datagram.
    ReceiveFrom {
        /// Socket.
        socket: SocketId,
        /// Most bytes; the rest of the datagram is lost.
        most: u32,
        /// Whether the datagram stays in the queue (`MSG_PEEK`).
        peek: bool
    } -> Received = |call, stack, _| {
        let socket = stack.socket_mut(call.socket)?;
        let mut received = socket.datagram()?.receive(call.most, call.peek)?;
        (received.from, received.to) = (socket.shown(received.from), socket.shown_ip(received.to));
        stack.charge(Charge::Copied { bytes: received.payload.len() });
        Ok(received)
    };
    /// `shutdown`: ends a direction, or both.
    Shutdown {
        /// Socket.
        socket: SocketId,
        /// Whether the program reads no more.
        receive: bool,
        /// Whether the program writes no more.
        send: bool
    } -> () = |call, stack, now| stack.shut(now, call.socket, call.receive, call.send);
    /// `close`: the identifier ends, and the connection ends in the background.
    Close {
        /// Socket.
        socket: SocketId
    } -> () = |call, stack, now| stack.close(now, call.socket);
    /// `SO_ERROR`: fails with the pending error, which it clears.
    TakeError {
        /// Socket.
        socket: SocketId
    } -> () = |call, stack, _| match &mut stack.socket_mut(call.socket)?.kind {
        Kind::Connection(connection) => connection.take_error(),
        Kind::Datagram(datagram) => datagram.take_error(),
        Kind::Sdp(Role::Connection(connection)) => connection.take_error(),
        Kind::Idle | Kind::Listener(_) | Kind::Sdp(_) => Ok(()),
    };
    /// `getsockname`: returns the local address, unspecified before `bind`.
    LocalAddress {
        /// Socket.
        socket: SocketId
    } -> SocketAddr = |call, stack, _| {
        let socket = stack.socket_mut(call.socket)?;
        let bound = socket.bound.unwrap_or(SocketAddr::new(socket.family.unspecified(), 0));
        Ok(socket.shown(bound))
    };
    /// `getpeername`: returns the peer's address.
    PeerAddress {
        /// Socket.
        socket: SocketId
    } -> SocketAddr = |call, stack, _| {
        let socket = stack.socket_mut(call.socket)?;
        let peer = match &socket.kind {
            // Linux: no peer before the answer to SYN, and none after the end.
            Kind::Connection(connection) if matches!(connection.state(), State::SynSent | State::Closed | State::TimeWait) => None,
            Kind::Connection(connection) => Some(connection.remote()),
            Kind::Datagram(datagram) => datagram.peer,
            Kind::Sdp(Role::Connection(connection)) => connection.peer(),
            Kind::Idle | Kind::Listener(_) | Kind::Sdp(_) => None,
        };
        peer.map(|peer| socket.shown(peer)).ok_or(NetError::NotConnected)
    };
    /// Makes a TCP socket without a connection one of SDP, as `libsdp` does.
    UseSdp {
        /// Socket.
        socket: SocketId
    } -> () = |call, stack, _| stack.use_sdp(call.socket);
    /// Opens a socket of SDP with the address and the options of a listening TCP socket, as `libsdp`
    /// does for programs that take both. Returns the new socket, which listens.
    ListenBeside {
        /// Listening TCP socket.
        socket: SocketId,
        /// Connections that may wait, at most the kernel's bound.
        backlog: u32
    } -> SocketId = |call, stack, _| stack.listen_beside(call.socket, call.backlog);
    /// `getsockopt`: returns the values of all options.
    Options {
        /// Socket.
        socket: SocketId
    } -> OptionValues = |call, stack, _| stack.option_values(call.socket);
    /// `setsockopt`.
    SetOption {
        /// Socket.
        socket: SocketId,
        /// Option with its value.
        option: SocketOption
    } -> () = |call, stack, now| set_option(stack, now, call.socket, call.option);
    /// `SIOCATMARK`: returns whether the next byte to read is the urgent one.
    AtMark {
        /// Socket.
        socket: SocketId
    } -> bool = |call, stack, _| {
        let socket = stack.socket_mut(call.socket)?;
        match socket.protocol() {
            Protocol::Sdp => Ok(socket.sdp()?.is_at_mark()),
            _ => Ok(socket.connection()?.is_at_mark()),
        }
    };
    /// `TCP_INFO`: returns the numbers of a connection.
    Info {
        /// Socket.
        socket: SocketId
    } -> ConnectionInfo = |call, stack, _| {
        let socket = stack.socket_mut(call.socket)?;
        match socket.protocol() {
            Protocol::Sdp => stack.sdp_info(call.socket),
            _ => Ok(socket.connection()?.info()),
        }
    };
    /// Returns the datagrams or connections that full queues of the socket dropped.
    Drops {
        /// Socket.
        socket: SocketId
    } -> u64 = |call, stack, _| match &stack.socket_mut(call.socket)?.kind {
        Kind::Listener(listener) => Ok(listener.overflows()),
        Kind::Datagram(datagram) => Ok(datagram.drops()),
        Kind::Sdp(Role::Listener(listener)) => Ok(listener.overflows()),
        Kind::Idle | Kind::Connection(_) | Kind::Sdp(_) => Ok(0),
    };
    /// Returns the half-open connections of a listening socket.
    HalfOpen {
        /// Socket.
        socket: SocketId
    } -> usize = |call, stack, _| match &stack.socket_mut(call.socket)?.kind {
        Kind::Listener(listener) => Ok(listener.half_open()),
        _ => Err(NetError::Invalid),
    };
    /// `FIONREAD`: returns the bytes that the next read of all data would return.
    Unread {
        /// Socket.
        socket: SocketId
    } -> u64 = |call, stack, _| match &stack.socket_mut(call.socket)?.kind {
        Kind::Connection(connection) => Ok(connection.info().unread_bytes),
        Kind::Datagram(datagram) => Ok(u64::from(datagram.unread_bytes())),
        Kind::Sdp(Role::Connection(connection)) => Ok(connection.unread_bytes()),
        Kind::Idle | Kind::Listener(_) | Kind::Sdp(_) => Ok(0),
    };
}

/// Option of a socket with its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SocketOption {
    /// `SO_REUSEADDR`.
    ReuseAddress(bool),
    /// `SO_REUSEPORT`.
    ReusePort(bool),
    /// `SO_SNDBUF` in bytes as the program writes it; the kernel doubles it.
    SendBuffer(u32),
    /// `SO_RCVBUF` in bytes as the program writes it; the kernel doubles it.
    ReceiveBuffer(u32),
    /// `SO_LINGER`: the time that `close` may take, or `None` for the background.
    Linger(Option<SimDuration>),
    /// `SO_OOBINLINE`.
    UrgentInline(bool),
    /// `SO_KEEPALIVE`.
    KeepAlive(bool),
    /// `TCP_KEEPIDLE`: 1 s to 32,767 s.
    KeepAliveIdle(SimDuration),
    /// `TCP_KEEPINTVL`: 1 s to 32,767 s.
    KeepAliveInterval(SimDuration),
    /// `TCP_KEEPCNT`: 1 to 127.
    KeepAliveProbes(u32),
    /// `TCP_NODELAY`.
    NoDelay(bool),
    /// `TCP_CORK`.
    Cork(bool),
    /// `TCP_USER_TIMEOUT`; zero means the kernel's.
    UserTimeout(SimDuration),
    /// `TCP_MAXSEG`: 88 B to 32,767 B, or 0 for the interface's.
    SegmentMax(u32),
    /// `TCP_CONGESTION`, before `connect`.
    Congestion(CongestionControl),
    /// `SO_BROADCAST`.
    Broadcast(bool),
    /// `IPV6_V6ONLY`, before `bind`. Linux's default is off.
    V6Only(bool),
    /// `SO_BINDTODEVICE`: the interface of all packets, or `None` for that of the route.
    Device(Option<InterfaceId>),
    /// `IP_TTL` and `IPV6_UNICAST_HOPS`: 1 to 255, or `None` for the kernel's.
    HopLimit(Option<u8>),
    /// `IP_MULTICAST_LOOP`.
    MulticastLoop(bool),
    /// `IP_MULTICAST_ALL`: whether the socket hears groups that only other sockets joined. Linux's
    /// default is on.
    MulticastAll(bool),
    /// `IP_MULTICAST_IF`: the interface of datagrams to groups, or `None` for that of the route.
    MulticastInterface(Option<InterfaceId>),
    /// `IP_MULTICAST_TTL`: 1 by default. 0 keeps datagrams to groups on the host.
    MulticastHopLimit(u8),
    /// `IP_ADD_MEMBERSHIP`.
    Join {
        /// Group.
        group: IpAddr,
        /// Interface, or `None` for that of the route.
        interface: Option<InterfaceId>,
    },
    /// Changes the sources of a group.
    Source {
        /// Change.
        change: SourceChange,
        /// Group.
        group: IpAddr,
        /// Source.
        source: IpAddr,
        /// Interface, or `None` for that of the route.
        interface: Option<InterfaceId>,
    },
    /// `IP_DROP_MEMBERSHIP`.
    Leave {
        /// Group.
        group: IpAddr,
        /// Interface, or `None` for the first on which the socket joined.
        interface: Option<InterfaceId>,
    },
}

fn set_option(stack: &mut Stack, now: SimTime, id: SocketId, option: SocketOption) -> Result<(), NetError> {
    let most = stack.kernel().datagram_buffer.max_bytes;
    let buffer = |bytes: u32| bytes.min(most).saturating_mul(2).max(BUFFER_BYTES_MIN);
    let socket = stack.socket_mut(id)?;
    match option {
        SocketOption::ReuseAddress(on) => socket.reuse_address = on,
        SocketOption::ReusePort(on) => socket.reuse_port = on,
        // Linux keeps both for all sockets, although only datagrams have a use for them.
        SocketOption::Broadcast(on) => drop(socket.datagram().map(|datagram| datagram.may_broadcast = on)),
        SocketOption::V6Only(_) if socket.family == Family::V4 || socket.bound.is_some() => return Err(NetError::Invalid),
        SocketOption::V6Only(on) => socket.v6_only = on,
        SocketOption::HopLimit(Some(0)) => return Err(NetError::Invalid),
        SocketOption::HopLimit(limit) => socket.hop_limit = limit,
        SocketOption::Device(device) => socket.device = device,
        SocketOption::MulticastLoop(on) => socket.datagram()?.multicast_loop = on,
        SocketOption::MulticastAll(on) => socket.datagram()?.hears_all_groups = on,
        SocketOption::MulticastHopLimit(limit) => socket.datagram()?.multicast_hop_limit = limit,
        SocketOption::MulticastInterface(interface) => stack.set_multicast_interface(id, interface)?,
        SocketOption::Join { group, interface } => stack.change_membership(id, group, interface, true)?,
        SocketOption::Leave { group, interface } => stack.change_membership(id, group, interface, false)?,
        SocketOption::Source { change, group, source, interface } => stack.change_source(id, change, (group, source), interface)?,
        SocketOption::ReceiveBuffer(bytes) if socket.protocol().has_messages() => socket.datagram()?.set_buffer(buffer(bytes)),
        SocketOption::SendBuffer(bytes) if socket.protocol().has_messages() => {
            let events = socket.datagram()?.set_send_buffer(buffer(bytes).max(SEND_BUFFER_BYTES_MIN));
            stack.ready(id, events);
        }
        SocketOption::Linger(_) if socket.protocol().has_messages() => {}
        _ if socket.protocol().has_messages() => return Err(NetError::Unsupported),
        _ => {
            check_stream(&option)?;
            let change = |options: &mut SocketOptions| change_stream(options, option, buffer);
            match &mut socket.options {
                Some(options) => {
                    change(options);
                    stack.sdp_options_changed(now, id, matches!(option, SocketOption::SendBuffer(_)));
                }
                None => {
                    stack.with_connection(now, id, |connection, cx| connection.set_options(change, cx));
                }
            }
        }
    }
    Ok(())
}

/// Refuses values that Linux refuses (tcp(7)).
fn check_stream(option: &SocketOption) -> Result<(), NetError> {
    let is_time = |span: &SimDuration| (SECOND..=SECOND * 32_767).contains(span);
    let is_possible = match option {
        SocketOption::KeepAliveIdle(span) | SocketOption::KeepAliveInterval(span) => is_time(span),
        SocketOption::KeepAliveProbes(count) => (1..=127).contains(count),
        // Zero takes the limit away.
        SocketOption::SegmentMax(bytes) => *bytes == 0 || (88..=32_767).contains(bytes),
        _ => true,
    };
    if is_possible { Ok(()) } else { Err(NetError::Invalid) }
}

fn change_stream(options: &mut SocketOptions, option: SocketOption, buffer: impl Fn(u32) -> u32) {
    match option {
        SocketOption::SendBuffer(bytes) => options.send_buffer = Some(buffer(bytes).max(SEND_BUFFER_BYTES_MIN)),
        SocketOption::ReceiveBuffer(bytes) => options.receive_buffer = Some(buffer(bytes)),
        SocketOption::Linger(linger) => options.linger = linger,
        SocketOption::UrgentInline(on) => options.urgent_inline = on,
        SocketOption::KeepAlive(on) => options.keep_alive = on,
        SocketOption::KeepAliveIdle(span) => options.keepalive_idle = span,
        SocketOption::KeepAliveInterval(span) => options.keepalive_interval = span,
        SocketOption::KeepAliveProbes(count) => options.keepalive_probes = count,
        SocketOption::NoDelay(on) => options.no_delay = on,
        SocketOption::Cork(on) => options.cork = on,
        SocketOption::UserTimeout(span) => options.user_timeout = span,
        SocketOption::SegmentMax(bytes) => options.mss_max = if bytes == 0 { u32::MAX } else { bytes },
        SocketOption::Congestion(control) => options.congestion = control,
        SocketOption::ReuseAddress(_)
        | SocketOption::ReusePort(_)
        | SocketOption::Broadcast(_)
        | SocketOption::V6Only(_)
        | SocketOption::Device(_)
        | SocketOption::HopLimit(_)
        | SocketOption::MulticastLoop(_)
        | SocketOption::MulticastAll(_)
        | SocketOption::MulticastInterface(_)
        | SocketOption::MulticastHopLimit(_)
        | SocketOption::Join { .. }
        | SocketOption::Source { .. }
        | SocketOption::Leave { .. } => {}
    }
}
