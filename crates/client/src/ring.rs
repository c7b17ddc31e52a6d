//! Posts at wall pace, through a ring that the engine empties while the program continues.

use crate::session::{header, shared_base};
use crate::wake_word::ring_bell;
use softband_ipc::layout::{SLOTS_OFFSET, ThreadSlot, WALL_RING_BYTES};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

pub(crate) static PRODUCERS: Mutex<()> = Mutex::new(());

/// Appends a record made of `parts`. Waits for room.
pub(crate) fn append(parts: &[&[u8]]) {
    while !try_append(parts) {
        ring_bell();
        std::thread::yield_now();
    }
}

/// Appends a record if there is room for it.
pub(crate) fn try_append(parts: &[&[u8]]) -> bool {
    if crate::fork::is_orphaned() {
        return true; // the queue pairs of this child belonged to its parent
    }
    let one_at_a_time = PRODUCERS.lock().unwrap_or_else(PoisonError::into_inner);
    let len = parts.iter().map(|part| part.len()).sum::<usize>();
    let header = header();
    let produced = header.ring_produced.load(Ordering::Relaxed);
    if (produced - header.ring_consumed.load(Ordering::Acquire)) as usize + len > WALL_RING_BYTES {
        return false;
    }
    let mut at = produced;
    for part in parts {
        copy_in(at, part);
        at += part.len() as u64;
    }
    header.ring_produced.store(produced + len as u64, Ordering::Release);
    drop(one_at_a_time);
    ring_bell();
    true
}

/// Waits until the engine has taken all requests posted so far.
pub(crate) fn drain() {
    let header = header();
    let produced = header.ring_produced.load(Ordering::Acquire);
    while header.ring_consumed.load(Ordering::Acquire) < produced {
        ring_bell();
        std::thread::yield_now();
    }
}

fn copy_in(at: u64, bytes: &[u8]) {
    let start = at as usize % WALL_RING_BYTES;
    let first = bytes.len().min(WALL_RING_BYTES - start);
    // SAFETY: slot 1 lies within the mapping, both ranges lie within its buffer, and the lock
    // excludes other producers.
    unsafe {
        let slot = shared_base().add(SLOTS_OFFSET).cast::<ThreadSlot>().add(1);
        let ring = (&raw mut (*slot).posted).cast::<u8>();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), ring.add(start), first);
        std::ptr::copy_nonoverlapping(bytes.as_ptr().add(first), ring, bytes.len() - first);
    }
}
