//! Attaches the process to the fabric at its start and detaches it at its end.

use crate::process::children;

use crate::process::environment;

use crate::own_calls;

use crate::fd::files;
use crate::fd::own_values;

use crate::fd::random;
use crate::fd::stdio;

use crate::process::fork;

use crate::shared;
use crate::signal::actions;

use crate::spin;

use crate::sync::threads;

use crate::tsc;
use libc::{c_int, c_void};
use softband_client::{self as client, warn};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Exit status of a program that cannot reach the engine named in its environment.
const EXIT_CANNOT_ATTACH: c_int = 112;

const FRESH: u8 = 0;
const STARTING: u8 = 1;
const DETACHED: u8 = 2;
const ATTACHED: u8 = 3;

static STATE: AtomicU8 = AtomicU8::new(FRESH);
static ENDED: AtomicBool = AtomicBool::new(false);

/// Marker of the first copy of this library. A second copy in the process finds it by this name and
/// stays inactive.
#[unsafe(no_mangle)]
pub static softband_shim_marker: AtomicU8 = AtomicU8::new(0);

/// Returns whether this process takes part in a fabric. The first call attaches, because
/// constructors of other libraries may ask for the time before ours runs.
#[inline]
pub fn attached() -> bool {
    match STATE.load(Ordering::Relaxed) {
        ATTACHED => true,
        FRESH => start(),
        _ => false,
    }
}

#[used]
#[unsafe(link_section = ".init_array.00101")]
static CONSTRUCTOR: extern "C" fn() = construct;

extern "C" fn construct() {
    attached();
}

#[cold]
fn start() -> bool {
    if STATE.compare_exchange(FRESH, STARTING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return false;
    }
    let state = if is_first_copy() && attach() { ATTACHED } else { DETACHED };
    STATE.store(state, Ordering::Release);
    if state == ATTACHED {
        after_attach();
    }
    state == ATTACHED
}

fn first_marker() -> *mut c_void {
    // SAFETY: the name ends with a NUL.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"softband_shim_marker".as_ptr()) }
}

/// Returns whether the process began with this library. Thread-local memory then never needs the
/// allocator, which calls the C library's functions of mappings.
fn is_in_first_list() -> bool {
    std::ptr::eq(first_marker().cast(), &raw const softband_shim_marker)
}

fn is_first_copy() -> bool {
    let first = first_marker();
    first.is_null() || std::ptr::eq(first.cast(), &raw const softband_shim_marker)
}

fn attach() -> bool {
    if std::env::var_os(softband_ipc::environment::ENGINE).is_none() {
        return false;
    }
    environment::remember();
    files::remember();
    // The engine may send its signal as soon as the thread has the token.
    actions::hold_engine_back(libc::SIG_BLOCK);
    match client::attach_from_environment() {
        Ok(true) => true,
        Ok(false) => {
            actions::hold_engine_back(libc::SIG_UNBLOCK);
            false
        }
        Err(error) => give_up(&error.0),
    }
}

/// Ends the process, because it must not run outside the simulated time that it was started for.
pub fn give_up(reason: &str) -> ! {
    warn::always(&format!("cannot take part in the fabric: {reason}"));
    // SAFETY: the call ends the process, so it leaves nothing in a bad state.
    unsafe { kernel!(libc::SYS_exit_group, EXIT_CANNOT_ATTACH) };
    std::process::abort()
}

/// Installs everything that needs an attached process. The thread already has the token.
fn after_attach() {
    if client::is_wall() {
        actions::install_for_questions();
        // The host provides clocks, threads and signals; of sockets, only the addresses are ours.
        client::follow_forks();
        crate::time::clock::find();
        own_values::adopt();
        allow_engine_access();
        return own_calls::look_at_objects();
    }
    spin::install();
    actions::install();
    client::set_signal_raiser(actions::raise_all);
    client::set_token_hooks(spin::before_give, after_token);
    crate::time::computation::begin();
    allow_engine_access();
    children::adopt(&environment::inherited());
    threads::install();
    stdio::install();
    own_values::adopt();
    if !tsc::trap() {
        warn::once("the time stamp counter cannot be trapped here: programs that read it see the host's");
    }
    tsc::allow_rewriting();
    tsc::replace_vdso();
    if is_in_first_list() {
        shared::entries::lead_here();
    }
    own_calls::look_at_objects();
    random::replace_bytes_of_image();
    // Registered before all handlers of the program: runs after its handlers and after the
    // destructors of all libraries.
    unsafe extern "C" {
        fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    }
    // SAFETY: the handler has the type that on_exit requires.
    unsafe { on_exit(at_exit, std::ptr::null_mut()) };
}

/// Runs after the thread got the token again (hook of the client).
fn after_token() {
    spin::after_wait();
    tsc::rewrite_due();
    own_calls::token_came();
}

/// Permits the engine to read and write registered memory, in case the kernel allows that only to
/// debuggers.
pub fn allow_engine_access() {
    // SAFETY: touches no memory. A kernel without that restriction returns EINVAL.
    unsafe { kernel!(libc::SYS_prctl, libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
}

extern "C" fn at_exit(status: c_int, _argument: *mut c_void) {
    // Output that another program of the run may read must be written during this program's turn.
    // SAFETY: null means all open streams (fflush(3)).
    unsafe { libc::fflush(std::ptr::null_mut()) };
    fork::tell_exit(status);
}

/// Returns true for the first caller only: that caller reports the end.
pub fn ends_now() -> bool {
    attached() && !ENDED.swap(true, Ordering::AcqRel)
}

/// Allows a forked child to report its own end.
pub fn begin_again() {
    ENDED.store(false, Ordering::Release);
}
