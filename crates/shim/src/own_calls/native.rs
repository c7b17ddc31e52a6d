//! Stopped calls that the thread makes by itself, at once. Dispatch stays on.
//!
//! The thread goes on at a copy of the instruction in this library, whose calls the kernel lets
//! through. A jump behind the copy leads back. Each place of the program has a copy of its own, so the
//! jump needs no register and no stack: a child on another stack finds its way back, too.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of copies. A place without a copy goes on without dispatch.
const COPIES: usize = 1024;
/// Bytes of one copy: `syscall`, `jmp [rip+distance]`.
const COPY_BYTES: usize = 8;

std::arch::global_asm!(
    ".pushsection .text",
    ".balign 16",
    ".hidden softband_native_calls",
    ".globl softband_native_calls",
    "softband_native_calls:",
    ".set softband_copy, 0",
    ".rept {copies}",
    "syscall",
    "jmp qword ptr [rip + {back} + softband_copy * 8]",
    ".set softband_copy, softband_copy + 1",
    ".endr",
    ".popsection",
    copies = const COPIES,
    back = sym BACK,
);

unsafe extern "C" {
    fn softband_native_calls();
}

/// For each copy the address behind its instruction of the program. A copy is assigned for good.
static BACK: [AtomicUsize; COPIES] = [const { AtomicUsize::new(0) }; COPIES];

/// Returns the copy for the instruction before `behind`. Returns `None` if there are too many places.
pub(super) fn copy_for(behind: usize) -> Option<usize> {
    // Places lie apart, so their copies rarely meet.
    let first = behind.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    let index = (0..COPIES).map(|step| (first + step) % COPIES).find(|index| {
        let known = BACK[*index].compare_exchange(0, behind, Ordering::AcqRel, Ordering::Acquire);
        known.is_ok() || known == Err(behind)
    })?;
    Some(softband_native_calls as *const () as usize + index * COPY_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_one_copy_until_there_are_too_many() {
        let copies: std::collections::BTreeSet<_> = (1..=COPIES).map(|place| copy_for(place * 64).unwrap()).collect();
        assert_eq!(copies.len(), COPIES);
        assert_eq!(copy_for(64), copy_for(64));
        assert_eq!(copy_for(7), None);
    }

    #[test]
    fn a_copy_calls_and_jumps_back() {
        let code = softband_native_calls as *const u8;
        // SAFETY: the copies are code of this library.
        let bytes = unsafe { std::slice::from_raw_parts(code, 2 * COPY_BYTES) };
        assert_eq!((&bytes[..4], &bytes[COPY_BYTES..COPY_BYTES + 4]), (&[0x0f, 0x05, 0xff, 0x25][..], &[0x0f, 0x05, 0xff, 0x25][..]));
        let distance = |at: usize| i32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap());
        let end = |at: usize| (code as usize + at + COPY_BYTES).wrapping_add_signed(distance(at) as isize);
        assert_eq!((end(0), end(COPY_BYTES)), (BACK.as_ptr() as usize, BACK.as_ptr() as usize + 8));
    }
}
