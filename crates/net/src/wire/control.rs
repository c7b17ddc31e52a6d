//! ICMP: errors and echoes (RFC 792, RFC 4443), and neighbour discovery (RFC 4861).

use super::checksum::{self, Checksum};
use super::internet::{ICMP, ICMPV6, TCP, UDP, V4Header, V6Header, finish_v6, put_v6_header};
use super::reader::{Reader, put_half, put_word, set_half};
use super::{DecodeError, EncodeError, Source};
use crate::frame::{LinkAddress, NeighbourMessage};
use crate::neighbour::solicited_group;
use crate::packet::{Body, Echo, HOP_LIMIT, ICMP_HEADER_BYTES, IPV6_HEADER_BYTES, UDP_HEADER_BYTES, Unreachable, UnreachableReason};
use crate::payload::Payload;
use std::net::{IpAddr, Ipv6Addr};

/// Types of messages.
const ECHO_ANSWER: u8 = 0;
const ECHO_REQUEST: u8 = 8;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_ANSWER_V6: u8 = 129;
const UNREACHABLE: u8 = 3;
const TIME_EXCEEDED: u8 = 11;
const UNREACHABLE_V6: u8 = 1;
const TOO_LONG_V6: u8 = 2;
const TIME_EXCEEDED_V6: u8 = 3;
const NEIGHBOUR_REQUEST: u8 = 135;
const NEIGHBOUR_ANSWER: u8 = 136;

/// Option with the link address of a sender, and with that of an answer's target.
const SOURCE_LINK: u8 = 1;
const TARGET_LINK: u8 = 2;

/// Flags of an answer: asked for, and newer than all that the receiver knows.
const SOLICITED_OVERRIDE: u8 = 0x60;

/// Hop limit of a message from the link itself (RFC 4861, 7.1).
const HOP_LIMIT_LINK: u8 = 255;

/// Appends an ICMP error without the IP header. It quotes as much as the stack knows of the packet.
pub(super) fn encode(unreachable: &Unreachable, (source, destination): (IpAddr, IpAddr), into: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = into.len();
    let protocol = if unreachable.tcp { TCP } else { UDP };
    match (destination, unreachable.destination) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let (kind, code, value) = kind_v4(unreachable.reason);
            into.extend_from_slice(&[kind, code, 0, 0]);
            put_word(into, value);
            let quote = into.len();
            // The packet's own length is not known; these bytes are all that is quoted.
            into.extend_from_slice(&[0x45, 0, 0, 28, 0, 0, 0x40, 0, HOP_LIMIT, protocol, 0, 0]);
            into.extend_from_slice(&from.octets());
            into.extend_from_slice(&to.octets());
            let sum = checksum::of(&into[quote..]);
            set_half(into, quote + 10, sum);
            put_quote(unreachable, into);
            let sum = checksum::of(&into[start..]);
            set_half(into, start + 2, sum);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let (kind, code, value) = kind_v6(unreachable.reason);
            into.extend_from_slice(&[kind, code, 0, 0]);
            put_word(into, value);
            let quote = into.len();
            put_v6_header(into, protocol, HOP_LIMIT, (from, to));
            put_quote(unreachable, into);
            finish_v6(into, quote)?;
            finish_icmp_v6(into, start, (source, destination));
        }
        _ => return Err(EncodeError::MixedFamilies),
    }
    Ok(())
}

/// Returns type, code and value of an error (RFC 792; RFC 1191, 4).
fn kind_v4(reason: UnreachableReason) -> (u8, u8, u32) {
    match reason {
        UnreachableReason::Network => (UNREACHABLE, 0, 0),
        UnreachableReason::Host => (UNREACHABLE, 1, 0),
        UnreachableReason::Port => (UNREACHABLE, 3, 0),
        // The field has 16 bits.
        UnreachableReason::TooLong { mtu_bytes } => (UNREACHABLE, 4, mtu_bytes.min(0xffff)),
        UnreachableReason::HopLimit => (TIME_EXCEEDED, 0, 0),
    }
}

/// Returns type, code and value of an error (RFC 4443, 3).
fn kind_v6(reason: UnreachableReason) -> (u8, u8, u32) {
    match reason {
        UnreachableReason::Network => (UNREACHABLE_V6, 0, 0),
        UnreachableReason::Host => (UNREACHABLE_V6, 3, 0),
        UnreachableReason::Port => (UNREACHABLE_V6, 4, 0),
        UnreachableReason::TooLong { mtu_bytes } => (TOO_LONG_V6, 0, mtu_bytes),
        UnreachableReason::HopLimit => (TIME_EXCEEDED_V6, 0, 0),
    }
}

/// Appends the first 8 bytes of the offending packet: ports, then TCP's number or UDP's length.
fn put_quote(unreachable: &Unreachable, into: &mut Vec<u8>) {
    put_half(into, unreachable.source_port);
    put_half(into, unreachable.destination_port);
    put_half(into, if unreachable.tcp { 0 } else { UDP_HEADER_BYTES as u16 });
    put_half(into, 0);
}

