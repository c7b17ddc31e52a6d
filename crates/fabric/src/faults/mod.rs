//! The room of faults: links that go down and come up, bit errors, lost packets, dead hosts and
//! switches.
//!
//! A manager can keep links off besides. The plan and the manager alone decide whether a link is
//! down at a time, never the event order of a World. A partitioned fabric therefore loses the same
//! packets. A fault from a command joins the plan at that moment.

mod plan;

pub use plan::FaultCounters;
pub(crate) use plan::{LinkChange, Loss};

use crate::numbering::Numbering;
use crate::traffic::Traffic;
use plan::Plan;
use softband_model::packet::PacketKind;
use softband_sim::{RandomStream, SimTime};
use softband_spec::FabricSpec;
use softband_spec::faults::{FaultKind, FaultSpec};
use softband_types::Lid;

/// The faults of a fabric, planned and random.
pub(crate) struct Faults {
    seed: u64,
    /// The fault plan and its state; `None` without faults.
    plan: Option<Box<Plan>>,
    /// Packets lost on arrival, in parts per million.
    loss_ppm: u32,
    random: RandomStream,
}

/// A change of a link's state at one end.
pub(crate) struct Turn {
    /// `Some` if the link has just gone down, or come up.
    pub goes_down: Option<bool>,
    /// End of a retraining that begins now.
    pub recovers_until: Option<SimTime>,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, plan: None, loss_ppm: 0, random: RandomStream::new(seed, 0) }
    }

    /// Adds faults to the plan. Returns the changes of links that are new.
    pub(crate) fn add(&mut self, spec: &FabricSpec, numbering: &Numbering, faults: &[FaultSpec]) -> Vec<LinkChange> {
        self.plan_mut(spec, numbering).add(spec, faults, |fault| match fault.kind {
            FaultKind::Drop { port, .. } => Some(numbering.port_of(port)),
            _ => None,
        })
    }

    /// Lets a manager keep a port's link off, beside the plan. It is off from `times.0` up
    /// to but not including `times.1`, in place of all that the manager wanted from `times.0` on.
    /// Returns the changes that are new.
    pub(crate) fn switch_off(&mut self, spec: &FabricSpec, numbering: &Numbering, port: u32, times: (SimTime, SimTime)) -> Vec<LinkChange> {
        self.plan_mut(spec, numbering).switch_off(port, times.0, times.1)
    }

    fn plan_mut(&mut self, spec: &FabricSpec, numbering: &Numbering) -> &mut Plan {
        let seed = self.seed;
        self.plan.get_or_insert_with(|| {
            let ends = spec.cables.iter().map(|cable| cable.ends.map(|end| numbering.port_of(end))).collect();
            Box::new(Plan::new(seed, ends, numbering.owners().len()))
        })
    }

    /// Makes HCAs lose `ppm` of a million arriving packets from now on.
    pub(crate) fn lose_at_random(&mut self, ppm: u32) {
        self.loss_ppm = ppm;
    }

    /// Checks whether packets are lost at random.
    pub(crate) fn has_random_losses(&self) -> bool {
        self.loss_ppm > 0
    }

    /// Decides by chance whether an arriving packet is lost.
    #[inline]
    pub(crate) fn draws_loss(&mut self) -> bool {
        self.loss_ppm > 0 && self.random.next_u64() % 1_000_000 < u64::from(self.loss_ppm)
    }

    /// Checks whether the fabric has a fault plan.
    #[inline]
    pub(crate) fn has_plan(&self) -> bool {
        self.plan.is_some()
    }

    /// Returns all planned faults, in order of time.
    pub(crate) fn planned(&self) -> &[FaultSpec] {
        self.plan.as_ref().map_or(&[], |plan| plan.faults())
    }

    /// Returns all changes of links.
    pub(crate) fn turns(&self) -> Vec<LinkChange> {
        self.plan.as_ref().map_or_else(Vec::new, |plan| plan.turns())
    }

    /// Checks whether a port's link is down, according to past events.
    pub(crate) fn is_link_down(&self, port: u32) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.ports[port as usize].is_down)
    }

    /// Checks whether a port's link, down until now, comes up at `now`.
    pub(crate) fn comes_up(&self, port: u32, now: SimTime) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.ports[port as usize].is_down && !plan.is_down(port, now))
    }

    /// Checks whether the plan or a manager has a port's link down at `at`.
    #[inline]
    pub(crate) fn will_be_down(&self, port: u32, at: SimTime) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.is_down(port, at))
    }

    /// Checks for a fault at `at` or later that affects a port's link or a packet on it.
    pub(crate) fn is_affected_from(&self, port: u32, at: SimTime) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.is_affected_from(port, at))
    }

    /// Takes in the change of a port's link at `now`.
    pub(crate) fn turn(&mut self, port: u32, now: SimTime) -> Turn {
        let Some(plan) = &mut self.plan else { return Turn { goes_down: None, recovers_until: None } };
        let recovers_until = plan.recovers_until(port, now);
        let is_down = plan.is_down(port, now);
        let state = &mut plan.ports[port as usize];
        let was_down = std::mem::replace(&mut state.is_down, is_down);
        state.counters.link_downed += u64::from(is_down && !was_down);
        state.counters.link_error_recovery += u64::from(recovers_until.is_some());
        Turn { goes_down: (was_down != is_down).then_some(is_down), recovers_until }
    }

    /// Returns the fate of packet `number` of port `by`, on the cable from `sent` to `received`,
    /// and the number of its wrong bits.
    pub(crate) fn loss(&mut self, by: u32, times: (SimTime, SimTime), packet: (&PacketKind, u64, u32)) -> Option<(Loss, u32)> {
        self.plan.as_mut()?.loss(by, times, packet)
    }

    /// Checks whether the link was down at any time of a packet's transmission.
    pub(crate) fn is_cut(&self, port: u32, sent: SimTime, received: SimTime) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.is_cut(port, sent, received))
    }

    /// Counts a packet of `bytes` bytes that never reached a port.
    pub(crate) fn count_lost(&mut self, port: u32, bytes: u32, dlid: Lid) {
        if let Some(plan) = &mut self.plan {
            plan.ports[port as usize].lost.count(bytes, dlid);
        }
    }

    /// Counts a packet that reached a port with `errors` wrong bits.
    pub(crate) fn count_corrupted(&mut self, port: u32, errors: u32) {
        if let Some(plan) = &mut self.plan {
            let counters = &mut plan.ports[port as usize].counters;
            counters.port_rcv_errors += 1;
            counters.symbol_error += u64::from(errors);
        }
    }

    /// Returns a port's fault counters; `None` in a fabric without faults.
    pub(crate) fn counters(&self, port: u32) -> Option<FaultCounters> {
        self.plan.as_ref().map(|plan| plan.ports[port as usize].counters)
    }

    /// Returns the traffic that a port's peer sent and the port did not receive.
    pub(crate) fn lost(&self, port: u32) -> Traffic {
        self.plan.as_ref().map_or(Traffic::default(), |plan| plan.ports[port as usize].lost)
    }
}
