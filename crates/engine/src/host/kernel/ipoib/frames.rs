//! Packets of IPoIB as bytes: a header of 4 bytes (RFC 4391, 6), then IP or ARP.

use softband_net::{Frame, wire};

/// Bytes of the header: the EtherType, and two reserved bytes.
pub(super) const HEADER_BYTES: usize = 4;

/// Returns the packets of a frame; none if no bytes express it.
pub(super) fn encode(frame: Frame) -> Vec<Vec<u8>> {
    let single = |frame: &Frame| {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + frame.wire_bytes() as usize);
        bytes.extend_from_slice(&wire::ether_type(frame).to_be_bytes());
        bytes.extend_from_slice(&[0; 2]);
        wire::encode(frame, &mut bytes).ok().map(|()| bytes)
    };
    match frame {
        Frame::Packet(packet) => packet.cut().filter_map(|packet| single(&Frame::Packet(packet))).collect(),
        Frame::Neighbour(_) => single(&frame).into_iter().collect(),
    }
}

/// Returns the frame of a packet, or `None` if the bytes are none.
pub(super) fn decode(bytes: &[u8]) -> Option<Frame> {
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let frame = wire::decode(rest).ok()?;
    let kind = u16::from_be_bytes([header[0], header[1]]);
    (kind == wire::ether_type(&frame)).then_some(frame)
}
