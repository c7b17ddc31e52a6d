//! RoCE v2 (IBTA annex A17): an InfiniBand transport packet in UDP, in IP, in an Ethernet frame.

use crate::{BTH_BYTES, GRH_BYTES, ICRC_BYTES, XRC_ETH_BYTES};
use softband_types::{Gid, Mtu};

/// MAC header in bytes: both addresses and the type (IEEE 802.3, 3.2).
pub const MAC_BYTES: u32 = 14;
/// Tag with a priority, in bytes (IEEE 802.1Q, 9.6).
pub const TAG_BYTES: u32 = 4;
/// Frame check sequence in bytes.
pub const FCS_BYTES: u32 = 4;
/// Shortest frame in bytes, from address to check sequence (IEEE 802.3, 4A.4.2).
pub const FRAME_BYTES_MIN: u32 = 64;
/// Preamble, start delimiter, and gap to the next frame, in bytes. They take only link time.
pub const SPACING_BYTES: u32 = 8 + 12;
/// Frame that pauses or resumes priorities, in bytes (IEEE 802.1Q, clause 36).
pub const PAUSE_FRAME_BYTES: u32 = FRAME_BYTES_MIN;

/// IPv4 header without options, in bytes (RFC 791, 3.1).
pub const IPV4_BYTES: u32 = 20;
/// IPv6 header without extensions, in bytes (RFC 8200, 3).
pub const IPV6_BYTES: u32 = 40;
/// UDP header in bytes (RFC 768).
pub const UDP_BYTES: u32 = 8;

/// Bytes of a port's MTU beside a packet's payload, as the kernel counts them (`iboe_get_mtu`).
/// They hold a GRH, UDP, BTH, the largest extended headers and the invariant CRC.
pub const OVERHEAD_BYTES: u32 = GRH_BYTES + UDP_BYTES + BTH_BYTES + XRC_ETH_BYTES + crate::ATOMIC_ETH_BYTES + ICRC_BYTES;

/// IP protocol number of UDP.
const PROTOCOL_UDP: u8 = 17;

/// Returns the bytes of the IP header of a packet to `dgid`: [`IPV4_BYTES`] if it stands for an
/// IPv4 address, and otherwise [`IPV6_BYTES`].
pub const fn ip_bytes(dgid: Gid) -> u32 {
    if dgid.ipv4().is_some() { IPV4_BYTES } else { IPV6_BYTES }
}

/// Returns the largest payload of RDMA packets on a port with an Ethernet MTU of
/// `ethernet_mtu_bytes`. Returns `None` if not even 256 bytes fit.
pub fn mtu_of_port(ethernet_mtu_bytes: u32) -> Option<Mtu> {
    let room = ethernet_mtu_bytes.checked_sub(OVERHEAD_BYTES)?;
    Mtu::ALL.into_iter().rev().find(|mtu| mtu.bytes() <= room)
}

/// Header fields that the sender of a datagram sets beside the addresses. The default of each field
/// is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Traffic class of IPv6, or type of service of IPv4.
    pub traffic_class: u8,
    /// Flow label of IPv6: the low 20 bits. IPv4 has none.
    pub flow_label: u32,
    /// Hop limit of IPv6, or time to live of IPv4: number of hops, from 0 to 255.
    pub hop_limit: u8,
}

/// Returns the 40 bytes that the receiver of a datagram finds before its payload (IBTA annex A17):
/// an IPv6 header, or 20 zero bytes and an IPv4 header. `transport_bytes` counts from the BTH to
/// the invariant CRC.
pub fn route_header(source: Gid, dgid: Gid, way: Way, transport_bytes: u32) -> [u8; 40] {
    let mut bytes = [0; 40];
    let udp_bytes = (UDP_BYTES + transport_bytes) as u16;
    if let (Some(from), Some(to)) = (source.ipv4(), dgid.ipv4()) {
        bytes[20..].copy_from_slice(&ipv4_header(from, to, way, udp_bytes));
        return bytes;
    }
    let word = 6 << 28 | u32::from(way.traffic_class) << 20 | way.flow_label & 0xF_FFFF;
    bytes[..4].copy_from_slice(&word.to_be_bytes());
    bytes[4..6].copy_from_slice(&udp_bytes.to_be_bytes());
    bytes[6] = PROTOCOL_UDP;
    bytes[7] = way.hop_limit;
    bytes[8..24].copy_from_slice(&source.0);
    bytes[24..].copy_from_slice(&dgid.0);
    bytes
}

/// Returns an IPv4 header without options (RFC 791, 3.1). It forbids fragmentation (IBTA annex
/// A17).
fn ipv4_header(from: [u8; 4], to: [u8; 4], way: Way, udp_bytes: u16) -> [u8; 20] {
    const DO_NOT_FRAGMENT: u8 = 0x40;
    let mut bytes = [0; 20];
    (bytes[0], bytes[1]) = (0x45, way.traffic_class);
    bytes[2..4].copy_from_slice(&(IPV4_BYTES as u16 + udp_bytes).to_be_bytes());
    (bytes[6], bytes[8], bytes[9]) = (DO_NOT_FRAGMENT, way.hop_limit, PROTOCOL_UDP);
    bytes[12..16].copy_from_slice(&from);
    bytes[16..].copy_from_slice(&to);
    let sum = checksum(&bytes);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Returns the Internet checksum of a header with an even number of bytes (RFC 1071). It is 0 over
/// a header that contains its own checksum.
fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_types::Guid;

    const WAY: Way = Way { traffic_class: 0xAB, flow_label: 0xFFF1_2345, hop_limit: 64 };

    #[test]
    fn a_port_s_mtu_is_what_the_kernel_makes_of_its_interface_s() {
        let mtus = [1500, 2200, 4200, 9000, 1119, 351, 95].map(mtu_of_port);
        let expected = [Some(Mtu::B1024), Some(Mtu::B2048), Some(Mtu::B4096), Some(Mtu::B4096), Some(Mtu::B512), None, None];
        assert_eq!(mtus, expected);
    }

    #[test]
    fn an_ipv4_header_stands_in_the_last_twenty_bytes_and_checks() {
        let bytes = route_header(Gid::of_ipv4([10, 77, 0, 1]), Gid::of_ipv4([10, 77, 0, 2]), WAY, 12 + 8 + 8 + 4);
        assert_eq!(bytes[..20], [0; 20]);
        assert_eq!((bytes[20], bytes[21], u16::from_be_bytes([bytes[22], bytes[23]])), (0x45, 0xAB, 20 + 8 + 32));
        assert_eq!((bytes[28], bytes[29], &bytes[32..]), (64, 17, &[10, 77, 0, 1, 10, 77, 0, 2][..]));
        assert_eq!(checksum(&bytes[20..]), 0);
    }

    #[test]
    fn an_ipv6_header_fills_all_forty_bytes() {
        let (source, dgid) = (Gid::new(Gid::DEFAULT_PREFIX, Guid(1)), Gid::new(Gid::DEFAULT_PREFIX, Guid(2)));
        let bytes = route_header(source, dgid, WAY, 32);
        assert_eq!(bytes[..8], [0x6A, 0xB1, 0x23, 0x45, 0, 40, 17, 64]);
        assert_eq!((&bytes[8..24], &bytes[24..]), (&source.0[..], &dgid.0[..]));
    }
}
