//! A cut-through switch: the output of a packet, and the time when its first bit leaves.

mod lifetime;
mod marking;

pub use lifetime::{LifetimeCode, PacketLifetimes};
pub use marking::MarkingSettings;

use crate::parts::SwitchPart;
use softband_sim::{SimDuration, SimTime};
use softband_types::{Lid, LinkSpeed};
use std::collections::{BTreeMap, BTreeSet};

/// Forwarding tables and timing of a switch.
pub struct Switch {
    /// Output port (0-based) of each unicast LID; `NOWHERE` if none was set.
    lft: Vec<u8>,
    /// Outputs of each multicast LID.
    mft: BTreeMap<Lid, MulticastEntry>,
    forward_latency: Vec<(LinkSpeed, SimDuration)>,
}

/// Outputs of packets for a group.
#[derive(Default)]
struct MulticastEntry {
    outputs: BTreeSet<u8>,
    /// Member that all others have a route to: off the tree, packets go towards it.
    root: Lid,
}

const NOWHERE: u8 = u8::MAX;

impl Switch {
    /// Creates a switch with empty tables.
    pub fn new(part: &SwitchPart) -> Self {
        Self { lft: Vec::new(), mft: BTreeMap::new(), forward_latency: part.forward_latency.clone() }
    }

    /// Sets the entry of `lid` in the linear forwarding table to the output with this index, from 0
    /// to 254.
    pub fn set_route(&mut self, lid: Lid, output: u8) {
        let index = usize::from(lid.0);
        if self.lft.len() <= index {
            self.lft.resize(index + 1, NOWHERE);
        }
        self.lft[index] = output;
    }

    /// Removes the entry of `lid` from the linear forwarding table.
    pub fn clear_route(&mut self, lid: Lid) {
        if let Some(entry) = self.lft.get_mut(usize::from(lid.0)) {
            *entry = NOWHERE;
        }
    }

    /// Returns the index of the output for `lid`, from 0, or `None` without an entry.
    pub fn route(&self, lid: Lid) -> Option<usize> {
        self.lft.get(usize::from(lid.0)).copied().filter(|output| *output != NOWHERE).map(usize::from)
    }

    /// Removes the outputs of a multicast LID.
    pub fn clear_multicast(&mut self, mlid: Lid) {
        self.mft.remove(&mlid);
    }

    /// Adds the output with this 0-based index to those of a multicast LID.
    pub fn add_multicast_output(&mut self, mlid: Lid, output: u8) {
        self.mft.entry(mlid).or_default().outputs.insert(output);
    }

    /// Removes the output with this 0-based index from those of a multicast LID.
    pub fn remove_multicast_output(&mut self, mlid: Lid, output: u8) {
        if let Some(entry) = self.mft.get_mut(&mlid) {
            entry.outputs.remove(&output);
        }
    }

    /// Sets the member towards which packets go from switches without outputs for the group.
    pub fn set_multicast_root(&mut self, mlid: Lid, root: Lid) {
        self.mft.entry(mlid).or_default().root = root;
    }

    /// Returns the 0-based outputs of a packet for a multicast LID, in their order.
    pub fn multicast_outputs(&self, mlid: Lid) -> Vec<u8> {
        let Some(entry) = self.mft.get(&mlid) else { return Vec::new() };
        if entry.outputs.is_empty() {
            return self.route(entry.root).map(|output| output as u8).into_iter().collect();
        }
        entry.outputs.iter().copied().collect()
    }

    /// Returns the time from first bit in to first bit out on a port of this speed. A speed without
    /// an entry has the last entry's.
    pub fn forward_latency(&self, speed: LinkSpeed) -> SimDuration {
        let exact = self.forward_latency.iter().find(|(of, _)| *of == speed);
        exact.or(self.forward_latency.last()).map_or(SimDuration::ZERO, |(_, latency)| *latency)
    }
}

/// Returns the time when a packet may go out. Its first bit came in at `head`; it goes out
/// `latency` later at the earliest.
///
/// If the output is faster than the input, the packet starts later. Otherwise the output would run
/// out of bits before the last has come.
pub fn ready_at(head: SimTime, latency: SimDuration, time_in: SimDuration, time_out: SimDuration) -> SimTime {
    let wait = if time_in > time_out { time_in - time_out } else { SimDuration::ZERO };
    head + latency + wait
}
