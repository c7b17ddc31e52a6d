//! Headers of IPv4 and IPv6.

use super::reader::{Reader, put_half, put_word, set_half};
use super::{DecodeError, EncodeError, Source, checksum, control, transport};
use crate::frame::Frame;
use crate::packet::{Body, Fragment, IPV4_HEADER_BYTES, IPV6_HEADER_BYTES, Packet};
pub(super) use crate::packet::{ICMP_PROTOCOL as ICMP, ICMPV6_PROTOCOL as ICMPV6, UDP_PROTOCOL as UDP};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Protocol numbers (IANA).
pub(super) const TCP: u8 = 6;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const IPV6_FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

/// Most extension headers in a row that a host reads.
const EXTENSIONS_MAX: usize = 8;

/// Option of one byte that says nothing.
const PAD_ONE: u8 = 0;

/// Flags of an IPv4 fragment field (RFC 791, 3.1).
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;

/// Largest offset of a fragment: 13 bits of units of 8 bytes.
const OFFSET_MAX: u32 = 0x1fff * 8;

pub(super) fn encode(packet: &Packet, into: &mut Vec<u8>) -> Result<(), EncodeError> {
    let addresses = (packet.source, packet.destination);
    if packet.packets() > 1 {
        return Err(EncodeError::SuperSegment);
    }
    if let Body::Fragment(fragment) = &packet.body
        && (fragment.offset > OFFSET_MAX || !fragment.offset.is_multiple_of(8))
    {
        return Err(EncodeError::Misaligned);
    }
    match addresses {
        (IpAddr::V4(source), IpAddr::V4(destination)) => encode_v4(packet, (source, destination), into),
        (IpAddr::V6(source), IpAddr::V6(destination)) => encode_v6(packet, (source, destination), into),
        _ => Err(EncodeError::MixedFamilies),
    }
}

fn encode_v4(packet: &Packet, (source, destination): (Ipv4Addr, Ipv4Addr), into: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = into.len();
    // RFC 6864, 4.1: the identification of a packet that no router may cut has no meaning.
    let (identification, field) = match &packet.body {
        Body::Fragment(Fragment { identification, offset, has_more, .. }) => {
            (*identification as u16, (offset / 8) as u16 | if *has_more { MORE_FRAGMENTS } else { 0 })
        }
        _ => (0, DONT_FRAGMENT),
    };
    into.extend_from_slice(&[0x45, 0, 0, 0]);
    put_half(into, identification);
    put_half(into, field);
    into.extend_from_slice(&[packet.hop_limit, protocol(packet), 0, 0]);
    into.extend_from_slice(&source.octets());
    into.extend_from_slice(&destination.octets());
    encode_body(packet, into)?;
    let len = u16::try_from(into.len() - start).map_err(|_| EncodeError::TooLong)?;
    set_half(into, start + 2, len);
    let sum = checksum::of(&into[start..start + IPV4_HEADER_BYTES as usize]);
    set_half(into, start + 10, sum);
    Ok(())
}

fn encode_v6(packet: &Packet, (source, destination): (Ipv6Addr, Ipv6Addr), into: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = into.len();
    let fragment = match &packet.body {
        Body::Fragment(fragment) => Some(fragment),
        _ => None,
    };
    let next = if fragment.is_some() { IPV6_FRAGMENT } else { protocol(packet) };
    put_v6_header(into, next, packet.hop_limit, (source, destination));
    if let Some(Fragment { identification, offset, has_more, protocol, .. }) = fragment {
        // RFC 8200, 4.5.
        into.extend_from_slice(&[*protocol, 0]);
        put_half(into, *offset as u16 | u16::from(*has_more));
        put_word(into, *identification);
    }
    encode_body(packet, into)?;
    finish_v6(into, start)
}

/// Appends an IPv6 header, whose length [`finish_v6`] writes.
pub(super) fn put_v6_header(into: &mut Vec<u8>, next: u8, hop_limit: u8, (source, destination): (Ipv6Addr, Ipv6Addr)) {
    into.extend_from_slice(&[0x60, 0, 0, 0, 0, 0, next, hop_limit]);
    into.extend_from_slice(&source.octets());
    into.extend_from_slice(&destination.octets());
}

