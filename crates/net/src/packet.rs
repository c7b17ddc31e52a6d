//! Packets as structures. Their sizes on the wire follow from headers and options.

use crate::payload::Payload;
use crate::sequence::SeqNumber;
use std::net::IpAddr;

/// Bytes of an IPv4 header without options (RFC 791).
pub const IPV4_HEADER_BYTES: u32 = 20;
/// Bytes of an IPv6 header without extensions (RFC 8200).
pub const IPV6_HEADER_BYTES: u32 = 40;
/// Bytes of a TCP header without options (RFC 9293).
pub const TCP_HEADER_BYTES: u32 = 20;
/// Bytes of a UDP header (RFC 768).
pub const UDP_HEADER_BYTES: u32 = 8;
/// Bytes of an ICMP header (RFC 792, RFC 4443).
pub const ICMP_HEADER_BYTES: u32 = 8;
/// Bytes of a timestamps option with its padding (RFC 7323, appendix A).
pub(crate) const TIMESTAMPS_BYTES: u32 = 12;
/// Bytes of the offending packet beyond its IP header in an ICMP error (RFC 792).
const ICMP_QUOTE_BYTES: u32 = 8;
/// Bytes of the fragment header of IPv6 (RFC 8200, 4.5).
const IPV6_FRAGMENT_BYTES: u32 = 8;
/// Least MTU of a link with IPv6 in bytes (RFC 8200, 5).
pub const IPV6_MTU_MIN: u32 = 1_280;
/// Hop limit of packets to one host, as Linux's `ip_default_ttl`.
pub const HOP_LIMIT: u8 = 64;

/// Protocol numbers of UDP, and of ICMP for both families (IANA).
pub(crate) const UDP_PROTOCOL: u8 = 17;
pub(crate) const ICMP_PROTOCOL: u8 = 1;
pub(crate) const ICMPV6_PROTOCOL: u8 = 58;

/// Returns the bytes of an IP header of the family of `address`.
pub const fn ip_header_bytes(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => IPV4_HEADER_BYTES,
        IpAddr::V6(_) => IPV6_HEADER_BYTES,
    }
}

/// IP packet, or a super-segment that stands for several.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Hops that the packet may take (TTL). 1 keeps it on its link.
    pub hop_limit: u8,
    /// Transport header and payload.
    pub body: Body,
}

/// Content of an IP packet.
#[derive(Clone, Debug)]
pub enum Body {
    /// TCP segment.
    Tcp(Segment),
    /// UDP datagram.
    Udp(Datagram),
    /// ICMP error.
    Unreachable(Unreachable),
    /// ICMP echo.
    Echo(Echo),
    /// Part of a packet that was too large for a link.
    Fragment(Fragment),
}

/// Fragment of an IP packet (RFC 791, 3.2; RFC 8200, 4.5).
#[derive(Clone, Debug)]
pub struct Fragment {
    /// Number that all fragments of a packet share; IPv4 has its low 16 bits.
    pub identification: u32,
    /// Place of the payload in the packet, in bytes behind the IP header: a multiple of 8.
    pub offset: u32,
    /// Whether the packet continues behind this fragment.
    pub has_more: bool,
    /// Protocol of the packet, by number (IANA).
    pub protocol: u8,
    /// Part of the transport header and the payload.
    pub payload: Payload,
}

/// UDP datagram.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Payload.
    pub payload: Payload,
}

/// Request for an echo, or the answer to one (RFC 792; RFC 4443, 4).
#[derive(Clone, Debug)]
pub struct Echo {
    /// Whether the receiver should send the message back.
    pub is_request: bool,
    /// Number of the socket that asks.
    pub identifier: u16,
    /// Number of the request.
    pub sequence: u16,
    /// Payload.
    pub payload: Payload,
}

/// ICMP error about a datagram or segment of the receiver, which went no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// Reason.
    pub reason: UnreachableReason,
    /// Whether the offending packet was a TCP segment. Otherwise it was a UDP datagram.
    pub tcp: bool,
    /// Source port of the offending packet.
    pub source_port: u16,
    /// Destination of the offending packet.
    pub destination: IpAddr,
    /// Destination port of the offending packet.
    pub destination_port: u16,
}

