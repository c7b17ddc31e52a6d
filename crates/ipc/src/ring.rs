//! Completion queues in shared memory: the engine produces, the program consumes.

use bytemuck::{Pod, Zeroable};
use std::sync::atomic::AtomicU32;

/// One completion, one and a half cache lines long.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Cqe {
    pub wr_id: u64,
    /// Time at which it became visible.
    pub time_ps: u64,
    /// Status and opcode as in `enum ibv_wc_status` and `enum ibv_wc_opcode`.
    pub status: u32,
    pub opcode: u32,
    pub byte_len: u32,
    /// Immediate data in host order, or the invalidated key: [`flags::WITH_IMMEDIATE`],
    /// [`flags::WITH_INVALIDATE`].
    pub immediate: u32,
    pub qpn: u32,
    pub source_qpn: u32,
    /// [`flags`].
    pub flags: u32,
    /// Number of send requests of the queue pair retired so far, with this request (wraps).
    pub send_retired: u32,
    pub pkey_index: u16,
    pub source_lid: u16,
    pub service_level: u8,
    pub path_bits: u8,
    pub reserved: [u8; 2],
    pub vendor_error: u32,
    /// Shared receive queue of the completed request, or 0.
    pub srq: u32,
}

/// Bits of [`Cqe::flags`].
pub mod flags {
    pub const GRH: u32 = 1;
    pub const WITH_IMMEDIATE: u32 = 2;
    /// A completion of the receive queue.
    pub const RECEIVE: u32 = 4;
    pub const WITH_INVALIDATE: u32 = 8;
    /// The engine never sets this: the posting thread has moved the data.
    pub const CARRIED_OUT_BY_PROGRAM: u32 = 16;
}

/// Head of a ring. The entries follow; their number is `capacity`, rounded up to a power of two.
/// Both counters only grow and wrap at 2^32. Only with a power of two do the places continue across
/// the wrap.
#[repr(C, align(64))]
pub struct CqRingHeader {
    pub produced: AtomicU32,
    pub consumed: AtomicU32,
    pub capacity: AtomicU32,
    /// Set if a completion found no room. The CQ is then in error.
    pub overflowed: AtomicU32,
}

/// Returns the bytes of a ring of `capacity` entries.
pub const fn ring_bytes(capacity: u32) -> usize {
    size_of::<CqRingHeader>() + capacity.next_power_of_two() as usize * size_of::<Cqe>()
}

/// Returns the offset of the entry of a counter from the ring's start, in bytes.
pub const fn entry_offset(counter: u32, capacity: u32) -> usize {
    let index = counter & (capacity.next_power_of_two() - 1);
    size_of::<CqRingHeader>() + index as usize * size_of::<Cqe>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_wait_have_places_of_their_own_where_the_counters_wrap() {
        let mut places: Vec<usize> = (0..3u32).map(|step| entry_offset((u32::MAX - 1).wrapping_add(step), 3)).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 3);
        assert!(places.iter().all(|place| place + size_of::<Cqe>() <= ring_bytes(3)));
    }
}
