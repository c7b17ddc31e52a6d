//! Hand-over of the execution token, waits for it, and the thread's clock.

use crate::ahead;
use crate::calls::Errno;
use crate::computation;
use crate::session::{self, thread_slot};
use crate::wake_word;
use rustix::thread::futex;
use softband_ipc::attach::word;
use softband_ipc::calls::{Handle, Op, Pause, SpinTarget, op};
use softband_ipc::layout::{ThreadSlot, token};
use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Exit status of a program after its engine has gone.
const EXIT_ENGINE_GONE: i32 = 113;

static SIGNAL_RAISER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static BEFORE_GIVE: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static AFTER_WAIT: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Time in picoseconds below which the token's holder may read clocks without a check (see
/// [`tick`]).
static CLOCK_LIMIT: AtomicU64 = AtomicU64::new(0);

/// Advances the clock by `picos` for a read. Returns `None` if the clock, which has moved, now
/// needs a check.
#[inline]
pub fn tick(picos: u64) -> Option<u64> {
    computation::count();
    let slot = thread_slot()?;
    let now = slot.clock_ps.load(Ordering::Relaxed) + picos;
    slot.clock_ps.store(now, Ordering::Relaxed);
    (now < CLOCK_LIMIT.load(Ordering::Relaxed)).then_some(now)
}

/// Allows clock reads without a check before `picos`, unless the thread does other work first.
pub fn set_clock_limit(picos: u64) {
    CLOCK_LIMIT.store(picos, Ordering::Relaxed);
}

/// Threads of this process that block in [`away`]. The child of a fork begins with none.
static AWAY: AtomicUsize = AtomicUsize::new(0);

/// Returns whether a thread of this process may be in a call of the kernel, which reads and writes its
/// memory at any time.
pub fn any_is_away() -> bool {
    AWAY.load(Ordering::SeqCst) > 0
}

/// Forgets the threads of the parent in the child of a fork.
pub(crate) fn forget_away() {
    AWAY.store(0, Ordering::SeqCst);
}

thread_local! {
    static PROGRESS: Cell<u64> = const { Cell::new(0) };
    /// Whether the thread blocks in [`away`].
    static IS_AWAY: Cell<bool> = const { Cell::new(false) };
    static CQ_POLLS: Cell<u64> = const { Cell::new(0) };
}

/// Returns a count of this thread's polls of completion queues in simulated time.
pub fn cq_polls() -> u64 {
    CQ_POLLS.with(Cell::get)
}

/// Counts a poll of a completion queue.
pub fn note_cq_poll() {
    CQ_POLLS.with(|count| count.set(count.get().wrapping_add(1)));
}

/// Returns a count of hand-overs of the token and posts by this thread. It grows with all work
/// except polls.
pub fn progress() -> u64 {
    PROGRESS.with(Cell::get)
}

pub(crate) fn note_progress() {
    CLOCK_LIMIT.store(0, Ordering::Relaxed);
    end_looks();
    PROGRESS.with(|count| count.set(count.get().wrapping_add(1)));
}

/// Sets the functions that run before a thread gives the token away and after it gets the token
/// back. The shim sets them once.
pub fn set_token_hooks(before_give: fn(), after_wait: fn()) {
    BEFORE_GIVE.store(before_give as *mut (), Ordering::Release);
    AFTER_WAIT.store(after_wait as *mut (), Ordering::Release);
}

pub(crate) fn run_hook(hook: &AtomicPtr<()>) {
    let hook = hook.load(Ordering::Acquire);
    if !hook.is_null() {
        // SAFETY: only `set_token_hooks` stores here, and it stores a `fn()`.
        let hook: fn() = unsafe { std::mem::transmute(hook) };
        hook();
    }
}

/// Returns the calling thread's clock, in picoseconds since the run began. Returns zero in a thread
/// that the engine does not know.
pub fn now_ps() -> u64 {
    if session::is_wall() {
        return wall_ps();
    }
    last_answer_ps()
}

/// Returns the engine's time at its last reply to this thread, in picoseconds. In simulated time,
/// this is the thread's clock. All work of the engine up to the reply is not later.
pub fn last_answer_ps() -> u64 {
    thread_slot().map_or(0, |slot| slot.clock_ps.load(Ordering::Relaxed))
}

/// Returns the host's time since the engine started, in picoseconds.
fn wall_ps() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let nanos = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    nanos.saturating_sub(session::header().wall_start_ns) * 1_000
}

