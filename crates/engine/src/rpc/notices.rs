//! Notices of the World: passes them on to programs, most of them as asynchronous events.

use crate::engine::{Engine, Event, Pace};
use crate::host::objects::{self, About, Object};
use softband_fabric::notice::Notice;
use softband_ipc::calls;
use softband_sim::SimDuration;
use softband_types::{HcaId, ProcessId};

/// Asynchronous event, numbered as in `enum ibv_event_type`.
const EVENT_CQ_ERROR: u32 = 0;

impl Engine {
    /// Passes on a notice of the fabric.
    pub(crate) fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Completed { process, cq, completion } => self.completed(process, cq, &completion),
            Notice::CqEvent { process, cq } => self.cq_event(process, cq),
            Notice::CqError { process, cq } => {
                if let Some(hca) = self.cqs.get(&cq.0).map(|record| record.hca) {
                    self.async_event(process, HcaId(hca), EVENT_CQ_ERROR, cq.0);
                }
            }
            Notice::MemoryWritten { process, whole } => self.touch_memory(process, whole),
            Notice::QpEvent { process, hca, qpn, event } => {
                self.publish_queue_pair(hca, qpn);
                if self.world.find_qp(hca, qpn).is_some() {
                    self.async_event(process, hca, event, qpn.0);
                }
            }
            // Programs do not get events of an object that no longer exists.
            Notice::SrqEvent { process, hca, srq, event } if self.world.query_srq(process, srq).is_ok() => {
                self.async_event(process, hca, event, srq.0);
            }
            // The engine keeps its own wake-ups.
            Notice::SrqEvent { .. } | Notice::Wakeup { .. } => {}
            Notice::Deadlock { waits, is_broken_up } => self.deadlocked(waits, is_broken_up),
            Notice::HostDied { host } => self.host_died(host),
            Notice::PortEvent { hca, port, event } => {
                self.port_changed(hca, port);
                self.note_groups_changed();
                let mut nth = 0;
                while let Some(process) = self.processes.nth_living(nth) {
                    nth += 1;
                    self.async_event(ProcessId(process as u32), hca, event, u32::from(port.0));
                }
            }
        }
    }

    /// Handles a deadlock. In simulated time a permanent deadlock ends the run. In wall pace
    /// programs may not need the stuck packets.
    fn deadlocked(&mut self, waits: String, is_broken_up: bool) {
        if is_broken_up {
            self.warn(format!(
                "deadlock in the fabric: {waits}; switches discard packets there when head_of_queue_lifetime or packet_life_time is over"
            ));
        } else if self.pace == Pace::Virtual {
            self.deadlock.get_or_insert(waits);
        } else {
            self.warn(format!("deadlock in the fabric: {waits}; with head_of_queue_lifetime = 18 switches would discard packets there"));
        }
    }

    fn async_event(&mut self, process: ProcessId, hca: HcaId, event: u32, element: u32) {
        let at = self.now + self.wakeup_of(process);
        for channel in self.objects.async_channel(process.0, hca.0) {
            if let Some(Object::AsyncChannel { events, .. }) = self.objects.get_mut(channel) {
                events.push_back((at, event, element));
                self.queue.push(at, u32::MAX, Event::ObjectChanged { object: channel });
            }
        }
    }

    /// Drops the unread events of a destroyed object, and returns their number.
    pub(crate) fn drop_async_events(&mut self, process: ProcessId, hca: HcaId, about: About, element: u32) -> calls::Count {
        let channels = self.objects.async_channel(process.0, hca.0);
        let mut count = 0;
        for channel in &channels {
            count += self.objects.get_mut(*channel).map_or(0, |channel| objects::drop_async_events(channel, about, element)) as u64;
        }
        // Each of several contexts got the events, and the program cannot match them to contexts.
        calls::Count { count: if channels.len() == 1 { count } else { 0 } }
    }

    pub(crate) fn wakeup_of(&self, process: ProcessId) -> SimDuration {
        if self.pace == Pace::Wall {
            return SimDuration::ZERO; // in wall pace a wakeup costs the host's own time
        }
        self.world.spec().hosts[self.processes[process.0 as usize].host].part.event_wakeup
    }
}
