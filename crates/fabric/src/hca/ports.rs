//! What an HCA keeps for each of its ports: staged packets, and throttled service levels.

use super::plan::{Plan, Restraint};
use super::{Hcas, Work};
use crate::link::CarriedElsewhere;
use softband_model::link::Sl2Vl;
use softband_model::parts::HcaPart;
use softband_model::transport::{HardwareCounters, Throttle};
use softband_types::{HcaId, PKey, VirtualLane, WcOpcode};
use std::collections::VecDeque;

/// The HCA's side of a port.
pub(super) struct HcaPort {
    pub(super) hca: u32,
    /// Lane of each service level.
    pub(super) sl2vl: Sl2Vl,
    staging: Box<Staging>,
    /// Throttles per service level, if flows can be throttled.
    pub(super) throttles: Vec<Throttle>,
    /// Work held back per service level, in the order in which it may continue.
    pub(super) held_back: Vec<VecDeque<Work>>,
    pub(super) hardware: HardwareCounters,
    /// Its planned departures.
    pub(super) plan: Option<Box<Plan>>,
    pub(super) restraint: Restraint,
}

/// Packets of an HCA between DMA read and departure, by lane.
type Staging = [Staged; 15];

#[derive(Default)]
pub(super) struct Staged {
    pub(super) held: u32,
    pub(super) held_bytes: u32,
    /// Work that waits for a place.
    pub(super) parked: VecDeque<Work>,
}

impl Staged {
    /// Checks whether the HCA may read another packet ahead.
    pub(super) fn has_place(&self, part: &HcaPart) -> bool {
        self.held < part.transmit_staging_packets.max(1) && part.transmit_staging_bytes.is_none_or(|most| self.held_bytes < most)
    }
}

impl HcaPort {
    pub(super) fn new(hca: u32, sl2vl: Sl2Vl, is_throttled: bool) -> Self {
        let levels = if is_throttled { 16 } else { 0 };
        Self {
            hca,
            sl2vl,
            staging: Box::default(),
            throttles: vec![Throttle::default(); levels],
            held_back: vec![VecDeque::new(); levels],
            hardware: HardwareCounters::default(),
            plan: None,
            restraint: Restraint::default(),
        }
    }

    pub(super) fn staged(&mut self, lane: VirtualLane) -> &mut Staged {
        &mut self.staging[usize::from(lane.0)]
    }
}

impl Hcas {
    /// Sets the lane of each service level of an HCA's port.
    pub(crate) fn set_lanes(&mut self, port: u32, sl2vl: Sl2Vl) {
        self.ports[port as usize].sl2vl = sl2vl;
    }

    /// Sets the partition keys of an HCA's ports.
    pub(crate) fn set_pkeys(&mut self, hca: HcaId, pkeys: Vec<PKey>) {
        self.nodes[hca.0 as usize].pkeys = pkeys;
    }

    /// Returns the counters of the queue pairs of an HCA's port.
    pub(crate) fn hardware_counters(&self, port: u32) -> HardwareCounters {
        self.ports[port as usize].hardware
    }

    /// Counts requests that reached an HCA's port outside the model. Ports of switches have none.
    pub(crate) fn note_elsewhere(&mut self, port: u32, carried: &CarriedElsewhere) {
        let Some(HcaPort { hardware, .. }) = self.ports.get_mut(port as usize) else { return };
        hardware.note_requests(WcOpcode::RdmaWrite, carried.writes);
        hardware.note_requests(WcOpcode::RdmaRead, carried.reads);
        hardware.note_requests(WcOpcode::FetchAdd, carried.atomics);
        hardware.out_of_buffer = hardware.out_of_buffer.saturating_add(carried.lost);
    }

    /// Returns the counters of a queue pair's port.
    pub(super) fn hardware_of(&mut self, qp: u32) -> Option<&mut HardwareCounters> {
        let port = self.slot(qp)?.port?;
        self.ports.get_mut(port as usize).map(|port| &mut port.hardware)
    }

    /// Returns the places in the staging buffer of a port's lane that packets hold. Ports of
    /// switches have no staging buffer.
    pub(crate) fn places_taken(&self, port: u32, lane: VirtualLane) -> u32 {
        self.ports.get(port as usize).map_or(0, |port| port.staging[usize::from(lane.0)].held)
    }

    /// Checks that no packet is left in the staging buffers.
    ///
    /// # Panics
    /// Panics if a staging place is still taken.
    pub(crate) fn assert_nothing_is_staged(&self) {
        for (id, port) in self.ports.iter().enumerate() {
            for (lane, staged) in port.staging.iter().enumerate() {
                assert_eq!(staged.held + staged.held_bytes, 0, "port {id} lane {lane}");
            }
        }
    }
}
