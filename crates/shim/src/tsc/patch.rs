//! Rewrites counter reads of the program. A trapped read costs four microseconds of host time; a
//! jump to this library costs a tenth.
//!
//! The trap handler notes each read that traps often. Later, a thread with the token turns the read
//! into a jump to a thunk. No handler may run then, because it could have interrupted these very
//! instructions. The thunk calls `softband_tsc_entry`, runs the instructions that the jump
//! covers, and jumps back. A read that cannot be rewritten safely (see [`super::site`]) continues
//! to trap. Simulated time is the same either way.

use super::site::{JUMP_BYTES, MOVED_MAX, moved_bytes};
use crate::signal::actions;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Traps of a place before its rewrite; a rewrite does not pay for fewer.
const TRAPS_NEEDED: u64 = 32;
/// Number of places with a trap count. Reads at further places always trap.
const PLACES: usize = 64;
/// Most bytes of text searched for jumps into a rewritten place.
const TEXT_MAX: usize = 16 << 20;
const ARENA_BYTES: usize = 16 * 1024;
const THUNK_BYTES: usize = 80;
/// Largest distance in bytes from an arena to its code. A jump reaches two gigabytes; this is well
/// within.
const REACH: usize = 1 << 30;
const PAGE_BYTES: usize = 4096;

/// Addresses of trapped reads, and their trap counts. A place is assigned permanently.
static PLACE: [AtomicUsize; PLACES] = [const { AtomicUsize::new(0) }; PLACES];
static TRAPS: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
/// Bit mask of the places that are due.
static DUE: AtomicU64 = AtomicU64::new(0);
const _: () = assert!(PLACES <= u64::BITS as usize);

/// Notes a trapped read at `at`. Called in the trap handler.
pub(crate) fn note_trap(at: usize) {
    for place in 0..PLACES {
        let known = match PLACE[place].compare_exchange(0, at, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => at,
            Err(known) => known,
        };
        if known == at {
            if TRAPS[place].fetch_add(1, Ordering::Relaxed) + 1 == TRAPS_NEEDED {
                DUE.fetch_or(1 << place, Ordering::AcqRel);
            }
            return;
        }
    }
}

/// Rewrites due places. Called in ordinary context by a thread that has the token.
#[inline]
pub fn rewrite_due() {
    if DUE.load(Ordering::Relaxed) != 0 && !actions::is_any_handler_running() {
        rewrite_noted();
    }
}

#[cold]
fn rewrite_noted() {
    let due = DUE.swap(0, Ordering::AcqRel);
    for place in (0..PLACES).filter(|place| due & 1 << place != 0) {
        // A place that cannot be rewritten continues to trap.
        let _ = rewrite(PLACE[place].load(Ordering::Acquire));
    }
}

fn rewrite(at: usize) -> Option<()> {
    let text = text_around(at)?;
    // SAFETY: the mapping of the program's own code existed just now; this code only reads it.
    let bytes = unsafe { std::slice::from_raw_parts(text.start as *const u8, text.len()) };
    let offset = at - text.start;
    let len = super::instruction_len([*bytes.get(offset)?, *bytes.get(offset + 1)?, *bytes.get(offset + 2)?])?;
    let moved = moved_bytes(bytes, text.start as u64, offset, len)?;
    // A jump within a word is stored at once. A thread outside this library's control then sees the
    // old or the new code, never half of each.
    if !fits_into_a_word(at) && !has_one_thread() {
        return None;
    }
    let thunk = arenas().lock().ok()?.thunk(at, len, &bytes[offset + len..offset + moved])?;
    let code = jump(at, thunk)?;
    let pages = at & !(PAGE_BYTES - 1)..(at + JUMP_BYTES).next_multiple_of(PAGE_BYTES);
    let protect = |access| {
        // SAFETY: the pages are mapped, private code of the program and stay executable all the
        // time.
        unsafe { rustix::mm::mprotect(pages.start as *mut _, pages.len(), access) }
    };
    protect(MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC).ok()?;
    // SAFETY: just made writable; no thread executes these bytes unless they fit into a word.
    unsafe { store(at, &code) };
    let _ = protect(MprotectFlags::READ | MprotectFlags::EXEC);
    Some(())
}

fn fits_into_a_word(at: usize) -> bool {
    at % size_of::<u64>() + JUMP_BYTES <= size_of::<u64>()
}

fn has_one_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

/// Stores a jump, at once if it lies within a word.
///
/// # Safety
/// The bytes are writable.
unsafe fn store(at: usize, code: &[u8; JUMP_BYTES]) {
    if !fits_into_a_word(at) {
        // SAFETY: the bytes are writable, and `code` lies elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), at as *mut u8, code.len()) };
        return;
    }
    let start = at & !(size_of::<u64>() - 1);
    // SAFETY: the aligned word around the bytes lies in the same writable page.
    let word = unsafe { &*(start as *const AtomicU64) };
    let mut new = word.load(Ordering::Acquire).to_le_bytes();
    new[at - start..at - start + JUMP_BYTES].copy_from_slice(code);
    word.store(u64::from_le_bytes(new), Ordering::Release);
}

