//! Waits for children in simulated time.

use crate::clib::args::{InOut, Out, Zeroed};
use crate::clib::real;
use crate::process::children;
use crate::process::pid::{process_of, system_number};
use crate::runtime::world::{active, fail, keeping_errno};
use crate::time::pace::{Patience, empty_poll};
use libc::{c_int, id_t, idtype_t, pid_t, rusage, siginfo_t};
use softband_client::{self as client, Errno};
use softband_ipc::calls::reason;

/// Result of a poll for an ended child.
enum Poll<T> {
    Done(T),
    /// No child has ended, and the caller did not want to wait.
    Nothing(T),
}

/// Polls for an ended child that `which` selects (as for `waitpid`). `poll(true)` does not wait.
fn wait_for<T>(which: pid_t, no_wait: bool, mut poll: impl FnMut(bool) -> T, found: impl Fn(&T) -> bool) -> Result<Poll<T>, Errno> {
    let patience = Patience::of(reason::CHILD);
    loop {
        // A child that reported its end is about to end natively. The thread waits for that in real
        // time, within this turn.
        let result = poll(!children::has_ended(which));
        if found(&result) {
            return Ok(Poll::Done(result));
        }
        if no_wait {
            empty_poll();
            client::sync();
            return Ok(Poll::Nothing(result));
        }
        if !children::any(which) {
            return Ok(Poll::Done(crate::runtime::world::away(|| poll(false))));
        }
        if let Err(error) = patience.step(u64::MAX)
            && !crate::signal::actions::restarts()
        {
            return Err(error);
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn wait4(pid: pid_t, status: InOut<c_int>, options: c_int, usage: Out<rusage>) -> pid_t {
    if !active() {
        return real::wait4(pid, status, options, usage);
    }
    let which = match pid {
        1.. => system_number(pid),
        ..-1 => -system_number(-pid),
        _ => pid,
    };
    let poll = |no_wait: bool| real::wait4(which, status, options | if no_wait { libc::WNOHANG } else { 0 }, usage);
    match wait_for(which, options & libc::WNOHANG != 0, poll, |found| *found != 0) {
        Ok(Poll::Done(found) | Poll::Nothing(found)) if found <= 0 => found,
        Ok(Poll::Done(found) | Poll::Nothing(found)) => {
            let simulated = children::to_simulated(found);
            let ended = status.get().is_none_or(|status| libc::WIFEXITED(status) || libc::WIFSIGNALED(status));
            if ended {
                keeping_errno(|| children::reaped(found));
            }
            usage.set(rusage::zeroed());
            simulated
        }
        Err(Errno(errno)) => fail(errno),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn waitpid(pid: pid_t, status: InOut<c_int>, options: c_int) -> pid_t {
    let mut own = 0;
    let status = if status.is_null() { InOut::of(&mut own) } else { status };
    wait4(pid, status, options, Out::NULL)
}

#[unsafe(no_mangle)]
pub extern "C" fn wait(status: InOut<c_int>) -> pid_t {
    waitpid(-1, status, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn wait3(status: InOut<c_int>, options: c_int, usage: Out<rusage>) -> pid_t {
    wait4(-1, status, options, usage)
}

/// Returns the child that `waitid` found; 0 for none.
pub fn child_of(found: &siginfo_t) -> pid_t {
    // SAFETY: the structure began as zeros, and the kernel fills it for a child.
    unsafe { found.si_pid() }
}

#[unsafe(no_mangle)]
pub extern "C" fn waitid(kind: idtype_t, id: id_t, info: Out<siginfo_t>, options: c_int) -> c_int {
    if !active() {
        return real::waitid(kind, id, info, options);
    }
    let which = match kind {
        libc::P_PID => system_number(id as pid_t),
        libc::P_PIDFD => process_of(id as c_int),
        _ => -1,
    };
    let id = if kind == libc::P_PID { which as id_t } else { id };
    let poll = |no_wait: bool| {
        let mut own = siginfo_t::zeroed();
        let status = real::waitid(kind, id, Out::of(&mut own), options | if no_wait { libc::WNOHANG } else { 0 });
        (status, own)
    };
    match wait_for(which, options & libc::WNOHANG != 0, poll, |(status, own)| *status != 0 || child_of(own) != 0) {
        Ok(Poll::Done((status, mut found)) | Poll::Nothing((status, mut found))) => {
            let real_pid = child_of(&found);
            if status == 0 && real_pid != 0 {
                let simulated = children::to_simulated(real_pid);
                let ended = matches!(found.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED);
                if ended && options & libc::WNOWAIT == 0 {
                    keeping_errno(|| children::reaped(real_pid));
                }
                // SAFETY: the process number follows signal, errno, code and padding, within the
                // structure.
                unsafe { (&raw mut found).cast::<c_int>().add(4).write(simulated) };
            }
            info.set(found);
            status
        }
        Err(Errno(errno)) => fail(errno),
    }
}
