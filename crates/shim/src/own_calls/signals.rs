//! System calls about signals, in the kernel's form: sets of eight bytes, and a structure of its own
//! for actions.

use super::pointers;
use super::stack::Frame;
use crate::clib::args::{In, Out, Zeroed};
use crate::runtime::world::fail;
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

/// Sets the signals that the calling thread blocks.
pub(super) fn set_mask(set: u64) {
    // SAFETY: the kernel reads the eight bytes of `set`.
    unsafe { kernel!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const set, std::ptr::null_mut::<u64>(), SET_BYTES) };
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
        *frame.mask() = narrow(&actions::without_ours_or_calls(wide(wanted)));
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

/// Carries out `rt_sigaction` at wall pace. The kernel keeps the action, but its handler lets SIGSYS
/// through.
///
/// # Safety
/// The arguments are those of the system call.
pub(super) unsafe fn kernels_action([signal, new, old, len, ..]: [c_long; 6]) -> c_long {
    if new == 0 || len != SET_BYTES || signal as c_int == libc::SIGSYS {
        // SAFETY: the arguments are the program's.
        return unsafe { action([signal, new, old, len, 0, 0]) };
    }
    // SAFETY: the program passed an action of the kernel's form.
    let mut given = unsafe { (new as *const KernelAction).read_unaligned() };
    given.mask = narrow(&actions::without_calls(wide(given.mask)));
    // SAFETY: the arguments are the program's, with another set.
    unsafe { kernel!(libc::SYS_rt_sigaction, signal, &raw const given, old, len) }
}

/// Carries out `sigaltstack`. The return from the handler would undo the change, so the frame has
/// it too.
///
/// # Safety
/// The arguments are those of the system call.
pub(super) unsafe fn alternate_stack(frame: &mut Frame, [new, old, ..]: [c_long; 6]) -> c_long {
    if frame.is_on_signal_stack() {
        // SAFETY: the arguments are the program's.
        return unsafe { present_stack(frame, new, old) };
    }
    // SAFETY: the arguments are the program's. The thread does not run on its signal stack now.
    let status = unsafe { kernel!(libc::SYS_sigaltstack, new, old) };
    if status == 0 && new != 0 {
        // SAFETY: the kernel has accepted the structure.
        frame.machine.uc_stack = unsafe { (new as *const libc::stack_t).read_unaligned() };
    }
    status
}

/// Answers `sigaltstack` in a handler that runs on the signal stack. The kernel cannot know that while
/// the call waits elsewhere.
///
/// # Safety
/// The arguments are those of the system call.
unsafe fn present_stack(frame: &Frame, new: c_long, old: c_long) -> c_long {
    let size = size_of::<libc::stack_t>();
    if (new != 0 && !pointers::bytes(new, size)) || (old != 0 && !pointers::room(old, size)) {
        return fail(libc::EFAULT);
    }
    if new != 0 {
        return fail(libc::EPERM);
    }
    if old != 0 {
        let mut present = frame.machine.uc_stack;
        present.ss_flags |= libc::SS_ONSTACK;
        // SAFETY: there is room for the structure.
        unsafe { (old as *mut libc::stack_t).write_unaligned(present) };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_ipc::layout::SPIN_SIGNAL;

    const fn bit(signal: c_int) -> u64 {
        1 << (signal - 1)
    }

    fn masked(how: c_int, before: u64, given: u64) -> (c_long, u64, u64) {
        // SAFETY: all zero is a frame without vector state.
        let mut frame: Frame = unsafe { std::mem::zeroed() };
        *frame.mask() = before;
        let mut old = 0_u64;
        let (new_at, old_at) = ((&raw const given) as c_long, (&raw mut old) as c_long);
        // SAFETY: both sets live during the call.
        let result = unsafe { mask(&mut frame, [how.into(), new_at, old_at, SET_BYTES, 0, 0]) };
        (result, *frame.mask(), old)
    }

    #[test]
    fn a_mask_takes_effect_in_the_frame_and_spares_the_signals_of_this_library() {
        let (usr1, usr2) = (bit(libc::SIGUSR1), bit(libc::SIGUSR2));
        assert_eq!(masked(libc::SIG_BLOCK, usr1, usr2), (0, usr1 | usr2, usr1));
        assert_eq!(masked(libc::SIG_UNBLOCK, usr1 | usr2, usr2), (0, usr1, usr1 | usr2));
        let ours = bit(libc::SIGSEGV) | bit(libc::SIGTRAP) | bit(libc::SIGSYS) | bit(SPIN_SIGNAL);
        assert_eq!(masked(libc::SIG_SETMASK, 0, u64::MAX), (0, !ours, 0));
        assert_eq!(masked(7, usr1, usr2), (-c_long::from(libc::EINVAL), usr1, 0));
    }

    #[test]
    fn an_action_of_the_kernels_form_comes_back_as_it_was_set() {
        extern "C" fn handler(_signal: c_int) {}
        let given = KernelAction {
            handler: handler as *const () as usize,
            flags: libc::SA_RESTART as u64 | SA_RESTORER,
            restorer: 1,
            mask: bit(libc::SIGUSR2),
        };
        let mut found = KernelAction::default();
        // SAFETY: the actions live during the calls, and the handler takes a number.
        unsafe {
            assert_eq!(action([libc::SIGWINCH.into(), (&raw const given) as c_long, 0, SET_BYTES, 0, 0]), 0);
            assert_eq!(action([libc::SIGWINCH.into(), 0, (&raw mut found) as c_long, SET_BYTES, 0, 0]), 0);
        }
        assert_eq!((found.handler, found.mask), (given.handler, given.mask));
        assert_eq!(found.flags & !SA_RESTORER, libc::SA_RESTART as u64);
    }
}
