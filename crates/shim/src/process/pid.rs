//! Process numbers. They are simulated, so that values that a program derives from its own number
//! (names, seeds) are the same in each run.

use crate::clib::args::{In, Out, Zeroed};
use crate::clib::real;
use crate::fd::descriptors::await_natively;
use crate::fd::kernel_news;
use crate::own_calls;
use crate::process::children::{await_killed, is_child, parent_number, to_real, to_simulated};
use crate::process::outsiders;
use crate::runtime::world::{active, keeping_errno};
use crate::shared::mapping::{before_kernel_writes_parts, note_written};
use crate::signal::actions::is_ours;
use crate::signal::handlers;
use crate::time::pace::pay_for_call;
use libc::{c_int, c_uint, c_ulong, pid_t, rlimit, sched_param};
use rustix::fs::{Mode, OFlags};
use softband_client as client;
use softband_ipc::calls::{ProcessNumber, op};

/// More than the bytes of a `status` file up to its signals.
const STATUS_BYTES: usize = 4096;

/// Returns the real number for a number that the program knows: its own, a child's, another
/// process's of the run, or any other.
pub fn system_number(pid: pid_t) -> pid_t {
    if pid > 0 && pid == own_number() {
        return rustix::process::getpid().as_raw_nonzero().get();
    }
    match to_real(pid) {
        real if real != pid || pid <= 0 || !active() => real,
        _ => keeping_errno(|| in_the_run(pid)).unwrap_or(pid),
    }
}

/// Asks the engine, because only the engine knows all numbers.
fn in_the_run(pid: pid_t) -> Option<pid_t> {
    let found = client::call::<op::FindProcess>(&ProcessNumber { number: pid as u32, reserved: 0 }).ok()?;
    Some(found.number as pid_t).filter(|number| *number > 0)
}

/// Returns the real number of the process behind a descriptor (`pidfd_open`), or -1.
pub fn process_of(fd: c_int) -> pid_t {
    let read = || std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}"));
    let about = keeping_errno(read).unwrap_or_default();
    about.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok()).unwrap_or(-1)
}

/// Implements `pidfd_open`.
#[unsafe(no_mangle)]
pub extern "C" fn pidfd_open(pid: pid_t, flags: c_uint) -> c_int {
    // SAFETY: the call takes two numbers.
    unsafe { kernel!(libc::SYS_pidfd_open, translated(pid), flags) as c_int }
}

/// Implements `pidfd_send_signal`.
///
/// # Safety
/// `info` is null, or describes the signal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pidfd_send_signal(fd: c_int, signal: c_int, info: *const libc::siginfo_t, flags: c_uint) -> c_int {
    // An ended process, or a descriptor of something else, has no number. The kernel names the error.
    let target = process_of(fd);
    if target > 0
        && let Some(refused) = outsiders::refused_signal(target, signal)
    {
        return refused;
    }
    let process = if active() { process_of(fd) } else { -1 };
    let ends = process > 0 && process != rustix::process::getpid().as_raw_nonzero().get() && ends_by(process, signal);
    // SAFETY: the kernel reads the caller's description of the signal, and refuses a bad address.
    let status = unsafe { kernel!(libc::SYS_pidfd_send_signal, fd, signal, info, flags) as c_int };
    kernel_news::tell_of(status);
    if ends {
        keeping_errno(|| await_end(status, process));
    }
    status
}

/// Returns the real number for a process or, negative, for a process group.
pub fn group_or_process(pid: pid_t) -> pid_t {
    if pid < -1 { -translated(-pid) } else { translated(pid) }
}

/// Returns the program's number for a real number: its own or a child's.
pub fn known_number(real: pid_t) -> pid_t {
    if real == rustix::process::getpid().as_raw_nonzero().get() { own_number() } else { to_simulated(real) }
}

/// Returns this process's number as the program knows it.
pub fn own_number() -> pid_t {
    if active() && client::header().virtual_pid != 0 {
        client::header().virtual_pid as pid_t
    } else {
        rustix::process::getpid().as_raw_nonzero().get()
    }
}

pub fn translated(pid: pid_t) -> pid_t {
    if crate::runtime::attach::attached() { system_number(pid) } else { pid }
}

