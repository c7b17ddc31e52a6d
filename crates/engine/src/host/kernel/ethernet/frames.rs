//! Frames of Ethernet as bytes: both addresses and the EtherType (RFC 894), then IP or ARP.

use super::address::Mac;
use softband_net::{Frame, PayloadSlice, wire};
use std::sync::Arc;

/// Bytes in front of the packet.
pub(super) const HEADER_BYTES: usize = 14;

/// Returns the bytes of a frame that holds a single packet. `None` if no bytes express it.
pub(super) fn encode(to: Mac, from: Mac, frame: &Frame) -> Option<Arc<[u8]>> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + frame.wire_bytes() as usize);
    bytes.extend_from_slice(&to);
    bytes.extend_from_slice(&from);
    bytes.extend_from_slice(&wire::ether_type(frame).to_be_bytes());
    wire::encode(frame, &mut bytes).ok()?;
    Some(bytes.into())
}

/// Returns the address to which a frame goes.
pub(super) fn destination(bytes: &[u8]) -> Option<Mac> {
    bytes.first_chunk().copied()
}

/// Returns the bytes behind the header.
pub(super) fn content(bytes: &Arc<[u8]>) -> Option<PayloadSlice> {
    let len = bytes.len().checked_sub(HEADER_BYTES)? as u32;
    Some(PayloadSlice { buffer: Some(bytes.clone()), offset: HEADER_BYTES as u32, len })
}

/// Returns the packet of a frame, or `None` if the bytes are none.
pub(super) fn decode(bytes: &Arc<[u8]>) -> Option<Frame> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    let frame = wire::decode_shared(&content(bytes)?).ok()?;
    let kind = u16::from_be_bytes([header[12], header[13]]);
    (kind == wire::ether_type(&frame)).then_some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_net::{LinkAddress, NeighbourMessage};

    #[test]
    fn a_request_comes_back_out_of_its_bytes() {
        let (from, to) = ([2, 0, 0, 0, 0, 1], [0xFF; 6]);
        let sender_link = LinkAddress::new(&from).expect("6 bytes");
        let message =
            NeighbourMessage { is_request: true, sender: [10, 1, 0, 1].into(), sender_link, target: [10, 1, 0, 2].into(), target_link: None };
        let bytes = encode(to, from, &Frame::Neighbour(message)).expect("a request");
        assert_eq!((bytes.len(), destination(&bytes), &bytes[6..12]), (HEADER_BYTES + 28, Some(to), &from[..]));
        assert_eq!(bytes[12..14], [0x08, 0x06]);
        assert!(matches!(decode(&bytes), Some(Frame::Neighbour(found)) if found == message));
        let mut wrong = bytes.to_vec();
        wrong[13] = 0;
        assert!(decode(&Arc::from(wrong)).is_none() && decode(&Arc::from(&bytes[..13])).is_none());
    }
}
