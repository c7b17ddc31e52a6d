//! Filters of system calls (seccomp). A program's filter permits the calls of its own code. It knows
//! nothing of this library. So the filter gets instructions in front, which permit the calls of
//! this library, by the address of the calling instruction, and the return from a signal handler.

use crate::clib::real;
use crate::own_calls;
use crate::runtime::attach::attached;
use crate::runtime::world::{active, fail};
use crate::spin;
use libc::{c_int, c_long, c_ulong, sock_filter, sock_fprog};
use std::ops::Range;

/// Architecture of the system calls that the addresses belong to (linux/audit.h).
pub const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
/// Offsets in `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ADDRESS_AT: u32 = 8;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const CLEAR: u16 = (libc::BPF_LD | libc::BPF_IMM) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const GREATER: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;

/// Returns an instruction. A comparison skips `yes` or `no` instructions.
fn step(code: u16, k: u32, yes: u8, no: u8) -> sock_filter {
    sock_filter { code, jt: yes, jf: no, k }
}

/// Returns the instructions that permit calls from a range. Other calls reach their end, with the
/// accumulator empty, as at the start of a filter.
fn permits(range: Range<usize>) -> Vec<sock_filter> {
    let permit = step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0);
    let mut steps = vec![step(LOAD, NUMBER_AT, 0, 0), step(EQUAL, libc::SYS_rt_sigreturn as u32, 0, 1), permit];
    // The address of a call is that of the next instruction. A filter compares 32 bits.
    let (first, last) = (range.start + 1, range.end);
    if first >> 32 == last >> 32 {
        steps.extend([
            step(LOAD, ADDRESS_AT + 4, 0, 0),
            step(EQUAL, (first >> 32) as u32, 0, 4),
            step(LOAD, ADDRESS_AT, 0, 0),
            step(GREATER, first as u32 - 1, 0, 2),
            step(GREATER, last as u32, 1, 0),
            permit,
        ]);
    }
    let whole = u8::try_from(steps.len()).expect("a jump reaches the end");
    let mut guarded = vec![step(LOAD, ARCHITECTURE_AT, 0, 0), step(EQUAL, AUDIT_ARCH_X86_64, 0, whole)];
    guarded.append(&mut steps);
    guarded.push(step(CLEAR, 0, 0, 0));
    guarded
}

/// Calls `install` with the program's filter behind our instructions.
///
/// # Safety
/// `filter` is null, or a filter that lives during the call.
unsafe fn with_permits<R: From<i8> + PartialEq>(filter: *const sock_fprog, install: impl FnOnce(*const sock_fprog) -> R) -> R {
    if filter.is_null() || !attached() {
        return install(filter);
    }
    // SAFETY: the filter is not null.
    let theirs = unsafe { &*filter };
    // SAFETY: the kernel, too, reads this number of instructions.
    let theirs = unsafe { crate::clib::args::slice(theirs.filter, theirs.len.into()) };
    let mut steps = permits(spin::own_text());
    steps.extend(theirs);
    let whole = u16::try_from(steps.len()).map(|len| sock_fprog { len, filter: steps.as_mut_ptr() });
    let result = install(whole.as_ref().map_or(filter, std::ptr::from_ref));
    if result != R::from(-1) {
        own_calls::leave_to_filter();
    }
    result
}

/// Option that stops system calls by their addresses (linux/prctl.h).
const PR_SET_SYSCALL_USER_DISPATCH: c_int = 59;

/// Refuses the strict mode, which permits only the program's own reads and writes. This library could not
/// reach the engine any more. A kernel without the mode answers alike.
fn refuse_strict_mode<R: From<i8>>() -> R {
    softband_client::warn::once("no strict mode of seccomp in simulated time (EINVAL): use a filter, or --pace wall");
    fail(libc::EINVAL)
}

/// Implements `prctl`. Its arguments travel in the same registers whether present or not (System V
/// ABI).
///
/// # Safety
/// The arguments are those of the option.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    let call = |b: c_ulong| {
        // SAFETY: the arguments are the caller's, or a filter with the caller's at its end.
        unsafe { real::prctl(option, a, b, c, d) }
    };
    if option == libc::PR_SET_SECCOMP && a == libc::SECCOMP_MODE_STRICT as c_ulong && active() {
        return refuse_strict_mode();
    }
    if option == PR_SET_SYSCALL_USER_DISPATCH && active() {
        softband_client::warn::once("no Syscall User Dispatch by programs in simulated time (EINVAL), because Softband uses it: use --pace wall");
        return fail(libc::EINVAL);
    }
    if option == PR_SET_SYSCALL_USER_DISPATCH {
        own_calls::leave_to_program();
    }
    if option == libc::PR_SET_SECCOMP && a == libc::SECCOMP_MODE_FILTER as c_ulong {
        // SAFETY: this option has a filter.
        return unsafe { with_permits(b as *const sock_fprog, |filter| call(filter as c_ulong)) };
    }
    call(b)
}

/// Implements the system call `seccomp`.
///
/// # Safety
/// The arguments are those of the system call.
pub unsafe fn seccomp(operation: c_long, flags: c_long, filter: c_long) -> c_long {
    let call = |filter: c_long| {
        // The program's former filters judge the call.
        // SAFETY: the last argument is the caller's, or a filter with the caller's at its end.
        unsafe { real::syscall(libc::SYS_seccomp, operation, flags, filter, 0, 0, 0) }
    };
    if operation == libc::SECCOMP_SET_MODE_STRICT.into() && active() {
        return refuse_strict_mode();
    }
    if operation == libc::SECCOMP_SET_MODE_FILTER.into() {
        // SAFETY: this operation has a filter.
        return unsafe { with_permits(filter as *const sock_fprog, |filter| call(filter as c_long)) };
    }
    call(filter)
}
