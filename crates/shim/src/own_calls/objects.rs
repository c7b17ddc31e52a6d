//! The loaded objects, and their instructions for system calls.

use super::routes;
use crate::clib::symbols;
use crate::process::environment;
use crate::spin;
use iced_x86::{Decoder, DecoderOptions};
use std::arch::x86_64::{_mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
use std::ffi::{CStr, c_void};
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// `mov eax, NUMBER`
const NUMBER_TO_EAX: u8 = 0xb8;
const NUMBER_BYTES: usize = 5;
/// Most bytes of an instruction.
const INSTRUCTION_BYTES: usize = 15;
/// Bytes before the instruction at which decoding starts, and the number of starts.
const RUN_UP: usize = 128;
const STARTS: usize = 16;
/// Bytes after which a decoder has found the boundaries of instructions.
const ASTRAY: usize = 48;

/// Mark of the loaded objects at the last look.
static LOADED: AtomicU64 = AtomicU64::new(0);
/// Code that was searched, with the answer.
static SEARCHED: Mutex<Vec<(Range<usize>, bool)>> = Mutex::new(Vec::new());

/// An object that the loader describes.
struct Object {
    base: usize,
    /// Addresses of its code.
    code: Vec<Range<usize>>,
    /// Whether it belongs to the C library or to Softband.
    is_trusted: bool,
    /// Whether it makes system calls by own instructions.
    makes_calls: bool,
}

/// The loaded objects.
pub(super) struct Objects(Vec<Object>);

/// Start of the loader's list for debuggers (link.h).
#[repr(C)]
struct LoaderList {
    _version: libc::c_int,
    first: *const LoadedObject,
    _brake: usize,
    /// 0 unless the list changes.
    state: libc::c_int,
}

/// Start of an object in that list.
#[repr(C)]
struct LoadedObject {
    base: usize,
    _name: *const libc::c_char,
    _dynamic: *const c_void,
    next: *const Self,
}

/// Returns the loader's list. Looks for it once, at the start, because the search takes the lock.
fn loader_list() -> *const LoaderList {
    static LIST: AtomicPtr<LoaderList> = AtomicPtr::new(std::ptr::null_mut());
    let known = LIST.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name is a string.
    let list = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_r_debug".as_ptr()) }.cast();
    LIST.store(list, Ordering::Relaxed);
    list
}

/// Returns whether the loader has loaded an object since the last call. Takes no lock of the loader: a
/// program may hold it and wait for the calling thread. Only one thread of a process runs at a time, so
/// the list does not change meanwhile.
pub(super) fn has_news() -> bool {
    // SAFETY: the loader keeps this list for the life of the process.
    let Some(list) = (unsafe { loader_list().as_ref() }).filter(|list| list.state == 0) else { return false };
    let (mut loaded, mut object) = (0_u64, list.first);
    // SAFETY: each object of the list lives while it is there.
    while let Some(one) = unsafe { object.as_ref() } {
        loaded = loaded.rotate_left(7) ^ one.base as u64 ^ 1;
        object = one.next;
    }
    LOADED.swap(loaded, Ordering::Relaxed) != loaded
}

impl Objects {
    /// Searches the code of all objects. Remembers the answer for each.
    pub(super) fn search() -> Self {
        let mut objects = Self(all());
        let needed = objects.needed();
        if let Ok(mut searched) = SEARCHED.try_lock() {
            for object in objects.0.iter_mut().filter(|object| !object.is_trusted) {
                // Dispatch lets the calls of code within the range through anyway.
                let code = object.code.iter().filter(|code| !is_within(code, &needed));
                object.makes_calls = code.into_iter().any(|code| has_call_at(code, &mut searched));
            }
        }
        objects
    }

    /// Returns the addresses of the code of the C library and of this library, and all between. The
    /// range is empty if the C library cannot be found.
    fn needed(&self) -> Range<usize> {
        let own = spin::own_text();
        let c_library = symbols::find(c"syscall") as usize;
        let theirs = self.0.iter().flat_map(|object| &object.code).find(|code| code.contains(&c_library));
        theirs.map_or(0..0, |theirs| own.start.min(theirs.start)..own.end.max(theirs.end))
    }

    /// Returns whether an object makes calls that dispatch can stop.
    pub(super) fn make_calls(&self) -> bool {
        self.callers().next().is_some()
    }

    /// Returns the code of the objects that make calls.
    fn callers(&self) -> impl Iterator<Item = &Range<usize>> {
        self.0.iter().filter(|object| object.makes_calls).flat_map(|object| &object.code)
    }

    /// Returns the addresses whose calls stay as they are. The loader's code belongs to them if
    /// nothing between makes calls.
    pub(super) fn range_to_let_through(&self) -> Range<usize> {
        let (needed, loader) = (self.needed(), self.loader());
        if needed.is_empty() || loader.is_empty() {
            return needed;
        }
        let whole = needed.start.min(loader.start)..needed.end.max(loader.end);
        let is_clean = self.callers().all(|code| code.end <= whole.start || code.start >= whole.end);
        if is_clean { whole } else { needed }
    }

    /// Returns the addresses of the loader's code. The range is empty in a program without a loader.
    pub(super) fn loader(&self) -> Range<usize> {
        let base = auxiliary(libc::AT_BASE);
        let is_loader = |object: &&Object| base != 0 && object.base == base;
        self.0.iter().find(is_loader).and_then(|object| object.code.first().cloned()).unwrap_or(0..0)
    }
}

fn is_within(inner: &Range<usize>, outer: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

fn has_call_at(code: &Range<usize>, searched: &mut Vec<(Range<usize>, bool)>) -> bool {
    if let Some((_, found)) = searched.iter().find(|(known, _)| known == code) {
        return *found;
    }
    // SAFETY: the loader has mapped this code, and a look at it changes nothing.
    let found = has_call(unsafe { std::slice::from_raw_parts(code.start as *const u8, code.len()) });
    searched.push((code.clone(), found));
    found
}

fn auxiliary(kind: libc::c_ulong) -> usize {
    // SAFETY: the call takes a number and returns 0 for an unknown one.
    unsafe { libc::getauxval(kind) as usize }
}

fn all() -> Vec<Object> {
    let mut objects = Vec::new();
    // SAFETY: the callback has the required type, and the list lives during the call.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut objects).cast()) };
    objects
}

unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _size: usize, objects: *mut c_void) -> libc::c_int {
    // SAFETY: the caller passed a list of objects.
    let objects = unsafe { &mut *objects.cast::<Vec<Object>>() };
    // SAFETY: the loader describes an object that stays loaded during the call.
    let info = unsafe { &*info };
    // SAFETY: the loader states the number of headers at this address.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    // Code can be executable without being readable.
    let is_code =
        |header: &&libc::Elf64_Phdr| header.p_type == libc::PT_LOAD && header.p_flags & (libc::PF_X | libc::PF_R) == libc::PF_X | libc::PF_R;
    let code = headers.iter().filter(is_code).map(|header| {
        let start = info.dlpi_addr as usize + header.p_vaddr as usize;
        start..start + header.p_filesz as usize
    });
    // SAFETY: the loader's name of an object is null or a C string.
    let name = if info.dlpi_name.is_null() { c"" } else { unsafe { CStr::from_ptr(info.dlpi_name) } };
    let object = Object { base: info.dlpi_addr as usize, code: code.collect(), is_trusted: is_trusted(info, name), makes_calls: false };
    objects.push(object);
    0
}

fn is_trusted(info: &libc::dl_phdr_info, name: &CStr) -> bool {
    let base = info.dlpi_addr as usize;
    if base != 0 && [auxiliary(libc::AT_BASE), auxiliary(libc::AT_SYSINFO_EHDR)].contains(&base) {
        return true;
    }
    is_of_c_library_or_own(name.to_bytes(), &environment::own_folder())
}

/// Returns whether a path names a part of the C library, or a library in the folder of this one.
fn is_of_c_library_or_own(path: &[u8], own_folder: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let Some(name) = path.file_name() else { return false };
    // Before version 2.34 of the GNU C library, threads and timers lay in files of their own.
    let parts = ["libc.so.6", "libpthread.so.0", "librt.so.1", "libanl.so.1"];
    parts.iter().any(|part| name == *part) || (!own_folder.as_os_str().is_empty() && path.parent() == Some(own_folder))
}

/// Returns whether code has an instruction for a system call that this library answers. Others, such
/// as those about private memory, are no reason for dispatch.
fn has_call(code: &[u8]) -> bool {
    let mut from = 0;
    while let Some(found) = find(&code[from..]) {
        let at = from + found;
        if number_before(code, at).is_none_or(routes::answers) && is_call(code, at) {
            return true;
        }
        from = at + 1;
    }
    false
}

/// Returns the first place of the instruction's two bytes.
fn find(code: &[u8]) -> Option<usize> {
    const LANES: usize = 16;
    let both = |at: usize| {
        // SAFETY: every processor of this architecture has these instructions.
        unsafe {
            let (first, second) = (_mm_set1_epi8(SYSCALL[0].cast_signed()), _mm_set1_epi8(SYSCALL[1].cast_signed()));
            // SAFETY: the caller has checked that 17 bytes lie at the offset.
            let (here, behind) = (_mm_loadu_si128(code.as_ptr().add(at).cast()), _mm_loadu_si128(code.as_ptr().add(at + 1).cast()));
            _mm_movemask_epi8(_mm_and_si128(_mm_cmpeq_epi8(here, first), _mm_cmpeq_epi8(behind, second)))
        }
    };
    let mut at = 0;
    while at + LANES < code.len() {
        let found = both(at);
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize);
        }
        at += LANES;
    }
    code[at..].windows(SYSCALL.len()).position(|pair| pair == SYSCALL).map(|found| at + found)
}