#[unsafe(no_mangle)]
pub extern "C" fn getpid() -> pid_t {
    own_number()
}

/// Implements `gettid`. The first thread has the number of its process, as in the system. Others
/// have the real number.
#[unsafe(no_mangle)]
pub extern "C" fn gettid() -> pid_t {
    let real = rustix::thread::gettid().as_raw_nonzero().get();
    if real == rustix::process::getpid().as_raw_nonzero().get() { own_number() } else { real }
}

#[unsafe(no_mangle)]
pub extern "C" fn tgkill(process: pid_t, thread: pid_t, signal: c_int) -> c_int {
    // Only the first thread has the number of its process.
    let is_first = thread == process;
    let process = translated(process);
    if let Some(refused) = outsiders::refused_signal(process, signal) {
        return refused;
    }
    let (thread, target) = if is_first { (process, process) } else { (system_thread(thread), 0) };
    // SAFETY: the three arguments are numbers, and the kernel refuses those that mean nothing.
    interrupting(target, signal, || unsafe { kernel!(libc::SYS_tgkill, process, thread, signal) as c_int })
}

/// Returns the `status` file of a process.
fn status_of(process: pid_t) -> String {
    // The standard library would call this library, which translates the number.
    let file = rustix::fs::open(format!("/proc/{process}/status"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let mut room = [0; STATUS_BYTES];
    let read = file.and_then(|file| rustix::io::read(file, &mut room[..])).unwrap_or(0);
    String::from_utf8_lossy(&room[..read]).into_owned()
}

/// Returns the sets of signals in the `status` file of a process, by their names.
fn sets_of(process: pid_t, signal: c_int) -> impl Fn(&str) -> bool {
    let status = status_of(process);
    move |set: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(set)).and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask & 1 << (signal - 1) != 0)
    }
}

/// Returns whether the first thread of a process handles a signal, as the kernel knows it.
fn is_handled_by(process: pid_t, signal: c_int) -> bool {
    let has = sets_of(process, signal);
    has("SigCgt:") && !has("SigBlk:")
}

