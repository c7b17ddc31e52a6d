//! The events of the program side. Detects when all of them are polls.
//!
//! A program can wait for a state that only the operating system knows: the end of a child, or a
//! lock that processes share. It then polls this state. If the child or the lock's holder waits as
//! well, the polls would keep the run going for ever.

use softband_sim::{EventQueue, SimDuration, SimTime};

/// Longest period of nothing but polls, in simulated time. The engine stops waiting for a thread at
/// a pipe earlier.
const STILL_LIMIT: SimDuration = SimDuration::from_nanos(30_000_000_000);

/// An event on the program side.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    StartProgram {
        program: usize,
    },
    /// The thread gets the execution token.
    Resume {
        process: usize,
        slot: u32,
    },
    /// The engine carries out the thread's call. All events up to the thread's clock have happened.
    Execute {
        process: usize,
        slot: u32,
    },
    /// The announced computation of a thread ends, and its turn goes on.
    Rejoin {
        process: usize,
        slot: u32,
    },
    /// A wait has reached its deadline.
    WaitOver {
        process: usize,
        slot: u32,
        generation: u32,
        /// Set if the wait was a [`Waiting::OsPoll`](crate::process::thread::Waiting).
        polls: bool,
    },
    ObjectChanged {
        object: u32,
        /// Readiness bits that the change concerns.
        edge: u32,
    },
    TimerFires {
        object: u32,
        generation: u32,
    },
    AlarmRings {
        process: usize,
        signal: u32,
        generation: u64,
    },
    SeekOver {
        object: u32,
    },
    /// Datagrams under way reach their sockets.
    DatagramsArrive,
    /// Requests of MAD devices have waited long enough.
    MadsExpire,
    /// Messages of the connection manager are due.
    CmExpires,
    /// Timers, links or cores of kernels are due.
    KernelsDue,
    ProcessGone {
        process: usize,
    },
}

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
            Event::Resume { .. } | Event::Execute { .. } | Event::Rejoin { .. } => Self::Turn,
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

    /// Returns whether programs have only polled for so long that they will never succeed.
    pub(crate) fn only_polls_happen(&mut self, event: Event, now: SimTime, is_fabric_idle: impl Fn() -> bool) -> bool {
        match Kind::of(event) {
            Kind::Poll if self.others == 0 && is_fabric_idle() => {
                let since = *self.still_since.get_or_insert(now);
                self.turns == 0 && now.saturating_since(since) > STILL_LIMIT
            }
            Kind::Turn => false,
            Kind::Poll | Kind::Other => {
                self.stir();
                false
            }
        }
    }
}
