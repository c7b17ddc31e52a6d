//! Frames as bytes: IPv4 (RFC 791), IPv6 (RFC 8200), TCP (RFC 9293), UDP (RFC 768), ICMP
//! (RFC 792, RFC 4443), ARP (RFC 826) and neighbour discovery (RFC 4861).
//!
//! The bytes begin behind the link's framing, which names their [`ether_type`]. They have the length
//! of [`Frame::wire_bytes`]. A super-segment has no bytes: `Packet::cut` it first.

mod checksum;
mod control;
mod internet;
mod link;
mod reader;
mod transport;

use crate::frame::Frame;
use crate::payload::Payload;
pub(crate) use control::{echo_content, echo_message};
use softband_model::verbs::api::PayloadSlice;
use std::fmt;
use std::net::IpAddr;
pub(crate) use transport::{udp_content, udp_datagram};

/// EtherType of IPv4 (RFC 894).
pub const ETHER_TYPE_IPV4: u16 = 0x0800;
/// EtherType of ARP (RFC 826).
pub const ETHER_TYPE_ARP: u16 = 0x0806;
/// EtherType of IPv6 (RFC 2464).
pub const ETHER_TYPE_IPV6: u16 = 0x86dd;

/// Returns the EtherType under which a link carries the frame, on Ethernet and on IPoIB (RFC 4391).
pub const fn ether_type(frame: &Frame) -> u16 {
    match frame {
        Frame::Packet(packet) => match packet.destination {
            IpAddr::V4(_) => ETHER_TYPE_IPV4,
            IpAddr::V6(_) => ETHER_TYPE_IPV6,
        },
        Frame::Neighbour(message) => match message.target {
            IpAddr::V4(_) => ETHER_TYPE_ARP,
            // Neighbour discovery is a part of ICMPv6.
            IpAddr::V6(_) => ETHER_TYPE_IPV6,
        },
    }
}

/// Appends the bytes of a frame to `into`. Payload without values becomes zeros. Fails, and appends
/// nothing, if no bytes express the frame.
///
/// # Errors
/// [`EncodeError`] has the reasons.
pub fn encode(frame: &Frame, into: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = into.len();
    let result = match frame {
        Frame::Packet(packet) => internet::encode(packet, into),
        Frame::Neighbour(message) => link::encode(message, into),
    };
    if result.is_err() {
        into.truncate(start);
    }
    result
}

/// Returns the frame that the bytes express, after a check of all lengths and checksums. Bytes behind
/// the frame are padding of the link. Fails if the bytes are wrong, or if the stack knows no such frame.
///
/// # Errors
/// [`DecodeError`] has the reasons.
pub fn decode(bytes: &[u8]) -> Result<Frame, DecodeError> {
    decode_from(bytes, Source(None))
}

/// Returns the frame that shared bytes express, as [`decode`] does. Its payload refers to them.
///
/// # Errors
/// [`DecodeError`] has the reasons.
pub fn decode_shared(bytes: &PayloadSlice) -> Result<Frame, DecodeError> {
    decode_from(bytes.bytes(), Source(Some(bytes)))
}

/// Returns the receiver of a packet of IP, and whether its protocol is TCP. Headers of IPv6 extensions
/// hide it. Bytes of ARP have no such receiver.
pub fn receiver(bytes: &[u8]) -> Option<(IpAddr, bool)> {
    match bytes.first()? >> 4 {
        4 => internet::V4Header::decode(bytes).ok().map(|header| (header.destination.into(), header.protocol == internet::TCP)),
        6 => internet::V6Header::decode(bytes).ok().map(|header| (header.destination.into(), header.next == internet::TCP)),
        _ => None,
    }
}

fn decode_from(bytes: &[u8], source: Source<'_>) -> Result<Frame, DecodeError> {
    // IP begins with its version, and ARP with the high byte of a small number.
    match bytes.first().ok_or(DecodeError::Truncated)? >> 4 {
        0 => link::decode(bytes).map(Frame::Neighbour),
        4 => internet::decode_v4(bytes, source),
        6 => internet::decode_v6(bytes, source),
        _ => Err(DecodeError::Version),
    }
}

/// The shared bytes of a frame, if they are shared.
#[derive(Clone, Copy, Debug)]
struct Source<'a>(Option<&'a PayloadSlice>);

impl Source<'_> {
    /// Returns a part of the frame as payload, without a copy if the frame's bytes are shared.
    fn payload(self, part: &[u8]) -> Payload {
        let shared = self.0.and_then(|whole| {
            let from = part.as_ptr().addr().checked_sub(whole.bytes().as_ptr().addr())?;
            let is_inside = from + part.len() <= whole.len as usize;
            is_inside.then(|| PayloadSlice { buffer: whole.buffer.clone(), offset: whole.offset + from as u32, len: part.len() as u32 })
        });
        let Some(slice) = shared else { return Payload::from(part) };
        let mut payload = Payload::empty();
        payload.push(slice);
        payload
    }
}

/// Reason why a frame has no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The frame is a super-segment, which a caller cuts first.
    SuperSegment,
    /// Its addresses belong to several families.
    MixedFamilies,
    /// The packet exceeds the length field of IP, or the options exceed 40 bytes.
    TooLong,
    /// The fragment begins beside a multiple of 8 bytes, or too far behind.
    Misaligned,
    /// The link address has neither 6 nor 20 bytes.
    LinkAddress,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SuperSegment => "a super-segment has no bytes; cut it into packets first",
            Self::MixedFamilies => "the addresses belong to IPv4 and IPv6; use one family",
            Self::TooLong => "the packet is longer than IP or TCP can state; send less at once",
            Self::Misaligned => "the fragment begins at no multiple of 8 bytes below 64 KiB; cut it there",
            Self::LinkAddress => "the link address has neither 6 nor 20 bytes; use Ethernet's or IPoIB's",
        })
    }
}

impl std::error::Error for EncodeError {}

/// Reason why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end before the frame does.
    Truncated,
    /// The bytes are neither IPv4 nor IPv6 nor ARP.
    Version,
    /// A length field contradicts the headers.
    Length,
    /// The checksum of the protocol with this number is wrong; 0 stands for the IPv4 header.
    Checksum(u8),
    /// The stack has no protocol, message or option of this kind.
    Unsupported,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the bytes end before the frame does"),
            Self::Version => f.write_str("the bytes are neither IPv4 nor IPv6 nor ARP"),
            Self::Length => f.write_str("a length field contradicts the headers"),
            Self::Checksum(0) => f.write_str("the checksum of the IPv4 header is wrong"),
            Self::Checksum(protocol) => write!(f, "the checksum of protocol {protocol} is wrong"),
            Self::Unsupported => f.write_str("the stack has no protocol of this kind"),
        }
    }
}

impl std::error::Error for DecodeError {}
