//! Waits for blocked signals in simulated time, by polls of the kernel.

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
unsafe fn wait_for(set: *const sigset_t, info: *mut siginfo_t, deadline: u64) -> c_int {
    let set = actions::without_ours(set);
    let known = handlers::runs();
    let patience = pace::Patience::of(reason::SIGNAL);
    loop {
        let found = real::sigtimedwait(&raw const set, info, &raw const AT_ONCE);
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
            return away(|| real::sigtimedwait(&raw const set, info, std::ptr::null()));
        }
        // The next poll sees the cause of an interruption: an awaited signal, or a handler that
        // ran.
        let _ = patience.step(deadline);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigtimedwait(set: *const sigset_t, info: *mut siginfo_t, timeout: *const timespec) -> c_int {
    if !active() || set.is_null() {
        return real::sigtimedwait(set, info, timeout);
    }
    if !timeout.is_null() && !is_valid(&*timeout) {
        return fail(libc::EINVAL);
    }
    let limit = if timeout.is_null() { u64::MAX } else { timespec_picos(&*timeout) };
    let mut own: siginfo_t = std::mem::zeroed();
    let saved = errno();
    let found = wait_for(set, &raw mut own, deadline_after(limit));
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
        children::tell_end(own.si_pid());
    }
    if !info.is_null() {
        *info = own;
    }
    set_errno(saved);
    found
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int {
    sigtimedwait(set, info, std::ptr::null())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int {
    if !active() || set.is_null() || signal.is_null() {
        return real::sigwait(set, signal);
    }
    let saved = errno();
    loop {
        let found = sigwaitinfo(set, std::ptr::null_mut());
        if found >= 0 {
            *signal = found;
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
