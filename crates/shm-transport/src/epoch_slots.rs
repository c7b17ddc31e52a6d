//! Announcements of transfers. The engine withdraws an entry of its tables and then waits for the
//! threads that announced a transfer before.
//!
//! Each thread has a slot in the shared header. The slot's number is odd during a transfer. Most
//! threads own their slot, which needs no locked instruction to take. But a locked instruction must
//! come between the number and the first read of the tables. Otherwise the read may come first.

use crate::platform::Platform;
use crate::sync::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub use softband_ipc::layout::EPOCH_SLOTS;

/// A model has few threads.
#[cfg(loom)]
pub const EPOCH_SLOTS: usize = 4;

/// Slots with an owner, identified by its thread control block. The slots after them serve threads
/// without a slot of their own. A slot stays with its owner after the thread ends, until a new
/// thread has the same control block.
const OWNED: usize = EPOCH_SLOTS / 2;
pub struct Owners([AtomicU64; OWNED]);

impl Owners {
    /// Returns slots without owners.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; OWNED])
    }

    /// Returns slots without owners. The atomics of loom cannot be constants.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Forgets all owners: a forked child does not use the slots of its parent.
    pub fn forget(&self) {
        self.0.iter().for_each(|owner| owner.store(0, Ordering::Release));
    }
}

impl Default for Owners {
    fn default() -> Self {
        Self::new()
    }
}

/// A slot that this thread alone holds at the moment. Its number is now odd.
pub struct EpochSlot(&'static AtomicU64);

/// Returns a number unique among live threads and different in a forked child; never 0.
#[inline]
fn this_thread<P: Platform>() -> u64 {
    P::thread() ^ u64::from(P::own_number()).rotate_right(20)
}

impl EpochSlot {
    /// Takes a slot. With `IS_ORDERED`, later reads are at least as new as the number. Without it,
    /// the caller executes a locked instruction, unless the process is single-threaded.
    #[inline(always)]
    pub(crate) fn take<P: Platform, const IS_ORDERED: bool>() -> Self {
        let me = this_thread::<P>();
        let first = (me >> 12 ^ me >> 16) as usize % OWNED;
        if P::owners().0[first].load(Ordering::Relaxed) == me {
            let number = &P::epoch_slots()[first].0;
            if number.load(Ordering::Relaxed).is_multiple_of(2) {
                if IS_ORDERED && !P::is_single_threaded() {
                    number.fetch_add(1, Ordering::SeqCst);
                } else {
                    advance(number);
                }
                return Self(number);
            }
        }
        take_another::<P>(me, first)
    }

    /// Checks whether this is the slot with that number.
    pub fn is(&self, number: &AtomicU64) -> bool {
        std::ptr::eq(self.0, number)
    }
}

/// Increments the number by one instruction. A signal handler may run before or after it, and
/// increments twice. Earlier writes become visible first: this processor keeps stores in order, and
/// the compiler does not move them past this.
#[inline(always)]
fn advance(number: &AtomicU64) {
    #[cfg(not(any(loom, miri)))]
    // SAFETY: the instruction touches this word only, and nobody else writes to a slot with an
    // owner.
    unsafe {
        std::arch::asm!("inc qword ptr [{}]", in(reg) number.as_ptr(), options(nostack));
    }
    #[cfg(any(loom, miri))]
    number.store(number.load(Ordering::Relaxed) + 1, Ordering::Release);
}

impl Drop for EpochSlot {
    #[inline]
    fn drop(&mut self) {
        advance(self.0);
    }
}

/// Takes a slot other than `first`: the thread's own, a free slot that becomes its own, or a common
/// slot.
#[cold]
fn take_another<P: Platform>(me: u64, first: usize) -> EpochSlot {
    let owners = &P::owners().0;
    let is_or_becomes_mine = |index: &usize| match owners[*index].load(Ordering::Relaxed) {
        0 => owners[*index].compare_exchange(0, me, Ordering::AcqRel, Ordering::Relaxed).is_ok(),
        owner => owner == me,
    };
    // Another thread has come here before; the C library counts only the threads that it created.
    if owners.iter().any(|owner| ![0, me].contains(&owner.load(Ordering::Relaxed))) {
        P::note_several_threads();
    }
    // A child by a raw `clone` has owners of its own, but no slots.
    let may_own = P::is_attached_process();
    let own = (0..OWNED).map(|step| (first + step) % OWNED).find(|index| may_own && is_or_becomes_mine(index));
    // The thread's own slot is odd within a signal handler that interrupted a transfer.
    if let Some(slot) = own.and_then(|index| try_slot(&P::epoch_slots()[index].0)) {
        return slot;
    }
    loop {
        if let Some(slot) = P::epoch_slots()[OWNED..].iter().find_map(|number| try_slot(&number.0)) {
            return slot;
        }
        P::yield_now();
    }
}

fn try_slot(number: &'static AtomicU64) -> Option<EpochSlot> {
    let seen = number.load(Ordering::Relaxed);
    let is_taken = seen.is_multiple_of(2) && number.compare_exchange(seen, seen + 1, Ordering::SeqCst, Ordering::Relaxed).is_ok();
    is_taken.then_some(EpochSlot(number))
}
