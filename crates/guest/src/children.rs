//! Child processes: their two numbers, and a line by which the end of one is seen in its own turn.
//!
//! Each child holds the write end of a pipe (its lifeline) and closes it before it tells its end. A process that waits for it looks
//! at the read end: so the simulated time at which a child is seen to have ended does not depend on the host.

use crate::environment::Inherited;
use crate::real;
use libc::{c_int, pid_t, pollfd};
use rustix::fd::{IntoRawFd, OwnedFd};
use softband_client::fds::{Entry, Kind};
use softband_client::{self as client, fds};
use softband_ipc::calls::{Object, Op};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

const CHILDREN_MAX: usize = 512;
/// High numbers stay out of the way of programs.
const HIGH: i32 = 901;

struct Child {
    real: AtomicI32,
    simulated: AtomicI32,
    lifeline: AtomicI32,
    /// Whether the program has heard of its end by a signal.
    told: AtomicBool,
}

static CHILDREN: [Child; CHILDREN_MAX] =
    [const { Child { real: AtomicI32::new(0), simulated: AtomicI32::new(0), lifeline: AtomicI32::new(-1), told: AtomicBool::new(false) } };
        CHILDREN_MAX];
/// Whether the table was ever used: most processes have no children.
static USED: AtomicBool = AtomicBool::new(false);
/// This process's own lifeline.
static OWN: AtomicI32 = AtomicI32::new(-1);
static PARENT_REAL: AtomicI32 = AtomicI32::new(0);
static PARENT_SIMULATED: AtomicI32 = AtomicI32::new(0);

/// Takes over what the former image of this process, or its parent, left.
pub fn adopt(inherited: &Inherited) {
    for (fd, kind, object) in &inherited.objects {
        let kind = match kind {
            1 => Kind::StreamSocket,
            2 => Kind::DatagramSocket,
            3 => Kind::CompletionChannel,
            4 => Kind::AsyncChannel,
            5 => Kind::Timer,
            _ => continue,
        };
        if *fd >= 0 {
            fds::register(*fd, Entry { kind, object: *object });
        } else {
            let _ = client::call_void(Op::ObjectClose, &Object { object: *object, reserved: 0 });
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

/// The simulated number of the parent `real`, when it is the one that made this process.
pub fn parent_number(real: pid_t) -> pid_t {
    if PARENT_REAL.load(Ordering::Relaxed) == real && real != 0 { PARENT_SIMULATED.load(Ordering::Relaxed) } else { real }
}

/// Both ends of a new lifeline: (read, write), closed by exec.
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
        // SAFETY: the caller owns the descriptor.
        unsafe { real::close(fd) };
    }
}

/// Notes a child that has come to be.
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

/// In a forked child: what the parent had is not its.
pub fn begin_as_child(lifeline: c_int) {
    for child in known() {
        close_native(child.lifeline.swap(-1, Ordering::AcqRel));
        child.real.store(0, Ordering::Release);
    }
    USED.store(false, Ordering::Release);
    close_native(OWN.swap(lifeline, Ordering::AcqRel));
}

/// This process's own lifeline, to hand over to a new image.
pub fn own_lifeline() -> Option<c_int> {
    Some(OWN.load(Ordering::Acquire)).filter(|fd| *fd >= 0)
}

/// Lets the parent see the end.
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

/// Whether any child of those that `real` means (as `waitpid` takes it) is known here.
pub fn any(real: pid_t) -> bool {
    known().any(|child| matches(child, real))
}

impl Child {
    fn has_ended(&self) -> bool {
        let mut set = [pollfd { fd: self.lifeline.load(Ordering::Acquire), events: libc::POLLIN, revents: 0 }];
        // SAFETY: one element, as told.
        unsafe { real::poll(set.as_mut_ptr(), 1, 0) > 0 && set[0].revents & (libc::POLLHUP | libc::POLLNVAL) != 0 }
    }
}

/// Whether a child of those that `real` means has told its end, or was killed.
pub fn has_ended(real: pid_t) -> bool {
    known().filter(|child| matches(child, real)).any(Child::has_ended)
}

/// Whether there is a child whose end the program has not heard of.
pub fn any_untold() -> bool {
    known().any(|child| !child.told.load(Ordering::Relaxed))
}

/// A child that has ended, which the program has not heard of: the system's number.
pub fn untold_end() -> Option<pid_t> {
    known().find(|child| !child.told.load(Ordering::Relaxed) && child.has_ended()).map(|child| child.real.load(Ordering::Relaxed))
}

/// The program hears of the end of a child.
pub fn tell_end(real: pid_t) {
    known().filter(|child| child.real.load(Ordering::Relaxed) == real).for_each(|child| child.told.store(true, Ordering::Relaxed));
}

/// A child was killed: its end, which the kernel sees to at its leisure, belongs to this moment of simulated time.
pub fn await_killed(real: pid_t, millis: c_int) {
    for child in known().filter(|child| child.real.load(Ordering::Relaxed) == real) {
        let mut set = [pollfd { fd: child.lifeline.load(Ordering::Acquire), events: libc::POLLIN, revents: 0 }];
        // SAFETY: one element, as told.
        unsafe { real::poll(set.as_mut_ptr(), 1, millis) };
    }
}

/// Whether the system's `real` is a child of this process.
pub fn is_child(real: pid_t) -> bool {
    real > 0 && any(real)
}

/// A child was waited for.
pub fn reaped(real: pid_t) {
    for child in known() {
        if child.real.load(Ordering::Relaxed) == real {
            close_native(child.lifeline.swap(-1, Ordering::AcqRel));
            child.real.store(0, Ordering::Release);
            return;
        }
    }
}

/// The system's number for what the program calls `pid`.
pub fn to_real(pid: pid_t) -> pid_t {
    known().find(|child| child.simulated.load(Ordering::Relaxed) == pid).map_or(pid, |child| child.real.load(Ordering::Relaxed))
}

/// What the program calls the system's `pid`.
pub fn to_simulated(pid: pid_t) -> pid_t {
    known().find(|child| child.real.load(Ordering::Relaxed) == pid).map_or(pid, |child| child.simulated.load(Ordering::Relaxed))
}

/// Whether a program must not close this number.
pub fn is_lifeline(fd: c_int) -> bool {
    fd == OWN.load(Ordering::Relaxed) || known().any(|child| child.lifeline.load(Ordering::Relaxed) == fd)
}

/// Everything that a program must not close, lowest first.
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
