//! Events: their order, and the rooms that handle them.

use super::World;
use crate::event::Event;
use crate::faults::Loss;
use crate::hca::Work;
use crate::notice::Notice;
use crate::pdes::lookahead;
use softband_model::verbs::api::HostMemory;
use softband_sim::SimTime;
use softband_types::{HcaId, VirtualLane};

impl World {
    /// Returns the time of the next event, or `None` if nothing is scheduled.
    pub fn next_event_time(&self) -> Option<SimTime> {
        self.timeline.next_time()
    }

    /// Returns the time of the last executed event, or zero before the first. After
    /// [`Self::look_at`] it is the time of that look, if it is later.
    pub fn now(&self) -> SimTime {
        self.timeline.now()
    }

    /// Returns the time and node of the last executed event.
    pub fn present(&self) -> (SimTime, u32) {
        (self.timeline.now(), self.timeline.node())
    }

    /// Schedules a [`Notice::Wakeup`] with `token` at `at`, after all other events of an HCA at
    /// that instant.
    ///
    /// # Panics
    /// If `at` lies before [`World::now`].
    pub fn wake_at(&mut self, hca: HcaId, at: SimTime, token: u32) {
        self.timeline.push_last(at, hca.0, Event::Wakeup { token });
    }

    /// Executes the next event and appends its program-visible effects to `notices`. Does nothing
    /// if no event is left.
    pub fn step(&mut self, memory: &mut dyn HostMemory, notices: &mut Vec<Notice>) {
        while self.run_in_window(memory, notices, 1) == 0 && self.next_window() {}
    }

    /// Delays work that needs the whole fabric to the end of a window from now on. Does nothing if
    /// a cable has no delay, or if packets are lost at random.
    pub fn work_in_windows(&mut self) {
        if let Some(lookahead) = lookahead(&self.spec).filter(|_| !self.faults.has_random_losses()) {
            self.timeline.divide(lookahead);
        }
    }

    /// Executes at most `at_most` events, up to the first notice, and returns their number. Returns
    /// 0 at the end of a window that must end, or without events.
    pub fn run_in_window(&mut self, memory: &mut dyn HostMemory, notices: &mut Vec<Notice>, at_most: u64) -> u64 {
        let mut executed = 0;
        while executed < at_most {
            let Some((now, event)) = self.timeline.pop() else { break };
            self.execute(event, memory, notices, now);
            executed += 1;
            if self.links.wants_deadlock_check() {
                if self.timeline.has_windows() { self.end_window() } else { self.check_deadlock_where_asked() }
            }
            if !notices.is_empty() {
                break;
            }
        }
        executed
    }

