//! Context switches, and the processors of engine and programs. A context switch moves the
//! execution token to a program thread.
//!
//! Only one thread of engine and programs runs at a time, so one processor suffices. A context
//! switch then switches between processes. It need not wake an idle processor (2 against 30
//! microseconds in a virtual machine).
//!
//! A second processor, if idle, is faster still. The engine moves there. Engine and program then
//! see each other's words at once, without a system call. Only a token that moves between program
//! threads needs a switch, which the thread that stands down makes itself. On a busy machine two
//! processors would be far slower. The engine therefore tries them only while the machine has an
//! idle processor, and gives up when one side often waits for the other to be scheduled.

use crate::scheduler::busy_machine;
use rustix::fd::OwnedFd;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::{CpuSet, futex};
use softband_ipc::layout::{PROCESSOR_WORDS, ThreadSlot, WAKE_WORDS, token, wake_word_of};
use std::sync::atomic::{AtomicU32, Ordering};

/// Reads of a word before sleep, some 100 us: longer than a turn, shorter than the time that a
/// scheduler gives to others.
const SPINS: u32 = 20_000;
/// Turns of a trial of two processors, and its maximum of misses. In a miss, one side has spun in
/// vain and gone to sleep.
const TRIAL_TURNS: u32 = 1_024;
const MISSES_MAX: u32 = 8;
/// Turns on one processor before the first trial. Each failed trial doubles them, up to the
/// maximum.
const PATIENCE_FIRST: u32 = 512;
const PATIENCE_LAST: u32 = 1 << 20;

/// The processors of engine and programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Processors {
    programs: CpuSet,
    second: Option<CpuSet>,
    /// Processors for computation beside the engine; none if threads compute one at a time.
    computation: [u64; PROCESSOR_WORDS],
}

impl Processors {
    /// Chooses the present processor. Adds a second one if this process may use two and `wanted`
    /// allows it.
    pub(crate) fn choose(wanted: Option<u32>) -> Self {
        let here = rustix::thread::sched_getcpu();
        let allowed = rustix::thread::sched_getaffinity(None).unwrap_or_else(|_| only(here));
        let others = (1..CpuSet::MAX_CPU).map(|step| (here + step) % CpuSet::MAX_CPU);
        let second = others.filter(|_| wanted != Some(1)).find(|cpu| *cpu != here && allowed.is_set(*cpu));
        let is_meant = |cpu: usize| if wanted.is_none() { allowed.is_set(cpu) } else { cpu == here || Some(cpu) == second };
        let mut computation = [0; PROCESSOR_WORDS];
        if second.is_some() {
            (0..computation.len() * 64)
                .filter(|cpu| *cpu < CpuSet::MAX_CPU && is_meant(*cpu))
                .for_each(|cpu| computation[cpu / 64] |= 1 << (cpu % 64));
        }
        Self { programs: only(here), second: second.map(only), computation }
    }

    /// Moves the calling thread to the programs' processor.
    pub(crate) fn settle(&self) {
        let _ = rustix::thread::sched_setaffinity(None, &self.programs);
    }

    /// Returns the processor of the programs.
    pub(crate) fn programs(&self) -> CpuSet {
        self.programs
    }
}

fn only(cpu: usize) -> CpuSet {
    let mut one = CpuSet::new();
    one.set(cpu);
    one
}

/// The wake words of all threads, the last holder of the token, and the number of used processors.
pub(crate) struct ContextSwitch {
    words: *mut AtomicU32,
    file: OwnedFd,
    last: Option<(usize, u32)>,
    processors: Processors,
    on_two: bool,
    /// Turns until the next decision, and misses in this trial.
    turns_left: u32,
    misses: u32,
    patience: u32,
}

