//! Plans: the next departures of an HCA's port, computed before their time.
//!
//! In the middle of a message, each departure makes room for the next packet, whose payload then comes
//! over the bus. Nothing else takes part, so a plan computes departures and reads in one go. An event
//! at the HCA takes back all that comes after it.

mod silent;

use super::{Hcas, Hop, Work};
use crate::event::Event;
use crate::link::{Departing, Light, Load, Staged};
use crate::pdes::timeline::{Source, Timeline};
use softband_model::bus::{Bus, ReadMark};
use softband_model::packet::PacketKind;
use softband_model::parts::HcaPart;
use softband_model::transport::Side;
use softband_sim::{Moment, SimDuration, SimTime};
use softband_types::{Psn, VirtualLane};
use std::collections::VecDeque;

/// Packets that a plan reads ahead of time: at first, and at most. Longer plans lose more when they are
/// taken back.
const PLAN_FIRST: u32 = 6;
const PLAN_MOST: u32 = 24;
/// A plan for fewer packets is not worth its beginning.
const PLAN_LEAST: u32 = 4;
/// A plan whose train ended after fewer packets was not worth it.
const READ_LEAST: u32 = 16;
/// Attempts to send without a plan after a plan that was not worth it: twice as many each time.
const PATIENCE_LEAST: u32 = 32;
const PATIENCE_MOST: u32 = 4_096;

/// The next departures of a port, and its state behind them.
pub(in crate::hca) struct Plan {
    qp: u32,
    lane: VirtualLane,
    /// The port of the receiver.
    target: u32,
    light: Light,
    /// Packets in the HCA, in the order in which they leave.
    waiting: VecDeque<Staged>,
    state: Outlet,
    steps: Vec<Step>,
    marks: Vec<ReadMark>,
    /// Packets of the message that are read ahead of time, and all since the plan began.
    read: u32,
    reads: u32,
    /// Reads whose requests have not reached the host.
    requests: VecDeque<SimTime>,
    /// An event has taken back the end of the plan.
    is_cut: bool,
    /// Longest time of a packet in the receive buffer, if arrivals can be silent: see `silence`.
    stay: Option<SimDuration>,
    /// Time in which the port sends a light packet, on average at least.
    spacing: SimDuration,
    /// While arrivals are silent: the message's first PSN, and a PSN behind the plan.
    silent: Option<(Psn, Psn)>,
    /// PSN behind the packets of the plan.
    next: Psn,
}

/// Restraint of a port whose trains end soon.
#[derive(Clone, Copy)]
pub(in crate::hca) struct Restraint {
    /// Attempts to send until the next plan, and after the next failure.
    pause: u32,
    patience: u32,
}

impl Default for Restraint {
    fn default() -> Self {
        Self { pause: 0, patience: PATIENCE_LEAST }
    }
}

impl Restraint {
    /// Counts an attempt to send. Returns whether a plan may begin.
    fn allows(&mut self) -> bool {
        let is_over = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        is_over
    }

    /// Notes that the train of a plan has ended, after so many packets read ahead of time.
    fn note_end(&mut self, reads: u32) {
        if reads >= READ_LEAST {
            return *self = Self::default();
        }
        self.pause = self.patience;
        self.patience = (self.patience * 2).min(PATIENCE_MOST);
    }
}

/// State of a port, beside its packets.
#[derive(Clone, Copy)]
struct Outlet {
    /// Size of the packet on the link, and the time at which the link is free.
    on_link: Option<u32>,
    until: SimTime,
    /// Packets and bytes in the staging buffer.
    held: (u32, u32),
    ready_last: SimTime,
}

/// The changes at a port at one instant: a packet has left, a packet begins to leave, a packet is read.
struct Step {
    at: SimTime,
    launched: Option<Staged>,
    /// A packet is read: `marks` has the state of the bus before.
    reads: bool,
    before: Outlet,
}

impl Plan {
    /// Lets the requests of reads reach the host, as long as `has_come` accepts their times.
    fn ask_host(&mut self, bus: &mut Bus, has_come: impl Fn(SimTime) -> bool) {
        while let Some(at) = self.requests.front().copied().filter(|at| has_come(*at)) {
            bus.ask_host(at, bus.requests(self.light.len));
            self.requests.pop_front();
        }
    }
}

