//! Leads the C library's own functions of mappings here.
//!
//! Some libraries change each other's calls of `mmap`, and take the original from the C library's
//! table: UCX does with `UCX_MEM_MMAP_HOOK_MODE=reloc`. Their mappings would pass by this library,
//! which then follows no write to them. So the functions in the C library itself begin with a jump.
//! A library that overwrites their code in turn (UCX with `bistro`, Open MPI) makes the system call by
//! `syscall`, which comes here as well.

use super::mapping;
use crate::clib::symbols;
use libc::{c_int, c_long, c_void, off_t, size_t};
use std::ffi::CStr;

const PAGE: usize = 4096;
/// `movabs rax, imm64; jmp rax`. No argument and no saved register lies in rax.
const JUMP_BYTES: usize = 12;

unsafe extern "C" fn map(address: *mut c_void, len: size_t, rights: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void {
    let arguments = [address as c_long, len as c_long, rights.into(), flags.into(), fd.into(), offset];
    // SAFETY: the arguments are those of the call.
    unsafe { make(libc::SYS_mmap, arguments) as *mut c_void }
}

unsafe extern "C" fn unmap(address: *mut c_void, len: size_t) -> c_int {
    // SAFETY: the arguments are those of the call.
    unsafe { make(libc::SYS_munmap, [address as c_long, len as c_long, 0, 0, 0, 0]) as c_int }
}

unsafe extern "C" fn protect(address: *mut c_void, len: size_t, rights: c_int) -> c_int {
    // SAFETY: the arguments are those of the call.
    unsafe { make(libc::SYS_mprotect, [address as c_long, len as c_long, rights.into(), 0, 0, 0]) as c_int }
}

unsafe extern "C" fn remap(address: *mut c_void, old_len: size_t, len: size_t, flags: c_int, new: *mut c_void) -> *mut c_void {
    let arguments = [address as c_long, old_len as c_long, len as c_long, flags.into(), new as c_long, 0];
    // SAFETY: the arguments are those of the call.
    unsafe { make(libc::SYS_mremap, arguments) as *mut c_void }
}

unsafe extern "C" fn attach(segment: c_int, address: *const c_void, flags: c_int) -> *mut c_void {
    // SAFETY: the arguments are those of the call.
    unsafe { make(libc::SYS_shmat, [segment.into(), address as c_long, flags.into(), 0, 0, 0]) as *mut c_void }
}

unsafe extern "C" fn detach(address: *const c_void) -> c_int {
    // SAFETY: the arguments are those of the call.
    unsafe { make(libc::SYS_shmdt, [address as c_long, 0, 0, 0, 0, 0]) as c_int }
}

/// Makes one of the calls above, and notes its outcome.
///
/// # Safety
/// The arguments are those of the system call.
unsafe fn make(number: c_long, arguments: [c_long; 6]) -> c_long {
    // SAFETY: the caller answers for the arguments. The call is one of those that come here.
    unsafe { mapping::system_call(number, arguments) }.unwrap_or(-1)
}

/// Leads the C library's functions here. Called once, in a process with one thread.
pub fn lead_here() {
    let functions: [(&CStr, *const ()); 6] = [
        (c"mmap", map as *const ()),
        (c"munmap", unmap as *const ()),
        (c"mprotect", protect as *const ()),
        (c"mremap", remap as *const ()),
        (c"shmat", attach as *const ()),
        (c"shmdt", detach as *const ()),
    ];
    for (name, target) in functions {
        lead(symbols::find(name) as usize, target as usize);
    }
}

/// Writes a jump to `target` over the first instructions of a function. A system may forbid changes of
/// code: the function then stays as it is.
fn lead(function: usize, target: usize) {
    if function == 0 {
        return;
    }
    let start = function & !(PAGE - 1);
    let len = (function + JUMP_BYTES).next_multiple_of(PAGE) - start;
    // The page stays executable: it may hold functions that this code calls.
    // SAFETY: the pages are code of the C library, and keep their contents.
    let may_write = unsafe { kernel!(libc::SYS_mprotect, start, len, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) } == 0;
    if !may_write {
        return;
    }
    // SAFETY: just made writable. Each of these functions is longer than the jump, and the process has
    // no other thread that could be inside.
    unsafe { std::ptr::copy_nonoverlapping(jump(target).as_ptr(), function as *mut u8, JUMP_BYTES) };
    // SAFETY: the pages get the rights of code back, which they had.
    unsafe { kernel!(libc::SYS_mprotect, start, len, libc::PROT_READ | libc::PROT_EXEC) };
}

fn jump(target: usize) -> [u8; JUMP_BYTES] {
    let mut code = [0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0];
    code[2..10].copy_from_slice(&target.to_le_bytes());
    code
}
