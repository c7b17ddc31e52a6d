//! An audit of credits: every block of a link's receive buffer is somewhere.

use super::Links;
use super::port::PLANS;
use crate::numbering::Owner;
use softband_model::link::FlowControl;
use softband_sim::SimTime;
use softband_types::{CreditBlocks, VirtualLane};
use std::collections::{BTreeMap, BTreeSet};

const LANES: u8 = 15;

/// Numbers by port and lane.
type ByLane = BTreeMap<(u32, u8), u32>;

impl Links {
    /// Checks between two events that credits are conserved. For each lane of an InfiniBand link,
    /// the blocks that its sender misses are those of packets on the cable or in the receiver's
    /// buffer, and those on their way back. It leaves out links that a train uses, because their ports
    /// show the train's packets only when somebody looks, and staging buffers while departures are
    /// planned. `staged` returns the places of packets in
    /// the staging buffer of a port's lane, and they are checked as well. All links must be within
    /// this World.
    ///
    /// # Errors
    /// A description of the first link that does not add up.
    pub(crate) fn audit(&self, staged: impl Fn(u32, VirtualLane) -> u32) -> Result<(), String> {
        let (held, leaving) = self.blocks_and_places();
        for (id, port) in self.ports.iter().enumerate().filter(|(_, port)| port.cabling.is_some()) {
            for lane in (0..LANES).map(VirtualLane) {
                let place = (id as u32, lane.0);
                if port.flow_control.counts_credits() && !self.is_held_by_train(id as u32) {
                    let returning = self.ports[port.far_end as usize].returns.blocks(lane);
                    let missing = port.flow_control.blocks_missing(lane, returning, || CreditBlocks(0));
                    let held = held.get(&(port.far_end, lane.0)).copied().unwrap_or(0) as i32;
                    if missing != held {
                        let name = self.name_of_port(id as u32);
                        return Err(format!(
                            "{name} misses {missing} blocks of VL{} beside {} on their way back: {held} are held",
                            lane.0, returning.0
                        ));
                    }
                }
                if port.in_train & PLANS != 0 {
                    continue; // Its light packets are numbers.
                }
                let departing = u32::from(port.departing.is_some_and(|departing| departing.lane == lane));
                let (places, taken) = (staged(id as u32, lane), leaving.get(&place).copied().unwrap_or(0) + departing);
                if places != taken {
                    return Err(format!("{} holds {places} places of VL{} for {taken} packets", self.name_of_port(id as u32), lane.0));
                }
            }
        }
        Ok(())
    }

    /// Returns, by port and lane, the blocks of packets that have left for the port or are in its
    /// buffer, and the places of packets that are to leave by it.
    fn blocks_and_places(&self) -> (ByLane, ByLane) {
        let (mut held, mut staged) = (ByLane::new(), ByLane::new());
        // Copies of one packet share the buffer by which they came in.
        let mut counted = BTreeSet::new();
        for transit in self.packets.iter() {
            let place = (transit.port, transit.lane.0);
            let is_hca = matches!(self.ports[transit.port as usize].owner, Owner::Hca { .. });
            if is_hca && transit.head == SimTime::ZERO {
                // An HCA's own packet, which has not begun to leave.
                *staged.entry(place).or_default() += u32::from(transit.staged);
            } else if transit.copies.is_none_or(|copies| counted.insert(copies)) {
                *held.entry(place).or_default() += u32::from(transit.blocks);
            }
        }
        (held, staged)
    }

    /// Takes a block away from a link with credits, so that a test can show that [`Self::audit`]
    /// notices it. Returns whether there was a link with credits.
    pub(crate) fn lose_credits(&mut self) -> bool {
        let lane = VirtualLane(0);
        let flow_controls = self.ports.iter_mut().filter(|port| port.cabling.is_some()).map(|port| &mut port.flow_control);
        let mut with_credits = flow_controls.filter(|flow_control: &&mut FlowControl| flow_control.counts_credits());
        let found = with_credits.find(|flow_control| flow_control.permits(lane, CreditBlocks(1)));
        found.map(|flow_control| flow_control.consume(lane, CreditBlocks(1))).is_some()
    }
}
