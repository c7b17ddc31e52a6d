//! Implements `system` and `popen` with our own fork and exec, because the originals bypass them.

use crate::clib::real;
use crate::fd::descriptors::close;
use crate::process::exec::execv;
use crate::process::fork::{_exit, fork};
use crate::process::wait::waitpid;
use crate::runtime::world::{active, errno, fail, set_errno};
use libc::{FILE, c_char, c_int, pid_t, sigset_t};
use std::sync::Mutex;

const SHELL: &std::ffi::CStr = c"/bin/sh";
/// Exit status if the shell cannot start.
const EXIT_NO_SHELL: c_int = 127;

unsafe fn run_shell(command: *const c_char) -> ! {
    let argv = [c"sh".as_ptr(), c"-c".as_ptr(), command, std::ptr::null()];
    execv(SHELL.as_ptr(), argv.as_ptr());
    _exit(EXIT_NO_SHELL)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn system(command: *const c_char) -> c_int {
    if !active() {
        return real::system(command);
    }
    if command.is_null() {
        return 1; // there is a shell
    }
    // The caller of system must not see its child's signals (POSIX).
    let mut ignore: libc::sigaction = std::mem::zeroed();
    ignore.sa_sigaction = libc::SIG_IGN;
    let mut interrupt: libc::sigaction = std::mem::zeroed();
    let mut quit: libc::sigaction = std::mem::zeroed();
    real::sigaction(libc::SIGINT, &raw const ignore, &raw mut interrupt);
    real::sigaction(libc::SIGQUIT, &raw const ignore, &raw mut quit);
    let mut child_signal: sigset_t = std::mem::zeroed();
    let mut mask: sigset_t = std::mem::zeroed();
    libc::sigaddset(&raw mut child_signal, libc::SIGCHLD);
    real::pthread_sigmask(libc::SIG_BLOCK, &raw const child_signal, &raw mut mask);
    let restore = || {
        real::sigaction(libc::SIGINT, &raw const interrupt, std::ptr::null_mut());
        real::sigaction(libc::SIGQUIT, &raw const quit, std::ptr::null_mut());
        real::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
    };
    let child = fork();
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

unsafe fn await_child(child: pid_t) -> c_int {
    let mut status = -1;
    if child < 0 {
        return -1;
    }
    while waitpid(child, &raw mut status, 0) < 0 {
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
pub unsafe extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
    if !active() {
        return real::popen(command, mode);
    }
    let letters = std::ffi::CStr::from_ptr(mode).to_bytes();
    let reads = letters.first() == Some(&b'r');
    if !reads && letters.first() != Some(&b'w') {
        set_errno(libc::EINVAL);
        return std::ptr::null_mut();
    }
    let mut ends = [0; 2];
    if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
        return std::ptr::null_mut();
    }
    let (own, theirs, number) = if reads { (ends[0], ends[1], 1) } else { (ends[1], ends[0], 0) };
    let child = fork();
    if child == 0 {
        if theirs == number {
            real::fcntl(theirs, libc::F_SETFD, 0);
        } else {
            crate::fd::descriptors::dup2(theirs, number);
        }
        run_shell(command);
    }
    close(theirs);
    if child > 0 && !letters.contains(&b'e') {
        real::fcntl(own, libc::F_SETFD, 0);
    }
    let stream = if child > 0 { libc::fdopen(own, if reads { c"r" } else { c"w" }.as_ptr()) } else { std::ptr::null_mut() };
    if stream.is_null() {
        close(own);
    } else {
        with_open(|open| open.push((stream as usize, child)));
    }
    stream
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pclose(stream: *mut FILE) -> c_int {
    let child = with_open(|open| {
        let index = open.iter().position(|(other, _)| *other == stream as usize)?;
        Some(open.swap_remove(index).1)
    });
    let Some(child) = child else { return real::pclose(stream) };
    libc::fclose(stream);
    match await_child(child) {
        -1 => fail(libc::ECHILD),
        status => status,
    }
}
