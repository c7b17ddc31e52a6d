//! The interposed functions behind system calls.

use super::signals::with_set;
use crate::clib::args::{InOut, Out, Zeroed};
use crate::clib::raw;
use crate::fd::{attributes, changes, copying, descriptors, epoll, file_io, files, io, poll, select, status, working_folder};
use crate::process::{fork, machine, outsiders, pid, seccomp, tracing, wait};
use crate::shared::huge;
use crate::signal::sigwait;
use crate::socket::{host_name, message, names, open};
use crate::time::{alarm, clock, sleep, timerfd};
use libc::{c_char, c_int, c_long, id_t, idtype_t, pid_t, rusage, siginfo_t};

/// Results of a function: an `int`, whose upper half is undefined, or a whole register.
#[derive(Clone, Copy, Debug)]
enum Function {
    Int(*const ()),
    Word(*const ()),
}
use Function::{Int, Word};

type Registers = unsafe extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;

/// Returns the function whose parameters are those of the system call.
fn function(number: c_long) -> Option<Function> {
    descriptors_and_files(number).or_else(|| changes_of_files(number)).or_else(|| sockets(number)).or_else(|| time_and_processes(number))
}

/// Calls that only need the machine's number of a process.
const NAMES_PROCESS: [c_long; 4] = [libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo, libc::SYS_getpriority, libc::SYS_setpriority];

/// Returns whether this library answers a system call.
pub(super) fn answers(number: c_long) -> bool {
    let differs = [libc::SYS_getcwd, libc::SYS_waitid, libc::SYS_wait4].contains(&number);
    differs || NAMES_PROCESS.contains(&number) || function(number).is_some() || changed(number).is_some() || raw::answers(number)
}

fn descriptors_and_files(number: c_long) -> Option<Function> {
    Some(match number {
        libc::SYS_read => Word(io::read as *const ()),
        libc::SYS_write => Word(io::write as *const ()),
        libc::SYS_readv => Word(io::readv as *const ()),
        libc::SYS_writev => Word(io::writev as *const ()),
        libc::SYS_pread64 => Word(file_io::pread as *const ()),
        libc::SYS_pwrite64 => Word(file_io::pwrite as *const ()),
        libc::SYS_preadv => Word(file_io::preadv as *const ()),
        libc::SYS_pwritev => Word(file_io::pwritev as *const ()),
        libc::SYS_fsync => Int(file_io::fsync as *const ()),
        libc::SYS_fdatasync => Int(file_io::fdatasync as *const ()),
        libc::SYS_poll => Int(poll::poll as *const ()),
        libc::SYS_select => Int(select::select as *const ()),
        libc::SYS_epoll_wait => Int(epoll::epoll_wait as *const ()),
        libc::SYS_epoll_ctl => Int(epoll::epoll_ctl as *const ()),
        libc::SYS_open => Int(files::open as *const ()),
        libc::SYS_openat => Int(files::openat as *const ()),
        libc::SYS_creat => Int(files::creat as *const ()),
        libc::SYS_access => Int(files::access as *const ()),
        libc::SYS_faccessat2 => Int(files::faccessat as *const ()),
        libc::SYS_stat => Int(status::stat as *const ()),
        libc::SYS_fstat => Int(status::fstat as *const ()),
        libc::SYS_lstat => Int(status::lstat as *const ()),
        libc::SYS_newfstatat => Int(status::fstatat as *const ()),
        libc::SYS_statx => Int(status::statx as *const ()),
        libc::SYS_readlink => Word(files::readlink as *const ()),
        libc::SYS_readlinkat => Word(files::readlinkat as *const ()),
        libc::SYS_getxattr => Word(attributes::getxattr as *const ()),
        libc::SYS_lgetxattr => Word(attributes::lgetxattr as *const ()),
        libc::SYS_listxattr => Word(attributes::listxattr as *const ()),
        libc::SYS_llistxattr => Word(attributes::llistxattr as *const ()),
        libc::SYS_inotify_add_watch => Int(attributes::inotify_add_watch as *const ()),
        libc::SYS_statfs => Int(attributes::statfs as *const ()),
        libc::SYS_memfd_create => Int(huge::memfd_create as *const ()),
        libc::SYS_shmget => Int(huge::shmget as *const ()),
        libc::SYS_madvise => Int(huge::madvise as *const ()),
        libc::SYS_chdir => Int(working_folder::chdir as *const ()),
        libc::SYS_dup => Int(descriptors::dup as *const ()),
        libc::SYS_dup2 => Int(descriptors::dup2 as *const ()),
        libc::SYS_dup3 => Int(descriptors::dup3 as *const ()),
        libc::SYS_fcntl => Int(descriptors::fcntl as *const ()),
        libc::SYS_ioctl => Int(descriptors::ioctl as *const ()),
        libc::SYS_sendfile => Word(copying::sendfile as *const ()),
        libc::SYS_splice => Word(copying::splice as *const ()),
        libc::SYS_tee => Word(copying::tee as *const ()),
        libc::SYS_vmsplice => Word(copying::vmsplice as *const ()),
        _ => return None,
    })
}

