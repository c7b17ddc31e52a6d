//! The room of the schedule: the events of programs, the time, and the execution token.

use crate::options::{Interrupt, Limits, Pace};
use crate::process::processes::Processes;
use crate::scheduler::agenda::{Agenda, Event};
use crate::scheduler::context_switch::{ContextSwitch, Processors};
use rustix::fd::OwnedFd;
use rustix::thread::CpuSet;
use softband_ipc::layout::{PROCESSOR_WORDS, wake_word_of};
use softband_sim::SimTime;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Polls between two checks whether programs poll in vain.
const POLLS_PER_CHECK: u32 = 512;

fn monotonic_nanos() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The events of programs in their order, the present time, and the holder of the execution token.
pub(crate) struct Scheduler {
    agenda: Agenda,
    now: SimTime,
    pace: Pace,
    started_at: Instant,
    /// The same moment on the clock that programs read, in nanoseconds.
    wall_start_ns: u64,
    context_switch: ContextSwitch,
    turns: u64,
    alarms_made: u64,
    /// Number of vain polls, modulo 2^32.
    vain_polls: u32,
    /// Threads that went where the engine does not see them. Some may be back.
    pub(super) away: BTreeSet<(usize, u32)>,
    is_check_of_polls_due: bool,
    limits: Limits,
    interrupt: Interrupt,
}

impl Scheduler {
    /// # Errors
    /// If the system has no memory for the wake words.
    pub(crate) fn new(processors: Processors, pace: Pace, interrupt: Interrupt) -> std::io::Result<Self> {
        Ok(Self {
            agenda: Agenda::default(),
            now: SimTime::ZERO,
            pace,
            started_at: Instant::now(),
            wall_start_ns: monotonic_nanos(),
            context_switch: ContextSwitch::new(processors)?,
            turns: 0,
            alarms_made: 0,
            vain_polls: 0,
            away: BTreeSet::new(),
            is_check_of_polls_due: false,
            limits: Limits::default(),
            interrupt,
        })
    }

    pub(crate) fn now(&self) -> SimTime {
        self.now
    }

    /// Sets the time to that of the event that the engine handles next.
    pub(crate) fn set_now(&mut self, now: SimTime) {
        self.now = now;
    }

    /// Moves the time forward to `time`, unless it is later already.
    pub(crate) fn advance_to(&mut self, time: SimTime) {
        self.now = self.now.max(time);
    }

    /// Moves the time forward by a picosecond, and returns it.
    pub(crate) fn advance_by_one(&mut self) -> SimTime {
        self.now = SimTime::from_picos(self.now.as_picos() + 1);
        self.now
    }

    pub(crate) fn pace(&self) -> Pace {
        self.pace
    }

    pub(crate) fn is_wall(&self) -> bool {
        self.pace == Pace::Wall
    }

    /// Returns the start of the engine in wall-clock time.
    pub(crate) fn begun(&self) -> Instant {
        self.started_at
    }

