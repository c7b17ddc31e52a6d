//! The events of the program side, and whether any of them is more than a poll.
//!
//! A program can wait for a state that only the operating system knows: the end of a child, or a lock that processes share. Then it polls
//! this state. Such polls would keep a run going for ever if the child or the lock's holder waits as well.

use crate::pace::{Engine, Event};
use crate::process::{ThreadState, Waiting};
use softband_sim::{EventQueue, SimDuration, SimTime};

/// So long nothing but polls: longer than programs wait for a pipe before they are left alone with it.
const STILL_LIMIT: SimDuration = SimDuration::from_nanos(30_000_000_000);

/// Events of programs in their order.
#[derive(Default)]
pub(crate) struct Agenda {
    queue: EventQueue<Event>,
    /// How many of each kind.
    turns: usize,
    others: usize,
    /// Since when there were only polls.
    still_since: Option<SimTime>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Poll,
    /// A thread gets on: from one look to the next one, if it does nothing else.
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

    /// Something happens.
    pub(crate) fn stir(&mut self) {
        self.still_since = None;
    }
}

impl Engine {
    /// Whether this event, which is about to be handled, is one of nothing but looks for so long that they will never see anything.
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

    /// A call of a thread has been carried out.
    pub(crate) fn note_call(&mut self, process: usize, slot: u32) {
        let thread = self.processes[process].threads.get(slot as usize);
        if thread.is_none_or(|thread| thread.state != ThreadState::Waiting(Waiting::OsPoll)) {
            self.queue.stir();
        }
    }
}
