//! Where the time of an HCA goes beside its ports: the way to memory, and the gaps that it keeps between messages.

use crate::World;
use softband_sim::SimDuration;

/// How long each limit of one HCA has been at work since the fabric began, in picoseconds of simulated time.
///
/// A limit that was at work for the whole time of a transfer is the one that held it up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HcaCounters {
    /// `host/device`.
    pub node: String,
    /// The slot's directions, headers of packets with them; 0 on PCI-X, whose bus is `shared_bus_picos`.
    pub slot_read_picos: u64,
    pub slot_write_picos: u64,
    /// The PCI-X bus with all cards on it, or the bridge behind a slot; 0 where there is none.
    pub shared_bus_picos: u64,
    /// The host's memory for all its HCAs; 0 where its part names no rate.
    pub memory_picos: u64,
    /// While all read requests of the HCA were under way and another one waited: what memory's latency costs.
    pub read_wait_picos: u64,
    /// The gaps between messages, of the processing engine that has most of them.
    pub message_gap_picos: u64,
}

impl World {
    /// Counters of every HCA of the hosts that are here, in the order of the fabric file.
    pub fn hca_counters(&self) -> Vec<HcaCounters> {
        self.hcas
            .iter()
            .enumerate()
            .filter(|(index, _)| self.has_node(*index as u32))
            .map(|(_, hca)| {
                let host = &self.spec.hosts[hca.place.0];
                let usage = hca.bus.usage(&self.buses[hca.shared_bus as usize]);
                let gap = hca.engines.iter().map(|engine| engine.gaps).max().unwrap_or(SimDuration::ZERO);
                HcaCounters {
                    node: format!("{}/{}", host.name, host.hcas[hca.place.1].device),
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
