//! Children that a program makes by `clone` or `clone3`. Plain forks, with or without a few numbers to
//! store, take part in simulated time. Threads and other children begin on a stack of their own, behind
//! the instruction. They live outside simulated time.

use super::answer::{Outcome, with_error};
use super::pointers;
use super::stack::Frame;
use crate::process::{fork, pid};
use crate::runtime::world::{active, errno, set_errno};
use libc::c_long;

/// Bits of the flags for the signal at the child's end.
const SIGNAL: u64 = 0xff;
/// Flags that a fork can have. `CLONE_CHILD_CLEARTID` changes only memory of the ended child.
const OF_FORKS: u64 = (libc::CLONE_PARENT_SETTID | libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID | libc::CLONE_PIDFD) as u64;
const OF_VFORKS: u64 = (libc::CLONE_VM | libc::CLONE_VFORK) as u64;

/// Arguments of `clone3` in its first version (sched.h), which later versions extend.
#[derive(Clone, Copy)]
#[repr(C)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

const CLONE_ARGUMENTS_BYTES: c_long = size_of::<CloneArguments>() as c_long;

/// The wish for a child. Addresses are 0 for nothing.
#[derive(Debug, PartialEq, Eq)]
struct Wish {
    flags: u64,
    signal: u64,
    /// Stack pointer of the child.
    stack: u64,
    /// Place for the descriptor of the child.
    pidfd: u64,
    parent_tid: u64,
    child_tid: u64,
}

impl Wish {
    fn of_clone([flags, stack, parent_tid, child_tid, ..]: [c_long; 6]) -> Self {
        let (flags, parent_tid) = (flags as u64, parent_tid as u64);
        // One argument serves both.
        Self { flags: flags & !SIGNAL, signal: flags & SIGNAL, stack: stack as u64, pidfd: parent_tid, parent_tid, child_tid: child_tid as u64 }
    }

    /// Returns `None` for arguments of a later version.
    ///
    /// # Safety
    /// The arguments are those of `clone3`, and readable.
    unsafe fn of_clone3([address, len, ..]: [c_long; 6]) -> Option<Self> {
        // SAFETY: the caller promises arguments of this version.
        let given = (len == CLONE_ARGUMENTS_BYTES).then(|| unsafe { (address as *const CloneArguments).read_unaligned() })?;
        let stack = if given.stack == 0 { 0 } else { given.stack.wrapping_add(given.stack_size) };
        let CloneArguments { flags, exit_signal: signal, pidfd, parent_tid, child_tid, .. } = given;
        Some(Self { flags, signal, stack, pidfd, parent_tid, child_tid })
    }

    fn has(&self, flag: libc::c_int) -> bool {
        self.flags & flag as u64 != 0
    }

    /// Returns whether the child is that of a fork or a vfork. A child without a signal at its end is
    /// one of them, too, and ends with SIGCHLD.
    fn is_fork(&self) -> bool {
        let others = self.flags & !OF_FORKS;
        let stores_two = self.has(libc::CLONE_PIDFD) && self.has(libc::CLONE_PARENT_SETTID) && self.pidfd == self.parent_tid;
        [0, libc::SIGCHLD as u64].contains(&self.signal) && (others == 0 || others == OF_VFORKS) && !stores_two
    }
}

/// Carries out `clone` or `clone3`.
///
/// # Safety
/// The arguments are those of the system call, and readable.
pub(super) unsafe fn clone(frame: &mut Frame, number: c_long, given: [c_long; 6]) -> Outcome {
    // SAFETY: the arguments are those of this call.
    let wish = if number == libc::SYS_clone { Some(Wish::of_clone(given)) } else { unsafe { Wish::of_clone3(given) } };
    match wish.filter(|wish| active() && wish.is_fork()) {
        // SAFETY: the program asked for this child.
        Some(wish) => unsafe { fork_on(frame, &wish) },
        None => Outcome::Natively,
    }
}