fn changes_of_files(number: c_long) -> Option<Function> {
    Some(match number {
        libc::SYS_unlink => Int(changes::unlink as *const ()),
        libc::SYS_unlinkat => Int(changes::unlinkat as *const ()),
        libc::SYS_rmdir => Int(changes::rmdir as *const ()),
        libc::SYS_mkdir => Int(changes::mkdir as *const ()),
        libc::SYS_mkdirat => Int(changes::mkdirat as *const ()),
        libc::SYS_rename => Int(changes::rename as *const ()),
        libc::SYS_renameat => Int(changes::renameat as *const ()),
        libc::SYS_renameat2 => Int(changes::renameat2 as *const ()),
        libc::SYS_link => Int(changes::link as *const ()),
        libc::SYS_linkat => Int(changes::linkat as *const ()),
        libc::SYS_symlink => Int(changes::symlink as *const ()),
        libc::SYS_symlinkat => Int(changes::symlinkat as *const ()),
        libc::SYS_truncate => Int(changes::truncate as *const ()),
        libc::SYS_chmod => Int(changes::chmod as *const ()),
        _ => return None,
    })
}

fn sockets(number: c_long) -> Option<Function> {
    Some(match number {
        libc::SYS_socket => Int(open::socket as *const ()),
        libc::SYS_connect => Int(open::connect as *const ()),
        libc::SYS_accept => Int(open::accept as *const ()),
        libc::SYS_accept4 => Int(open::accept4 as *const ()),
        libc::SYS_bind => Int(open::bind as *const ()),
        libc::SYS_listen => Int(open::listen as *const ()),
        libc::SYS_sendto => Word(message::sendto as *const ()),
        libc::SYS_recvfrom => Word(message::recvfrom as *const ()),
        libc::SYS_sendmsg => Word(message::sendmsg as *const ()),
        libc::SYS_recvmsg => Word(message::recvmsg as *const ()),
        libc::SYS_sendmmsg => Int(message::sendmmsg as *const ()),
        libc::SYS_recvmmsg => Int(message::recvmmsg as *const ()),
        libc::SYS_getsockname => Int(names::getsockname as *const ()),
        libc::SYS_getpeername => Int(names::getpeername as *const ()),
        libc::SYS_getsockopt => Int(names::getsockopt as *const ()),
        libc::SYS_setsockopt => Int(names::setsockopt as *const ()),
        libc::SYS_shutdown => Int(names::shutdown as *const ()),
        libc::SYS_uname => Int(host_name::uname as *const ()),
        libc::SYS_sethostname => Int(host_name::sethostname as *const ()),
        libc::SYS_setdomainname => Int(host_name::setdomainname as *const ()),
        _ => return None,
    })
}

