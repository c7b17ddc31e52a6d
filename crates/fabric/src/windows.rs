//! The World node by node: see [`softband_sim::WindowQueue`].
//!
//! Nodes reach each other by packets and by what is said about buffers, and both take a cable's delay at least.

use crate::notice::Notice;
use crate::spec::FabricSpec;
use crate::timeline::Timeline;
use crate::world::World;
use softband_model::verbs::api::HostMemory;
use softband_sim::{SimDuration, SimTime};

/// How long nodes of a fabric take to reach each other at least; `None` when that is no time.
pub fn lookahead(spec: &FabricSpec) -> Option<SimDuration> {
    let delays = spec.cables.iter().map(|cable| cable.part.delay(cable.rate));
    delays.min().filter(|delay| *delay > SimDuration::ZERO)
}

impl World {
    /// From now on works node by node instead of by time alone, which is faster in large fabrics and gives each node the same life. Only
    /// before the first event, and for those who need no notice of one host before those of another. Stays as it was where a cable takes
    /// no time, or where packets are lost by the draw.
    pub fn work_in_windows(&mut self) {
        let Some(lookahead) = lookahead(&self.spec).filter(|_| self.loss_ppm == 0) else { return };
        assert!(self.queue.next_time().is_none(), "nothing has been scheduled yet");
        self.queue = Timeline::in_windows(self.hcas.len() + self.switches.len(), lookahead);
    }

    /// Executes the next event; in windows false at the end of one.
    pub fn step_in_window(&mut self, memory: &mut dyn HostMemory, notices: &mut Vec<Notice>) -> bool {
        let Some((now, event)) = self.queue.pop() else { return false };
        self.execute(event, memory, notices, now);
        if self.queue.is_total() {
            self.look_where_asked();
        }
        true
    }

    /// Opens the next window, if anything is left to be done.
    pub fn next_window(&mut self) -> bool {
        if !self.has_windows() {
            return false;
        }
        self.look_where_asked();
        let time = self.queue.next_time();
        time.inspect(|time| self.open_window(*time)).is_some()
    }

    /// Opens the window that `time` lies in: of all parts of a fabric the earliest time at which something happens.
    pub fn open_window(&mut self, time: SimTime) {
        self.queue.open_window(time);
    }

    /// Whether events come in windows.
    pub fn has_windows(&self) -> bool {
        !self.queue.is_total()
    }

    /// The time of the latest event so far, of whichever node.
    pub fn latest(&self) -> SimTime {
        self.queue.latest()
    }
}
