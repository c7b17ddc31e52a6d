//! Protocol of a communication library: how it carries messages over verbs.
//!
//! The values are those of UCX 1.13 over `rc_verbs`, which MPICH 4 and Open MPI use:
//!
//! | message | way | its send ends |
//! |---|---|---|
//! | that fits into a request with its header | inline data | at the post |
//! | below the limit of copies | copied into the library's memory, one request | at the post |
//! | below the limit of a rendezvous | pieces of up to 8 KiB, each with a completion | at the last acknowledgement |
//! | longer | rendezvous: announcement, RDMA read by the receiver, end message | at the end message |
//!
//! Both limits follow from estimates of the library for the rate of its port ([`Limits::of`]).

use softband_types::{LinkLayer, LinkSpeed};
use std::fmt;

/// Protocol of the ranks' library. A limit of `None` is the library's own for the port of the rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Largest inline data that the library asks for, with its header
    /// (`UCX_RC_VERBS_TX_MIN_INLINE`).
    pub inline_bytes: u32,
    /// Scatter/gather entries of a send request (`UCX_RC_VERBS_TX_MIN_SGE`). Drivers let inline
    /// data take their room.
    pub send_entries: u32,
    /// Smallest message that the library sends from the program's memory (`UCX_ZCOPY_THRESH`).
    pub direct_bytes: Option<u32>,
    /// Smallest message that waits for its receiver (`UCX_RNDV_THRESH`).
    pub rendezvous_bytes: Option<u32>,
}

/// Bytes of headers before the data of a message: alone, and of the first and the further pieces of
/// a longer message. A header has a byte of `rc_verbs`; the rest are headers of `ucp`.
const RC_HEADER_BYTES: u32 = 1;
pub(crate) const HEADER_BYTES: u32 = RC_HEADER_BYTES + 8;
pub(crate) const FIRST_HEADER_BYTES: u32 = RC_HEADER_BYTES + 24;
pub(crate) const MIDDLE_HEADER_BYTES: u32 = RC_HEADER_BYTES + 16;
/// Bytes of the announcement of a message, with address, length and key of the data.
pub(crate) const ANNOUNCEMENT_BYTES: u32 = 60;
/// Bytes of the message that ends a rendezvous.
pub(crate) const END_BYTES: u32 = 18;
/// Largest piece of a message with its header (`UCX_RC_VERBS_SEG_SIZE`).
pub(crate) const PIECE_BYTES: u32 = 8_256;
/// Requests of a queue pair after which one asks for a completion (`UCX_RC_VERBS_TX_CQ_MODERATION`).
pub(crate) const COMPLETION_INTERVAL: u32 = 64;
/// Receive requests that the library posts together (`UCX_RC_VERBS_RX_MAX_BATCH`).
pub(crate) const RECEIVE_BATCH: u32 = 16;
/// Entries of a send queue (`UCX_RC_VERBS_TX_QUEUE_LEN`).
pub(crate) const SEND_QUEUE: u32 = 256;

/// Alignment of RDMA reads, to the largest payload of a packet of PCI Express
/// (`UCS_SYS_PCI_MAX_PAYLOAD`).
const READ_ALIGNMENT: u32 = 512;
/// Bytes of a scatter/gather entry in a send queue.
const ENTRY_BYTES: u32 = 16;
/// Place of a program's buffer behind that alignment. glibc puts 16 bytes before a large one.
const BUFFER_OFFSET: u32 = 16;

const MEBIBYTE: f64 = 1_048_576.0;
/// Estimates of UCX 1.13 on Intel processors: rate of a copy, cost to find a registration, cost of a
/// request.
const COPY_RATE: f64 = 5_800.0 * MEBIBYTE;
const REGISTRATION_SECONDS: f64 = 180e-9;
const REQUEST_SECONDS: f64 = 75e-9;
/// Latency that each further queue pair adds.
const QUEUE_PAIR_SECONDS: f64 = 1e-9;
/// A rendezvous may take this share of the time that the eager way takes (`UCX_RNDV_PERF_DIFF`).
const RENDEZVOUS_SHARE: f64 = 0.99;
/// Bytes of a packet beside its data, as UCX counts them: LRH, BTH, the larger of RETH and its own
/// header, both CRCs and the delimiter. RoCE has a GRH and an Ethernet header in place of the LRH.
const PACKET_BYTES: f64 = (12 + 16 + 4 + 2 + 2) as f64;
const INFINIBAND_BYTES: f64 = 8.0;
const ROCE_BYTES: f64 = (40 + 14) as f64;
const ROCE_SECONDS: f64 = 200e-9;

