//! The limit of a run in wall-clock time.

use crate::options::Interrupt;
use std::time::Duration;

/// Lets `interrupt` expire after `limit`. The thread ends with the process.
pub(crate) fn expire_after(limit: Duration, interrupt: Interrupt) -> std::io::Result<()> {
    let wait = move || {
        std::thread::sleep(limit);
        interrupt.expire();
    };
    std::thread::Builder::new().name("timeout".into()).spawn(wait).map(drop)
}
