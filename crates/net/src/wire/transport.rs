//! TCP segments and UDP datagrams.

use super::checksum::Checksum;
use super::internet::{TCP, UDP};
use super::reader::{Reader, put_half, put_word, set_half};
use super::{DecodeError, EncodeError, Source};
use crate::packet::{Datagram, Flags, OPTIONS_BYTES_MAX, Options, SackBlocks, Segment, TCP_HEADER_BYTES, Timestamps, UDP_HEADER_BYTES};
use crate::payload::Payload;
use crate::sequence::SeqNumber;
use std::net::IpAddr;

/// Kinds of options (RFC 9293, 3.2; RFC 7323; RFC 2018).
const END: u8 = 0;
const NOTHING: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// Appends a payload. Bytes without a value become zeros.
pub(super) fn put_payload(into: &mut Vec<u8>, payload: &Payload) {
    for slice in payload.slices() {
        match &slice.buffer {
            Some(_) => into.extend_from_slice(slice.bytes()),
            None => into.resize(into.len() + slice.len as usize, 0),
        }
    }
}

fn check((source, destination): (IpAddr, IpAddr), protocol: u8, content: &[u8]) -> u16 {
    let mut sum = Checksum::pseudo((source, destination), protocol, content.len());
    sum.add(content);
    sum.finish()
}

pub(super) fn encode_tcp(segment: &Segment, addresses: (IpAddr, IpAddr), into: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = into.len();
    let options = segment.options.wire_bytes();
    if options > OPTIONS_BYTES_MAX {
        return Err(EncodeError::TooLong);
    }
    put_half(into, segment.source_port);
    put_half(into, segment.destination_port);
    put_word(into, segment.seq.0);
    put_word(into, segment.ack.0);
    // The upper four bits count words of 32 bits.
    into.extend_from_slice(&[((TCP_HEADER_BYTES + options) * 4) as u8, bits(segment.flags)]);
    put_half(into, segment.window);
    put_half(into, 0);
    put_half(into, segment.urgent);
    put_options(&segment.options, into);
    into.resize(start + (TCP_HEADER_BYTES + options) as usize, END);
    put_payload(into, &segment.payload);
    let sum = check(addresses, TCP, &into[start..]);
    set_half(into, start + 16, sum);
    Ok(())
}

/// Flag of a segment with its bit.
type FlagBit = (fn(&mut Flags) -> &mut bool, u8);

const FLAG_BITS: [FlagBit; 6] = [
    (|flags| &mut flags.fin, 1),
    (|flags| &mut flags.syn, 2),
    (|flags| &mut flags.rst, 4),
    (|flags| &mut flags.psh, 8),
    (|flags| &mut flags.ack, 16),
    (|flags| &mut flags.urg, 32),
];

fn bits(mut flags: Flags) -> u8 {
    FLAG_BITS.iter().filter(|(flag, _)| *flag(&mut flags)).map(|(_, bit)| bit).sum()
}

fn flags(bits: u8) -> Flags {
    let mut flags = Flags::default();
    FLAG_BITS.iter().for_each(|(flag, bit)| *flag(&mut flags) = bits & bit != 0);
    flags
}

/// Appends options with the padding of RFC 7323, appendix A, as far as there is room for it.
fn put_options(options: &Options, into: &mut Vec<u8>) {
    let is_tight = options.padded_bytes() > OPTIONS_BYTES_MAX;
    let pad = |into: &mut Vec<u8>, count: usize| into.resize(into.len() + if is_tight { 0 } else { count }, NOTHING);
    if let Some(mss) = options.mss {
        into.extend_from_slice(&[MSS, 4]);
        put_half(into, mss);
    }
    match (options.sack_permitted, options.timestamps) {
        (true, Some(_)) | (false, None) => {}
        (true, None) | (false, Some(_)) => pad(into, 2),
    }
    if options.sack_permitted {
        into.extend_from_slice(&[SACK_PERMITTED, 2]);
    }
    if let Some(Timestamps { value, echo }) = options.timestamps {
        into.extend_from_slice(&[TIMESTAMPS, 10]);
        put_word(into, value);
        put_word(into, echo);
    }
    if let Some(scale) = options.window_scale {
        pad(into, 1);
        into.extend_from_slice(&[WINDOW_SCALE, 3, scale]);
    }
    let blocks = options.sack.as_slice();
    if !blocks.is_empty() {
        pad(into, 2);
        into.extend_from_slice(&[SACK, 2 + 8 * blocks.len() as u8]);
        for (begin, end) in blocks {
            put_word(into, begin.0);
            put_word(into, end.0);
        }
    }
}

pub(super) fn decode_tcp(content: &[u8], addresses: (IpAddr, IpAddr), source: Source<'_>) -> Result<Segment, DecodeError> {
    let mut read = Reader::new(content);
    let (source_port, destination_port) = (read.half()?, read.half()?);
    let (seq, ack) = (SeqNumber(read.word()?), SeqNumber(read.word()?));
    let header_bytes = u32::from(read.byte()? >> 4) * 4;
    let flags = flags(read.byte()?);
    let window = read.half()?;
    read.half()?;
    let urgent = read.half()?;
    let options = header_bytes.checked_sub(TCP_HEADER_BYTES).ok_or(DecodeError::Length)?;
    let options = read_options(read.take(options as usize)?);
    if check(addresses, TCP, content) != 0 {
        return Err(DecodeError::Checksum(TCP));
    }
    let payload = source.payload(read.rest());
    Ok(Segment { source_port, destination_port, seq, ack, flags, window, urgent, options, payload, packet_payload_bytes: 0 })
}