impl Outlet {
    /// Returns the state after the packet on the link has left.
    fn departed(self) -> Self {
        let held = self.on_link.map_or(self.held, |bytes| (self.held.0 - 1, self.held.1 - bytes));
        Self { on_link: None, held, ..self }
    }

    fn has_place(self, part: &HcaPart) -> bool {
        self.held.0 < part.transmit_staging_packets.max(1) && part.transmit_staging_bytes.is_none_or(|most| self.held.1 < most)
    }
}

impl Hcas {
    #[inline]
    pub(crate) fn has_plans(&self) -> bool {
        self.plans > 0
    }

    /// Checks whether a node is an HCA that sends or receives planned packets.
    #[inline]
    pub(crate) fn takes_part_in_plans(&self, node: u32) -> bool {
        self.plans > 0 && self.nodes.get(node as usize).is_some_and(|hca| hca.plans > 0)
    }

    /// Checks whether departures of a port are planned.
    pub(crate) fn has_plan(&self, port: u32) -> bool {
        self.plans > 0 && self.ports.get(port as usize).is_some_and(|port| port.plan.is_some())
    }

    /// Brings an HCA up to the present event there, and takes back all plans behind the event, unless the
    /// event cannot change them.
    pub(crate) fn cut_before(&mut self, hop: &mut Hop<'_>, event: Event) {
        if matches!(event, Event::Completed { .. } | Event::Report { .. } | Event::Wakeup { .. }) {
            return;
        }
        if matches!(event, Event::TrainArrival { .. } | Event::HcaArrival { .. }) {
            self.catch_up_at(hop, hop.timeline.node(), hop.timeline.moment());
        }
        match event {
            Event::TrainArrival { .. } => return,
            Event::HcaArrival { packet } => return self.cut_before_arrival(hop, packet),
            _ => {}
        }
        if !matches!(event, Event::PortDue { port } if !hop.is_due(port)) {
            self.cut_at(hop, hop.timeline.node());
        }
    }

    /// Takes back all steps at a node that are planned behind the present event.
    pub(super) fn cut_at(&mut self, hop: &mut Hop<'_>, node: u32) {
        let moment = hop.timeline.moment();
        self.catch_up_at(hop, node, moment);
        for port in self.ports_of(node) {
            self.cut(hop, port, moment);
        }
    }

    /// As [`Self::cut_before`], for the arrival of a packet. In the middle of a message, it is a write on
    /// the bus, and no more.
    fn cut_before_arrival(&mut self, hop: &mut Hop<'_>, packet: u32) {
        let node = hop.timeline.node();
        let is_middle = match hop.links.in_flight(packet).packet.kind {
            PacketKind::Send { position, .. } | PacketKind::Write { position, .. } => position.is_middle(),
            _ => false,
        };
        if is_middle { self.ask_host_until(node, hop.timeline.moment()) } else { self.cut_at(hop, node) }
    }

    /// Ends the plan of a port before a packet that was not planned.
    #[cold]
    pub(super) fn end_plan_now(&mut self, hop: &mut Hop<'_>, port: u32) {
        self.cut(hop, port, hop.timeline.moment());
        self.end_plan(hop, port);
    }

    /// Plans on behind an event at an HCA.
    pub(crate) fn plan_on(&mut self, hop: &mut Hop<'_>, node: u32, now: SimTime) {
        for port in self.ports_of(node) {
            let is_cut = self.ports[port as usize].plan.as_ref().is_some_and(|plan| plan.is_cut);
            if is_cut && !self.extend(hop, port, now) {
                self.end_plan(hop, port);
            }
        }
    }

    /// Ends all plans. All events before `moment` have happened.
    #[cold]
    pub(crate) fn end_plans(&mut self, hop: &mut Hop<'_>, moment: Moment) {
        for port in 0..self.ports.len() as u32 {
            self.cut(hop, port, moment);
            self.end_plan(hop, port);
        }
    }

