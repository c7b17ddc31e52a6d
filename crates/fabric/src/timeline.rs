//! The World's events.

use crate::event::Event;
use softband_sim::{EventQueue, SimDuration, SimTime};

/// Events that are still to come, in windows that stand side by side from time zero on, whatever happens in them.
pub(crate) struct Timeline {
    queue: EventQueue<Event>,
    /// How long windows are, where there are any.
    window: Option<SimDuration>,
    /// The last instant up to which events may be taken out.
    last: SimTime,
}

/// What happens at a port: packets of its peer come, or it tries to send.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    Packets,
    Due,
    /// First bits of frames, which the peer sends; whether they become packets here is seen then.
    Frames,
}

impl Timeline {
    /// Without windows.
    pub(crate) fn for_nodes(nodes: usize) -> Self {
        Self { queue: EventQueue::for_nodes(nodes), window: None, last: SimTime::MAX }
    }

    /// Before anything has happened: the same without any event.
    pub(crate) fn emptied(&self, nodes: usize) -> Self {
        Self { queue: EventQueue::for_nodes(nodes), ..*self }
    }

    /// From now on with windows of this length.
    pub(crate) fn divide(&mut self, length: SimDuration) {
        self.window = Some(length);
    }

    /// What a node does by itself.
    pub(crate) fn push(&mut self, time: SimTime, node: u32, event: Event) {
        self.queue.push(time, node, event);
    }

    /// What comes to a node by the port with this index.
    pub(crate) fn push_arrival(&mut self, time: SimTime, node: u32, (port, source): (u8, Source), event: Event) {
        self.queue.push_from(time, node, u16::from(port) << 2 | source as u16, event);
    }

    /// Adds an event that sees all others of its instant.
    pub(crate) fn push_last(&mut self, time: SimTime, node: u32, event: Event) {
        self.queue.push_last(time, node, event);
    }

    /// The next event, unless a window is to be ended before.
    pub(crate) fn pop(&mut self) -> Option<(SimTime, Event)> {
        self.queue.pop_until(self.last)
    }

    /// When the next event is due.
    pub(crate) fn next_time(&self) -> Option<SimTime> {
        self.queue.next_time()
    }

    /// The time of the event taken out last.
    pub(crate) fn now(&self) -> SimTime {
        self.queue.now()
    }

    /// Where that happened.
    pub(crate) fn node(&self) -> u32 {
        self.queue.node()
    }

    /// Before when everything has happened, where a window was ended: its end.
    pub(crate) fn window_end(&self) -> Option<SimTime> {
        (self.last < SimTime::MAX).then(|| self.last + SimDuration::from_picos(1))
    }

    pub(crate) fn has_windows(&self) -> bool {
        self.window.is_some()
    }

    /// From now on up to the end of the window that `time` lies in; without windows, to the end of that instant.
    pub(crate) fn end_window_of(&mut self, time: SimTime) {
        let length = self.window.map_or(1, SimDuration::as_picos);
        self.last = SimTime::from_picos((time.as_picos() / length * length).saturating_add(length - 1));
    }

    /// From now on without checks at the ends of windows.
    pub(crate) fn go_on(&mut self) {
        self.last = SimTime::MAX;
    }
}
