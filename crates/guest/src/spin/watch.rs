//! Watching the memory that peers may write, by taking its access rights away.

use super::machine::{Access, Machine, Verdict};
use super::{is_own, registers};
use softband_client::{self as client, regions};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

const PAGE: usize = 4096;
/// Ranges that are watched at once.
const RANGES_MAX: usize = 64;
/// A process that was proven to spin is watched from the start of its turns until it has had so many without.
const TURNS_WATCHED: u32 = 64;
/// Around the stack pointer nothing is made inaccessible: the kernel puts the handler's frame there.
const STACK_BELOW: usize = 1 << 20;
const STACK_ABOVE: usize = 8 << 20;

static ARMED: AtomicBool = AtomicBool::new(false);
/// A watched access is being stepped over.
static STEPPING: AtomicBool = AtomicBool::new(false);
static FAULTS: AtomicU32 = AtomicU32::new(0);
/// Turns since a spin was last proven; large when none ever was.
static TURNS_SINCE: AtomicU32 = AtomicU32::new(u32::MAX);

struct Range {
    start: AtomicUsize,
    end: AtomicUsize,
}
static RANGES: [Range; RANGES_MAX] = [const { Range { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; RANGES_MAX];
static RANGE_COUNT: AtomicUsize = AtomicUsize::new(0);

struct Shared(UnsafeCell<Machine>);
// SAFETY: only the thread that has its turn faults into it (others run nothing), and its handlers do not nest here.
unsafe impl Sync for Shared {}
static MACHINE: Shared = Shared(UnsafeCell::new(Machine::new()));

fn protect(start: usize, end: usize, rights: libc::c_int) -> bool {
    // SAFETY: the range is registered memory of the program, which has these rights by itself (peers may write it).
    unsafe { libc::syscall(libc::SYS_mprotect, start, end - start, rights) == 0 }
}

/// Makes the memory that peers may write inaccessible. False when there is none.
pub fn arm() -> bool {
    if ARMED.load(Ordering::Acquire) {
        return true;
    }
    let marker = 0u8;
    let stack = (&raw const marker).addr();
    let mut count = 0;
    for region in regions::iter().filter(|region| region.remote_writable) {
        let start = region.address & !(PAGE - 1);
        let end = (region.address + region.len).next_multiple_of(PAGE);
        let near_stack = start < stack + STACK_ABOVE && end > stack.saturating_sub(STACK_BELOW);
        if near_stack || count == RANGES_MAX || !protect(start, end, libc::PROT_NONE) {
            continue;
        }
        RANGES[count].start.store(start, Ordering::Relaxed);
        RANGES[count].end.store(end, Ordering::Relaxed);
        count += 1;
    }
    RANGE_COUNT.store(count, Ordering::Release);
    ARMED.store(count > 0, Ordering::Release);
    count > 0
}

/// Gives the rights back.
pub fn disarm() {
    STEPPING.store(false, Ordering::Release);
    if ARMED.swap(false, Ordering::AcqRel) {
        open_all();
    }
}

fn open_all() {
    for range in &RANGES[..RANGE_COUNT.load(Ordering::Acquire)] {
        protect(range.start.load(Ordering::Relaxed), range.end.load(Ordering::Relaxed), libc::PROT_READ | libc::PROT_WRITE);
    }
}

fn is_watched(address: usize) -> bool {
    let ranges = &RANGES[..RANGE_COUNT.load(Ordering::Acquire)];
    ranges.iter().any(|range| (range.start.load(Ordering::Relaxed)..range.end.load(Ordering::Relaxed)).contains(&address))
}

/// Faults since this was last asked.
pub fn take_fault_count() -> u32 {
    FAULTS.swap(0, Ordering::AcqRel)
}

/// The thread's turn has come.
pub fn turn_came() {
    let since = TURNS_SINCE.load(Ordering::Relaxed);
    if since < TURNS_WATCHED {
        TURNS_SINCE.store(since + 1, Ordering::Relaxed);
        arm();
    }
}

/// A fault: judge it, let the access happen and step over it.
pub fn on_fault(address: usize, machine: &mut libc::ucontext_t) -> bool {
    if !ARMED.load(Ordering::Acquire) || !is_watched(address) {
        return false;
    }
    let instruction = registers::instruction(machine);
    if is_own(instruction) || !client::has_slot() {
        disarm();
        return true;
    }
    FAULTS.fetch_add(1, Ordering::AcqRel);
    let access = Access {
        instruction,
        address,
        fingerprint: registers::fingerprint(machine),
        is_write: registers::is_write(machine),
        progress: client::progress(),
    };
    // SAFETY: see `Shared`.
    let verdict = unsafe { (*MACHINE.0.get()).look(access) };
    match verdict {
        Verdict::Bulk => {
            disarm();
            return true;
        }
        Verdict::Spin => {
            disarm();
            TURNS_SINCE.store(0, Ordering::Relaxed);
            client::spin_wait();
            // The hook of that turn watches again; the access itself must get through.
            TURNS_SINCE.store(0, Ordering::Relaxed);
        }
        Verdict::Watch => {}
    }
    ARMED.store(false, Ordering::Release);
    open_all();
    STEPPING.store(true, Ordering::Release);
    registers::set_stepping(machine, true);
    true
}

/// The step over a watched access is done.
pub fn on_trap(machine: &mut libc::ucontext_t) -> bool {
    if !STEPPING.swap(false, Ordering::AcqRel) {
        return false;
    }
    registers::set_stepping(machine, false);
    arm();
    true
}
