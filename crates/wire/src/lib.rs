//! Sizes of headers and fields on the wire, in bytes (IBTA volume 1, chapters 5 and 9; annex A17
//! for RoCE v2), and the bytes of management datagrams (chapters 12 to 16).
//!
//! Softband's model carries meanings, not bytes. It needs only the length of each header, except
//! for bytes that somebody sees. [`ethernet::route_header`] writes the headers that programs see,
//! and [`mad`] reads and writes their datagrams. [`headers`] and [`crc`] make whole packets for a
//! capture.
//!
//! # Example
//!
//! ```
//! use softband_types::{Gid, Mtu};
//! use softband_wire::ethernet::{Way, mtu_of_port, route_header};
//! use softband_wire::{BASE_BYTES, RETH_BYTES};
//!
//! // The first packet of an RDMA write with an MTU of 4,096 bytes, on an InfiniBand link.
//! assert_eq!(BASE_BYTES + RETH_BYTES + Mtu::B4096.bytes(), 4_138);
//!
//! // An Ethernet port with jumbo frames has room for the same MTU.
//! assert_eq!(mtu_of_port(9_000), Some(Mtu::B4096));
//!
//! // The receiver of a datagram from 10.0.0.1 finds an IPv4 header in the last 20 of 40 bytes.
//! let [from, to] = [Gid::of_ipv4([10, 0, 0, 1]), Gid::of_ipv4([10, 0, 0, 2])];
//! let header = route_header(from, to, Way { hop_limit: 64, ..Way::default() }, 32);
//! assert_eq!((header[20], &header[32..36]), (0x45, &[10, 0, 0, 1][..]));
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod crc;
pub mod ethernet;
pub mod headers;
pub mod mad;

/// Local route header, LRH (IBTA 7.7).
pub const LRH_BYTES: u32 = 8;
/// Global route header, GRH (IBTA 8.3). On Ethernet, an IP header takes its place.
pub const GRH_BYTES: u32 = 40;
/// Base transport header, BTH (IBTA 9.2).
pub const BTH_BYTES: u32 = 12;
/// Datagram extended transport header, DETH (IBTA 9.3).
pub const DETH_BYTES: u32 = 8;
/// RDMA extended transport header, RETH (IBTA 9.3).
pub const RETH_BYTES: u32 = 16;
/// Atomic extended transport header, AtomicETH (IBTA 9.3).
pub const ATOMIC_ETH_BYTES: u32 = 28;
/// Acknowledgement extended transport header, AETH (IBTA 9.3).
pub const AETH_BYTES: u32 = 4;
/// Atomic acknowledgement extended transport header, AtomicAckETH (IBTA 9.3).
pub const ATOMIC_ACK_ETH_BYTES: u32 = 8;
/// Payload of an atomic write.
pub const ATOMIC_WRITE_BYTES: u32 = 8;
/// Immediate data, ImmDt (IBTA 9.3).
pub const IMM_DT_BYTES: u32 = 4;
/// Extended reliable connection transport header, XRCETH (IBTA annex A14).
pub const XRC_ETH_BYTES: u32 = 4;
/// Key that a send invalidates, IETH (IBTA 9.3.6).
pub const IETH_BYTES: u32 = 4;
/// Invariant CRC, ICRC, on every link layer.
pub const ICRC_BYTES: u32 = 4;
/// Variant CRC, VCRC, on InfiniBand links only.
pub const VCRC_BYTES: u32 = 2;

/// Bytes that every packet of a connected transport on InfiniBand carries beside its payload: LRH,
/// BTH, ICRC and VCRC.
pub const BASE_BYTES: u32 = LRH_BYTES + BTH_BYTES + ICRC_BYTES + VCRC_BYTES;

/// Runs the examples of the README file.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    #[test]
    fn a_middle_packet_has_26_bytes_of_headers() {
        assert_eq!(super::BASE_BYTES, 26);
    }
}
