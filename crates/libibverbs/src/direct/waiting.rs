//! Waits of a poster in `ibv_post_send` until it can execute a request itself.

use super::Direct;
use softband_client::now_ps;
use softband_shm_transport::fallback::FallbackReason;
use std::sync::atomic::{AtomicU64, Ordering};

/// Polls before it yields the processor.
const POLLS: u32 = 20;
/// Pauses between polls. The receiver gets ahead meanwhile, so not each of its requests needs a
/// wait.
const PAUSES: u32 = 16;

/// Longest wait for the peer, or for the engine's earlier work. Either may first need the
/// processor. A stream that has once gone to the engine costs more than this wait.
const LONG_PICOS: u64 = 4_000_000_000;
/// Longest wait for the peer for a while after a vain wait. The engine then gets no wait.
const SHORT_PICOS: u64 = 200_000_000;
/// Duration of that while. Programs whose peers stay unready rarely wait long.
const IMPATIENT_PICOS: u64 = 20_000_000_000;
/// The same duration after repeated waits on a crowded processor.
const IMPATIENT_IN_A_CROWD_PICOS: u64 = 200_000_000_000;
/// Longest wait for another consumer of the same queue, which may first need the processor.
const WITH_OTHERS_PICOS: u64 = 20_000_000_000;
/// Longest wait of a datagram for a receive request. Nobody resends a datagram, and its receiver
/// may first need the processor.
const OF_DATAGRAMS_PICOS: u64 = 50_000_000_000;
const OF_DATAGRAMS_IN_A_CROWD_PICOS: u64 = 10_000_000_000;
/// Least delay of a yield that indicates a shared processor. There, polls only take time that the
/// peer needs.
const CROWD_PICOS: u64 = 50_000_000;

/// Outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// Done, and the receiver's CQ or its SRQ raises an event.
    DoneWithEvent,
    /// A change interrupted the attempt.
    Later,
    /// The queue changes its owner.
    Moving,
    /// No receive request is present.
    NoRequest,
    /// Another consumer holds the queue.
    Busy,
    /// No receive request is present for a datagram.
    Empty,
}

impl Outcome {
    /// Returns the reason why a poster stops to wait after this outcome.
    fn reason(self) -> FallbackReason {
        match self {
            Self::Busy => FallbackReason::QueueBusy,
            Self::Moving => FallbackReason::QueueTakenOver,
            Self::NoRequest | Self::Empty => FallbackReason::NoReceiveRequest,
            Self::Later | Self::Done | Self::DoneWithEvent => FallbackReason::Interrupted,
        }
    }
}

/// An outcome with the number of bytes moved. It fits into registers. A read from memory would wait
/// for the cache lines that were just written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) outcome: Outcome,
    pub(super) bytes: u64,
}

impl Step {
    pub(super) const LATER: Self = Self { outcome: Outcome::Later, bytes: 0 };
    pub(super) const MOVING: Self = Self { outcome: Outcome::Moving, bytes: 0 };
    pub(super) const NO_REQUEST: Self = Self { outcome: Outcome::NoRequest, bytes: 0 };
    pub(super) const BUSY: Self = Self { outcome: Outcome::Busy, bytes: 0 };
    pub(super) const EMPTY: Self = Self { outcome: Outcome::Empty, bytes: 0 };

    #[inline(always)]
    pub(super) fn done(bytes: u64, raises_event: bool) -> Self {
        Self { outcome: if raises_event { Outcome::DoneWithEvent } else { Outcome::Done }, bytes }
    }

    #[inline(always)]
    pub(super) fn is_done(self) -> bool {
        matches!(self.outcome, Outcome::Done | Outcome::DoneWithEvent)
    }
}

/// A wait in progress.
pub(super) struct Wait {
    since: u64,
    now: u64,
    in_a_crowd: bool,
}

impl Wait {
    pub(super) fn begin() -> Self {
        let since = now_ps();
        Self { since, now: since, in_a_crowd: false }
    }

    /// Yields the processor.
    pub(super) fn give_way(&mut self) {
        let before = now_ps();
        std::thread::yield_now();
        self.now = now_ps();
        self.in_a_crowd |= self.now > before + CROWD_PICOS;
    }

    fn is_within(&self, picos: u64) -> bool {
        self.now <= self.since + picos
    }
}

/// Patience of posters, shared by a process: many vain waits one after another would hold it up.
pub(super) struct Patience {
    /// Time until which waits are short.
    short_until_ps: AtomicU64,
    /// Time until which another crowd counts as a repetition.
    crowded_until_ps: AtomicU64,
}

