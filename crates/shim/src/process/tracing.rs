//! Tracers (`strace`, `gdb`). In simulated time a traced program stops with the execution token, and
//! its tracer waits for this token. Neither could continue, so no process of a run traces another.

use crate::clib::real;
use crate::process::outsiders;
use crate::process::pid::translated;
use crate::runtime::world::{active, fail};
use libc::{c_long, c_uint, c_void, pid_t};

/// Requests that begin a trace: of the caller by its parent, or of another process.
const BEGINNINGS: [c_uint; 3] = [libc::PTRACE_TRACEME, libc::PTRACE_ATTACH, libc::PTRACE_SEIZE];

/// Takes its arguments without variadic parameters. Numbers and pointers travel in the same
/// registers (System V ABI).
///
/// # Safety
/// The arguments are what the request takes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ptrace(request: c_uint, pid: pid_t, address: *mut c_void, data: *mut c_void) -> c_long {
    if active() && BEGINNINGS.contains(&request) {
        softband_client::warn::once("no program traces another in simulated time (strace, gdb): use --pace wall");
        return fail(libc::EOPNOTSUPP);
    }
    if matches!(request, libc::PTRACE_ATTACH | libc::PTRACE_SEIZE)
        && let Some(refused) = outsiders::refusal("a trace", translated(pid))
    {
        return refused;
    }
    // SAFETY: the arguments are the caller's for this request.
    unsafe { real::ptrace(request, pid, address, data) }
}