/// Advances the calling thread's clock by the cost of its work, in picoseconds.
pub fn advance_ps(picos: u64) {
    if session::is_wall() {
        return;
    }
    if let Some(slot) = thread_slot() {
        // Only the holder of the token changes the clock, so a plain load and store suffice.
        slot.clock_ps.store(slot.clock_ps.load(Ordering::Relaxed).saturating_add(picos), Ordering::Relaxed);
    }
}

/// Advances the calling thread's clock to `picos`, never back.
pub fn set_clock_at_least(picos: u64) {
    if let Some(slot) = thread_slot() {
        slot.clock_ps.fetch_max(picos, Ordering::Relaxed);
    }
}

/// Sets the function that raises signals from the engine (bit n: signal n). The shim sets it once.
pub fn set_signal_raiser(raise: fn(u64)) {
    SIGNAL_RAISER.store(raise as *mut (), Ordering::Release);
}

/// Ends the period in which empty polls need no call: the thread has posted work or taken a
/// completion.
pub fn end_looks() {
    if let Some(slot) = thread_slot() {
        slot.looks_end_ps.store(0, Ordering::Relaxed);
    }
}

/// Notes an empty poll that needs no call: the process has other news to find, and nothing happens
/// to it before the thread's clock. Returns false if the poll needs a call.
fn may_look_on() -> bool {
    let Some(slot) = thread_slot() else { return false };
    let left = slot.looks_left.load(Ordering::Relaxed);
    if left == 0 || slot.clock_ps.load(Ordering::Relaxed) >= slot.looks_end_ps.load(Ordering::Relaxed) {
        return false;
    }
    slot.looks_left.store(left - 1, Ordering::Relaxed);
    // A loop that polls is no spin on memory.
    PROGRESS.with(|count| count.set(count.get().wrapping_add(1)));
    true
}

/// Reports an empty poll of a CQ. Returns at the next event of this process, or after a pause.
/// Returns at once while the process has news that the thread may find elsewhere.
pub fn poll_empty(cq: u32) {
    if session::is_wall() {
        return give_without_data(Op::Poll);
    }
    if may_look_on() {
        return;
    }
    let _ = crate::calls::call::<op::Poll>(&Handle { handle: cq, reserved: 0 });
}

/// Reports a poll of something else than a CQ. Returns at the next event of this process, or at
/// `until_ps`.
pub fn pause(until_ps: u64) {
    let _ = crate::calls::call::<op::Pause>(&Pause { until_ps });
}

/// Returns whether the fabric or another program may have acted since this turn began, by the
/// thread's clock.
pub fn is_past_next_event() -> bool {
    thread_slot().is_some_and(|slot| slot.clock_ps.load(Ordering::Relaxed) >= slot.next_event_ps.load(Ordering::Relaxed))
}

/// Returns the time of the first event of the fabric or another program that this turn does not know.
pub fn next_event_ps() -> u64 {
    thread_slot().map_or(0, |slot| slot.next_event_ps.load(Ordering::Relaxed))
}

/// Reports a loop that spins on memory. Returns after a peer has written registered memory, or
/// after a pause.
pub fn spin_wait() {
    give_without_data(Op::SpinWait);
}

/// As [`spin_wait`], for a loop that reads one word only. Writes elsewhere need not wake it.
pub fn spin_wait_at(address: usize, len: usize) {
    let _ = crate::calls::call_with_tail::<op::SpinWait>(&(), &[SpinTarget { address: address as u64, len: len as u64 }], &mut []);
}

/// Returns after the model has executed all events up to this thread's clock.
pub fn sync() {
    give_without_data(Op::Sync);
}

fn give_without_data(op: Op) {
    if session::is_wall() {
        // Wall time passes by itself. The thread that this thread waits for may need the processor.
        if op == Op::Sync {
            crate::ring::drain()
        } else {
            std::thread::yield_now()
        }
        return;
    }
    ahead::catch_up();
    if let Some(slot) = thread_slot() {
        slot.payload_len.store(0, Ordering::Relaxed);
        exchange(slot, op);
        deliver_signals(slot);
    }
}

