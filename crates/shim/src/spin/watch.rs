//! Watches the memory that peers may write, by removal of its access rights.
//!
//! After the engine's signal, this module watches all of it until it finds the loop that spins. From
//! then on, it watches only a page of that loop (a hot page), from the start of each turn.

use super::machine::{Access, FIRST_STEPS, Known, Machine, Site, Verdict};
use super::rounds::Outcome;
use super::steps::{self, Suspicion};
use super::{emulate, is_own, probe, registers};
use crate::shared::{guard, looks, ranges};
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

/// Set during a change of access rights.
static CHANGING: AtomicBool = AtomicBool::new(false);
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
/// The pages on which this process spun. Pages and [`Known`] follow from proofs alone, and proofs from
/// the program's own course, so they are the same in each run.
static HOT: [AtomicUsize; HOT_MAX] = [const { AtomicUsize::new(0) }; HOT_MAX];
static HOT_NEXT: AtomicUsize = AtomicUsize::new(0);
/// The hot pages that are watched from the start of this turn, each or 0.
static HOT_CLOSED: [AtomicUsize; HOT_MAX] = [const { AtomicUsize::new(0) }; HOT_MAX];

/// Histories of accesses.
struct History {
    /// Accesses to hot pages, from the start of the turn.
    hot: Machine,
    /// Accesses to other memory since a signal of the engine. Where it begins depends on the machine.
    suspect: Machine,
    known: Known,
}

struct Shared(UnsafeCell<History>);
// SAFETY: only the thread that has the token faults here, because others run nothing. Its handlers
// do not nest here.
unsafe impl Sync for Shared {}
static HISTORY: Shared = Shared(UnsafeCell::new(History { hot: Machine::new(), suspect: Machine::new(), known: Known::new() }));

fn protect(start: usize, end: usize, rights: libc::c_int) -> bool {
    CHANGING.store(true, Ordering::Release);
    // SAFETY: the range is registered memory of the program. The program has these rights itself,
    // because peers may write the memory.
    let done = unsafe { kernel!(libc::SYS_mprotect, start, end - start, rights) == 0 };
    CHANGING.store(false, Ordering::Release);
    done
}

