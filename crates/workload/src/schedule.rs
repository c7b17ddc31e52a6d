//! Content of a workload: steps of ranks, and the dependencies between steps.

mod play;

use crate::protocol::Protocol;
pub use play::Cause;
use softband_types::{Mtu, ServiceLevel};

/// Action of a rank in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends messages to another rank, or to itself.
    Send {
        /// Receiver.
        to: u32,
        /// Payload of each message in bytes, up to 2^30.
        bytes: u32,
        /// Number of messages. 0 is a step that is done at once.
        messages: u32,
        /// Number by which a receive selects the message.
        tag: u32,
    },
    /// Receives a message.
    Receive {
        /// Sender.
        from: u32,
        /// Number that the message must have.
        tag: u32,
    },
    /// Computes on a processor of the host.
    Calculate {
        /// Time in nanoseconds.
        nanos: u64,
        /// Number of the processor. Steps on the same processor of a rank take turns.
        cpu: u32,
    },
}

/// Step of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Rank that executes the step.
    pub rank: u32,
    /// Index of its phase.
    pub phase: u16,
    /// Action of the rank.
    pub action: Action,
}

impl Step {
    /// Returns the payload of all its messages, in bytes.
    pub fn bytes(&self) -> u64 {
        match self.action {
            Action::Send { bytes, messages, .. } => u64::from(bytes) * u64::from(messages),
            _ => 0,
        }
    }
}

/// Event of a step that another step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// End of the step.
    UntilDone,
    /// Beginning of the step.
    UntilBegun,
}

/// Whole workload: steps by number, and their dependencies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Number of ranks.
    pub ranks: u32,
    /// Names of the phases.
    pub phases: Vec<String>,
    /// Steps, by number from 0.
    pub steps: Vec<Step>,
    /// Pairs of an earlier and a later step, both of the same rank. The later step begins only
    /// after the earlier step is done, or has begun.
    pub order: Vec<(u32, u32, Wait)>,
    /// Most outstanding messages of a step, at least 1.
    pub window: u32,
    /// Messages per requested completion, from 1 to `window`. The last message of a step also
    /// requests a completion.
    pub completion_interval: u32,
    /// Whether ranks read the clock before each post and at each completion, as bandwidth programs do.
    pub reads_clock: bool,
    /// Whether messages are RDMA writes instead of sends.
    pub writes: bool,
    /// Whether every message needs a step that receives it, even if the schedule has no receives.
    pub receives_all: bool,
    /// MTU of all connections; `None` selects the path MTU of each.
    pub mtu: Option<Mtu>,
    /// Service level of all connections, unless routing sets another level for the path.
    pub service_level: ServiceLevel,
    /// Protocol of the library that carries the messages. `None` makes a request of each message.
    /// The protocol fixes the operation, the completions and the window.
    pub protocol: Option<Protocol>,
}

/// The waiting steps of each step: one list for all, and the start of each step's range.
pub(crate) struct Followers {
    starts: Vec<u32>,
    list: Vec<(u32, Wait)>,
}

impl Followers {
    pub(crate) fn of(&self, step: u32) -> &[(u32, Wait)] {
        &self.list[self.starts[step as usize] as usize..self.starts[step as usize + 1] as usize]
    }
}

/// Reason why no run can complete a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Each step waits for the next, for its cause, and the last step waits for the first.
    #[error("steps wait for each other in a cycle")]
    Cycle(Vec<(u32, Cause)>),
    /// A send has no matching receive.
    #[error("a send has no matching receive")]
    Unreceived {
        /// Number of the send.
        step: u32,
    },
    /// A receive has no matching send.
    #[error("a receive has no matching send")]
    Unsent {
        /// Number of the receive.
        step: u32,
    },
}

impl Schedule {
    /// Creates a workload without steps, with a window of 1 and a completion for each message.
    pub fn new(ranks: u32) -> Self {
        Self { ranks, window: 1, completion_interval: 1, ..Self::default() }
    }

