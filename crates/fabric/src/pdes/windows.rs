//! Windows: the spans in which partitions cannot affect each other.
//!
//! Partitions of a fabric interact by packets and flow-control messages, and both need at least a
//! cable's delay. Within a window no longer than that, events in a partition cannot affect another
//! partition. Work that needs the whole fabric runs at the end of the window that requested it.
//! This also holds with one partition, so results do not depend on the number of partitions.

use crate::pdes::partition::only_cables;
use softband_sim::SimDuration;
use softband_spec::FabricSpec;

/// Returns the least delay between partitions of a fabric, for any partitioning; `None` for a zero
/// delay.
pub fn lookahead(spec: &FabricSpec) -> Option<SimDuration> {
    let only = only_cables(spec);
    let shortest = |all: bool| {
        let cables = spec.cables.iter().zip(&only).filter(|(_, only)| all || only.is_none());
        cables.map(|(cable, _)| cable.part.delay(cable.rate)).min()
    };
    shortest(false).or_else(|| shortest(true)).filter(|delay| *delay > SimDuration::ZERO)
}
