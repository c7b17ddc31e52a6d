//! Notices of the World: passes them on to programs, most of them as asynchronous events.

use crate::engine::Engine;
use crate::scheduler::agenda::Event;
use softband_fabric::notice::Notice;
use softband_ipc::calls::readiness;
use softband_types::{HcaId, ProcessId};

/// Asynchronous event, numbered as in `enum ibv_event_type`.
const EVENT_CQ_ERROR: u32 = 0;

impl Engine {
    /// Passes on a notice of the fabric.
    pub(super) fn notice(&mut self, notice: Notice) {
        if is_for_kernel(&notice) {
            return self.host_calls().kernel_notice(&notice);
        }
        match notice {
            Notice::Completed { process, cq, completion } => self.verbs().completed(process, cq, &completion),
            Notice::CqEvent { process, cq } => self.plane().cq_event(process, cq),
            Notice::CqError { process, cq } => {
                if let Some(hca) = self.cqs.get(cq.0).map(|record| record.hca()) {
                    self.async_event(process, hca, EVENT_CQ_ERROR, cq.0);
                }
            }
            Notice::MemoryWritten { process, span, last, whole, by_peer } => {
                self.scheduler.touch_memory(&mut self.processes, process, (whole, by_peer));
                self.pass_on_dma(process, span, last);
            }
            Notice::QpEvent { process, hca, qpn, event } => {
                self.plane().publish_queue_pair(hca, qpn);
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
            Notice::ManagementArrived { hca, port, packet } => {
                if !self.host_calls().kernels_take((hca, port), &packet) && !self.verbs().cm_arrived((hca, port), &packet) {
                    self.verbs().mad_arrived((hca, port), &packet);
                }
            }
            Notice::FrameSent { .. } | Notice::FrameArrived { .. } => self.host_calls().kernel_notice(&notice),
            Notice::Deadlock { waits, is_broken_up } => self.deadlocked(waits, is_broken_up),
            Notice::HostDied { host } => self.host_died(host),
            // Programs send past the engine only where no link is off.
            Notice::LinkSwitched => self.publish_all(),
            Notice::PortEvent { hca, port, event } => {
                self.port_changed(hca, port);
                self.host_calls().kernels_port_event((hca, port), event);
                self.verbs().note_groups_changed();
                self.verbs().cm_port_event((hca, port), event);
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
        } else if self.scheduler.is_wall() {
            self.warn(format!("deadlock in the fabric: {waits}; with head_of_queue_lifetime = 18 switches would discard packets there"));
        } else {
            self.report.note_deadlock(waits);
        }
    }

    fn async_event(&mut self, process: ProcessId, hca: HcaId, event: u32, element: u32) {
        let at = self.scheduler.now() + self.plane().wakeup_of(process);
        for channel in self.host.add_async_event(process.0, hca.0, (at, event, element)) {
            self.scheduler.push(at, u32::MAX, Event::ObjectChanged { object: channel, edge: readiness::ANY });
        }
    }

    /// Shows a write of an HCA to the processes that share the memory. Their pollers look when the
    /// message has ended. Like the owner of the memory, they see it at the time of the write.
    fn pass_on_dma(&mut self, owner: ProcessId, span: (u64, u64), last: bool) {
        let process = owner.0 as usize;
        if !self.processes.note_dma(process, span) {
            return;
        }
        self.memory.show_soon(owner);
        if last {
            let now = self.scheduler.now();
            for reader in self.processes.take_readers_of_dma(process) {
                if self.processes[reader].is_alive() {
                    self.scheduler.touch_shared(&mut self.processes, reader, now);
                }
            }
        }
    }
}

/// Returns whether a notice concerns an object of a kernel.
pub(super) fn is_for_kernel(notice: &Notice) -> bool {
    let (Notice::Completed { process, .. }
    | Notice::CqEvent { process, .. }
    | Notice::CqError { process, .. }
    | Notice::MemoryWritten { process, .. }
    | Notice::QpEvent { process, .. }
    | Notice::SrqEvent { process, .. }) = notice
    else {
        return false;
    };
    process.kernel_host().is_some()
}
