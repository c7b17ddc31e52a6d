//! Implements `posix_spawn`, which creates a child and a new image at once.

use crate::clib::args::{Managed, Out, Text, Texts};
use crate::clib::real;
use crate::fd::files;
use crate::process::children;
use crate::process::environment::{self, ForImage};
use crate::process::exec::as_parent;
use crate::process::fork::announce_child;
use crate::process::moving;
use crate::process::outside;
use crate::runtime::attach::attached;
use crate::runtime::world::active;
use crate::spin;
use crate::tsc;
use libc::{c_int, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};
use softband_client::Errno;

fn spawn(pid: Out<pid_t>, envp: Texts, call: impl FnOnce(Out<pid_t>, Texts) -> c_int) -> c_int {
    if !active() {
        return spawn_unseen(pid, envp, call);
    }
    let announced = match announce_child() {
        Ok(announced) => announced,
        Err(Errno(errno)) => return errno,
    };
    let envp = if envp.is_null() { environment::current() } else { envp };
    let image = ForImage { ticket: announced.reply.ticket, lifeline: Some(announced.write), parent: Some(as_parent()) };
    let new = environment::for_image(envp, image, None);
    children::set_cloexec(announced.write, false);
    spin::before_native();
    let mut real_pid: pid_t = 0;
    let status = tsc::released(|| call(Out::of(&mut real_pid), new.texts()));
    if status != 0 {
        announced.unborn();
        return status;
    }
    pid.set(announced.born(real_pid));
    0
}

/// Creates a child where the engine does not order it. The child attaches by itself, on the same
/// host.
fn spawn_unseen(pid: Out<pid_t>, envp: Texts, call: impl FnOnce(Out<pid_t>, Texts) -> c_int) -> c_int {
    if !attached() || moving::leaves() {
        return call(pid, envp);
    }
    let envp = if envp.is_null() { environment::current() } else { envp };
    call(pid, environment::for_image(envp, ForImage::unexpected(), None).texts())
}

#[unsafe(no_mangle)]
pub extern "C" fn posix_spawn(
    pid: Out<pid_t>,
    path: Text,
    actions: Managed<posix_spawn_file_actions_t>,
    attributes: Managed<posix_spawnattr_t>,
    argv: Texts,
    envp: Texts,
) -> c_int {
    outside::warn_of(path, false);
    let led = files::led(path);
    spawn(pid, envp, |pid, envp| real::posix_spawn(pid, led.path(), actions, attributes, argv, envp))
}

#[unsafe(no_mangle)]
pub extern "C" fn posix_spawnp(
    pid: Out<pid_t>,
    file: Text,
    actions: Managed<posix_spawn_file_actions_t>,
    attributes: Managed<posix_spawnattr_t>,
    argv: Texts,
    envp: Texts,
) -> c_int {
    outside::warn_of(file, true);
    spawn(pid, envp, |pid, envp| real::posix_spawnp(pid, file, actions, attributes, argv, envp))
}
