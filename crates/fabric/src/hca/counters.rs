//! The time that an HCA spends outside its ports: on the path to memory, and in the gaps between
//! messages.

use super::Hcas;
use crate::pdes::timeline::Timeline;
use softband_sim::SimDuration;

/// Active time of each limit of an HCA since the fabric began, in picoseconds of simulated time.
///
/// A limit that was active during a whole transfer is the transfer's bottleneck.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HcaCounters {
    /// HCA as `host/device`.
    pub node: String,
    /// Slot towards the HCA, with packet headers; 0 on PCI-X, whose bus is `shared_bus_picos`.
    pub slot_read_picos: u64,
    /// Slot away from the HCA, with packet headers; 0 on PCI-X.
    pub slot_write_picos: u64,
    /// PCI-X bus with all its cards, or the bridge behind a slot; 0 without them.
    pub shared_bus_picos: u64,
    /// Memory of the host for all its HCAs; 0 if its part names no rate.
    pub memory_picos: u64,
    /// Time with all read requests of the HCA in flight and another waiting: the cost of memory
    /// latency.
    pub read_wait_picos: u64,
    /// Gaps between messages, for the processing engine with the longest total.
    pub message_gap_picos: u64,
}

impl Hcas {
    /// Returns the counters of every HCA of this partition, in the order of the fabric file.
    pub(crate) fn hca_counters(&self, timeline: &Timeline) -> Vec<HcaCounters> {
        self.nodes
            .iter()
            .enumerate()
            .filter(|(index, _)| timeline.has_node(*index as u32))
            .map(|(_, hca)| {
                let usage = hca.bus.usage(&self.buses[hca.shared_bus as usize]);
                let gap = hca.engines.iter().map(|engine| engine.gaps).max().unwrap_or(SimDuration::ZERO);
                HcaCounters {
                    node: hca.name.clone(),
                    slot_read_picos: usage.slot_reads.as_picos(),
                    slot_write_picos: usage.slot_writes.as_picos(),
                    shared_bus_picos: usage.shared.as_picos(),
                    memory_picos: self.memories[hca.place.0].busy().as_picos(),
                    read_wait_picos: usage.read_waits.as_picos(),
                    message_gap_picos: gap.as_picos(),
                }
            })
            .collect()
    }
}
