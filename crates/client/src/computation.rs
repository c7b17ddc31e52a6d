//! Time for computation: the processor time of a thread between two calls, times a factor.

use crate::ahead;
use crate::execution_token::{advance_ps, sync};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Unit of the factor: a million is 1.
const MILLION: u128 = 1_000_000;

/// Factor in millionths, for both ways.
static FACTOR: AtomicU64 = AtomicU64::new(MILLION as u64);
static IS_MEASURED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Processor time of the thread at the end of its last call, in nanoseconds.
    static STARTED: Cell<u64> = const { Cell::new(0) };
}

/// Sets the factor, in millionths, of times that [`advance_by_computation`] gets. `measured` makes
/// each thread's own processor time count too. The shim calls it once, before the program runs.
pub fn set_computation(factor_millionths: u64, measured: bool) {
    FACTOR.store(factor_millionths, Ordering::Relaxed);
    IS_MEASURED.store(measured, Ordering::Relaxed);
    restart();
}

/// Returns the processor time of the calling thread by the machine's clock, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // The functions of the C library and of the vDSO lead to the simulated clocks.
    // SAFETY: the kernel writes a time to `now`, and changes no registers but those named here.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_clock_gettime => _,
            in("rdi") libc::CLOCK_THREAD_CPUTIME_ID,
            in("rsi") &raw mut now,
            out("rcx") _,
            out("r11") _,
            options(nostack)
        );
    }
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn scaled(picos: u64) -> u64 {
    (u128::from(picos) * u128::from(FACTOR.load(Ordering::Relaxed)) / MILLION) as u64
}

/// Advances the calling thread's clock by a stretch of computation, times the factor. The thread
/// then sees the state at its new clock. An announced stretch counts once.
pub fn advance_by_computation(picos: u64) {
    if ahead::take_announcement() {
        return ahead::catch_up();
    }
    let picos = scaled(picos);
    if picos > 0 {
        advance_ps(picos);
        sync();
    }
}

/// Announces the stretch of computation that begins now. Until its end the thread computes ahead of
/// the engine. Returns false if it does not.
pub fn announce_computation(picos: u64) -> bool {
    let picos = scaled(picos);
    picos > 0 && ahead::announce(picos)
}

/// Advances the clock by the processor time since the last call, if computation is measured.
#[inline]
pub(crate) fn count() {
    if IS_MEASURED.load(Ordering::Relaxed) {
        count_measured();
    }
}

fn count_measured() {
    let now = thread_cpu_ns();
    let nanos = now.saturating_sub(STARTED.replace(now));
    advance_ps(scaled(nanos.saturating_mul(1_000)));
}

/// Begins a stretch at the end of a call.
#[inline]
pub(crate) fn restart() {
    if IS_MEASURED.load(Ordering::Relaxed) {
        STARTED.set(thread_cpu_ns());
    }
}
