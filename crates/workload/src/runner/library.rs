//! The loop of a rank whose library has a protocol of its own. The rank calls the library for each
//! step, in order, and then looks for completions until the next step can begin.
//!
//! The library has a queue for completions of receives and another for its own requests. It looks at
//! the first, and at the second if the first is empty. An empty look waits for news of either queue,
//! as in simulated time (`engine/process/looks`).

use super::Runner;
use super::transfer::{Arrival, Work};
use crate::connections::{Endpoint, port_view};
use crate::progress::{Due, POLL_BATCH, Seen};
use crate::protocol::{Limits, Protocol, RECEIVE_BATCH};
use crate::schedule::{Action, Schedule};
use softband_fabric::World;
use softband_sim::{SimDuration, SimTime};
use std::collections::{BTreeMap, VecDeque};

/// Queue of completions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Queue {
    #[default]
    Receives,
    Sends,
}

/// Library of a rank.
#[derive(Default)]
struct OfRank {
    limits: Limits,
    /// Completions of receives. Those of sends are in the thread's ring.
    received: VecDeque<Option<u32>>,
    /// Queue that the present look is at.
    queue: Queue,
    /// Consumed receive requests that the library has not yet replaced.
    consumed: u32,
}

/// State of the library at the sender of a flow.
#[derive(Default)]
pub(super) struct Sending {
    /// Requests since the last one with a completion.
    pub unsignaled: u32,
    /// Work that waits for room in the send queue.
    pub waiting: VecDeque<Work>,
}

/// Libraries of all ranks.
pub(super) struct Library {
    ranks: Vec<OfRank>,
    /// Flow from a rank to each other one by each queue pair, by rank.
    flows: Vec<BTreeMap<(u32, u32), u32>>,
    pub sending: Vec<Sending>,
    /// Messages that came before their receive began, by sender, receiver and tag.
    pub early: BTreeMap<(u32, u32, u32), VecDeque<Arrival>>,
    /// Receives of announced messages in transfer, by their send, with the reads that are left.
    pub reads: BTreeMap<u32, VecDeque<(u32, u32)>>,
}

impl Library {
    pub(super) fn new(
        protocol: &Protocol,
        world: &World,
        schedule: &Schedule,
        endpoints: &[Endpoint],
        flows: Vec<BTreeMap<(u32, u32), u32>>,
    ) -> Self {
        let limits = |of: &Endpoint| port_view(world, *of).map(|port| Limits::of(protocol, port, schedule.ranks));
        let ranks = endpoints.iter().map(|of| OfRank { limits: limits(of).unwrap_or_default(), ..OfRank::default() }).collect();
        let sending = (0..flows.iter().map(BTreeMap::len).sum()).map(|_| Sending::default()).collect();
        Self { ranks, flows, sending, early: BTreeMap::new(), reads: BTreeMap::new() }
    }

    pub(super) fn limits(&self, rank: u32) -> Limits {
        self.ranks[rank as usize].limits
    }

    /// Returns the flow from a rank to another by one of their queue pairs.
    pub(super) fn flow(&self, from: u32, to: u32, rail: u32) -> Option<u32> {
        self.flows[from as usize].get(&(to, rail)).copied()
    }

    pub(super) fn receive(&mut self, rank: u32, immediate: Option<u32>) {
        self.ranks[rank as usize].received.push_back(immediate);
    }
}

impl Runner {
    /// Looks at a queue of completions, and lets the rank go on.
    pub(super) fn look(&mut self, rank: u32, at: SimTime) {
        let thread = &mut self.threads[rank as usize];
        thread.clock = thread.clock.max(at);
        let Some(library) = &mut self.library else { return };
        let found = match library.ranks[rank as usize].queue {
            Queue::Receives => self.take_receives(rank),
            Queue::Sends => self.take_sends(rank),
        };
        let calls = !self.threads[rank as usize].open.is_empty();
        while let Some(step) = self.threads[rank as usize].open.pop_front() {
            self.states[step as usize].is_open = false;
            self.call(rank, step);
        }
        let Some(library) = &mut self.library else { return };
        let (own, thread) = (&mut library.ranks[rank as usize], &mut self.threads[rank as usize]);
        own.queue = match own.queue {
            _ if found || calls => Queue::Receives,
            Queue::Receives if !thread.ring.is_empty() => Queue::Sends,
            Queue::Sends if !own.received.is_empty() => Queue::Receives,
            _ => {
                thread.parked = true;
                return;
            }
        };
        let next = thread.clock + thread.costs.poll;
        self.wake_at(rank, next, Due::Poll { rank });
    }

    /// Processes completions of receives. Returns whether there were any.
    fn take_receives(&mut self, rank: u32) -> bool {
        let mut count = 0;
        while count < POLL_BATCH as u32 {
            let Some(received) = self.library.as_mut().and_then(|library| library.ranks[rank as usize].received.pop_front()) else { break };
            count += 1;
            self.charge_completion(rank);
            if let Some(immediate) = received {
                self.on_arrival(rank, immediate);
            }
        }
        let Some(library) = &mut self.library else { return false };
        let (own, thread) = (&mut library.ranks[rank as usize], &mut self.threads[rank as usize]);
        own.consumed += count;
        if own.consumed >= RECEIVE_BATCH {
            own.consumed -= RECEIVE_BATCH;
            (0..RECEIVE_BATCH).for_each(|_| thread.clock += thread.costs.post_receive);
        }
        count > 0
    }

    /// Processes completions of the library's own requests. Returns whether there were any.
    fn take_sends(&mut self, rank: u32) -> bool {
        let mut count = 0;
        while count < POLL_BATCH {
            let Some(seen) = self.threads[rank as usize].ring.pop_front() else { break };
            count += 1;
            self.charge_completion(rank);
            if let Seen::Sent { step, index } = seen {
                self.on_request_done(rank, step, index);
            }
        }
        count > 0
    }

    /// Carries out a step of the program.
    fn call(&mut self, rank: u32, step: u32) {
        match self.schedule.steps[step as usize].action {
            Action::Send { to, bytes, messages, .. } => (0..messages).for_each(|_| self.send(rank, to, step, bytes)),
            Action::Receive { from, tag } => self.begin_receive((from, rank, tag), step),
            Action::Calculate { nanos, .. } => {
                let thread = &mut self.threads[rank as usize];
                thread.clock += SimDuration::from_nanos(nanos);
                let now = thread.clock;
                self.finish(step, now);
            }
        }
    }
}
