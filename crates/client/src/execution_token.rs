//! Giving the execution token away and waiting for it, and the thread's own clock.

use crate::calls::Errno;
use crate::session::{self, thread_slot};
use crate::wake_word;
use rustix::thread::futex;
use softband_ipc::attach::word;
use softband_ipc::calls::{Handle, Op, SpinTarget};
use softband_ipc::layout::{ThreadSlot, token};
use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a program leaves with when its engine is gone.
const EXIT_ENGINE_GONE: i32 = 113;

static SIGNAL_RAISER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static BEFORE_GIVE: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static AFTER_WAIT: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Up to where the thread that has the token may read clocks without a closer look (see [`tick`]).
static CLOCK_LIMIT: AtomicU64 = AtomicU64::new(0);

/// A look at the clock that costs `picos`. `None` when it is time for a closer look: the clock has moved all the same.
#[inline]
pub fn tick(picos: u64) -> Option<u64> {
    let slot = thread_slot()?;
    let now = slot.clock_ps.load(Ordering::Relaxed) + picos;
    slot.clock_ps.store(now, Ordering::Relaxed);
    (now < CLOCK_LIMIT.load(Ordering::Relaxed)).then_some(now)
}

/// Looks at the clock need no closer look before `picos`, unless the thread does anything else before.
pub fn set_clock_limit(picos: u64) {
    CLOCK_LIMIT.store(picos, Ordering::Relaxed);
}

thread_local! {
    static PROGRESS: Cell<u64> = const { Cell::new(0) };
}

/// Turns that the calling thread has given away and work that it has posted: grows whenever it does more than look.
pub fn progress() -> u64 {
    PROGRESS.with(Cell::get)
}

pub(crate) fn note_progress() {
    CLOCK_LIMIT.store(0, Ordering::Relaxed);
    PROGRESS.with(|count| count.set(count.get().wrapping_add(1)));
}

/// Sets the functions that run before a thread gives the token away and after the token has come back. The guest sets them once.
pub fn set_token_hooks(before_give: fn(), after_wait: fn()) {
    BEFORE_GIVE.store(before_give as *mut (), Ordering::Release);
    AFTER_WAIT.store(after_wait as *mut (), Ordering::Release);
}

fn run_hook(hook: &AtomicPtr<()>) {
    let hook = hook.load(Ordering::Acquire);
    if !hook.is_null() {
        // SAFETY: only `set_token_hooks` stores here, and it stores a `fn()`.
        let hook: fn() = unsafe { std::mem::transmute(hook) };
        hook();
    }
}

/// The calling thread's clock: picoseconds since the run began. A thread that the engine does not know sees zero.
pub fn now_ps() -> u64 {
    if session::is_wall() {
        return wall_ps();
    }
    last_answer_ps()
}

/// The engine's time at its last answer to the calling thread; in simulated time that is the thread's clock. What the engine had
/// done until then is not later.
pub fn last_answer_ps() -> u64 {
    thread_slot().map_or(0, |slot| slot.clock_ps.load(Ordering::Relaxed))
}

/// The host's clock since the engine started.
fn wall_ps() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let nanos = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    nanos.saturating_sub(session::header().wall_start_ns) * 1_000
}

/// Lets the calling thread's clock advance: what it does costs time.
pub fn advance_ps(picos: u64) {
    if session::is_wall() {
        return;
    }
    if let Some(slot) = thread_slot() {
        // Only the owner of the turn changes the clock, so a plain load and store do.
        slot.clock_ps.store(slot.clock_ps.load(Ordering::Relaxed) + picos, Ordering::Relaxed);
    }
}

/// Moves the calling thread's clock forward to `picos`, never back.
pub fn set_clock_at_least(picos: u64) {
    if let Some(slot) = thread_slot() {
        slot.clock_ps.fetch_max(picos, Ordering::Relaxed);
    }
}

/// Who raises the signals that the engine delivers (bit n: signal n). The guest sets it once.
pub fn set_signal_raiser(raise: fn(u64)) {
    SIGNAL_RAISER.store(raise as *mut (), Ordering::Release);
}

/// An empty poll of a completion queue: comes back at the next event of this process, or a while later.
pub fn poll_empty(cq: u32) {
    if session::is_wall() {
        return give_without_data(Op::Poll);
    }
    let _ = crate::calls::call_void(Op::Poll, &Handle { handle: cq, reserved: 0 });
}

/// A loop that spins on memory: comes back when a peer has written registered memory, or a while later.
pub fn spin_wait() {
    give_without_data(Op::SpinWait);
}

/// As [`spin_wait`], for a loop that looks at one word only: writes elsewhere need not wake it.
pub fn spin_wait_at(address: usize, len: usize) {
    let _ = crate::calls::call_void(Op::SpinWait, &SpinTarget { address: address as u64, len: len as u64 });
}

/// Everything that the model dates up to this thread's clock has happened when this returns.
pub fn sync() {
    give_without_data(Op::Sync);
}