    /// Returns the wall-clock time since the start of the engine.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started_at.elapsed()
    }

    /// Returns [`Scheduler::elapsed`] as a time of the World, in wall pace.
    pub(crate) fn wall_time(&self) -> SimTime {
        SimTime::from_picos(self.elapsed().as_nanos() as u64 * 1_000)
    }

    /// Moves the time to the machine's clock, in wall pace. An action now follows all actions of
    /// the World, even if the World was slightly ahead (`world`).
    pub(crate) fn set_wall_clock(&mut self, world: SimTime) {
        self.now = self.now.max(self.wall_time()).max(world);
    }

    /// Returns the start of the engine on the clock that programs read, in nanoseconds.
    pub(crate) fn wall_start_ns(&self) -> u64 {
        self.wall_start_ns
    }

    /// Adds an event of a process (`node`) or of the engine.
    pub(crate) fn push(&mut self, time: SimTime, node: u32, event: Event) {
        self.agenda.push(time, node, event);
    }

    pub(crate) fn pop(&mut self) -> Option<(SimTime, Event)> {
        self.agenda.pop()
    }

    pub(crate) fn next_time(&self) -> Option<SimTime> {
        self.agenda.next_time()
    }

    /// Ends the period of nothing but polls.
    pub(crate) fn stir(&mut self) {
        self.agenda.stir();
    }

    /// Returns whether programs have only polled for so long, and kernels only probed, that the
    /// programs will never succeed. The engine is about to handle `event`. `is_fabric_idle` states that the World has no event.
    pub(crate) fn only_polls_happen(&mut self, event: Event, is_fabric_idle: impl Fn() -> bool) -> bool {
        self.agenda.only_polls_happen(event, self.now, is_fabric_idle)
    }

    /// Notes that the engine has carried out a call of a thread.
    pub(crate) fn note_call(&mut self, processes: &Processes, process: usize, slot: u32) {
        if !processes[process].is_at_os_poll(slot) {
            self.agenda.stir();
        }
    }

    /// Counts a vain poll of a thread that waits now.
    pub(crate) fn note_vain_poll(&mut self) {
        self.vain_polls = self.vain_polls.wrapping_add(1);
        self.is_check_of_polls_due |= self.vain_polls.is_multiple_of(POLLS_PER_CHECK);
    }

    /// Returns whether a check for vain polls is due. Later calls return false until the next is.
    pub(crate) fn take_check_of_polls(&mut self) -> bool {
        std::mem::take(&mut self.is_check_of_polls_due)
    }

    /// Returns a number that no alarm has had.
    pub(crate) fn next_alarm(&mut self) -> u64 {
        self.alarms_made += 1;
        self.alarms_made
    }

    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.is_raised()
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    pub(crate) fn turns(&self) -> u64 {
        self.turns
    }

    /// Returns the file of the wake words.
    pub(crate) fn wake_words(&self) -> &OwnedFd {
        self.context_switch.file()
    }

    /// Returns wake word `number`.
    pub(crate) fn word(&self, number: u32) -> &'static AtomicU32 {
        self.context_switch.word(number)
    }

    /// Wakes a thread that sleeps on its wake word.
    pub(crate) fn wake_up(&self, process: usize, slot: u32) {
        self.context_switch.wake(wake_word_of(process as u32, slot));
    }

    /// Returns the processor of the programs.
    pub(crate) fn processor_of_programs(&self) -> CpuSet {
        self.context_switch.programs()
    }

    /// Returns the processors on which threads may compute ahead (bit n of all words: processor n);
    /// none if threads compute one at a time.
    pub(crate) fn processors_for_computation(&self) -> [u64; PROCESSOR_WORDS] {
        self.context_switch.processors_for_computation()
    }

    /// Returns whether threads that compute ahead run beside others.
    pub(crate) fn computes_in_parallel(&self) -> bool {
        self.processors_for_computation().iter().any(|word| *word != 0)
    }

    /// Returns the number of reads of a token before sleep.
    pub(crate) fn spins(&self) -> u32 {
        self.context_switch.spins()
    }

    /// Returns whether the engine has a processor of its own at present.
    pub(crate) fn is_on_two(&self) -> bool {
        self.context_switch.is_on_two()
    }

    /// Notes that the engine has spun in vain for a thread, and wakes the thread. A signal may have
    /// stopped or killed the thread that had to wake it.
    pub(crate) fn missed(&mut self, process: usize, slot: u32) {
        self.context_switch.missed();
        self.wake_up(process, slot);
    }

    /// Chooses the number of processors for the next turn. The engine may share the programs'
    /// processor. It then also shares their setting for the TSC.
    pub(crate) fn choose_processors(&mut self, processes: &Processes) {
        if self.context_switch.reconsider() {
            for process in processes.living() {
                process.shared().header().token_spins.store(self.context_switch.spins(), Ordering::Relaxed);
            }
        }
        if self.context_switch.is_on_two() { crate::scheduler::tsc::release() } else { crate::scheduler::tsc::trap() }
    }

    /// Gives the execution token to a thread. A turn begins.
    pub(crate) fn give_token(&mut self, processes: &Processes, process: usize, slot: u32) {
        let last = self.context_switch.before((process, slot)).map(|(process, slot)| processes[process].shared().slot(slot));
        self.context_switch.give((process, slot), processes[process].shared().slot(slot), last);
        self.turns += 1;
    }

    /// Returns the time at which the call of a thread takes place: the thread's own clock, in wall
    /// pace the host's clock. In wall pace, a program with a false time would lead the engine's
    /// clock away from the host's. That would affect the work of all programs.
    pub(crate) fn clock_of(&self, processes: &Processes, process: usize, slot: u32) -> SimTime {
        match self.pace {
            Pace::Virtual => processes[process].clock(slot).max(self.now),
            Pace::Wall => self.now,
        }
    }
}