/// Returns the number of the system call, if the instruction before it loads the number.
fn number_before(code: &[u8], at: usize) -> Option<libc::c_long> {
    let [NUMBER_TO_EAX, number @ ..] = code.get(at.checked_sub(NUMBER_BYTES)?..at)? else { return None };
    Some(i32::from_le_bytes(number.try_into().ok()?).into())
}

/// Returns whether the two bytes at an offset are the instruction. They also occur within others.
/// A decoder finds the boundaries of instructions after a few, wherever it starts. So nearly all
/// starts must lead to the offset.
fn is_call(code: &[u8], at: usize) -> bool {
    let first = at.saturating_sub(RUN_UP);
    let starts = first..(first + STARTS).min(at + 1);
    let (all, needed) = (starts.len(), starts.len() - starts.len() / 4);
    let mut missed = 0;
    for start in starts {
        missed += usize::from(!leads_to(code, start, at));
        if all - missed < needed {
            return false;
        }
    }
    true
}

/// Returns whether a decoder that starts at an offset finds an instruction at another one. Off the
/// boundaries it can meet bytes that are no instruction, and goes on behind the first of them. After a
/// while it has found the boundaries, unless the bytes are data.
fn leads_to(code: &[u8], start: usize, at: usize) -> bool {
    // An instruction that begins before the offset can end behind it.
    let end = (at + INSTRUCTION_BYTES).min(code.len());
    let mut decoder = Decoder::new(64, &code[start..end], DecoderOptions::NONE);
    while start + decoder.position() < at {
        let here = decoder.position();
        if decoder.decode().is_invalid() && (here >= ASTRAY || decoder.set_position(here + 1).is_err()) {
            return false;
        }
    }
    start + decoder.position() == at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_is_a_call_and_the_two_bytes_in_another_are_none() {
        let has = |code: &[u8]| has_call(&[&[0x90; 80], code, &[0x90; 8]].concat());
        assert!(has(&[0xb8, 0xca, 0, 0, 0, 0x0f, 0x05]), "a number before it");
        assert!(has(&[0x48, 0x89, 0xdf, 0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff]), "a check behind it");
        assert!(!has(&[0xb8, 0x0c, 0, 0, 0, 0x0f, 0x05]), "brk");
        assert!(has(&[0x89, 0xd0, 0x0f, 0x05, 0x48, 0x01, 0xc3]), "neither");
        assert!(!has(&[0x8b, 0x05, 0x0f, 0x05, 0x02, 0x00]), "an offset");
        assert!(!has(&[0x48, 0xb8, 1, 2, 3, 0x0f, 0x05, 6, 7, 8]), "a constant");
        assert!(!has(&[0xe8, 0x0f, 0x05, 0, 0]), "a distance");
        assert!(!has_call(&[0x0f]) && !has_call(&[]) && has_call(&SYSCALL));
    }

    #[test]
    fn starts_off_the_boundaries_find_the_call_behind_bytes_that_are_no_instruction() {
        // The end of a function of the C compiler, and a call. Some displacements are no instruction.
        let code = [
            0xf3, 0x0f, 0x1e, 0xfa, 0x80, 0x3d, 0x15, 0x2f, 0, 0, 0, 0x75, 0x2b, 0x55, 0x48, 0x83, 0x3d, 0xca, 0x2e, 0, 0, 0, 0x48, 0x89, 0xe5, 0x74,
            0x0c, 0x48, 0x8b, 0x3d, 0xf6, 0x2e, 0, 0, 0xe8, 0x29, 0xff, 0xff, 0xff, 0xe8, 0x64, 0xff, 0xff, 0xff, 0xc6, 0x05, 0xed, 0x2e, 0, 0, 1,
            0x5d, 0xc3, 0x0f, 0x1f, 0, 0xc3, 0x0f, 0x1f, 0x80, 0, 0, 0, 0, 0xf3, 0x0f, 0x1e, 0xfa, 0xe9, 0x77, 0xff, 0xff, 0xff, 0x53, 0xb8, 0x27, 0,
            0, 0, 0x0f, 0x05, 0x48, 0x89, 0xc3,
        ];
        // A run-up of 128 bytes begins in the function before.
        let before = [
            0x29, 0xfe, 0x48, 0x89, 0xf0, 0x48, 0xc1, 0xee, 0x3f, 0x48, 0xc1, 0xf8, 3, 0x48, 1, 0xc6, 0x48, 0xd1, 0xfe, 0x74, 0x14, 0x48, 0x8b, 5,
            0xed, 0x2e, 0, 0, 0x48, 0x85, 0xc0, 0x74, 8, 0xff, 0xe0, 0x66, 0x0f, 0x1f, 0x44, 0, 0, 0xc3, 0x0f, 0x1f, 0x80, 0, 0, 0, 0,
        ];
        assert!(has_call(&[&before[..], &code].concat()));
    }

    #[test]
    fn the_c_library_and_own_libraries_do_not_count() {
        let own = Path::new("/opt/softband/lib");
        for path in ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libpthread.so.0", "/opt/softband/lib/libsoftband_pmi.so"] {
            assert!(is_of_c_library_or_own(path.as_bytes(), own), "{path}");
        }
        for path in ["", "/usr/lib/libgomp.so.1", "/opt/softband/lib/other/libx.so"] {
            assert!(!is_of_c_library_or_own(path.as_bytes(), own), "{path}");
            assert!(!is_of_c_library_or_own(path.as_bytes(), Path::new("")), "{path}");
        }
    }

    #[test]
    fn calls_of_the_c_library_and_of_this_code_stay_as_they_are() {
        let range = Objects::search().range_to_let_through();
        let own = has_call as *const () as usize;
        assert!(range.contains(&own) && range.contains(&(symbols::find(c"syscall") as usize)));
    }

    #[test]
    fn an_object_that_makes_calls_bounds_the_range() {
        let mut objects = Objects::search();
        objects.0.iter_mut().for_each(|object| object.makes_calls = false);
        let (needed, loader) = (objects.needed(), objects.loader());
        assert!(!objects.make_calls() && is_within(&loader, &objects.range_to_let_through()));
        let code = if loader.start < needed.start { loader.end..needed.start } else { needed.end..loader.start };
        objects.0.push(Object { base: 1, code: vec![code], is_trusted: false, makes_calls: true });
        assert!(objects.make_calls());
        assert_eq!(objects.range_to_let_through(), needed);
    }
}
