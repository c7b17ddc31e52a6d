//! Implements `syscall`, by which runtimes of other languages wait and ask the time (Rust, atomics
//! of OpenMP and C++). Calls about time, processes and randomness go to the functions of their
//! names. All others pass through.

use crate::clib::args::{In, Out, Text, Texts};
use crate::clib::real;
use crate::fd::descriptors::{close, close_range};
use crate::fd::files;
use crate::fd::random::getrandom;
use crate::process::exec::{execve, execveat};
use crate::process::machine_calls;
use crate::process::pid::{gettid, kill, own_number, setpriority, system_thread, tgkill};
use crate::process::processor_set;
use crate::process::seccomp::seccomp;
use crate::runtime::attach::attached;
use crate::runtime::world::{active, deadline_after, fail, is_away, is_parked, keeping_errno, timespec_picos};
use crate::shared::{guard, mapping};
use crate::signal::handlers;
use crate::socket::host_name;
use crate::socket::open::socket;
use crate::spin;
use crate::sync::doorbell::{self, End, Place};
use crate::time::clock::{clock_gettime, from_clock, gettimeofday};
use crate::time::pace::Patience;
use crate::time::sleep::{sched_yield, sleep_for, sleep_on_clock};
use libc::{c_char, c_int, c_long, c_uint, clockid_t, timespec};
use softband_client as client;
use softband_ipc::calls::reason;
use std::sync::atomic::{AtomicU32, Ordering};

/// Takes six arguments without variadic parameters. They travel in the same places whether present
/// or not (System V ABI). Puts five of them in front of the return address and the sixth.
///
/// # Safety
/// The arguments are those of the system call.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push r9",
        "push r8",
        "push rcx",
        "push rdx",
        "push rsi",
        ".cfi_adjust_cfa_offset 40",
        "mov rsi, rsp",
        "call {called}",
        "add rsp, 40",
        ".cfi_adjust_cfa_offset -40",
        "ret",
        ".cfi_endproc",
        called = sym called,
    )
}

/// Makes the call `number`. The words are its first five arguments, the address behind the caller's
/// instruction, and the sixth argument.
///
/// # Safety
/// The arguments are those of the system call.
pub unsafe extern "C" fn called(number: c_long, words: &[c_long; 7]) -> c_long {
    let [a, b, c, d, e, caller, f] = *words;
    match number {
        // A program must not close the descriptors of this library.
        libc::SYS_close_range => return close_range(a as c_uint, b as c_uint, c as c_int).into(),
        libc::SYS_close => return close(a as c_int).into(),
        // The new image needs a ticket and the machine's own time-stamp counter.
        // SAFETY: `execve` takes a path and two lists of strings.
        libc::SYS_execve => return unsafe { execve(text(a), texts(b), texts(c)).into() },
        // SAFETY: `execveat` takes the path second and the lists behind it.
        libc::SYS_execveat => return unsafe { execveat(a as c_int, text(b), texts(c), texts(d), e as c_int).into() },
        // SAFETY: `seccomp` takes an operation, flags and a filter.
        libc::SYS_seccomp => return unsafe { seccomp(a, b, c) },
        number if machine_calls::answers(number) => {
            // SAFETY: the first arguments go on as they came.
            if let Some(refused) = unsafe { machine_calls::refusal(number, [a, b, c]) } {
                return refused;
            }
        }
        _ => {}
    }
    if !is_parked()
        && !is_away()
        && !spin::is_own(caller as usize)
        // SAFETY: the arguments are those of the call.
        && let Some(result) = unsafe { beyond_host(number, a, b, c, d) }
    {
        return result;
    }
    // A thread that waits for the token may call this in a signal handler or in our own code.
    if !active() || is_parked() || is_away() {
        // SAFETY: the arguments are the caller's.
        return unsafe { pass_through(caller, number, &[a, b, c, d, e, f]) };
    }
    // SAFETY: each argument goes where the kernel would take it.
    if let Some(result) = unsafe { in_simulated_time(number, a, b, c, d) } {
        return result;
    }
    // SAFETY: the arguments of a mapping's call are as given.
    if let Some(result) = unsafe { mapping::system_call(number, [a, b, c, d, e, f]) } {
        return result;
    }
    if fills_memory(number) {
        guard::open_all();
    }
    spin::before_native();
    let a = if names_thread(number) { system_thread(a as c_int).into() } else { a };
    // SAFETY: a thread's real number stands for the program's; the other arguments are as given.
    unsafe { pass_through(caller, number, &[a, b, c, d, e, f]) }
}

