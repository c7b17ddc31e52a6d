//! The handler of SIGSYS: answers a stopped call.

use super::stack::{self, Frame};
use super::{children, pointers, release_thread, routes, signals};
use crate::clib::args::Out;
use crate::clib::{raw, real};
use crate::process::seccomp;
use crate::runtime::world::{active, errno, is_away, is_parked, set_errno};
use crate::signal::actions;
use crate::sync::threads;
use libc::{c_int, c_long};
use softband_client as client;
use std::cell::Cell;

/// Signal code of a call that dispatch stops (`SYS_USER_DISPATCH`).
const STOPPED: c_int = 2;
/// Request that changes the thread's pointer to its variables (asm/prctl.h).
const ARCH_SET_FS: c_long = 0x1002;

/// How a stopped call goes on.
pub(super) enum Outcome {
    /// With this result, or the negative number of an error.
    Result(c_long),
    /// The thread makes the call again, by itself. Dispatch ends for the thread.
    Natively,
    /// The thread makes the call by the copy of its instruction at this address.
    NativelyAt(Option<usize>),
}

// Moves the frame of the handler, answers the call there, and returns by the moved frame.
std::arch::global_asm!(
    ".pushsection .text",
    ".balign 16",
    ".hidden softband_own_call",
    ".globl softband_own_call",
    "softband_own_call:",
    "mov rdi, rsp",
    "sub rsp, 8",
    "call {move_frame}",
    "mov rsp, rax",
    "sub rsp, 8",
    "mov rdi, rax",
    "mov rsi, rdx",
    "call {answer}",
    "add rsp, 8",
    "ret",
    ".hidden softband_own_call_return",
    ".globl softband_own_call_return",
    "softband_own_call_return:",
    "mov eax, 15",
    "syscall",
    "ud2",
    ".popsection",
    move_frame = sym stack::move_frame,
    answer = sym answer,
);

const PTHREAD_CANCEL_DISABLE: c_int = 1;
/// No call of the thread is in progress.
const NO_CALL: c_int = -1;

thread_local! {
    /// Whether the program lets its calls in progress be cancelled.
    static CANCELS: Cell<c_int> = const { Cell::new(NO_CALL) };
}

unsafe extern "C" {
    safe fn pthread_setcancelstate(state: c_int, former: Out<c_int>) -> c_int;
}

unsafe extern "C" {
    fn softband_own_call();
    fn softband_own_call_return();
}

/// Makes this library handle SIGSYS. The signal stack of the program takes the frame at first,
/// because the stack of a routine of Go has no room for it.
pub(super) fn install() -> bool {
    actions::take_calls(softband_own_call as *const () as usize, softband_own_call_return as *const () as usize)
}

/// Answers the call on its stack. The thread blocks its signals at first, so that none comes between
/// two stacks.
extern "C" fn answer(frame: &mut Frame, former_end: usize) {
    let had_rest = stack::keep_signal_stack(frame);
    signals::set_mask(*frame.mask());
    if frame.info().si_code == STOPPED {
        let saved = errno();
        stack::noting_call(|| uncancelled(|| carry_out(frame)));
        set_errno(saved);
    } else {
        let info = std::ptr::from_ref(frame.info()).cast_mut();
        // SAFETY: the kernel has passed both to the handler of SIGSYS, which still runs.
        unsafe { actions::pass_on(libc::SIGSYS, info, (&raw mut frame.machine).cast()) };
    }
    stack::leave(former_end, had_rest);
}

/// Sets whether `pthread_cancel` ends the calling thread. Returns the former state.
fn set_cancels(state: c_int) -> c_int {
    let mut before = 0;
    pthread_setcancelstate(state, Out::of(&mut before));
    before
}

/// Runs `body`, which no `pthread_cancel` ends: a call by an instruction is no cancellation point.
fn uncancelled(body: impl FnOnce()) {
    let before = set_cancels(PTHREAD_CANCEL_DISABLE);
    let outer = CANCELS.replace(before);
    body();
    CANCELS.set(outer);
    set_cancels(before);
}

