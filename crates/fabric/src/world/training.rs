//! Links that a manager restarts, disables or enables, and the rates to which they train.

use super::World;
use crate::notice::Notice;
use softband_model::management::agent::trained_rate;
use softband_sim::{SimDuration, SimTime};
use softband_types::LinkRate;

/// Time from the request of a manager to disable or enable a port to the change of its link: the
/// response leaves before. Assumed.
const LINK_SWITCHING: SimDuration = SimDuration::from_nanos(20_000);
/// Time that a link needs from Polling to LinkUp. Assumed.
const LINK_TRAINING: SimDuration = SimDuration::from_nanos(1_000_000);

impl World {
    /// Starts the links again that a manager has set to Down, at both ends.
    pub(super) fn restart_links(&mut self, port: u32, node: u32, now: SimTime) {
        for number in self.agents.agent_mut(node).take_restarts() {
            let Some(end) = self.links.sibling(port, number.0) else { continue };
            let present = self.links.cabling(end);
            if present.is_some() && self.rate_of_training(end) != present.map(|cabling| cabling.rate) {
                self.train_again(end, now);
                continue;
            }
            for end in [Some(end), present.map(|cabling| cabling.peer)].into_iter().flatten() {
                self.report_link_change(end, now);
            }
        }
    }

    /// Takes down the links whose ports a manager has disabled, and lets enabled ones come up.
    pub(super) fn switch_links(&mut self, port: u32, node: u32, now: SimTime) {
        for number in self.agents.agent_mut(node).take_switched() {
            if let Some(end) = self.links.sibling(port, number.0) {
                self.train_again(end, now);
            }
        }
    }

    /// Takes a port's link down. It comes up again if both of its ports are enabled, and have a rate
    /// in common.
    fn train_again(&mut self, end: u32, now: SimTime) {
        let Some(cabling) = self.links.cabling(end) else { return };
        let is_disabled = |end: &u32| self.agents.agent(self.links.node(*end)).is_disabled(self.links.number(*end));
        let stays_down = [end, cabling.peer].iter().any(is_disabled) || self.rate_of_training(end).is_none();
        let from = now + LINK_SWITCHING;
        let until = if stays_down { SimTime::MAX } else { from + LINK_TRAINING };
        for at in self.keep_link_off(end, (from, until)) {
            self.timeline.report(at, self.links.node(end), Notice::LinkSwitched);
        }
    }

    /// Lets a port take the rate to which its link has trained. A link without a common rate of its
    /// ends stays down.
    pub(super) fn take_trained_rate(&mut self, port: u32, now: SimTime) {
        if !self.links.framing(port).has_lane_15() || !self.faults.comes_up(port, now) {
            return;
        }
        match self.rate_of_training(port) {
            Some(rate) => self.links.retrain(&self.spec, &self.numbering, port, rate),
            None => drop(self.keep_link_off(port, (now, SimTime::MAX))),
        }
    }

    /// Returns the rate to which a port's link trains; `None` without a cable or a common rate.
    fn rate_of_training(&self, port: u32) -> Option<LinkRate> {
        let ends = [port, self.links.cabling(port)?.peer];
        let trainable = ends.map(|end| self.agents.agent(self.links.node(end)).trainable(self.links.number(end)));
        let [Some(own), Some(other)] = trainable else { return None };
        trained_rate(&[own, other], self.links.full_rate(port)?)
    }
}