fn time_and_processes(number: c_long) -> Option<Function> {
    Some(match number {
        libc::SYS_clock_getres => Int(clock::clock_getres as *const ()),
        libc::SYS_time => Word(clock::time as *const ()),
        libc::SYS_times => Word(clock::times as *const ()),
        libc::SYS_alarm => Int(alarm::alarm as *const ()),
        libc::SYS_pause => Int(sleep::pause as *const ()),
        libc::SYS_setitimer => Int(alarm::setitimer as *const ()),
        libc::SYS_getitimer => Int(alarm::getitimer as *const ()),
        libc::SYS_timerfd_create => Int(timerfd::timerfd_create as *const ()),
        libc::SYS_timerfd_settime => Int(timerfd::timerfd_settime as *const ()),
        libc::SYS_timerfd_gettime => Int(timerfd::timerfd_gettime as *const ()),
        libc::SYS_getrusage => Int(machine::getrusage as *const ()),
        libc::SYS_pidfd_open => Int(pid::pidfd_open as *const ()),
        libc::SYS_pidfd_send_signal => Int(pid::pidfd_send_signal as *const ()),
        libc::SYS_fork => Int(fork::fork as *const ()),
        libc::SYS_vfork => Int(fork::vfork as *const ()),
        libc::SYS_exit_group => Int(fork::_exit as *const ()),
        libc::SYS_getppid => Int(pid::getppid as *const ()),
        libc::SYS_getpgid => Int(pid::getpgid as *const ()),
        libc::SYS_setpgid => Int(pid::setpgid as *const ()),
        libc::SYS_getsid => Int(pid::getsid as *const ()),
        libc::SYS_getpgrp => Int(pid::getpgrp as *const ()),
        libc::SYS_prlimit64 => Int(pid::prlimit as *const ()),
        libc::SYS_process_vm_readv => Word(pid::process_vm_readv as *const ()),
        libc::SYS_process_vm_writev => Word(pid::process_vm_writev as *const ()),
        libc::SYS_prctl => Int(seccomp::prctl as *const ()),
        libc::SYS_ptrace => Word(tracing::ptrace as *const ()),
        _ => return None,
    })
}

/// Carries out a call by the interposed function for it. Returns `None` for other calls. The result
/// is -1 after an error.
///
/// # Safety
/// The arguments are those of the system call, and its pointers are good.
pub(super) unsafe fn carry_out(number: c_long, given: [c_long; 6]) -> Option<c_long> {
    let [a, b, c, d, e, f] = given;
    // SAFETY: the arguments are those of the system call.
    if let Some(result) = unsafe { with_changed_arguments(number, given) } {
        return Some(result);
    }
    // SAFETY: the caller has tried the pointers.
    if let Some(result) = unsafe { with_another_result(number, given) } {
        return Some(result);
    }
    let (Int(address) | Word(address)) = function(number)?;
    // SAFETY: the function takes at most six numbers and pointers, each in a register, as this type.
    let called: Registers = unsafe { std::mem::transmute(address) };
    // SAFETY: the function takes what the system call takes.
    let result = unsafe { called(a, b, c, d, e, f) };
    Some(if matches!(function(number), Some(Int(_))) { (result as c_int).into() } else { result })
}

