//! Saying that a thread moves data: the engine takes an entry of its tables away and then waits for the threads that had said so before.
//!
//! Each has a slot in the shared header whose number is odd meanwhile. Most threads have one of their own, which takes no locked
//! instruction; but between the number and the first read of the tables there must be one, or else the read may come first.

use crate::fork::{is_attached_process, own_number};
use crate::session::{header, thread_pointer};
use crate::single_threaded::is_single_threaded;
use softband_ipc::layout::EPOCH_SLOTS;
use std::sync::atomic::{AtomicU64, Ordering};

/// Slots that each belong to a thread, by its control block. Slots behind them serve threads that find none. A thread keeps its slot
/// beyond its end, until another one comes that has its control block.
const OWNED: usize = EPOCH_SLOTS / 2;
static OWNERS: [AtomicU64; OWNED] = [const { AtomicU64::new(0) }; OWNED];

/// A slot that this thread alone has at the moment, now odd.
pub(crate) struct EpochSlot(&'static AtomicU64);

/// What distinguishes the calling thread from others that live at the same time, also from its image in a child; never 0.
#[inline]
fn this_thread() -> u64 {
    thread_pointer() as u64 ^ u64::from(own_number()).rotate_right(20)
}

impl EpochSlot {
    /// With `IS_ORDERED` whatever is read later is at least as new as the number; otherwise the caller sees to that by a locked
    /// instruction, unless the process is single-threaded.
    #[inline(always)]
    pub(crate) fn take<const IS_ORDERED: bool>() -> Self {
        let me = this_thread();
        let first = (me >> 12 ^ me >> 16) as usize % OWNED;
        if OWNERS[first].load(Ordering::Relaxed) == me {
            let number = &header().epoch_slots[first].0;
            if number.load(Ordering::Relaxed).is_multiple_of(2) {
                if IS_ORDERED && !is_single_threaded() {
                    number.fetch_add(1, Ordering::SeqCst);
                } else {
                    advance(number);
                }
                return Self(number);
            }
        }
        take_another(me, first)
    }

    pub(crate) fn is(&self, number: &AtomicU64) -> bool {
        std::ptr::eq(self.0, number)
    }
}

/// Makes the number the next one, by one instruction: the handler of a signal may come before or behind it, and takes two numbers. What was
/// written before is seen before (stores stay in order on this processor, and the compiler does not move them past this).
#[inline(always)]
fn advance(number: &AtomicU64) {
    // SAFETY: the one word; nobody else writes to a slot that is somebody's.
    unsafe { std::arch::asm!("inc qword ptr [{}]", in(reg) number.as_ptr(), options(nostack)) };
}

impl Drop for EpochSlot {
    #[inline]
    fn drop(&mut self) {
        advance(self.0);
    }
}

/// Another slot than the one at `first`: the thread's own, one that becomes its own, or one that anybody may take for the moment.
#[cold]
fn take_another(me: u64, first: usize) -> EpochSlot {
    let is_or_becomes_mine = |index: &usize| match OWNERS[*index].load(Ordering::Relaxed) {
        0 => OWNERS[*index].compare_exchange(0, me, Ordering::AcqRel, Ordering::Relaxed).is_ok(),
        owner => owner == me,
    };
    // Another thread has come here before; the C library knows only of those that it made.
    if OWNERS.iter().any(|owner| ![0, me].contains(&owner.load(Ordering::Relaxed))) {
        crate::single_threaded::forget();
    }
    // A child by a raw `clone` has owners of its own, but not slots.
    let may_own = is_attached_process();
    let own = (0..OWNED).map(|step| (first + step) % OWNED).find(|index| may_own && is_or_becomes_mine(index));
    // Its own is odd within a signal handler that has interrupted the thread.
    if let Some(slot) = own.and_then(|index| try_slot(&header().epoch_slots[index].0)) {
        return slot;
    }
    loop {
        if let Some(slot) = header().epoch_slots[OWNED..].iter().find_map(|number| try_slot(&number.0)) {
            return slot;
        }
        std::thread::yield_now();
    }
}

fn try_slot(number: &'static AtomicU64) -> Option<EpochSlot> {
    let seen = number.load(Ordering::Relaxed);
    let is_taken = seen.is_multiple_of(2) && number.compare_exchange(seen, seen + 1, Ordering::SeqCst, Ordering::Relaxed).is_ok();
    is_taken.then_some(EpochSlot(number))
}

/// A forked child has slots of its own, which are another process's.
pub(crate) fn forget() {
    OWNERS.iter().for_each(|owner| owner.store(0, Ordering::Release));
}
