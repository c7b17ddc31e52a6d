//! Network interfaces: addresses, offloads, and the queue in front of the ring.

use crate::frame::{Frame, LinkAddress, LinkDestination};
use crate::socket_id::SocketId;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// Interface of a host, by number. 0 is `lo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u32);

/// Address of an interface with the length of its subnet's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Address of the host.
    pub address: IpAddr,
    /// Bits of the prefix.
    pub prefix: u8,
}

/// Description of an interface.
#[derive(Clone, Debug)]
pub struct InterfaceConfig {
    /// Name, such as `ib0`.
    pub name: String,
    /// Largest IP packet in bytes.
    pub mtu_bytes: u32,
    /// Addresses of the host on this interface.
    pub addresses: Vec<InterfaceAddress>,
    /// Address of the link layer. `None` means that the link finds the next host by its IP address.
    pub link_address: Option<LinkAddress>,
    /// Whether the card cuts super-segments (TSO).
    pub has_segmentation: bool,
    /// Packets or super-segments in the ring of the card.
    pub ring_packets: u32,
    /// Packets or super-segments in the queue in front of the ring, as `txqueuelen`. The kernel part
    /// has that of Ethernet.
    pub queue_packets: u32,
}

/// Counters of an interface, as `ip -s link` shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Packets received.
    pub received_packets: u64,
    /// Bytes received, with IP headers.
    pub received_bytes: u64,
    /// Packets for nobody on this host.
    pub received_dropped: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent, with IP headers.
    pub sent_bytes: u64,
    /// Packets that the full queue dropped.
    pub sent_dropped: u64,
}

/// Owner of bytes in the queue or the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) socket: SocketId,
    pub(crate) bytes: u32,
}

/// Frame that waits for the ring.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) to: LinkDestination,
    pub(crate) frame: Frame,
    pub(crate) owner: Option<Owner>,
}

#[derive(Debug)]
pub(crate) struct Interface {
    pub(crate) config: InterfaceConfig,
    pub(crate) counters: InterfaceCounters,
    /// Most packets of a super-segment (`gso_max_segs` of Linux).
    pub(crate) super_segment_packets: u32,
    /// Groups with the number of sockets that joined them.
    pub(crate) groups: BTreeMap<IpAddr, u32>,
    queue: VecDeque<Waiting>,
    /// Frames in the ring by number.
    ring: BTreeMap<u64, Option<Owner>>,
    /// Frames that ever reached the ring.
    ringed: u64,
}

impl Interface {
    pub(crate) fn new(config: InterfaceConfig) -> Self {
        Self {
            config,
            counters: InterfaceCounters::default(),
            super_segment_packets: u32::MAX,
            groups: BTreeMap::new(),
            queue: VecDeque::new(),
            ring: BTreeMap::new(),
            ringed: 0,
        }
    }

    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.config.addresses.iter().any(|own| own.address == address)
    }

    /// Returns whether the address is the broadcast address of one of the subnets.
    pub(crate) fn is_broadcast(&self, address: IpAddr) -> bool {
        let IpAddr::V4(address) = address else { return false };
        address.is_broadcast()
            || self.config.addresses.iter().any(|own| match own.address {
                IpAddr::V4(ours) if own.prefix < 31 => {
                    let host = u32::MAX.checked_shr(u32::from(own.prefix)).unwrap_or(0);
                    u32::from(address) == u32::from(ours) | host
                }
                _ => false,
            })
    }

    /// Queues a frame. Returns it if the queue is full.
    pub(crate) fn push(&mut self, waiting: Waiting) -> Option<Waiting> {
        if self.queue.len() >= self.config.queue_packets.max(1) as usize {
            self.counters.sent_dropped += 1;
            return Some(waiting);
        }
        self.queue.push_back(waiting);
        None
    }

    /// Returns the frames that queue and ring still take.
    pub(crate) fn room(&self) -> u32 {
        let ring = (self.config.ring_packets.max(1) as usize).saturating_sub(self.ring.len());
        let queue = (self.config.queue_packets.max(1) as usize).saturating_sub(self.queue.len());
        u32::try_from(ring + queue).unwrap_or(u32::MAX)
    }

    /// Takes the next frame if the ring has room for it.
    pub(crate) fn next(&mut self) -> Option<Waiting> {
        if self.ring.len() >= self.config.ring_packets.max(1) as usize {
            return None;
        }
        let waiting = self.queue.pop_front()?;
        self.counters.sent_packets += u64::from(waiting.frame.packets());
        self.counters.sent_bytes += waiting.frame.wire_bytes();
        self.ring.insert(self.ringed, waiting.owner);
        self.ringed += 1;
        Some(waiting)
    }

    /// Takes a frame out of the ring: the oldest without a number.
    pub(crate) fn complete(&mut self, frame: Option<u64>) -> Option<Owner> {
        match frame {
            Some(frame) => self.ring.remove(&frame).flatten(),
            None => self.ring.pop_first().and_then(|(_, owner)| owner),
        }
    }

    pub(crate) fn note_received(&mut self, frame: &Frame) {
        self.counters.received_packets += u64::from(frame.packets());
        self.counters.received_bytes += frame.wire_bytes();
    }
}
