//! UDP sockets (RFC 768).

use crate::error::NetError;
use crate::events::Events;
use crate::interface::InterfaceId;
use crate::payload::Payload;
use softband_sim::SimTime;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// Memory of a datagram in the queue beyond its payload, which Linux counts against the buffer.
const OVERHEAD_BYTES: u64 = 768;

/// Datagram with its source.
#[derive(Clone, Debug)]
pub struct Received {
    /// Source address.
    pub from: SocketAddr,
    /// Destination address.
    pub to: IpAddr,
    /// Payload.
    pub payload: Payload,
    /// Interface on which it arrived.
    pub interface: InterfaceId,
    /// Hops that were left to it (TTL).
    pub hop_limit: u8,
    /// Length of the whole datagram. The payload may be a part.
    pub len_bytes: u32,
    /// Time of arrival.
    pub arrived_at: SimTime,
}

/// Way of one datagram, by control messages (`IP_PKTINFO`, `IPV6_PKTINFO`, `IP_TTL`). Fields without
/// a value mean that of the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Interface.
    pub interface: Option<InterfaceId>,
    /// Source address.
    pub source: Option<IpAddr>,
    /// Hop limit.
    pub hop_limit: Option<u8>,
}

/// Change of the sources of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceChange {
    /// `IP_ADD_SOURCE_MEMBERSHIP`: hear this one, too. Others of the group are silent.
    Add,
    /// `IP_DROP_SOURCE_MEMBERSHIP`.
    Drop,
    /// `IP_BLOCK_SOURCE`: hear all but this one.
    Block,
    /// `IP_UNBLOCK_SOURCE`.
    Unblock,
}

/// Sources of a group that a socket hears, or those that it does not hear.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) includes: bool,
    pub(crate) sources: BTreeSet<IpAddr>,
}

impl Filter {
    /// Returns whether a datagram of the source passes.
    pub(crate) fn passes(&self, source: IpAddr) -> bool {
        self.includes == self.sources.contains(&source)
    }
}

/// State of a UDP socket.
#[derive(Debug)]
pub(crate) struct DatagramSocket {
    /// The socket sends and receives ICMP echoes, not UDP.
    pub(crate) is_echo: bool,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) groups: BTreeSet<(InterfaceId, IpAddr)>,
    /// Sources of those groups that it does not hear from all.
    pub(crate) filters: BTreeMap<(InterfaceId, IpAddr), Filter>,
    /// The socket hears groups of its interfaces that it did not join (`IP_MULTICAST_ALL`).
    pub(crate) hears_all_groups: bool,
    pub(crate) multicast_loop: bool,
    pub(crate) multicast_interface: Option<InterfaceId>,
    pub(crate) may_broadcast: bool,
    pub(crate) multicast_hop_limit: u8,
    queue: VecDeque<Received>,
    queued: u64,
    buffer: u32,
    drops: u64,
    error: Option<NetError>,
    is_shut: bool,
    is_send_shut: bool,
    /// Bytes in the queues of interfaces, and their bound.
    below: u64,
    send_buffer: u32,
    /// The buffer was too full for a poll to call it writable, and no event said otherwise since.
    was_full: bool,
}

impl DatagramSocket {
    pub(crate) fn new(buffer: u32, is_echo: bool) -> Self {
        Self {
            is_echo,
            peer: None,
            groups: BTreeSet::new(),
            filters: BTreeMap::new(),
            hears_all_groups: true,
            multicast_loop: true,
            multicast_interface: None,
            may_broadcast: false,
            multicast_hop_limit: 1,
            queue: VecDeque::new(),
            queued: 0,
            buffer,
            drops: 0,
            error: None,
            is_shut: false,
            is_send_shut: false,
            below: 0,
            send_buffer: buffer,
            was_full: false,
        }
    }

    /// Queues a datagram. Returns the events, or none if the queue is full.
    pub(crate) fn push(&mut self, datagram: Received) -> Events {
        let bytes = u64::from(datagram.payload.len()) + OVERHEAD_BYTES;
        // Linux: a datagram enters as long as the queue has not reached the buffer's size.
        if self.queued >= u64::from(self.buffer) {
            self.drops += 1;
            return Events::NONE;
        }
        self.queued += bytes;
        self.queue.push_back(datagram);
        Events::READABLE
    }

