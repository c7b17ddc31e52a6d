//! Prefetches of cache lines that another processor may hold.

/// Prefetches a cache line for a read soon, from the processor that wrote it.
#[inline]
pub(crate) fn will_read(at: *const u8) {
    // SAFETY: a prefetch is a hint and fails silently.
    #[cfg(not(miri))]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(miri)]
    let _ = at;
}

/// Prefetches a cache line for a write soon. Locked instructions wait for all earlier writes, and
/// so for their cache lines.
#[inline]
pub(crate) fn will_write(at: *mut u8) {
    // SAFETY: a prefetch is a hint and fails silently; processors without this instruction do
    // nothing.
    #[cfg(not(miri))]
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags));
    }
    #[cfg(miri)]
    let _ = at;
}
