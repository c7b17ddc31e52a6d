//! Activity of a host: a thread for each rank that posts and polls, and its timed actions.

use softband_fabric::World;
use softband_sim::{SimDuration, SimTime};
use std::collections::VecDeque;

/// Completions that one poll takes, as in perftest's programs.
pub(crate) const POLL_BATCH: usize = 16;

/// Costs of verbs calls for a thread, from the host's part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    pub post_send: SimDuration,
    /// After each post, while the request is on its way.
    pub flush: SimDuration,
    pub post_receive: SimDuration,
    pub poll: SimDuration,
    pub take_completion: SimDuration,
    pub clock: SimDuration,
}

impl Costs {
    pub(crate) fn of(world: &World, host: usize, reads_clock: bool) -> Self {
        let (part, hcas) = (&world.spec().hosts[host].part, &world.spec().hosts[host].hcas);
        let flushes = hcas.first().is_some_and(|hca| hca.part.entries.doorbell_carries_wqe);
        // A thread posts one request at a time.
        let flush = if flushes { part.write_combining_flush } else { SimDuration::ZERO };
        let clock = if reads_clock { part.clock_read } else { SimDuration::ZERO };
        Self { post_send: part.post_send, flush, post_receive: part.post_receive, poll: part.poll_cq, take_completion: part.take_completion, clock }
    }
}

/// A completion that a thread has not yet processed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen {
    /// Messages of a step up to this message.
    Sent { step: u32, index: u32 },
    /// A message of a step, if ranks match their messages.
    Received { step: Option<u32> },
}

/// The thread of a rank, which polls and posts.
pub(crate) struct Thread {
    pub clock: SimTime,
    /// Whether its polls find nothing. It sees the next completion when that arrives.
    pub parked: bool,
    pub ring: VecDeque<Seen>,
    /// Steps with messages to post, in turn.
    pub open: VecDeque<u32>,
    pub costs: Costs,
}

/// A timed action besides those of the World itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Poll { rank: u32 },
    Calculated { step: u32 },
}

impl Due {
    const CALCULATED: u32 = 1 << 31;

    /// Returns the form that the World stores.
    pub(crate) const fn token(self) -> u32 {
        match self {
            Self::Poll { rank } => rank,
            Self::Calculated { step } => step | Self::CALCULATED,
        }
    }

    pub(crate) const fn of_token(token: u32) -> Self {
        if token & Self::CALCULATED == 0 { Self::Poll { rank: token } } else { Self::Calculated { step: token & !Self::CALCULATED } }
    }
}