    /// Reads a datagram, at most `most` bytes of it.
    pub(crate) fn receive(&mut self, most: u32, peek: bool) -> Result<Received, NetError> {
        self.take_error()?;
        let Some(first) = self.queue.front() else {
            let shut = Received {
                from: SocketAddr::from(([0, 0, 0, 0], 0)),
                to: IpAddr::from([0, 0, 0, 0]),
                payload: Payload::empty(),
                interface: InterfaceId(0),
                hop_limit: 0,
                len_bytes: 0,
                arrived_at: SimTime::ZERO,
            };
            return if self.is_shut { Ok(shut) } else { Err(NetError::WouldBlock) };
        };
        let mut datagram = first.clone();
        datagram.payload = datagram.payload.part(0, most);
        if !peek && let Some(gone) = self.queue.pop_front() {
            self.queued -= u64::from(gone.payload.len()) + OVERHEAD_BYTES;
        }
        Ok(datagram)
    }

    pub(crate) fn take_error(&mut self) -> Result<(), NetError> {
        self.error.take().map_or(Ok(()), Err)
    }
    /// Notes an ICMP error, which only a connected socket hears.
    pub(crate) fn fail(&mut self, error: NetError) -> Events {
        if self.peer.is_none() {
            return Events::NONE;
        }
        self.error = Some(error);
        Events::ERROR | Events::READABLE | Events::WRITABLE
    }
    /// Ends directions of the socket. Returns the events.
    pub(crate) fn shut(&mut self, receive: bool, send: bool) -> Events {
        (self.is_shut, self.is_send_shut) = (self.is_shut || receive, self.is_send_shut || send);
        self.readiness() & (Events::READABLE | Events::READ_CLOSED | Events::WRITABLE | Events::HANG_UP)
    }
    /// Fails with `Broken` after the program ended the sending direction.
    pub(crate) fn check_send(&mut self) -> Result<(), NetError> {
        self.take_error()?;
        if self.is_send_shut { Err(NetError::Broken) } else { Ok(()) }
    }
    /// Charges a datagram that is about to leave to the socket. Returns its bytes, which
    /// [`Self::left_host`] gives back. Fails with `WouldBlock` if the buffer is full.
    pub(crate) fn charge(&mut self, payload_bytes: u32) -> Result<u32, NetError> {
        // Linux: a datagram enters as long as those before it have not reached the buffer's size.
        if self.below >= u64::from(self.send_buffer) {
            self.was_full = true;
            return Err(NetError::WouldBlock);
        }
        let bytes = payload_bytes.saturating_add(OVERHEAD_BYTES as u32);
        self.below += u64::from(bytes);
        self.was_full |= !self.is_writable();
        Ok(bytes)
    }
    /// Notes that `bytes` left the host, or were lost there. Returns the events.
    pub(crate) fn left_host(&mut self, bytes: u32) -> Events {
        self.below = self.below.saturating_sub(u64::from(bytes));
        self.wake_writer()
    }
    fn wake_writer(&mut self) -> Events {
        let wakes = self.was_full && self.is_writable();
        self.was_full &= !wakes;
        Events::WRITABLE.when(wakes)
    }
    /// Linux's `sock_writeable`: less than half of the buffer is in use.
    fn is_writable(&self) -> bool {
        self.below * 2 < u64::from(self.send_buffer)
    }
    /// Changes the size of the send buffer. Returns the events.
    pub(crate) fn set_send_buffer(&mut self, bytes: u32) -> Events {
        self.send_buffer = bytes;
        self.was_full |= !self.is_writable();
        self.wake_writer()
    }
    pub(crate) fn set_buffer(&mut self, bytes: u32) {
        self.buffer = bytes;
    }
    /// Returns the sizes of the send and the receive buffer.
    pub(crate) fn buffers(&self) -> (u32, u32) {
        (self.send_buffer, self.buffer)
    }
    /// Returns the datagrams that the full queue dropped.
    pub(crate) fn drops(&self) -> u64 {
        self.drops
    }
    /// Returns the memory of the datagrams in the queue, and of those below the socket.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queued
    }
    pub(crate) fn bytes_below(&self) -> u64 {
        self.below
    }
    pub(crate) fn unread_bytes(&self) -> u32 {
        self.queue.front().map_or(0, |first| first.payload.len())
    }
    pub(crate) fn readiness(&self) -> Events {
        Events::READABLE.when(!self.queue.is_empty() || self.is_shut)
            | Events::READ_CLOSED.when(self.is_shut)
            | Events::HANG_UP.when(self.is_shut && self.is_send_shut)
            | Events::WRITABLE.when(self.is_writable() || self.is_send_shut)
            | Events::ERROR.when(self.error.is_some())
    }
}
