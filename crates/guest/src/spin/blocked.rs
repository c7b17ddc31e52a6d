//! Threads that sit in a system call that is not interposed (the C library's own `read` below `fgets`, say) while they have
//! their turn: they wait for it in simulated time, and go back into the call when it will not block.

use super::registers;
use crate::descriptors::is_ready_natively;
use crate::pace::Patience;
use crate::{children, real};
use libc::{c_int, c_long, ucontext_t};
use std::cell::Cell;

const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Steps of time in an unknown call: a quarter of what it has taken, since each costs the host milliseconds.
const UNKNOWN_STEPS: u64 = 4;
const UNKNOWN_STEP_MIN_PS: u64 = 1_000_000;
const UNKNOWN_STEP_MAX_PS: u64 = 10_000_000_000;

/// Whether the kernel will enter the call again when the handler returns: it was asleep in it, and the instruction pointer is
/// back on the instruction (which it is not after a call that has ended).
pub fn is_blocked(machine: &ucontext_t) -> bool {
    let instruction = registers::instruction(machine);
    // Within a page: the processor has just executed from it.
    // SAFETY: the processor has just executed from this page, and both bytes lie within it.
    instruction & 0xfff <= 0xffe && unsafe { *(instruction as *const [u8; 2]) } == SYSCALL
}

fn argument(machine: &ucontext_t, register: c_int) -> i64 {
    machine.uc_mcontext.gregs[register as usize]
}

/// Of a futex: without its flags.
fn command(machine: &ucontext_t) -> c_int {
    argument(machine, libc::REG_RSI) as c_int & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME)
}

thread_local! {
    /// Where an unknown call was found last (its stack and [`softband_client::progress`] after that), and the time at which it was found first.
    static UNKNOWN: Cell<(usize, u64, u64)> = const { Cell::new((0, 0, 0)) };
}

/// An unknown call may end by itself, so it is left alone after each step of time; the steps grow while it goes on.
fn wait_a_step(machine: &ucontext_t) {
    let (stack, now) = (registers::stack(machine), softband_client::now_ps());
    let (known, progress, since) = UNKNOWN.get();
    let since = if (known, progress) == (stack, softband_client::progress()) { since } else { now };
    let step = (now.saturating_sub(since) / UNKNOWN_STEPS).clamp(UNKNOWN_STEP_MIN_PS, UNKNOWN_STEP_MAX_PS);
    let _ = crate::pace::sleep_until(now + step);
    UNKNOWN.set((stack, softband_client::progress(), since));
}

/// What the interrupted call waits for.
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
    /// Whether the call would not block now.
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
    // SAFETY: the structure is ours.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        real::waitid(kind, id, &raw mut info, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) != 0 || info.si_pid() != 0
    }
}

/// Waits until the call would not block, or as long as an unknown call is given for each signal.
pub fn wait(machine: &ucontext_t) {
    let what = awaits(argument(machine, libc::REG_RAX), machine);
    let patience = Patience::new();
    while !what.is_over() {
        if patience.is_over()
            && let Awaits::Descriptor(fd, events) = what
        {
            let mut set = libc::pollfd { fd, events, revents: 0 };
            // SAFETY: one element.
            crate::world::away(|| unsafe { real::poll(&raw mut set, 1, -1) });
            return;
        }
        if what == Awaits::Unknown {
            return wait_a_step(machine);
        }
        if patience.step(u64::MAX).is_err() {
            return;
        }
    }
}