    /// Ends the trains with plans that met others.
    #[cold]
    pub(crate) fn end_train(&mut self, hop: &mut Hop<'_>, port: u32, moment: Moment) {
        self.cut(hop, port, moment);
        if let Some(reads) = self.ports[port as usize].plan.as_ref().map(|plan| plan.reads) {
            self.ports[port as usize].restraint.note_end(reads);
        }
        self.end_plan(hop, port);
        hop.end_train(port, moment.time);
    }

    fn ports_of(&self, node: u32) -> std::ops::Range<u32> {
        self.nodes.get(node as usize).map_or(0..0, |hca| hca.first_port..hca.first_port + u32::from(hca.part.ports))
    }

    /// Plans the next departures of a port with a train, if nothing but the middle of a message is to
    /// leave there.
    pub(crate) fn begin_plan(&mut self, hop: &mut Hop<'_>, port: u32, now: SimTime) {
        let Some((target, lane)) = hop.train_of(port) else { return };
        let hca = self.ports[port as usize].hca;
        if !self.ports[port as usize].restraint.allows() && !hop.seeks_trains() || self.nodes[hca as usize].plans_of_own > 0 {
            return;
        }
        let Some((light, next)) = self.light_of(hop, port, (target, lane)) else { return };
        let Some((time, _)) = hop.times_of_train(port, light.bytes) else { return };
        let Some(waiting) = hop.take_waiting(port) else { return };
        let (departing, until) = hop.take_departure(port);
        let staged = self.ports[port as usize].staged(lane);
        if staged.held != waiting.len() as u32 + u32::from(departing.is_some()) {
            // A packet to a queue pair of this port holds a place, too.
            return hop.end_plan(port, waiting.into_iter(), departing);
        }
        let held = (staged.held, staged.held_bytes);
        let ready_last = self.slot(light.from).map_or(SimTime::ZERO, |slot| slot.ready_last[Side::Requester as usize]);
        let plan = Plan {
            qp: light.from,
            lane,
            target,
            light,
            waiting,
            state: Outlet { on_link: departing.map(|departing| departing.bytes), until, held, ready_last },
            steps: Vec::with_capacity(3 * PLAN_MOST as usize),
            marks: Vec::with_capacity(PLAN_MOST as usize),
            read: 0,
            reads: 0,
            requests: VecDeque::with_capacity(2 * PLAN_MOST as usize),
            is_cut: true,
            stay: self.silence(hop, port, target, &light),
            spacing: self.spacing(port, light.len, time),
            silent: None,
            next,
        };
        self.ports[port as usize].plan = Some(Box::new(plan));
        self.count_plan(hca, target, 1);
        if !self.extend(hop, port, now) {
            self.end_plan(hop, port);
        }
    }

    /// Returns the light packets that a port could send by its train to a port, on a lane, and the PSN
    /// of the first.
    fn light_of(&mut self, hop: &mut Hop<'_>, port: u32, (target, lane): (u32, VirtualLane)) -> Option<(Light, Psn)> {
        let work = self.sole_work(port, lane)?;
        let slot = self.slot(work.qp)?;
        let (a, requester) = (&slot.qp.attributes, &slot.qp.requester);
        let middles = requester.middles(a, slot.qp.hca, &self.verbs).filter(|middles| middles.count >= PLAN_LEAST)?;
        let node = &self.nodes[slot.qp.hca.0 as usize];
        let (shared, memory) = (&self.buses[node.shared_bus as usize], &self.memories[node.place.0]);
        let lids = hop.subnet.lids(port);
        let packet = requester.middle_packet(a, lids).filter(|packet| !lids.contains(packet.dlid))?;
        let is_ahead = self.injection.is_none() && node.bus.reads_ahead(shared, memory, middles.len);
        if !is_ahead || self.lane_at(hop.links, port, packet.service_level) != lane {
            return None;
        }
        let to = self.receiver_of(hop, &packet, target)?;
        let light = Light { from: work.qp, to, writes: middles.writes, len: middles.len, bytes: packet.bytes(hop.links.framing(port)) };
        hop.model_light(port, packet, light).then_some((light, middles.psn))
    }