impl Protocol {
    /// UCX 1.13 over `rc_verbs`.
    pub const UCX: Self = Self { inline_bytes: 64, send_entries: 5, direct_bytes: None, rendezvous_bytes: None };
    /// Name in a trace and on the command line.
    pub const UCX_NAME: &'static str = "ucx";

    /// Returns the inline data that an HCA with room for `most` bytes takes.
    fn inline_room(&self, most: u32) -> u32 {
        self.inline_bytes.max(self.send_entries * ENTRY_BYTES).min(most)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}", Self::UCX_NAME)?;
        for (word, value) in [("direct", self.direct_bytes), ("rendezvous", self.rendezvous_bytes)] {
            if let Some(value) = value {
                write!(to, " {word} {value}")?;
            }
        }
        Ok(())
    }
}

/// Port of a rank, as its library sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortView {
    pub speed: LinkSpeed,
    pub lanes: u64,
    pub mtu_bytes: u32,
    pub link_layer: LinkLayer,
    /// Largest inline data of the HCA.
    pub inline_max: u32,
}

impl PortView {
    /// Returns the number of queue pairs that share the data of a rendezvous. UCX 1.13 takes two on
    /// NDR.
    pub(crate) fn rails(self) -> u32 {
        if self.speed == LinkSpeed::Ndr { 2 } else { 1 }
    }
}

/// Returns the RDMA reads of a message: rail and bytes of each. The first one leads to an alignment of
/// the buffer, and the rails share the rest in turn.
pub(crate) fn reads(bytes: u32, rails: u32, mtu_bytes: u32) -> Vec<(u32, u32)> {
    let chunk = (bytes / rails).next_multiple_of(READ_ALIGNMENT).max(READ_ALIGNMENT);
    let (mut left, mut rail, mut parts) = (bytes, 0, Vec::new());
    while left > 0 {
        let part = if left == bytes && bytes > mtu_bytes { mtu_bytes - BUFFER_OFFSET } else { chunk.min(left) };
        parts.push((rail, part));
        left -= part;
        rail = (rail + 1) % rails;
    }
    parts
}

/// Limits of the protocol for one rank, in bytes of a message's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Largest inline message.
    pub inline: Option<u32>,
    pub direct: u32,
    pub rendezvous: u32,
    /// Queue pairs to each peer.
    pub rails: u32,
    pub mtu_bytes: u32,
}

impl Limits {
    /// Returns whether a message of the library itself goes inline. The library compares its bytes
    /// without the header of `rc_verbs` to the limit of data (`ucp_do_am_single`).
    pub(crate) fn sends_inline(&self, bytes: u32) -> bool {
        self.inline.is_some_and(|inline| bytes - RC_HEADER_BYTES <= inline)
    }

    /// Computes the limits by the formulas of UCX 1.13 (`ucp_ep_config_get_zcopy_auto_thresh`,
    /// `ucp_ep_config_calc_rndv_thresh`, `uct_ib_iface_query`).
    pub(crate) fn of(protocol: &Protocol, port: PortView, ranks: u32) -> Self {
        let (bytes_per_second, port_seconds) = estimates(port);
        let latency = port_seconds + QUEUE_PAIR_SECONDS * f64::from(ranks);
        let direct = whole(REGISTRATION_SECONDS, 1.0 / COPY_RATE - 1.0 / bytes_per_second);
        let piece = f64::from(PIECE_BYTES - 1);
        let eager_rate = 1.0 / (1.0 / bytes_per_second + REQUEST_SECONDS / piece);
        let more = RENDEZVOUS_SHARE * (2.0 * REGISTRATION_SECONDS + 4.0 * latency + 3.0 * REQUEST_SECONDS) - REGISTRATION_SECONDS - REQUEST_SECONDS;
        let saved = 1.0 / eager_rate.min(COPY_RATE) - RENDEZVOUS_SHARE / (bytes_per_second * f64::from(port.rails()));
        let rendezvous = whole(more, saved).max(PIECE_BYTES - 1);
        Self {
            inline: protocol.inline_room(port.inline_max).checked_sub(HEADER_BYTES),
            direct: protocol.direct_bytes.unwrap_or(direct),
            rendezvous: protocol.rendezvous_bytes.unwrap_or(rendezvous),
            rails: port.rails(),
            mtu_bytes: port.mtu_bytes,
        }
    }
}

