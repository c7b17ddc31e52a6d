//! Watches the memory that peers may write, by removal of its access rights.
//!
//! After the engine's signal, this module watches all of it until it finds the access that spins.
//! From then on, it watches only the page of that access, from the start of each turn.

use super::machine::{Access, Machine, Verdict};
use super::{emulate, is_own, registers};
use crate::shared::{guard, ranges};
use softband_client::{self as client, regions};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

const PAGE: usize = 4096;
/// Most ranges watched at once.
const RANGES_MAX: usize = 64;
/// Most pages that an instruction accesses: two operands, each across a boundary.
const STEP_PAGES_MAX: usize = 4;
/// Bytes of the longest operand of an instruction: a vector register.
const OPERAND_BYTES: usize = 64;
/// Number of pages remembered for spins on them.
const HOT_MAX: usize = 8;
/// Consecutive turns without a spin after which a process that spun is no longer watched from the
/// start of its turns.
const TURNS_WATCHED: u32 = 64;
/// Distance in bytes around the stack pointer in which all pages stay accessible, because the
/// kernel puts the handler's frame there.
const STACK_BELOW: usize = 1 << 20;
const STACK_ABOVE: usize = 8 << 20;

static ARMED: AtomicBool = AtomicBool::new(false);
static FAULTS: AtomicU32 = AtomicU32::new(0);
/// Turns since the last proven spin; `u32::MAX` before the first spin.
static TURNS_SINCE: AtomicU32 = AtomicU32::new(u32::MAX);

