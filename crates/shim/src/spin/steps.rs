//! Steps through the rounds of a loop, from a suspected access on, and judges them ([`rounds`]).
//!
//! [`rounds`]: super::rounds

use super::effect::{Effect, effect};
use super::emulate::INSTRUCTION_BYTES;
use super::machine::Site;
use super::rounds::{Memory, Outcome, Rounds};
use super::{is_after_call, is_own, probe, registers, watch};
use iced_x86::InstructionInfoFactory;
use softband_client as client;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

const PAGE: usize = 4096;
/// Most instructions that the rounds take. Each takes some microseconds.
pub const STEPS_MAX: u32 = 32_768;
/// Most instructions of the first attempt, and in a turn that is watched from its start.
pub const STEPS_MIN: u32 = 1024;

static RUNNING: AtomicBool = AtomicBool::new(false);

/// The suspicion that the steps examine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspicion {
    /// An access to a page that is watched from the start of the turn.
    Hot,
    /// An access to other watched memory.
    Access,
    /// A loop without accesses to watched memory.
    Registers,
}

/// The rounds under way.
struct Steps {
    rounds: Rounds,
    decoder: Option<InstructionInfoFactory>,
    /// The access with which each round begins, and its address as the instruction states it.
    start: Site,
    operand: Option<usize>,
    suspicion: Suspicion,
    has_begun: bool,
    /// The first of the accesses of this round and of the former one, in the order of addresses.
    /// It does not depend on the access at which the steps began.
    first: Site,
    former_first: Site,
}

struct Shared(UnsafeCell<Steps>);
// SAFETY: only the thread that has the token is stepped. Its handlers do not nest here.
unsafe impl Sync for Shared {}
static STEPS: Shared = Shared(UnsafeCell::new(Steps {
    rounds: Rounds::new(),
    decoder: None,
    start: Site { address: 0, instruction: 0 },
    operand: None,
    suspicion: Suspicion::Access,
    has_begun: false,
    first: Site { address: 0, instruction: 0 },
    former_first: Site { address: 0, instruction: 0 },
}));

/// End of the steps.
#[derive(Clone, Copy, Debug)]
pub struct End {
    pub outcome: Outcome,
    /// The access with which the steps began.
    pub start: Site,
    /// The access that stands for the loop.
    pub first: Site,
    pub suspicion: Suspicion,
}

pub fn is_running() -> bool {
    RUNNING.load(Ordering::Acquire)
}

/// Returns the suspicion of the steps under way, or of the last ones.
pub fn suspicion() -> Suspicion {
    // SAFETY: no reference outlives a handler, and handlers do not nest here (`Shared`).
    unsafe { (*STEPS.0.get()).suspicion }
}

/// Ends the steps without a result. The next trap clears the flag.
pub fn stop() {
    if RUNNING.swap(false, Ordering::AcqRel) {
        probe::rest();
    }
}

/// Begins with the instruction that the thread is about to execute, for at most `limit`
/// instructions. [`before_instruction`] comes next.
pub fn begin(start: Site, suspicion: Suspicion, limit: u32, machine: &mut libc::ucontext_t) {
    probe::begin_work();
    // SAFETY: no reference outlives a handler, and handlers do not nest here (`Shared`).
    let steps = unsafe { &mut *STEPS.0.get() };
    let operand = steps.decode(machine).and_then(|effect| effect.address());
    steps.rounds.begin(limit, registers::fingerprint(machine));
    (steps.start, steps.operand, steps.suspicion, steps.has_begun) = (start, operand, suspicion, false);
    (steps.first, steps.former_first) = (start, start);
    RUNNING.store(true, Ordering::Release);
    registers::set_stepping(machine, true);
}

/// Notes an access to watched memory.
pub fn note_access(site: Site) {
    // SAFETY: no reference outlives a handler, and handlers do not nest here (`Shared`).
    let steps = unsafe { &mut *STEPS.0.get() };
    steps.first = steps.first.min(site);
}

/// Notes the instruction that the thread is about to execute.
pub fn before_instruction(machine: &mut libc::ucontext_t) -> Option<End> {
    if !is_running() {
        return None;
    }
    // SAFETY: no reference outlives a handler, and handlers do not nest here (`Shared`).
    let steps = unsafe { &mut *STEPS.0.get() };
    let instruction = registers::instruction(machine);
    let outcome = if is_own(instruction) || is_after_call(instruction) { Some(Outcome::Calls) } else { steps.note(machine) };
    let end = End { outcome: outcome?, start: steps.start, first: steps.former_first, suspicion: steps.suspicion };
    RUNNING.store(false, Ordering::Release);
    registers::set_stepping(machine, false);
    Some(end)
}

impl Steps {
    fn note(&mut self, machine: &libc::ucontext_t) -> Option<Outcome> {
        let effect = self.decode(machine);
        let registers = &machine.uc_mcontext.gregs;
        let is_at_start = registers::instruction(machine) == self.start.instruction && effect.and_then(|effect| effect.address()) == self.operand;
        if is_at_start && self.has_begun {
            (self.former_first, self.first) = (self.first, self.start);
            let outcome = self.rounds.end_round(registers::fingerprint(machine), registers, &Watched);
            if outcome.is_some() {
                return outcome;
            }
        }
        self.has_begun = true;
        self.rounds.step(effect, registers, &Watched)
    }

    fn decode(&mut self, machine: &libc::ucontext_t) -> Option<Effect> {
        let at = registers::instruction(machine);
        let mut copy = [0; INSTRUCTION_BYTES];
        let room = (PAGE - at % PAGE).min(INSTRUCTION_BYTES);
        let code = if room < INSTRUCTION_BYTES && read_memory(at, &mut copy) {
            &copy[..]
        } else {
            // SAFETY: the processor is about to execute from this page.
            unsafe { std::slice::from_raw_parts(at as *const u8, room) }
        };
        let factory = self.decoder.get_or_insert_with(InstructionInfoFactory::new);
        effect(code, &machine.uc_mcontext.gregs, client::thread_pointer(), factory)
    }
}

/// The memory of this process, some of it watched.
struct Watched;

impl Memory for Watched {
    fn read(&self, word: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        (!watch::is_watched(word) && read_memory(word, &mut bytes)).then(|| u64::from_le_bytes(bytes))
    }
    fn is_watched(&self, address: usize) -> bool {
        watch::is_watched(address)
    }
}

/// Reads memory that may be missing.
fn read_memory(address: usize, into: &mut [u8]) -> bool {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    // SAFETY: the kernel writes at most the bytes of `into`, and checks the other address.
    let read = unsafe { kernel!(libc::SYS_process_vm_readv, pid, &raw const local, 1, &raw const remote, 1, 0) };
    read == into.len() as libc::c_long
}
