//! Stacks for stopped calls. A call can wait for long, and the thread's signal stack must be free
//! meanwhile for its other signals. The stack of the program is no place either: those of Go's
//! routines have no room. So the handler's frame moves to a stack of this library.
//!
//! A handler of the program can interrupt the call and make calls in turn. It runs on this library's
//! stack, or on the signal stack (`SA_ONSTACK`). So the frame of a call lies below all that is in use:
//! below the interrupted address if it is on this stack, else below the last frame and below the last
//! place where a handler has interrupted this stack ([`beside_handler`]).

use softband_client as client;
use std::cell::Cell;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Mutex;

/// Bytes for calls, and for the signal handlers that interrupt them.
const ROOM: usize = 1 << 20;
/// Bytes that a call needs for itself. With less, its frame stays where the kernel has put it.
const CALL: usize = 128 << 10;
const GUARD: usize = 4096;
const SIZE: usize = GUARD + ROOM;
/// Alignment of the processor's vector state.
const ALIGNMENT: usize = 64;
/// Bytes below the stack pointer that a function may use (System V ABI).
const RED_ZONE: usize = 128;
/// Least size of a signal stack, before the processor's vectors grew.
const SIGNAL_STACK_MIN: usize = 2048;
/// Entry of the auxiliary vector: the bytes of a signal's frame (Linux 5.14).
const AT_MINSIGSTKSZ: libc::c_ulong = 51;
/// Mark of the extended state in the free words of the `fxsave` area, its place, and the place of
/// the state's size (sigcontext.h).
const EXTENDED: u32 = 0x4650_5853;
const EXTENDED_AT: usize = 464;
const EXTENDED_SIZE_AT: usize = 468;
const FXSAVE_BYTES: usize = 512;

thread_local! {
    /// Whether the thread is in a call.
    static IN_CALL: Cell<bool> = const { Cell::new(false) };
    /// Start of the thread's stack. 0 without a stack.
    static START: Cell<usize> = const { Cell::new(0) };
    /// End of the stack's free part.
    static FREE_END: Cell<usize> = const { Cell::new(0) };
    /// The program's signal stack at the last stopped call for which it had one. The kernel takes a
    /// stack with SS_AUTODISARM away while a handler runs on it.
    static SIGNAL_STACK: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    /// Whether the kernel has only the rest of the signal stack ([`keep_signal_stack`]).
    static HAS_REST: Cell<bool> = const { Cell::new(false) };
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
/// Offset of the architecture in `siginfo_t`.
const ARCHITECTURE_AT: usize = 28;

impl Frame {
    /// Returns the signal's description behind the state of the processor.
    pub(super) fn info(&self) -> &libc::siginfo_t {
        let at = (&raw const self.machine).cast::<u8>().wrapping_add(MACHINE_BYTES);
        // SAFETY: the kernel writes the description there, in the same frame.
        unsafe { &*at.cast() }
    }

    /// Returns the architecture of the call (linux/audit.h).
    pub(super) fn architecture(&self) -> u32 {
        let at = std::ptr::from_ref(self.info()).cast::<u8>().wrapping_add(ARCHITECTURE_AT);
        // SAFETY: the description of a SIGSYS has the number there.
        unsafe { at.cast::<u32>().read() }
    }

    /// Returns the signals that the thread blocks outside the handler.
    pub(super) fn mask(&mut self) -> &mut u64 {
        // SAFETY: the kernel stores eight bytes of the mask at its start.
        unsafe { &mut *(&raw mut self.machine.uc_sigmask).cast() }
    }

    /// Returns the stack pointer of the interrupted code.
    fn stack_pointer(&self) -> usize {
        self.machine.uc_mcontext.gregs[libc::REG_RSP as usize] as usize
    }

    /// Returns the program's signal stack. The range is empty if the thread has none.
    fn signal_stack(&self) -> Range<usize> {
        let stack = &self.machine.uc_stack;
        let start = stack.ss_sp as usize;
        if stack.ss_flags & libc::SS_DISABLE == 0 { start..start + stack.ss_size } else { 0..0 }
    }

    /// Returns whether the interrupted code runs on the program's signal stack.
    pub(super) fn is_on_signal_stack(&self) -> bool {
        self.signal_stack().contains(&self.stack_pointer())
    }

    /// Returns whether the call ends its thread, which then needs no stack.
    fn ends_thread(&self) -> bool {
        self.machine.uc_mcontext.gregs[libc::REG_RAX as usize] as libc::c_int == libc::SYS_exit as libc::c_int
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
    if START.get() != 0 {
        return true;
    }
    let known = FREE.try_lock().ok().and_then(|mut free| free.pop());
    let Some(start) = known.or_else(map) else { return false };
    FREE_END.set(start + SIZE);
    START.set(start);
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
    let start = START.get();
    if start == 0 || FREE_END.get() != start + SIZE {
        return;
    }
    if let Ok(mut free) = FREE.try_lock() {
        START.set(0);
        free.push(start);
    }
}

/// Returns the addresses of the calling thread's stack.
fn own() -> Range<usize> {
    match START.get() {
        0 => 0..0,
        start => start + GUARD..start + SIZE,
    }
}

/// A frame in its new place.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Moved {
    frame: NonNull<Frame>,
    /// Former end of the free part of the stack.
    former_end: usize,
}

/// Moves a handler's frame to the stack of this library. Runs while the thread blocks its signals.
///
/// # Safety
/// The kernel has just built the frame, for the handler that calls this.
pub(super) unsafe extern "C" fn move_frame(frame: NonNull<Frame>) -> Moved {
    let from = frame.as_ptr() as usize;
    // SAFETY: the kernel has built the frame, for this handler alone.
    let now = unsafe { &mut *frame.as_ptr() };
    note_signal_stack(now);
    let (own, len) = (own(), now.end() - from);
    let stays = Moved { frame, former_end: 0 };
    // At wall pace, the program's handlers run without this library's knowledge. So a call within a
    // handler stays where the handler runs.
    if client::is_wall() && (IN_CALL.get() || now.is_on_signal_stack()) {
        return stays;
    }
    let Some(end) = free_end(now, &own) else { return stays };
    let former_end = FREE_END.get();
    if own.contains(&from) {
        FREE_END.set(from);
        return Moved { frame, former_end };
    }
    // The vector state keeps its alignment.
    let to = ((end.saturating_sub(len + ALIGNMENT)) & !(ALIGNMENT - 1)).saturating_sub(ALIGNMENT) + from % ALIGNMENT;
    if to < own.start + CALL || !has_rest(now) || now.ends_thread() {
        return stays;
    }
    FREE_END.set(to);
    let moved = to as *mut Frame;
    // SAFETY: the new place lies in the free part of this thread's stack, and apart from the frame.
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, len) };
    // SAFETY: the copy is a frame. Nobody else knows it.
    let state = unsafe { &mut (*moved).machine.uc_mcontext.fpregs };
    if !state.is_null() {
        *state = state.wrapping_byte_add(to.wrapping_sub(from));
    }
    Moved { frame: NonNull::new(moved).unwrap_or(frame), former_end }
}

