//! Turns: gives the token to a thread, waits for its return, handles the end of its process.

use crate::engine::Engine;
use crate::process::record::{Process, ProcessState};
use crate::process::system_process::{cpu_time_of, is_asleep, is_stopped, is_zombie, wants_to_run};
use crate::protocol::{END, request};
use crate::scheduler::agenda::Event;
use softband_ipc::calls::{Op, Ticket};
use softband_ipc::layout::token;
use softband_sim::SimTime;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A thread that keeps the token this long may spin on memory.
const SPIN_SUSPECT: Duration = Duration::from_millis(2);
/// CPU time of its process between two suspicions. On a busy machine a thread may have computed
/// little in the meantime, because other tasks had the processor.
const SPIN_SUSPECT_CPU: Duration = Duration::from_millis(1);
/// As [`SPIN_SUSPECT`], for a process with shared memory that no other process has mapped yet. It may
/// wait for the others to map it.
const LONE_SHARER_SUSPECT: Duration = Duration::from_millis(20);
/// As [`SPIN_SUSPECT`], for a process without memory that others may write.
const COMPUTE_SUSPECT: Duration = Duration::from_secs(1);
/// A thread that keeps the token this long may not know that it has it.
const REMINDER: Duration = Duration::from_millis(50);
/// Longest time from the grant of a thread's first turn to the beginning of that turn.
const FIRST_TURN_LIMIT: Duration = Duration::from_secs(10);
/// Longest time for a new image to attach.
const ATTACH_LIMIT: Duration = Duration::from_secs(10);
/// As [`ATTACH_LIMIT`], for an image that waits for a processor or the disk of a busy machine.
const BUSY_ATTACH_LIMIT: Duration = Duration::from_secs(60);
/// CPU time in which any image attaches that has the library.
const ATTACH_CPU: Duration = Duration::from_secs(1);

/// Reason for the end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnEnd {
    /// The thread made a call.
    Call,
    /// The thread computes ahead.
    Ahead,
    /// The process is gone.
    Gone,
    /// The process has a new image, or an image that the engine cannot follow.
    Replaced,
    Interrupted,
}

/// Returns the end of a turn by the thread's token, which the thread had in state `held`.
fn end_by(present: u32, held: u32) -> Option<TurnEnd> {
    match present {
        token::ENGINE => Some(TurnEnd::Call),
        token::AHEAD if held == token::PROGRAM => Some(TurnEnd::Ahead),
        _ => None,
    }
}

/// Returns whether an image that has not attached since `started` has had the time for it. `used` is
/// the CPU time of its process at that moment.
fn has_had_time(pid: i32, started: Instant, used: Duration) -> bool {
    let waited = started.elapsed();
    let is_idle = || !(wants_to_run(pid) || is_stopped(pid)) || cpu_time_of(pid).is_none_or(|cpu| cpu.saturating_sub(used) > ATTACH_CPU);
    waited > ATTACH_LIMIT && (waited > BUSY_ATTACH_LIMIT || is_idle())
}

impl Engine {
    /// Gives the token to a thread, and handles its call when the token comes back.
    pub(super) fn run_thread(&mut self, process: usize, slot: u32, now: SimTime) {
        self.scheduler.choose_processors(&self.processes);
        let next_event = self.next_event_time();
        let record = &mut self.processes[process];
        // Processes of a host can meet without the fabric.
        self.memory.ahead_mut().settle_host(record.host());
        self.memory.flush(record.number());
        self.memory.flush_shared();
        record.begin_turn(slot, now, next_event);
        // Only turns that begin while a send request is under way count as work.
        let work_begun = self.world.has_transfers().then(|| record.clock(slot));
        self.scheduler.give_token(&self.processes, process, slot);
        let end = self.wait_for_token(process, slot, token::PROGRAM);
        self.end_turn(process, slot, (end, work_begun), now);
    }