/// Reads the options up to the first that is malformed, as Linux's `tcp_parse_options` does.
fn read_options(bytes: &[u8]) -> Options {
    let (mut options, mut read) = (Options::default(), Reader::new(bytes));
    while !read.is_empty() && read_option(&mut read, &mut options).is_ok_and(|more| more) {}
    options
}

/// Reads an option. Returns whether others may follow.
fn read_option(read: &mut Reader<'_>, options: &mut Options) -> Result<bool, DecodeError> {
    let kind = match read.byte()? {
        END => return Ok(false),
        NOTHING => return Ok(true),
        kind => kind,
    };
    let len = usize::from(read.byte()?).checked_sub(2).ok_or(DecodeError::Length)?;
    let mut value = Reader::new(read.take(len)?);
    match (kind, len) {
        (MSS, 2) => options.mss = Some(value.half()?),
        (WINDOW_SCALE, 1) => options.window_scale = Some(value.byte()?),
        (SACK_PERMITTED, 0) => options.sack_permitted = true,
        (TIMESTAMPS, 8) => options.timestamps = Some(Timestamps { value: value.word()?, echo: value.word()? }),
        (SACK, len) if len.is_multiple_of(8) => {
            options.sack = SackBlocks::default();
            while !value.is_empty() {
                options.sack.push(SeqNumber(value.word()?), SeqNumber(value.word()?));
            }
        }
        // RFC 9293, 3.1: a host ignores an option that it does not know.
        _ => {}
    }
    Ok(true)
}

pub(super) fn encode_udp(datagram: &Datagram, addresses: (IpAddr, IpAddr), into: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = into.len();
    put_half(into, datagram.source_port);
    put_half(into, datagram.destination_port);
    put_half(into, u16::try_from(datagram.payload.len() + UDP_HEADER_BYTES).map_err(|_| EncodeError::TooLong)?);
    put_half(into, 0);
    put_payload(into, &datagram.payload);
    // RFC 768: 0 means that there is no checksum, so a sum of 0 becomes its other form.
    let sum = match check(addresses, UDP, &into[start..]) {
        0 => 0xffff,
        sum => sum,
    };
    set_half(into, start + 6, sum);
    Ok(())
}

/// Returns the header and payload of a datagram, for fragments.
pub(crate) fn udp_content(datagram: &Datagram, addresses: (IpAddr, IpAddr)) -> Payload {
    let len = datagram.payload.len() + UDP_HEADER_BYTES;
    let mut header = Vec::with_capacity(UDP_HEADER_BYTES as usize);
    put_half(&mut header, datagram.source_port);
    put_half(&mut header, datagram.destination_port);
    put_half(&mut header, len as u16);
    put_half(&mut header, 0);
    let mut sum = Checksum::pseudo(addresses, UDP, len as usize);
    sum.add(&header);
    sum.add_payload(&datagram.payload);
    let sum = if sum.finish() == 0 { 0xffff } else { sum.finish() };
    set_half(&mut header, 6, sum);
    let mut content = Payload::from(&header[..]);
    content.append(datagram.payload.clone());
    content
}

/// Returns the datagram of a whole content, or `None` if a length or the checksum is wrong.
pub(crate) fn udp_datagram(content: &Payload, addresses: (IpAddr, IpAddr)) -> Option<Datagram> {
    let header = content.part(0, UDP_HEADER_BYTES).to_vec();
    let mut read = Reader::new(&header);
    let (source_port, destination_port, len) = (read.half().ok()?, read.half().ok()?, u32::from(read.half().ok()?));
    let has_sum = read.half().ok()? != 0;
    let payload = content.part(UDP_HEADER_BYTES, len.checked_sub(UDP_HEADER_BYTES)?);
    let mut sum = Checksum::pseudo(addresses, UDP, len as usize);
    sum.add(&header);
    sum.add_payload(&payload);
    // RFC 8200, 8.1: IPv6 needs the checksum.
    let is_right = if has_sum { sum.finish() == 0 } else { addresses.0.is_ipv4() };
    (is_right && len <= content.len()).then_some(Datagram { source_port, destination_port, payload })
}

pub(super) fn decode_udp(content: &[u8], addresses: (IpAddr, IpAddr), source: Source<'_>) -> Result<Datagram, DecodeError> {
    let mut read = Reader::new(content);
    let (source_port, destination_port, len, sum) = (read.half()?, read.half()?, usize::from(read.half()?), read.half()?);
    if len < UDP_HEADER_BYTES as usize || len > content.len() {
        return Err(DecodeError::Length);
    }
    // RFC 8200, 8.1: IPv6 needs the checksum.
    let is_right = sum == 0 && addresses.0.is_ipv4() || sum != 0 && check(addresses, UDP, &content[..len]) == 0;
    if !is_right {
        return Err(DecodeError::Checksum(UDP));
    }
    let payload = source.payload(read.take(len - UDP_HEADER_BYTES as usize)?);
    Ok(Datagram { source_port, destination_port, payload })
}
