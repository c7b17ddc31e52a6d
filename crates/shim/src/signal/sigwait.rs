//! Waits for blocked signals in simulated time, by polls of the kernel.

use crate::clib::args::{In, Out, Zeroed};
use crate::clib::real;
use crate::process::children;
use crate::runtime::world::{active, away, deadline_after, errno, fail, is_valid, keeping_errno, set_errno, timespec_picos};
use crate::signal::actions;
use crate::signal::handlers;
use crate::time::pace;
use libc::{c_int, siginfo_t, sigset_t, timespec};
use softband_client as client;
use softband_ipc::calls::reason;
use std::sync::atomic::Ordering;

static AT_ONCE: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

/// Implements `sigtimedwait` until `deadline`.
fn wait_for(set: sigset_t, info: Out<siginfo_t>, deadline: u64) -> c_int {
    let set = actions::without_ours(set);
    let known = handlers::runs();
    let patience = pace::Patience::of(reason::SIGNAL);
    loop {
        let found = real::sigtimedwait(In::of(&set), info, In::of(&AT_ONCE));
        if found >= 0 || errno() != libc::EAGAIN {
            return found;
        }
        if handlers::runs() != known {
            return fail(libc::EINTR);
        }
        if deadline <= client::now_ps() {
            return fail(libc::EAGAIN);
        }
        let awaits_alarm = client::header().deadline_ps.load(Ordering::Relaxed) != u64::MAX;
        if deadline == u64::MAX && patience.is_over() && !awaits_alarm {
            let found = away(|| real::sigtimedwait(In::of(&set), info, In::NULL));
            // The kernel also ends this wait when somebody stops the process and lets it go on.
            if found < 0 && errno() == libc::EINTR && handlers::runs() == known {
                continue;
            }
            return found;
        }
        // The next poll sees the cause of an interruption: an awaited signal, or a handler that
        // ran.
        let _ = patience.step(deadline);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn sigtimedwait(set: In<sigset_t>, info: Out<siginfo_t>, timeout: In<timespec>) -> c_int {
    let Some(awaited) = set.get().filter(|_| active()) else { return real::sigtimedwait(set, info, timeout) };
    let timeout = timeout.get();
    if timeout.is_some_and(|timeout| !is_valid(&timeout)) {
        return fail(libc::EINVAL);
    }
    let limit = timeout.map_or(u64::MAX, |timeout| timespec_picos(&timeout));
    let mut own = siginfo_t::zeroed();
    let saved = errno();
    let found = wait_for(awaited, Out::of(&mut own), deadline_after(limit));
    if found < 0 {
        if limit == 0 {
            keeping_errno(|| {
                pace::empty_poll();
                client::sync();
            });
        }
        return found;
    }
    if found == libc::SIGCHLD {
        // SAFETY: the kernel describes SIGCHLD by the child's number.
        children::report_end(unsafe { own.si_pid() });
    }
    info.set(own);
    set_errno(saved);
    found
}

#[unsafe(no_mangle)]
pub extern "C" fn sigwaitinfo(set: In<sigset_t>, info: Out<siginfo_t>) -> c_int {
    sigtimedwait(set, info, In::NULL)
}

#[unsafe(no_mangle)]
pub extern "C" fn sigwait(set: In<sigset_t>, signal: Out<c_int>) -> c_int {
    if !active() || set.is_null() || signal.is_null() {
        return real::sigwait(set, signal);
    }
    let saved = errno();
    loop {
        let found = sigwaitinfo(set, Out::NULL);
        if found >= 0 {
            signal.set(found);
            return 0;
        }
        // Handlers do not end this call.
        let error = errno();
        set_errno(saved);
        if error != libc::EINTR {
            return error;
        }
    }
}
