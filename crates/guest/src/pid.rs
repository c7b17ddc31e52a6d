//! Process numbers: simulated ones, so that what a program derives from its own (names, seeds) is the same in each run.

use crate::children::{await_killed, parent_number, to_real};
use crate::real;
use crate::world::{active, keeping_errno};
use libc::{c_int, cpu_set_t, pid_t, rlimit, sched_param, size_t};
use softband_client as client;

/// The system's number for one that the program knows: its own, a child's, or any other.
pub fn system_number(pid: pid_t) -> pid_t {
    if pid > 0 && pid == own_number() { rustix::process::getpid().as_raw_nonzero().get() } else { to_real(pid) }
}

/// What the program takes itself for.
pub fn own_number() -> pid_t {
    if active() && client::header().virtual_pid != 0 {
        client::header().virtual_pid as pid_t
    } else {
        rustix::process::getpid().as_raw_nonzero().get()
    }
}

fn translated(pid: pid_t) -> pid_t {
    if crate::attach::attached() { system_number(pid) } else { pid }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpid() -> pid_t {
    own_number()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getppid() -> pid_t {
    let real = real::getppid();
    // A parent outside the run has no number that would be the same in each.
    match parent_number(real) {
        known if known != real => known,
        _ if active() => 1,
        _ => real,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn kill(pid: pid_t, signal: c_int) -> c_int {
    let group = if pid < -1 { -translated(-pid) } else { translated(pid) };
    let status = real::kill(group, signal);
    if status == 0 && group > 0 && active() {
        keeping_errno(|| await_killed(group, end_millis(signal)));
    }
    status
}

/// How long, in real time, the end of a child by this signal is waited for. One that it may handle does not end at all.
fn end_millis(signal: c_int) -> c_int {
    match signal {
        libc::SIGKILL => 1_000,
        libc::SIGTERM | libc::SIGINT | libc::SIGQUIT | libc::SIGHUP | libc::SIGABRT => 20,
        _ => 0,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn setpgid(pid: pid_t, group: pid_t) -> c_int {
    real::setpgid(translated(pid), translated(group))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpgid(pid: pid_t) -> pid_t {
    real::getpgid(translated(pid))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsid(pid: pid_t) -> pid_t {
    real::getsid(translated(pid))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_setaffinity(pid: pid_t, len: size_t, set: *const cpu_set_t) -> c_int {
    real::sched_setaffinity(translated(pid), len, set)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_getaffinity(pid: pid_t, len: size_t, set: *mut cpu_set_t) -> c_int {
    real::sched_getaffinity(translated(pid), len, set)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_setscheduler(pid: pid_t, policy: c_int, parameters: *const sched_param) -> c_int {
    real::sched_setscheduler(translated(pid), policy, parameters)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_getscheduler(pid: pid_t) -> c_int {
    real::sched_getscheduler(translated(pid))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn prlimit(pid: pid_t, resource: c_int, new: *const rlimit, old: *mut rlimit) -> c_int {
    real::prlimit(translated(pid), resource, new, old)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn prlimit64(pid: pid_t, resource: c_int, new: *const rlimit, old: *mut rlimit) -> c_int {
    real::prlimit(translated(pid), resource, new, old)
}

/// The processor that a program takes itself to run on: one, so that nothing depends on the host's scheduler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_getcpu() -> c_int {
    if active() {
        return 0;
    }
    let mut cpu: libc::c_uint = 0;
    if libc::syscall(libc::SYS_getcpu, &raw mut cpu, std::ptr::null_mut::<libc::c_uint>(), 0) != 0 {
        return -1;
    }
    cpu as c_int
}
