//! Computation ahead of the engine: a thread that has announced its computation runs beside the
//! engine and other programs (`softband_client::announce_computation`).
//!
//! The results must not depend on the moment at which the machine runs such a thread. So the thread
//! may only compute: its first system call waits until the engine has come to the end of the
//! computation ([`dispatch`]). A process that shares memory with another one never computes ahead
//! (`shares`).

pub mod dispatch;
mod shares;

use crate::own_calls;
use crate::runtime::world::{active, is_away, is_parked, keeping_errno};
use crate::signal::actions;
use crate::spin::{probe, watch};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use softband_client as client;
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// Shortest computation that is worth its announcement: half a millisecond of the modelled host.
/// The announcement costs a tenth of it: system calls, and the list of mappings.
const SHORTEST_PICOS: u64 = 500_000_000;

thread_local! {
    /// Processors of the thread before its present computation.
    static PROCESSORS: Cell<Option<CpuSet>> = const { Cell::new(None) };
}

/// Announces that the caller now computes for `picos` of the recording machine, and then calls
/// `softband_compute_ps` with the same value. Calls and system calls before that wait for the end of
/// the computation.
#[unsafe(no_mangle)]
pub extern "C" fn softband_compute_ahead_ps(picos: u64) {
    if active() && picos >= SHORTEST_PICOS {
        keeping_errno(|| begin(picos));
    }
}

fn begin(picos: u64) {
    let is_busy = is_parked() || is_away() || actions::is_any_handler_running() || client::is_ahead();
    if is_busy || own_calls::are_stopped() || has_alarm() || !dispatch::prepare() || shares::shares_memory() {
        return;
    }
    client::set_catch_up_hook(end);
    spread();
    // The engine must reach the memory of the process.
    watch::disarm();
    probe::stop();
    if client::announce_computation(picos) {
        dispatch::block();
    } else {
        end();
    }
}

/// Ends the computation before the thread waits for the engine.
fn end() {
    dispatch::allow();
    if let Some(before) = PROCESSORS.take() {
        let _ = sched_setaffinity(None, &before);
    }
}

/// Returns whether the process has set an alarm. A clock read must not pass its time without the
/// engine.
fn has_alarm() -> bool {
    !matches!(client::header().deadline_ps.load(Ordering::Relaxed), 0 | u64::MAX)
}

/// Lets the thread run on all processors of the run. Programs otherwise share one.
fn spread() {
    let words = client::header().processors;
    let mut all = CpuSet::new();
    for processor in 0..CpuSet::MAX_CPU.min(words.len() * 64) {
        if words[processor / 64] >> (processor % 64) & 1 != 0 {
            all.set(processor);
        }
    }
    if all.count() == 0 {
        return;
    }
    if let Ok(before) = sched_getaffinity(None)
        && sched_setaffinity(None, &all).is_ok()
    {
        PROCESSORS.set(Some(before));
    }
}