/// Returns a `jmp` from one address to another. Returns `None` if the distance does not fit.
fn jump(from: usize, to: usize) -> Option<[u8; JUMP_BYTES]> {
    let distance = i32::try_from(to as i64 - (from + JUMP_BYTES) as i64).ok()?.to_le_bytes();
    Some([0xe9, distance[0], distance[1], distance[2], distance[3]])
}

/// Returns the file mapping of code that contains `at`.
fn text_around(at: usize) -> Option<std::ops::Range<usize>> {
    // Mapped files may have any name.
    let maps = std::fs::read("/proc/self/maps").ok()?;
    String::from_utf8_lossy(&maps).lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (range, access) = (fields.next()?, fields.next()?);
        let (start, end) = range.split_once('-')?;
        let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        let is_file = fields.nth(3).is_some_and(|path| path.starts_with('/'));
        (range.contains(&at) && access == "r-xp" && is_file && range.len() <= TEXT_MAX).then_some(range)
    })
}

/// Executable memory near the code that jumps into it.
#[derive(Debug)]
struct Arena {
    start: usize,
    used: usize,
}

#[derive(Debug, Default)]
struct Arenas(Vec<Arena>);

fn arenas() -> &'static Mutex<Arenas> {
    static ARENAS: Mutex<Arenas> = Mutex::new(Arenas(Vec::new()));
    &ARENAS
}

impl Arenas {
    /// Writes the thunk for the read of `len` bytes at `at`, followed by the instructions `moved`.
    /// Returns its address.
    fn thunk(&mut self, at: usize, len: usize, moved: &[u8]) -> Option<usize> {
        let known = self.0.iter().position(|arena| arena.start.abs_diff(at) < REACH && arena.used + THUNK_BYTES <= ARENA_BYTES);
        let index = match known {
            Some(index) => index,
            None => {
                self.0.push(Arena { start: map_near(at)?, used: 0 });
                self.0.len() - 1
            }
        };
        let arena = &mut self.0[index];
        let start = arena.start + arena.used;
        let code = thunk_code(start, at, len, moved)?;
        // SAFETY: the room lies in the arena, and no thunk uses it yet.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), start as *mut u8, code.len()) };
        arena.used += THUNK_BYTES;
        Some(start)
    }
}

fn map_near(at: usize) -> Option<usize> {
    let access = ProtFlags::READ | ProtFlags::WRITE | ProtFlags::EXEC;
    let page = at & !(PAGE_BYTES - 1);
    (1..REACH >> 20).flat_map(|step| [page.checked_add(step << 20), page.checked_sub(step << 20)]).flatten().find_map(|hint| {
        // SAFETY: a new mapping at an unused address.
        unsafe { rustix::mm::mmap_anonymous(hint as *mut _, ARENA_BYTES, access, MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE) }
            .ok()
            .map(|start| start as usize)
    })
}

/// Returns the code of the thunk at `start`: leave the red zone, call, return to it, run the moved
/// instructions, jump back.
fn thunk_code(start: usize, at: usize, len: usize, moved: &[u8]) -> Option<Vec<u8>> {
    const RDTSCP_LEN: usize = 3;
    assert!(moved.len() <= MOVED_MAX);
    let mut code = vec![0x48, 0x8d, 0x64, 0x24, 0x80]; // lea rsp, [rsp-128]: flags stay
    code.extend([0xff, 0x15]); // call [rip+n]
    let call_operand = code.len();
    code.extend([0; 4]);
    code.extend([0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]); // lea rsp, [rsp+128]
    if len == RDTSCP_LEN {
        code.extend([0xb9, 0, 0, 0, 0]); // mov ecx, 0: processor 0, always
    }
    code.extend(moved);
    code.extend(jump(start + code.len(), at + len + moved.len())?);
    let entry = THUNK_BYTES - size_of::<usize>();
    code[call_operand..call_operand + 4].copy_from_slice(&((entry - call_operand - 4) as u32).to_le_bytes());
    code.resize(entry, 0xcc);
    code.extend((super::entry::address()).to_le_bytes());
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thunk_returns_behind_what_it_moved_and_names_the_entry() {
        let code = thunk_code(0x1000_0000, 0x1010_0000, 2, &[0x48, 0xc1, 0xe2, 0x20]).unwrap();
        assert_eq!(code.len(), THUNK_BYTES);
        assert!(iced_x86::Decoder::with_ip(64, &code, 0x1000_0000, 0).into_iter().any(|i| i.near_branch_target() == 0x1010_0006));
        assert_eq!(code[THUNK_BYTES - 8..], super::super::entry::address().to_le_bytes());
        assert!(thunk_code(0x1000_0000, 0x7f00_0000_0000, 2, &[0x90]).is_none());
    }
}