/// Carries out calls that answer more than the functions of their names.
///
/// # Safety
/// The arguments are those of the system call, and its pointers are good.
unsafe fn with_another_result(number: c_long, [a, b, c, d, e, _]: [c_long; 6]) -> Option<c_long> {
    // SAFETY: the arguments are those of the system call, in each call below.
    unsafe {
        match number {
            libc::SYS_getcwd => working_folder::system_call(a as *mut c_char, b as usize),
            libc::SYS_waitid => {
                let mut own = siginfo_t::zeroed();
                let options = for_child(a as idtype_t != libc::P_ALL, d);
                let status = wait::waitid(a as idtype_t, b as id_t, Out::of(&mut own), options);
                let info: Out<siginfo_t> = Out::from_raw(c as *mut siginfo_t);
                if status == 0 {
                    info.set(own);
                    // As `wait4`, the call knows nothing of the child's use of the machine.
                    if wait::child_of(&own) != 0 {
                        Out::from_raw(e as *mut rusage).set(rusage::zeroed());
                    }
                }
                Some(status.into())
            }
            libc::SYS_wait4 => {
                let (status, usage) = (InOut::from_raw(b as *mut c_int), Out::from_raw(d as *mut rusage));
                Some(wait::wait4(a as pid_t, status, for_child(a > 0, c), usage).into())
            }
            libc::SYS_rt_sigqueueinfo => {
                let process = pid::translated(a as c_int);
                Some(outsiders::refused_signal(process, b as c_int).unwrap_or_else(|| kernel!(number, process, b, c)))
            }
            libc::SYS_rt_tgsigqueueinfo => {
                let process = pid::translated(a as c_int);
                let queue = || kernel!(number, process, pid::system_thread(b as c_int), c, d);
                Some(outsiders::refused_signal(process, c as c_int).unwrap_or_else(queue))
            }
            libc::SYS_setpriority => Some(pid::setpriority(a as libc::c_uint, b as id_t, c as c_int).into()),
            libc::SYS_getpriority => {
                let who = if a as libc::c_uint == libc::PRIO_PROCESS { pid::translated(b as c_int).into() } else { b };
                Some(kernel!(number, a, who, c))
            }
            _ => None,
        }
    }
}

/// Returns the options of a wait. All children end with SIGCHLD here, also those that the program has
/// made without a signal. So a wait for a certain child finds it without `__WCLONE`.
fn for_child(is_certain: bool, options: c_long) -> c_int {
    options as c_int & if is_certain { !libc::__WCLONE } else { !0 }
}

/// Returns the function for a call whose parameters differ from those of the function.
fn changed(number: c_long) -> Option<*const ()> {
    Some(match number {
        libc::SYS_faccessat => files::faccessat as *const (),
        libc::SYS_ppoll => poll::ppoll as *const (),
        libc::SYS_epoll_pwait => epoll::epoll_pwait as *const (),
        libc::SYS_epoll_pwait2 => epoll::epoll_pwait2 as *const (),
        libc::SYS_pselect6 => select::pselect as *const (),
        libc::SYS_rt_sigtimedwait => sigwait::sigtimedwait as *const (),
        libc::SYS_rt_sigsuspend => sleep::sigsuspend as *const (),
        _ => return None,
    })
}

/// Carries out calls whose parameters differ from those of the function.
///
/// # Safety
/// The arguments are those of the system call.
unsafe fn with_changed_arguments(number: c_long, [a, b, c, d, e, f]: [c_long; 6]) -> Option<c_long> {
    let function = changed(number)?;
    // SAFETY: the function takes at most six numbers and pointers, each in a register, as this type.
    let called: Registers = unsafe { std::mem::transmute(function) };
    // SAFETY: the sixth argument of `pselect6` is null, or points to the address of a set.
    let set_of_pselect = || if f == 0 { 0 } else { unsafe { (f as *const c_long).read_unaligned() } };
    let set = match number {
        libc::SYS_ppoll => d,
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => e,
        libc::SYS_pselect6 => set_of_pselect(),
        libc::SYS_faccessat => 0,
        _ => a,
    };
    // SAFETY: the system call takes a set at this place.
    let result = unsafe {
        with_set(set, |set| {
            let set = set.address() as c_long;
            match number {
                // The kernel's call has no flags.
                libc::SYS_faccessat => called(a, b, c, 0, 0, 0),
                libc::SYS_ppoll => called(a, b, c, set, 0, 0),
                libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => called(a, b, c, d, set, 0),
                libc::SYS_pselect6 => called(a, b, c, d, e, set),
                _ => called(set, b, c, 0, 0, 0),
            }
        })
    };
    Some((result as c_int).into())
}
