//! Packets of IPoIB as bytes: a header of 4 bytes (RFC 4391, 6), then IP or ARP.

use softband_net::{Frame, PayloadSlice, wire};
use std::sync::Arc;

/// Bytes of the header: the EtherType, and two reserved bytes.
pub(super) const HEADER_BYTES: usize = 4;

/// Returns the packets of a frame; none if no bytes express it. `scratch` keeps its room for the next.
pub(super) fn encode(frame: Frame, scratch: &mut Vec<u8>) -> Vec<Arc<[u8]>> {
    let mut single = |frame: &Frame| -> Option<Arc<[u8]>> {
        scratch.clear();
        scratch.extend_from_slice(&wire::ether_type(frame).to_be_bytes());
        scratch.extend_from_slice(&[0; 2]);
        wire::encode(frame, scratch).ok().map(|()| scratch.as_slice().into())
    };
    match frame {
        Frame::Packet(packet) => packet.cut().filter_map(|packet| single(&Frame::Packet(packet))).collect(),
        Frame::Neighbour(_) => single(&frame).into_iter().collect(),
    }
}

/// Returns the bytes behind the header.
pub(super) fn content(bytes: &PayloadSlice) -> Option<PayloadSlice> {
    let taken = HEADER_BYTES as u32;
    Some(PayloadSlice { buffer: bytes.buffer.clone(), offset: bytes.offset + taken, len: bytes.len.checked_sub(taken)? })
}

/// Returns the frame of a packet, or `None` if the bytes are none.
pub(super) fn decode(bytes: &PayloadSlice) -> Option<Frame> {
    let header = bytes.bytes().first_chunk::<HEADER_BYTES>()?;
    let frame = wire::decode_shared(&content(bytes)?).ok()?;
    let kind = u16::from_be_bytes([header[0], header[1]]);
    (kind == wire::ether_type(&frame)).then_some(frame)
}
