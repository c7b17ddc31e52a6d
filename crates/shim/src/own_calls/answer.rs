//! The handler of SIGSYS: answers a stopped call.

use super::stack::{self, Frame};
use super::{release_thread, routes, signals};
use crate::clib::args::Out;
use crate::clib::{raw, real};
use crate::process::fork;
use crate::runtime::world::{active, errno, is_away, is_parked, set_errno};
use crate::signal::actions;
use crate::sync::threads;
use libc::{c_int, c_long};

/// Signal code of a call that dispatch stops (`SYS_USER_DISPATCH`).
const STOPPED: c_int = 2;
/// Request that changes the thread's pointer to its variables (asm/prctl.h).
const ARCH_SET_FS: c_long = 0x1002;

/// How a stopped call goes on.
enum Outcome {
    /// With this result, or the negative number of an error.
    Result(c_long),
    /// The thread makes the call again, by itself.
    Natively,
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

extern "C" fn answer(frame: &mut Frame, former_end: usize) {
    if frame.info().si_code == STOPPED {
        let saved = errno();
        uncancelled(|| carry_out(frame));
        set_errno(saved);
    } else {
        let info = std::ptr::from_ref(frame.info()).cast_mut();
        // SAFETY: the kernel has passed both to the handler of SIGSYS, which still runs.
        unsafe { actions::pass_on(libc::SIGSYS, info, (&raw mut frame.machine).cast()) };
    }
    stack::leave(former_end);
}

/// Runs `body`, which no `pthread_cancel` ends: a call by an instruction is no cancellation point.
fn uncancelled(body: impl FnOnce()) {
    let mut before = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, Out::of(&mut before));
    body();
    pthread_setcancelstate(before, Out::NULL);
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
        Outcome::Natively => {
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
    // SAFETY: the arguments are those of the system call, in each call below.
    unsafe {
        match number {
            _ if !super::are_stopped() => return Outcome::Natively,
            // A child or a thread begins on a stack of its own, behind the instruction. A thread
            // with variables elsewhere has none of this library.
            libc::SYS_clone if is_fork(given[0]) && active() => return fork_on(frame, given[1]),
            libc::SYS_clone | libc::SYS_clone3 => return Outcome::Natively,
            libc::SYS_arch_prctl if given[0] == ARCH_SET_FS => return Outcome::Natively,
            libc::SYS_rt_sigprocmask => return Outcome::Result(signals::mask(frame, given)),
            libc::SYS_rt_sigaction => return Outcome::Result(with_error(|| signals::action(given))),
            libc::SYS_sigaltstack => return Outcome::Result(with_error(|| signals::alternate_stack(frame, given))),
            libc::SYS_exit => {
                threads::end_own();
                return Outcome::Natively;
            }
            _ => {}
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

/// Returns whether a clone with these flags is a fork or a vfork.
fn is_fork(flags: c_long) -> bool {
    const SIGNAL: c_long = 0xff;
    let others = flags & !SIGNAL;
    others == 0 || others == c_long::from(libc::CLONE_VM | libc::CLONE_VFORK)
}

/// Forks. The child goes on with another stack, if it has one.
fn fork_on(frame: &mut Frame, child_stack: c_long) -> Outcome {
    // SAFETY: the program asked for a child. The child of a vfork may only execute an image or end,
    // and a forked child can do both.
    let result = with_error(|| unsafe { fork::fork() }.into());
    if result == 0 && child_stack != 0 {
        frame.machine.uc_mcontext.gregs[libc::REG_RSP as usize] = child_stack;
    }
    Outcome::Result(result)
}

/// Returns the kernel's form of a result: a negative number for an error.
fn with_error(call: impl FnOnce() -> c_long) -> c_long {
    set_errno(0);
    match call() {
        -1 if errno() != 0 => -c_long::from(errno()),
        result => result,
    }
}
