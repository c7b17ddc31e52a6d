//! The set of processors that a program sees in simulated time: processor 0 alone. The kernel's mask
//! names the machine's processor on which the engine keeps its programs. It differs from run to run,
//! and a program that changed it would leave that processor.

use crate::clib::args::{Managed, Out};
use crate::clib::real;
use crate::process::outsiders;
use crate::process::pid::translated;
use crate::runtime::world::{active, fail};
use libc::{c_int, c_long, c_uint, cpu_set_t, pid_t, pthread_attr_t, pthread_t, size_t};

/// Bytes of the kernel's own set on a machine with up to 64 processors.
const KERNEL_BYTES: usize = size_of::<u64>();
/// The shown set, as long as the shortest of the C library.
const SHOWN: [u64; 2] = [1, 0];
/// Words of a set that is longer than any of the kernel's (`CONFIG_NR_CPUS`).
const LONGEST_WORDS: usize = 1024;

/// Fills a set with the shown one, as sched_getaffinity(2) does. Returns the kernel's number of bytes.
///
/// # Safety
/// `set` is null or has room for `len` bytes.
unsafe fn show(len: size_t, set: *mut cpu_set_t) -> Result<usize, c_int> {
    if len < KERNEL_BYTES || !len.is_multiple_of(KERNEL_BYTES) {
        return Err(libc::EINVAL);
    }
    if set.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: the room has at least the bytes of a word.
    unsafe { set.cast::<u64>().write_unaligned(SHOWN[0]) };
    Ok(KERNEL_BYTES)
}

/// Checks a wish for a set: it must contain the shown processor.
///
/// # Safety
/// `set` is null or has `len` bytes.
unsafe fn check(len: size_t, set: *const cpu_set_t) -> Result<(), c_int> {
    if len == 0 {
        return Err(libc::EINVAL);
    }
    if set.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: the set has at least one byte.
    let first = unsafe { set.cast::<u8>().read() };
    if first & 1 != 0 { Ok(()) } else { Err(libc::EINVAL) }
}

/// Returns the error of a look at the kernel's set of a thread, if there is no such thread.
fn absence(pid: pid_t) -> Result<(), c_int> {
    let mut any = [0_u64; LONGEST_WORDS];
    // SAFETY: the kernel writes at most the bytes of the room.
    let status = unsafe { kernel!(libc::SYS_sched_getaffinity, translated(pid), size_of_val(&any), any.as_mut_ptr()) };
    if pid == 0 || status >= 0 { Ok(()) } else { Err(crate::runtime::world::errno()) }
}

/// Answers the system call `sched_getaffinity` in simulated time.
///
/// # Safety
/// `set` is null or has room for `len` bytes.
pub unsafe fn get(pid: pid_t, len: size_t, set: *mut cpu_set_t) -> c_long {
    // SAFETY: as the caller promises.
    match absence(pid).and_then(|()| unsafe { show(len, set) }) {
        Ok(bytes) => bytes as c_long,
        Err(error) => fail(error),
    }
}

/// Answers the system call `sched_setaffinity` in simulated time.
///
/// # Safety
/// `set` is null or has `len` bytes.
pub unsafe fn set(pid: pid_t, len: size_t, set: *const cpu_set_t) -> c_long {
    // SAFETY: as the caller promises.
    match absence(pid).and_then(|()| unsafe { check(len, set) }) {
        Ok(()) => 0,
        Err(error) => fail(error),
    }
}

/// Clears the bytes of a set behind those of the kernel, as the C library does.
///
/// # Safety
/// `set` has room for `len` bytes.
unsafe fn clear_rest(len: size_t, set: *mut cpu_set_t) {
    // SAFETY: the bytes lie within the room.
    unsafe { set.cast::<u8>().add(KERNEL_BYTES).write_bytes(0, len - KERNEL_BYTES) };
}

/// Implements `sched_setaffinity`.
///
/// # Safety
/// `set` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_setaffinity(pid: pid_t, len: size_t, wanted: *const cpu_set_t) -> c_int {
    if let Some(refused) = outsiders::refusal("a processor set", translated(pid)) {
        return refused;
    }
    if active() {
        // SAFETY: the set has `len` bytes.
        return unsafe { set(pid, len, wanted) as c_int };
    }
    // SAFETY: the kernel reads `len` bytes of the set.
    unsafe { real::sched_setaffinity(translated(pid), len, wanted) }
}

/// Implements `sched_getaffinity`.
///
/// # Safety
/// `set` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_getaffinity(pid: pid_t, len: size_t, out: *mut cpu_set_t) -> c_int {
    if !active() {
        // SAFETY: the kernel writes at most `len` bytes of the set.
        return unsafe { real::sched_getaffinity(translated(pid), len, out) };
    }
    // SAFETY: the set has room for `len` bytes.
    unsafe {
        if get(pid, len, out) < 0 {
            return -1;
        }
        clear_rest(len, out);
    }
    0
}

