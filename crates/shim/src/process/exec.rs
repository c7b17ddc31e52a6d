//! New images. They find the engine by a ticket in their environment. They start with a readable
//! time stamp counter, because they have no handler yet.

use crate::clib::args::{Text, Texts};
use crate::clib::real;
use crate::fd::files;
use crate::process::children;
use crate::process::environment::{self, ForImage};
use crate::process::fork;
use crate::process::moving;
use crate::process::outside;
use crate::process::pid;
use crate::runtime::attach::attached;
use crate::runtime::world::{active, errno, fail, set_errno};
use crate::signal::actions;
use crate::spin;
use crate::tsc;
use libc::c_int;
use softband_client::{self as client, Errno};
use softband_ipc::calls::op;

/// Runs `exec` with the environment of a new image. Returns only if `exec` fails.
fn replace(envp: Texts, exec: impl FnOnce(Texts) -> c_int) -> c_int {
    if !active() {
        return replace_unseen(envp, exec);
    }
    let moved = moving::take();
    let ticket = match &moved {
        Some((ticket, _)) => *ticket,
        None => match client::call::<op::Exec>(&()) {
            Ok(reply) => reply.ticket,
            Err(Errno(errno)) => return fail(errno),
        },
    };
    let lifeline = children::own_lifeline();
    let parent = Some((real::getppid(), children::parent_number(real::getppid())));
    let new = environment::for_image(envp, ForImage { ticket, lifeline, parent }, moved.as_ref().map(|(_, place)| place));
    if let Some(fd) = lifeline {
        children::set_cloexec(fd, false);
    }
    spin::before_native();
    actions::hold_engine_back(libc::SIG_BLOCK);
    let status = tsc::released(|| exec(new.texts()));
    let saved = errno();
    actions::hold_engine_back(libc::SIG_UNBLOCK);
    if let Some(fd) = lifeline {
        children::set_cloexec(fd, true);
    }
    fork::cancel(ticket);
    set_errno(saved);
    status
}

/// Runs `exec` where the engine does not order it: in wall pace, and in threads that the engine does
/// not know. The new image attaches as a child of this process, on the same host.
fn replace_unseen(envp: Texts, exec: impl FnOnce(Texts) -> c_int) -> c_int {
    if !attached() || moving::leaves() {
        return exec(envp);
    }
    match moving::take() {
        Some((ticket, place)) => exec(environment::for_image(envp, ForImage { ticket, ..ForImage::unexpected() }, Some(&place)).texts()),
        None => exec(environment::for_image(envp, ForImage::unexpected(), None).texts()),
    }
}

/// Implements the variadic functions. `search` selects a search along PATH.
#[unsafe(no_mangle)]
pub extern "C" fn softband_shim_exec(path: Text, argv: Texts, envp: Texts, search: c_int) -> c_int {
    outside::warn_of(path, search != 0);
    let led = files::led(path);
    replace(envp, |envp| if search != 0 { real::execvpe(led.path(), argv, envp) } else { real::execve(led.path(), argv, envp) })
}

#[unsafe(no_mangle)]
pub extern "C" fn execve(path: Text, argv: Texts, envp: Texts) -> c_int {
    softband_shim_exec(path, argv, envp, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn execv(path: Text, argv: Texts) -> c_int {
    softband_shim_exec(path, argv, environment::current(), 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn execvp(file: Text, argv: Texts) -> c_int {
    softband_shim_exec(file, argv, environment::current(), 1)
}

#[unsafe(no_mangle)]
pub extern "C" fn execvpe(file: Text, argv: Texts, envp: Texts) -> c_int {
    softband_shim_exec(file, argv, envp, 1)
}

#[unsafe(no_mangle)]
pub extern "C" fn fexecve(fd: c_int, argv: Texts, envp: Texts) -> c_int {
    replace(envp, |envp| real::fexecve(fd, argv, envp))
}

#[unsafe(no_mangle)]
pub extern "C" fn execveat(directory: c_int, path: Text, argv: Texts, envp: Texts, flags: c_int) -> c_int {
    if directory == libc::AT_FDCWD {
        outside::warn_of(path, false);
    }
    replace(envp, |envp| {
        // SAFETY: the kernel reads a string and two lists of strings, and refuses null.
        unsafe { kernel!(libc::SYS_execveat, directory, path.as_ptr(), argv.as_ptr(), envp.as_ptr(), flags) as c_int }
    })
}

/// Returns the real and simulated numbers of this process, for the processes that it starts.
pub fn as_parent() -> (libc::pid_t, libc::pid_t) {
    (rustix::process::getpid().as_raw_nonzero().get(), pid::own_number())
}