pub(super) fn finish_v6(into: &mut [u8], start: usize) -> Result<(), EncodeError> {
    let len = u16::try_from(into.len() - start - IPV6_HEADER_BYTES as usize).map_err(|_| EncodeError::TooLong)?;
    set_half(into, start + 4, len);
    Ok(())
}

fn protocol(packet: &Packet) -> u8 {
    match (&packet.body, packet.destination) {
        (Body::Tcp(_), _) => TCP,
        (Body::Udp(_), _) => UDP,
        (Body::Fragment(fragment), _) => fragment.protocol,
        (Body::Unreachable(_) | Body::Echo(_), IpAddr::V4(_)) => ICMP,
        (Body::Unreachable(_) | Body::Echo(_), IpAddr::V6(_)) => ICMPV6,
    }
}

fn encode_body(packet: &Packet, into: &mut Vec<u8>) -> Result<(), EncodeError> {
    let addresses = (packet.source, packet.destination);
    match &packet.body {
        Body::Tcp(segment) => transport::encode_tcp(segment, addresses, into),
        Body::Udp(datagram) => transport::encode_udp(datagram, addresses, into),
        Body::Unreachable(unreachable) => control::encode(unreachable, addresses, into),
        Body::Echo(echo) => {
            transport::put_payload(into, &control::echo_content(echo, addresses));
            Ok(())
        }
        Body::Fragment(fragment) => {
            transport::put_payload(into, &fragment.payload);
            Ok(())
        }
    }
}

pub(super) fn decode_v4(bytes: &[u8], source: Source<'_>) -> Result<Frame, DecodeError> {
    let header = V4Header::decode(bytes)?;
    if checksum::of(&bytes[..header.header_bytes]) != 0 {
        return Err(DecodeError::Checksum(0));
    }
    let content = bytes.get(header.header_bytes..header.len).ok_or(DecodeError::Truncated)?;
    let addresses = (IpAddr::V4(header.source), IpAddr::V4(header.destination));
    let has_more = header.field & MORE_FRAGMENTS != 0;
    let offset = u32::from(header.field & 0x1fff) * 8;
    let body = if has_more || offset > 0 {
        let identification = u32::from(header.identification);
        fragment(Fragment { identification, offset, has_more, protocol: header.protocol, payload: source.payload(content) })?
    } else {
        decode_body(header.protocol, content, addresses, source)?
    };
    Ok(Frame::Packet(Packet { source: addresses.0, destination: addresses.1, hop_limit: header.hop_limit, body }))
}

/// Fields of an IPv4 header.
pub(super) struct V4Header {
    pub(super) header_bytes: usize,
    len: usize,
    identification: u16,
    field: u16,
    hop_limit: u8,
    pub(super) protocol: u8,
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
}

impl V4Header {
    /// Reads a header, whose checksum and length the caller checks. Fails if it is cut off.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut read = Reader::new(bytes);
        let version = read.byte()?;
        let header_bytes = usize::from(version & 15) * 4;
        read.byte()?;
        let len = usize::from(read.half()?);
        let (identification, field, hop_limit, protocol) = (read.half()?, read.half()?, read.byte()?, read.byte()?);
        read.half()?;
        let (source, destination) = (read.v4()?, read.v4()?);
        if version >> 4 != 4 || header_bytes < IPV4_HEADER_BYTES as usize || len < header_bytes {
            return Err(DecodeError::Length);
        }
        // Options of IPv4 say nothing to a host.
        read.take(header_bytes - IPV4_HEADER_BYTES as usize)?;
        Ok(Self { header_bytes, len, identification, field, hop_limit, protocol, source, destination })
    }
    /// Returns whether the packet is a fragment other than the first.
    pub(super) const fn is_later_fragment(&self) -> bool {
        self.field & 0x1fff != 0
    }
}

pub(super) fn decode_v6(bytes: &[u8], source: Source<'_>) -> Result<Frame, DecodeError> {
    let header = V6Header::decode(bytes)?;
    let addresses = (IpAddr::V6(header.source), IpAddr::V6(header.destination));
    let mut read = Reader::new(bytes);
    read.take(IPV6_HEADER_BYTES as usize)?;
    let content = read.take(header.len)?;
    let (next, content) = skip_extensions(header.next, content)?;
    let body = match next {
        IPV6_FRAGMENT => decode_v6_fragment(content, addresses, source)?,
        ICMPV6 => {
            control::check_v6(content, addresses)?;
            if let Some(message) = control::decode_neighbour(content, &header)? {
                return Ok(Frame::Neighbour(message));
            }
            control::decode_checked(content, addresses.0, source)?
        }
        next => decode_body(next, content, addresses, source)?,
    };
    Ok(Frame::Packet(Packet { source: addresses.0, destination: addresses.1, hop_limit: header.hop_limit, body }))
}

