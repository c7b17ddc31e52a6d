//! The World in windows.
//!
//! Partitions of a fabric interact by packets and flow-control messages, and both need at least a
//! cable's delay. Within a window no longer than that, events in a partition cannot affect another
//! partition. Work that needs the whole fabric runs at the end of the window that requested it.
//! This also holds with one partition, so results do not depend on the number of partitions.

use crate::notice::Notice;
use crate::pdes::partition::only_cables;
use crate::world::World;
use softband_model::verbs::api::HostMemory;
use softband_sim::{SimDuration, SimTime};
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

impl World {
    /// Delays work that needs the whole fabric to the end of a window from now on. Does nothing if
    /// a cable has no delay, or if packets are lost at random.
    pub fn work_in_windows(&mut self) {
        if let Some(lookahead) = lookahead(&self.spec).filter(|_| self.loss_ppm == 0) {
            self.queue.divide(lookahead);
        }
    }

    /// Executes at most `at_most` events, up to the first notice, and returns their number. Returns
    /// 0 at the end of a window that must end, or without events.
    pub fn run_in_window(&mut self, memory: &mut dyn HostMemory, notices: &mut Vec<Notice>, at_most: u64) -> u64 {
        let mut executed = 0;
        while executed < at_most {
            let Some((now, event)) = self.queue.pop() else { break };
            self.execute(event, memory, notices, now);
            executed += 1;
            if !self.deadlock_checks.is_empty() {
                if self.has_windows() { self.end_window() } else { self.check_deadlock_where_asked() }
            }
            if !notices.is_empty() {
                break;
            }
        }
        executed
    }

    /// Makes the current window stop at its end.
    pub fn end_window(&mut self) {
        self.queue.end_window_of(self.queue.now());
    }

    /// Continues after the end of a window. Returns whether events are left.
    pub fn next_window(&mut self) -> bool {
        self.check_deadlock_where_asked();
        self.queue.go_on();
        self.queue.next_time().is_some()
    }

    /// Opens the window that contains `time`, the earliest event time of all partitions.
    pub fn open_window(&mut self, time: SimTime) {
        self.queue.end_window_of(time);
    }

    pub(crate) fn has_windows(&self) -> bool {
        self.queue.has_windows()
    }
}
