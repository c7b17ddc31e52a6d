//! Bytes that a link layer puts around a packet, and the point at which a receiver takes it in.

use super::image;
use crate::packet::{LinkAddresses, Packet};
use crate::verbs::api::GlobalRoute;
use softband_sim::SimDuration;
use softband_types::{Gid, LinkLayer, ServiceLevel};
use softband_wire as wire;
use softband_wire::ethernet::{self, Way};
use softband_wire::headers::Grh;

/// Framing of packets on a link. The default is InfiniBand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// LRH, optional GRH, and variant CRC (IBTA 7.7).
    #[default]
    Infiniband,
    /// RoCE v2 (IBTA annex A17).
    Ethernet {
        /// Whether the priority stands in a tag of 4 bytes. Otherwise it stands in the IP header
        /// (DSCP), which takes no room.
        tagged: bool,
    },
}

impl Framing {
    /// Returns the link layer of the framing.
    pub const fn link_layer(self) -> LinkLayer {
        match self {
            Self::Infiniband => LinkLayer::Infiniband,
            Self::Ethernet { .. } => LinkLayer::Ethernet,
        }
    }

    /// Returns whether links have lane 15, and so a subnet manager (IBTA annex A16: Ethernet has neither).
    pub const fn has_lane_15(self) -> bool {
        matches!(self, Self::Infiniband)
    }

    /// Returns whether links carry raw frames of network interfaces.
    pub const fn has_raw_frames(self) -> bool {
        matches!(self, Self::Ethernet { .. })
    }

    /// Returns the service level in the completion of a datagram, if the HCA states the type of packets
    /// over Ethernet in its place.
    pub fn level_or_type(self, packet: &Packet) -> ServiceLevel {
        match (self, &packet.grh) {
            (Self::Ethernet { .. }, Some(route)) => ServiceLevel(route.dgid.datagram_type()),
            _ => packet.service_level,
        }
    }

    /// Returns the bytes of link time that a packet costs beyond its own.
    ///
    /// The value for InfiniBand is derived: 2 bytes of start and end delimiter, and the share of
    /// flow-control and skip symbols. With the 26 bytes of a middle packet's headers it makes 34.
    /// On 4X SDR that gives 983.7 MB/s at MTU 2048 and 967.9 at 1024, both as measured.
    pub(crate) const fn spacing_bytes(self) -> u32 {
        match self {
            Self::Infiniband => 8,
            Self::Ethernet { .. } => ethernet::SPACING_BYTES,
        }
    }

    /// Returns the bytes of a frame that contains an IP packet of `payload_bytes`.
    pub const fn frame_bytes(self, payload_bytes: u32) -> u32 {
        let tag = if matches!(self, Self::Ethernet { tagged: true }) { ethernet::TAG_BYTES } else { 0 };
        ethernet::MAC_BYTES + tag + payload_bytes + ethernet::FCS_BYTES
    }

    /// Returns the bytes of a raw frame whose MAC header and data have `bytes`: with its tag, its padding
    /// and its check sequence.
    pub fn raw_bytes(self, bytes: u32) -> u32 {
        self.frame_bytes(bytes.saturating_sub(ethernet::MAC_BYTES)).max(ethernet::FRAME_BYTES_MIN)
    }

    /// Returns a raw frame as it is on a link, without its check sequence. A tag has priority 0.
    pub(crate) fn raw_image(self, frame: &[u8]) -> Vec<u8> {
        const ADDRESSES: usize = 12;
        let (addresses, rest) = frame.split_at(frame.len().min(ADDRESSES));
        let tag: &[u8] = if matches!(self, Self::Ethernet { tagged: true }) { &[0x81, 0, 0, 0] } else { &[] };
        let mut bytes = [addresses, tag, rest].concat();
        let shortest = (ethernet::FRAME_BYTES_MIN - ethernet::FCS_BYTES) as usize;
        bytes.resize(bytes.len().max(shortest), 0);
        bytes
    }

    /// Returns the bytes of a whole packet, from LRH to VCRC or of a frame. `destination` is the
    /// GID of its global route, and `transport_bytes` reach from the BTH to the invariant CRC.
    #[inline]
    pub fn packet_bytes(self, destination: Option<Gid>, transport_bytes: u32) -> u32 {
        match self {
            Self::Infiniband => {
                let grh = if destination.is_some() { wire::GRH_BYTES } else { 0 };
                wire::LRH_BYTES + grh + transport_bytes + wire::VCRC_BYTES
            }
            Self::Ethernet { .. } => {
                let ip = destination.map_or(ethernet::IPV6_BYTES, ethernet::ip_bytes);
                self.frame_bytes(ip + ethernet::UDP_BYTES + transport_bytes).max(ethernet::FRAME_BYTES_MIN)
            }
        }
    }

    /// Returns the bytes that a receiver finds before the payload of a datagram with this route.
    pub fn route_header(self, route: &GlobalRoute, source: Gid, transport_bytes: u32) -> [u8; 40] {
        match self {
            Self::Infiniband => grh_bytes(route, source, transport_bytes),
            Self::Ethernet { .. } => {
                let way = Way { traffic_class: route.traffic_class, flow_label: route.flow_label, hop_limit: route.hop_limit };
                ethernet::route_header(source, route.dgid, way, transport_bytes)
            }
        }
    }

    /// Returns the bytes of a packet around its transport headers and payload, with them.
    pub(crate) fn image(self, packet: &Packet, addresses: &LinkAddresses, transport: &[u8]) -> Vec<u8> {
        match self {
            Self::Infiniband => image::infiniband(packet, addresses, transport),
            Self::Ethernet { tagged } => image::ethernet(packet, addresses, transport, self, tagged),
        }
    }

    /// Returns the bytes of `packets` packets that data counters leave out.
    pub fn uncounted_bytes(self, packets: u64) -> u64 {
        match self {
            Self::Infiniband => u64::from(wire::VCRC_BYTES) * packets,
            Self::Ethernet { .. } => 0,
        }
    }

    /// Checks whether the receive buffer takes or drops each frame when its first bit arrives.
    /// Otherwise the sender knows that there is room.
    #[inline]
    pub const fn may_drop_on_arrival(self) -> bool {
        matches!(self, Self::Ethernet { .. })
    }

    /// Returns the delay from a freed buffer to its flow-control message. A pause frame that resumes
    /// a priority leaves at once; credits take the delay of the part.
    pub const fn credit_return(self, of_part: SimDuration) -> SimDuration {
        match self {
            Self::Infiniband => of_part,
            Self::Ethernet { .. } => SimDuration::ZERO,
        }
    }
}

/// Returns a GRH (IBTA 8.3). Its payload length counts from the end of the GRH to the invariant
/// CRC.
fn grh_bytes(route: &GlobalRoute, source: Gid, transport_bytes: u32) -> [u8; 40] {
    let header = Grh {
        version: Grh::VERSION,
        traffic_class: route.traffic_class,
        flow_label: route.flow_label,
        payload_bytes: transport_bytes as u16,
        next_header: Grh::NEXT_BTH,
        hop_limit: route.hop_limit,
        source,
        destination: route.dgid,
    };
    header.to_bytes()
}
