//! Finds the turns in which the program writes shared memory.

use super::ranges::{self, Mapping};
use crate::runtime::world::{active, is_away, is_parked};
use crate::spin::{is_own, registers};
use softband_client::{self as client, regions};
use std::cell::Cell;

/// Words of the stack in which a return address of this library shows that it was at work.
const STACK_WORDS: usize = 48;

thread_local! {
    /// Number of the thread's writes that were noted.
    static WRITES: Cell<u64> = const { Cell::new(0) };
}

/// Returns a number that grows with each turn in which the thread writes shared memory.
pub fn writes() -> u64 {
    WRITES.get()
}

/// Makes the memory that another process has, too, read-only. The thread's turn has come. Each turn
/// counts as a write to memory that stays open.
pub fn token_came() {
    if !super::is_sharing() {
        return;
    }
    for mapping in ranges::iter().filter(|mapping| mapping.is_shared() && mapping.is_writable() && mapping.is_open()) {
        if mapping.stays_open() {
            mapping.note_write();
        } else {
            mapping.set_open(false);
        }
    }
}

/// Leaves the memory at an address open from now on: the kernel writes it at the end of a thread.
pub fn keep_open(address: usize) {
    let Some(mapping) = ranges::at(address).filter(|mapping| mapping.is_writable() && !mapping.stays_open()) else { return };
    mapping.keep_open();
    open(&mapping);
}

/// Opens the memory that the engine writes on behalf of peers.
pub fn before_give() {
    if !ranges::any() {
        return;
    }
    if !regions::are_all_listed() {
        ranges::iter().filter(|mapping| !mapping.is_open()).for_each(|mapping| {
            mapping.set_open(true);
        });
        return;
    }
    for region in regions::iter().filter(|region| region.remote_writable) {
        let range = region.address..region.address + region.len;
        for mapping in ranges::iter().filter(|mapping| mapping.overlaps(&range) && !mapping.is_open()) {
            mapping.set_open(true);
        }
    }
}

/// Handles a faulting write: notes it and opens the mapping. Returns the mapping; `None` if this
/// module did not cause the fault.
pub fn admit(address: usize, machine: &libc::ucontext_t) -> Option<Mapping> {
    let find = || ranges::at(address).filter(|mapping| mapping.is_writable() && !mapping.is_open());
    find()?;
    // The write belongs to the thread's present time. What happens before that comes first.
    if client::is_past_next_event() && is_in_program(machine) {
        client::sync();
    }
    let mapping = find()?;
    open(&mapping);
    Some(mapping)
}

fn open(mapping: &Mapping) {
    mapping.set_open(true);
    mapping.note_write();
    WRITES.set(WRITES.get() + 1);
}

/// Opens the memory into which the kernel is about to write. The kernel does not deliver its faults
/// to this library.
pub fn open_for(address: usize, len: usize) {
    if ranges::any() {
        let range = address..address.saturating_add(len);
        ranges::iter().filter(|mapping| mapping.overlaps(&range) && mapping.is_writable() && !mapping.is_open()).for_each(|mapping| open(&mapping));
    }
}

/// Opens all memory: the kernel is about to write at an unknown place.
pub fn open_all() {
    open_for(0, usize::MAX);
}

/// Returns whether the program itself runs, so that the thread can give the token away: not this
/// library, nor a function of the C library that it has called.
pub fn is_in_program(machine: &libc::ucontext_t) -> bool {
    if !active() || is_parked() || is_away() || is_own(registers::instruction(machine)) {
        return false;
    }
    let stack = registers::stack(machine) as *const usize;
    // SAFETY: the words lie in the stack of the interrupted thread, below the arguments and the
    // environment of the process or the thread's own data.
    (0..STACK_WORDS).all(|word| !is_own(unsafe { stack.add(word).read() }))
}
