//! A place where threads wait for each other, thousands of times a second.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// A member reads the word so often before it sleeps, where each member has a processor.
const SPINS: u32 = 2_000;

/// All of a number of threads meet again and again; nobody leaves before all have come.
pub(crate) struct Meeting {
    members: usize,
    spins: u32,
    here: AtomicUsize,
    /// How often all have met.
    met: AtomicUsize,
    /// Somebody will not come any more.
    is_off: AtomicBool,
    asleep: Mutex<usize>,
    bell: Condvar,
}

/// Nobody needs to come any more: somebody will not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CalledOff;

/// A member's word that it comes. Who is gone in a panic takes the others along.
pub(crate) struct Attendance<'a>(&'a Meeting);

impl Meeting {
    pub(crate) fn new(members: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let spins = if members <= cores { SPINS } else { 0 };
        let (here, met) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { members, spins, here, met, is_off: AtomicBool::new(false), asleep: Mutex::new(0), bell: Condvar::new() }
    }

    pub(crate) fn attend(&self) -> Attendance<'_> {
        Attendance(self)
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

    fn is_over(&self, met: usize) -> bool {
        self.met.load(Ordering::SeqCst) != met || self.is_off.load(Ordering::SeqCst)
    }

    /// Waits until all have come.
    fn meet(&self) -> Result<(), CalledOff> {
        let met = self.met.load(Ordering::SeqCst);
        if self.here.fetch_add(1, Ordering::SeqCst) + 1 == self.members {
            self.here.store(0, Ordering::SeqCst);
            self.met.store(met.wrapping_add(1), Ordering::SeqCst);
            self.wake();
            return Ok(());
        }
        for _ in 0..self.spins {
            if self.is_over(met) {
                break;
            }
            std::hint::spin_loop();
        }
        if !self.is_over(met) {
            self.sleep(met);
        }
        if self.met.load(Ordering::SeqCst) == met { Err(CalledOff) } else { Ok(()) }
    }

    fn sleep(&self, met: usize) {
        let mut asleep = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        *asleep += 1;
        while !self.is_over(met) {
            asleep = self.bell.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        *asleep -= 1;
    }
}

impl Attendance<'_> {
    /// Waits until all have come.
    ///
    /// # Errors
    /// When a member will not come any more.
    pub(crate) fn meet(&self) -> Result<(), CalledOff> {
        self.0.meet()
    }
}

impl Drop for Attendance<'_> {
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
    fn nobody_is_ahead_of_the_others_by_more_than_one_meeting() {
        const ROUNDS: usize = 500;
        for members in [2, 5] {
            let meeting = Meeting::new(members);
            let rounds: Vec<AtomicUsize> = (0..members).map(|_| AtomicUsize::new(0)).collect();
            std::thread::scope(|scope| {
                for own in 0..members {
                    let (meeting, rounds) = (&meeting, &rounds);
                    scope.spawn(move || {
                        let attendance = meeting.attend();
                        for round in 0..ROUNDS {
                            rounds[own].store(round, Ordering::Relaxed);
                            attendance.meet().unwrap();
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
        let meeting = Meeting::new(2);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| meeting.attend().meet());
            let fails = scope.spawn(|| {
                let _attendance = meeting.attend();
                panic!("on purpose");
            });
            assert_eq!(waits.join().unwrap(), Err(CalledOff));
            assert!(fails.join().is_err());
        });
    }
}
