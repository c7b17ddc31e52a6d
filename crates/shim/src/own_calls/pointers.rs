//! Pointers of a program's own calls. The kernel answers EFAULT to a bad pointer, but a function of this
//! library would die of it. So each pointer that such a function uses is tried first.
//!
//! A try touches the memory. A fault there ends the try ([`end_try`]). Memory that this library has
//! closed for a moment opens, as for any access.

use crate::fd::management;
use crate::runtime::world::{errno, keeping_errno};
use crate::spin::registers;
use libc::{c_int, c_long};
use softband_client as client;

const PAGE: usize = 4096;
/// Most bytes of a buffer that are tried. Programs pass longer buffers than they have, because they know
/// that less will come.
const TRIED_MAX: usize = 1 << 20;
/// Most bytes of a path or of a string for a new image.
const TEXT_MAX: usize = 128 << 10;
/// Most parts of a buffer, and most messages of a call (`UIO_MAXIOV`).
const PARTS_MAX: usize = 1024;

// Each try returns 0, or 1 after a fault. The write changes nothing, even beside other threads.
std::arch::global_asm!(
    ".pushsection .text",
    ".balign 16",
    ".hidden softband_try_read",
    ".globl softband_try_read",
    "softband_try_read:",
    "mov al, [rdi]",
    "xor eax, eax",
    "ret",
    ".hidden softband_try_write",
    ".globl softband_try_write",
    "softband_try_write:",
    "lock or byte ptr [rdi], 0",
    "xor eax, eax",
    "ret",
    ".hidden softband_try_failed",
    ".globl softband_try_failed",
    "softband_try_failed:",
    "mov eax, 1",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    fn softband_try_read(address: usize) -> c_int;
    fn softband_try_write(address: usize) -> c_int;
    fn softband_try_failed();
}

/// Ends a try whose access has faulted. Returns false for another fault.
pub fn end_try(machine: &mut libc::ucontext_t) -> bool {
    let tries = softband_try_read as *const () as usize..softband_try_failed as *const () as usize;
    let is_try = tries.contains(&registers::instruction(machine));
    if is_try {
        machine.uc_mcontext.gregs[libc::REG_RIP as usize] = softband_try_failed as *const () as i64;
    }
    is_try
}

fn is_readable(address: usize) -> bool {
    if client::is_wall() {
        return kernel_reads(address);
    }
    // SAFETY: a bad address ends the try.
    unsafe { softband_try_read(address) == 0 }
}

fn is_writable(address: usize) -> bool {
    // At wall pace the handler of SIGSEGV is the program's, so nothing ends a try.
    if client::is_wall() {
        return kernel_reads(address);
    }
    // SAFETY: the access changes nothing, and a bad address ends the try.
    unsafe { softband_try_write(address) == 0 }
}

/// Returns whether the kernel can read a byte of this process.
fn kernel_reads(address: usize) -> bool {
    let mut byte = 0_u8;
    let (to, from) = ([(&raw mut byte) as usize, 1], [address, 1]);
    let own = rustix::process::getpid().as_raw_nonzero().get();
    keeping_errno(|| {
        // SAFETY: the kernel reads at any address, and writes one byte to `byte`.
        let count = unsafe { kernel!(libc::SYS_process_vm_readv, own, to.as_ptr(), 1, from.as_ptr(), 1, 0) };
        // A sandbox can forbid the call. The program's pointers are nearly always good.
        count == 1 || errno() != libc::EFAULT
    })
}

/// Returns whether bytes can be read: the first, the last, and one of each page between.
pub(super) fn bytes(address: c_long, len: usize) -> bool {
    let (start, len) = (address as usize, len.min(TRIED_MAX));
    let Some(end) = start.checked_add(len) else { return false };
    let inner = (start / PAGE + 1) * PAGE..end;
    len == 0 || (is_readable(start) && is_readable(end - 1) && inner.step_by(PAGE).all(is_readable))
}

/// Returns whether there is room for bytes. Pages that hold neither end are only read, so that they take
/// no memory.
pub(super) fn room(address: c_long, len: usize) -> bool {
    len == 0 || (bytes(address, len) && is_writable(address as usize) && is_writable(address as usize + len.min(TRIED_MAX) - 1))
}