impl ContextSwitch {
    pub(crate) fn new(processors: Processors) -> std::io::Result<Self> {
        let bytes = WAKE_WORDS * size_of::<AtomicU32>();
        let file = crate::process::image::sealed_file("softband-wake-words", bytes as u64)?;
        // SAFETY: a fresh mapping of a file that is as large as the mapping.
        let words = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)? };
        let (turns_left, patience) = (PATIENCE_FIRST, PATIENCE_FIRST);
        Ok(Self { words: words.cast(), file, last: None, processors, on_two: false, turns_left, misses: 0, patience })
    }

    /// Returns whether the engine has a processor of its own at present.
    pub(crate) fn is_on_two(&self) -> bool {
        self.on_two
    }

    /// Returns the processor of the programs.
    pub(crate) fn programs(&self) -> CpuSet {
        self.processors.programs()
    }

    /// Returns the processors for computation beside the engine; none if threads compute one at a
    /// time.
    pub(crate) fn processors_for_computation(&self) -> [u64; PROCESSOR_WORDS] {
        self.processors.computation
    }

    /// Counts a turn. From time to time, tries a second processor or gives it up. Returns whether
    /// that has changed.
    pub(crate) fn reconsider(&mut self) -> bool {
        self.turns_left -= 1;
        let fails = self.misses > MISSES_MAX;
        if self.turns_left > 0 && !fails {
            return false;
        }
        self.misses = 0;
        let was_on_two = self.on_two;
        match self.processors.second {
            Some(_) if !was_on_two && busy_machine::is_crowded() => self.turns_left = PATIENCE_FIRST,
            Some(second) if !was_on_two => {
                self.on_two = rustix::thread::sched_setaffinity(None, &second).is_ok();
                self.turns_left = TRIAL_TURNS;
            }
            _ if fails => {
                self.processors.settle();
                self.on_two = false;
                self.turns_left = self.patience;
                self.patience = (self.patience * 2).min(PATIENCE_LAST);
            }
            _ => {
                self.turns_left = TRIAL_TURNS;
                self.patience = PATIENCE_FIRST;
            }
        }
        self.on_two != was_on_two
    }

    /// Notes that one side has spun in vain.
    pub(crate) fn missed(&mut self) {
        self.misses += u32::from(self.on_two);
    }

    pub(crate) fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Returns the number of reads of a word before sleep.
    pub(crate) fn spins(&self) -> u32 {
        if self.on_two { SPINS } else { 0 }
    }

    /// Returns wake word `number`.
    pub(crate) fn word(&self, number: u32) -> &'static AtomicU32 {
        // SAFETY: the index lies within the mapping, which lasts as long as the engine; the words
        // are atomics.
        unsafe { &*self.words.add(number as usize % WAKE_WORDS) }
    }

    /// Wakes the thread that sleeps on wake word `number`.
    pub(crate) fn wake(&self, number: u32) {
        let word = self.word(number);
        word.fetch_add(1, Ordering::SeqCst);
        let _ = futex::wake(word, futex::Flags::empty(), u32::MAX >> 1);
    }

    /// Gives the token to thread `to`. `last` is the slot of the previous holder, if it still
    /// exists.
    pub(crate) fn give(&mut self, to: (usize, u32), slot: &ThreadSlot, last: Option<&ThreadSlot>) {
        let wake_word = wake_word_of(to.0 as u32, to.1);
        self.last = Some(to);
        slot.token.store(token::PROGRAM, Ordering::SeqCst);
        let passed_on = last.is_some_and(|last| self.ask_to_stand_down(last, wake_word));
        if slot.program_asleep.swap(0, Ordering::SeqCst) != 0 && !passed_on {
            self.missed();
            self.wake(wake_word);
        }
    }

    /// Asks the thread of slot `last` to stand down. Returns whether it will wake the successor.
    fn ask_to_stand_down(&self, last: &ThreadSlot, successor: u32) -> bool {
        if last.spinning.load(Ordering::SeqCst) == 0 {
            return false;
        }
        last.successor.store(successor, Ordering::Relaxed);
        last.stand_down.store(1, Ordering::SeqCst);
        // The thread may just have gone to sleep. It has then seen the request, or the swap takes
        // the request back.
        last.spinning.load(Ordering::SeqCst) != 0 || last.stand_down.swap(0, Ordering::SeqCst) == 0
    }

    /// Returns the thread that had the token before `to`, if it was another thread.
    pub(crate) fn before(&self, to: (usize, u32)) -> Option<(usize, u32)> {
        self.last.filter(|last| *last != to)
    }
}

impl Drop for ContextSwitch {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no reference into it remains.
        let _ = unsafe { rustix::mm::munmap(self.words.cast(), WAKE_WORDS * size_of::<AtomicU32>()) };
    }
}