/// Runs `blocking` while the engine does not wait for this thread. The clock then continues at the
/// present horizon.
pub fn away<R>(blocking: impl FnOnce() -> R) -> R {
    if session::is_wall() {
        return blocking(); // the engine does not wait for this thread
    }
    let (Some(slot), Some(number)) = (thread_slot(), session::thread_slot_number()) else { return blocking() };
    ahead::catch_up();
    slot.payload_len.store(0, Ordering::Relaxed);
    slot.is_back.store(0, Ordering::Relaxed);
    give(slot, Op::Away);
    IS_AWAY.set(true);
    AWAY.fetch_add(1, Ordering::SeqCst);
    let result = blocking();
    AWAY.fetch_sub(1, Ordering::SeqCst);
    IS_AWAY.set(false);
    // Before the thread sleeps for its token: the engine distinguishes that sleep from the call's.
    slot.is_back.store(1, Ordering::SeqCst);
    session::send_word(number, word::BACK);
    wait(slot);
    deliver_signals(slot);
    result
}

/// Takes the token again in a thread whose call in [`away`] a cancellation has ended. The C library
/// unwinds the stack, so the rest of `away` does not run.
pub fn return_if_away() {
    if let (true, Some(slot), Some(number)) = (IS_AWAY.replace(false), thread_slot(), session::thread_slot_number()) {
        AWAY.fetch_sub(1, Ordering::SeqCst);
        slot.is_back.store(1, Ordering::SeqCst);
        session::send_word(number, word::BACK);
        wait(slot);
    }
}

/// Gives the token to the engine with `op` and waits for its return.
pub(crate) fn exchange(slot: &ThreadSlot, op: Op) {
    give(slot, op);
    wait(slot);
}

pub(crate) static CALLS: Mutex<()> = Mutex::new(());

/// Admits one call at a time where threads share a slot. A forked child attaches first and then has
/// its own slot.
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

/// Gives the token away with `op`.
pub(crate) fn give(slot: &ThreadSlot, op: Op) {
    computation::count();
    run_hook(&BEFORE_GIVE);
    note_progress();
    slot.op.store(op as u32, Ordering::Relaxed);
    slot.token.store(token::ENGINE, Ordering::SeqCst);
    if session::is_wall() {
        session::leave_without_control();
        slot.is_calling.store(1, Ordering::SeqCst);
        wake_word::ring_bell();
        return;
    }
    wake_engine(slot);
}

/// Wakes the engine if it sleeps until the thread's token changes.
pub(crate) fn wake_engine(slot: &ThreadSlot) {
    if slot.engine_asleep.swap(0, Ordering::SeqCst) != 0 {
        let _ = futex::wake(&slot.token, futex::Flags::empty(), 1);
    }
}

/// Waits for the token, in a thread that was just bound to a slot.
pub fn await_token() {
    if let Some(slot) = thread_slot() {
        wait(slot);
    }
}

/// Marks signals (bit n: signal n) as delivered by the engine. The end of the current call raises
/// them.
pub fn note_signals(signals: u64) {
    if let Some(slot) = thread_slot() {
        slot.signals.fetch_or(signals, Ordering::AcqRel);
    }
}

/// Raises the signals that the engine has delivered. Callers allow the handler to make calls of its
/// own.
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
    spin_for_token(slot);
    wait_asleep(slot);
}

/// Waits for the token without a claim to a processor.
pub(crate) fn wait_asleep(slot: &ThreadSlot) {
    while !has_token(slot) {
        wake_word::sleep(slot, || has_token(slot));
    }
    leave_if_dead(slot);
    session::note_token(slot);
    CLOCK_LIMIT.store(0, Ordering::Relaxed);
    run_hook(&AFTER_WAIT);
    computation::restart();
}

fn has_token(slot: &ThreadSlot) -> bool {
    slot.token.load(Ordering::SeqCst) != token::ENGINE
}

/// Spins for the token while no other thread needs this processor.
fn spin_for_token(slot: &ThreadSlot) {
    let spins = session::header().token_spins.load(Ordering::Relaxed);
    if spins == 0 {
        return;
    }
    slot.spinning.store(1, Ordering::SeqCst);
    for _ in 0..spins {
        if has_token(slot) || slot.stand_down.load(Ordering::Relaxed) != 0 {
            break;
        }
        std::hint::spin_loop();
    }
    // First `spinning`, then `stand_down`: the engine uses the opposite order, so at least one side
    // wakes the successor.
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

/// Ends the process. The engine is gone or gave this process up, so no time remains in which the
/// process could continue.
pub(crate) fn leave() -> ! {
    // SAFETY: `_exit` ends the process without running any of its code.
    unsafe { libc::_exit(EXIT_ENGINE_GONE) }
}
