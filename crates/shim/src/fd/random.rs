//! Random numbers of the system, as a stream that depends only on the run's seed and the process.

use crate::clib::real;
use crate::runtime::world::{active, fail};
use libc::{c_int, c_uint, c_void, size_t, ssize_t};
use softband_client as client;
use std::sync::atomic::{AtomicU64, Ordering};

static DRAWN: AtomicU64 = AtomicU64::new(0);

/// Returns number `index` of the stream of `seed` (SplitMix64).
pub fn number(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the next number of this process.
pub fn next() -> u64 {
    number(client::header().seed, DRAWN.fetch_add(1, Ordering::Relaxed))
}

unsafe fn fill(data: *mut c_void, len: size_t) {
    for chunk in std::slice::from_raw_parts_mut(data.cast::<u8>(), len).chunks_mut(8) {
        chunk.copy_from_slice(&next().to_le_bytes()[..chunk.len()]);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(data: *mut c_void, len: size_t, flags: c_uint) -> ssize_t {
    if !active() || data.is_null() {
        return real::getrandom(data, len, flags);
    }
    fill(data, len);
    len as ssize_t
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getentropy(data: *mut c_void, len: size_t) -> c_int {
    if !active() || data.is_null() {
        return real::getentropy(data, len);
    }
    if len > 256 {
        return fail(libc::EIO);
    }
    fill(data, len);
    0
}

/// Implements `std::random_device::operator()` of the C++ library, which asks the processor instead
/// of the system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZNSt13random_device9_M_getvalEv(_this: *mut c_void) -> u32 {
    arc4random()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arc4random() -> u32 {
    let mut value = [0u8; 4];
    getrandom(value.as_mut_ptr().cast(), value.len(), 0);
    u32::from_ne_bytes(value)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arc4random_buf(data: *mut c_void, len: size_t) {
    // The system provides 256 bytes at once without failure.
    for chunk in std::slice::from_raw_parts_mut(data.cast::<u8>(), len).chunks_mut(256) {
        getrandom(chunk.as_mut_ptr().cast(), chunk.len(), 0);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arc4random_uniform(bound: u32) -> u32 {
    // Multiplies 64 random bits by the bound (32 bits). The bias is below 2^-32.
    let wide = u64::from(arc4random()) << 32 | u64::from(arc4random());
    if bound < 2 { 0 } else { ((u128::from(wide) * u128::from(bound)) >> 64) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // Reference values of SplitMix64 with seed 1234567.
        assert_eq!([number(1_234_567, 0), number(1_234_567, 1)], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn a_bounded_number_is_below_its_bound() {
        // SAFETY: no pointers.
        unsafe { assert!((0..100).all(|_| arc4random_uniform(10) < 10)) };
    }
}