/// Notes the program's signal stack. The return to a program that has jumped out of a waiting call gives
/// it the whole signal stack back.
fn note_signal_stack(frame: &mut Frame) {
    let (now, (start, end)) = (frame.signal_stack(), SIGNAL_STACK.get());
    let is_rest = HAS_REST.get() && now.start == start && now.end < end;
    if !is_rest {
        if !now.is_empty() {
            SIGNAL_STACK.set((now.start, now.end));
        }
        return;
    }
    let pointer = frame.stack_pointer();
    if !(start..end).contains(&pointer) && !own().contains(&pointer) {
        frame.machine.uc_stack.ss_size = end - start;
        HAS_REST.set(false);
    }
}

/// Returns the end of the part of the stack that nobody uses. Returns `None` without a stack.
fn free_end(frame: &Frame, own: &Range<usize>) -> Option<usize> {
    if own.is_empty() {
        return None;
    }
    let pointer = frame.stack_pointer();
    if own.contains(&pointer) {
        return Some(pointer - RED_ZONE);
    }
    let (start, end) = SIGNAL_STACK.get();
    if !(start..end).contains(&pointer) {
        // The program itself: a jump has ended the calls that are still noted.
        FREE_END.set(own.end);
    }
    Some(FREE_END.get())
}

/// Returns whether the rest of the signal stack has room for a signal, if the call comes from there.
fn has_rest(frame: &Frame) -> bool {
    if !frame.is_on_signal_stack() {
        return true;
    }
    // SAFETY: the call takes a number and returns 0 for an unknown one.
    let needed = unsafe { libc::getauxval(AT_MINSIGSTKSZ) } as usize;
    let rest = (frame.stack_pointer() - RED_ZONE).saturating_sub(frame.signal_stack().start);
    rest >= needed.max(SIGNAL_STACK_MIN)
}

/// Keeps the part of the signal stack that a handler of the program uses, while its call waits on the
/// stack of this library. The kernel would else begin at the end of the signal stack again. The return
/// to the handler gives the whole signal stack back. Returns whether the kernel had only a rest before.
pub(super) fn keep_signal_stack(frame: &Frame) -> bool {
    let had_rest = HAS_REST.get();
    if !frame.is_on_signal_stack() || !own().contains(&(std::ptr::from_ref(frame) as usize)) {
        return had_rest;
    }
    let mut rest = frame.machine.uc_stack;
    rest.ss_size = frame.stack_pointer() - RED_ZONE - rest.ss_sp as usize;
    // SAFETY: the rest belongs to the program's signal stack, on which the thread does not run now.
    unsafe { kernel!(libc::SYS_sigaltstack, &raw const rest, std::ptr::null_mut::<libc::stack_t>()) };
    HAS_REST.set(true);
    had_rest
}

