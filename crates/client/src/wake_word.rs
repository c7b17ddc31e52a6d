//! The wake words on which threads sleep until they have the token
//! (`softband_ipc::layout::WAKE_WORDS`).

use rustix::fd::OwnedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::thread::futex;
use softband_ipc::layout::{BELL, ENGINE_SLEEPS, ThreadSlot, WAKE_WORDS, wake_word_of};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

static WORDS: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// Maps the engine's file of wake words. A forked child already has its parent's mapping of the
/// same file.
pub(crate) fn map(file: &OwnedFd) -> rustix::io::Result<()> {
    if WORDS.load(Ordering::Acquire).is_null() {
        // SAFETY: a fresh mapping, never undone, of a file that the engine created with this size.
        let words = unsafe {
            mmap(std::ptr::null_mut(), WAKE_WORDS * size_of::<AtomicU32>(), ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)?
        };
        WORDS.store(words.cast(), Ordering::Release);
    }
    Ok(())
}

fn word(number: u32) -> &'static AtomicU32 {
    let words = WORDS.load(Ordering::Acquire);
    assert!(!words.is_null(), "softband: not attached to an engine");
    // SAFETY: the index lies within the mapping, which is never undone, and the words are atomics.
    unsafe { &*words.add(number as usize % WAKE_WORDS) }
}

/// Wakes the engine if it sleeps.
pub(crate) fn ring_bell() {
    if word(ENGINE_SLEEPS).swap(0, Ordering::SeqCst) != 0 {
        wake(BELL);
    }
}

/// Returns the calling thread's own wake word.
pub(crate) fn own() -> u32 {
    wake_word_of(crate::session::process_number(), crate::session::thread_slot_number().unwrap_or(0))
}

/// Wakes the thread that sleeps on wake word `number`.
pub(crate) fn wake(number: u32) {
    let word = word(number);
    word.fetch_add(1, Ordering::SeqCst);
    let _ = futex::wake(word, futex::Flags::empty(), u32::MAX >> 1);
}

/// Sleeps on this thread's wake word until a wake-up, unless `is_over` returns true.
pub(crate) fn sleep(slot: &ThreadSlot, is_over: impl Fn() -> bool) {
    let word = word(own());
    let seen = word.load(Ordering::SeqCst);
    slot.program_asleep.store(1, Ordering::SeqCst);
    if is_over() {
        slot.program_asleep.store(0, Ordering::Relaxed);
        return;
    }
    // No time limit: a timer costs more than the hand-over. If the engine ends, the kernel ends
    // this process (`session`).
    let _ = futex::wait(word, futex::Flags::empty(), seen, None);
}