/// Implements `pthread_setaffinity_np`.
///
/// # Safety
/// The thread exists, and `set` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setaffinity_np(thread: pthread_t, len: size_t, wanted: *const cpu_set_t) -> c_int {
    if active() {
        // SAFETY: the set has `len` bytes.
        return unsafe { check(len, wanted).err().unwrap_or(0) };
    }
    // SAFETY: the thread exists, as the caller promises.
    unsafe { real::pthread_setaffinity_np(thread, len, wanted) }
}

/// Implements `pthread_getaffinity_np`.
///
/// # Safety
/// The thread exists, and `set` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getaffinity_np(thread: pthread_t, len: size_t, out: *mut cpu_set_t) -> c_int {
    if !active() {
        // SAFETY: the thread exists, as the caller promises.
        return unsafe { real::pthread_getaffinity_np(thread, len, out) };
    }
    // SAFETY: the set has room for `len` bytes.
    unsafe {
        match show(len, out) {
            Ok(_) => clear_rest(len, out),
            Err(error) => return error,
        }
    }
    0
}

/// Implements `pthread_getattr_np`. The attributes of a thread include its set.
///
/// # Safety
/// The thread exists, and `attributes` has room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getattr_np(thread: pthread_t, attributes: Managed<pthread_attr_t>) -> c_int {
    // SAFETY: the thread exists, as the caller promises.
    let status = unsafe { real::pthread_getattr_np(thread, attributes) };
    if status != 0 || !active() {
        return status;
    }
    // SAFETY: the call above has initialised the attributes, and the set has its size.
    unsafe { real::pthread_attr_setaffinity_np(attributes, size_of_val(&SHOWN), SHOWN.as_ptr().cast()) }
}

/// Runs `create`, which creates a thread with these attributes, as if they had no set. Fails if the
/// set lacks the shown processor.
pub fn without_set(attributes: Managed<pthread_attr_t>, create: impl FnOnce() -> c_int) -> c_int {
    let mut wanted = [0_u64; LONGEST_WORDS];
    let len = size_of_val(&wanted);
    // SAFETY: the program has initialised its attributes, and the room has its size.
    let is_read = !attributes.is_null() && unsafe { real::pthread_attr_getaffinity_np(attributes, len, wanted.as_mut_ptr().cast()) } == 0;
    // Attributes without a set show every processor that has a number.
    if !is_read || wanted.iter().all(|word| *word == u64::MAX) {
        return create();
    }
    if wanted[0] & 1 == 0 {
        return libc::EINVAL;
    }
    // SAFETY: only attributes with a set get another one, and no other thread runs meanwhile.
    unsafe { real::pthread_attr_setaffinity_np(attributes, 0, std::ptr::null()) };
    let status = create();
    // SAFETY: the words are a set of `len` bytes, and the attributes are still the caller's.
    unsafe { real::pthread_attr_setaffinity_np(attributes, len, wanted.as_ptr().cast()) };
    status
}

/// Returns the processor of the calling thread. The answer is always processor 0, so that nothing
/// depends on the host's scheduler.
#[unsafe(no_mangle)]
pub extern "C" fn sched_getcpu() -> c_int {
    let mut processor = 0;
    if getcpu(Out::of(&mut processor), Out::NULL) == 0 { processor as c_int } else { -1 }
}

/// Implements `getcpu`.
#[unsafe(no_mangle)]
pub extern "C" fn getcpu(processor: Out<c_uint>, node: Out<c_uint>) -> c_int {
    if active() {
        processor.set(0);
        node.set(0);
        return 0;
    }
    // SAFETY: the kernel writes two numbers, unless they are null.
    unsafe { kernel!(libc::SYS_getcpu, processor.address(), node.address(), 0) as c_int }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shown_set_has_one_processor_in_a_room_of_any_valid_length() {
        let mut room = [u64::MAX; 4];
        let at = room.as_mut_ptr().cast();
        // SAFETY: each length is at most that of the room.
        unsafe {
            assert_eq!(show(0, at), Err(libc::EINVAL));
            assert_eq!(show(12, at), Err(libc::EINVAL));
            assert_eq!(show(16, std::ptr::null_mut()), Err(libc::EFAULT));
            assert_eq!(show(24, at), Ok(8));
            clear_rest(24, at);
        }
        assert_eq!(room, [1, 0, 0, u64::MAX]);
    }

    #[test]
    fn a_wish_must_contain_the_shown_processor() {
        let (both, other) = ([3_u64], [2_u64]);
        // SAFETY: the sets have eight bytes.
        unsafe {
            assert_eq!(check(8, both.as_ptr().cast()), Ok(()));
            assert_eq!(check(8, other.as_ptr().cast()), Err(libc::EINVAL));
            assert_eq!(check(0, both.as_ptr().cast()), Err(libc::EINVAL));
        }
    }
}
