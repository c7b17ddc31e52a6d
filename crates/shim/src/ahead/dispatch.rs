//! System calls of a thread that computes ahead: Syscall User Dispatch (Linux 5.11).
//!
//! The kernel reads a byte of the thread at each system call. While the byte says so, the call does
//! not take place, and the thread gets SIGSYS. Computation itself costs nothing. Calls about private
//! memory go through, because nobody else sees them. Every other call first catches up.

use crate::runtime::world::{keeping_errno, set_errno};
use crate::signal::actions::{self, KernelAction, SA_RESTORER};
use libc::{c_int, c_long, c_void, siginfo_t};
use softband_client as client;
use std::cell::Cell;

const PR_SET_SYSCALL_USER_DISPATCH: c_int = 59;
const PR_SYS_DISPATCH_ON: c_int = 1;
/// Signal code of a call that the thread's byte stops (`SYS_USER_DISPATCH`).
const STOPPED: c_int = 2;
/// Offset of the call's number in `siginfo_t`.
const NUMBER_OFFSET: usize = 24;
const ALLOW: u8 = 0;
const BLOCK: u8 = 1;

thread_local! {
    /// The byte that the kernel reads.
    static SELECTOR: Cell<u8> = const { Cell::new(ALLOW) };
    /// Whether the kernel reads it. The child of a fork has no dispatch.
    static PREPARED_BY: Cell<c_int> = const { Cell::new(0) };
}

// The end of a signal handler is a system call too. The kernel lets it through in this range.
std::arch::global_asm!(
    ".pushsection .text",
    ".balign 16",
    ".hidden softband_ahead_return",
    ".globl softband_ahead_return",
    "softband_ahead_return:",
    "mov eax, 15",
    "syscall",
    ".hidden softband_ahead_return_end",
    ".globl softband_ahead_return_end",
    "softband_ahead_return_end:",
    "ud2",
    ".popsection",
);

unsafe extern "C" {
    fn softband_ahead_return();
    fn softband_ahead_return_end();
}

/// Makes the kernel ready to stop the calling thread's system calls. Returns false if the kernel
/// cannot, or if the program uses the signal itself.
pub fn prepare() -> bool {
    if actions::is_blocked(libc::SIGSYS) || !has_handler() {
        return false;
    }
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    if PREPARED_BY.get() == own {
        return true;
    }
    let (start, end) = (softband_ahead_return as *const () as usize, softband_ahead_return_end as *const () as usize);
    let selector = SELECTOR.with(Cell::as_ptr);
    // SAFETY: the kernel reads the byte as long as the thread lives. The range holds code only.
    let status = unsafe { kernel!(libc::SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, start, end - start + 1, selector) };
    if status == 0 {
        PREPARED_BY.set(own);
    }
    status == 0
}

/// Stops the thread's system calls from now on.
pub fn block() {
    SELECTOR.set(BLOCK);
}

/// Allows the thread's system calls again.
pub fn allow() {
    SELECTOR.set(ALLOW);
}

/// Runs the body of a signal handler of this library, which makes system calls of its own.
pub fn in_handler<R>(body: impl FnOnce() -> R) -> R {
    let before = SELECTOR.replace(ALLOW);
    let result = body();
    if before == BLOCK && client::is_ahead() {
        SELECTOR.set(BLOCK);
    }
    result
}

/// Returns whether this library handles SIGSYS. Takes the signal over if nobody does.
fn has_handler() -> bool {
    let own = on_stopped as *const () as usize;
    let mut present = KernelAction::default();
    let length = size_of::<u64>();
    // SAFETY: the kernel writes the action to `present`.
    let status = unsafe { kernel!(libc::SYS_rt_sigaction, libc::SIGSYS, std::ptr::null::<KernelAction>(), &raw mut present, length) };
    if status != 0 || present.handler != libc::SIG_DFL {
        return status == 0 && present.handler == own;
    }
    let flags = (libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_RESTART) as u64 | SA_RESTORER;
    let action = KernelAction { handler: own, flags, restorer: softband_ahead_return as *const () as usize, mask: 0 };
    // SAFETY: the handler has the parameters that SA_SIGINFO requires, and the restorer ends it.
    unsafe { kernel!(libc::SYS_rt_sigaction, libc::SIGSYS, &raw const action, std::ptr::null_mut::<KernelAction>(), length) == 0 }
}

