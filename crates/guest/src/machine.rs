//! What the machine looks like to a program: one processor, and times of the simulation where the system would tell its own.

use crate::clock::read_clock;
use crate::real;
use crate::world::{active, fail, to_timeval};
use libc::{c_int, c_long, rusage};

const PROCESSORS: c_long = 1;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sysconf(name: c_int) -> c_long {
    match name {
        libc::_SC_NPROCESSORS_ONLN | libc::_SC_NPROCESSORS_CONF if active() => PROCESSORS,
        _ => real::sysconf(name),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn get_nprocs() -> c_int {
    sysconf(libc::_SC_NPROCESSORS_ONLN) as c_int
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn get_nprocs_conf() -> c_int {
    sysconf(libc::_SC_NPROCESSORS_CONF) as c_int
}

/// A program computes all the time that passes; what its children have used is not known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrusage(who: c_int, out: *mut rusage) -> c_int {
    if !active() {
        return real::getrusage(who, out);
    }
    if out.is_null() {
        return fail(libc::EFAULT);
    }
    if !(libc::RUSAGE_CHILDREN..=libc::RUSAGE_THREAD).contains(&who) {
        return fail(libc::EINVAL);
    }
    out.write(no_usage());
    if who != libc::RUSAGE_CHILDREN {
        (*out).ru_utime = to_timeval(read_clock());
    }
    0
}

/// The usage where none is known: all zero.
pub fn no_usage() -> rusage {
    // SAFETY: all zero is a valid value.
    unsafe { std::mem::zeroed() }
}