    /// Counts plans: in all, and at the HCAs at both ends.
    fn count_plan(&mut self, hca: u32, target: u32, change: i32) {
        self.plans = self.plans.saturating_add_signed(change);
        self.nodes[hca as usize].plans_of_own = self.nodes[hca as usize].plans_of_own.saturating_add_signed(change);
        for hca in [hca, self.ports[target as usize].hca] {
            let node = &mut self.nodes[hca as usize];
            node.plans = node.plans.saturating_add_signed(change);
        }
    }

    /// Returns the work that waits for a place at a port, if it is a requester in the middle of a message
    /// and its HCA has no other.
    fn sole_work(&mut self, port: u32, lane: VirtualLane) -> Option<Work> {
        let at = &mut self.ports[port as usize];
        let parked = &at.staged(lane).parked;
        let work = *parked.front().filter(|work| parked.len() == 1 && work.side == Side::Requester)?;
        let hca = at.hca;
        let slot = self.slot(work.qp)?;
        // No packet of the plan sets the timer.
        let deadline = slot.qp.requester.deadline();
        let is_timed = deadline.is_none_or(|deadline| slot.timer_at.is_some_and(|at| at <= deadline));
        (is_timed && self.nodes[hca as usize].ready.is_empty()).then_some(work)
    }

    /// Plans on from the state behind the plan. Returns `false` if nothing can be planned there.
    fn extend(&mut self, hop: &mut Hop<'_>, port: u32, now: SimTime) -> bool {
        self.catch_up(hop, port, hop.timeline.moment());
        if !self.may_extend(port) {
            return false;
        }
        let Some(mut plan) = self.ports[port as usize].plan.take() else { return false };
        plan.is_cut = false;
        let next = self.plan_steps(hop, port, &mut plan, now);
        let is_longer = !plan.steps.is_empty();
        self.ports[port as usize].plan = Some(plan);
        if let Some(at) = next.filter(|_| is_longer) {
            hop.wake_plan(port, at);
            return true;
        }
        self.cut(hop, port, hop.timeline.moment());
        false
    }

    /// Checks whether a port is as its plan left it.
    fn may_extend(&mut self, port: u32) -> bool {
        let Some((qp, lane, state)) = self.ports[port as usize].plan.as_ref().map(|plan| (plan.qp, plan.lane, plan.state)) else { return false };
        let staged = self.ports[port as usize].staged(lane);
        let is_held = (staged.held, staged.held_bytes) == state.held;
        let is_last = self.slot(qp).is_some_and(|slot| slot.ready_last[Side::Requester as usize] == state.ready_last);
        is_held && is_last && self.sole_work(port, lane).is_some_and(|work| work.qp == qp)
    }