/// Carries out a `clone` that is a plain fork, without numbers to store. Returns `None` for another one.
///
/// # Safety
/// The arguments are those of the system call.
pub(super) unsafe fn fork_at_wall_pace(number: c_long, given: [c_long; 6]) -> Option<c_long> {
    if !pointers::are_good(number, &given) {
        return None;
    }
    // SAFETY: the arguments are those of this call.
    let wish = if number == libc::SYS_clone { Some(Wish::of_clone(given)) } else { unsafe { Wish::of_clone3(given) } }?;
    let stores = wish.has(libc::CLONE_PARENT_SETTID) || wish.has(libc::CLONE_CHILD_SETTID) || wish.has(libc::CLONE_PIDFD);
    // SAFETY: the program asked for this child.
    (wish.is_fork() && wish.stack == 0 && !stores).then(|| unsafe { super::wall::fork() })
}

/// # Safety
/// The program asked for the child.
unsafe fn fork_on(frame: &mut Frame, wish: &Wish) -> Outcome {
    // SAFETY: the child of a vfork may only execute an image or end, and a forked child can do both.
    let result = with_error(|| unsafe { fork::fork() }.into());
    let store = |place: u64, number: libc::c_int| {
        if pointers::room(place as c_long, size_of::<libc::c_int>()) {
            // SAFETY: there is room for a number.
            unsafe { (place as *mut libc::c_int).write_unaligned(number) }
        }
    };
    if result == 0 {
        if wish.stack != 0 {
            frame.machine.uc_mcontext.gregs[libc::REG_RSP as usize] = wish.stack as i64;
        }
        if wish.has(libc::CLONE_CHILD_SETTID) {
            store(wish.child_tid, pid::own_number());
        }
    } else if result > 0 {
        if wish.has(libc::CLONE_PARENT_SETTID) {
            store(wish.parent_tid, result as libc::c_int);
        }
        if wish.has(libc::CLONE_PIDFD) {
            store(wish.pidfd, descriptor_of(result as libc::pid_t));
        }
    }
    Outcome::Result(result)
}

/// Returns a descriptor of a child, or -1 if there are too many descriptors.
fn descriptor_of(child: libc::pid_t) -> libc::c_int {
    let saved = errno();
    // SAFETY: the call takes the number of a process, and no flags.
    let fd = unsafe { kernel!(libc::SYS_pidfd_open, pid::system_number(child), 0) };
    set_errno(saved);
    fd as libc::c_int
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_fork(flags: libc::c_int, signal: libc::c_int) -> bool {
        Wish::of_clone([(flags | signal).into(), 0, 8, 16, 0, 0]).is_fork()
    }

    #[test]
    fn forks_are_told_from_threads_and_other_children() {
        let (vfork, both) = (libc::CLONE_VM | libc::CLONE_VFORK, libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID);
        for flags in [0, vfork, both, vfork | libc::CLONE_PIDFD, libc::CLONE_PARENT_SETTID] {
            assert!(is_fork(flags, libc::SIGCHLD), "{flags:x}");
        }
        let thread = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
        for flags in [thread, libc::CLONE_NEWUSER, libc::CLONE_VM, libc::CLONE_FILES, libc::CLONE_PIDFD | libc::CLONE_PARENT_SETTID] {
            assert!(!is_fork(flags, libc::SIGCHLD), "{flags:x}");
        }
        assert!(is_fork(0, 0) && !is_fork(0, libc::SIGUSR1), "the child ends with SIGCHLD");
    }

    #[test]
    fn the_arguments_of_clone3_mean_the_same() {
        let arguments = CloneArguments {
            flags: libc::CLONE_PIDFD as u64,
            pidfd: 8,
            child_tid: 16,
            parent_tid: 24,
            exit_signal: libc::SIGCHLD as u64,
            stack: 4096,
            stack_size: 4096,
            tls: 0,
        };
        let given = |len| [(&raw const arguments) as c_long, len, 0, 0, 0, 0];
        // SAFETY: the arguments live during the calls.
        let (known, later) = unsafe { (Wish::of_clone3(given(64)), Wish::of_clone3(given(88))) };
        let signal = libc::SIGCHLD as u64;
        assert_eq!(known, Some(Wish { flags: libc::CLONE_PIDFD as u64, signal, stack: 8192, pidfd: 8, parent_tid: 24, child_tid: 16 }));
        assert!(known.is_some_and(|wish| wish.is_fork()) && later.is_none());
    }
}
