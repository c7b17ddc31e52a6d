//! What a host does by itself: a thread for each rank that posts and polls, and what is due at some time.

use softband_fabric::World;
use softband_sim::{SimDuration, SimTime};
use std::collections::VecDeque;

/// Completions that one poll takes, as perftest's programs do.
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
    Sent { step: u32, index: u32 },
    /// A message of a step, where ranks learn of it.
    Received { step: Option<u32> },
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

/// An action that is due at some time, beside those of the World.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Poll { rank: u32 },
    Calculated { step: u32 },
}

impl Due {
    const CALCULATED: u32 = 1 << 31;

    /// As the World keeps it until then.
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