struct Range {
    start: AtomicUsize,
    end: AtomicUsize,
}
static RANGES: [Range; RANGES_MAX] = [const { Range { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; RANGES_MAX];
static RANGE_COUNT: AtomicUsize = AtomicUsize::new(0);
/// Pages that are open during a step over an access.
static STEP_PAGES: [AtomicUsize; STEP_PAGES_MAX] = [const { AtomicUsize::new(0) }; STEP_PAGES_MAX];
static STEP_COUNT: AtomicUsize = AtomicUsize::new(0);
static HOT: [AtomicUsize; HOT_MAX] = [const { AtomicUsize::new(0) }; HOT_MAX];
static HOT_NEXT: AtomicUsize = AtomicUsize::new(0);

struct Shared(UnsafeCell<Machine>);
// SAFETY: only the thread that has the token faults here, because others run nothing. Its handlers
// do not nest here.
unsafe impl Sync for Shared {}
static MACHINE: Shared = Shared(UnsafeCell::new(Machine::new()));

fn protect(start: usize, end: usize, rights: libc::c_int) -> bool {
    // SAFETY: the range is registered memory of the program. The program has these rights itself,
    // because peers may write the memory.
    unsafe { kernel!(libc::SYS_mprotect, start, end - start, rights) == 0 }
}

/// Gives access rights back: those that the guard of shared memory has set, or all.
fn open(start: usize, end: usize) {
    let range = start..end;
    let shared = || ranges::iter().filter(|mapping| mapping.overlaps(&range));
    if !shared().any(|mapping| mapping.start <= start && end <= mapping.end) {
        protect(start, end, libc::PROT_READ | libc::PROT_WRITE);
    }
    for mapping in shared() {
        protect(mapping.start.max(start), mapping.end.min(end), mapping.present_rights());
    }
}

/// Closes the watched parts of a mapping again that the guard of shared memory has opened.
fn close_admitted(mapping: &ranges::Mapping) {
    for range in &RANGES[..RANGE_COUNT.load(Ordering::Acquire)] {
        let watched = range.start.load(Ordering::Relaxed)..range.end.load(Ordering::Relaxed);
        if mapping.overlaps(&watched) {
            protect(watched.start, watched.end, libc::PROT_NONE);
        }
    }
}

/// Returns the page range that contains a region.
fn pages_of(region: &regions::Region) -> (usize, usize) {
    (region.address & !(PAGE - 1), (region.address + region.len).next_multiple_of(PAGE))
}

/// Makes all memory that peers and other processes may write inaccessible.
pub fn arm() {
    disarm();
    for region in regions::iter().filter(|region| region.remote_writable) {
        let (start, end) = pages_of(&region);
        close(start, end);
    }
    for mapping in ranges::iter().filter(|mapping| mapping.is_shared()) {
        close(mapping.start, mapping.end);
    }
}

/// Makes a range inaccessible, unless it is near the stack.
fn close(start: usize, end: usize) {
    let marker = 0u8;
    let stack = (&raw const marker).addr();
    let near_stack = start < stack + STACK_ABOVE && end > stack.saturating_sub(STACK_BELOW);
    let count = RANGE_COUNT.load(Ordering::Acquire);
    if near_stack || count == RANGES_MAX {
        return;
    }
    if !protect(start, end, libc::PROT_NONE) {
        // The kernel stops at a hole, and has closed the pages before it.
        open(start, end);
        return;
    }
    RANGES[count].start.store(start, Ordering::Relaxed);
    RANGES[count].end.store(end, Ordering::Relaxed);
    RANGE_COUNT.store(count + 1, Ordering::Release);
    ARMED.store(true, Ordering::Release);
}

/// Gives the access rights back.
pub fn disarm() {
    if !ARMED.swap(false, Ordering::AcqRel) {
        return;
    }
    STEP_COUNT.store(0, Ordering::Release);
    for range in &RANGES[..RANGE_COUNT.swap(0, Ordering::AcqRel)] {
        open(range.start.load(Ordering::Relaxed), range.end.load(Ordering::Relaxed));
    }
}

fn is_watched(address: usize) -> bool {
    let ranges = &RANGES[..RANGE_COUNT.load(Ordering::Acquire)];
    ranges.iter().any(|range| (range.start.load(Ordering::Relaxed)..range.end.load(Ordering::Relaxed)).contains(&address))
}

/// Returns the number of faults since the last call.
pub fn take_fault_count() -> u32 {
    FAULTS.swap(0, Ordering::AcqRel)
}

/// Watches the pages on which this process spun, because the thread's turn has come.
pub fn token_came() {
    let since = TURNS_SINCE.load(Ordering::Relaxed);
    if since >= TURNS_WATCHED {
        return;
    }
    TURNS_SINCE.store(since + 1, Ordering::Relaxed);
    for page in HOT.iter().map(|page| page.load(Ordering::Relaxed)).filter(|page| *page != 0) {
        let is_registered = |region: &regions::Region| {
            let (start, end) = pages_of(region);
            region.remote_writable && (start..end).contains(&page)
        };
        let is_shared = || ranges::at(page).is_some_and(|mapping| mapping.is_shared());
        if !is_watched(page) && (regions::iter().any(|region| is_registered(&region)) || is_shared()) {
            close(page, page + PAGE);
        }
    }
}

fn make_hot(address: usize) {
    let page = address & !(PAGE - 1);
    if !HOT.iter().any(|hot| hot.load(Ordering::Relaxed) == page) {
        HOT[HOT_NEXT.fetch_add(1, Ordering::Relaxed) % HOT_MAX].store(page, Ordering::Relaxed);
    }
    TURNS_SINCE.store(0, Ordering::Relaxed);
}

/// Handles a fault: judges the access, lets it happen and steps over it.
pub fn on_fault(address: usize, machine: &mut libc::ucontext_t) -> bool {
    let admitted = if registers::is_write(machine) { guard::admit(address, machine) } else { None };
    if let Some(mapping) = admitted
        && ARMED.load(Ordering::Acquire)
    {
        close_admitted(&mapping);
    }
    if !ARMED.load(Ordering::Acquire) || !is_watched(address) {
        return admitted.is_some();
    }
    let instruction = registers::instruction(machine);
    if is_own(instruction) || !client::has_slot() {
        disarm();
        return true;
    }
    // The second operand of a stepped instruction is not an access of its own.
    let verdict = if STEP_COUNT.load(Ordering::Acquire) > 0 { Verdict::Watch } else { judge(instruction, address, machine) };
    match verdict {
        Verdict::Bulk => {
            disarm();
            return true;
        }
        Verdict::Spin => {
            make_hot(address);
            // SAFETY: this thread has the token, so no other thread is here (`Shared`).
            if unsafe { (*MACHINE.0.get()).looks_at_one() } {
                client::spin_wait_at(address, OPERAND_BYTES);
            } else {
                client::spin_wait();
            }
        }
        Verdict::Watch => {}
    }
    if STEP_COUNT.load(Ordering::Acquire) > 0 || !carry_out(address, machine) {
        step_over(address, machine);
    }
    true
}

/// Emulates the instruction if it only reads or only writes. The access must lie within one page.
fn carry_out(address: usize, machine: &mut libc::ucontext_t) -> bool {
    let at = registers::instruction(machine);
    let room = (PAGE - at % PAGE).min(emulate::INSTRUCTION_BYTES);
    // SAFETY: the processor has just executed from this page.
    let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, room) };
    // At the start of a page, the fault does not show whether the word starts there or before it.
    let is_within = |size: usize| address % PAGE + size <= PAGE && (size == 1 || !address.is_multiple_of(PAGE));
    let Some(instruction) = emulate::decode(bytes).filter(|instruction| is_within(instruction.size)) else { return false };
    let page = address & !(PAGE - 1);
    let is_closed = ARMED.load(Ordering::Acquire) && is_watched(address);
    if is_closed {
        open(page, page + PAGE);
    }
    let mut word = [0u8; 8];
    // SAFETY: the word is registered memory, accessible now, and does not leave the page.
    unsafe { std::ptr::copy_nonoverlapping(address as *const u8, word.as_mut_ptr(), instruction.size) };
    if let Some(written) = instruction.apply(u64::from_le_bytes(word), &mut machine.uc_mcontext.gregs) {
        // SAFETY: the word lies in registered memory, accessible now and within one page. The
        // program was about to write it.
        unsafe { std::ptr::copy_nonoverlapping(written.to_le_bytes().as_ptr(), address as *mut u8, instruction.size) };
    }
    if is_closed {
        close_again(page);
    }
    true
}

