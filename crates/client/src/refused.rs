//! Faults at accesses that the mapping permits.
//!
//! Another thread can give the right back between a fault and its handler. Linux 6.18 also refused
//! writes to private memory whose rights nothing had changed. The access succeeds when the thread
//! tries it again, as if it came a moment later.

use libc::{c_int, siginfo_t, ucontext_t};
use rustix::mm::{Advice, madvise};
use std::cell::Cell;
use std::ffi::c_void;

/// Code of a fault for lack of a right (sigaction(2)).
const SEGV_ACCERR: c_int = 2;
/// Trap number of a page fault (Intel SDM volume 3, 6.15).
const PAGE_FAULT: i64 = 14;
/// Bits of a page fault's error code: protection key, instruction fetch (Intel SDM volume 3, 4.7).
const NOT_DATA: i64 = 1 << 5 | 1 << 4;
/// Bit of an error code: the access is a write.
const WRITE: i64 = 1 << 1;
const PAGE: usize = 4096;
/// Tries of one instruction without another between. The program gets the fault after them. A loop that
/// writes one word may need some in its life.
const TRIES_MAX: u32 = 10_000;

thread_local! {
    /// The last instruction that was tried again, and how often.
    static LAST: Cell<(usize, u32)> = const { Cell::new((0, 0)) };
}

/// Returns whether the access that faulted may succeed now, so that the thread should try it again.
pub fn may_succeed(info: &siginfo_t, machine: &ucontext_t) -> bool {
    let [trap, error] = [libc::REG_TRAPNO, libc::REG_ERR].map(|at| machine.uc_mcontext.gregs[at as usize]);
    if info.si_code != SEGV_ACCERR || trap != PAGE_FAULT || error & NOT_DATA != 0 {
        return false;
    }
    // SAFETY: the code marks a fault, so the union holds an address.
    let address = unsafe { info.si_addr() } as usize;
    if !is_permitted(address, error & WRITE != 0) {
        return false;
    }
    let instruction = machine.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    let (last, count) = LAST.get();
    let count = if last == instruction { count + 1 } else { 1 };
    LAST.set((instruction, count));
    count <= TRIES_MAX
}

/// Returns whether the mapping permits the access. Makes the page present, and changes no byte.
/// Linux before 5.14 answers EINVAL, so the program gets the fault there.
fn is_permitted(address: usize, is_write: bool) -> bool {
    let advice = if is_write { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
    // SAFETY: the advice leaves the content of the page as it is.
    unsafe { madvise((address & !(PAGE - 1)) as *mut c_void, PAGE, advice) }.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    /// Returns the description of a fault and the state of its thread.
    fn fault_at(address: usize, code: c_int, error: i64) -> (siginfo_t, ucontext_t) {
        // SAFETY: both consist of numbers and pointers, for which all zero is valid.
        let (mut info, mut machine): (siginfo_t, ucontext_t) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        info.si_code = code;
        // SAFETY: the address of a fault follows the three numbers and their padding (sigaction(2)).
        unsafe { (&raw mut info).cast::<usize>().add(2).write(address) };
        machine.uc_mcontext.gregs[libc::REG_TRAPNO as usize] = PAGE_FAULT;
        machine.uc_mcontext.gregs[libc::REG_ERR as usize] = error;
        (info, machine)
    }

    #[test]
    fn only_a_permitted_access_is_tried_again_and_not_for_ever() {
        const USER_READ: i64 = 4;
        const USER_WRITE: i64 = 6;
        // SAFETY: the mapping is this test's own.
        let page = unsafe { libc::mmap(null_mut(), PAGE, libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) } as usize;
        let again = |code, error| {
            let (info, machine) = fault_at(page + 8, code, error);
            may_succeed(&info, &machine)
        };
        assert!(!again(SEGV_ACCERR, USER_WRITE), "the page is only readable");
        // SAFETY: the page is this test's own.
        assert_eq!(unsafe { libc::mprotect(page as *mut _, PAGE, libc::PROT_READ | libc::PROT_WRITE) }, 0);
        assert!(!again(1, USER_WRITE), "a fault without a mapping");
        assert!(!again(SEGV_ACCERR, USER_WRITE | 1 << 4) && !again(SEGV_ACCERR, USER_READ | 1 << 5));
        assert!((0..TRIES_MAX).all(|_| again(SEGV_ACCERR, USER_WRITE)) && !again(SEGV_ACCERR, USER_WRITE));
        // SAFETY: the page is this test's own, and nothing uses it any more.
        unsafe { libc::munmap(page as *mut _, PAGE) };
        assert!(!again(SEGV_ACCERR, USER_READ));
    }
}