/// Returns a quotient in whole bytes. Without a gain there is no limit.
fn whole(seconds: f64, seconds_per_byte: f64) -> u32 {
    let bytes = seconds / seconds_per_byte;
    if seconds_per_byte > 0.0 && bytes < f64::from(u32::MAX) { bytes as u32 } else { u32::MAX }
}

/// Returns the rate and latency of a port, as UCX 1.13 estimates them. It takes an unknown speed for
/// SDR.
fn estimates(port: PortView) -> (f64, f64) {
    let is_roce = port.link_layer == LinkLayer::Ethernet;
    let (seconds, signals, code) = match port.speed {
        LinkSpeed::Gigabit | LinkSpeed::Sdr | LinkSpeed::Xdr => (5_000e-9, 2.5e9, 0.8),
        LinkSpeed::Ddr => (2_500e-9, 5e9, 0.8),
        LinkSpeed::Qdr if is_roce => (1_300e-9, 10.3125e9, 64.0 / 66.0),
        LinkSpeed::Qdr => (1_300e-9, 10e9, 0.8),
        LinkSpeed::Fdr10 => (700e-9, 10.3125e9, 64.0 / 66.0),
        LinkSpeed::Fdr => (700e-9, 14.0625e9, 64.0 / 66.0),
        LinkSpeed::Edr => (600e-9, 25.78125e9, 64.0 / 66.0),
        LinkSpeed::Hdr => (600e-9, 51.5625e9, 64.0 / 66.0),
        LinkSpeed::Ndr => (600e-9, 100e9, 64.0 / 66.0),
    };
    let wire = port.lanes as f64 * signals * code / 8.0;
    let mtu = f64::from(port.mtu_bytes.min(PIECE_BYTES));
    let (headers, more_seconds) = if is_roce { (ROCE_BYTES, ROCE_SECONDS) } else { (INFINIBAND_BYTES, 0.0) };
    (wire * mtu / (mtu + PACKET_BYTES + headers), seconds + more_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_data_take_the_room_of_the_entries() {
        let port = |inline_max| PortView { speed: LinkSpeed::Ndr, lanes: 4, mtu_bytes: 4096, link_layer: LinkLayer::Infiniband, inline_max };
        let sends = |inline_max, bytes| Limits::of(&Protocol::UCX, port(inline_max), 2).sends_inline(bytes);
        assert!(sends(512, ANNOUNCEMENT_BYTES) && sends(80, ANNOUNCEMENT_BYTES) && sends(64, END_BYTES));
        assert!(!sends(64, ANNOUNCEMENT_BYTES) && !sends(0, END_BYTES) && !sends(8, END_BYTES));
        assert_eq!(Limits::of(&Protocol::UCX, port(512), 2).inline, Some(71));
    }

    #[test]
    fn the_reads_of_a_message_have_all_its_bytes() {
        for rails in [1, 2] {
            assert_eq!(reads(1, rails, 4096), [(0, 1)]);
            for bytes in [2, 511, 513, 1024, 5000, 100_000] {
                assert_eq!(reads(bytes, rails, 4096).iter().map(|(_, part)| part).sum::<u32>(), bytes);
            }
        }
        assert_eq!(reads(1024, 2, 4096), [(0, 512), (1, 512)]);
    }
}
