//! Threads that sit in a system call that is not interposed (the C library's own `read` below `fgets`, say) while they have
//! their turn: they wait for it in simulated time, and go back into the call when it will not block.

use super::registers;
use crate::descriptors::is_ready_natively;
use crate::pace::Patience;
use crate::{children, real};
use libc::{c_int, c_long, ucontext_t};

const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Whether the kernel will enter the call again when the handler returns: it was asleep in it, and the instruction pointer is
/// back on the instruction (which it is not after a call that has ended).
pub fn is_blocked(machine: &ucontext_t) -> bool {
    let instruction = registers::instruction(machine);
    // Within a page: the processor has just executed from it.
    // SAFETY: as said.
    instruction & 0xfff <= 0xffe && unsafe { *(instruction as *const [u8; 2]) } == SYSCALL
}

fn argument(machine: &ucontext_t, register: c_int) -> i64 {
    machine.uc_mcontext.gregs[register as usize]
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
        libc::SYS_futex if argument(machine, libc::REG_RSI) & 0x7f == 0 => Awaits::Word(first as usize, argument(machine, libc::REG_RDX) as u32),
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

/// Waits until the call would not block. An unknown call is given one step of time for each signal.
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
            // It may end by itself.
            let _ = crate::pace::sleep_until(patience.next_look(softband_client::now_ps()));
            return;
        }
        if patience.step(u64::MAX).is_err() {
            return;
        }
    }
}