/// Frees the room of a call that returns. The return gives the kernel the signal stack, or the rest that
/// it had before.
pub(super) fn leave(former_end: usize, has_rest: bool) {
    HAS_REST.set(has_rest);
    if former_end != 0 {
        FREE_END.set(former_end);
    }
}

/// Notes a call of the calling thread while `body` runs.
pub(super) fn noting_call(body: impl FnOnce()) {
    let outer = IN_CALL.replace(true);
    body();
    IN_CALL.set(outer);
}

/// Runs a handler of the program that has interrupted code with this stack pointer. Its calls leave the
/// stack of the interrupted code alone.
pub(super) fn beside_handler(pointer: usize, handler: impl FnOnce()) {
    let former_end = FREE_END.get();
    if own().contains(&pointer) {
        FREE_END.set(former_end.min(pointer - RED_ZONE));
    }
    handler();
    FREE_END.set(former_end);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a frame without vector state, for code with this stack pointer.
    fn frame(pointer: usize, mark: usize) -> Frame {
        // SAFETY: all zero is a frame.
        let mut frame: Frame = unsafe { std::mem::zeroed() };
        frame.restorer = mark;
        frame.machine.uc_mcontext.gregs[libc::REG_RSP as usize] = pointer as i64;
        frame.machine.uc_mcontext.gregs[libc::REG_RAX as usize] = libc::SYS_read;
        frame.machine.uc_stack.ss_flags = libc::SS_DISABLE;
        frame
    }

    fn on_signal_stack(mut frame: Frame, stack: &Range<usize>) -> Frame {
        frame.machine.uc_stack = libc::stack_t { ss_sp: stack.start as *mut libc::c_void, ss_flags: 0, ss_size: stack.len() };
        frame
    }

    /// Moves a frame and returns its new address, with the former end of the free part.
    fn moved(frame: &mut Frame) -> (usize, usize) {
        let mark = frame.restorer;
        // SAFETY: the frame lives during the call.
        let moved = unsafe { move_frame(NonNull::from(&mut *frame)) };
        // SAFETY: the frame lies here or in the stack of this thread.
        assert_eq!(unsafe { moved.frame.as_ref() }.restorer, mark);
        (moved.frame.as_ptr() as usize, moved.former_end)
    }

    /// Runs `body` in a thread with a stack, with addresses outside it for a program and a signal stack.
    fn with_stack(body: impl FnOnce(usize, Range<usize>) + Send + 'static) {
        std::thread::spawn(|| {
            assert!(prepare());
            let room = vec![0_u8; 128 << 10];
            let at = room.as_ptr() as usize;
            body(at, at + (64 << 10)..at + (128 << 10));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_call_in_a_handler_lies_below_what_the_interrupted_call_uses() {
        with_stack(|program, signals| {
            let (first, end) = moved(&mut frame(program, 1));
            assert!(own().contains(&first) && end == own().end);
            // A handler on this stack, with much in use, calls.
            let pointer = first - (300 << 10);
            let (second, end) = moved(&mut frame(pointer, 2));
            assert!(second < pointer - RED_ZONE && end == first);
            leave(end, false);
            // A handler on the signal stack has interrupted the first call there.
            beside_handler(pointer, || {
                let (third, end) = moved(&mut on_signal_stack(frame(signals.start + (32 << 10), 3), &signals));
                assert!(own().contains(&third) && third < pointer - RED_ZONE);
                leave(end, false);
            });
            leave(own().end, false);
        });
    }

    #[test]
    fn a_frame_stays_if_it_lies_on_the_stack_or_without_room() {
        with_stack(|program, signals| {
            let (first, _) = moved(&mut frame(program, 1));
            let place = (first - 4096) & !(ALIGNMENT - 1);
            // SAFETY: the free part of the stack has room for a frame.
            let here = unsafe { &mut *(place as *mut Frame) };
            *here = frame(place + size_of::<Frame>(), 2);
            assert_eq!(moved(here), (place, first));
            let mut full = frame(own().start + CALL, 3);
            assert_eq!(moved(&mut full), ((&raw const full) as usize, 0), "no room for the call");
            let mut tiny = on_signal_stack(frame(signals.start + 256, 4), &signals);
            assert_eq!(moved(&mut tiny), ((&raw const tiny) as usize, 0), "no room for a signal");
        });
    }

    #[test]
    fn a_jump_out_of_a_call_frees_its_room_and_a_call_in_progress_keeps_the_stack() {
        with_stack(|program, signals| {
            let (first, _) = moved(&mut frame(program, 1));
            give_back();
            assert_ne!(START.get(), 0, "a stack in use stays");
            let (nested, end) = moved(&mut on_signal_stack(frame(signals.start + (32 << 10), 2), &signals));
            assert!(nested < first && end == first);
            let (again, end) = moved(&mut on_signal_stack(frame(program, 3), &signals));
            // Each place has the alignment of the frame that it came from.
            assert!(again.abs_diff(first) < ALIGNMENT && end == own().end);
            leave(end, false);
            give_back();
            assert_eq!(START.get(), 0);
        });
    }
}
