//! Hosts that forward packets between their interfaces, and their reports to the sources of packets
//! that went no further (RFC 1812).

use super::Stack;
use crate::interface::InterfaceId;
use crate::packet::{Body, Fragment, HOP_LIMIT, IPV4_HEADER_BYTES, Packet, Unreachable, UnreachableReason};
use crate::scope;

impl Stack {
    /// Makes the host forward packets for other hosts (`ip_forward` of Linux).
    pub fn set_forwarding(&mut self, forwards: bool) {
        self.forwards = forwards;
    }

    /// Returns whether the host forwards packets.
    pub fn forwards(&self) -> bool {
        self.forwards
    }

    /// Sends a packet that another host addressed on to its next host.
    pub(super) fn forward(&mut self, from: InterfaceId, mut packet: Packet) {
        // Linux calls packets with its own source, or with an address that no host has, martians.
        let is_martian =
            self.is_local(packet.source) || packet.source.is_unspecified() || packet.source.is_multicast() || packet.destination.is_unspecified();
        // RFC 4291, 2.5.6: a router forwards no packet with an address of a link.
        let is_of_link = scope::is_scoped(packet.source) || scope::is_scoped(packet.destination);
        if !self.forwards || is_martian || is_of_link {
            self.interfaces[from.0 as usize].counters.received_dropped += 1;
            return;
        }
        if packet.hop_limit <= 1 {
            return self.report(&packet, UnreachableReason::HopLimit);
        }
        packet.hop_limit -= 1;
        let Ok((interface, next, _)) = self.way(packet.destination) else { return self.report(&packet, UnreachableReason::Network) };
        let at = &self.interfaces[interface.0 as usize];
        let (config, segments) = (&at.config, at.config.has_segmentation && packet.packets() <= at.super_segment_packets);
        // A link may take less to some neighbours than its interface says.
        let mtu_bytes = self.path_mtus.of_link(packet.destination, config.mtu_bytes, self.now);
        let pieces = if packet.largest_bytes() <= u64::from(mtu_bytes) {
            if segments { vec![packet] } else { packet.cut().collect() }
        } else {
            match cut_fragment(&packet, mtu_bytes) {
                Some(pieces) => pieces,
                // Hosts forbid routers to cut their packets (RFC 1191).
                None => return self.report(&packet, UnreachableReason::TooLong { mtu_bytes }),
            }
        };
        for piece in pieces {
            // A full queue loses packets without a word.
            let _ = self.send_by(interface, next, piece, None);
        }
    }

    /// Tells the source of a packet its fate. There is no report about a report, and none about a
    /// fragment, which may have no ports (RFC 1122, 3.2.2).
    pub(super) fn report(&mut self, packet: &Packet, reason: UnreachableReason) {
        let Some((tcp, source_port, destination_port)) = packet.ports() else { return };
        let Ok((.., own)) = self.way(packet.source) else { return };
        let unreachable = Unreachable { reason, tcp, source_port, destination: packet.destination, destination_port };
        let answer = Packet { source: own, destination: packet.source, hop_limit: HOP_LIMIT, body: Body::Unreachable(unreachable) };
        let _ = self.send_packet(answer, None);
    }
}

/// Returns the pieces of a fragment for a smaller MTU; `None` if no router may cut the packet.
fn cut_fragment(packet: &Packet, mtu_bytes: u32) -> Option<Vec<Packet>> {
    let Body::Fragment(whole) = &packet.body else { return None };
    // Only the source cuts packets of IPv6 (RFC 8200, 4.5).
    let most = (mtu_bytes.saturating_sub(IPV4_HEADER_BYTES) & !7).max(8);
    let len = packet.destination.is_ipv4().then(|| whole.payload.len())?;
    let piece = |at: u32| {
        let payload = whole.payload.part(at, most);
        let has_more = whole.has_more || at + payload.len() < len;
        Packet { body: Body::Fragment(Fragment { offset: whole.offset + at, has_more, payload, ..whole.clone() }), ..packet.clone() }
    };
    Some((0..len).step_by(most as usize).map(piece).collect())
}