    /// Handles the end of a turn that began at `now`. It counts as work from `work_begun` on.
    pub(super) fn end_turn(&mut self, process: usize, slot: u32, (end, work_begun): (TurnEnd, Option<SimTime>), now: SimTime) {
        self.programs.drain_outputs();
        match end {
            TurnEnd::Call => {
                if let Some(begun) = work_begun {
                    self.processes[process].note_work(slot, begun);
                }
                self.thread_called(process, slot);
                self.pass_on_writes(process);
            }
            TurnEnd::Ahead => self.thread_goes_ahead(process, slot, work_begun),
            TurnEnd::Gone => {
                self.await_zombie(process);
                self.pass_on_writes(process);
                let at = self.processes[process].clock(slot).max(now);
                self.scheduler.push(at, process as u32, Event::ProcessGone { process });
            }
            TurnEnd::Replaced | TurnEnd::Interrupted => {}
        }
        self.settle_away();
    }

    /// Wakes the pollers of memory that a process has written in its turn.
    fn pass_on_writes(&mut self, process: usize) {
        if self.host_calls().pass_on_writes(process) {
            self.vain_polls.note_object();
        }
    }

    /// Takes the posts of a thread that returned the token, and schedules its call.
    fn thread_called(&mut self, process: usize, slot: u32) {
        self.take_work_of_turn(process, slot);
        let shared = self.processes[process].shared();
        let op = shared.slot(slot).op.load(Ordering::Relaxed);
        if op == Op::ForkCancel as u32
            && let Ok(Ticket { ticket }) = request(&shared.request(slot))
        {
            self.cancel_fork(ticket);
        }
        if op == Op::ProcessExit as u32 {
            self.processes[process].announce_end();
        }
        self.processes.keep_promises(process);
        let clock = self.processes[process].clock(slot).max(self.scheduler.now());
        self.scheduler.push(clock, process as u32, Event::Execute { process, slot });
        let is_empty_poll = [Op::Poll, Op::Pause, Op::SpinWait, Op::Sync].iter().any(|poll| op == *poll as u32);
        if self.processes[process].thread_mut(slot).end_turn(is_empty_poll) && self.processes[process].slots().len() > 1 {
            let visible = clock + self.world.spec().hosts[self.processes[process].host()].part.cache_line_transfer;
            self.scheduler.touch_siblings(&mut self.processes, (process, slot), visible);
        }
    }

    /// Takes the posts of a thread whose turn ends or pauses.
    pub(super) fn take_work_of_turn(&mut self, process: usize, slot: u32) {
        let has_posted = self.processes[process].shared().slot(slot).posted_len.load(Ordering::Relaxed) > 0;
        self.processes[process].end_turn(slot, has_posted);
        self.take_posts(process, slot);
    }

    /// Returns the time of the next event of the fabric or of a program.
    fn next_event_time(&self) -> SimTime {
        let times = [self.world.next_event_time(), self.scheduler.next_time()];
        times.into_iter().flatten().min().unwrap_or(END)
    }

    /// Waits until the thread gives the token back, which it has in state `held`.
    pub(super) fn wait_for_token(&mut self, process: usize, slot: u32, held: u32) -> TurnEnd {
        let word: *const _ = &raw const self.processes[process].shared().slot(slot).token;
        // SAFETY: the mapping lives as long as the process record's `shared`. The engine replaces
        // `shared` only when this loop ends.
        let word = unsafe { &*word };
        for _ in 0..self.scheduler.spins() {
            if let Some(end) = end_by(word.load(Ordering::Acquire), held) {
                return end;
            }
            std::hint::spin_loop();
        }
        if self.scheduler.is_on_two() {
            self.scheduler.missed(process, slot);
        }
        self.control.wait_on(word);
        let end = self.sleep_for_token((process, slot), word, held);
        self.control.wait_on(std::ptr::null());
        end
    }

