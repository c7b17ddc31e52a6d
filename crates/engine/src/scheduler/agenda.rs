//! The events of the program side. Detects when all of them are polls.
//!
//! A program can wait for a state that only the operating system knows: the end of a child, or a
//! lock that processes share. It then polls this state. If the child or the lock's holder waits as
//! well, the polls would keep the run going for ever.

use crate::engine::{Engine, Event};
use crate::process::image::{ThreadState, Waiting};
use softband_sim::{EventQueue, SimDuration, SimTime};

/// Longest period of nothing but polls, in simulated time. The engine stops waiting for a thread at
/// a pipe earlier.
const STILL_LIMIT: SimDuration = SimDuration::from_nanos(30_000_000_000);

/// Events of programs in their order.
#[derive(Default)]
pub(crate) struct Agenda {
    queue: EventQueue<Event>,
    /// Number of queued events of each kind; polls are not counted.
    turns: usize,
    others: usize,
    /// Start of the present period of nothing but polls.
    still_since: Option<SimTime>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Poll,
    /// A thread continues: from one poll to the next, if it does nothing else.
    Turn,
    Other,
}

impl Kind {
    fn of(event: Event) -> Self {
        match event {
            Event::WaitOver { polls: true, .. } => Self::Poll,
            Event::Resume { .. } | Event::Execute { .. } => Self::Turn,
            _ => Self::Other,
        }
    }
}

impl Agenda {
    pub(crate) fn push(&mut self, time: SimTime, node: u32, event: Event) {
        let kind = Kind::of(event);
        self.turns += usize::from(kind == Kind::Turn);
        self.others += usize::from(kind == Kind::Other);
        self.queue.push(time, node, event);
    }

    pub(crate) fn pop(&mut self) -> Option<(SimTime, Event)> {
        let next = self.queue.pop()?;
        let kind = Kind::of(next.1);
        self.turns -= usize::from(kind == Kind::Turn);
        self.others -= usize::from(kind == Kind::Other);
        Some(next)
    }

    pub(crate) fn next_time(&self) -> Option<SimTime> {
        self.queue.next_time()
    }

    /// Ends the period of nothing but polls.
    pub(crate) fn stir(&mut self) {
        self.still_since = None;
    }
}

impl Engine {
    /// Returns whether programs have only polled for so long that they will never succeed. The
    /// engine is about to handle `event`.
    pub(crate) fn only_polls_happen(&mut self, event: Event) -> bool {
        match Kind::of(event) {
            Kind::Poll if self.queue.others == 0 && self.world.next_event_time().is_none() => {
                let since = *self.queue.still_since.get_or_insert(self.now);
                self.queue.turns == 0 && self.now.saturating_since(since) > STILL_LIMIT
            }
            Kind::Turn => false,
            Kind::Poll | Kind::Other => {
                self.queue.stir();
                false
            }
        }
    }

    /// Notes that the engine has carried out a call of a thread.
    pub(crate) fn note_call(&mut self, process: usize, slot: u32) {
        let thread = self.processes[process].threads.get(slot as usize);
        if thread.is_none_or(|thread| thread.state != ThreadState::Waiting(Waiting::OsPoll)) {
            self.queue.stir();
        }
    }
}
