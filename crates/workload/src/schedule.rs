//! What a workload does: steps of ranks, and which of them wait for which others.

mod play;

pub use play::Cause;
use softband_types::{Mtu, ServiceLevel};

/// What one rank does in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `messages` messages of `bytes` each to another rank, or to itself.
    Send { to: u32, bytes: u32, messages: u32, tag: u32 },
    /// One message from a rank, with this tag.
    Receive { from: u32, tag: u32 },
    /// Work of the host itself, on one of its processors.
    Calculate { nanos: u64, cpu: u32 },
}

/// One step of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub rank: u32,
    pub phase: u16,
    pub action: Action,
}

impl Step {
    /// Payload of all that it sends.
    pub fn bytes(&self) -> u64 {
        match self.action {
            Action::Send { bytes, messages, .. } => u64::from(bytes) * u64::from(messages),
            _ => 0,
        }
    }
}

/// What of a step another one waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    UntilDone,
    UntilBegun,
}

/// A whole workload: steps by number, and who waits for whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    pub ranks: u32,
    pub phases: Vec<String>,
    pub steps: Vec<Step>,
    /// (earlier, later), both of one rank: the later one begins only when the earlier one is done, or has begun.
    pub order: Vec<(u32, u32, Wait)>,
    /// Messages that a step has outstanding at most.
    pub window: u32,
    /// Of the messages of a step every so many ask for a completion, and the last one.
    pub completion_interval: u32,
    /// The clock is read before each post and at each completion, as bandwidth programs do.
    pub reads_clock: bool,
    /// RDMA writes instead of sends.
    pub writes: bool,
    /// Every message needs a step that receives it, even if there is none at all.
    pub receives_all: bool,
    /// Of all connections; `None` for as much as the path of each carries.
    pub mtu: Option<Mtu>,
    /// Of all connections, unless routing has another one for the path.
    pub service_level: ServiceLevel,
}

/// Who waits for each step: one list of all, and where each step's part begins.
pub(crate) struct Followers {
    starts: Vec<u32>,
    list: Vec<(u32, Wait)>,
}

impl Followers {
    pub(crate) fn of(&self, step: u32) -> &[(u32, Wait)] {
        &self.list[self.starts[step as usize] as usize..self.starts[step as usize + 1] as usize]
    }
}

/// Why a schedule can never be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Each step cannot go on before the next one, for its cause, and the last one before the first.
    #[error("steps wait for each other in a cycle")]
    Cycle(Vec<(u32, Cause)>),
    #[error("a send has no matching receive")]
    Unreceived { step: u32 },
    #[error("a receive has no matching send")]
    Unsent { step: u32 },
}

impl Schedule {
    pub fn new(ranks: u32) -> Self {
        Self { ranks, window: 1, completion_interval: 1, ..Self::default() }
    }

    /// Adds a step to the newest phase; its number.
    pub fn push(&mut self, rank: u32, action: Action) -> u32 {
        if self.phases.is_empty() {
            self.phases.push("all".into());
        }
        self.steps.push(Step { rank, phase: (self.phases.len() - 1) as u16, action });
        (self.steps.len() - 1) as u32
    }

    pub fn phase(&mut self, name: impl Into<String>) {
        self.phases.push(name.into());
    }

    /// Lets a step wait until another one of its rank is done: ranks wait for each other by messages only.
    pub fn after(&mut self, earlier: u32, later: u32) {
        debug_assert_eq!(self.steps[earlier as usize].rank, self.steps[later as usize].rank);
        self.order.push((earlier, later, Wait::UntilDone));
    }

    /// Whether ranks receive what they are sent, step by step.
    pub fn has_receives(&self) -> bool {
        self.receives_all || self.steps.iter().any(|step| matches!(step.action, Action::Receive { .. }))
    }

    /// By rank, whether anything is to be done by it or with it.
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

    /// # Errors
    /// When messages and receives do not match, or steps wait in a cycle, also across ranks. What of several messages of the same ranks and
    /// tag comes first is not known here: that a schedule comes to its end, whatever comes first, is not said.
    pub fn check(&self) -> Result<(), ScheduleError> {
        let ends = play::Ends::of(self);
        if self.has_receives() {
            ends.check(self)?;
        }
        play::check(self, &ends)
    }

    /// Who waits for each step.
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
