//! What is to happen on the program side, and whether anything does beside looks.
//!
//! A program that waits for what the operating system alone knows (the end of a child, a lock that processes share) looks at it again and
//! again. Those looks would keep a run going for ever where the one that it waits for waits itself.

use crate::pace::{Engine, Event};
use crate::process::{ThreadState, Waiting};
use softband_sim::{EventQueue, SimDuration, SimTime};

/// So long nothing but looks: longer than programs wait for a pipe before they are left alone with it.
const STILL_LIMIT: SimDuration = SimDuration::from_nanos(30_000_000_000);

/// Events of programs in their order.
#[derive(Default)]
pub(crate) struct Agenda {
    queue: EventQueue<Event>,
    /// Those that are no looks.
    others: usize,
    /// Since when there were only looks.
    still_since: Option<SimTime>,
}

fn is_look(event: Event) -> bool {
    matches!(event, Event::WaitOver { looks: true, .. })
}

impl Agenda {
    pub(crate) fn push(&mut self, time: SimTime, node: u32, event: Event) {
        self.others += usize::from(!is_look(event));
        self.queue.push(time, node, event);
    }

    pub(crate) fn pop(&mut self) -> Option<(SimTime, Event)> {
        let next = self.queue.pop()?;
        self.others -= usize::from(!is_look(next.1));
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
    pub(crate) fn only_looks_happen(&mut self, event: Event) -> bool {
        if is_look(event) {
            if self.queue.others > 0 || self.world.next_event_time().is_some() {
                self.queue.stir();
                return false;
            }
            let since = *self.queue.still_since.get_or_insert(self.now);
            return self.now.saturating_since(since) > STILL_LIMIT;
        }
        // From one look the thread gets on to its next one.
        if !matches!(event, Event::Resume { .. } | Event::Execute { .. }) {
            self.queue.stir();
        }
        false
    }

    /// A call of a thread has been carried out.
    pub(crate) fn note_call(&mut self, process: usize, slot: u32) {
        let thread = self.processes[process].threads.get(slot as usize);
        if thread.is_none_or(|thread| thread.state != ThreadState::Waiting(Waiting::Look)) {
            self.queue.stir();
        }
    }
}