/// Runs a handler of the program, which has interrupted code with this stack pointer. In a call, the
/// handler runs as if the program itself had made the call: `pthread_cancel` or a jump can end both.
pub(super) fn beside_handler(pointer: usize, handler: impl FnOnce()) {
    let cancels = CANCELS.replace(NO_CALL);
    if cancels != NO_CALL {
        set_cancels(cancels);
    }
    stack::beside_handler(pointer, handler);
    if cancels != NO_CALL {
        set_cancels(PTHREAD_CANCEL_DISABLE);
        CANCELS.set(cancels);
    }
}

fn carry_out(frame: &mut Frame) {
    let registers = frame.machine.uc_mcontext.gregs;
    let number = c_long::from(registers[libc::REG_RAX as usize] as c_int);
    let given = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9].map(|register| registers[register as usize]);
    let outcome = if number == libc::SYS_rt_sigreturn {
        // The end of another handler. It ends here, where the kernel lets it through.
        frame.machine.uc_mcontext.gregs[libc::REG_RIP as usize] = softband_own_call_return as *const () as i64;
        return;
    } else {
        // SAFETY: the arguments are those of the program's call.
        unsafe { outcome_of(frame, number, given, registers[libc::REG_RIP as usize]) }
    };
    let registers = &mut frame.machine.uc_mcontext.gregs;
    match outcome {
        Outcome::Result(result) => registers[libc::REG_RAX as usize] = result,
        Outcome::NativelyAt(Some(copy)) => {
            registers[libc::REG_RIP as usize] = copy as i64;
            registers[libc::REG_RAX as usize] = number;
        }
        Outcome::Natively | Outcome::NativelyAt(None) => {
            release_thread();
            // The address is that behind the instruction, which has two bytes.
            registers[libc::REG_RIP as usize] -= 2;
            registers[libc::REG_RAX as usize] = number;
        }
    }
}

/// # Safety
/// The arguments are those of the system call.
unsafe fn outcome_of(frame: &mut Frame, number: c_long, given: [c_long; 6], caller: c_long) -> Outcome {
    // Calls of 32 bits (`int 0x80`) have other numbers.
    if !super::are_stopped() || frame.architecture() != seccomp::AUDIT_ARCH_X86_64 {
        return Outcome::Natively;
    }
    if client::is_wall() && !matches!(number, libc::SYS_exit | libc::SYS_arch_prctl) {
        // SAFETY: the arguments are those of the system call.
        return unsafe { super::wall::outcome_of(frame, number, given, caller) };
    }
    if !pointers::are_good(number, &given) {
        return Outcome::Result(-c_long::from(libc::EFAULT));
    }
    // SAFETY: the arguments are those of the system call, in each call below.
    unsafe {
        match number {
            libc::SYS_clone | libc::SYS_clone3 => return children::clone(frame, number, given),
            // A thread with variables elsewhere has none of this library.
            libc::SYS_arch_prctl if given[0] == ARCH_SET_FS => return Outcome::Natively,
            libc::SYS_rt_sigprocmask => return Outcome::Result(signals::mask(frame, given)),
            libc::SYS_rt_sigaction => return Outcome::Result(with_error(|| signals::action(given))),
            libc::SYS_sigaltstack => return Outcome::Result(with_error(|| signals::alternate_stack(frame, given))),
            libc::SYS_exit => {
                // The frame of this call lies elsewhere, so nobody uses the stack any more.
                stack::give_back();
                threads::end_own();
                return Outcome::Natively;
            }
            _ => {}
        }
        if client::is_wall() {
            return Outcome::NativelyAt(super::native::copy_for(caller as usize));
        }
        if super::is_loader(caller as usize) {
            return Outcome::Result(with_error(|| real::padded_syscall(number, &given)));
        }
        let is_simulated = active() && !is_parked() && !is_away();
        let routed = || if is_simulated { routes::carry_out(number, given) } else { None };
        Outcome::Result(with_error(|| {
            routed().unwrap_or_else(|| {
                let [a, b, c, d, e, f] = given;
                raw::called(number, &[a, b, c, d, e, caller, f])
            })
        }))
    }
}

/// Returns the kernel's form of a result: a negative number for an error.
pub(super) fn with_error(call: impl FnOnce() -> c_long) -> c_long {
    set_errno(0);
    match call() {
        -1 if errno() != 0 => -c_long::from(errno()),
        result => result,
    }
}
