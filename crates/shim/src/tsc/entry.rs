//! Entry point for the thunks of rewritten counter reads. It keeps every register except `rax` and
//! `rdx`, including flags and vectors.

use std::sync::atomic::{AtomicU64, Ordering};

/// Size in bytes and mask of the components that `xsave` must save; set by [`prepare`].
static STATE_BYTES: AtomicU64 = AtomicU64::new(0);
static STATE_MASK: AtomicU64 = AtomicU64::new(0);

/// x87, SSE, AVX and AVX-512: the components that code of this library may change.
const COMPONENTS: u64 = 0xe7;
/// CPUID leaf 1, register ECX: the system has enabled `xsave`.
const OSXSAVE: u32 = 1 << 27;

std::arch::global_asm!(
    ".text",
    ".p2align 4",
    ".hidden softband_tsc_entry",
    ".globl softband_tsc_entry",
    ".type softband_tsc_entry,@function",
    "softband_tsc_entry:",
    "pushfq",
    "push rcx",
    "push rsi",
    "push rdi",
    "push r8",
    "push r9",
    "push r10",
    "push r11",
    "push rbp",
    "mov rbp, rsp",
    "cld",
    "sub rsp, [rip + {bytes}]",
    "and rsp, -64",
    // The header of the area must be zero, because `xsave` does not write all of it.
    "xor eax, eax",
    "lea rdi, [rsp + 512]",
    "mov ecx, 8",
    "rep stosq",
    "mov rax, [rip + {mask}]",
    "mov rdx, rax",
    "shr rdx, 32",
    "xsave64 [rsp]",
    "call {read}",
    "mov r10, rax",
    "mov rax, [rip + {mask}]",
    "mov rdx, rax",
    "shr rdx, 32",
    "xrstor64 [rsp]",
    "mov rdx, r10",
    "shr rdx, 32",
    "mov eax, r10d",
    "mov rsp, rbp",
    "pop rbp",
    "pop r11",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rcx",
    "popfq",
    "ret",
    ".size softband_tsc_entry, . - softband_tsc_entry",
    bytes = sym STATE_BYTES,
    mask = sym STATE_MASK,
    read = sym read_for_thunk,
);

unsafe extern "C" {
    fn softband_tsc_entry();
}

/// Returns the address of the entry point.
pub(crate) fn address() -> usize {
    softband_tsc_entry as *const () as usize
}

/// Determines the state to save. Returns false if it cannot be saved: then nothing is rewritten.
pub(crate) fn prepare() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
    #[target_feature(enable = "xsave")]
    fn enabled() -> u64 {
        // SAFETY: called only if the system has enabled `xsave`.
        unsafe { _xgetbv(0) }
    }
    const STATE_LEAF: u32 = 0xd;
    if __cpuid(1).ecx & OSXSAVE == 0 {
        return false;
    }
    // SAFETY: the processor has `xsave`, as checked above.
    let mask = unsafe { enabled() } & COMPONENTS;
    STATE_MASK.store(mask, Ordering::Relaxed);
    STATE_BYTES.store(u64::from(__cpuid_count(STATE_LEAF, 0).ebx), Ordering::Release);
    true
}

/// Returns the counter value of a rewritten read.
extern "C" fn read_for_thunk() -> u64 {
    super::ticks()
}
