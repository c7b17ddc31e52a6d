//! Stacks for stopped calls. A call can wait for long, and the thread's signal stack must be free
//! meanwhile for its other signals. The stack of the program is no place either: those of Go's
//! routines have no room. So the handler's frame moves to a stack of this library.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Mutex;

/// Room of a call in bytes, with those that its signal handlers make in turn.
const ROOM: usize = 128 << 10;
/// Calls within calls (by handlers of signals) that have room each. Further calls stay where they
/// are.
const DEPTH: usize = 4;
const GUARD: usize = 4096;
const SIZE: usize = GUARD + ROOM * DEPTH;
/// Alignment of the processor's vector state.
const ALIGNMENT: usize = 64;
/// Mark of the extended state in the free words of the `fxsave` area, its place, and the place of
/// the state's size (sigcontext.h).
const EXTENDED: u32 = 0x4650_5853;
const EXTENDED_AT: usize = 464;
const EXTENDED_SIZE_AT: usize = 468;
const FXSAVE_BYTES: usize = 512;

thread_local! {
    /// Start of the thread's stack, and the end of its free part.
    static STACK: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Stacks of threads that have ended.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Start of a signal handler's frame, as the kernel builds it.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Frame {
    restorer: usize,
    pub(super) machine: libc::ucontext_t,
}

/// Kernel's part of `ucontext_t` in bytes: up to the mask of eight bytes. `siginfo_t` follows.
const MACHINE_BYTES: usize = 304;
const INFO_BYTES: usize = 128;

impl Frame {
    /// Returns the signal's description behind the state of the processor.
    pub(super) fn info(&self) -> &libc::siginfo_t {
        let at = (&raw const self.machine).cast::<u8>().wrapping_add(MACHINE_BYTES);
        // SAFETY: the kernel writes the description there, in the same frame.
        unsafe { &*at.cast() }
    }

    /// Returns the signals that the thread blocks outside the handler.
    pub(super) fn mask(&mut self) -> &mut u64 {
        // SAFETY: the kernel stores eight bytes of the mask at its start.
        unsafe { &mut *(&raw mut self.machine.uc_sigmask).cast() }
    }

    /// Returns the address behind the frame and the vector state.
    fn end(&self) -> usize {
        let state = self.machine.uc_mcontext.fpregs.cast::<u8>();
        if state.is_null() {
            return (&raw const self.machine) as usize + MACHINE_BYTES + INFO_BYTES;
        }
        // SAFETY: the kernel stores at least the `fxsave` area, which has both words.
        let word = |at: usize| unsafe { state.add(at).cast::<u32>().read_unaligned() };
        let len = if word(EXTENDED_AT) == EXTENDED { word(EXTENDED_SIZE_AT) as usize } else { FXSAVE_BYTES };
        state as usize + len
    }
}

/// Gets a stack for the calling thread. Returns false if there is no memory.
pub(super) fn prepare() -> bool {
    if STACK.get().0 != 0 {
        return true;
    }
    let known = FREE.try_lock().ok().and_then(|mut free| free.pop());
    let Some(start) = known.or_else(map) else { return false };
    STACK.set((start, start + SIZE));
    true
}

fn map() -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { kernel!(libc::SYS_mmap, 0, SIZE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if start == -1 {
        return None;
    }
    // SAFETY: the first page of the new mapping, which nobody uses.
    unsafe { kernel!(libc::SYS_mprotect, start, GUARD, libc::PROT_NONE) };
    Some(start as usize)
}

/// Gives the stack of the calling thread to the next one. A call that uses it keeps it.
pub(super) fn give_back() {
    let (start, end) = STACK.get();
    if start == 0 || end != start + SIZE {
        return;
    }
    if let Ok(mut free) = FREE.try_lock() {
        free.push(start);
        STACK.set((0, 0));
    }
}

/// A frame in its new place.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Moved {
    frame: NonNull<Frame>,
    /// Free end of the stack before the move, or 0 if the frame stayed.
    former_end: usize,
}

/// Moves a handler's frame to the stack of this library.
///
/// # Safety
/// The kernel has just built the frame, for the handler that calls this.
pub(super) unsafe extern "C" fn move_frame(frame: NonNull<Frame>) -> Moved {
    let (start, end) = STACK.get();
    let from = frame.as_ptr() as usize;
    // SAFETY: the kernel has built the frame.
    let len = unsafe { frame.as_ref() }.end() - from;
    if start == 0 || end < start + GUARD + ROOM || len > ROOM / 2 {
        return Moved { frame, former_end: 0 };
    }
    // The vector state keeps its alignment.
    let to = ((end - len - ALIGNMENT) & !(ALIGNMENT - 1)) - ALIGNMENT + from % ALIGNMENT;
    let moved = to as *mut Frame;
    // SAFETY: the new place lies in the free part of this thread's stack, and apart from the frame.
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, len) };
    // SAFETY: the copy is a frame. Nobody else knows it.
    let state = unsafe { &mut (*moved).machine.uc_mcontext.fpregs };
    if !state.is_null() {
        *state = state.wrapping_byte_add(to.wrapping_sub(from));
    }
    STACK.set((start, end - ROOM));
    Moved { frame: NonNull::new(moved).unwrap_or(frame), former_end: end }
}

/// Frees the room of a call that returns.
pub(super) fn leave(former_end: usize) {
    if former_end != 0 {
        STACK.set((STACK.get().0, former_end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_moves_as_often_as_there_is_room_and_keeps_its_contents() {
        std::thread::spawn(|| {
            assert!(prepare());
            let mut ends = Vec::new();
            for depth in 0..=DEPTH {
                // SAFETY: all zero is a frame without vector state.
                let mut frame: Frame = unsafe { std::mem::zeroed() };
                frame.restorer = depth + 1;
                let at = NonNull::from(&mut frame);
                // SAFETY: the frame lives during the call.
                let moved = unsafe { move_frame(at) };
                assert_eq!(moved.frame == at, depth == DEPTH, "the last one stays");
                assert_eq!(moved.frame.as_ptr() as usize % ALIGNMENT, at.as_ptr() as usize % ALIGNMENT);
                // SAFETY: the moved frame lies in the stack of this thread.
                assert_eq!(unsafe { moved.frame.as_ref() }.restorer, depth + 1);
                ends.push(moved.former_end);
            }
            assert!(ends.iter().take(DEPTH).is_sorted_by(|higher, lower| **higher == **lower + ROOM));
            give_back();
            assert_ne!(STACK.get().0, 0, "a stack in use stays");
            ends.into_iter().rev().for_each(leave);
            give_back();
            assert_eq!(STACK.get().0, 0);
        })
        .join()
        .unwrap();
    }
}