/// Reason of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreachableReason {
    /// No socket has the port.
    Port,
    /// The host does not answer.
    Host,
    /// A router has no route.
    Network,
    /// The packet passed too many routers.
    HopLimit,
    /// The packet is too long for the link behind a router.
    TooLong {
        /// Largest packet of the link in bytes.
        mtu_bytes: u32,
    },
}

/// Flags of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags {
    /// The sender has no more data.
    pub fin: bool,
    /// First segment of a direction.
    pub syn: bool,
    /// The connection ends at once.
    pub rst: bool,
    /// The receiver should pass the data on.
    pub psh: bool,
    /// The acknowledgement number counts.
    pub ack: bool,
    /// The urgent pointer counts.
    pub urg: bool,
}

/// Timestamps option (RFC 7323).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Timestamps {
    /// Clock of the sender.
    pub value: u32,
    /// Latest clock of the receiver that the sender has seen.
    pub echo: u32,
}

/// Most blocks of a SACK option without timestamps (RFC 2018).
pub const SACK_BLOCKS_MAX: usize = 4;

/// Blocks of a SACK option, each from its first sequence number to the number behind its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SackBlocks {
    blocks: [(SeqNumber, SeqNumber); SACK_BLOCKS_MAX],
    len: u8,
}

impl SackBlocks {
    /// Adds a block, unless the option is full.
    pub fn push(&mut self, begin: SeqNumber, end: SeqNumber) {
        if let Some(block) = self.blocks.get_mut(usize::from(self.len)) {
            *block = (begin, end);
            self.len += 1;
        }
    }
    /// Takes the last block.
    pub(crate) fn pop(&mut self) -> Option<(SeqNumber, SeqNumber)> {
        let last = *self.as_slice().last()?;
        self.len -= 1;
        // Equal options have equal unused blocks.
        self.blocks[usize::from(self.len)] = Default::default();
        Some(last)
    }
    /// Returns the blocks, the most recent first.
    pub fn as_slice(&self) -> &[(SeqNumber, SeqNumber)] {
        &self.blocks[..usize::from(self.len)]
    }
}

/// Returns the bytes of a SACK option with its padding.
pub(crate) const fn sack_bytes(blocks: usize) -> u32 {
    if blocks == 0 { 0 } else { 4 + 8 * blocks as u32 }
}

/// Most bytes of options in a TCP header (RFC 9293, 3.1).
pub(crate) const OPTIONS_BYTES_MAX: u32 = 40;

/// Options of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// Largest segment that the sender accepts, in bytes of payload and options.
    pub mss: Option<u16>,
    /// Shift of the sender's later windows.
    pub window_scale: Option<u8>,
    /// Whether the sender accepts SACK options.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgements.
    pub sack: SackBlocks,
}

impl Options {
    /// Returns the bytes of the options with their padding to words of 32 bits. Options that exceed the
    /// header with the usual padding have none between them.
    pub fn wire_bytes(&self) -> u32 {
        let padded = self.padded_bytes();
        if padded > OPTIONS_BYTES_MAX { self.tight_bytes().next_multiple_of(4) } else { padded }
    }

    /// Returns the bytes of the options alone.
    pub(crate) fn tight_bytes(&self) -> u32 {
        let blocks = self.sack.as_slice().len() as u32;
        let sizes = [
            (self.mss.is_some(), 4),
            (self.window_scale.is_some(), 3),
            (self.sack_permitted, 2),
            (self.timestamps.is_some(), 10),
            (blocks > 0, 2 + 8 * blocks),
        ];
        sizes.iter().filter(|(is_there, _)| *is_there).map(|(_, bytes)| bytes).sum()
    }

    /// Returns the bytes of the options with the padding of RFC 7323, appendix A.
    pub(crate) fn padded_bytes(&self) -> u32 {
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let scale = if self.window_scale.is_some() { 4 } else { 0 };
        // The permission fits into the padding of the timestamps (RFC 7323, appendix A).
        let permitted = if self.sack_permitted && self.timestamps.is_none() { 4 } else { 0 };
        let timestamps = if self.timestamps.is_some() { TIMESTAMPS_BYTES } else { 0 };
        let sack = sack_bytes(self.sack.as_slice().len());
        mss + scale + permitted + timestamps + sack
    }
}

