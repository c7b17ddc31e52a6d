//! A barrier at which threads wait for each other, thousands of times a second.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Reads of the generation before a member sleeps, if each member has a processor.
const SPINS: u32 = 2_000;

/// A reusable barrier: no thread leaves before all have arrived.
pub(crate) struct Barrier {
    members: usize,
    spins: u32,
    here: AtomicUsize,
    /// Number of times that all have arrived.
    generation: AtomicUsize,
    /// A member will never arrive again.
    is_off: AtomicBool,
    asleep: Mutex<usize>,
    bell: Condvar,
}

/// The barrier is off: a member will never arrive again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CalledOff;

/// The participation of one member. A member that panics calls the barrier off for the others.
pub(crate) struct Participant<'a>(&'a Barrier);

impl Barrier {
    pub(crate) fn new(members: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let spins = if members <= cores { SPINS } else { 0 };
        let (here, generation) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { members, spins, here, generation, is_off: AtomicBool::new(false), asleep: Mutex::new(0), bell: Condvar::new() }
    }

    pub(crate) fn join(&self) -> Participant<'_> {
        Participant(self)
    }

    pub(crate) fn call_off(&self) {
        self.is_off.store(true, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        if *self.asleep.lock().unwrap_or_else(PoisonError::into_inner) > 0 {
            self.bell.notify_all();
        }
    }

    fn is_over(&self, generation: usize) -> bool {
        self.generation.load(Ordering::SeqCst) != generation || self.is_off.load(Ordering::SeqCst)
    }

    /// Waits until all have arrived.
    fn wait(&self) -> Result<(), CalledOff> {
        let generation = self.generation.load(Ordering::SeqCst);
        if self.here.fetch_add(1, Ordering::SeqCst) + 1 == self.members {
            self.here.store(0, Ordering::SeqCst);
            self.generation.store(generation.wrapping_add(1), Ordering::SeqCst);
            self.wake();
            return Ok(());
        }
        for _ in 0..self.spins {
            if self.is_over(generation) {
                break;
            }
            std::hint::spin_loop();
        }
        if !self.is_over(generation) {
            self.sleep(generation);
        }
        if self.generation.load(Ordering::SeqCst) == generation { Err(CalledOff) } else { Ok(()) }
    }

    fn sleep(&self, generation: usize) {
        let mut asleep = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        *asleep += 1;
        while !self.is_over(generation) {
            asleep = self.bell.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        *asleep -= 1;
    }
}

impl Participant<'_> {
    /// Waits until all have arrived.
    ///
    /// # Errors
    /// Fails if a member will never arrive again.
    pub(crate) fn wait(&self) -> Result<(), CalledOff> {
        self.0.wait()
    }
}

impl Drop for Participant<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.call_off();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_ahead_of_the_others_by_more_than_one_round() {
        const ROUNDS: usize = 500;
        for members in [2, 5] {
            let barrier = Barrier::new(members);
            let rounds: Vec<AtomicUsize> = (0..members).map(|_| AtomicUsize::new(0)).collect();
            std::thread::scope(|scope| {
                for own in 0..members {
                    let (barrier, rounds) = (&barrier, &rounds);
                    scope.spawn(move || {
                        let participant = barrier.join();
                        for round in 0..ROUNDS {
                            rounds[own].store(round, Ordering::Relaxed);
                            participant.wait().unwrap();
                            assert!(rounds.iter().all(|other| other.load(Ordering::Relaxed) >= round));
                        }
                    });
                }
            });
            assert!(rounds.iter().all(|round| round.load(Ordering::Relaxed) == ROUNDS - 1));
        }
    }

    #[test]
    fn who_panics_takes_the_others_along() {
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| barrier.join().wait());
            let fails = scope.spawn(|| {
                let _participant = barrier.join();
                panic!("on purpose");
            });
            assert_eq!(waits.join().unwrap(), Err(CalledOff));
            assert!(fails.join().is_err());
        });
    }
}