/// Skips extension headers that say nothing to this host (RFC 8200, 4). Returns the next protocol with
/// its content.
fn skip_extensions(mut next: u8, mut content: &[u8]) -> Result<(u8, &[u8]), DecodeError> {
    // A sender uses each kind once, and options for the destination twice (RFC 8200, 4.1).
    for _ in 0..EXTENSIONS_MAX {
        if !matches!(next, HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS) {
            return Ok((next, content));
        }
        let mut read = Reader::new(content);
        let (following, units) = (read.byte()?, usize::from(read.byte()?));
        let value = read.take(units * 8 + 6)?;
        // RFC 8200, 4.4: the last host of a route has no segments left. Hosts forward nothing.
        if next == ROUTING && value[1] != 0 {
            return Err(DecodeError::Unsupported);
        }
        // RFC 8200, 4.2: the upper bits of an option say whether a host may skip it.
        if next != ROUTING && !may_skip_options(value)? {
            return Err(DecodeError::Unsupported);
        }
        (next, content) = (following, read.rest());
    }
    Err(DecodeError::Unsupported)
}

/// Returns whether a host that knows no option may take the packet.
fn may_skip_options(value: &[u8]) -> Result<bool, DecodeError> {
    let mut read = Reader::new(value);
    while !read.is_empty() {
        match read.byte()? {
            PAD_ONE => {}
            kind if kind >> 6 != 0 => return Ok(false),
            _ => {
                let len = usize::from(read.byte()?);
                read.take(len)?;
            }
        }
    }
    Ok(true)
}

fn decode_v6_fragment(content: &[u8], addresses: (IpAddr, IpAddr), source: Source<'_>) -> Result<Body, DecodeError> {
    let mut read = Reader::new(content);
    let protocol = read.byte()?;
    read.byte()?;
    let (field, identification) = (read.half()?, read.word()?);
    let (offset, has_more) = (u32::from(field & !7), field & 1 != 0);
    if offset == 0 && !has_more {
        // RFC 8200, 4.5: a fragment that is a whole packet. Its header says nothing.
        let (next, content) = skip_extensions(protocol, read.rest())?;
        return decode_body(next, content, addresses, source);
    }
    fragment(Fragment { identification, offset, has_more, protocol, payload: source.payload(read.rest()) })
}

fn fragment(fragment: Fragment) -> Result<Body, DecodeError> {
    // RFC 8200, 4.5: all fragments but the last have a multiple of 8 bytes, and none ends beyond 64 KiB.
    let is_whole = !fragment.has_more || fragment.payload.len().is_multiple_of(8);
    let ends = fragment.offset + fragment.payload.len() <= u32::from(u16::MAX);
    if is_whole && ends && !fragment.payload.is_empty() { Ok(Body::Fragment(fragment)) } else { Err(DecodeError::Length) }
}

/// Fields of an IPv6 header.
pub(super) struct V6Header {
    len: usize,
    pub(super) next: u8,
    pub(super) hop_limit: u8,
    pub(super) source: Ipv6Addr,
    pub(super) destination: Ipv6Addr,
}

impl V6Header {
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut read = Reader::new(bytes);
        if read.word()? >> 28 != 6 {
            return Err(DecodeError::Length);
        }
        let (len, next, hop_limit) = (usize::from(read.half()?), read.byte()?, read.byte()?);
        Ok(Self { len, next, hop_limit, source: read.v6()?, destination: read.v6()? })
    }
}

fn decode_body(protocol: u8, content: &[u8], addresses: (IpAddr, IpAddr), source: Source<'_>) -> Result<Body, DecodeError> {
    match protocol {
        TCP => transport::decode_tcp(content, addresses, source).map(Body::Tcp),
        UDP => transport::decode_udp(content, addresses, source).map(Body::Udp),
        ICMP if addresses.0.is_ipv4() => control::decode(content, addresses, source),
        ICMPV6 if addresses.0.is_ipv6() => control::decode(content, addresses, source),
        _ => Err(DecodeError::Unsupported),
    }
}
