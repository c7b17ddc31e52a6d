//! The vDSO: the kernel's clock functions in user space. They read the time stamp counter, and the
//! C library, Go and other runtimes call them without a function that this library could replace. The
//! vDSO has random numbers, too.
//!
//! A trapped read needs a signal. A thread that blocks all signals (POSIX AIO has some) would
//! therefore die of it. So each clock function of the vDSO begins with a jump to a function here.

use crate::clib::args::Out;
use crate::clib::real;
use crate::fd::random::getrandom;
use crate::runtime::world::{active, errno, is_away, is_parked, keeping_errno};
use crate::time::clock;
use libc::{c_int, c_uint, c_void, clockid_t, time_t, timespec, timeval};
use rustix::mm::MprotectFlags;

/// Size in bytes of `movabs rax, address; jmp rax`.
const JUMP_BYTES: usize = 12;
const PAGE_BYTES: usize = 4096;
/// Offsets and sizes of 64-bit ELF (elf(5)).
const PROGRAM_HEADERS_AT: usize = 32;
const PROGRAM_HEADER_SIZE_AT: usize = 54;
const PROGRAM_HEADER_COUNT_AT: usize = 56;
const SYMBOL_BYTES: usize = 24;
const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;

/// The image of the vDSO in memory. Reads beyond its end find nothing.
#[derive(Clone, Copy)]
struct Image<'a>(&'a [u8]);

impl Image<'_> {
    fn number<const BYTES: usize>(self, at: usize) -> Option<u64> {
        let mut whole = [0; 8];
        whole[..BYTES].copy_from_slice(self.0.get(at..at.checked_add(BYTES)?)?);
        Some(u64::from_le_bytes(whole))
    }

    /// Returns the program headers as type, offset in memory, and size in memory.
    fn program_headers(self) -> Option<Vec<(u64, usize, usize)>> {
        let table = self.number::<8>(PROGRAM_HEADERS_AT)? as usize;
        let size = self.number::<2>(PROGRAM_HEADER_SIZE_AT)? as usize;
        let count = self.number::<2>(PROGRAM_HEADER_COUNT_AT)? as usize;
        let header = |at: usize| Some((self.number::<4>(at)?, self.number::<8>(at + 16)? as usize, self.number::<8>(at + 40)? as usize));
        (0..count).map(|index| header(table + index * size)).collect()
    }

    fn dynamic_entry(self, wanted: u64) -> Option<usize> {
        let (_, start, size) = self.program_headers()?.into_iter().find(|(kind, ..)| *kind == PT_DYNAMIC)?;
        let found = (start..start + size).step_by(16).find(|at| self.number::<8>(*at) == Some(wanted))?;
        Some(self.number::<8>(found + 8)? as usize)
    }

    /// Returns the names of the functions, with their offsets and sizes.
    fn functions(self) -> Option<Vec<(&'static str, usize, usize)>> {
        let (names, symbols, hash) = (self.dynamic_entry(DT_STRTAB)?, self.dynamic_entry(DT_SYMTAB)?, self.dynamic_entry(DT_HASH)?);
        // The second word of the hash table is the number of symbols.
        let count = self.number::<4>(hash + 4)? as usize;
        let mut found = Vec::new();
        for at in (0..count).map(|index| symbols + index * SYMBOL_BYTES) {
            let name = self.0.get(names + self.number::<4>(at)? as usize..)?;
            let known = REPLACEMENTS.iter().find(|(known, _)| name.starts_with(known.as_bytes()) && name.get(known.len()) == Some(&0));
            if let Some((known, _)) = known {
                found.push((*known, self.number::<8>(at + 8)? as usize, self.number::<8>(at + 16)? as usize));
            }
        }
        Some(found)
    }
}

/// The name of a function, and the address of the function in its place.
type Replacement = (&'static str, fn() -> usize);

/// The functions of the vDSO that depend on the clock, the processor or chance, and those in their place.
static REPLACEMENTS: [Replacement; 5] = [
    ("__vdso_clock_gettime", || vdso_clock_gettime as *const () as usize),
    ("__vdso_gettimeofday", || vdso_gettimeofday as *const () as usize),
    ("__vdso_time", || vdso_time as *const () as usize),
    ("__vdso_getcpu", || vdso_getcpu as *const () as usize),
    ("__vdso_getrandom", || vdso_getrandom as *const () as usize),
];

/// Lets the clock functions of the vDSO jump here. Does nothing without a vDSO, or if the kernel
/// keeps its pages: then their reads trap.
pub fn replace() {
    // SAFETY: reads an entry of the auxiliary vector.
    let base = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
    if base != 0 {
        replace_at(base);
    }
}

fn replace_at(base: usize) -> Option<()> {
    // SAFETY: the vDSO begins with its headers, in a page of its own.
    let first = Image(unsafe { std::slice::from_raw_parts(base as *const u8, PAGE_BYTES) });
    let loads = first.program_headers()?.into_iter().filter(|(kind, ..)| *kind == PT_LOAD);
    let len = loads.map(|(_, start, size)| start + size).max()?.next_multiple_of(PAGE_BYTES);
    // SAFETY: the kernel has mapped all of the vDSO, and nothing writes to it.
    let functions = Image(unsafe { std::slice::from_raw_parts(base as *const u8, len) }).functions()?;
    let protect = |access| {
        // SAFETY: the pages are the private code of the vDSO and stay executable.
        unsafe { rustix::mm::mprotect(base as *mut _, len, access) }
    };
    protect(MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC).ok()?;
    for (name, start, size) in functions {
        let replacement = REPLACEMENTS.iter().find(|(known, _)| *known == name);
        if let Some((_, address)) = replacement.filter(|_| size >= JUMP_BYTES && start + JUMP_BYTES <= len) {
            let code = jump(address());
            // SAFETY: the pages are writable. The process has one thread at its start, and this
            // thread does not run in the vDSO now.
            unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), (base + start) as *mut u8, code.len()) };
        }
    }
    protect(MprotectFlags::READ | MprotectFlags::EXEC).ok()
}

