//! What a host does by itself: a thread for each rank that posts and polls, and what is due at some time.

use softband_fabric::World;
use softband_sim::{SimDuration, SimTime};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Completions that one look takes, as perftest's programs do.
pub(crate) const POLL_BATCH: usize = 16;

/// What verbs cost a thread, by the host's part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    pub post_send: SimDuration,
    pub post_receive: SimDuration,
    pub poll: SimDuration,
    pub clock: SimDuration,
}

impl Costs {
    pub(crate) fn of(world: &World, host: usize, reads_clock: bool) -> Self {
        let part = &world.spec().hosts[host].part;
        let clock = if reads_clock { part.clock_read } else { SimDuration::ZERO };
        Self { post_send: part.post_send, post_receive: part.post_receive, poll: part.poll_cq, clock }
    }
}

/// A completion that a thread has not looked at yet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen {
    /// Messages of a step up to this one.
    Sent {
        step: u32,
        index: u32,
    },
    Received {
        step: u32,
    },
}

/// What polls and posts for a rank.
pub(crate) struct Thread {
    pub clock: SimTime,
    /// It polls in vain; whatever comes is seen when it comes.
    pub parked: bool,
    pub ring: VecDeque<Seen>,
    /// Steps that have something to post, by turns.
    pub open: VecDeque<u32>,
    pub costs: Costs,
}

/// What is due at some time, beside the events of the World.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    Look { rank: u32 },
    Calculated { step: u32 },
}

/// In the order of time, then as it was put in.
#[derive(Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<(SimTime, u64, Due)>>,
    count: u64,
}

impl Agenda {
    pub(crate) fn push(&mut self, at: SimTime, due: Due) {
        self.heap.push(Reverse((at, self.count, due)));
        self.count += 1;
    }
    pub(crate) fn next_time(&self) -> Option<SimTime> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }
    pub(crate) fn pop(&mut self) -> Option<(SimTime, Due)> {
        self.heap.pop().map(|Reverse((at, _, due))| (at, due))
    }
}