fn finish_icmp_v6(into: &mut [u8], start: usize, addresses: (IpAddr, IpAddr)) {
    let mut sum = Checksum::pseudo(addresses, ICMPV6, into.len() - start);
    sum.add(&into[start..]);
    set_half(into, start + 2, sum.finish());
}

/// Returns an echo as bytes, with its header.
pub(crate) fn echo_content(echo: &Echo, addresses: (IpAddr, IpAddr)) -> Payload {
    let (protocol, request, answer) = echo_kinds(addresses.0);
    let mut header = vec![if echo.is_request { request } else { answer }, 0, 0, 0];
    put_half(&mut header, echo.identifier);
    put_half(&mut header, echo.sequence);
    let mut sum = checksum_for(protocol, addresses, header.len() + echo.payload.len() as usize);
    sum.add(&header);
    sum.add_payload(&echo.payload);
    set_half(&mut header, 2, sum.finish());
    let mut content = Payload::from(&header[..]);
    content.append(echo.payload.clone());
    content
}

/// Returns the echo of a whole content, or `None` if it is none, or if its checksum is wrong.
pub(crate) fn echo_message(content: &Payload, addresses: (IpAddr, IpAddr)) -> Option<Echo> {
    let header = content.part(0, ICMP_HEADER_BYTES).to_vec();
    let payload = content.part(ICMP_HEADER_BYTES, content.len().checked_sub(ICMP_HEADER_BYTES)?);
    let mut sum = checksum_for(echo_kinds(addresses.0).0, addresses, content.len() as usize);
    sum.add(&header);
    sum.add_payload(&payload);
    let (is_request, identifier, sequence) = read_echo(&header, addresses.0)?;
    (sum.finish() == 0).then_some(Echo { is_request, identifier, sequence, payload })
}

/// Returns the protocol of ICMP for a family, and the types of a request and an answer.
const fn echo_kinds(address: IpAddr) -> (u8, u8, u8) {
    match address {
        IpAddr::V4(_) => (ICMP, ECHO_REQUEST, ECHO_ANSWER),
        IpAddr::V6(_) => (ICMPV6, ECHO_REQUEST_V6, ECHO_ANSWER_V6),
    }
}

/// Returns the sum of a message before its bytes. ICMP of IPv4 has no pseudo-header.
fn checksum_for(protocol: u8, addresses: (IpAddr, IpAddr), len: usize) -> Checksum {
    if protocol == ICMP { Checksum::default() } else { Checksum::pseudo(addresses, ICMPV6, len) }
}