    /// Adds a step to the newest phase. Returns its number.
    pub fn push(&mut self, rank: u32, action: Action) -> u32 {
        if self.phases.is_empty() {
            self.phases.push("all".into());
        }
        self.steps.push(Step { rank, phase: (self.phases.len() - 1) as u16, action });
        (self.steps.len() - 1) as u32
    }

    /// Begins a phase: later steps belong to it.
    pub fn phase(&mut self, name: impl Into<String>) {
        self.phases.push(name.into());
    }

    /// Makes a step wait until another step of its rank is done. Ranks wait for each other only by
    /// messages.
    pub fn after(&mut self, earlier: u32, later: u32) {
        debug_assert_eq!(self.steps[earlier as usize].rank, self.steps[later as usize].rank);
        self.order.push((earlier, later, Wait::UntilDone));
    }

    /// Returns whether ranks receive their messages step by step.
    pub fn has_receives(&self) -> bool {
        self.receives_all || self.steps.iter().any(|step| matches!(step.action, Action::Receive { .. }))
    }

    /// Returns, for each rank, whether it acts or another rank acts with it.
    pub(crate) fn ranks_that_take_part(&self) -> Vec<bool> {
        let mut takes_part = vec![false; self.ranks as usize];
        for step in &self.steps {
            takes_part[step.rank as usize] = true;
            if let Action::Send { to: other, .. } | Action::Receive { from: other, .. } = step.action {
                takes_part[other as usize] = true;
            }
        }
        takes_part
    }

    /// Checks that a run can complete the schedule.
    ///
    /// The check cannot know the arrival order of messages with the same ranks and tag. So some
    /// arrival order may still block a checked schedule.
    ///
    /// # Errors
    /// If messages and receives do not match, or if steps wait in a cycle, also across ranks.
    pub fn check(&self) -> Result<(), ScheduleError> {
        let ends = play::Ends::of(self);
        if self.has_receives() {
            ends.check(self)?;
        }
        play::check(self, &ends)
    }

    /// Returns the waiting steps of each step.
    pub(crate) fn followers(&self) -> Followers {
        let mut starts = vec![0u32; self.steps.len() + 1];
        self.order.iter().for_each(|(earlier, _, _)| starts[*earlier as usize + 1] += 1);
        (1..starts.len()).for_each(|step| starts[step] += starts[step - 1]);
        let mut next = starts.clone();
        let mut list = vec![(0, Wait::UntilDone); self.order.len()];
        for (earlier, later, wait) in &self.order {
            let place = &mut next[*earlier as usize];
            list[*place as usize] = (*later, *wait);
            *place += 1;
        }
        Followers { starts, list }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_named_by_its_steps() {
        let mut schedule = Schedule::new(1);
        let steps: Vec<u32> = (0..4).map(|_| schedule.push(0, Action::Calculate { nanos: 1, cpu: 0 })).collect();
        schedule.after(steps[0], steps[1]);
        schedule.after(steps[1], steps[2]);
        schedule.after(steps[2], steps[1]);
        schedule.after(steps[2], steps[3]);
        let order = Cause::Order(Wait::UntilDone);
        assert_eq!(schedule.check(), Err(ScheduleError::Cycle(vec![(1, order), (2, order)])));
    }

    #[test]
    fn a_message_that_nobody_receives_is_found_before_the_run() {
        let mut schedule = Schedule::new(2);
        schedule.push(1, Action::Receive { from: 0, tag: 5 });
        schedule.push(0, Action::Send { to: 1, bytes: 8, messages: 1, tag: 5 });
        assert_eq!(schedule.check(), Ok(()));
        schedule.push(0, Action::Send { to: 1, bytes: 8, messages: 1, tag: 6 });
        assert_eq!(schedule.check(), Err(ScheduleError::Unreceived { step: 2 }));
        schedule.push(1, Action::Receive { from: 0, tag: 6 });
        schedule.push(1, Action::Receive { from: 1, tag: 6 });
        assert_eq!(schedule.check(), Err(ScheduleError::Unsent { step: 4 }));
    }
}
