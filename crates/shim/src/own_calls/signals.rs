//! System calls about signals, in the kernel's form: sets of eight bytes, and a structure of its own
//! for actions.

use super::stack::Frame;
use crate::clib::args::{In, Out, Zeroed};
use crate::signal::actions::{self, KernelAction, SA_RESTORER};
use libc::{c_int, c_long, sigset_t};

const SET_BYTES: c_long = 8;
/// Signals that glibc's threads use, and whose actions its functions refuse.
const THREADS: std::ops::RangeInclusive<c_int> = 32..=33;
/// Returns the C library's form of a set.
fn wide(set: u64) -> sigset_t {
    let mut wide = sigset_t::zeroed();
    // SAFETY: a set of the C library begins with the kernel's eight bytes.
    unsafe { (&raw mut wide).cast::<u64>().write(set) };
    wide
}

fn narrow(set: &sigset_t) -> u64 {
    // SAFETY: a set of the C library begins with the kernel's eight bytes.
    unsafe { std::ptr::from_ref(set).cast::<u64>().read() }
}

/// Calls `body` with the set at an address in the C library's form.
///
/// # Safety
/// The address is null, or that of a set of the kernel.
pub(super) unsafe fn with_set<R>(address: c_long, body: impl FnOnce(In<'_, sigset_t>) -> R) -> R {
    if address == 0 {
        return body(In::NULL);
    }
    // SAFETY: the caller promises a set.
    let set = wide(unsafe { (address as *const u64).read_unaligned() });
    body(In::of(&set))
}

/// Lets SIGSYS reach the calling thread.
pub(super) fn let_through() {
    let set = 1_u64 << (libc::SIGSYS - 1);
    // SAFETY: the kernel reads the eight bytes of `set`.
    unsafe { kernel!(libc::SYS_rt_sigprocmask, libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut::<u64>(), SET_BYTES) };
}

/// Carries out `rt_sigprocmask`. The new mask takes effect when the handler returns.
///
/// # Safety
/// The arguments are those of the system call.
pub(super) unsafe fn mask(frame: &mut Frame, [how, new, old, len, ..]: [c_long; 6]) -> c_long {
    if len != SET_BYTES {
        return -c_long::from(libc::EINVAL);
    }
    let present = *frame.mask();
    if new != 0 {
        // SAFETY: a set that is not null has eight bytes.
        let given = unsafe { (new as *const u64).read_unaligned() };
        let wanted = match how as c_int {
            libc::SIG_BLOCK => present | given,
            libc::SIG_UNBLOCK => present & !given,
            libc::SIG_SETMASK => given,
            _ => return -c_long::from(libc::EINVAL),
        };
        *frame.mask() = narrow(&actions::without_ours(wide(wanted)));
    }
    if old != 0 {
        // SAFETY: room for a set that is not null has eight bytes.
        unsafe { (old as *mut u64).write_unaligned(present) };
    }
    0
}

/// Carries out `rt_sigaction`.
///
/// # Safety
/// The arguments are those of the system call.
pub(super) unsafe fn action([signal, new, old, len, ..]: [c_long; 6]) -> c_long {
    let number = signal as c_int;
    if len != SET_BYTES || THREADS.contains(&number) {
        // SAFETY: the arguments are the program's.
        return unsafe { kernel!(libc::SYS_rt_sigaction, signal, new, old, len) };
    }
    let mut wanted = libc::sigaction::zeroed();
    if new != 0 {
        // SAFETY: the program passed an action of the kernel's form.
        let given = unsafe { (new as *const KernelAction).read_unaligned() };
        wanted.sa_sigaction = given.handler;
        wanted.sa_flags = (given.flags & !SA_RESTORER) as c_int;
        wanted.sa_mask = wide(given.mask);
    }
    let mut former = libc::sigaction::zeroed();
    let status = actions::sigaction(number, if new == 0 { In::NULL } else { In::of(&wanted) }, Out::of(&mut former));
    if status == 0 && old != 0 {
        let restorer = former.sa_restorer.map_or(0, |function| function as *const () as usize);
        let flags = former.sa_flags as u32;
        let answer = KernelAction {
            handler: former.sa_sigaction,
            flags: u64::from(flags) | if restorer == 0 { 0 } else { SA_RESTORER },
            restorer,
            mask: narrow(&former.sa_mask),
        };
        // SAFETY: the program has room for an action of the kernel's form.
        unsafe { (old as *mut KernelAction).write_unaligned(answer) };
    }
    status.into()
}

/// Carries out `sigaltstack`. The return from the handler would undo the change, so the frame has
/// it too.
///
/// # Safety
/// The arguments are those of the system call.
pub(super) unsafe fn alternate_stack(frame: &mut Frame, [new, old, ..]: [c_long; 6]) -> c_long {
    // SAFETY: the arguments are the program's. The thread does not run on its signal stack now.
    let status = unsafe { kernel!(libc::SYS_sigaltstack, new, old) };
    if status == 0 && new != 0 {
        // SAFETY: the kernel has accepted the structure.
        frame.machine.uc_stack = unsafe { (new as *const libc::stack_t).read_unaligned() };
    }
    status
}