/// Accepts null, too.
fn bytes_or_null(address: c_long, len: usize) -> bool {
    address == 0 || bytes(address, len)
}

/// Accepts null, too.
fn room_or_null(address: c_long, len: usize) -> bool {
    address == 0 || room(address, len)
}

fn text(address: c_long) -> bool {
    let start = address as usize;
    let end = start.saturating_add(TEXT_MAX);
    let mut from = start;
    while from < end {
        if !is_readable(from) {
            return false;
        }
        let to = (from / PAGE + 1) * PAGE;
        // SAFETY: the page can be read.
        if (from..to).any(|at| unsafe { *(at as *const u8) } == 0) {
            return true;
        }
        from = to;
    }
    false
}

/// Returns whether a list of strings can be read, which ends with null. A list can be null.
fn texts(address: c_long) -> bool {
    let entries = (address..).step_by(size_of::<c_long>()).map(value::<c_long>);
    let good = entries.take_while(|entry| entry.is_some_and(|entry| entry != 0 && text(entry)));
    let bytes_before = |count: usize| (count * size_of::<c_long>()) as c_long;
    address == 0 || value::<c_long>(address + bytes_before(good.count())) == Some(0)
}

/// Returns a value at an address if it can be read.
fn value<T: Copy>(address: c_long) -> Option<T> {
    // SAFETY: the bytes can be read, and each value below consists of numbers and addresses.
    bytes(address, size_of::<T>()).then(|| unsafe { (address as *const T).read_unaligned() })
}

/// Returns whether the parts of a buffer are good.
fn parts(list: c_long, count: usize, part: fn(c_long, usize) -> bool) -> bool {
    let size = size_of::<libc::iovec>();
    // The kernel refuses too many parts.
    let count = count.min(PARTS_MAX);
    bytes(list, count * size)
        && (0..count).all(|index| value::<libc::iovec>(list + (index * size) as c_long).is_some_and(|one| part(one.iov_base as c_long, one.iov_len)))
}

fn message(address: c_long, part: fn(c_long, usize) -> bool) -> bool {
    value::<libc::msghdr>(address).is_some_and(|header| {
        (header.msg_name.is_null() || part(header.msg_name as c_long, header.msg_namelen as usize))
            && bytes_or_null(header.msg_control as c_long, header.msg_controllen)
            && parts(header.msg_iov as c_long, header.msg_iovlen, part)
    })
}

fn messages(list: c_long, count: usize, part: fn(c_long, usize) -> bool) -> bool {
    let size = size_of::<libc::mmsghdr>();
    (0..count.min(PARTS_MAX)).map(|index| list + (index * size) as c_long).all(|at| room(at, size) && message(at, part))
}

/// Returns whether an address has room for as many bytes as the number at another address says.
fn counted_room(address: c_long, len: c_long) -> bool {
    room(len, size_of::<c_int>()) && value::<c_int>(len).is_some_and(|len| room(address, len.max(0) as usize))
}

const TIME: usize = size_of::<libc::timespec>();
const SET: usize = 8;

/// Returns whether the pointers of a call are good. The kernel judges those that this library passes on.
pub(super) fn are_good(number: c_long, given: &[c_long; 6]) -> bool {
    of_files(number, given) && of_waits(number, given) && of_sockets(number, given) && of_processes(number, given)
}