/// TCP segment, or a super-segment with the payload of several.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Number of the first byte, or of SYN.
    pub seq: SeqNumber,
    /// Next number that the sender expects.
    pub ack: SeqNumber,
    /// Flags. PSH and FIN belong to the last packet of a super-segment.
    pub flags: Flags,
    /// Window field, which later segments scale.
    pub window: u16,
    /// Distance from `seq` to the byte behind the urgent one.
    pub urgent: u16,
    /// Options, which each packet of a super-segment carries.
    pub options: Options,
    /// Payload.
    pub payload: Payload,
    /// Payload of each packet but the last, in bytes. 0 means that there is only one.
    pub packet_payload_bytes: u32,
}

impl Segment {
    /// Returns the number behind the segment's last byte, SYN or FIN.
    pub fn end(&self) -> SeqNumber {
        self.seq.plus(self.payload.len() + u32::from(self.flags.syn) + u32::from(self.flags.fin))
    }
    /// Returns the number of packets that the segment becomes on the wire.
    pub fn packets(&self) -> u32 {
        if self.packet_payload_bytes == 0 { 1 } else { self.payload.len().div_ceil(self.packet_payload_bytes).max(1) }
    }
}

impl Packet {
    /// Returns the number of packets on the wire.
    pub fn packets(&self) -> u32 {
        match &self.body {
            Body::Tcp(segment) => segment.packets(),
            _ => 1,
        }
    }

    /// Returns the bytes of IP headers, transport headers and payload of all packets together.
    pub fn wire_bytes(&self) -> u64 {
        let ip = ip_header_bytes(self.destination);
        match &self.body {
            Body::Tcp(segment) => {
                let headers = ip + TCP_HEADER_BYTES + segment.options.wire_bytes();
                u64::from(headers) * u64::from(segment.packets()) + u64::from(segment.payload.len())
            }
            Body::Udp(datagram) => u64::from(ip + UDP_HEADER_BYTES + datagram.payload.len()),
            Body::Unreachable(_) => u64::from(2 * ip + ICMP_HEADER_BYTES + ICMP_QUOTE_BYTES),
            Body::Echo(echo) => u64::from(ip + ICMP_HEADER_BYTES + echo.payload.len()),
            Body::Fragment(fragment) => {
                let header = if self.destination.is_ipv4() { 0 } else { IPV6_FRAGMENT_BYTES };
                u64::from(ip + header + fragment.payload.len())
            }
        }
    }

    /// Returns the bytes of the largest packet with its IP header.
    pub(crate) fn largest_bytes(&self) -> u64 {
        match &self.body {
            Body::Tcp(segment) if segment.packets() > 1 => {
                let headers = ip_header_bytes(self.destination) + TCP_HEADER_BYTES + segment.options.wire_bytes();
                u64::from(headers + segment.packet_payload_bytes)
            }
            _ => self.wire_bytes(),
        }
    }

    /// Returns whether the packet is a TCP segment, and its ports. ICMP and fragments have none.
    pub(crate) fn ports(&self) -> Option<(bool, u16, u16)> {
        match &self.body {
            Body::Tcp(segment) => Some((true, segment.source_port, segment.destination_port)),
            Body::Udp(datagram) => Some((false, datagram.source_port, datagram.destination_port)),
            Body::Unreachable(_) | Body::Echo(_) | Body::Fragment(_) => None,
        }
    }

    /// Returns the payload in bytes.
    pub fn payload_bytes(&self) -> u32 {
        match &self.body {
            Body::Tcp(segment) => segment.payload.len(),
            Body::Udp(datagram) => datagram.payload.len(),
            Body::Fragment(fragment) => fragment.payload.len(),
            Body::Echo(echo) => echo.payload.len(),
            Body::Unreachable(_) => 0,
        }
    }

    /// Cuts a super-segment into the packets that go over the wire, in order.
    pub fn cut(self) -> impl Iterator<Item = Self> {
        let count = self.packets();
        let mut whole = Some(self);
        (0..count).filter_map(move |index| if count == 1 { whole.take() } else { whole.as_ref().map(|whole| whole.cut_out(index, count)) })
    }

