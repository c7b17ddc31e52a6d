//! Child processes: their real and simulated process numbers, and their lifelines.
//!
//! A lifeline is a pipe. Each child holds the write end and closes it in its own turn, before it
//! reports its end. A waiting process polls the read end. The simulated time at which it sees the
//! end therefore does not depend on the host.

use crate::clib::real;
use crate::fd::descriptors::{await_natively, poll_natively};
use crate::process::environment::Inherited;
use libc::{c_int, pid_t, pollfd};
use rustix::fd::{IntoRawFd, OwnedFd};
use softband_client::fds::{Entry, Kind};
use softband_client::{self as client, fds};
use softband_ipc::calls::{Object, op};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

const CHILDREN_MAX: usize = 512;
/// Lowest descriptor of a lifeline. High numbers stay out of the way of programs.
const HIGH: i32 = 901;

struct Child {
    real: AtomicI32,
    simulated: AtomicI32,
    lifeline: AtomicI32,
    /// Whether a signal has reported its end to the program.
    told: AtomicBool,
}

static CHILDREN: [Child; CHILDREN_MAX] =
    [const { Child { real: AtomicI32::new(0), simulated: AtomicI32::new(0), lifeline: AtomicI32::new(-1), told: AtomicBool::new(false) } };
        CHILDREN_MAX];
/// Whether the table was ever used; most processes have no children.
static USED: AtomicBool = AtomicBool::new(false);
/// This process's own lifeline.
static OWN: AtomicI32 = AtomicI32::new(-1);
static PARENT_REAL: AtomicI32 = AtomicI32::new(0);
static PARENT_SIMULATED: AtomicI32 = AtomicI32::new(0);

/// Takes over the state left by the former image of this process, or by its parent.
pub fn adopt(inherited: &Inherited) {
    for (fd, kind, object) in &inherited.objects {
        let Some(kind) = Kind::from_number((*kind).into()) else { continue };
        if *fd >= 0 {
            fds::register(*fd, Entry { kind, object: *object });
        } else {
            let _ = client::call::<op::ObjectClose>(&Object { object: *object, reserved: 0 });
        }
    }
    if let Some(fd) = inherited.lifeline {
        set_cloexec(fd, true);
        OWN.store(fd, Ordering::Release);
    }
    if let Some((real, simulated)) = inherited.parent {
        set_parent(real, simulated);
    }
}

pub fn set_parent(real: pid_t, simulated: pid_t) {
    PARENT_REAL.store(real, Ordering::Relaxed);
    PARENT_SIMULATED.store(simulated, Ordering::Relaxed);
}

/// Returns the simulated number of the parent `real`, if that process created this process.
/// Otherwise returns `real`.
pub fn parent_number(real: pid_t) -> pid_t {
    if PARENT_REAL.load(Ordering::Relaxed) == real && real != 0 { PARENT_SIMULATED.load(Ordering::Relaxed) } else { real }
}

/// Returns both ends of a new lifeline as (read, write). An exec closes them.
pub fn new_lifeline() -> Option<(c_int, c_int)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok()?;
    Some((high(read), high(write)))
}

fn high(fd: OwnedFd) -> c_int {
    rustix::io::fcntl_dupfd_cloexec(&fd, HIGH).map_or_else(|_| fd.try_clone().map_or(-1, IntoRawFd::into_raw_fd), IntoRawFd::into_raw_fd)
}

pub fn set_cloexec(fd: c_int, on: bool) {
    // SAFETY: F_SETFD takes a number.
    unsafe { real::fcntl(fd, libc::F_SETFD, if on { libc::FD_CLOEXEC as usize } else { 0 }) };
}

pub fn close_native(fd: c_int) {
    if fd >= 0 {
        real::close(fd);
    }
}

/// Records a new child.
pub fn add(real: pid_t, simulated: pid_t, lifeline: c_int) {
    USED.store(true, Ordering::Release);
    for child in &CHILDREN {
        if child.real.compare_exchange(0, real, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            child.simulated.store(simulated, Ordering::Relaxed);
            child.told.store(false, Ordering::Relaxed);
            child.lifeline.store(lifeline, Ordering::Release);
            return;
        }
    }
    close_native(lifeline);
}

/// Drops the parent's state in a forked child.
pub fn begin_as_child(lifeline: c_int) {
    for child in known() {
        close_native(child.lifeline.swap(-1, Ordering::AcqRel));
        child.real.store(0, Ordering::Release);
    }
    USED.store(false, Ordering::Release);
    close_native(OWN.swap(lifeline, Ordering::AcqRel));
}

