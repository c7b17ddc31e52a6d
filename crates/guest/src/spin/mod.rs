//! Programs that spin: loops that wait for memory to change and call nothing, so nothing would give the token away.
//!
//! The engine sends a signal to a thread that keeps the token for long. That proves nothing (the host may be slow, the program
//! may compute), so it only starts a closer look, and simulated time never depends on when it came:
//!
//! - [`watch`]: memory that peers may write is made inaccessible. Each access faults, is stepped over, and is remembered; an
//!   access that repeats with nothing else having changed is a spin ([`machine`]).
//! - [`probe`]: where no such access happens, the thread is stepped instruction by instruction; when it comes back to the same
//!   state of all registers by the same path again and again, it is a spin.
//! - [`blocked`]: a thread that sits in a system call that is not interposed waits for it in simulated time instead.
//!
//! Only a proven spin gives the token away.

pub mod blocked;
pub mod emulate;
pub mod machine;
pub mod probe;
pub mod registers;
pub mod watch;

use crate::world::{active, set_parked};
use softband_client as client;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

static TEXT_START: AtomicUsize = AtomicUsize::new(0);
static TEXT_END: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// [`client::progress`] at the last signal, and how many signals came since it changed.
    static SIGNALS: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// Finds where this library's own code lies: nothing in it is a spin.
pub fn install() {
    // SAFETY: the callback has the type asked for, and the list is valid during it.
    unsafe { libc::dl_iterate_phdr(Some(find_text), std::ptr::null_mut()) };
}

unsafe extern "C" fn find_text(info: *mut libc::dl_phdr_info, _size: usize, _data: *mut libc::c_void) -> libc::c_int {
    let headers = std::slice::from_raw_parts((*info).dlpi_phdr, (*info).dlpi_phnum as usize);
    for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0) {
        let start = (*info).dlpi_addr as usize + header.p_vaddr as usize;
        if (start..start + header.p_memsz as usize).contains(&(install as *const () as usize)) {
            TEXT_START.store(start, Ordering::Relaxed);
            TEXT_END.store(start + header.p_memsz as usize, Ordering::Relaxed);
            return 1;
        }
    }
    0
}

/// Whether this library's own code was interrupted.
pub fn is_in_library(machine: &libc::ucontext_t) -> bool {
    is_own(registers::instruction(machine))
}

fn is_own(instruction: usize) -> bool {
    (TEXT_START.load(Ordering::Relaxed)..TEXT_END.load(Ordering::Relaxed)).contains(&instruction)
}

/// Hook of the client: the engine and the kernel must reach the memory.
pub fn before_give() {
    set_parked(true);
    watch::disarm();
    probe::stop();
}

/// Hook of the client: a known spinner is watched from the start of its turn.
pub fn after_wait() {
    set_parked(false);
    watch::token_came();
}

/// Before a system call with buffers of the program: the kernel takes no faults for us.
pub fn before_native() {
    watch::disarm();
}

/// A fault that the processor raised at `address`. False when it is none of ours.
pub fn on_fault(address: usize, machine: &mut libc::ucontext_t) -> bool {
    watch::on_fault(address, machine)
}

/// The step after a fault, or of a probe. False when it is none of ours.
pub fn on_trap(machine: &mut libc::ucontext_t) -> bool {
    watch::on_trap(machine) || probe::on_trap(machine)
}

/// The engine's signal: this thread has had the token for long.
pub fn on_signal(machine: &mut libc::ucontext_t) {
    let instruction = registers::instruction(machine);
    if !active() || is_own(instruction) || probe::is_running() {
        return;
    }
    if blocked::is_blocked(machine) {
        blocked::wait(machine);
        return;
    }
    if is_after_call(instruction) {
        return;
    }
    let progress = client::progress();
    let (known, count) = SIGNALS.get();
    let count = if known == progress { count + 1 } else { 0 };
    SIGNALS.set((progress, count));
    let faults = watch::take_fault_count();
    if count > 0 && faults == 0 {
        // It was watched since the last signal and touched nothing that is watched.
        watch::disarm();
        probe::start(machine);
    } else {
        watch::arm();
    }
}

/// Whether a system call has just ended here. The byte pair is read only where it lies on the same page.
fn is_after_call(instruction: usize) -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    // SAFETY: the processor has just executed from this page.
    instruction & 0xfff >= 2 && unsafe { *((instruction - 2) as *const [u8; 2]) } == SYSCALL
}
