//! NICs: Ethernet cards without RDMA.

use softband_model::parts::{NicOffloads, NicPart};
use softband_sim::SimDuration;
use softband_wire::ethernet::{FCS_BYTES, MAC_BYTES, TAG_BYTES};

use crate::parts::bus::interface;
use crate::parts::{PartReader, PartSheet};
use crate::units::Dimension;

const YES_NO: [(&str, bool); 2] = [("no", false), ("yes", true)];
/// Least MTU of IPv6, which each Ethernet card carries (RFC 8200, 5).
const MTU_MIN: u32 = 1_280;
const MTU_MAX: u32 = 9_702;
const COUNT_MAX: u32 = 1 << 20;

pub(crate) fn nic(mut read: PartReader<'_>) -> Option<(NicPart, PartSheet)> {
    let part = NicPart {
        name: read.name(),
        driver: read.text("driver"),
        ports: read.ports(),
        rates: read.ethernet_rates(),
        mtu_max_bytes: read.bytes("mtu_max"),
        interface: interface(&mut read),
        outstanding_reads: read.count("outstanding_reads"),
        transmit_ring_frames: read.count("transmit_ring"),
        receive_ring_frames: read.count("receive_ring"),
        buffer_bytes: read.bytes("port_buffer"),
        pause_response: read.duration("pause_response"),
        doorbell: read.duration("doorbell"),
        descriptor_fetch: read.duration("descriptor_fetch"),
        transmit_processing: read.duration("transmit_processing"),
        receive_processing: read.duration("receive_processing"),
        descriptor_write: read.duration("descriptor_write"),
        offloads: NicOffloads {
            checksums: read.choice("offload_checksums", Dimension::Name, &YES_NO),
            segmentation: read.choice("offload_segmentation", Dimension::Name, &YES_NO),
            aggregation: read.choice("offload_aggregation", Dimension::Name, &YES_NO),
        },
        moderation_frames: read.count("moderation_frames"),
        moderation_time: read.duration("moderation_time"),
        interrupt_interval: read.optional_duration("interrupt_interval").unwrap_or(SimDuration::ZERO),
    };
    check(&mut read, &part);
    read.finish().map(|sheet| (part, sheet))
}

fn check(read: &mut PartReader<'_>, part: &NicPart) {
    let counts = [
        ("outstanding_reads", part.outstanding_reads),
        ("transmit_ring", part.transmit_ring_frames),
        ("receive_ring", part.receive_ring_frames),
        ("moderation_frames", part.moderation_frames),
    ];
    for (name, count) in counts {
        if !(1..=COUNT_MAX).contains(&count) {
            read.refuse(name, format!("{count} is not possible"), Some(format!("write 1 to {COUNT_MAX}")));
        }
    }
    for (name, time) in [("moderation_time", part.moderation_time), ("interrupt_interval", part.interrupt_interval)] {
        // Simulated time ends after 213 days, and interrupts add up.
        if time > SimDuration::from_micros(1_000_000) {
            read.refuse(name, "no card waits longer than a second".into(), Some("write at most 1 s".into()));
        }
    }
    if !(MTU_MIN..=MTU_MAX).contains(&part.mtu_max_bytes) {
        read.refuse("mtu_max", format!("no card has an MTU of {} B", part.mtu_max_bytes), Some(format!("write {MTU_MIN} B to {MTU_MAX} B")));
    }
    let frame = part.mtu_max_bytes.saturating_add(MAC_BYTES + TAG_BYTES + FCS_BYTES);
    if part.buffer_bytes < frame {
        let help = format!("write at least {frame} B, and more for pauses");
        read.refuse("port_buffer", format!("a full frame of {frame} B does not fit"), Some(help));
    }
    let good = (1..=60).contains(&part.driver.len()) && part.driver.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if !good {
        read.refuse("driver", format!("`{}` is no name of a driver", part.driver), Some("write letters, digits, `-` and `_`".into()));
    }
}