/// Returns this process's own lifeline, to hand over to a new image.
pub fn own_lifeline() -> Option<c_int> {
    Some(OWN.load(Ordering::Acquire)).filter(|fd| *fd >= 0)
}

/// Closes the lifeline, so that the parent sees the end.
pub fn let_go() {
    close_native(OWN.swap(-1, Ordering::AcqRel));
}

fn known() -> impl Iterator<Item = &'static Child> {
    let table: &[Child] = if USED.load(Ordering::Acquire) { &CHILDREN } else { &[] };
    table.iter().filter(|child| child.real.load(Ordering::Acquire) != 0)
}

fn matches(child: &Child, real: pid_t) -> bool {
    real <= 0 || child.real.load(Ordering::Relaxed) == real
}

/// Returns whether the table has a child that `real` selects, as for `waitpid`.
pub fn any(real: pid_t) -> bool {
    known().any(|child| matches(child, real))
}

impl Child {
    fn has_ended(&self) -> bool {
        let mut set = [pollfd { fd: self.lifeline.load(Ordering::Acquire), events: libc::POLLIN, revents: 0 }];
        poll_natively(&mut set, 0) > 0 && set[0].revents & (libc::POLLHUP | libc::POLLNVAL) != 0
    }
}

/// Returns whether a child that `real` selects has reported its end or was killed.
pub fn has_ended(real: pid_t) -> bool {
    known().filter(|child| matches(child, real)).any(Child::has_ended)
}

/// Returns whether some child's end has not been reported to the program.
pub fn any_unreported() -> bool {
    known().any(|child| !child.told.load(Ordering::Relaxed))
}

/// Returns the real number of a child whose end has not been reported to the program.
pub fn unreported_end() -> Option<pid_t> {
    known().find(|child| !child.told.load(Ordering::Relaxed) && child.has_ended()).map(|child| child.real.load(Ordering::Relaxed))
}

/// Marks the end of a child as reported to the program.
pub fn report_end(real: pid_t) {
    known().filter(|child| child.real.load(Ordering::Relaxed) == real).for_each(|child| child.told.store(true, Ordering::Relaxed));
}

/// Waits until the kernel has ended a killed child, at most `millis`. Its end belongs to this
/// moment of simulated time.
pub fn await_killed(real: pid_t, millis: c_int) {
    for child in known().filter(|child| child.real.load(Ordering::Relaxed) == real) {
        let mut set = [pollfd { fd: child.lifeline.load(Ordering::Acquire), events: libc::POLLIN, revents: 0 }];
        await_natively(&mut set, millis);
    }
}

/// Returns whether `real` is a child of this process.
pub fn is_child(real: pid_t) -> bool {
    real > 0 && any(real)
}

/// Removes a child after a successful wait.
pub fn reaped(real: pid_t) {
    for child in known() {
        if child.real.load(Ordering::Relaxed) == real {
            close_native(child.lifeline.swap(-1, Ordering::AcqRel));
            child.real.store(0, Ordering::Release);
            return;
        }
    }
}

/// Returns the real number for the program's number `pid`.
pub fn to_real(pid: pid_t) -> pid_t {
    known().find(|child| child.simulated.load(Ordering::Relaxed) == pid).map_or(pid, |child| child.real.load(Ordering::Relaxed))
}

/// Returns the program's number for the real number `pid`.
pub fn to_simulated(pid: pid_t) -> pid_t {
    known().find(|child| child.real.load(Ordering::Relaxed) == pid).map_or(pid, |child| child.simulated.load(Ordering::Relaxed))
}

/// Returns whether the descriptor is a lifeline, which a program must not close.
pub fn is_lifeline(fd: c_int) -> bool {
    fd == OWN.load(Ordering::Relaxed) || known().any(|child| child.lifeline.load(Ordering::Relaxed) == fd)
}

/// Returns all descriptors that a program must not close, lowest first.
pub fn reserved_descriptors() -> Vec<c_int> {
    let mut all: Vec<c_int> = known().map(|child| child.lifeline.load(Ordering::Relaxed)).collect();
    all.extend([OWN.load(Ordering::Relaxed), client::control_fd()].into_iter().chain(client::shared_memory::kept_fds()));
    all.retain(|fd| *fd >= 0);
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_seen_to_end_when_its_lifeline_closes() {
        let (read, write) = new_lifeline().unwrap();
        add(4711, 17, read);
        assert_eq!((to_real(17), to_simulated(4711)), (4711, 17));
        assert!(any(4711) && any(-1) && !has_ended(-1));
        close_native(write);
        assert!(has_ended(4711) && has_ended(-1) && !has_ended(4712));
        assert!(is_lifeline(read));
        reaped(4711);
        assert!(!any(-1) && to_real(17) == 17);
    }
}