/// Returns whether access rights are about to change. A signal must neither begin nor end a watch then.
pub fn is_changing() -> bool {
    CHANGING.load(Ordering::Acquire)
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
pub fn close_admitted(mapping: &ranges::Mapping) {
    let ranges = RANGES[..RANGE_COUNT.load(Ordering::Acquire)].iter();
    let suspect = ranges.map(|range| range.start.load(Ordering::Relaxed)..range.end.load(Ordering::Relaxed));
    for watched in suspect.chain(hot_closed().map(|page| page..page + PAGE)) {
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
    end_suspicion();
    for region in regions::iter().filter(|region| region.remote_writable) {
        let (start, end) = pages_of(&region);
        close(start, end);
    }
    for mapping in ranges::iter().filter(|mapping| mapping.is_shared()) {
        close(mapping.start, mapping.end);
    }
}

pub fn is_near_stack(start: usize, end: usize) -> bool {
    let marker = 0u8;
    let stack = (&raw const marker).addr();
    start < stack + STACK_ABOVE && end > stack.saturating_sub(STACK_BELOW)
}

/// Makes a range inaccessible, unless it is near the stack.
fn close(start: usize, end: usize) {
    let count = RANGE_COUNT.load(Ordering::Acquire);
    if is_near_stack(start, end) || count == RANGES_MAX {
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
    if !ARMED.load(Ordering::Acquire) {
        return;
    }
    for page in HOT_CLOSED.iter().map(|page| page.swap(0, Ordering::AcqRel)).filter(|page| *page != 0) {
        open(page, page + PAGE);
    }
    end_suspicion();
}

/// Gives the access rights back, but to the hot pages that are watched from the start of the turn.
pub fn end_suspicion() {
    let is_hot = hot_closed().count() > 0;
    if !ARMED.swap(is_hot, Ordering::AcqRel) {
        return;
    }
    STEP_COUNT.store(0, Ordering::Release);
    for range in &RANGES[..RANGE_COUNT.swap(0, Ordering::AcqRel)] {
        open(range.start.load(Ordering::Relaxed), range.end.load(Ordering::Relaxed));
    }
    for page in hot_closed() {
        protect(page, page + PAGE, libc::PROT_NONE);
    }
}

/// Stops to watch hot pages from the start of the turn.
fn end_hot() {
    for page in HOT_CLOSED.iter().map(|page| page.swap(0, Ordering::AcqRel)).filter(|page| *page != 0) {
        if !is_watched(page) {
            open(page, page + PAGE);
        }
    }
    ARMED.store(RANGE_COUNT.load(Ordering::Acquire) > 0, Ordering::Release);
}

fn hot_closed() -> impl Iterator<Item = usize> {
    HOT_CLOSED.iter().map(|page| page.load(Ordering::Acquire)).filter(|page| *page != 0)
}

fn is_hot(address: usize) -> bool {
    let page = address & !(PAGE - 1);
    hot_closed().any(|hot| hot == page)
}

pub fn is_watched(address: usize) -> bool {
    let ranges = &RANGES[..RANGE_COUNT.load(Ordering::Acquire)];
    is_hot(address) || ranges.iter().any(|range| (range.start.load(Ordering::Relaxed)..range.end.load(Ordering::Relaxed)).contains(&address))
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
    for (page, closed) in HOT.iter().map(|page| page.load(Ordering::Relaxed)).zip(&HOT_CLOSED).filter(|(page, _)| *page != 0) {
        let is_registered = |region: &regions::Region| {
            let (start, end) = pages_of(region);
            region.remote_writable && (start..end).contains(&page)
        };
        let is_shared = || ranges::at(page).is_some_and(|mapping| mapping.is_shared());
        let is_foreign = regions::iter().any(|region| is_registered(&region)) || is_shared();
        if is_foreign && !is_near_stack(page, page + PAGE) && protect(page, page + PAGE, libc::PROT_NONE) {
            closed.store(page, Ordering::Release);
            ARMED.store(true, Ordering::Release);
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
    if looks::on_fault(address, machine) {
        return true;
    }
    let admitted = if registers::is_write(machine) { guard::admit(address, machine) } else { None };
    if let Some(mapping) = admitted
        && ARMED.load(Ordering::Acquire)
    {
        close_admitted(&mapping);
    }
    if !ARMED.load(Ordering::Acquire) || !is_watched(address) {
        return admitted.is_some();
    }
    let site = Site { address, instruction: registers::instruction(machine) };
    if is_own(site.instruction) || !client::has_slot() {
        if is_hot(address) || !client::has_slot() {
            disarm()
        } else {
            end_suspicion()
        }
        return true;
    }
    // The second operand of a stepped instruction is not an access of its own.
    let verdict = if STEP_COUNT.load(Ordering::Acquire) > 0 { Verdict::Watch } else { judge(site, machine) };
    match verdict {
        Verdict::Bulk => {
            if is_hot(address) {
                end_hot()
            } else {
                end_suspicion()
            }
            return true;
        }
        Verdict::Spin => prove(site, is_hot(address)),
        Verdict::Step => {
            let suspicion = if is_hot(address) { Suspicion::Hot } else { Suspicion::Access };
            if suspicion == Suspicion::Hot {
                // What these steps see must not depend on a signal of the engine.
                end_suspicion();
            }
            steps::begin(site, suspicion, steps_allowed(site, suspicion), machine);
            go_on(machine);
        }
        Verdict::Watch => {}
    }
    if STEP_COUNT.load(Ordering::Acquire) > 0 || !carry_out(address, machine) {
        step_over(address, machine);
    } else {
        go_on(machine);
    }
    true
}

/// Returns the limit of the steps through a loop with an access. A rest follows steps in vain, so
/// each next attempt may take longer.
fn steps_allowed(site: Site, suspicion: Suspicion) -> u32 {
    // SAFETY: this thread has the token, so no other thread is here (`Shared`).
    let history = unsafe { &*HISTORY.0.get() };
    match suspicion {
        Suspicion::Hot => steps::STEPS_MIN,
        _ => (steps::STEPS_MIN / FIRST_STEPS).saturating_mul(history.suspect.looks(site)).min(steps::STEPS_MAX),
    }
}

/// Gives the token away in a proven spin.
fn prove(site: Site, is_hot: bool) {
    make_hot(site.address);
    // SAFETY: this thread has the token, so no other thread is here (`Shared`).
    let history = unsafe { &mut *HISTORY.0.get() };
    history.known.add(site);
    let machine = if is_hot { &history.hot } else { &history.suspect };
    if machine.distinct() == 1 {
        client::spin_wait_at(site.address, OPERAND_BYTES);
    } else {
        client::spin_wait();
    }
}

/// Goes on with steps through a loop, if they are under way.
pub fn go_on(machine: &mut libc::ucontext_t) {
    let Some(end) = steps::before_instruction(machine) else { return };
    // SAFETY: this thread has the token, so no other thread is here (`Shared`).
    let history = unsafe { &*HISTORY.0.get() };
    let is_hot = end.suspicion == Suspicion::Hot;
    let is_spin = match end.suspicion {
        Suspicion::Hot => history.hot.is_spin(end.start, end.outcome),
        Suspicion::Access => history.suspect.is_spin(end.start, end.outcome),
        Suspicion::Registers => return probe::conclude(end.outcome == Outcome::Endless, machine),
    };
    if is_spin {
        return prove(end.first, is_hot);
    }
    if end.outcome == Outcome::Works {
        if is_hot { end_hot() } else { end_suspicion() }
    }
    if !is_hot {
        probe::rest();
    }
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

fn judge(site: Site, machine: &libc::ucontext_t) -> Verdict {
    FAULTS.fetch_add(1, Ordering::AcqRel);
    // A probe sees no accesses to watched memory.
    probe::stop();
    let access = Access { site, fingerprint: registers::fingerprint(machine), is_write: registers::is_write(machine), progress: client::progress() };
    if steps::is_running() {
        let is_foreign = is_hot(site.address) && steps::suspicion() != Suspicion::Hot;
        if !access.is_write && !is_foreign {
            steps::note_access(site);
            return Verdict::Watch;
        }
        steps::stop();
    }
    // SAFETY: no reference to the history outlives a fault, and faults do not nest (`Shared`).
    let history = unsafe { &mut *HISTORY.0.get() };
    if is_hot(site.address) { history.hot.look(access, Some(&history.known)) } else { history.suspect.look(access, None) }
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

/// Handles the end of a step over a watched access, or of a step through a loop. Returns false if no
/// step was under way.
pub fn on_trap(machine: &mut libc::ucontext_t) -> bool {
    let count = STEP_COUNT.swap(0, Ordering::AcqRel);
    if count == 0 && !steps::is_running() {
        return false;
    }
    for page in &STEP_PAGES[..count] {
        close_again(page.load(Ordering::Relaxed));
    }
    if steps::is_running() {
        go_on(machine);
    } else {
        registers::set_stepping(machine, false);
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