    fn sleep_for_token(&mut self, (process, slot): (usize, u32), word: &AtomicU32, held: u32) -> TurnEnd {
        let asleep: *const _ = &raw const self.processes[process].shared().slot(slot).engine_asleep;
        // SAFETY: the mapping lives as long as the process record's `shared`. The engine replaces
        // `shared` only when this loop ends.
        let asleep = unsafe { &*asleep };
        let mut started = None;
        let mut computed = None;
        let mut next_suspicion = SPIN_SUSPECT;
        let mut next_reminder = REMINDER;
        loop {
            asleep.store(1, Ordering::SeqCst);
            if let Some(end) = end_by(word.load(Ordering::SeqCst), held) {
                asleep.store(0, Ordering::Relaxed);
                return end;
            }
            let _ = rustix::thread::futex::wait(word, rustix::thread::futex::Flags::empty(), held, None);
            if let Some(end) = end_by(word.load(Ordering::Acquire), held) {
                return end;
            }
            if self.scheduler.is_interrupted() {
                return TurnEnd::Interrupted;
            }
            self.programs.drain_outputs();
            if let Some(end) = self.look_for_end(process) {
                // The process may have written a last call just before its end. The room of
                // processes keeps the old image's slot.
                return if word.load(Ordering::Acquire) == token::ENGINE { TurnEnd::Call } else { end };
            }
            // The engine reads the clock only here. Most turns end before the first check.
            let elapsed = started.get_or_insert_with(Instant::now).elapsed();
            computed = computed.or_else(|| cpu_time_of(self.processes[process].pid()));
            if elapsed >= FIRST_TURN_LIMIT && self.is_absent((process, slot), elapsed) {
                return self.end_absent(process);
            }
            if elapsed >= next_reminder {
                // The process that had to wake the thread may be stopped or killed.
                next_reminder = elapsed * 2;
                self.scheduler.wake_up(process, slot);
            }
            if elapsed >= next_suspicion {
                next_suspicion = elapsed + (elapsed / 2).min(Duration::from_millis(50));
                self.suspect_spin(process, slot, elapsed, &mut computed);
            }
        }
    }

    /// Checks whether the running process has ended or has a new image.
    fn look_for_end(&mut self, process: usize) -> Option<TurnEnd> {
        let connection = self.processes[process].connection();
        if connection.is_none() {
            return Some(TurnEnd::Gone);
        }
        self.control.receive();
        // The running thread may wait for a child that it has just created.
        self.greet_all();
        if self.processes[process].connection() != connection {
            return Some(TurnEnd::Replaced);
        }
        if !self.control.take_closed_of(connection) {
            return None;
        }
        self.processes[process].close_connection();
        if self.control.announces_image_of(process) {
            return Some(self.await_new_image(process));
        }
        Some(TurnEnd::Gone)
    }

    /// Waits until the new image attaches after an exec.
    fn await_new_image(&mut self, process: usize) -> TurnEnd {
        let started = Instant::now();
        let pid = self.processes[process].pid();
        let used = cpu_time_of(pid).unwrap_or_default();
        self.processes[process].expect_image();
        while !has_had_time(pid, started, used) && !self.scheduler.is_interrupted() {
            self.await_control_event(Duration::from_millis(20));
            self.greet_all();
            if self.processes[process].is_attached() {
                return TurnEnd::Replaced;
            }
            // SAFETY: signal 0 only checks whether the process exists.
            if unsafe { libc::kill(self.processes[process].pid(), 0) } != 0 || is_zombie(self.processes[process].pid()) {
                self.control.withdraw_images_of(process);
                return TurnEnd::Gone;
            }
        }
        self.control.withdraw_images_of(process);
        self.make_foreign(process);
        TurnEnd::Replaced
    }