fn of_files(number: c_long, &[a, b, c, d, e, _]: &[c_long; 6]) -> bool {
    match number {
        libc::SYS_read | libc::SYS_pread64 => room(b, c as usize),
        libc::SYS_write | libc::SYS_pwrite64 => bytes(b, c as usize),
        libc::SYS_readv | libc::SYS_preadv => parts(b, c as usize, room),
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_vmsplice => parts(b, c as usize, bytes),
        libc::SYS_sendfile => room_or_null(c, size_of::<libc::off_t>()),
        libc::SYS_splice => room_or_null(b, size_of::<libc::loff_t>()) && room_or_null(d, size_of::<libc::loff_t>()),
        libc::SYS_open | libc::SYS_access | libc::SYS_chdir => text(a),
        libc::SYS_unlink | libc::SYS_rmdir | libc::SYS_mkdir | libc::SYS_truncate | libc::SYS_chmod => text(a),
        libc::SYS_openat | libc::SYS_faccessat | libc::SYS_faccessat2 | libc::SYS_unlinkat | libc::SYS_mkdirat => text(b),
        libc::SYS_rename | libc::SYS_link | libc::SYS_symlink => text(a) && text(b),
        libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => text(b) && text(d),
        libc::SYS_symlinkat => text(a) && text(c),
        libc::SYS_stat | libc::SYS_lstat => text(a) && room(b, size_of::<libc::stat>()),
        libc::SYS_fstat => room(b, size_of::<libc::stat>()),
        libc::SYS_newfstatat => (b == 0 || text(b)) && room(c, size_of::<libc::stat>()),
        libc::SYS_statx => (b == 0 || text(b)) && room(e, size_of::<libc::statx>()),
        libc::SYS_readlink => text(a) && room(b, c as usize),
        libc::SYS_readlinkat => text(b) && room(c, d as usize),
        libc::SYS_getcwd => room(a, (b as usize).min(PAGE)),
        libc::SYS_ioctl => of_request(b, c),
        libc::SYS_getrandom => room(a, b as usize),
        _ => true,
    }
}

/// Returns whether the argument of an `ioctl` is good, if this library answers the request.
fn of_request(request: c_long, argument: c_long) -> bool {
    const INTERFACES: std::ops::Range<c_long> = 0x8900..0x8a00;
    if request == libc::SIOCGIFCONF as c_long {
        let list = room(argument, size_of::<libc::ifconf>()).then(|| value::<libc::ifconf>(argument)).flatten();
        // SAFETY: both members of the union are the address of the list.
        return list.is_some_and(|list| room_or_null(unsafe { list.ifc_ifcu.ifcu_req } as c_long, list.ifc_len.max(0) as usize));
    }
    match request {
        _ if request == libc::FIONREAD as c_long => room(argument, size_of::<c_int>()),
        _ if management::argument_bytes(request as libc::c_ulong) > 0 => room(argument, management::argument_bytes(request as libc::c_ulong)),
        _ if INTERFACES.contains(&request) => room(argument, size_of::<libc::ifreq>()),
        _ => true,
    }
}

fn of_waits(number: c_long, &[a, b, c, d, e, f]: &[c_long; 6]) -> bool {
    let descriptors = |list: c_long, count: c_long| room(list, (count as usize).saturating_mul(size_of::<libc::pollfd>()));
    let sets = || [b, c, d].into_iter().all(|set| room_or_null(set, (a as usize).div_ceil(64) * 8));
    let events = || room(b, (c.max(0) as usize).saturating_mul(size_of::<libc::epoll_event>()));
    match number {
        libc::SYS_poll => descriptors(a, b),
        libc::SYS_ppoll => descriptors(a, b) && bytes_or_null(c, TIME) && bytes_or_null(d, SET),
        libc::SYS_select => sets() && room_or_null(e, TIME),
        libc::SYS_pselect6 => sets() && bytes_or_null(e, TIME) && (f == 0 || value::<c_long>(f).is_some_and(|set| bytes_or_null(set, SET))),
        libc::SYS_epoll_ctl => b == libc::EPOLL_CTL_DEL.into() || bytes(d, size_of::<libc::epoll_event>()),
        libc::SYS_epoll_wait => events(),
        libc::SYS_epoll_pwait => events() && bytes_or_null(e, SET),
        libc::SYS_epoll_pwait2 => events() && bytes_or_null(d, TIME) && bytes_or_null(e, SET),
        libc::SYS_futex => of_futex(a, b as c_int, d),
        libc::SYS_nanosleep => bytes(a, TIME) && room_or_null(b, TIME),
        libc::SYS_clock_nanosleep => bytes(c, TIME) && room_or_null(d, TIME),
        libc::SYS_clock_gettime => room(b, TIME),
        libc::SYS_clock_getres => room_or_null(b, TIME),
        libc::SYS_gettimeofday => room_or_null(a, TIME) && room_or_null(b, size_of::<libc::timezone>()),
        libc::SYS_time => room_or_null(a, size_of::<libc::time_t>()),
        libc::SYS_times => room_or_null(a, size_of::<libc::tms>()),
        libc::SYS_setitimer => bytes_or_null(b, 2 * TIME) && room_or_null(c, 2 * TIME),
        libc::SYS_getitimer => room(b, 2 * TIME),
        libc::SYS_timerfd_settime => bytes(c, 2 * TIME) && room_or_null(d, 2 * TIME),
        libc::SYS_timerfd_gettime => room(b, 2 * TIME),
        libc::SYS_rt_sigprocmask => bytes_or_null(b, SET) && room_or_null(c, SET),
        libc::SYS_rt_sigaction => bytes_or_null(b, 4 * SET) && room_or_null(c, 4 * SET),
        libc::SYS_rt_sigtimedwait => bytes(a, SET) && room_or_null(b, size_of::<libc::siginfo_t>()) && bytes_or_null(c, TIME),
        libc::SYS_rt_sigsuspend => bytes(a, SET),
        _ => true,
    }
}

