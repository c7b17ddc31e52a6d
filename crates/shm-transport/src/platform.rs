//! The needs of the protocol from the process that it runs in.

use crate::epoch_slots::EPOCH_SLOTS;
use crate::epoch_slots::{EpochSlot, Owners};
use crate::sync::{AtomicU32, AtomicU64};
use crate::tables::{KeyEntry, Tables};
use softband_ipc::layout::LineOf;

/// A process that takes part. Its functions stand for one process, so implementations have no
/// fields, and calls cost no more than calls of plain functions.
pub trait Platform: Copy + Default + 'static {
    /// Returns the PID, and another number in a forked child.
    fn own_number() -> u32;
    /// Checks whether this process attached to the engine, unlike a child by a raw `clone`.
    fn is_attached_process() -> bool;
    /// Returns a number that no other live thread of the process has.
    fn thread() -> u64;
    /// Checks whether this is the only thread of the process and its announcements need no locked
    /// instruction ([`crate::epoch_slots`]).
    fn is_single_threaded() -> bool;
    /// Notes that several threads use verbs.
    fn note_several_threads();
    /// Checks whether the host has no process with this PID.
    fn is_gone(pid: u32) -> bool;
    /// Returns the clock of the fabric, in picoseconds.
    fn now_ps() -> u64;
    /// Yields the processor.
    fn yield_now();
    /// Returns the slots in which this process announces its transfers.
    fn epoch_slots() -> &'static [LineOf<AtomicU64>; EPOCH_SLOTS];
    /// Returns the owners of these slots.
    fn owners() -> &'static Owners;
    /// Returns the engine's tables, if the engine sent any.
    fn tables() -> Option<&'static Tables>;
    /// Returns the value of [`Tables::withdrawn`] at the last sweep.
    fn swept() -> &'static AtomicU32;
    /// Unmaps regions that are no longer registered. `own` is the announcement of the caller.
    fn sweep(tables: &'static Tables, own: &EpochSlot);
    /// Returns the local address of byte `address` of the region with this entry and key.
    fn alias(entry: &KeyEntry, key: u32, address: u64) -> Option<*mut u8>;
    /// Maps a part of a process's memory file, for reads and writes.
    fn map_part(file: u32, offset: u64, bytes: usize) -> Option<*mut u8>;
    /// Unmaps such a part.
    ///
    /// # Safety
    /// [`Self::map_part`] mapped it with this size, and nobody uses it any more.
    unsafe fn unmap_part(base: *mut u8, bytes: usize);
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests {
    use super::*;

    /// A process without an engine.
    #[derive(Clone, Copy, Default)]
    pub(crate) struct Alone;

    static SLOTS: [LineOf<AtomicU64>; EPOCH_SLOTS] = [const { LineOf(AtomicU64::new(0)) }; EPOCH_SLOTS];
    static OWNERS: Owners = Owners::new();
    static SWEPT: AtomicU32 = AtomicU32::new(0);

    impl Platform for Alone {
        fn own_number() -> u32 {
            std::process::id()
        }

        fn is_attached_process() -> bool {
            true
        }

        fn thread() -> u64 {
            1
        }

        fn is_single_threaded() -> bool {
            false
        }

        fn note_several_threads() {}

        fn is_gone(pid: u32) -> bool {
            pid != std::process::id()
        }

        fn now_ps() -> u64 {
            0
        }

        fn yield_now() {
            std::thread::yield_now();
        }

        fn epoch_slots() -> &'static [LineOf<AtomicU64>; EPOCH_SLOTS] {
            &SLOTS
        }

        fn owners() -> &'static Owners {
            &OWNERS
        }

        fn tables() -> Option<&'static Tables> {
            None
        }

        fn swept() -> &'static AtomicU32 {
            &SWEPT
        }

        fn sweep(_tables: &'static Tables, _own: &EpochSlot) {}

        fn alias(_entry: &KeyEntry, _key: u32, _address: u64) -> Option<*mut u8> {
            None
        }

        fn map_part(_file: u32, _offset: u64, _bytes: usize) -> Option<*mut u8> {
            None
        }

        unsafe fn unmap_part(_base: *mut u8, _bytes: usize) {}
    }
}