fn give_without_data(op: Op) {
    if session::is_wall() {
        // Time passes by itself; the thread that brings what this one waits for may need the processor.
        if op == Op::Sync {
            crate::ring::drain()
        } else {
            std::thread::yield_now()
        }
        return;
    }
    if let Some(slot) = thread_slot() {
        slot.payload_len.store(0, Ordering::Relaxed);
        exchange(slot, op);
        deliver_signals(slot);
    }
}

/// Runs `blocking` while the engine does not wait for this thread. Its clock comes back at the present horizon.
pub fn away<R>(blocking: impl FnOnce() -> R) -> R {
    if session::is_wall() {
        return blocking(); // nobody waits for it
    }
    let (Some(slot), Some(number)) = (thread_slot(), session::thread_slot_number()) else { return blocking() };
    slot.payload_len.store(0, Ordering::Relaxed);
    give(slot, Op::Away);
    let result = blocking();
    session::send_word(number, word::BACK);
    wait(slot);
    deliver_signals(slot);
    result
}

/// Hands the turn to the engine with `op` and waits for it to come back.
pub(crate) fn exchange(slot: &ThreadSlot, op: Op) {
    give(slot, op);
    wait(slot);
}

pub(crate) static CALLS: Mutex<()> = Mutex::new(());

/// One call at a time where threads share a slot; a forked child has one of its own from then on.
pub(crate) fn lock_calls() -> Result<Option<MutexGuard<'static, ()>>, Errno> {
    if !session::is_wall() {
        return Ok(None);
    }
    let guard = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    crate::fork::attach_if_orphaned().map_err(|error| {
        crate::warn::once(&format!("a child process cannot take part in the fabric: {}", error.0));
        Errno(libc::ENODEV)
    })?;
    Ok(Some(guard))
}

/// Gives the token away for good (the thread or process ends).
pub(crate) fn give(slot: &ThreadSlot, op: Op) {
    run_hook(&BEFORE_GIVE);
    note_progress();
    slot.op.store(op as u32, Ordering::Relaxed);
    slot.token.store(token::ENGINE, Ordering::SeqCst);
    if session::is_wall() {
        session::send_word(0, word::CALL);
        return;
    }
    if slot.engine_asleep.swap(0, Ordering::SeqCst) != 0 {
        let _ = futex::wake(&slot.token, futex::Flags::empty(), 1);
    }
}

/// Waits until the calling thread has the token; used by threads that have just been bound to a slot.
pub fn await_token() {
    if let Some(slot) = thread_slot() {
        wait(slot);
    }
}

/// Lets signals (bit n: signal n) be raised at the end of the call that the thread is in, as if the engine had delivered them.
pub fn note_signals(signals: u64) {
    if let Some(slot) = thread_slot() {
        slot.signals.fetch_or(signals, Ordering::AcqRel);
    }
}

/// Raises what the engine has delivered. Called at points where a handler may make calls of its own.
pub(crate) fn deliver_signals(slot: &ThreadSlot) {
    let signals = slot.signals.swap(0, Ordering::AcqRel);
    if signals != 0 {
        let raise = SIGNAL_RAISER.load(Ordering::Acquire);
        if !raise.is_null() {
            // SAFETY: only `set_signal_raiser` stores here, and it stores a `fn(u64)`.
            let raise: fn(u64) = unsafe { std::mem::transmute(raise) };
            raise(signals);
        }
    }
}

fn wait(slot: &ThreadSlot) {
    wait_for_token(slot);
    session::note_token(slot);
    CLOCK_LIMIT.store(0, Ordering::Relaxed);
    run_hook(&AFTER_WAIT);
}

fn wait_for_token(slot: &ThreadSlot) {
    let has_token = || slot.token.load(Ordering::SeqCst) != token::ENGINE;
    spin_for_token(slot, has_token);
    while !has_token() {
        wake_word::sleep(slot, has_token);
    }
    leave_if_dead(slot);
}

/// Spins for the token, as long as no other thread needs this processor.
fn spin_for_token(slot: &ThreadSlot, has_token: impl Fn() -> bool) {
    let spins = session::header().token_spins.load(Ordering::Relaxed);
    if spins == 0 {
        return;
    }
    slot.spinning.store(1, Ordering::SeqCst);
    for _ in 0..spins {
        if has_token() || slot.stand_down.load(Ordering::Relaxed) != 0 {
            break;
        }
        std::hint::spin_loop();
    }
    // First the one, then the other: the engine does it the other way round, so one of both wakes the successor.
    slot.spinning.store(0, Ordering::SeqCst);
    if slot.stand_down.swap(0, Ordering::SeqCst) != 0 {
        wake_word::wake(slot.successor.load(Ordering::Relaxed));
    }
}

fn leave_if_dead(slot: &ThreadSlot) {
    if slot.token.load(Ordering::Acquire) == token::DEAD {
        leave();
    }
}

/// The engine is gone or has given this process up: there is no time left in which it could go on.
pub(crate) fn leave() -> ! {
    // SAFETY: `_exit` ends the process without running anything of it.
    unsafe { libc::_exit(EXIT_ENGINE_GONE) }
}
