//! The World's events, in one of two orders that make no difference to what happens.

use crate::event::Event;
use softband_sim::{EventQueue, SimDuration, SimTime, WindowQueue};

/// Events that are still to come.
pub(crate) enum Timeline {
    /// Of all nodes by time: for those who look at the whole fabric between any two of them.
    Total(EventQueue<Event>),
    /// The same, in windows: where there are few nodes, most have nothing to do in most windows.
    Timed { queue: EventQueue<Event>, length: u64, end: SimTime },
    /// Node by node, in windows as short as the shortest cable.
    Windows(Box<WindowQueue<Event>>),
}

/// From so many nodes on it is worth while to go through them node by node.
const NODES_MANY: usize = 64;

/// What comes to a port: packets of its peer, or its peer's word on what may be sent.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    Packets,
    Credits,
    /// First bits of frames, which the peer sends; whether they become packets here is seen then.
    Frames,
}

impl Timeline {
    /// What a node does by itself.
    pub(crate) fn push(&mut self, time: SimTime, node: u32, event: Event) {
        match self {
            Self::Total(queue) | Self::Timed { queue, .. } => queue.push(time, node, event),
            Self::Windows(queue) => queue.push(time, node, event),
        }
    }

    /// What comes to a node by one of its ports.
    pub(crate) fn push_arrival(&mut self, time: SimTime, node: u32, (port, source): (u32, Source), event: Event) {
        let source = port << 2 | source as u32;
        match self {
            Self::Total(queue) | Self::Timed { queue, .. } => queue.push_from(time, node, source, event),
            Self::Windows(queue) => queue.push_from(time, node, source, event),
        }
    }

    /// What is to see all else of its instant.
    pub(crate) fn push_last(&mut self, time: SimTime, node: u32, event: Event) {
        match self {
            Self::Total(queue) | Self::Timed { queue, .. } => queue.push_last(time, node, event),
            Self::Windows(queue) => queue.push_last(time, node, event),
        }
    }

    /// The next event; in windows `None` also at the end of one.
    pub(crate) fn pop(&mut self) -> Option<(SimTime, Event)> {
        match self {
            Self::Timed { queue, end, .. } if queue.next_time().is_some_and(|time| time >= *end) => None,
            Self::Total(queue) | Self::Timed { queue, .. } => queue.pop().map(|(key, event)| (key.time, event)),
            Self::Windows(queue) => queue.pop().map(|(time, _, event)| (time, event)),
        }
    }

    /// What comes after so many others, as far as is known.
    pub(crate) fn upcoming(&self, count: usize) -> Option<Event> {
        match self {
            Self::Total(_) | Self::Timed { .. } => None,
            Self::Windows(queue) => queue.upcoming(count),
        }
    }

    /// When the next event is due; in windows exact between two of them.
    pub(crate) fn next_time(&self) -> Option<SimTime> {
        match self {
            Self::Total(queue) | Self::Timed { queue, .. } => queue.next_time(),
            Self::Windows(queue) => queue.next_time(),
        }
    }

    /// The time of the event taken out last.
    pub(crate) fn now(&self) -> SimTime {
        match self {
            Self::Total(queue) | Self::Timed { queue, .. } => queue.now(),
            Self::Windows(queue) => queue.now(),
        }
    }

    /// The time of the latest event so far.
    pub(crate) fn latest(&self) -> SimTime {
        match self {
            Self::Total(queue) | Self::Timed { queue, .. } => queue.now(),
            Self::Windows(queue) => queue.latest(),
        }
    }

    /// Up to when everything has happened, in windows: the end of the last one.
    pub(crate) fn window_end(&self) -> Option<SimTime> {
        match self {
            Self::Total(_) => None,
            Self::Timed { end, .. } => Some(*end),
            Self::Windows(queue) => Some(queue.end()),
        }
    }

    /// Opens the next window.
    pub(crate) fn open_window(&mut self, start: SimTime) {
        match self {
            Self::Total(_) => {}
            Self::Timed { length, end, .. } => {
                *end = SimTime::from_picos((start.as_picos() / *length).saturating_add(1).saturating_mul(*length));
            }
            Self::Windows(queue) => queue.open(start),
        }
    }

    pub(crate) fn is_total(&self) -> bool {
        matches!(self, Self::Total(_))
    }

    /// From now on in windows. Only before anything was scheduled.
    pub(crate) fn in_windows(nodes: usize, lookahead: SimDuration) -> Self {
        if nodes < NODES_MANY {
            return Self::Timed { queue: EventQueue::default(), length: lookahead.as_picos(), end: SimTime::ZERO };
        }
        Self::Windows(Box::new(WindowQueue::new(nodes, lookahead)))
    }
}
