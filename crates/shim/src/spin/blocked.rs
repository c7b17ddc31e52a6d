//! Handles threads that have the token but sit in a system call that is not interposed (for example
//! `read` of the C library below `fgets`). They wait for the call in simulated time, and enter it
//! again when it will not block.

use super::registers;
use crate::clib::args::{Out, Zeroed};
use crate::clib::real;
use crate::fd::descriptors::{is_ready_natively, poll_natively};
use crate::process::children;
use crate::process::wait::child_of;
use crate::time::pace::Patience;
use libc::{c_int, c_long, ucontext_t};
use std::cell::Cell;

const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Divisor for steps of time in an unknown call. A step is a quarter of its duration so far,
/// because each step costs the host milliseconds.
const UNKNOWN_STEPS: u64 = 4;
const UNKNOWN_STEP_MIN_PS: u64 = 1_000_000;
const UNKNOWN_STEP_MAX_PS: u64 = 10_000_000_000;

/// Returns whether the kernel will enter the call again when the handler returns. The call was
/// asleep, so the instruction pointer is back on its instruction; after a finished call it is not. A
/// thread that has not yet begun the call is there, too.
pub fn is_blocked(machine: &ucontext_t) -> bool {
    let instruction = registers::instruction(machine);
    // SAFETY: the processor has just executed from this page, and both bytes lie within it.
    instruction & 0xfff <= 0xffe && unsafe { *(instruction as *const [u8; 2]) } == SYSCALL
}

fn argument(machine: &ucontext_t, register: c_int) -> i64 {
    machine.uc_mcontext.gregs[register as usize]
}

/// Returns the command of a futex call without its flags.
fn command(machine: &ucontext_t) -> c_int {
    argument(machine, libc::REG_RSI) as c_int & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME)
}

thread_local! {
    /// Last position of an unknown call, and the time at which it was first seen, in picoseconds.
    /// The position is its stack pointer and the later [`softband_client::progress`].
    static UNKNOWN: Cell<(usize, u64, u64)> = const { Cell::new((0, 0, 0)) };
    /// The last look at an unknown call.
    static LAST_LOOK: Cell<(usize, u64, i64)> = const { Cell::new((0, 0, 0)) };
}

/// Returns the position of a call, and the thread's sleeps so far.
fn look(machine: &ucontext_t) -> (usize, u64, i64) {
    let mut usage = libc::rusage::zeroed();
    // SAFETY: the kernel writes the usage there.
    unsafe { kernel!(libc::SYS_getrusage, libc::RUSAGE_THREAD, &raw mut usage) };
    (registers::stack(machine), softband_client::progress(), usage.ru_nvcsw)
}

/// Returns whether the thread has slept in an unknown call since the last look. A signal may also
/// meet a thread that is about to make a call that never waits.
fn has_slept(machine: &ucontext_t) -> bool {
    let now = look(machine);
    let last = LAST_LOOK.replace(now);
    (last.0, last.1) == (now.0, now.1) && last.2 != now.2
}

/// Waits for a step of simulated time. An unknown call may end by itself, so the handler leaves it
/// alone after each step. The steps grow while the call continues.
pub fn wait_a_step(machine: &ucontext_t) {
    let (stack, now) = (registers::stack(machine), softband_client::now_ps());
    let (known, progress, since) = UNKNOWN.get();
    let since = if (known, progress) == (stack, softband_client::progress()) { since } else { now };
    let step = (now.saturating_sub(since) / UNKNOWN_STEPS).clamp(UNKNOWN_STEP_MIN_PS, UNKNOWN_STEP_MAX_PS);
    let _ = crate::time::pace::sleep_until(now + step);
    UNKNOWN.set((stack, softband_client::progress(), since));
}

/// The event that ends the interrupted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaits {
    Descriptor(c_int, i16),
    Child(libc::pid_t),
    Word(usize, u32),
    Unknown,
}

fn awaits(call: c_long, machine: &ucontext_t) -> Awaits {
    let first = argument(machine, libc::REG_RDI);
    match call {
        libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_accept | libc::SYS_accept4 => {
            Awaits::Descriptor(first as c_int, libc::POLLIN)
        }
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg => Awaits::Descriptor(first as c_int, libc::POLLOUT),
        libc::SYS_wait4 => Awaits::Child(first as libc::pid_t),
        libc::SYS_futex if matches!(command(machine), libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET) => {
            Awaits::Word(first as usize, argument(machine, libc::REG_RDX) as u32)
        }
        _ => Awaits::Unknown,
    }
}

impl Awaits {
    /// Returns whether the call would not block now.
    fn is_over(self) -> bool {
        match self {
            Self::Descriptor(fd, events) => is_ready_natively(fd, events),
            Self::Child(pid) => has_child_ended(pid),
            // SAFETY: the program waits on this word.
            Self::Word(address, value) => unsafe { (address as *const u32).read_volatile() != value },
            Self::Unknown => false,
        }
    }
}

fn has_child_ended(pid: libc::pid_t) -> bool {
    if children::has_ended(pid) {
        return true;
    }
    let (kind, id) = if pid > 0 { (libc::P_PID, pid as libc::id_t) } else { (libc::P_ALL, 0) };
    let mut info = libc::siginfo_t::zeroed();
    real::waitid(kind, id, Out::of(&mut info), libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) != 0 || child_of(&info) != 0
}

/// Waits until the call would not block. For an unknown call, waits for a step per signal, from the
/// second signal on.
pub fn wait(machine: &ucontext_t) {
    let what = awaits(argument(machine, libc::REG_RAX), machine);
    let patience = Patience::new();
    while !what.is_over() {
        if patience.is_over()
            && let Awaits::Descriptor(fd, events) = what
        {
            crate::runtime::world::away(|| poll_natively(&mut [libc::pollfd { fd, events, revents: 0 }], -1));
            return;
        }
        if what == Awaits::Unknown {
            if has_slept(machine) {
                wait_a_step(machine);
                // The step itself is progress, and a sleep.
                LAST_LOOK.set(look(machine));
            }
            return;
        }
        if patience.step(u64::MAX).is_err() {
            return;
        }
    }
}
