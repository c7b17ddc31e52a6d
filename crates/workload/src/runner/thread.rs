//! The loop of a rank's thread: it polls for completions and posts messages.

use super::Runner;
use crate::connections::BASE;
use crate::progress::{Due, POLL_BATCH, Seen};
use crate::schedule::Action;
use softband_model::verbs::api::{ScatterGatherEntry, SendOperation, SendRequest};
use softband_sim::SimTime;

impl Runner {
    /// Wakes a parked thread for a poll at `at`.
    pub(super) fn rouse(&mut self, rank: u32, at: SimTime) {
        let thread = &mut self.threads[rank as usize];
        if std::mem::take(&mut thread.parked) {
            let at = at.max(thread.clock);
            self.wake_at(rank, at, Due::Poll { rank });
        }
    }

    /// Runs one round of a thread's loop: processes completions, then posts messages.
    pub(super) fn poll(&mut self, rank: u32, at: SimTime) {
        let thread = &mut self.threads[rank as usize];
        thread.clock = thread.clock.max(at);
        for _ in 0..thread.ring.len().min(POLL_BATCH) {
            self.charge_completion(rank);
            match self.threads[rank as usize].ring.pop_front() {
                Some(Seen::Sent { step, index }) => self.on_sent(rank, step, index),
                Some(Seen::Received { step }) => self.on_received(rank, step),
                None => break,
            }
        }
        while let Some(step) = self.threads[rank as usize].open.pop_front() {
            self.post_one(rank, step);
        }
        let thread = &mut self.threads[rank as usize];
        let next = thread.clock + thread.costs.poll;
        if thread.ring.is_empty() {
            // The next poll finds nothing unless a completion arrives before it.
            thread.clock = next;
            thread.parked = true;
        } else {
            self.wake_at(rank, next, Due::Poll { rank });
        }
    }

    /// Charges the part of a poll that each completion costs.
    pub(super) fn charge_completion(&mut self, rank: u32) {
        let thread = &mut self.threads[rank as usize];
        thread.clock += thread.costs.take_completion;
    }

    /// Processes a completion, which covers all messages of its step up to its own.
    fn on_sent(&mut self, rank: u32, step: u32, index: u32) {
        let Action::Send { bytes, messages, .. } = self.schedule.steps[step as usize].action else { return };
        let thread = &mut self.threads[rank as usize];
        thread.clock += thread.costs.clock;
        let now = thread.clock;
        let state = &mut self.states[step as usize];
        let count = index + 1 - state.retired;
        state.retired = index + 1;
        let (done, goes_on) = (state.retired == messages, state.posted < messages);
        let flow = &mut self.flows[self.flow_of_step[step as usize] as usize];
        flow.outstanding -= count;
        flow.tally.completed(now, count, u64::from(bytes) * u64::from(count));
        for step in std::mem::take(&mut flow.blocked) {
            self.open(step);
        }
        if goes_on {
            self.open(step);
        }
        if done {
            self.finish(step, now);
        }
    }

    fn on_received(&mut self, rank: u32, step: Option<u32>) {
        let thread = &mut self.threads[rank as usize];
        // The rank replaces the receive request that the message consumed.
        thread.clock += thread.costs.post_receive;
        let now = thread.clock;
        let Some(sender) = step.and_then(|step| self.schedule.steps.get(step as usize)).copied() else { return };
        let Action::Send { tag, .. } = sender.action else { return };
        self.take_message((sender.rank, rank, tag), now);
    }

    pub(super) fn open(&mut self, step: u32) {
        let rank = self.schedule.steps[step as usize].rank;
        if !std::mem::replace(&mut self.states[step as usize].is_open, true) {
            self.threads[rank as usize].open.push_back(step);
        }
    }

    /// Posts the next message of a step, if its window and the queue have room.
    fn post_one(&mut self, rank: u32, step: u32) {
        self.states[step as usize].is_open = false;
        let Action::Send { bytes, messages, .. } = self.schedule.steps[step as usize].action else { return };
        let state = self.states[step as usize];
        if state.posted == messages || state.posted - state.retired >= self.schedule.window {
            return;
        }
        let flow = &mut self.flows[self.flow_of_step[step as usize] as usize];
        if flow.outstanding == flow.depth {
            flow.blocked.push(step);
            return;
        }
        flow.outstanding += 1;
        let thread = &mut self.threads[rank as usize];
        thread.clock += thread.costs.clock;
        flow.tally.posted(thread.clock);
        thread.clock += thread.costs.post_send;
        let at = thread.clock;
        let interval = self.schedule.completion_interval;
        let signaled = state.posted % interval == interval - 1 || state.posted + 1 == messages;
        self.states[step as usize].posted += 1;
        thread.clock += thread.costs.flush;
        self.post(at, step, bytes, (state.posted, signaled));
        if state.posted + 1 < messages {
            self.open(step);
        }
    }

    /// Posts a message to the World. If ranks match messages, each message carries the number of its step.
    fn post(&mut self, at: SimTime, step: u32, bytes: u32, (index, signaled): (u32, bool)) {
        let flow = &self.flows[self.flow_of_step[step as usize] as usize];
        let (own, peer) = (self.endpoints[flow.from as usize], self.endpoints[flow.to as usize]);
        let immediate = self.matches_receives.then_some(step);
        let operation = match self.schedule.writes {
            true => SendOperation::RdmaWrite { remote_address: BASE, rkey: peer.rkey, immediate },
            false => SendOperation::Send { immediate },
        };
        let entry = ScatterGatherEntry { address: BASE, len_bytes: bytes, lkey: own.lkey };
        let request = SendRequest {
            wr_id: u64::from(step) << 32 | u64::from(index),
            operation,
            signaled,
            solicited: false,
            fence: false,
            inline: None,
            entries: if bytes == 0 { Vec::new() } else { vec![entry] },
            datagram: None,
            xrc_srq: None,
        };
        self.world.post_send(at, own.process, own.hca, flow.qpn, request);
    }
}
