//! Stopped calls at wall pace. Calls about the fabric's files, names, addresses and programs go to the
//! interposed functions. The thread makes all others by itself (`native`), so they keep the kernel's
//! answers, waits and interruptions.

use super::answer::{Outcome, with_error};
use super::stack::Frame;
use super::{begin_as_child, children, pointers, routes, signals};
use crate::clib::raw;
use crate::process::machine_calls;
use libc::{c_int, c_long};
use softband_client::fds;

/// Beginnings of the paths of the fabric's files.
const PATHS: [&[u8]; 4] = [b"/sys/", b"/proc/", b"/dev/", b"/etc/host"];

/// Calls whose addresses and names belong to the fabric.
const NAMES_AND_SOCKETS: [c_long; 15] = [
    libc::SYS_uname,
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
];

/// Calls on descriptors, which can be the engine's objects.
const ON_DESCRIPTORS: [c_long; 12] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_fstat,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
];

/// Answers a call.
///
/// # Safety
/// The arguments are those of the system call.
pub(super) unsafe fn outcome_of(frame: &mut Frame, number: c_long, given: [c_long; 6], caller: c_long) -> Outcome {
    let copy = || Outcome::NativelyAt(super::native::copy_for(caller as usize));
    // SAFETY: the arguments are those of the system call, in each call below.
    unsafe {
        match number {
            libc::SYS_clone | libc::SYS_clone3 => children::fork_at_wall_pace(number, given).map_or_else(copy, Outcome::Result),
            libc::SYS_fork | libc::SYS_vfork => Outcome::Result(fork()),
            libc::SYS_rt_sigprocmask if pointers::are_good(number, &given) => Outcome::Result(signals::mask(frame, given)),
            libc::SYS_rt_sigaction if pointers::are_good(number, &given) => Outcome::Result(with_error(|| signals::kernels_action(given))),
            libc::SYS_execve | libc::SYS_execveat | libc::SYS_close | libc::SYS_close_range | libc::SYS_seccomp => {
                let [a, b, c, d, e, f] = given;
                if !pointers::are_good(number, &given) {
                    return Outcome::Result(-c_long::from(libc::EFAULT));
                }
                Outcome::Result(with_error(|| raw::called(number, &[a, b, c, d, e, caller, f])))
            }
            _ if reaches_machine(number) => {
                let [a, b, c, d, e, f] = given;
                Outcome::Result(with_error(|| raw::called(number, &[a, b, c, d, e, caller, f])))
            }
            _ if is_about_fabric(number, &given) && pointers::are_good(number, &given) => {
                Outcome::Result(with_error(|| routes::carry_out(number, given).unwrap_or(-1)))
            }
            _ => copy(),
        }
    }
}

/// Makes a child, whose calls the kernel stops, too.
///
/// # Safety
/// The program asked for the child.
pub(super) unsafe fn fork() -> c_long {
    // SAFETY: the program answers for the child.
    let child = with_error(|| unsafe { crate::process::fork::fork() }.into());
    if child == 0 {
        begin_as_child();
    }
    child
}

/// Returns whether a call could change the machine, or processes outside the fabric.
fn reaches_machine(number: c_long) -> bool {
    const NAMES_AND_SIGNALS: [c_long; 4] = [libc::SYS_kill, libc::SYS_setpriority, libc::SYS_sethostname, libc::SYS_setdomainname];
    NAMES_AND_SIGNALS.contains(&number) || machine_calls::answers(number)
}

fn is_about_fabric(number: c_long, given: &[c_long; 6]) -> bool {
    let is_object = || fds::lookup(given[0] as c_int).is_some();
    NAMES_AND_SOCKETS.contains(&number)
        || number == libc::SYS_prctl && given[0] as c_int == libc::PR_SET_SECCOMP
        || ON_DESCRIPTORS.contains(&number) && is_object()
        || path_of(number, given).is_some_and(|path| path != 0 && is_of_fabric(path))
}

/// Returns the address of the path of a call about files.
fn path_of(number: c_long, &[a, b, ..]: &[c_long; 6]) -> Option<c_long> {
    match number {
        libc::SYS_open | libc::SYS_stat | libc::SYS_lstat | libc::SYS_access | libc::SYS_readlink => Some(a),
        libc::SYS_openat | libc::SYS_newfstatat | libc::SYS_statx | libc::SYS_readlinkat => Some(b),
        libc::SYS_faccessat | libc::SYS_faccessat2 => Some(b),
        libc::SYS_unlink | libc::SYS_rmdir | libc::SYS_mkdir | libc::SYS_mknod | libc::SYS_chmod | libc::SYS_truncate | libc::SYS_creat => Some(a),
        libc::SYS_chown | libc::SYS_lchown | libc::SYS_chdir | libc::SYS_statfs | libc::SYS_rename | libc::SYS_link => Some(a),
        libc::SYS_unlinkat | libc::SYS_mkdirat | libc::SYS_mknodat | libc::SYS_fchmodat | libc::SYS_fchownat | libc::SYS_utimensat => Some(b),
        libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => Some(b),
        _ => None,
    }
}

/// Returns whether a path can lead into a fabric. The program's other files stay with the kernel.
fn is_of_fabric(path: c_long) -> bool {
    let has = |start: &&[u8]| {
        pointers::bytes(path, start.len()) && {
            // SAFETY: the bytes can be read.
            (unsafe { std::slice::from_raw_parts(path as *const u8, start.len()) }) == *start
        }
    };
    PATHS.iter().any(has)
}