/// Returns `movabs rax, address; jmp rax`.
fn jump(address: usize) -> [u8; JUMP_BYTES] {
    let mut code = [0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0];
    code[2..10].copy_from_slice(&address.to_le_bytes());
    code
}

/// Returns whether the calling thread reads the simulated clock. A thread inside a call of this
/// library to the C library does not.
fn is_simulated() -> bool {
    active() && !is_parked() && !is_away()
}

/// Returns the result of a system call as the vDSO does: a negative error number.
fn kernel_result(call: impl FnOnce() -> libc::c_long) -> c_int {
    keeping_errno(|| if call() == 0 { 0 } else { -errno() })
}

extern "C" fn vdso_clock_gettime(id: clockid_t, out: Out<timespec>) -> c_int {
    if is_simulated() {
        return kernel_result(|| clock::clock_gettime(id, out).into());
    }
    kernel_result(|| real::kernel_clock_gettime(id, out).into())
}

extern "C" fn vdso_gettimeofday(out: Out<timeval>, zone: Out<[c_int; 2]>) -> c_int {
    if is_simulated() {
        return kernel_result(|| clock::gettimeofday(out, zone).into());
    }
    // SAFETY: the kernel writes a `timeval` and two numbers, unless they are null.
    kernel_result(|| unsafe { kernel!(libc::SYS_gettimeofday, out.address(), zone.address()) })
}

extern "C" fn vdso_time(out: Out<time_t>) -> time_t {
    if is_simulated() {
        return clock::time(out);
    }
    // SAFETY: the kernel writes a `time_t`, unless the address is null.
    keeping_errno(|| unsafe { kernel!(libc::SYS_time, out.address()) })
}

extern "C" fn vdso_getcpu(processor: Out<c_uint>, node: Out<c_uint>, _unused: usize) -> c_int {
    if is_simulated() {
        processor.set(0);
        node.set(0);
        return 0;
    }
    // SAFETY: the kernel writes two numbers, unless they are null.
    kernel_result(|| unsafe { kernel!(libc::SYS_getcpu, processor.address(), node.address(), 0) })
}

/// Fills memory with random bytes, without the caller's state (Linux 6.11). Callers ask for the size of
/// the state first, by a length of all ones. They make the system call if there is no answer (Go).
///
/// # Safety
/// `data` has room for `len` bytes.
unsafe extern "C" fn vdso_getrandom(data: *mut c_void, len: usize, flags: c_uint, _state: *mut c_void, state_len: usize) -> isize {
    if state_len == usize::MAX {
        return -(libc::ENOSYS as isize);
    }
    keeping_errno(|| {
        // SAFETY: the caller has room for the bytes.
        let count = unsafe { if is_simulated() { getrandom(data, len, flags) } else { kernel!(libc::SYS_getrandom, data, len, flags) as isize } };
        if count < 0 { -(errno() as isize) } else { count }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vdso_of_this_machine_has_every_function() {
        // SAFETY: reads an entry of the auxiliary vector.
        let base = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
        if base == 0 {
            return;
        }
        // SAFETY: the vDSO has at least one page.
        let image = Image(unsafe { std::slice::from_raw_parts(base as *const u8, PAGE_BYTES) });
        let functions = image.functions().unwrap();
        // Linux before 6.11 has no random numbers there.
        assert!((REPLACEMENTS.len() - 1..=REPLACEMENTS.len()).contains(&functions.len()));
        assert!(functions.iter().all(|(_, start, size)| *start > 0 && *size >= JUMP_BYTES));
    }

    #[test]
    fn an_image_that_ends_early_has_no_functions() {
        assert!(Image(&[]).functions().is_none());
        assert!(Image(&[0; 64]).functions().is_none());
        let mut many = [0; 64];
        many[PROGRAM_HEADER_COUNT_AT] = 9;
        assert!(Image(&many).functions().is_none());
    }

    #[test]
    fn a_jump_leads_to_its_address() {
        let code = jump(0x1234_5678_9abc_def0);
        assert_eq!(code, [0x48, 0xb8, 0xf0, 0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0xff, 0xe0]);
    }
}