/// Answers the calls by which a program would leave its host, in both paces: sockets, names, signals,
/// and files that it writes. An allocator may open files to read while it starts, so those stay native.
///
/// # Safety
/// The arguments are those of the system call.
unsafe fn beyond_host(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long) -> Option<c_long> {
    let writes = |flags: c_long| flags as c_int & libc::O_ACCMODE != libc::O_RDONLY;
    if !attached() {
        return None;
    }
    // SAFETY: each function takes what the system call of its name takes.
    let result = unsafe {
        match number {
            libc::SYS_socket => socket(a as c_int, b as c_int, c as c_int),
            libc::SYS_open if writes(b) => files::open(text(a), b as c_int, c as libc::mode_t),
            libc::SYS_openat if writes(c) => files::openat(a as c_int, text(b), c as c_int, d as libc::mode_t),
            libc::SYS_creat => files::creat(text(a), b as libc::mode_t),
            libc::SYS_kill => kill(a as c_int, b as c_int),
            libc::SYS_setpriority => setpriority(a as c_uint, b as libc::id_t, c as c_int),
            libc::SYS_sethostname => host_name::sethostname(a as *const c_char, b as usize),
            libc::SYS_setdomainname => host_name::setdomainname(a as *const c_char, b as usize),
            _ => return None,
        }
    };
    Some(result.into())
}

/// Returns whether [`called`] answers a call itself.
pub fn answers(number: c_long) -> bool {
    use libc::{SYS_clock_gettime, SYS_clock_nanosleep, SYS_futex, SYS_getpid, SYS_getrandom, SYS_gettid, SYS_gettimeofday, SYS_kill};
    use libc::{SYS_close, SYS_close_range, SYS_execve, SYS_execveat, SYS_nanosleep, SYS_sched_yield, SYS_seccomp, SYS_tgkill, SYS_tkill};
    let sets = [libc::SYS_sched_getaffinity, libc::SYS_sched_setaffinity, libc::SYS_getcpu];
    let times = [SYS_futex, SYS_nanosleep, SYS_clock_nanosleep, SYS_clock_gettime, SYS_gettimeofday, SYS_sched_yield];
    let processes = [SYS_getpid, SYS_gettid, SYS_tgkill, SYS_tkill, SYS_kill, SYS_execve, SYS_execveat, SYS_seccomp];
    machine_calls::answers(number)
        || sets.contains(&number)
        || times.contains(&number)
        || processes.contains(&number)
        || [SYS_getrandom, SYS_close, SYS_close_range].contains(&number)
}

/// Makes a call of the program by the C library, so that the program's filter judges it. Calls of
/// this library (its standard library makes some) pass the filter.
///
/// # Safety
/// The arguments are those of the system call.
unsafe fn pass_through(caller: c_long, number: c_long, given: &[c_long; 6]) -> c_long {
    if spin::is_own(caller as usize) {
        // SAFETY: the arguments are the caller's.
        return unsafe { real::padded_syscall(number, given) };
    }
    let [a, b, c, d, e, f] = *given;
    // SAFETY: the arguments are the caller's.
    unsafe { real::syscall(number, a, b, c, d, e, f) }
}

/// Answers the calls about time, processes and randomness. Returns `None` for a call left to the
/// kernel.
///
/// # Safety
/// The arguments are the first four of the system call.
unsafe fn in_simulated_time(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long) -> Option<c_long> {
    Some(match number {
        // SAFETY: the first argument of a futex call is a word, the fourth its time limit.
        libc::SYS_futex => return unsafe { futex(a as *const AtomicU32, b as c_int, c as u32, d) },
        // SAFETY: `nanosleep` takes a duration, and room for the rest.
        libc::SYS_nanosleep => unsafe { sleep_for(time(a), room(b)).into() },
        // SAFETY: the third argument is a time, the fourth room for the rest.
        libc::SYS_clock_nanosleep => match unsafe { sleep_on_clock(a as clockid_t, b as c_int, time(c), room(d)) } {
            0 => 0,
            error => fail(error),
        },
        // SAFETY: the second argument is room for a time.
        libc::SYS_clock_gettime => unsafe { clock_gettime(a as clockid_t, room(b)).into() },
        // SAFETY: both arguments are room for a structure, or null.
        libc::SYS_gettimeofday => unsafe { gettimeofday(room(a), room(b)).into() },
        libc::SYS_sched_yield => sched_yield().into(),
        // SAFETY: the third argument is a set, and the second its length.
        libc::SYS_sched_getaffinity => unsafe { processor_set::get(a as c_int, b as usize, c as *mut libc::cpu_set_t) },
        // SAFETY: the call reads a set, the third argument, of the length that the second states.
        libc::SYS_sched_setaffinity => unsafe { processor_set::set(a as c_int, b as usize, c as *const libc::cpu_set_t) },
        // SAFETY: both arguments are room for a number, or null.
        libc::SYS_getcpu => unsafe { processor_set::getcpu(room(a), room(b)).into() },
        libc::SYS_getpid => own_number().into(),
        libc::SYS_gettid => gettid().into(),
        libc::SYS_tgkill => tgkill(a as c_int, b as c_int, c as c_int).into(),
        // SAFETY: the call takes a thread and a signal, both numbers.
        libc::SYS_tkill => unsafe { kernel!(libc::SYS_tkill, system_thread(a as c_int), b) },
        libc::SYS_kill => kill(a as c_int, b as c_int).into(),
        // SAFETY: the first argument has room for the second's number of bytes.
        libc::SYS_getrandom => unsafe { getrandom(a as *mut libc::c_void, b as usize, c as c_uint) as c_long },
        _ => return None,
    })
}

