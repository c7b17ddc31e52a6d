//! Finds the functions of the C library in its own tables. `dlopen` is unsuitable, because it
//! allocates. The program's allocator (jemalloc) may then take a mutex, which leads back here.
//! `dlsym` is unsuitable, because it needs `dlopen`.

use libc::{Dl_info, c_char, c_int, c_void};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Requests the link map in addition to the address (dlfcn.h).
const RTLD_DL_LINKMAP: c_int = 2;
/// Tags of the dynamic section (elf.h).
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;
const DT_VERSYM: i64 = 0x6fff_fff0;
/// Version flag of a symbol to which new programs do not link.
const HIDDEN: u16 = 0x8000;
const SHN_UNDEF: u16 = 0;
const STT_GNU_IFUNC: u8 = 10;

/// The public part of `struct link_map`.
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: *const [i64; 2],
}

fn c_library() -> *const LinkMap {
    static LIBRARY: AtomicPtr<LinkMap> = AtomicPtr::new(std::ptr::null_mut());
    let known = LIBRARY.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    let (mut about, mut map) = (MaybeUninit::<Dl_info>::uninit(), std::ptr::null_mut());
    let inside: unsafe extern "C" fn() -> *const c_char = libc::gnu_get_libc_version;
    // SAFETY: both results have the requested type.
    unsafe { libc::dladdr1(inside as *const c_void, about.as_mut_ptr(), &raw mut map, RTLD_DL_LINKMAP) };
    LIBRARY.store(map.cast(), Ordering::Relaxed);
    map.cast()
}

/// The tables of a loaded library.
struct Tables {
    base: usize,
    strings: *const c_char,
    symbols: *const libc::Elf64_Sym,
    versions: *const u16,
    hash: *const u32,
}

impl Tables {
    /// Returns the tables of a library.
    ///
    /// # Safety
    /// `map` belongs to a loaded library.
    unsafe fn of(map: *const LinkMap) -> Self {
        let base = (*map).base;
        let value_of = |tag: i64| {
            let mut entry = (*map).dynamic;
            while (*entry)[0] != 0 && (*entry)[0] != tag {
                entry = entry.add(1);
            }
            // The loader turns values into addresses, unless the section is read-only.
            let value = (*entry)[1] as usize;
            if value != 0 && value < base { base + value } else { value }
        };
        Self {
            base,
            strings: value_of(DT_STRTAB) as *const c_char,
            symbols: value_of(DT_SYMTAB) as *const libc::Elf64_Sym,
            versions: value_of(DT_VERSYM) as *const u16,
            hash: value_of(DT_GNU_HASH) as *const u32,
        }
    }

    /// Finds a symbol in the hash table (bucket count, first symbol, filter words, shift; filter of
    /// 64-bit words; buckets; chains). Returns null if it is missing.
    unsafe fn find(&self, name: &CStr) -> *mut c_void {
        let [buckets, first, filter_words, _] = *self.hash.cast::<[u32; 4]>();
        let bucket = self.hash.add(4 + 2 * filter_words as usize);
        let chain = bucket.add(buckets as usize);
        let hash = name.to_bytes().iter().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        let mut index = *bucket.add((hash % buckets) as usize);
        while index >= first {
            let link = *chain.add((index - first) as usize);
            let symbol = &*self.symbols.add(index as usize);
            let is_current = self.versions.is_null() || *self.versions.add(index as usize) & HIDDEN == 0;
            if (link ^ hash) >> 1 == 0
                && is_current
                && symbol.st_shndx != SHN_UNDEF
                && CStr::from_ptr(self.strings.add(symbol.st_name as usize)) == name
            {
                return self.address(symbol);
            }
            if link & 1 != 0 {
                break;
            }
            index += 1;
        }
        std::ptr::null_mut()
    }

    unsafe fn address(&self, symbol: &libc::Elf64_Sym) -> *mut c_void {
        let address = self.base + symbol.st_value as usize;
        if symbol.st_info & 0xf == STT_GNU_IFUNC {
            let choose: extern "C" fn() -> *mut c_void = std::mem::transmute(address);
            return choose();
        }
        address as *mut c_void
    }
}

/// Returns the C library's function with this name, or null if it has none.
pub fn find(name: &CStr) -> *mut c_void {
    // SAFETY: the C library stays loaded for the life of the process, and its tables follow the
    // ABI.
    unsafe {
        let map = c_library();
        if map.is_null() {
            return libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        }
        Tables::of(map).find(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_what_the_dynamic_linker_finds() {
        // Some names have older versions, one resolves at run time, and one does not exist.
        for name in [c"pthread_cond_wait", c"sem_post", c"open", c"clock_gettime", c"time", c"poll", c"fopen", c"no_such_function"] {
            // SAFETY: a name, and the handle of a library that stays loaded.
            let expected = unsafe { libc::dlsym(libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY), name.as_ptr()) };
            assert_eq!(find(name), expected, "{name:?}");
        }
    }
}
