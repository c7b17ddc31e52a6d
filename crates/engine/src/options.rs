//! The options of a run, and how it may fail.

use crate::time_limit::Limits;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Raised by a signal handler to end a run.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicU8>);

const RAISED: u8 = 1;
const EXPIRED: u8 = 2;

impl Interrupt {
    pub fn raise(&self) {
        self.0.store(RAISED, Ordering::SeqCst);
    }
    /// Raises it because the run has lasted as long as it may.
    pub(crate) fn expire(&self) {
        let _ = self.0.compare_exchange(0, EXPIRED, Ordering::SeqCst, Ordering::SeqCst);
    }
    /// Raised, or expired.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
    pub(crate) fn has_expired(&self) -> bool {
        self.0.load(Ordering::SeqCst) == EXPIRED
    }
}

/// Why a run ended before its programs did.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub enum Failure {
    /// Nothing can happen any more, but programs still wait.
    Stuck {
        waiting: Vec<String>,
    },
    /// Packets wait for each other's credits in a cycle, for ever.
    Deadlock {
        /// Each port with the one whose credits it waits for.
        waits: String,
    },
    Interrupted,
    /// The run has lasted as long as it may.
    TimedOut {
        /// As a reader wants it: `5 s of wall-clock time`.
        limit: String,
        /// Who waits for what.
        waiting: Vec<String>,
    },
    /// The host does not let the engine at the programs' memory.
    MemoryDenied {
        reason: String,
    },
}

/// Whose clock the programs go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The simulation's.
    Virtual,
    /// The host's.
    Wall,
}

/// How a run is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Programs get the library by `LD_PRELOAD` as well.
    pub by_preload: bool,
    /// On how many processors the run may be, 1 or 2; `None`: as many as are there.
    pub processors: Option<u32>,
    pub pace: Pace,
    /// Seconds from 1970-01-01 00:00:00 UTC to simulated time zero, by the hosts' clocks. Nothing in wall pace.
    pub epoch_seconds: u64,
    pub limits: Limits,
}