    // Inlined, because the event loop is the only caller.
    #[inline(always)]
    fn execute(&mut self, event: Event, memory: &mut dyn HostMemory, notices: &mut Vec<Notice>, now: SimTime) {
        let (hcas, mut hop) = self.split();
        let hop = &mut hop;
        let takes_part = hcas.takes_part_in_plans(hop.timeline.node());
        if takes_part {
            hcas.cut_before(hop, event);
        }
        match event {
            Event::Doorbell { post } => hcas.on_doorbell(hop, post, memory, now),
            Event::WqeFetched { qp_ref } => hcas.on_wqe_fetched(hop, qp_ref, memory, now),
            Event::QueueResumed { qp_ref } => hcas.on_queue_resumed(hop, qp_ref, memory, now),
            Event::ReceivePosted { post } => hcas.on_receive_posted(hop.timeline, post, now),
            Event::EngineFree { hca, engine } => hcas.on_engine_free(hop, hca, engine, memory, now),
            Event::InjectionDue { qp, side } => hcas.on_injection_due(hop, Work { qp, side }, memory, now),
            Event::LevelDue { port, level } => hcas.on_level_due(hop, port, level, memory, now),
            Event::PacketReady { packet } => hcas.on_packet_ready(hop, packet, memory, now),
            Event::PortDue { port } => {
                let is_due = hop.is_due(port);
                if !hcas.has_plan(port) {
                    if let Some(departing) = hop.on_port_due(port, now) {
                        hcas.on_departed(hop, port, departing, memory, now);
                    }
                    if is_due && hop.may_plan(port) {
                        hcas.begin_plan(hop, port, now);
                    }
                }
            }
            Event::QueueWatch { port } => hop.on_queue_watch(port, now),
            Event::FrameArrival { packet } => hop.on_frame_arrival(packet, now),
            Event::FramePosted { frame } => hcas.on_frame_posted(hop, frame, now),
            Event::HcaArrival { packet } => hcas.on_hca_arrival(hop, packet, memory, now),
            Event::TrainArrival { source, train } => hcas.on_train_arrival(hop, (source, train), memory, now),
            Event::SwitchDiscard { packet } => hop.on_switch_discard(packet, now),
            Event::LostOnCable { packet } => hop.on_lost(packet, Loss::LinkDown, now),
            Event::Corrupted { packet } => hop.on_lost(packet, Loss::Corrupted, now),
            Event::DiscardedByPort { packet, output } => hop.on_discarded_by_port(packet, output, now),
            Event::HostDies { host } => notices.push(Notice::HostDied { host: host as usize }),
            Event::InMemory { dma_write } => hcas.on_in_memory(hop, dma_write, memory, notices, now),
            Event::BufferFree { port, lane, blocks } => hop.on_buffer_free(port, VirtualLane(lane), blocks, now),
            Event::Completed { completion } => hcas.on_completed(completion, notices, now),
            Event::AckTimer { qp } => hcas.on_ack_timer(hop, qp, memory, now),
            Event::ReceiverWaited { qp_ref } => hcas.on_receiver_waited(hop, qp_ref, memory, now),
            Event::ReplyReady { qp } => hcas.on_reply_ready(hop, qp, memory, now),
            Event::Report { notice } => notices.push(hop.timeline.take_report(notice)),
            Event::Wakeup { token } => notices.push(Notice::Wakeup { token }),
            Event::Lane15Due { .. }
            | Event::ManagementPosted { .. }
            | Event::ManagementArrival { .. }
            | Event::AgentDone { .. }
            | Event::ManagerDue
            | Event::KeyViolation { .. }
            | Event::ForeignAtSwitch { .. }
            | Event::TrapsDue { .. }
            | Event::LinkTurns { .. } => return self.manage(event, memory, notices, now),
        }
        if takes_part || hop.has_ending() {
            let (moment, node) = (hop.timeline.moment(), hop.timeline.node());
            hcas.watch_silence(hop, node, now);
            while let Some(id) = hop.take_ending() {
                hcas.end_train(hop, id, moment);
            }
            hcas.plan_on(hop, node, now);
        }
    }

    /// Executes an event of the subnet's management or of its faults. It may change or observe any
    /// link, so trains end first.
    #[inline(never)]
    fn manage(&mut self, event: Event, memory: &mut dyn HostMemory, notices: &mut Vec<Notice>, now: SimTime) {
        let (hcas, mut hop) = self.split();
        let hop = &mut hop;
        hcas.end_plans(hop, hop.timeline.moment());
        // Attempts of ports to send come after it at its node.
        hop.dissolve_all(SimTime::from_picos(now.as_picos().saturating_sub(1)));
        match event {
            Event::Lane15Due { port } => {
                if let Some(departing) = hop.on_lane15_due(port, now) {
                    hcas.on_departed(hop, port, departing, memory, now);
                }
            }
            Event::ManagementPosted { packet } => self.on_management_posted(packet, notices, now),
            Event::ManagementArrival { packet } => self.on_management_arrival(packet, notices, now),
            Event::AgentDone { node } => self.on_agent_done(node, notices, now),
            Event::ManagerDue => self.on_manager_due(now),
            Event::KeyViolation { violation } => self.on_key_violation(violation, now),
            Event::ForeignAtSwitch { violation } => {
                let violation = hop.links.take_foreign(violation);
                self.report_violation(violation, now);
            }
            Event::TrapsDue { node } => self.on_traps_due(node, notices, now),
            Event::LinkTurns { port } => self.on_link_turns(port, memory, now),
            _ => unreachable!("only events of management and faults come here"),
        }
    }

    /// Makes the current window stop at its end.
    pub fn end_window(&mut self) {
        self.timeline.end_window_of(self.timeline.now());
    }

    /// Continues after the end of a window. Returns whether events are left.
    pub fn next_window(&mut self) -> bool {
        self.check_deadlock_where_asked();
        self.timeline.go_on();
        self.timeline.next_time().is_some()
    }

    /// Opens the window that contains `time`, the earliest event time of all partitions.
    pub fn open_window(&mut self, time: SimTime) {
        self.timeline.end_window_of(time);
    }
}