    /// Plans departures. Returns the time of the first that is not planned; `None` if there is none.
    fn plan_steps(&mut self, hop: &mut Hop<'_>, port: u32, plan: &mut Plan, now: SimTime) -> Option<SimTime> {
        let hca = self.ports[port as usize].hca;
        hop.forget_launches(port, now);
        let slot = self.qps[plan.qp as usize].as_deref()?;
        let Light { writes, len, bytes, .. } = plan.light;
        let middles = slot
            .qp
            .requester
            .middles(&slot.qp.attributes, slot.qp.hca, &self.verbs)
            .filter(|middles| (middles.writes, middles.len) == (writes, len))?;
        let count = middles.count.min((plan.reads * 2).clamp(PLAN_FIRST, PLAN_MOST));
        let range = (middles.message_psn, middles.psn.plus(count));
        plan.next = middles.psn;
        let receiving = self.slot(plan.light.to)?.qp.hca.0;
        plan.silent = plan.stay.map(|_| range);
        plan.silent = plan.silent.filter(|_| self.will_take(hop, port, plan) && self.reads_no_faster(receiving, plan));
        if plan.silent.is_none() {
            hop.announce_arrivals(port);
        }
        let receiver = &self.nodes[receiving as usize];
        let silence = plan.stay.filter(|_| plan.silent.is_some()).map(|stay| (stay, receiver.bus.write_backlog(now)));
        let node = &mut self.nodes[hca as usize];
        let memory = &self.memories[node.place.0];
        loop {
            let before = plan.state;
            let at = match before.on_link {
                Some(_) => before.until,
                None => plan.waiting.front()?.at.max(before.until),
            };
            let mut after = before.departed();
            let reads = before.on_link.is_some() && after.has_place(&node.part);
            let full = Outlet { held: (after.held.0 + 1, after.held.1 + bytes), ..after };
            if reads && (plan.read == count || full.has_place(&node.part)) {
                return Some(at);
            }
            let launched = plan.waiting.front().copied().filter(|staged| staged.at <= at);
            if let Some(staged) = launched {
                let Some(departure) = hop.launch_ahead(port, staged, at, silence) else { return Some(at) };
                (after.on_link, after.until) = (Some(departure.bytes), departure.until);
                plan.waiting.pop_front();
            }
            if reads {
                let (end, mark) = node.bus.read_ahead(memory, at, len);
                after.ready_last = after.ready_last.max(end + node.part.transmit_processing);
                after.held = full.held;
                plan.waiting.push_back(Staged { at: after.ready_last, load: Load::Light(middles.psn.plus(plan.read)) });
                plan.requests.push_back(at);
                plan.read += 1;
                plan.next = plan.next.plus(1);
                plan.marks.push(mark);
            }
            plan.state = after;
            plan.steps.push(Step { at, launched, reads, before });
        }
    }

    /// Takes back all planned steps of a port from `moment` on, and lets those before it have happened.
    pub(super) fn cut(&mut self, hop: &mut Hop<'_>, port: u32, moment: Moment) {
        // A plan that is cut already has nothing to take back, and the event may have changed its HCA.
        let Some(mut plan) = self.ports[port as usize].plan.take_if(|plan| !plan.is_cut) else { return };
        let hca = self.ports[port as usize].hca;
        let node = &mut self.nodes[hca as usize];
        let place = ((port - node.first_port) as u8, Source::Due);
        while let Some(step) = plan.steps.pop_if(|step| Timeline::moment_of(step.at, hca, place) >= moment) {
            if step.reads {
                if let Some(mark) = plan.marks.pop() {
                    node.bus.go_back(&mark, plan.light.len);
                }
                plan.waiting.pop_back();
                plan.requests.pop_back();
                plan.read -= 1;
                plan.next = plan.next.previous();
            }
            if let Some(staged) = step.launched {
                hop.take_launch_back(port, staged);
                plan.waiting.push_front(staged);
            }
            plan.state = step.before;
        }
        self.ports[port as usize].plan = Some(plan);
        self.catch_up_at(hop, hca, moment);
        self.catch_up(hop, port, moment);
        let Some(mut plan) = self.ports[port as usize].plan.take() else { return };
        let node = &mut self.nodes[hca as usize];
        plan.steps.clear();
        plan.marks.clear();
        plan.is_cut = true;
        hop.show_departures(port, SimTime::MAX);
        plan.ask_host(&mut node.bus, |_| true);
        (self.ports[port as usize].staged(plan.lane).held, self.ports[port as usize].staged(plan.lane).held_bytes) = plan.state.held;
        if let Some(slot) = self.slot_mut(plan.qp) {
            slot.ready_last[Side::Requester as usize] = plan.state.ready_last;
            let read = std::mem::take(&mut plan.read);
            plan.reads += read;
            slot.qp.requester.pass_middles(&slot.qp.attributes, read, moment.time);
        }
        self.ports[port as usize].plan = Some(plan);
    }

    /// Ends the plan of a port. All that is left of it has happened.
    pub(super) fn end_plan(&mut self, hop: &mut Hop<'_>, port: u32) {
        let Some(plan) = self.ports[port as usize].plan.take() else { return };
        self.count_plan(self.ports[port as usize].hca, plan.target, -1);
        let departing = plan.state.on_link.map(|bytes| Departing { lane: plan.lane, bytes, completes: None });
        hop.end_plan(port, plan.waiting.into_iter(), departing);
    }
}
