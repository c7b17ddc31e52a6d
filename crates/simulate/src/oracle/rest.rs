//! The end of a run: nothing is under way, and no request is lost.

use super::{Oracle, Rule, Violation};
use crate::memory::{Memory, SlotId};
use crate::plan::End;
use softband_fabric::World;
use softband_types::QpState;

impl Oracle {
    /// Judges a World without events.
    pub(crate) fn judge_rest(&mut self, world: &World, memory: &mut Memory) -> Result<(), Violation> {
        let ends: Vec<End> = self.ends.keys().copied().collect();
        for end in &ends {
            self.judge_end(*end, world, memory)?;
        }
        for end in ends {
            self.judge_delivery(end, memory)?;
        }
        self.atomics.judge_updates(memory)
    }

    fn judge_end(&mut self, end: End, world: &World, memory: &mut Memory) -> Result<(), Violation> {
        let record = &self.ends[&end];
        if !record.exists {
            return Ok(());
        }
        let lost = |why: String| Err(Violation::new(Rule::Progress, format!("{why} ({end:?})")));
        let Some((_, snapshot)) = world.find_qp(record.hca, record.qpn) else { return lost("the queue pair has gone".into()) };
        let state = snapshot.state;
        if let Some(sent) = record.sends.iter().find(|sent| sent.signaled) {
            return lost(format!("a signaled request has no completion in state {state:?}: {sent:?}"));
        }
        if state == QpState::Error && !record.receives.is_empty() {
            return lost(format!("the queue pair is in error, but {} receives were not flushed", record.receives.len()));
        }
        if !world.has_sent_all(record.hca, record.qpn) {
            return lost(format!("requests remain in the send queue in state {state:?}"));
        }
        // The rest are unsignaled requests that succeeded.
        let unsignaled: Vec<_> = self.ends.get_mut(&end).expect("just found").sends.drain(..).collect();
        unsignaled.iter().try_for_each(|sent| self.retire(end, sent, None, memory))
    }

    /// Checks that the peer received each message that completed successfully.
    fn judge_delivery(&self, end: End, memory: &Memory) -> Result<(), Violation> {
        let (own, peer) = (&self.ends[&end], &self.ends[&end.peer()]);
        // An answer to a repeated packet can acknowledge payload that is still on the bus. A
        // deregistration then takes its memory away.
        let holds_memory = !self.processes[peer.process].has_deregistered;
        let comparable = own.transport.is_reliable() && own.exists && peer.exists && own.generation == peer.generation && holds_memory;
        if comparable && own.acknowledged > own.delivered {
            let detail = format!("{} messages of {end:?} succeeded, but the peer received {}", own.acknowledged, own.delivered);
            return Err(Violation::new(Rule::Progress, detail));
        }
        let is_missing = |id: &&SlotId| memory.slots[**id].landed < memory.slots[**id].len_bytes && memory.is_open(**id);
        if comparable && own.late.iter().any(|id| is_missing(&id)) {
            return Err(Violation::new(Rule::Content, format!("a write of {end:?} succeeded, but its bytes never landed")));
        }
        if comparable && self.calm && own.delivered < own.outgoing.len() {
            let detail = format!("{} messages of {end:?} were posted, but the peer received {}", own.outgoing.len(), own.delivered);
            return Err(Violation::new(Rule::Progress, detail));
        }
        Ok(())
    }
}