/// Returns whether a signal ends a process, as the kernel knows it.
fn ends_by(process: pid_t, signal: c_int) -> bool {
    const HARMLESS: [c_int; 8] =
        [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT, libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    if signal == libc::SIGKILL {
        return true;
    }
    // A stopped process ends when it continues. The kernel spares the first process of a container.
    let status = status_of(process);
    let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    if value("State:").starts_with(['T', 't']) || value("NSpid:").split_whitespace().next_back() == Some("1") {
        return false;
    }
    let has = sets_of(process, signal);
    (1..=64).contains(&signal) && !HARMLESS.contains(&signal) && !has("SigCgt:") && !has("SigIgn:") && !has("SigBlk:")
}

/// Sends a signal to a process by `send`, at its place in the order of simulated time. If the process
/// handles it, its wait ends at once.
fn interrupting(process: pid_t, signal: c_int, send: impl FnOnce() -> c_int) -> c_int {
    let is_other = active() && process > 0 && process != rustix::process::getpid().as_raw_nonzero().get();
    let may_interrupt = is_other && (1..=64).contains(&signal) && !is_ours(signal);
    if may_interrupt {
        keeping_errno(client::sync);
    }
    // During the delivery the kernel blocks the signal, so the question comes first.
    let is_handled = may_interrupt && is_handled_by(process, signal);
    let ends = may_interrupt && !is_handled && ends_by(process, signal);
    let status = send();
    kernel_news::tell_of(status);
    if ends {
        keeping_errno(|| await_end(status, process));
    }
    if status == 0 && is_handled {
        keeping_errno(|| {
            let _ = client::call::<op::Interrupt>(&ProcessNumber { number: process as u32, reserved: 0 });
        });
    }
    status
}

/// Returns the real number for a thread. Only the first thread has another number.
pub fn system_thread(thread: pid_t) -> pid_t {
    if thread == own_number() { rustix::process::getpid().as_raw_nonzero().get() } else { thread }
}

#[unsafe(no_mangle)]
pub extern "C" fn getppid() -> pid_t {
    let real = real::getppid();
    // A parent outside the run has no number that is the same in each run.
    match parent_number(real) {
        known if known != real => known,
        _ if active() => 1,
        _ => real,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn kill(pid: pid_t, signal: c_int) -> c_int {
    let group = group_or_process(pid);
    if let Some(refused) = outsiders::refused_signal(group, signal) {
        return refused;
    }
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let status = if group == own && active() && own_calls::are_stopped() && handlers::handles(signal) {
        let status = signal_here(signal);
        kernel_news::tell_of(status);
        status
    } else {
        interrupting(group, signal, || real::kill(group, signal))
    };
    if group <= 0 && signal != 0 {
        // Several processes may end.
        keeping_errno(|| await_end(status, 0));
    }
    status
}

/// Implements `killpg`. Group 0 is the caller's own.
#[unsafe(no_mangle)]
pub extern "C" fn killpg(group: pid_t, signal: c_int) -> c_int {
    if group < 0 { crate::runtime::world::fail(libc::EINVAL) } else { kill(-group, signal) }
}

/// Sends a signal of this process to the calling thread. The kernel could choose a thread that waits for
/// long by a call of its own, and runs no handler meanwhile.
fn signal_here(signal: c_int) -> c_int {
    let (process, thread) = (rustix::process::getpid().as_raw_nonzero().get(), rustix::thread::gettid().as_raw_nonzero().get());
    let mut about = libc::siginfo_t::zeroed();
    about.si_signo = signal;
    about.si_code = libc::SI_USER;
    let numbers = (&raw mut about).cast::<c_int>();
    // SAFETY: the numbers of the sending process and its user follow signal, errno, code and padding.
    unsafe {
        numbers.add(4).write(process);
        numbers.add(5).write(rustix::process::getuid().as_raw() as c_int);
    }
    // SAFETY: the kernel reads the description, which lives during the call.
    unsafe { kernel!(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, &raw const about) as c_int }
}

/// Waits for the end of a process that a signal ends, or of all such processes if `process` is 0. The
/// end belongs to this moment of simulated time. `status` is the result of the call that sent the signal.
fn await_end(status: c_int, process: pid_t) {
    if status != 0 || !active() {
        return;
    }
    if process > 0 && is_child(process) {
        await_killed(process, END_MILLIS);
    } else if process > 0 {
        // SAFETY: the kernel only looks up the number; no flags follow it.
        let fd = unsafe { kernel!(libc::SYS_pidfd_open, process) as c_int };
        if fd >= 0 {
            await_natively(&mut [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }], END_MILLIS);
            real::close(fd);
        }
    }
    // The peers of the process see its end from now on.
    let _ = client::call::<op::AwaitEnd>(&ProcessNumber { number: process as u32, reserved: 0 });
}

/// Longest real time until the kernel has ended a process on a busy machine, in milliseconds.
const END_MILLIS: c_int = 60_000;

#[unsafe(no_mangle)]
pub extern "C" fn setpgid(pid: pid_t, group: pid_t) -> c_int {
    real::setpgid(translated(pid), translated(group))
}

#[unsafe(no_mangle)]
pub extern "C" fn getpgid(pid: pid_t) -> pid_t {
    known_number(real::getpgid(translated(pid)))
}

#[unsafe(no_mangle)]
pub extern "C" fn getsid(pid: pid_t) -> pid_t {
    real::getsid(translated(pid))
}

#[unsafe(no_mangle)]
pub extern "C" fn getpgrp() -> pid_t {
    known_number(real::getpgrp())
}

#[unsafe(no_mangle)]
pub extern "C" fn sigqueue(pid: pid_t, signal: c_int, value: libc::sigval) -> c_int {
    let process = translated(pid);
    if let Some(refused) = outsiders::refused_signal(process, signal) {
        return refused;
    }
    interrupting(process, signal, || real::sigqueue(process, signal, value))
}

#[unsafe(no_mangle)]
pub extern "C" fn getpriority(which: c_uint, who: libc::id_t) -> c_int {
    real::getpriority(which, if which == libc::PRIO_PROCESS { translated(who as pid_t) as libc::id_t } else { who })
}

#[unsafe(no_mangle)]
pub extern "C" fn setpriority(which: c_uint, who: libc::id_t, priority: c_int) -> c_int {
    let target = if which == libc::PRIO_PROCESS { translated(who as pid_t) } else { who as pid_t };
    let refused = match which {
        libc::PRIO_PROCESS => outsiders::refusal("a priority", target),
        libc::PRIO_PGRP if target > 1 => outsiders::refusal("a priority", -target),
        // All processes of a user are the machine's.
        libc::PRIO_USER => outsiders::refusal("a priority", -1),
        _ => None,
    };
    refused.unwrap_or_else(|| real::setpriority(which, target as libc::id_t, priority))
}

#[unsafe(no_mangle)]
pub extern "C" fn sched_getparam(pid: pid_t, parameters: Out<sched_param>) -> c_int {
    real::sched_getparam(translated(pid), parameters)
}

#[unsafe(no_mangle)]
pub extern "C" fn sched_setparam(pid: pid_t, parameters: In<sched_param>) -> c_int {
    outsiders::refusal("a scheduling rule", translated(pid)).unwrap_or_else(|| real::sched_setparam(translated(pid), parameters))
}

/// Pays for a copy between processes. The search for the other process's pages takes about as long
/// as the call itself.
fn pay_for_copy(bytes: libc::ssize_t) {
    const MEBIBYTE: u128 = 1 << 20;
    if active() {
        pay_for_call();
        let picos = u128::from(client::header().cost_copy_mebibyte) * bytes.max(0) as u128 / MEBIBYTE;
        client::advance_ps(picos as u64);
    }
}

/// Implements `process_vm_readv`.
///
/// # Safety
/// The local list has `locals` parts and the remote list `remotes`. The local parts are memory of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn process_vm_readv(
    pid: pid_t,
    local: *const libc::iovec,
    locals: c_ulong,
    remote: *const libc::iovec,
    remotes: c_ulong,
    flags: c_ulong,
) -> libc::ssize_t {
    if active() {
        pay_for_call();
        client::sync();
        // SAFETY: the list has as many parts.
        unsafe { before_kernel_writes_parts(local, locals as usize) };
    }
    // SAFETY: the kernel checks the remote parts. The local parts are the caller's own.
    let read = unsafe { real::process_vm_readv(translated(pid), local, locals, remote, remotes, flags) };
    pay_for_copy(read);
    read
}

/// Implements `process_vm_writev`.
///
/// # Safety
/// The local list has `locals` parts and the remote list `remotes`. The local parts are memory of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn process_vm_writev(
    pid: pid_t,
    local: *const libc::iovec,
    locals: c_ulong,
    remote: *const libc::iovec,
    remotes: c_ulong,
    flags: c_ulong,
) -> libc::ssize_t {
    if let Some(refused) = outsiders::refusal("a write to memory", translated(pid)) {
        return refused;
    }
    if active() {
        pay_for_call();
        // Other threads and processes act first, up to the present time.
        client::sync();
    }
    // SAFETY: the kernel reads the local parts, which the caller provides, and checks the remote ones.
    let written = unsafe { real::process_vm_writev(translated(pid), local, locals, remote, remotes, flags) };
    pay_for_copy(written);
    if written > 0 && active() {
        keeping_errno(|| note_written(pid));
    }
    written
}

#[unsafe(no_mangle)]
pub extern "C" fn sched_setscheduler(pid: pid_t, policy: c_int, parameters: In<sched_param>) -> c_int {
    outsiders::refusal("a scheduling rule", translated(pid)).unwrap_or_else(|| real::sched_setscheduler(translated(pid), policy, parameters))
}

#[unsafe(no_mangle)]
pub extern "C" fn sched_getscheduler(pid: pid_t) -> c_int {
    real::sched_getscheduler(translated(pid))
}

#[unsafe(no_mangle)]
pub extern "C" fn prlimit(pid: pid_t, resource: c_int, new: In<rlimit>, old: Out<rlimit>) -> c_int {
    let refused = if new.is_null() { None } else { outsiders::refusal("a limit", translated(pid)) };
    if let Some(refused) = refused {
        return refused;
    }
    real::prlimit(translated(pid), resource, new, old)
}

#[unsafe(no_mangle)]
pub extern "C" fn prlimit64(pid: pid_t, resource: c_int, new: In<rlimit>, old: Out<rlimit>) -> c_int {
    prlimit(pid, resource, new, old)
}
