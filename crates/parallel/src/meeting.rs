//! A place where threads wait for each other, thousands of times a second.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// So often one looks before one lets others have the processor, where each has its own.
const LOOKS: u32 = 2_000;

/// All of a number of threads meet again and again; nobody leaves before all have come.
pub(crate) struct Meeting {
    members: usize,
    looks: u32,
    here: AtomicUsize,
    /// How often all have met.
    met: AtomicUsize,
    /// Somebody will not come any more.
    is_off: AtomicBool,
}

/// A member's word that it comes. Who is gone in a panic takes the others along.
pub(crate) struct Attendance<'a>(&'a Meeting);

impl Meeting {
    pub(crate) fn new(members: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let looks = if members <= cores { LOOKS } else { 0 };
        Self { members, looks, here: AtomicUsize::new(0), met: AtomicUsize::new(0), is_off: AtomicBool::new(false) }
    }

    pub(crate) fn attend(&self) -> Attendance<'_> {
        Attendance(self)
    }

    /// Waits until all have come.
    ///
    /// # Panics
    /// When a member has panicked.
    pub(crate) fn meet(&self) {
        let met = self.met.load(Ordering::Acquire);
        if self.here.fetch_add(1, Ordering::AcqRel) + 1 == self.members {
            self.here.store(0, Ordering::Relaxed);
            self.met.store(met.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut looks = 0;
        while self.met.load(Ordering::Acquire) == met {
            assert!(!self.is_off.load(Ordering::Relaxed), "another part has failed");
            looks += 1;
            if looks < self.looks {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

impl Attendance<'_> {
    pub(crate) fn meet(&self) {
        self.0.meet();
    }
}

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.is_off.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_ahead_of_the_others_by_more_than_one_meeting() {
        const ROUNDS: usize = 500;
        let (meeting, rounds) = (Meeting::new(4), [const { AtomicUsize::new(0) }; 4]);
        std::thread::scope(|scope| {
            for own in 0..4 {
                let (meeting, rounds) = (&meeting, &rounds);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        rounds[own].store(round, Ordering::Relaxed);
                        meeting.meet();
                        assert!(rounds.iter().all(|other| other.load(Ordering::Relaxed) >= round));
                    }
                });
            }
        });
        assert!(rounds.iter().all(|round| round.load(Ordering::Relaxed) == ROUNDS - 1));
    }

    #[test]
    fn who_panics_takes_the_others_along() {
        let meeting = Meeting::new(2);
        let ends = std::thread::scope(|scope| {
            let waits = scope.spawn(|| meeting.attend().meet());
            let fails = scope.spawn(|| {
                let _attendance = meeting.attend();
                panic!("on purpose");
            });
            [waits.join().is_err(), fails.join().is_err()]
        });
        assert_eq!(ends, [true, true]);
    }
}
