//! The World in windows.
//!
//! Partitions of a fabric reach each other by packets and by flow control. Both take a cable's delay at least. So within a window of at most
//! this delay, no event of a partition can matter to another one. Work that needs the whole fabric runs at the end of the window in which an
//! event asks for it. A fabric with a single partition does the same, so results do not depend on the number of partitions.

use crate::notice::Notice;
use crate::partition::only_cables;
use crate::spec::FabricSpec;
use crate::world::World;
use softband_model::verbs::api::HostMemory;
use softband_sim::{SimDuration, SimTime};

/// How long partitions of a fabric take to reach each other at least, however it is divided; `None` when that is no time.
pub fn lookahead(spec: &FabricSpec) -> Option<SimDuration> {
    let only = only_cables(spec);
    let shortest = |all: bool| {
        let cables = spec.cables.iter().zip(&only).filter(|(_, only)| all || only.is_none());
        cables.map(|(cable, _)| cable.part.delay(cable.rate)).min()
    };
    shortest(false).or_else(|| shortest(true)).filter(|delay| *delay > SimDuration::ZERO)
}

impl World {
    /// From now on what needs the whole fabric waits for the end of a window. Stays as it was where a cable takes no time, or where packets
    /// are lost by the draw.
    pub fn work_in_windows(&mut self) {
        if let Some(lookahead) = lookahead(&self.spec).filter(|_| self.loss_ppm == 0) {
            self.queue.divide(lookahead);
        }
    }

    /// Executes events until there is something to be noticed, at most so many; how many. None at the end of a window that is to be ended,
    /// or when none is left.
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

    /// Ends the window at hand where it ends, instead of going on.
    pub fn end_window(&mut self) {
        self.queue.end_window_of(self.queue.now());
    }

    /// Goes on after the end of a window, if anything is left to be done.
    pub fn next_window(&mut self) -> bool {
        self.check_deadlock_where_asked();
        self.queue.go_on();
        self.queue.next_time().is_some()
    }

    /// Works up to the end of the window that `time` lies in: of all partitions of a fabric the earliest time at which something happens.
    pub fn open_window(&mut self, time: SimTime) {
        self.queue.end_window_of(time);
    }

    pub(crate) fn has_windows(&self) -> bool {
        self.queue.has_windows()
    }
}
