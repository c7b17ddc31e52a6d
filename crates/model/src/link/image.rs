//! Bytes of packets around their transport headers and payload, for a capture.

use super::Framing;
use crate::packet::{LinkAddresses, Packet};
use softband_types::Gid;
use softband_wire as wire;
use softband_wire::crc;
use softband_wire::ethernet;
use softband_wire::headers::Lrh;

/// UDP port of RoCE v2 (IBTA annex A17).
const ROCE_PORT: u16 = 4_791;
/// Byte of the BTH that switches may change, with the congestion bits (IBTA 7.8.1).
const BTH_VARIANT: usize = 4;
/// Stands for a header that routers replace, in the invariant CRC.
const ONES: [u8; wire::LRH_BYTES as usize] = [0xFF; wire::LRH_BYTES as usize];

/// Returns an InfiniBand packet, from its LRH to its variant CRC.
pub(super) fn infiniband(packet: &Packet, addresses: &LinkAddresses, transport: &[u8]) -> Vec<u8> {
    let route = packet.route_header(Framing::default(), addresses.source);
    let route = route.as_ref().map_or(&[][..], |header| &header[..]);
    let len_bytes = wire::LRH_BYTES as usize + route.len() + transport.len() + wire::ICRC_BYTES as usize;
    let lrh = Lrh {
        virtual_lane: addresses.lane,
        link_version: 0,
        service_level: packet.service_level,
        next_header: if route.is_empty() { Lrh::NEXT_BTH } else { Lrh::NEXT_GRH },
        dlid: packet.dlid,
        packet_words: (len_bytes / 4) as u16,
        slid: packet.slid,
    };
    let lrh = lrh.to_bytes();
    // In a packet that stays in its subnet only the lane changes (IBTA 7.8.1).
    let mut masked = if route.is_empty() { lrh } else { ONES };
    masked[0] |= 0xF0;
    let mut bytes = [&lrh[..], route, transport].concat();
    bytes.extend_from_slice(&crc::invariant(&[&masked, &masked_route(route), &masked_transport(transport)]));
    bytes.extend_from_slice(&crc::variant(&bytes));
    bytes
}

/// Returns a RoCE v2 frame without its check sequence, as captures hold frames (IBTA annex A17).
pub(super) fn ethernet(packet: &Packet, addresses: &LinkAddresses, transport: &[u8], framing: Framing, is_tagged: bool) -> Vec<u8> {
    let [source, destination] = addresses.macs;
    let dgid = packet.grh.map_or_else(Gid::default, |route| route.dgid);
    let header = packet.route_header(framing, addresses.source).unwrap_or([0; 40]);
    let ip = &header[header.len() - ethernet::ip_bytes(dgid) as usize..];
    let is_ipv4 = dgid.ipv4().is_some();
    let mut bytes = [destination, source].concat();
    if is_tagged {
        bytes.extend_from_slice(&[0x81, 0, packet.service_level.0 << 5, 0]);
    }
    bytes.extend_from_slice(if is_ipv4 { &[0x08, 0x00] } else { &[0x86, 0xDD] });
    bytes.extend_from_slice(ip);
    let udp_bytes = ethernet::UDP_BYTES as usize + transport.len() + wire::ICRC_BYTES as usize;
    let mut udp = [0; ethernet::UDP_BYTES as usize];
    udp[..2].copy_from_slice(&source_port(packet).to_be_bytes());
    udp[2..4].copy_from_slice(&ROCE_PORT.to_be_bytes());
    udp[4..6].copy_from_slice(&(udp_bytes as u16).to_be_bytes());
    bytes.extend_from_slice(&udp);
    bytes.extend_from_slice(transport);
    // The check sum of UDP may change, so the invariant CRC leaves it out.
    udp[6..].fill(0xFF);
    let masked_ip = if is_ipv4 { masked_ipv4(ip) } else { masked_route(ip) };
    bytes.extend_from_slice(&crc::invariant(&[&ONES, &masked_ip, &udp, &masked_transport(transport)]));
    let shortest = (ethernet::FRAME_BYTES_MIN - ethernet::FCS_BYTES) as usize;
    bytes.resize(bytes.len().max(shortest), 0);
    bytes
}

/// Returns the UDP port that a queue pair sends from, as Linux derives it (`rdma_get_udp_sport` in
/// `ib_verbs.h`).
fn source_port(packet: &Packet) -> u16 {
    let label = packet.grh.map_or(0, |route| route.flow_label);
    let label = if label == 0 {
        let product = u64::from(packet.source.0) * u64::from(packet.destination.0);
        let product = product ^ product >> 20;
        ((product ^ product >> 40) & 0xF_FFFF) as u32
    } else {
        label
    };
    0xC000 | (label & 0x3FFF ^ label >> 14 & 0x3F) as u16
}

/// Sets the fields of a GRH or IPv6 header that routers may change: traffic class, flow label and
/// hop limit.
fn masked_route(header: &[u8]) -> Vec<u8> {
    let mut header = header.to_vec();
    if let [first, class, low, lower, ..] = &mut header[..] {
        *first |= 0x0F;
        (*class, *low, *lower) = (0xFF, 0xFF, 0xFF);
    }
    if let Some(hop_limit) = header.get_mut(7) {
        *hop_limit = 0xFF;
    }
    header
}

/// Sets the fields of an IPv4 header that routers may change: type of service, time to live and
/// check sum.
fn masked_ipv4(header: &[u8]) -> Vec<u8> {
    let mut header = header.to_vec();
    for index in [1, 8, 10, 11] {
        if let Some(byte) = header.get_mut(index) {
            *byte = 0xFF;
        }
    }
    header
}

fn masked_transport(transport: &[u8]) -> Vec<u8> {
    let mut transport = transport.to_vec();
    if let Some(byte) = transport.get_mut(BTH_VARIANT) {
        *byte = 0xFF;
    }
    transport
}
