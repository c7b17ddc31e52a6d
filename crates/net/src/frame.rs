//! Frames of a link: IP packets and questions for link addresses.

use crate::packet::{IPV6_HEADER_BYTES, Packet};
use std::net::IpAddr;

/// Frame on a link.
#[derive(Clone, Debug)]
pub enum Frame {
    /// IP packet, or a super-segment.
    Packet(Packet),
    /// Question for a link address, or the answer.
    Neighbour(NeighbourMessage),
}

impl Frame {
    /// Returns the number of packets on the wire.
    pub fn packets(&self) -> u32 {
        match self {
            Self::Packet(packet) => packet.packets(),
            Self::Neighbour(_) => 1,
        }
    }
    /// Returns the bytes of all packets together, without the link's framing.
    pub fn wire_bytes(&self) -> u64 {
        match self {
            Self::Packet(packet) => packet.wire_bytes(),
            Self::Neighbour(message) => message.wire_bytes(),
        }
    }
}

/// Receiver of a frame on its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkDestination {
    /// The host with this IP address.
    Host(IpAddr),
    /// The host with this address of the link layer.
    Link(LinkAddress),
    /// All hosts.
    Broadcast,
    /// All members of a multicast group.
    Group(IpAddr),
}

/// Address of the link layer: 6 bytes on Ethernet, 20 on IPoIB (RFC 4391).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkAddress {
    bytes: [u8; 20],
    len: u8,
}

impl LinkAddress {
    /// Returns an address of at most 20 bytes, or `None` if there are more.
    pub fn new(address: &[u8]) -> Option<Self> {
        let mut bytes = [0; 20];
        bytes.get_mut(..address.len())?.copy_from_slice(address);
        Some(Self { bytes, len: address.len() as u8 })
    }
    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Request for a neighbour's link address, or the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourMessage {
    /// Whether the sender asks. Otherwise it answers.
    pub is_request: bool,
    /// IP address of the sender.
    pub sender: IpAddr,
    /// Link address of the sender. It is empty in an answer of IPv6 that leaves it out.
    pub sender_link: LinkAddress,
    /// IP address in question.
    pub target: IpAddr,
    /// Link address of the host in question, if the sender knows it. IPv6 does not carry it, but a
    /// request with it goes to the host alone.
    pub target_link: Option<LinkAddress>,
}

impl NeighbourMessage {
    /// Returns the bytes of the message without the link's framing.
    pub fn wire_bytes(&self) -> u64 {
        let link = self.sender_link.as_slice().len() as u64;
        match self.target {
            // RFC 826: 8 bytes, then both addresses of both hosts.
            IpAddr::V4(_) => 8 + 2 * (link + 4),
            // RFC 4861, 4.3 and 4.6.1: 24 bytes, then an option in units of 8 bytes.
            IpAddr::V6(_) => u64::from(IPV6_HEADER_BYTES) + 24 + if link == 0 { 0 } else { (2 + link).next_multiple_of(8) },
        }
    }
}