    /// Marks a process whose image cannot load the library. It runs outside simulated time.
    fn make_foreign(&mut self, process: usize) {
        self.processes[process].become_foreign();
        let host = &self.world.spec().hosts[self.processes[process].host()].name;
        self.report.warn_again(format!(
            "{host}: a program did not load the softband library (statically linked, or set-uid?): it runs outside simulated time; start it from a dynamically linked program"
        ));
    }

    /// Returns whether the thread has not begun its first turn, although nobody has stopped its
    /// process. Without this check, a program that speaks the protocol by hand could stop a run for
    /// ever with one hello. The library writes the thread's number into its slot before it looks
    /// for its turn.
    fn is_absent(&self, (process, slot): (usize, u32), waited: Duration) -> bool {
        let record = &self.processes[process];
        let has_come = record.shared().slot(slot).tid.load(Ordering::Relaxed) != 0;
        // A process of a busy machine may wait for a processor.
        !has_come && !is_stopped(record.pid()) && (waited > BUSY_ATTACH_LIMIT || !wants_to_run(record.pid()))
    }

    /// Ends a process with an absent thread.
    fn end_absent(&mut self, process: usize) -> TurnEnd {
        let pid = self.processes[process].pid();
        self.warn(format!("{}: its process {pid} attached to the engine and never took its turn: the engine has ended it", self.command_of(process)));
        self.processes[process].send_signal(libc::SIGKILL);
        // Another process may hold the other end.
        self.processes[process].close_connection();
        TurnEnd::Gone
    }

    /// Sends the signal of a suspected spin, unless the thread has hardly run since the last
    /// suspicion. Its process then had `computed` CPU time.
    fn suspect_spin(&self, process: usize, slot: u32, elapsed: Duration, computed: &mut Option<Duration>) {
        let record = &self.processes[process];
        let tid = record.shared().slot(slot).tid.load(Ordering::Relaxed) as i32;
        let now = cpu_time_of(record.pid());
        let has_run = computed.zip(now).is_none_or(|(before, now)| now.saturating_sub(before) >= SPIN_SUSPECT_CPU);
        if has_run {
            *computed = now;
        }
        // A process without memory that peers may write more likely computes. A closer check would
        // only slow it down.
        let is_suspect = has_run && elapsed >= self.suspect_after(process);
        if !is_suspect && !is_asleep(record.pid(), tid) {
            return;
        }
        // SAFETY: sends a signal to a thread. The kernel checks that the thread belongs to the
        // process.
        unsafe { libc::syscall(libc::SYS_tgkill, record.pid(), tid, softband_ipc::layout::SPIN_SIGNAL) };
    }

    /// Returns how long a process keeps the token before the engine suspects a spin.
    fn suspect_after(&self, process: usize) -> Duration {
        if self.processes[process].remotely_writable() != 0 || self.processes.is_sharing(process) {
            SPIN_SUSPECT
        } else if self.processes.maps_shared_memory(process) {
            LONE_SHARER_SUSPECT
        } else {
            COMPUTE_SUSPECT
        }
    }

    /// Waits, in wall-clock time, for images that were started or forked. No event may happen
    /// before they take part.
    pub(super) fn await_expected(&mut self) {
        let started = Instant::now();
        let is_expected = |engine: &Self| engine.processes.find(|process| process.state() == ProcessState::Expected);
        while is_expected(self).is_some() && !self.scheduler.is_interrupted() {
            self.await_control_event(Duration::from_millis(50));
            self.greet_all();
            self.note_early_exits();
            let is_late = |process: &Process| process.state() == ProcessState::Expected && has_had_time(process.pid(), started, Duration::ZERO);
            let has_ended = |process: &Process| process.state() == ProcessState::Expected && process.pid() > 0 && is_zombie(process.pid());
            while let Some(process) = self.processes.find(is_late) {
                self.make_foreign(process);
            }
            // The library has warned of an image that cannot load it. Nobody attaches for a process that has ended.
            while let Some(process) = self.processes.find(has_ended) {
                self.processes[process].become_foreign();
            }
        }
    }
}
