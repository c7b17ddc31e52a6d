//! Random numbers of the system, as a stream that depends only on the run's seed and the process.

use crate::clib::args::slice_mut;
use crate::clib::buffers::Writable;
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

/// Replaces the random bytes that the kernel gives each image (`AT_RANDOM`). Runtimes seed their
/// generators with them (Go). The C library has used them before.
pub fn replace_bytes_of_image() {
    // SAFETY: the call takes a number and returns 0 for an unknown one.
    let address = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
    if address == 0 {
        return;
    }
    // Numbers of another stream, so that the program's other numbers stay.
    let seed = !client::header().seed;
    for (place, index) in [address, address + 8].into_iter().zip(0..) {
        // SAFETY: the kernel stores 16 bytes there, on the stack of the first thread.
        unsafe { (place as *mut u64).write_unaligned(number(seed, index)) };
    }
}

/// Returns the next number of this process.
pub fn next() -> u64 {
    number(client::header().seed, DRAWN.fetch_add(1, Ordering::Relaxed))
}

fn fill(room: Writable) {
    let mut at = 0;
    while at < room.len() {
        let word = next().to_le_bytes();
        let len = word.len().min(room.len() - at);
        room.put_at(at, &word[..len]);
        at += len;
    }
}

/// Implements `getrandom`.
///
/// # Safety
/// `data` is null or has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(data: *mut c_void, len: size_t, flags: c_uint) -> ssize_t {
    if !active() || data.is_null() {
        // SAFETY: the kernel writes at most `len` bytes, and refuses null.
        return unsafe { real::getrandom(data, len, flags) };
    }
    // SAFETY: the caller has room for `len` bytes, since `data` is not null.
    fill(unsafe { Writable::new(data, len) });
    len as ssize_t
}

/// Implements `getentropy`.
///
/// # Safety
/// `data` is null or has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getentropy(data: *mut c_void, len: size_t) -> c_int {
    if !active() || data.is_null() {
        // SAFETY: the C library fills no more than the caller's `len` bytes.
        return unsafe { real::getentropy(data, len) };
    }
    if len > 256 {
        return fail(libc::EIO);
    }
    // SAFETY: the pointer is not null, so it has room for `len` bytes.
    fill(unsafe { Writable::new(data, len) });
    0
}

/// Implements `std::random_device::operator()` of the C++ library, which asks the processor instead
/// of the system.
#[unsafe(no_mangle)]
pub extern "C" fn _ZNSt13random_device9_M_getvalEv(_this: *mut c_void) -> u32 {
    arc4random()
}

#[unsafe(no_mangle)]
pub extern "C" fn arc4random() -> u32 {
    let mut value = [0u8; 4];
    random_bytes(&mut value);
    u32::from_ne_bytes(value)
}

/// Fills `bytes`, in pieces of 256, which the system provides at once without failure.
fn random_bytes(bytes: &mut [u8]) {
    for chunk in bytes.chunks_mut(256) {
        // SAFETY: the pointer and the length are those of a slice.
        unsafe { getrandom(chunk.as_mut_ptr().cast(), chunk.len(), 0) };
    }
}

/// Implements `arc4random_buf`.
///
/// # Safety
/// `data` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn arc4random_buf(data: *mut c_void, len: size_t) {
    // SAFETY: nobody else uses the caller's room during the call.
    random_bytes(unsafe { slice_mut(data.cast(), len) });
}

#[unsafe(no_mangle)]
pub extern "C" fn arc4random_uniform(bound: u32) -> u32 {
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
        assert!((0..100).all(|_| arc4random_uniform(10) < 10));
    }
}
