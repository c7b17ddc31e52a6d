//! The World node by node: see [`softband_sim::WindowQueue`].
//!
//! Nodes reach each other by packets and by what is said about buffers, and both take a cable's delay at least.

use crate::notice::Notice;
use crate::timeline::Timeline;
use crate::world::World;
use softband_model::verbs::api::HostMemory;
use softband_sim::{SimDuration, SimTime};
use softband_types::HcaId;

impl World {
    /// From now on works node by node instead of by time alone, which is faster in large fabrics and gives each node the same life. Only
    /// before the first event, and for those who need no notice of one host before those of another. Stays as it was where a cable takes
    /// no time, or where packets are lost by the draw.
    pub fn work_in_windows(&mut self) {
        let delays = self.ports.iter().filter_map(|port| port.cabling).map(|cabling| cabling.delay);
        let Some(lookahead) = delays.min().filter(|delay| *delay > SimDuration::ZERO && self.loss_ppm == 0) else { return };
        assert!(self.queue.next_time().is_none(), "nothing has been scheduled yet");
        self.queue = Timeline::in_windows(self.hcas.len() + self.switches.len(), lookahead);
    }

    /// Executes the next event; in windows false at the end of one.
    pub fn step_in_window(&mut self, memory: &mut dyn HostMemory, notices: &mut Vec<Notice>) -> bool {
        let Some((now, event)) = self.queue.pop() else { return false };
        self.execute(event, memory, notices, now);
        if self.queue.is_total() {
            self.look_where_asked(now);
        }
        true
    }

    /// Opens the next window, if anything is left to be done.
    pub fn next_window(&mut self) -> bool {
        let Some(end) = self.queue.window_end() else { return false };
        self.look_where_asked(end);
        let start = self.queue.next_time();
        start.inspect(|start| self.queue.open_window(*start)).is_some()
    }

    /// Whether events come in windows.
    pub fn has_windows(&self) -> bool {
        !self.queue.is_total()
    }

    /// Whether an HCA's events are executed here.
    pub fn has_hca(&self, _hca: HcaId) -> bool {
        true
    }

    /// The time of the latest event so far, of whichever node.
    pub fn latest(&self) -> SimTime {
        self.queue.latest()
    }
}