    fn cut_out(&self, index: u32, count: u32) -> Self {
        let Body::Tcp(whole) = &self.body else { return self.clone() };
        let (from, is_last) = (index * whole.packet_payload_bytes, index + 1 == count);
        let mut flags = whole.flags;
        flags.fin &= is_last;
        flags.psh &= is_last;
        flags.urg &= u32::from(whole.urgent) > from;
        let segment = Segment {
            source_port: whole.source_port,
            destination_port: whole.destination_port,
            seq: whole.seq.plus(from),
            ack: whole.ack,
            flags,
            window: whole.window,
            urgent: u32::from(whole.urgent).saturating_sub(from) as u16,
            options: whole.options,
            payload: whole.payload.part(from, whole.packet_payload_bytes),
            packet_payload_bytes: 0,
        };
        Self { source: self.source, destination: self.destination, hop_limit: self.hop_limit, body: Body::Tcp(segment) }
    }

    /// Joins the next packet of the same connection to this one, as receive aggregation does.
    /// Returns the packet if it does not continue this one, or if the sum exceeds `bytes_max`.
    pub fn join(&mut self, mut next: Self, bytes_max: u32) -> Option<Self> {
        let same = self.source == next.source && self.destination == next.destination;
        match (&mut self.body, &mut next.body) {
            (Body::Tcp(segment), Body::Tcp(more)) if same && segment.is_continued_by(more, bytes_max) => {
                if segment.packet_payload_bytes == 0 {
                    segment.packet_payload_bytes = segment.payload.len();
                }
                segment.payload.append(std::mem::take(&mut more.payload));
                segment.flags.psh |= more.flags.psh;
                segment.window = more.window;
                None
            }
            _ => Some(next),
        }
    }
}

impl Segment {
    /// Returns whether `next` is a plain data segment behind this one, no larger than its packets.
    fn is_continued_by(&self, next: &Self, bytes_max: u32) -> bool {
        let plain = |flags: Flags| flags.ack && !flags.syn && !flags.fin && !flags.rst && !flags.urg;
        let packet = if self.packet_payload_bytes == 0 { self.payload.len() } else { self.packet_payload_bytes };
        (self.source_port, self.destination_port, self.ack) == (next.source_port, next.destination_port, next.ack)
            && plain(self.flags)
            && plain(next.flags)
            && !self.flags.psh
            && self.options == next.options
            && self.end() == next.seq
            && !self.payload.is_empty()
            && self.payload.len().is_multiple_of(packet)
            && (1..=packet).contains(&next.payload.len())
            && self.payload.len() + next.payload.len() <= bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn super_segment(bytes: u32) -> Packet {
        let local = IpAddr::from([10, 0, 0, 1]);
        let options = Options { timestamps: Some(Timestamps::default()), ..Options::default() };
        let flags = Flags { ack: true, psh: true, ..Flags::default() };
        let segment = Segment { flags, options, payload: Payload::counted(bytes), packet_payload_bytes: 1_448, ..Segment::default() };
        Packet { source: local, destination: local, hop_limit: HOP_LIMIT, body: Body::Tcp(segment) }
    }

    #[test]
    fn a_super_segment_has_the_size_of_its_packets() {
        let whole = super_segment(1_448 * 3 + 1);
        assert_eq!((whole.packets(), whole.wire_bytes()), (4, 3 * 1_500 + 53));
        let parts: Vec<Packet> = whole.clone().cut().collect();
        assert_eq!(parts.iter().map(Packet::wire_bytes).sum::<u64>(), whole.wire_bytes());
        let mut joined = parts[0].clone();
        assert!(parts[1..].iter().all(|part| joined.join(part.clone(), 65_536).is_none()));
        assert_eq!((joined.packets(), joined.wire_bytes()), (4, whole.wire_bytes()));
        assert!(joined.clone().join(joined, 65_536).is_some(), "a packet does not continue itself");
    }

    #[test]
    fn options_of_a_syn_take_twenty_bytes() {
        let timestamps = Some(Timestamps::default());
        let options = Options { mss: Some(1_460), window_scale: Some(7), sack_permitted: true, timestamps, ..Options::default() };
        assert_eq!(options.wire_bytes(), 20);
    }
}