extern "C" fn on_stopped(_signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let before = SELECTOR.replace(ALLOW);
    // SAFETY: the kernel passes both to a handler with SA_SIGINFO; they live during the handler.
    let (info, machine) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    if info.si_code != STOPPED || before != BLOCK {
        return actions::die_of(libc::SIGSYS, false);
    }
    // SAFETY: a SIGSYS carries the number of the call at this place.
    let number = c_long::from(unsafe { std::ptr::from_ref(info).cast::<u8>().add(NUMBER_OFFSET).cast::<c_int>().read() });
    let goes_on = keeping_errno(|| answer(number, machine));
    if goes_on {
        SELECTOR.set(BLOCK);
    }
}

/// Handles a stopped call. Returns whether the thread still computes ahead.
fn answer(number: c_long, machine: &mut libc::ucontext_t) -> bool {
    let registers = &mut machine.uc_mcontext.gregs;
    let argument = |register: c_int| registers[register as usize];
    let given = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9].map(argument);
    if number == libc::SYS_rt_sigreturn {
        // Another handler ends. It ends in the range that the kernel lets through.
        registers[libc::REG_RIP as usize] = softband_ahead_return as *const () as i64;
        return true;
    }
    if is_private(number, &given) {
        let [a, b, c, d, e, f] = given;
        set_errno(0);
        // SAFETY: the arguments are those of the program's own call.
        let result = unsafe { crate::clib::real::syscall(number, a, b, c, d, e, f) };
        registers[libc::REG_RAX as usize] = if result == -1 { -i64::from(crate::runtime::world::errno()) } else { result };
        return true;
    }
    client::catch_up();
    // The thread makes its call again, now with the others.
    registers[libc::REG_RIP as usize] -= 2;
    registers[libc::REG_RAX as usize] = number;
    false
}

/// Returns whether a call concerns private memory only.
fn is_private(number: c_long, given: &[i64; 6]) -> bool {
    let private = i64::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    match number {
        libc::SYS_brk | libc::SYS_munmap | libc::SYS_mremap | libc::SYS_mprotect | libc::SYS_madvise => true,
        libc::SYS_mmap => given[3] & private == private,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_about_private_memory_go_through() {
        let anonymous = i64::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let given = |flags: i64| [0, 4096, 3, flags, -1, 0];
        assert!(is_private(libc::SYS_mmap, &given(anonymous)) && is_private(libc::SYS_brk, &[0; 6]));
        let shared = i64::from(libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        assert!(!is_private(libc::SYS_mmap, &given(shared)) && !is_private(libc::SYS_mmap, &given(i64::from(libc::MAP_PRIVATE))));
        assert!(!is_private(libc::SYS_write, &[0; 6]) && !is_private(libc::SYS_futex, &[0; 6]));
    }

    #[test]
    fn private_memory_works_while_calls_are_stopped() {
        std::thread::spawn(|| {
            if !prepare() {
                return; // Linux before 5.11
            }
            block();
            let mut held = Vec::new();
            for _ in 0..4 {
                // SAFETY: a fresh mapping of this thread's own.
                let data = unsafe { libc::mmap(std::ptr::null_mut(), 1 << 20, 3, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
                // SAFETY: the mapping has this byte if it exists.
                unsafe { data.cast::<u8>().write(7) };
                held.push(data as usize);
            }
            // A bad descriptor: the kernel itself refuses the call, which has gone through.
            let is_blocked = SELECTOR.get() == BLOCK;
            allow();
            assert!(is_blocked && held.iter().all(|data| *data != libc::MAP_FAILED as usize));
            for data in held {
                // SAFETY: the mapping is this thread's own, and its byte was written.
                unsafe {
                    assert_eq!((data as *const u8).read(), 7);
                    libc::munmap(data as *mut c_void, 1 << 20);
                }
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn another_call_takes_place_once_after_the_thread_has_caught_up() {
        std::thread::spawn(|| {
            if !prepare() {
                return; // Linux before 5.11
            }
            let mut pipe = [0; 2];
            // SAFETY: the call writes two descriptors.
            assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
            block();
            // SAFETY: the byte lives during the call.
            let written = unsafe { libc::write(pipe[1], b"x".as_ptr().cast(), 1) };
            assert_eq!((written, SELECTOR.get()), (1, ALLOW));
            let mut room = [0_u8; 8];
            // SAFETY: the buffer has room for eight bytes, and the descriptors are this test's own.
            unsafe {
                assert_eq!(libc::read(pipe[0], room.as_mut_ptr().cast(), 8), 1);
                libc::close(pipe[0]);
                libc::close(pipe[1]);
            }
        })
        .join()
        .unwrap();
    }
}