/// Patience of this process.
pub(super) static PATIENCE: Patience = Patience::new();

impl Patience {
    const fn new() -> Self {
        Self { short_until_ps: AtomicU64::new(0), crowded_until_ps: AtomicU64::new(0) }
    }

    /// Repeats an attempt after its first `step` until it is done. Fails on timeout, or if the
    /// engine must handle the request.
    #[inline(never)] // most are done at once
    pub(super) fn try_again(&self, mut step: Step, mut attempt: impl FnMut(bool) -> Direct<Step>) -> Direct<Step> {
        let mut wait = None;
        let mut looks = 0;
        while !step.is_done() {
            looks += 1;
            if looks < POLLS {
                (0..PAUSES).for_each(|_| std::hint::spin_loop());
            } else if !self.goes_on(wait.get_or_insert_with(Wait::begin), step.outcome) {
                return Err(step.outcome.reason());
            }
            step = attempt(looks >= POLLS)?;
        }
        Ok(step)
    }

    #[cold]
    fn goes_on(&self, wait: &mut Wait, outcome: Outcome) -> bool {
        wait.give_way();
        match outcome {
            Outcome::Busy => wait.is_within(WITH_OTHERS_PICOS),
            Outcome::Empty => wait.is_within(if wait.in_a_crowd { OF_DATAGRAMS_IN_A_CROWD_PICOS } else { OF_DATAGRAMS_PICOS }),
            _ => self.waits_on(wait, SHORT_PICOS),
        }
    }

    /// Checks whether to continue the wait for the engine.
    pub(super) fn waits_for_engine(&self, wait: &Wait) -> bool {
        self.waits_on(wait, 0)
    }

    fn waits_on(&self, wait: &Wait, short_picos: u64) -> bool {
        let is_short = wait.since < self.short_until_ps.load(Ordering::Relaxed);
        let long_picos = if wait.in_a_crowd { SHORT_PICOS } else { LONG_PICOS };
        if wait.is_within(if is_short { short_picos } else { long_picos }) {
            return true;
        }
        if !is_short {
            let is_crowded_again = wait.in_a_crowd && wait.now < self.crowded_until_ps.load(Ordering::Relaxed);
            if wait.in_a_crowd {
                self.crowded_until_ps.store(wait.now + 2 * IMPATIENT_IN_A_CROWD_PICOS, Ordering::Relaxed);
            }
            let picos = if is_crowded_again { IMPATIENT_IN_A_CROWD_PICOS } else { IMPATIENT_PICOS };
            self.short_until_ps.fetch_max(wait.now + picos, Ordering::Relaxed);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_waited_in_vain_waits_shortly_for_a_while() {
        let patience = Patience::new();
        let wait = |since, picos| Wait { since, now: since + picos, in_a_crowd: false };
        assert!(patience.waits_on(&wait(7, LONG_PICOS), SHORT_PICOS));
        assert!(!patience.waits_on(&wait(7, LONG_PICOS + 1), SHORT_PICOS));
        let now = 9 + LONG_PICOS;
        assert!(patience.waits_on(&wait(now, SHORT_PICOS), SHORT_PICOS));
        assert!(!patience.waits_on(&wait(now, SHORT_PICOS + 1), SHORT_PICOS), "that soon it is not worth while");
        assert!(!patience.waits_for_engine(&wait(now, 1)));
        let now = now + IMPATIENT_PICOS;
        assert!(patience.waits_for_engine(&wait(now, LONG_PICOS)), "it may be another time");
    }

    #[test]
    fn who_shares_the_processor_does_not_wait_long() {
        let patience = Patience::new();
        let wait = |picos| Wait { since: 7, now: 7 + picos, in_a_crowd: true };
        assert!(patience.waits_on(&wait(SHORT_PICOS), SHORT_PICOS));
        assert!(!patience.waits_on(&wait(SHORT_PICOS + 1), SHORT_PICOS));
    }

    #[test]
    fn an_attempt_is_repeated_until_it_is_done_or_the_engines() {
        let mut left = 3;
        let done = Patience::new().try_again(Step::LATER, |_| {
            left -= 1;
            Ok(if left == 0 { Step::done(5, true) } else { Step::LATER })
        });
        assert_eq!((done, left), (Ok(Step { outcome: Outcome::DoneWithEvent, bytes: 5 }), 0));
        let refused = Err(FallbackReason::QueueTakenOver);
        assert_eq!(Patience::new().try_again(Step::BUSY, |_| refused), refused);
    }
}
