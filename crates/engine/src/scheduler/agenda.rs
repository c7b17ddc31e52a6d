//! The events of the program side. Detects when all of them are polls.
//!
//! A program can wait for a state that only the operating system knows: the end of a child, or a
//! lock that processes share. It then polls this state. If the child or the lock's holder waits as
//! well, the polls would keep the run going for ever.
//!
//! A kernel of a host repeats probes of connections for ever, too: those of a window that stays
//! closed, and those that keep a connection alive.

use softband_sim::{EventQueue, SimDuration, SimTime};

/// Longest period of nothing but polls, in simulated time. The engine stops waiting for a thread at
/// a pipe earlier.
const STILL_LIMIT: SimDuration = SimDuration::from_nanos(30_000_000_000);

/// Longest period in which kernels work without news for a program. An idle connection fails after
/// 7,200 s and 9 probes with 75 s each (tcp(7), `tcp_keepalive_time`), later than any other.
const KERNELS_LIMIT: SimDuration = SimDuration::from_nanos(10_800_000_000_000);

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
        /// Readiness bits that the change concerns. None if its edge has been noted.
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
    kernels: usize,
    /// Whether hosts have kernels that work on their own.
    has_kernels: bool,
    /// Start of the present period of nothing but polls.
    still_since: Option<SimTime>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Poll,
    /// A thread continues: from one poll to the next, if it does nothing else.
    Turn,
    /// A kernel works. News for a program are events of their own.
    Kernel,
    Other,
}

impl Kind {
    fn of(event: Event) -> Self {
        match event {
            Event::WaitOver { polls: true, .. } => Self::Poll,
            Event::Resume { .. } | Event::Execute { .. } | Event::Rejoin { .. } => Self::Turn,
            Event::KernelsDue => Self::Kernel,
            _ => Self::Other,
        }
    }
}

impl Agenda {
    pub(crate) fn push(&mut self, time: SimTime, node: u32, event: Event) {
        let kind = Kind::of(event);
        self.turns += usize::from(kind == Kind::Turn);
        self.others += usize::from(kind == Kind::Other);
        self.kernels += usize::from(kind == Kind::Kernel);
        self.has_kernels |= kind == Kind::Kernel;
        self.queue.push(time, node, event);
    }

    pub(crate) fn pop(&mut self) -> Option<(SimTime, Event)> {
        let next = self.queue.pop()?;
        let kind = Kind::of(next.1);
        self.turns -= usize::from(kind == Kind::Turn);
        self.others -= usize::from(kind == Kind::Other);
        self.kernels -= usize::from(kind == Kind::Kernel);
        Some(next)
    }

    pub(crate) fn next_time(&self) -> Option<SimTime> {
        self.queue.next_time()
    }

    /// Ends the period of nothing but polls.
    pub(crate) fn stir(&mut self) {
        self.still_since = None;
    }

    /// Returns whether programs have only polled, and kernels only probed, for so long that the
    /// programs will never succeed.
    pub(crate) fn only_polls_happen(&mut self, event: Event, now: SimTime, is_fabric_idle: impl Fn() -> bool) -> bool {
        let kind = Kind::of(event);
        if kind == Kind::Turn {
            return false;
        }
        let limit = match kind {
            Kind::Poll | Kind::Kernel if self.others > 0 => None,
            Kind::Poll if self.kernels == 0 && is_fabric_idle() => Some(STILL_LIMIT),
            Kind::Poll | Kind::Kernel if self.has_kernels => Some(KERNELS_LIMIT),
            _ => None,
        };
        let Some(limit) = limit else {
            self.stir();
            return false;
        };
        let since = *self.still_since.get_or_insert(now);
        self.turns == 0 && now.saturating_since(since) > limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: Event = Event::WaitOver { process: 0, slot: 0, generation: 0, polls: true };

    /// Repeats an event each second. Returns the seconds until only polls happen, up to a limit.
    fn seconds_until_still(agenda: &mut Agenda, event: Event, is_fabric_idle: bool) -> Option<u64> {
        (0..20_000).find(|second| {
            let at = SimTime::ZERO + SimDuration::from_micros(1_000_000) * *second;
            agenda.push(at, 0, event);
            let (at, event) = agenda.pop().expect("an event");
            agenda.only_polls_happen(event, at, || is_fabric_idle)
        })
    }

    #[test]
    fn polls_alone_end_a_run_unless_the_fabric_works() {
        assert_eq!(seconds_until_still(&mut Agenda::default(), POLL, true), Some(31));
        assert_eq!(seconds_until_still(&mut Agenda::default(), POLL, false), None);
    }

    #[test]
    fn probes_of_kernels_are_no_progress_for_programs() {
        assert_eq!(seconds_until_still(&mut Agenda::default(), Event::KernelsDue, false), Some(10_801));
        let mut agenda = Agenda::default();
        agenda.push(SimTime::ZERO + SimDuration::from_nanos(u64::MAX / 2_000), 0, Event::KernelsDue);
        assert_eq!(seconds_until_still(&mut agenda, POLL, false), Some(10_801), "a kernel has a timer");
        let mut agenda = Agenda::default();
        agenda.push(SimTime::ZERO + SimDuration::from_nanos(u64::MAX / 2_000), 0, Event::MadsExpire);
        assert_eq!(seconds_until_still(&mut agenda, Event::KernelsDue, true), None);
    }
}
