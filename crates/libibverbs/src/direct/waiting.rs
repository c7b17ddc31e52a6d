//! How long a poster waits in `ibv_post_send` for what would let it carry a request out itself.

use softband_client::now_ps;
use std::sync::atomic::{AtomicU64, Ordering};

/// Polls before it lets others have the processor.
const POLLS: u32 = 20;
/// Pauses between those: the receiver gets ahead meanwhile, so that not each of its requests is waited for.
const PAUSES: u32 = 16;

/// How long it waits for the peer, or for the engine to have done what it was given before: either may have to be given the processor
/// first, and a stream that has once gone to the engine costs more than that.
const LONG_PICOS: u64 = 4_000_000_000;
/// How long it waits for the peer for a while after it has waited in vain; for the engine not at all, then.
const SHORT_PICOS: u64 = 200_000_000;
/// That while: a program whose peers are not ready for long waits so long once in a while only.
const IMPATIENT_PICOS: u64 = 20_000_000_000;
/// And where there was a crowd again and again.
const IMPATIENT_IN_A_CROWD_PICOS: u64 = 200_000_000_000;
/// How long it waits for somebody else who takes from the same queue: that one may have to be given the processor first.
const WITH_OTHERS_PICOS: u64 = 20_000_000_000;
/// How long a datagram waits for a receive request: nobody sends it again, and its receiver may have to be given the processor first.
const OF_DATAGRAMS_PICOS: u64 = 50_000_000_000;
const OF_DATAGRAMS_IN_A_CROWD_PICOS: u64 = 10_000_000_000;
/// A thread that gets the processor back as late as this shares it with others: its polls only take what the peer needs.
const CROWD_PICOS: u64 = 50_000_000;

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// And the receiver's completion queue raises an event, or its shared receive queue does.
    DoneWithEvent,
    /// No receive request is there, the queue changes hands, or something has changed in the midst of it.
    Later,
    /// Somebody else takes from the queue.
    Busy,
    /// No receive request is there for a datagram.
    Empty,
}

/// The same with how many bytes went. It fits into registers: were it read back from memory, that would wait for the cache lines that
/// were just written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) outcome: Outcome,
    pub(super) bytes: u64,
}

impl Step {
    pub(super) const LATER: Self = Self { outcome: Outcome::Later, bytes: 0 };
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

/// A wait that goes on.
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

    /// Lets others have the processor.
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

/// How patient posters are: all of a process together, or many that wait in vain one after another would hold it up.
pub(super) struct Patience {
    /// Until then not very.
    short_until_ps: AtomicU64,
    /// Until then another crowd is not the first one.
    crowded_until_ps: AtomicU64,
}

/// This process's.
pub(super) static PATIENCE: Patience = Patience::new();

impl Patience {
    const fn new() -> Self {
        Self { short_until_ps: AtomicU64::new(0), crowded_until_ps: AtomicU64::new(0) }
    }

    /// Tries it again, since this came of the first attempt, until it is done; `None` when it has taken too long, or is the engine's.
    #[inline(never)] // most are done at once
    pub(super) fn try_again(&self, mut step: Step, mut attempt: impl FnMut(bool) -> Option<Step>) -> Option<Step> {
        let mut wait = None;
        let mut looks = 0;
        while !step.is_done() {
            looks += 1;
            if looks < POLLS {
                (0..PAUSES).for_each(|_| std::hint::spin_loop());
            } else if !self.goes_on(wait.get_or_insert_with(Wait::begin), step.outcome) {
                return None;
            }
            step = attempt(looks >= POLLS)?;
        }
        Some(step)
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

    /// Whether to wait for the engine any longer.
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
            Some(if left == 0 { Step::done(5, true) } else { Step::LATER })
        });
        assert_eq!((done, left), (Some(Step { outcome: Outcome::DoneWithEvent, bytes: 5 }), 0));
        assert_eq!(Patience::new().try_again(Step::BUSY, |_| None), None);
    }
}
