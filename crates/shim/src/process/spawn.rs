//! Implements `posix_spawn`, which creates a child and a new image at once.

use crate::clib::real;
use crate::process::children;
use crate::process::environment::{self, ForImage};
use crate::process::exec::as_parent;
use crate::process::fork::announce_child;
use crate::runtime::world::active;
use crate::spin;
use crate::tsc;
use libc::{c_char, c_int, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};
use softband_client::Errno;

type Arguments = *const *mut c_char;

unsafe fn spawn(pid: *mut pid_t, envp: Arguments, call: impl FnOnce(*mut pid_t, Arguments) -> c_int) -> c_int {
    if !active() {
        return call(pid, envp);
    }
    let announced = match announce_child() {
        Ok(announced) => announced,
        Err(Errno(errno)) => return errno,
    };
    let envp = if envp.is_null() { environment::current() } else { envp.cast() };
    let image = ForImage { ticket: announced.reply.ticket, lifeline: Some(announced.write), parent: as_parent() };
    let new = environment::for_image(envp, image);
    children::set_cloexec(announced.write, false);
    spin::before_native();
    let mut real_pid: pid_t = 0;
    let status = tsc::released(|| call(&raw mut real_pid, new.as_ptr().cast()));
    if status != 0 {
        announced.unborn();
        return status;
    }
    let simulated = announced.born(real_pid);
    if !pid.is_null() {
        *pid = simulated;
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    argv: Arguments,
    envp: Arguments,
) -> c_int {
    spawn(pid, envp, |pid, envp| real::posix_spawn(pid, path, actions, attributes, argv, envp))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    argv: Arguments,
    envp: Arguments,
) -> c_int {
    spawn(pid, envp, |pid, envp| real::posix_spawnp(pid, file, actions, attributes, argv, envp))
}