/// Closes a page that was open for an access. A signal of the engine during the access may have ended
/// the watch: the copy of a word can be a function of the C library, where this library takes signals.
fn close_again(page: usize) {
    if ARMED.load(Ordering::Acquire) && is_watched(page) {
        protect(page, page + PAGE, libc::PROT_NONE);
    }
}

fn judge(instruction: usize, address: usize, machine: &libc::ucontext_t) -> Verdict {
    FAULTS.fetch_add(1, Ordering::AcqRel);
    let access = Access {
        instruction,
        address,
        fingerprint: registers::fingerprint(machine),
        is_write: registers::is_write(machine),
        progress: client::progress(),
    };
    // SAFETY: no reference to the machine outlives a fault, and faults do not nest (`Shared`).
    unsafe { (*MACHINE.0.get()).look(access) }
}

/// Opens the page of the access, or both pages if it may cross into the next, and stops after the
/// instruction.
fn step_over(address: usize, machine: &mut libc::ucontext_t) {
    let first = address & !(PAGE - 1);
    let last = (address + OPERAND_BYTES) & !(PAGE - 1);
    for page in (first..=last).step_by(PAGE).filter(|page| is_watched(*page)) {
        let count = STEP_COUNT.load(Ordering::Acquire);
        if count == STEP_PAGES_MAX {
            disarm();
            return;
        }
        open(page, page + PAGE);
        STEP_PAGES[count].store(page, Ordering::Relaxed);
        STEP_COUNT.store(count + 1, Ordering::Release);
    }
    if STEP_COUNT.load(Ordering::Acquire) > 0 {
        registers::set_stepping(machine, true);
    }
}

/// Handles the end of a step over a watched access. Returns false if no step was under way.
pub fn on_trap(machine: &mut libc::ucontext_t) -> bool {
    let count = STEP_COUNT.swap(0, Ordering::AcqRel);
    if count == 0 {
        return false;
    }
    registers::set_stepping(machine, false);
    for page in &STEP_PAGES[..count] {
        let page = page.load(Ordering::Relaxed);
        protect(page, page + PAGE, libc::PROT_NONE);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_stays_open_if_the_watch_ends_during_the_access() {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // The watch leaves pages near the stack out, where the kernel would put a mapping of its choice.
        let far = 0x1000_0000_0000_usize as *mut libc::c_void;
        // SAFETY: a new mapping at this address or, if it is taken, at another.
        let page = unsafe { libc::mmap(far, PAGE, rights, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED);
        close(page as usize, page as usize + PAGE);
        assert!(is_watched(page as usize));
        open(page as usize, page as usize + PAGE);
        disarm();
        close_again(page as usize);
        // SAFETY: the page is mapped for reads and writes, unless the watch closed it, which ends the test.
        unsafe { page.cast::<u8>().write_volatile(1) };
    }
}
