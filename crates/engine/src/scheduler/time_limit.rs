//! Limits of a run, in wall-clock time and in simulated time.

use crate::options::Interrupt;
use softband_sim::SimDuration;
use std::time::Duration;

/// Time limits of a run. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Limit in wall-clock time, in both paces.
    pub wall: Option<Duration>,
    /// Limit in simulated time.
    pub simulated: Option<SimDuration>,
}

/// Lets `interrupt` expire after `limit`. The thread ends with the process.
pub(crate) fn expire_after(limit: Duration, interrupt: Interrupt) -> std::io::Result<()> {
    let wait = move || {
        std::thread::sleep(limit);
        interrupt.expire();
    };
    std::thread::Builder::new().name("timeout".into()).spawn(wait).map(drop)
}
