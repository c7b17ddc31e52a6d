//! The World node by node: see [`softband_sim::WindowQueue`].
//!
//! Nodes reach each other by packets and by what is said about buffers, and both take a cable's delay at least.

use crate::event::Event;
use crate::notice::Notice;
use crate::spec::FabricSpec;
use crate::timeline::Timeline;
use crate::world::World;
use softband_model::verbs::api::HostMemory;
use softband_sim::{SimDuration, SimTime};
use std::hint::black_box;

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
        self.look_ahead();
        self.execute(event, memory, notices, now);
        if self.queue.is_total() {
            self.look_where_asked();
        }
        true
    }

    /// Reads what the next events will need: of a large fabric it is not in the cache, and the processor can wait for it while it works on
    /// this one.
    fn look_ahead(&self) {
        if let Some(Event::SwitchArrival { packet } | Event::HcaArrival { packet } | Event::PacketReady { packet }) = self.queue.upcoming(3) {
            black_box(self.packets.get(packet).bytes);
        }
        match self.queue.upcoming(1) {
            Some(Event::SwitchArrival { packet }) => {
                let transit = self.packets.get(packet);
                self.ports[transit.output as usize].touch();
                black_box(self.ports[transit.port as usize].node);
            }
            Some(Event::HcaArrival { packet }) => {
                let transit = self.packets.get(packet);
                black_box((transit.packet.psn, self.ports[transit.port as usize].node));
            }
            Some(Event::LinkFree { port }) => self.ports[port as usize].touch(),
            Some(Event::BufferFree { port, .. }) => {
                if let Some(cabling) = self.ports[port as usize].cabling {
                    black_box(&self.ports[cabling.peer as usize].flow_control.next_arrival());
                }
            }
            _ => {}
        }
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
