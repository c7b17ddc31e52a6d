//! Detects programs that spin. They wait in a loop for memory to change and make no calls, so they
//! never give the token away.
//!
//! The engine sends a signal to a thread that keeps the token for long. The signal proves nothing,
//! because the host may be slow or the program may compute. It only starts a closer look. Simulated
//! time never depends on its arrival:
//!
//! - [`watch`] makes memory that peers may write inaccessible. Each access faults, is stepped over,
//!   and is remembered. An access that repeats may be that of a spin ([`machine`]).
//! - [`probe`] steps a thread without such accesses, instruction by instruction. A thread may spin
//!   if it repeatedly returns to the same state of all registers by the same path.
//! - [`steps`] examines such a loop. The loop spins if its rounds also leave memory as it was, or if
//!   no branch depends on what they change ([`rounds`], [`effect`](mod@effect)).
//! - [`blocked`] lets a thread in a system call that is not interposed wait for it in simulated
//!   time.
//!
//! Only a proven spin gives the token away.

pub mod blocked;
pub mod carried;
pub mod effect;
pub mod emulate;
pub mod machine;
pub mod probe;
pub mod registers;
pub mod rounds;
pub mod steps;
pub mod watch;

use crate::clib::real::is_kernel_call;
use crate::runtime::world::{active, set_parked};
use crate::shared::{guard, looks};
use softband_client as client;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

static TEXT_START: AtomicUsize = AtomicUsize::new(0);
static TEXT_END: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// [`client::progress`] at the last signal, and the number of signals since it changed.
    static SIGNALS: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// Finds the address range of this library's own code, which never spins.
pub fn install() {
    // SAFETY: the callback has the required type, and the list is valid during it.
    unsafe { libc::dl_iterate_phdr(Some(find_text), std::ptr::null_mut()) };
}

unsafe extern "C" fn find_text(info: *mut libc::dl_phdr_info, _size: usize, _data: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the loader describes an object that stays loaded during the call.
    let info = unsafe { &*info };
    // SAFETY: the loader states the number of headers at this address.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
    for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0) {
        let start = info.dlpi_addr as usize + header.p_vaddr as usize;
        if (start..start + header.p_memsz as usize).contains(&(install as *const () as usize)) {
            TEXT_START.store(start, Ordering::Relaxed);
            TEXT_END.store(start + header.p_memsz as usize, Ordering::Relaxed);
            return 1;
        }
    }
    0
}

/// Returns the address range of this library's own code.
pub fn own_text() -> std::ops::Range<usize> {
    if TEXT_END.load(Ordering::Relaxed) == 0 {
        install();
    }
    TEXT_START.load(Ordering::Relaxed)..TEXT_END.load(Ordering::Relaxed)
}

/// Returns whether the signal interrupted this library's own code.
pub fn is_in_library(machine: &libc::ucontext_t) -> bool {
    is_own(registers::instruction(machine))
}

pub(crate) fn is_own(instruction: usize) -> bool {
    (TEXT_START.load(Ordering::Relaxed)..TEXT_END.load(Ordering::Relaxed)).contains(&instruction) && !is_kernel_call(instruction)
}

/// Makes memory accessible before the thread gives the token away (hook of the client), because the
/// engine and the kernel must reach it.
pub fn before_give() {
    set_parked(true);
    looks::end();
    watch::disarm();
    guard::before_give();
    probe::stop();
    steps::stop();
}

/// Watches a known spinner from the start of its turn (hook of the client).
pub fn after_wait() {
    set_parked(false);
    guard::token_came();
    watch::token_came();
}

/// Gives access rights back before a system call with buffers of the program. The kernel does not
/// deliver faults to this library.
pub fn before_native() {
    looks::end();
    watch::disarm();
}

/// Handles a fault at `address`. Returns false if this library did not cause it.
pub fn on_fault(address: usize, machine: &mut libc::ucontext_t) -> bool {
    watch::on_fault(address, machine)
}

/// Handles the step after a fault, or of a probe. Returns false if this library did not cause the
/// trap.
pub fn on_trap(machine: &mut libc::ucontext_t) -> bool {
    watch::on_trap(machine) || probe::on_trap(machine)
}

/// Handles the engine's signal: this thread has had the token for long.
pub fn on_signal(machine: &mut libc::ucontext_t) {
    let instruction = registers::instruction(machine);
    if !active() || is_own(instruction) || watch::is_changing() || probe::is_running() || steps::is_running() {
        return;
    }
    if blocked::is_blocked(machine) {
        blocked::wait(machine);
        return;
    }
    if is_after_call(instruction) {
        // The signal may have ended a wait that does not begin again by itself, such as `nanosleep`.
        if registers::result(machine) == -i64::from(libc::EINTR) {
            blocked::wait_a_step(machine);
        }
        return;
    }
    // This library makes the call, perhaps to change the rights of watched memory.
    if is_kernel_call(instruction) || probe::rests() {
        return;
    }
    let progress = client::progress();
    let (known, count) = SIGNALS.get();
    let count = if known == progress { count + 1 } else { 0 };
    SIGNALS.set((progress, count));
    let faults = watch::take_fault_count();
    if count > 0 && faults == 0 {
        // The watched thread made no access to watched memory since the last signal.
        watch::end_suspicion();
        probe::start(machine);
    } else {
        watch::arm();
    }
}

/// Returns whether a system call has just ended here. Reads the byte pair only if it lies on the
/// same page.
fn is_after_call(instruction: usize) -> bool {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    // SAFETY: the processor has just executed from this page.
    instruction & 0xfff >= 2 && unsafe { *((instruction - 2) as *const [u8; 2]) } == SYSCALL
}
