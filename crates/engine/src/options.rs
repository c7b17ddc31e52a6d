//! Options of a run, and the reasons for which it may fail.

use serde::Serialize;
use softband_sim::SimDuration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// Flag that a signal handler raises to end a run.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicU8>);

const RAISED: u8 = 1;
const EXPIRED: u8 = 2;
const DECIDED: u8 = 3;

impl Interrupt {
    pub fn raise(&self) {
        self.0.store(RAISED, Ordering::SeqCst);
    }
    /// Raises the flag because the run's own caller knows its result.
    pub fn decide(&self) {
        let _ = self.0.compare_exchange(0, DECIDED, Ordering::SeqCst, Ordering::SeqCst);
    }
    /// Lowers the flag after a run that its own caller has ended, so that another run can begin.
    pub fn lower(&self) {
        self.0.store(0, Ordering::SeqCst);
    }
    /// Raises the flag because the run has reached its time limit.
    pub(crate) fn expire(&self) {
        let _ = self.0.compare_exchange(0, EXPIRED, Ordering::SeqCst, Ordering::SeqCst);
    }
    /// Returns whether the flag was raised or has expired.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
    /// Returns whether a user or a limit ends the run.
    pub(crate) fn is_urgent(&self) -> bool {
        matches!(self.0.load(Ordering::SeqCst), RAISED | EXPIRED)
    }
    pub(crate) fn has_expired(&self) -> bool {
        self.0.load(Ordering::SeqCst) == EXPIRED
    }
}

/// Reason why a run ended before its programs.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub enum Failure {
    /// No event can happen any more, but programs still wait.
    Stuck {
        waiting: Vec<String>,
    },
    /// Packets wait for each other's credits in a cycle.
    Deadlock {
        /// Each port, with the port whose credits it waits for.
        waits: String,
    },
    Interrupted,
    /// The run has reached its time limit.
    TimedOut {
        /// Limit in words: `5 s of wall-clock time`.
        limit: String,
        /// Each waiting thread, with the reason of its wait.
        waiting: Vec<String>,
    },
    /// The host denies the engine access to the programs' memory.
    MemoryDenied {
        reason: String,
    },
}

/// Clock of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The clock of the simulation.
    Virtual,
    /// The clock of the host.
    Wall,
}

/// Carrier of the sockets between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketNetwork {
    /// The machine's loopback, in wall pace. In simulated time the model carries sockets in any case.
    Machine,
    /// The interfaces of the fabric file at their modelled rate, in wall pace.
    Modelled,
}

/// Time limits of a run. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Limit in wall-clock time, in both paces.
    pub wall: Option<Duration>,
    /// Limit in simulated time.
    pub simulated: Option<SimDuration>,
}

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Programs get the library by `LD_PRELOAD` as well.
    pub by_preload: bool,
    /// Number of processors for the run, 1 or 2. `None` means as many as the machine has.
    pub processors: Option<u32>,
    pub pace: Pace,
    pub network: SocketNetwork,
    /// Seconds from 1970-01-01 00:00:00 UTC to simulated time zero, by the hosts' clocks. Unused in
    /// wall pace.
    pub epoch_seconds: u64,
    pub limits: Limits,
}