/// # Safety
/// The argument is null or a C string that lives during the call.
unsafe fn text<'a>(argument: c_long) -> Text<'a> {
    // SAFETY: the argument is a C string.
    unsafe { Text::from_raw(argument as *const c_char) }
}

/// # Safety
/// The argument is null or a list of C strings that lives during the call.
unsafe fn texts<'a>(argument: c_long) -> Texts<'a> {
    // SAFETY: a null pointer ends the list.
    unsafe { Texts::from_raw(argument as *const *const c_char) }
}

/// # Safety
/// The argument is null or a time that lives during the call.
unsafe fn time<'a>(argument: c_long) -> In<'a, timespec> {
    // SAFETY: the argument is a `timespec`, if any.
    unsafe { In::from_raw(argument as *const timespec) }
}

/// # Safety
/// The argument is null or has room for a `T` during the call.
unsafe fn room<'a, T: Copy>(argument: c_long) -> Out<'a, T> {
    // SAFETY: the caller has room for this type.
    unsafe { Out::from_raw(argument as *mut T) }
}

/// Returns whether the first argument of a call is a thread.
fn names_thread(number: c_long) -> bool {
    use libc::{SYS_sched_getattr, SYS_sched_getparam, SYS_sched_getscheduler};
    use libc::{SYS_sched_setattr, SYS_sched_setparam, SYS_sched_setscheduler};
    let asks = [SYS_sched_getattr, SYS_sched_getparam, SYS_sched_getscheduler];
    let sets = [SYS_sched_setattr, SYS_sched_setparam, SYS_sched_setscheduler];
    asks.contains(&number) || sets.contains(&number)
}

/// Returns whether the kernel writes data to the program's memory.
fn fills_memory(number: c_long) -> bool {
    use libc::{SYS_pread64, SYS_preadv, SYS_process_vm_readv, SYS_read, SYS_readv, SYS_recvfrom, SYS_recvmsg};
    [SYS_read, SYS_pread64, SYS_readv, SYS_preadv, SYS_recvfrom, SYS_recvmsg, SYS_process_vm_readv].contains(&number)
}

/// Handles waits and wake-ups. Returns `None` for operations left to the kernel.
///
/// # Safety
/// `word` lives during the call. For a wait, `timeout` is null or the address of a time.
unsafe fn futex(word: *const AtomicU32, operation: c_int, value: u32, timeout: c_long) -> Option<c_long> {
    let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
    // SAFETY: the match below calls this for waits alone.
    let until = || unsafe { time(timeout) }.get();
    match operation & !flags {
        libc::FUTEX_WAIT => {
            let deadline = until().map_or(u64::MAX, |until| deadline_after(timespec_picos(&until)));
            // SAFETY: the thread waits on the word, so the program keeps it.
            Some(wait(unsafe { &*word }, operation & libc::FUTEX_PRIVATE_FLAG != 0, value, deadline))
        }
        libc::FUTEX_WAIT_BITSET => {
            let clock = if operation & libc::FUTEX_CLOCK_REALTIME == 0 { libc::CLOCK_MONOTONIC } else { libc::CLOCK_REALTIME };
            let deadline = until().map_or(u64::MAX, |until| from_clock(clock, &until));
            // SAFETY: a word on which a thread waits outlives the wait.
            Some(wait(unsafe { &*word }, operation & libc::FUTEX_PRIVATE_FLAG != 0, value, deadline))
        }
        // Too many of the threads that wait for certain bits may wake; they check again.
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET if doorbell::is_awaited(word as usize) => {
            let woken = keeping_errno(|| doorbell::wake(word as usize, value as usize)) as c_long;
            let left = c_long::from(value) - woken;
            let wake = libc::FUTEX_WAKE | operation & libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: the kernel uses the word's address alone.
            let natively = if left > 0 { unsafe { kernel!(libc::SYS_futex, word, wake, left) } } else { 0 };
            Some(woken + natively.max(0))
        }
        _ => None,
    }
}

fn wait(word: &AtomicU32, is_private: bool, value: u32, deadline: u64) -> c_long {
    let has_changed = || word.load(Ordering::SeqCst) != value;
    let patience = Patience::of(reason::LOCK);
    let mut known = handlers::runs();
    let mut has_waited = false;
    while !has_changed() {
        if deadline <= client::now_ps() {
            return fail(libc::ETIMEDOUT);
        }
        let place = if is_private { Place::take(std::ptr::from_ref(word) as usize) } else { None };
        let end = match place {
            // The call above may have given the token away.
            Some(_) if has_changed() => break,
            Some(place) => Some(keeping_errno(|| place.wait_interruptibly(deadline))),
            None => {
                let _ = patience.step(deadline);
                doorbell::interruption(&mut known, deadline)
            }
        };
        match end {
            Some(End::Woken) => return 0,
            Some(End::Late) => return fail(libc::ETIMEDOUT),
            Some(End::Interrupted) => return fail(libc::EINTR),
            // The system looks at the word anew.
            Some(End::Restarts) => has_waited = false,
            None => has_waited = true,
        }
    }
    if has_waited { 0 } else { fail(libc::EAGAIN) }
}