/// Returns the fields of an echo's header, unless it is that of another message.
fn read_echo(header: &[u8], of: IpAddr) -> Option<(bool, u16, u16)> {
    let (_, request, answer) = echo_kinds(of);
    let &[kind, 0, _, _, a, b, c, d] = header.first_chunk::<8>()? else { return None };
    (kind == request || kind == answer).then_some((kind == request, u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Returns a message of ICMP, after a check of its checksum.
pub(super) fn decode(content: &[u8], addresses: (IpAddr, IpAddr), source: Source<'_>) -> Result<Body, DecodeError> {
    if addresses.0.is_ipv6() {
        check_v6(content, addresses)?;
    } else if checksum::of(content) != 0 {
        return Err(DecodeError::Checksum(ICMP));
    }
    decode_checked(content, addresses.0, source)
}

/// Returns a message of ICMP whose checksum is right.
pub(super) fn decode_checked(content: &[u8], of: IpAddr, source: Source<'_>) -> Result<Body, DecodeError> {
    if let Some((is_request, identifier, sequence)) = read_echo(content, of) {
        let payload = source.payload(&content[ICMP_HEADER_BYTES as usize..]);
        return Ok(Body::Echo(Echo { is_request, identifier, sequence, payload }));
    }
    if of.is_ipv4() { decode_v4(content) } else { decode_v6(content) }.map(Body::Unreachable)
}

fn decode_v4(content: &[u8]) -> Result<Unreachable, DecodeError> {
    let mut read = Reader::new(content);
    let (kind, code) = (read.byte()?, read.byte()?);
    read.half()?;
    let mtu_bytes = read.word()? & 0xffff;
    let reason = match (kind, code) {
        (UNREACHABLE, 0) => UnreachableReason::Network,
        (UNREACHABLE, 1) => UnreachableReason::Host,
        (UNREACHABLE, 3) => UnreachableReason::Port,
        (UNREACHABLE, 4) => UnreachableReason::TooLong { mtu_bytes },
        (TIME_EXCEEDED, 0) => UnreachableReason::HopLimit,
        _ => return Err(DecodeError::Unsupported),
    };
    let header = V4Header::decode(read.rest())?;
    if header.is_later_fragment() {
        // It has no ports.
        return Err(DecodeError::Unsupported);
    }
    read.take(header.header_bytes)?;
    quoted(reason, header.protocol, header.destination.into(), read)
}

/// Checks the checksum of a message.
pub(super) fn check_v6(content: &[u8], addresses: (IpAddr, IpAddr)) -> Result<(), DecodeError> {
    let mut sum = Checksum::pseudo(addresses, ICMPV6, content.len());
    sum.add(content);
    if sum.finish() == 0 { Ok(()) } else { Err(DecodeError::Checksum(ICMPV6)) }
}

fn decode_v6(content: &[u8]) -> Result<Unreachable, DecodeError> {
    let mut read = Reader::new(content);
    let (kind, code) = (read.byte()?, read.byte()?);
    read.half()?;
    let mtu_bytes = read.word()?;
    let reason = match (kind, code) {
        (UNREACHABLE_V6, 0) => UnreachableReason::Network,
        (UNREACHABLE_V6, 3) => UnreachableReason::Host,
        (UNREACHABLE_V6, 4) => UnreachableReason::Port,
        (TOO_LONG_V6, 0) => UnreachableReason::TooLong { mtu_bytes },
        (TIME_EXCEEDED_V6, 0) => UnreachableReason::HopLimit,
        _ => return Err(DecodeError::Unsupported),
    };
    let header = V6Header::decode(read.rest())?;
    read.take(IPV6_HEADER_BYTES as usize)?;
    quoted(reason, header.next, header.destination.into(), read)
}

fn quoted(reason: UnreachableReason, protocol: u8, destination: IpAddr, mut read: Reader<'_>) -> Result<Unreachable, DecodeError> {
    let tcp = match protocol {
        TCP => true,
        UDP => false,
        _ => return Err(DecodeError::Unsupported),
    };
    Ok(Unreachable { reason, tcp, source_port: read.half()?, destination, destination_port: read.half()? })
}

/// Appends a message of neighbour discovery with its IP header.
pub(super) fn encode_neighbour(message: &NeighbourMessage, (sender, target): (Ipv6Addr, Ipv6Addr), into: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = into.len();
    let to = match solicited_group(target) {
        // RFC 4861, 7.3.3: a sender that knows the link address asks the host alone.
        IpAddr::V6(group) if message.is_request && message.target_link.is_none() => group,
        _ => target,
    };
    put_v6_header(into, ICMPV6, HOP_LIMIT_LINK, (sender, to));
    let content = into.len();
    let (kind, flags, subject, option) =
        if message.is_request { (NEIGHBOUR_REQUEST, 0, target, SOURCE_LINK) } else { (NEIGHBOUR_ANSWER, SOLICITED_OVERRIDE, sender, TARGET_LINK) };
    into.extend_from_slice(&[kind, 0, 0, 0, flags, 0, 0, 0]);
    into.extend_from_slice(&subject.octets());
    let link = message.sender_link.as_slice();
    if !link.is_empty() {
        let units = (2 + link.len()).div_ceil(8);
        into.extend_from_slice(&[option, units as u8]);
        // RFC 4391, 9.3: zeros stand before an address of IPoIB.
        into.resize(into.len() + units * 8 - 2 - link.len(), 0);
        into.extend_from_slice(link);
    }
    finish_v6(into, start)?;
    finish_icmp_v6(into, content, (sender.into(), to.into()));
    Ok(())
}

/// Returns a message of neighbour discovery, or `None` if the content is another message.
pub(super) fn decode_neighbour(content: &[u8], header: &V6Header) -> Result<Option<NeighbourMessage>, DecodeError> {
    let mut read = Reader::new(content);
    let is_request = match read.byte()? {
        NEIGHBOUR_REQUEST => true,
        NEIGHBOUR_ANSWER => false,
        _ => return Ok(None),
    };
    if read.byte()? != 0 || header.hop_limit != HOP_LIMIT_LINK {
        return Err(DecodeError::Unsupported);
    }
    read.take(6)?;
    let subject = read.v6()?;
    let wanted = if is_request { SOURCE_LINK } else { TARGET_LINK };
    let mut link = None;
    while !read.is_empty() {
        let (kind, units) = (read.byte()?, usize::from(read.byte()?));
        let value = read.take((units * 8).checked_sub(2).ok_or(DecodeError::Length)?)?;
        if kind == wanted {
            // 6 bytes on Ethernet, or 20 bytes behind two zeros.
            link = LinkAddress::new(if units == 3 { &value[2..] } else { value }).filter(|link| matches!(link.as_slice().len(), 6 | 20));
        }
    }
    // A host that looks for duplicates of its address (RFC 4862, 5.4) states no link address. The answer
    // to a host that knows it may leave it out (RFC 4861, 4.4).
    let sender_link = link.or_else(|| LinkAddress::new(&[]).filter(|_| !is_request)).ok_or(DecodeError::Unsupported)?;
    let (sender, target) = if is_request { (header.source, subject) } else { (subject, header.destination) };
    Ok(Some(NeighbourMessage { is_request, sender: sender.into(), sender_link, target: target.into(), target_link: None }))
}
