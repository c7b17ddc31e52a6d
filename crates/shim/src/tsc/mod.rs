//! The time stamp counter. Each read traps and returns the monotonic clock in nanoseconds: the counter
//! has 1 GHz on every machine. `fd/processor_rate` states this rate in the system's files.

mod entry;
mod patch;
mod site;
mod vdso;

use crate::clib::args::Out;
use crate::clib::real;
use crate::runtime::world::{PICOS_PER_NANO, active, keeping_errno};
use crate::time::clock::{MONOTONIC_START_SECONDS, read_clock};
pub use patch::rewrite_due;
use std::sync::atomic::{AtomicBool, Ordering};
pub use vdso::replace as replace_vdso;

/// Ticks in a second.
pub const RATE_HZ: u64 = 1_000_000_000;

static REWRITES: AtomicBool = AtomicBool::new(false);

/// Machine code of `rdtsc` and `rdtscp`.
const RDTSC: [u8; 2] = [0x0f, 0x31];
const RDTSCP: [u8; 3] = [0x0f, 0x01, 0xf9];

/// Lets counter reads trap in the calling thread, and in the threads and images that it creates.
/// Returns false on failure.
pub fn trap() -> bool {
    set(libc::PR_TSC_SIGSEGV)
}

/// Allows rewriting: from now on, frequent reads are rewritten if possible.
pub fn allow_rewriting() {
    REWRITES.store(entry::prepare(), Ordering::Relaxed);
}

/// Lets counter reads pass again.
pub fn release() {
    set(libc::PR_TSC_ENABLE);
}

/// Runs `body` with the trap off. `body` makes a new image, which has no handler at its start.
pub fn released<R>(body: impl FnOnce() -> R) -> R {
    release();
    let result = body();
    trap();
    result
}

fn set(mode: i32) -> bool {
    // SAFETY: prctl with these arguments touches no memory. The C library's own `syscall` is not interposed.
    unsafe { kernel!(libc::SYS_prctl, libc::PR_SET_TSC, mode) == 0 }
}

/// Returns the length in bytes of the counter instruction at the start of `bytes`.
fn instruction_len(bytes: [u8; 3]) -> Option<usize> {
    if bytes == RDTSCP {
        Some(RDTSCP.len())
    } else if bytes[..2] == RDTSC {
        Some(RDTSC.len())
    } else {
        None
    }
}

/// Returns the value of the counter. A thread outside simulated time reads the kernel's clock, as its
/// other clocks do.
fn ticks() -> u64 {
    if active() {
        return MONOTONIC_START_SECONDS * RATE_HZ + read_clock() / PICOS_PER_NANO;
    }
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    keeping_errno(|| real::kernel_clock_gettime(libc::CLOCK_MONOTONIC, Out::of(&mut now)));
    now.tv_sec as u64 * RATE_HZ + now.tv_nsec as u64
}

/// Answers a trapped read. Returns false if the fault has another cause.
///
/// # Safety
/// `context` belongs to a fault whose instruction pointer is readable memory.
pub unsafe fn emulate(context: &mut libc::ucontext_t) -> bool {
    let registers = &mut context.uc_mcontext.gregs;
    let at = registers[libc::REG_RIP as usize] as *const u8;
    // The code reads single bytes, because the instruction may be the last of its page.
    // SAFETY: the processor has just fetched an instruction from here.
    if at.is_null() || unsafe { *at } != RDTSC[0] {
        return false;
    }
    // SAFETY: an opcode that begins with 0F has at least two bytes.
    let second = unsafe { *at.add(1) };
    // SAFETY: a ModRM byte follows the opcode 0F 01.
    let third = if second == RDTSCP[1] { unsafe { *at.add(2) } } else { 0 };
    let Some(len) = instruction_len([RDTSC[0], second, third]) else { return false };
    if active() && REWRITES.load(Ordering::Relaxed) {
        patch::note_trap(at as usize);
    }
    let ticks = ticks();
    registers[libc::REG_RAX as usize] = (ticks & 0xffff_ffff) as i64;
    registers[libc::REG_RDX as usize] = (ticks >> 32) as i64;
    if len == RDTSCP.len() {
        registers[libc::REG_RCX as usize] = 0; // processor 0, always
    }
    registers[libc::REG_RIP as usize] += len as i64;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_instructions_are_known_and_others_are_not() {
        assert_eq!(instruction_len([0x0f, 0x31, 0x48]), Some(2));
        assert_eq!(instruction_len([0x0f, 0x01, 0xf9]), Some(3));
        assert_eq!(instruction_len([0x0f, 0x01, 0xd0]), None);
        assert_eq!(instruction_len([0x0f, 0x05, 0x31]), None);
    }
}
