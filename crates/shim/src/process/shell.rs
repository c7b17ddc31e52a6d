//! Implements `system` and `popen` with our own fork and exec, because the originals bypass them.
//! So the shell takes part in the fabric, even if the program has emptied its environment.

use crate::clib::args::{In, InOut, Out, Text, Texts, Zeroed};
use crate::clib::real;
use crate::fd::descriptors::close;
use crate::process::children;
use crate::process::exec::execv;
use crate::process::fork::{_exit, fork};
use crate::process::wait::waitpid;
use crate::runtime::world::{active, errno, fail, set_errno, walled};
use crate::signal::actions::add_signal;
use libc::{FILE, c_int, pid_t, sigset_t};
use std::sync::Mutex;

const SHELL: &std::ffi::CStr = c"/bin/sh";
/// Exit status if the shell cannot start.
const EXIT_NO_SHELL: c_int = 127;

fn run_shell(command: Text) -> ! {
    let argv = [c"sh".as_ptr(), c"-c".as_ptr(), command.as_ptr(), std::ptr::null()];
    // SAFETY: a null pointer ends the list of strings.
    execv(Text::of(SHELL), unsafe { Texts::from_raw(argv.as_ptr()) });
    _exit(EXIT_NO_SHELL)
}

/// Ignores a signal. Returns its former action.
fn ignore(signal: c_int) -> libc::sigaction {
    let (mut ignore, mut former) = (libc::sigaction::zeroed(), libc::sigaction::zeroed());
    ignore.sa_sigaction = libc::SIG_IGN;
    // SAFETY: SIG_IGN is no function.
    unsafe { real::sigaction(signal, In::of(&ignore), Out::of(&mut former)) };
    former
}

/// Sets the action of a signal that [`ignore`] returned.
fn set_back(signal: c_int, former: &libc::sigaction) {
    // SAFETY: this was the action of the signal before.
    unsafe { real::sigaction(signal, In::of(former), Out::NULL) };
}

#[unsafe(no_mangle)]
pub extern "C" fn system(command: Text) -> c_int {
    if !(active() || walled()) {
        return real::system(command);
    }
    if command.is_null() {
        return 1; // there is a shell
    }
    // The caller of system must not see its child's signals (POSIX).
    let (interrupt, quit) = (ignore(libc::SIGINT), ignore(libc::SIGQUIT));
    let (mut child_signal, mut mask) = (sigset_t::zeroed(), sigset_t::zeroed());
    add_signal(&mut child_signal, libc::SIGCHLD);
    real::pthread_sigmask(libc::SIG_BLOCK, In::of(&child_signal), Out::of(&mut mask));
    let restore = || {
        set_back(libc::SIGINT, &interrupt);
        set_back(libc::SIGQUIT, &quit);
        real::pthread_sigmask(libc::SIG_SETMASK, In::of(&mask), Out::NULL);
    };
    // SAFETY: the child only restores signals and executes the shell.
    let child = unsafe { fork() };
    if child == 0 {
        restore();
        run_shell(command);
    }
    let status = await_child(child);
    let saved = errno();
    restore();
    set_errno(saved);
    status
}

fn await_child(child: pid_t) -> c_int {
    let mut status = -1;
    if child < 0 {
        return -1;
    }
    while waitpid(child, InOut::of(&mut status), 0) < 0 {
        if errno() != libc::EINTR {
            return -1;
        }
    }
    status
}

/// Streams of `popen` and their child processes.
static OPEN: Mutex<Vec<(usize, pid_t)>> = Mutex::new(Vec::new());

fn with_open<R>(body: impl FnOnce(&mut Vec<(usize, pid_t)>) -> R) -> R {
    body(&mut OPEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

#[unsafe(no_mangle)]
pub extern "C" fn popen(command: Text, mode: Text) -> *mut FILE {
    if !(active() || walled()) {
        return real::popen(command, mode);
    }
    let letters = mode.bytes().unwrap_or_default();
    let reads = letters.first() == Some(&b'r');
    if !reads && letters.first() != Some(&b'w') {
        set_errno(libc::EINVAL);
        return std::ptr::null_mut();
    }
    let mut ends = [0; 2];
    // SAFETY: the call writes two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return std::ptr::null_mut();
    }
    let (own, theirs, number) = if reads { (ends[0], ends[1], 1) } else { (ends[1], ends[0], 0) };
    // SAFETY: the child only moves a descriptor and executes the shell.
    let child = unsafe { fork() };
    if child == 0 {
        if theirs == number {
            children::set_cloexec(theirs, false);
        } else {
            crate::fd::descriptors::dup2(theirs, number);
        }
        run_shell(command);
    }
    close(theirs);
    if child > 0 && !letters.contains(&b'e') {
        children::set_cloexec(own, false);
    }
    let direction = if reads { c"r" } else { c"w" };
    // SAFETY: the descriptor is open, and nothing else uses it. The mode is a string.
    let stream = if child > 0 { unsafe { libc::fdopen(own, direction.as_ptr()) } } else { std::ptr::null_mut() };
    if stream.is_null() {
        close(own);
    } else {
        with_open(|open| open.push((stream as usize, child)));
    }
    stream
}

/// Implements `pclose`.
///
/// # Safety
/// The stream comes from `popen` and is still open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pclose(stream: *mut FILE) -> c_int {
    let child = with_open(|open| {
        let index = open.iter().position(|(other, _)| *other == stream as usize)?;
        Some(open.swap_remove(index).1)
    });
    let Some(child) = child else {
        // SAFETY: the stream is not ours, so it comes from the C library's `popen`.
        return unsafe { real::pclose(stream) };
    };
    // SAFETY: our `popen` opened the stream, and its entry was still there.
    unsafe { libc::fclose(stream) };
    match await_child(child) {
        -1 => fail(libc::ECHILD),
        status => status,
    }
}
