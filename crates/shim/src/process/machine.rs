//! The machine that a program sees: one processor, and simulated times instead of the system's.

use crate::clib::args::{Out, Zeroed};
use crate::clib::real;
use crate::runtime::world::{active, fail, to_timeval};
use crate::time::clock::read_clock;
use libc::{c_int, c_long, rusage};

const PROCESSORS: c_long = 1;

#[unsafe(no_mangle)]
pub extern "C" fn sysconf(name: c_int) -> c_long {
    match name {
        libc::_SC_NPROCESSORS_ONLN | libc::_SC_NPROCESSORS_CONF if active() => PROCESSORS,
        _ => real::sysconf(name),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn get_nprocs() -> c_int {
    sysconf(libc::_SC_NPROCESSORS_ONLN) as c_int
}

#[unsafe(no_mangle)]
pub extern "C" fn get_nprocs_conf() -> c_int {
    sysconf(libc::_SC_NPROCESSORS_CONF) as c_int
}

/// Implements `getrusage`. A program computes during all simulated time; the usage of its children
/// is unknown.
#[unsafe(no_mangle)]
pub extern "C" fn getrusage(who: c_int, out: Out<rusage>) -> c_int {
    if !active() {
        return real::getrusage(who, out);
    }
    if out.is_null() {
        return fail(libc::EFAULT);
    }
    if !(libc::RUSAGE_CHILDREN..=libc::RUSAGE_THREAD).contains(&who) {
        return fail(libc::EINVAL);
    }
    let mut usage = rusage::zeroed();
    if who != libc::RUSAGE_CHILDREN {
        usage.ru_utime = to_timeval(read_clock());
    }
    out.set(usage);
    0
}