/// Only waits use the word and the time. A wake-up names a place.
fn of_futex(word: c_long, operation: c_int, time: c_long) -> bool {
    match operation & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => bytes(word, size_of::<u32>()) && bytes_or_null(time, TIME),
        _ => true,
    }
}

fn of_sockets(number: c_long, &[_, b, c, d, e, f]: &[c_long; 6]) -> bool {
    match number {
        libc::SYS_connect | libc::SYS_bind => bytes(b, c as u32 as usize),
        libc::SYS_accept | libc::SYS_accept4 => b == 0 || counted_room(b, c),
        libc::SYS_getsockname | libc::SYS_getpeername => counted_room(b, c),
        libc::SYS_getsockopt => counted_room(d, e),
        libc::SYS_setsockopt => bytes_or_null(d, e as u32 as usize),
        libc::SYS_sendto => bytes(b, c as usize) && bytes_or_null(e, f as u32 as usize),
        libc::SYS_recvfrom => room(b, c as usize) && (e == 0 || counted_room(e, f)),
        libc::SYS_sendmsg => message(b, bytes),
        libc::SYS_recvmsg => room(b, size_of::<libc::msghdr>()) && message(b, room),
        libc::SYS_sendmmsg => messages(b, c as u32 as usize, bytes),
        libc::SYS_recvmmsg => messages(b, c as u32 as usize, room) && room_or_null(e, TIME),
        _ => true,
    }
}

