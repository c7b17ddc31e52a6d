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

/// The tables of a library that stays loaded.
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
    /// `map` belongs to a library that stays loaded, and its tables follow the ABI.
    unsafe fn of(map: *const LinkMap) -> Self {
        // SAFETY: the loader keeps the map as long as the library.
        let (base, dynamic) = unsafe { ((*map).base, (*map).dynamic) };
        let value_of = |tag: i64| {
            let mut entry = dynamic;
            // The loader turns values into addresses, unless the section is read-only.
            let value = loop {
                // SAFETY: an entry with tag 0 ends the section, and `entry` does not move beyond it.
                let [found, value] = unsafe { entry.read() };
                if found == 0 || found == tag {
                    break value as usize;
                }
                // SAFETY: the entry is not the last.
                entry = unsafe { entry.add(1) };
            };
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

    /// Returns a word of the hash table: bucket count, first symbol, filter words, shift; filter of
    /// 64-bit words; buckets; chains.
    fn hash_word(&self, index: usize) -> u32 {
        // SAFETY: `find` follows the counts that the table states itself.
        unsafe { *self.hash.add(index) }
    }

    /// Returns a symbol of the hash table, or `None` for an older version of it.
    fn symbol(&self, index: usize) -> Option<&libc::Elf64_Sym> {
        // SAFETY: the hash table names only symbols that exist. A version for each follows the ABI.
        let is_current = self.versions.is_null() || unsafe { *self.versions.add(index) } & HIDDEN == 0;
        // SAFETY: the index comes from a bucket or its chain, which lie within the symbols.
        is_current.then(|| unsafe { &*self.symbols.add(index) })
    }

    fn name(&self, symbol: &libc::Elf64_Sym) -> &CStr {
        // SAFETY: a symbol's name is the offset of a string in the string table.
        unsafe { CStr::from_ptr(self.strings.add(symbol.st_name as usize)) }
    }

    /// Finds a symbol. Returns null if it is missing.
    fn find(&self, name: &CStr) -> *mut c_void {
        let (buckets, first, filter_words) = (self.hash_word(0), self.hash_word(1), self.hash_word(2));
        let bucket = 4 + 2 * filter_words as usize;
        let chain = bucket + buckets as usize;
        let hash = name.to_bytes().iter().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        let mut index = self.hash_word(bucket + (hash % buckets) as usize);
        while index >= first {
            let link = self.hash_word(chain + (index - first) as usize);
            if (link ^ hash) >> 1 == 0
                && let Some(symbol) = self.symbol(index as usize)
                && symbol.st_shndx != SHN_UNDEF
                && self.name(symbol) == name
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

    fn address(&self, symbol: &libc::Elf64_Sym) -> *mut c_void {
        let address = self.base + symbol.st_value as usize;
        if symbol.st_info & 0xf == STT_GNU_IFUNC {
            // SAFETY: the value of an indirect function is a function that returns the address.
            let choose: extern "C" fn() -> *mut c_void = unsafe { std::mem::transmute(address) };
            return choose();
        }
        address as *mut c_void
    }
}

/// Returns the C library's function with this name, or null if it has none.
pub fn find(name: &CStr) -> *mut c_void {
    let map = c_library();
    if map.is_null() {
        // SAFETY: the name is a string. RTLD_NEXT needs no library to be opened.
        return unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    }
    // SAFETY: the C library stays loaded for the life of the process, and its tables follow the
    // ABI.
    unsafe { Tables::of(map) }.find(name)
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
