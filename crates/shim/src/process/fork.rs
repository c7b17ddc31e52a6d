//! Forks processes and ends them.

use crate::clib::real;
use crate::fd::unwritten;
use crate::own_calls;
use crate::process::children;
use crate::process::environment;
use crate::process::pid;
use crate::runtime::attach;
use crate::runtime::world::{active, errno, fail, set_errno, set_parked};
use crate::signal::kept;
use crate::spin;
use crate::sync::doorbell;
use crate::sync::threads;
use crate::time::alarm;
use crate::tsc;
use libc::{c_int, pid_t};
use softband_client::{self as client, Errno};
use softband_ipc::calls::{Exit, ForkReply, Ticket, op};

/// Announces a child to the engine and creates its lifeline.
pub fn announce_child() -> Result<Announced, Errno> {
    let reply = client::call::<op::Fork>(&())?;
    let Some((read, write)) = children::new_lifeline() else {
        cancel(reply.ticket);
        return Err(Errno(libc::EMFILE));
    };
    Ok(Announced { reply, read, write })
}

/// A child that does not exist yet.
#[derive(Debug)]
pub struct Announced {
    pub reply: ForkReply,
    read: c_int,
    pub write: c_int,
}

impl Announced {
    /// Completes the announcement in the parent: the child `real` exists. Returns the number for
    /// the program.
    pub fn born(self, real: pid_t) -> pid_t {
        children::close_native(self.write);
        let simulated = if self.reply.virtual_pid == 0 { real } else { self.reply.virtual_pid as pid_t };
        children::add(real, simulated, self.read);
        simulated
    }

    /// Cancels the announcement in the parent: no child exists.
    pub fn unborn(self) {
        children::close_native(self.write);
        children::close_native(self.read);
        cancel(self.reply.ticket);
    }
}

/// Cancels an unused ticket.
pub fn cancel(ticket: u64) {
    let saved = errno();
    let _ = client::call::<op::ForkCancel>(&Ticket { ticket });
    set_errno(saved);
}

/// Implements `fork`.
///
/// # Safety
/// Until it executes a new image, the child of a process with several threads calls only functions
/// that are safe in signal handlers (fork(2)).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fork() -> pid_t {
    if !active() {
        // SAFETY: the caller answers for the child.
        let child = unsafe { real::fork() };
        if child == 0 {
            own_calls::begin_as_child();
        }
        return child;
    }
    let announced = match announce_child() {
        Ok(announced) => announced,
        Err(Errno(errno)) => return fail(errno),
    };
    let Some(slot) = client::thread_slot_number() else { return fail(libc::EAGAIN) };
    let parent = (rustix::process::getpid().as_raw_nonzero().get(), pid::own_number());
    spin::before_native();
    // Fork handlers in the child must not use the parent's slot, so they run outside simulated
    // time.
    client::forget_thread();
    // SAFETY: the caller answers for the child. Code of this library in the child takes no lock of
    // the parent's other threads: the allocator's fork handlers hold its own.
    let child = unsafe { real::fork() };
    if child == 0 {
        become_child(&announced, parent);
        return 0;
    }
    client::bind_thread(slot);
    if child < 0 {
        let saved = errno();
        announced.unborn();
        return fail(saved);
    }
    announced.born(child)
}

fn become_child(announced: &Announced, parent: (pid_t, pid_t)) {
    children::begin_as_child(announced.write);
    children::set_parent(parent.0, parent.1);
    children::close_native(announced.read);
    doorbell::forget_all();
    kept::forget_all();
    unwritten::forget_all();
    threads::forget_all();
    alarm::forget_all();
    attach::begin_again();
    attach::allow_engine_access();
    environment::remember();
    set_parked(true);
    if let Err(error) = client::attach_child(announced.reply.ticket) {
        attach::give_up(&error.0);
    }
    tsc::trap();
    own_calls::begin_as_child();
}

/// Implements `vfork` by `fork`. The child of vfork may only exec or end, and a forked child can do
/// both.
///
/// # Safety
/// The child only executes a new image or ends (vfork(2)).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> pid_t {
    // SAFETY: executing an image and ending are safe in a forked child.
    unsafe { fork() }
}

/// Reports the end of this process to the engine and the parent, once. Any later code runs outside
/// simulated time.
pub fn tell_exit(status: c_int) {
    // In wall pace, the system reports the end to the engine.
    if client::is_wall() || !attach::ends_now() || !client::has_slot() {
        return;
    }
    children::let_go();
    client::tell_last::<op::ProcessExit>(&Exit { status, reserved: 0 });
    client::forget_thread();
}

#[unsafe(no_mangle)]
pub extern "C" fn _exit(status: c_int) -> ! {
    tell_exit(status);
    loop {
        // SAFETY: the call ends the process. No code of it runs afterwards.
        unsafe { kernel!(libc::SYS_exit_group, status) };
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    _exit(status)
}