fn of_processes(number: c_long, &[a, b, c, d, e, _]: &[c_long; 6]) -> bool {
    let filter = || value::<libc::sock_fprog>(c).is_some_and(|filter| bytes(filter.filter as c_long, usize::from(filter.len) * 8));
    match number {
        libc::SYS_sched_getaffinity => room(c, (b as usize).min(size_of::<u64>())),
        libc::SYS_sched_setaffinity => bytes(c, (b as usize).min(size_of::<u64>())),
        libc::SYS_getcpu => room_or_null(a, size_of::<c_int>()) && room_or_null(b, size_of::<c_int>()),
        libc::SYS_uname => room(a, size_of::<libc::utsname>()),
        libc::SYS_getrusage => room(b, size_of::<libc::rusage>()),
        libc::SYS_wait4 => room_or_null(b, size_of::<c_int>()) && room_or_null(d, size_of::<libc::rusage>()),
        libc::SYS_waitid => room_or_null(c, size_of::<libc::siginfo_t>()) && room_or_null(e, size_of::<libc::rusage>()),
        libc::SYS_prlimit64 => bytes_or_null(c, TIME) && room_or_null(d, TIME),
        libc::SYS_process_vm_readv | libc::SYS_process_vm_writev => parts(b, c as usize, |_, _| true),
        libc::SYS_prctl if a == libc::PR_SET_SECCOMP.into() && b == libc::SECCOMP_MODE_FILTER.into() => filter(),
        libc::SYS_seccomp if a == libc::SECCOMP_SET_MODE_FILTER.into() => filter(),
        libc::SYS_execve => text(a) && texts(b) && texts(c),
        libc::SYS_execveat => text(b) && texts(c) && texts(d),
        libc::SYS_clone3 => bytes(a, b as usize),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;
    use std::sync::{Mutex, PoisonError};

    /// Held while a test has its handler: the handler is the process's.
    static HANDLER: Mutex<()> = Mutex::new(());

    /// Runs `body` with the handler of faults that a process of a fabric has. The argument is the address
    /// of two pages: one for reads and writes, and one for reads.
    fn with_pages(body: impl FnOnce(c_long)) {
        extern "C" fn on_fault(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
            // SAFETY: the third argument of a handler with SA_SIGINFO is the context.
            assert!(end_try(unsafe { &mut *context.cast() }));
        }
        let _held = HANDLER.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the action and the pages are this test's own, and live during the calls.
        unsafe {
            let (mut action, mut former): (libc::sigaction, libc::sigaction) = (std::mem::zeroed(), std::mem::zeroed());
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut former);
            let pages = libc::mmap(null_mut(), 3 * PAGE, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
            libc::mprotect(pages.byte_add(PAGE), PAGE, libc::PROT_READ);
            libc::mprotect(pages.byte_add(2 * PAGE), PAGE, libc::PROT_NONE);
            body(pages as c_long);
            libc::munmap(pages, 3 * PAGE);
            libc::sigaction(libc::SIGSEGV, &raw const former, null_mut());
        }
    }

    #[test]
    fn bad_pointers_are_found_and_good_memory_does_not_change() {
        with_pages(|first| {
            let (second, third) = (first + PAGE as c_long, first + 2 * PAGE as c_long);
            // SAFETY: the first page can be written.
            unsafe { (first as *mut u8).write_bytes(7, PAGE) };
            assert!(bytes(first, 2 * PAGE) && !bytes(first, 2 * PAGE + 1) && !bytes(third, 1) && !bytes(1 << 62, 1) && bytes(third, 0));
            assert!(room(first, PAGE) && !room(first, PAGE + 1) && !room(second, 1) && !room(0, 1) && room_or_null(0, 1));
            assert!(!text(0) && text(first), "the next page is zero");
            // SAFETY: the first page can be read.
            assert!((0..PAGE).all(|at| unsafe { *(first as *const u8).add(at) } == 7));
            let list =
                [libc::iovec { iov_base: first as *mut libc::c_void, iov_len: 8 }, libc::iovec { iov_base: second as *mut libc::c_void, iov_len: 8 }];
            let at = list.as_ptr() as c_long;
            assert!(parts(at, 2, bytes) && parts(at, 1, room) && !parts(at, 2, room) && !parts(third, 1, bytes));
        });
    }

    #[test]
    fn each_call_has_its_pointers_tried() {
        let (bad, good) = (8, [0_u64; 64]);
        let at = good.as_ptr() as c_long;
        with_pages(|_| {
            let is_good = |number, given: [c_long; 6]| are_good(number, &given);
            assert!(!is_good(libc::SYS_read, [0, bad, 1, 0, 0, 0]) && is_good(libc::SYS_read, [0, bad, 0, 0, 0, 0]));
            assert!(!is_good(libc::SYS_nanosleep, [bad, 0, 0, 0, 0, 0]) && is_good(libc::SYS_nanosleep, [at, 0, 0, 0, 0, 0]));
            assert!(!is_good(libc::SYS_futex, [bad, 0, 0, 0, 0, 0]) && is_good(libc::SYS_futex, [bad, libc::FUTEX_WAKE.into(), 1, 0, 0, 0]));
            assert!(!is_good(libc::SYS_rt_sigprocmask, [0, bad, 0, 8, 0, 0]) && !is_good(libc::SYS_rt_sigprocmask, [0, 0, bad, 8, 0, 0]));
            assert!(!is_good(libc::SYS_pselect6, [1, 0, 0, 0, 0, bad]) && is_good(libc::SYS_pselect6, [1, 0, 0, 0, 0, at]));
            assert!(!is_good(libc::SYS_execve, [at, bad, 0, 0, 0, 0]) && is_good(libc::SYS_execve, [at, at, 0, 0, 0, 0]));
            assert!(is_good(libc::SYS_getpid, [bad; 6]));
        });
    }
}
