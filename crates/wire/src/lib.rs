//! Sizes of headers and fields on the wire (IBTA volume 1, chapters 5 and 9; annex A17 for RoCE
//! v2).
//!
//! The model carries meanings, not bytes. It needs only the length of each header, except for
//! headers that programs see.
#![forbid(unsafe_code)]

pub mod ethernet;

/// Local route header.
pub const LRH_BYTES: u32 = 8;
/// Global route header.
pub const GRH_BYTES: u32 = 40;
/// Base transport header.
pub const BTH_BYTES: u32 = 12;
/// Datagram extended transport header.
pub const DETH_BYTES: u32 = 8;
/// RDMA extended transport header.
pub const RETH_BYTES: u32 = 16;
/// Atomic extended transport header.
pub const ATOMIC_ETH_BYTES: u32 = 28;
/// Acknowledgement extended transport header.
pub const AETH_BYTES: u32 = 4;
/// Atomic acknowledgement extended transport header.
pub const ATOMIC_ACK_ETH_BYTES: u32 = 8;
/// Payload of an atomic write.
pub const ATOMIC_WRITE_BYTES: u32 = 8;
/// Immediate data.
pub const IMM_DT_BYTES: u32 = 4;
/// Extended reliable connection transport header (IBTA A14).
pub const XRC_ETH_BYTES: u32 = 4;
/// Key that a send invalidates (IBTA 9.3.6).
pub const IETH_BYTES: u32 = 4;
/// Invariant CRC, on every link layer.
pub const ICRC_BYTES: u32 = 4;
/// Variant CRC, InfiniBand's own.
pub const VCRC_BYTES: u32 = 2;

/// Bytes that every packet of a connected transport carries beside its payload.
pub const BASE_BYTES: u32 = LRH_BYTES + BTH_BYTES + ICRC_BYTES + VCRC_BYTES;

#[cfg(test)]
mod tests {
    #[test]
    fn a_middle_packet_has_26_bytes_of_headers() {
        assert_eq!(super::BASE_BYTES, 26);
    }
}
