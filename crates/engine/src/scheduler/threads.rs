//! Turns: gives the token to a thread, waits for its return, wakes waiting threads.

use crate::control::socket::ControlEvent;
use crate::engine::{Engine, Event};
use crate::process::image::{Process, ProcessState, ThreadState, Waiting};
use softband_ipc::calls::{Op, Ticket};
use softband_ipc::layout::{token, wake_word_of};
use softband_sim::{SimDuration, SimTime};
use softband_types::ProcessId;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A thread that keeps the token this long may spin on memory.
const SPIN_SUSPECT: Duration = Duration::from_millis(2);
/// The same limit for a process without memory that peers may write.
const COMPUTE_SUSPECT: Duration = Duration::from_secs(1);
/// A thread that keeps the token this long may not know that it has it.
const REMINDER: Duration = Duration::from_millis(50);
/// Longest time from the grant of a thread's first turn to the beginning of that turn.
const FIRST_TURN_LIMIT: Duration = Duration::from_secs(10);
/// Longest time for a new image to attach.
const ATTACH_LIMIT: Duration = Duration::from_secs(10);
/// First and longest pause between vain polls of a polling thread, in picoseconds.
pub(crate) const SLICE_FIRST_PICOS: u64 = 20_000_000;
const SLICE_LAST_PICOS: u64 = 1_000_000_000;

/// Returns whether a thread sleeps in the kernel for any length of time.
fn is_asleep(pid: i32, tid: i32) -> bool {
    let stat = crate::process::image::stat(format!("/proc/{pid}/task/{tid}/stat"));
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

/// Reason for the end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// The thread made a call.
    Call,
    /// The process is gone.
    Gone,
    /// The process has a new image, or an image that the engine cannot follow.
    Replaced,
    Interrupted,
}

impl Engine {
    /// Gives the token to a thread, and handles its call when the token comes back.
    pub(crate) fn run_thread(&mut self, process: usize, slot: u32, now: SimTime) {
        self.choose_processors();
        let number = self.processes[process].number;
        self.memory.flush(number);
        let record = &mut self.processes[process];
        let (news, written) = (record.news, record.memory_written);
        let thread = &mut record.threads[slot as usize];
        thread.state = ThreadState::Scheduled;
        thread.news_seen = news;
        thread.memory_seen = written;
        let shared = record.shared.slot(slot);
        shared.clock_ps.fetch_max(now.as_picos(), Ordering::Relaxed);
        shared.signals.fetch_or(std::mem::take(&mut record.signals_pending), Ordering::Relaxed);
        let work_begun = self.work_begins(process, slot);
        self.give_token(process, slot);
        self.turns += 1;
        let end = self.wait_for_token(process, slot);
        self.outputs.drain();
        match end {
            TurnEnd::Call => {
                self.note_work(process, slot, work_begun);
                self.thread_called(process, slot);
            }
            TurnEnd::Gone => {
                self.await_zombie(process);
                let at = self.processes[process].clock(slot).max(now);
                self.queue.push(at, process as u32, Event::ProcessGone { process });
            }
            TurnEnd::Replaced | TurnEnd::Interrupted => {}
        }
    }

    /// The engine may share the programs' processor. It then also shares their setting for the TSC.
    fn choose_processors(&mut self) {
        if self.context_switch.reconsider() {
            for process in self.processes.living() {
                process.shared.header().token_spins.store(self.context_switch.spins(), Ordering::Relaxed);
            }
        }
        if self.context_switch.is_on_two() { crate::scheduler::tsc::release() } else { crate::scheduler::tsc::trap() }
    }

    fn give_token(&mut self, process: usize, slot: u32) {
        let last = self.context_switch.before((process, slot)).map(|(process, slot)| self.processes[process].shared.slot(slot));
        self.context_switch.give((process, slot), self.processes[process].shared.slot(slot), last);
    }

    /// Takes the posts of a thread that returned the token, and schedules its call.
    fn thread_called(&mut self, process: usize, slot: u32) {
        self.take_posts(process, slot);
        let shared = &self.processes[process].shared;
        let op = shared.slot(slot).op.load(Ordering::Relaxed);
        if op == Op::ForkCancel as u32
            && let Ok(Ticket { ticket }) = crate::rpc::calls::request(&shared.request(slot))
        {
            self.cancel_fork(ticket);
        }
        self.processes[process].leaves |= op == Op::ProcessExit as u32;
        self.keep_promises(process);
        let clock = self.processes[process].clock(slot).max(self.now);
        self.queue.push(clock, process as u32, Event::Execute { process, slot });
    }

    fn wait_for_token(&mut self, process: usize, slot: u32) -> TurnEnd {
        let word: *const _ = &raw const self.processes[process].shared.slot(slot).token;
        // SAFETY: the mapping lives as long as the process record's `shared`. The engine replaces
        // `shared` only when this loop ends.
        let word = unsafe { &*word };
        for _ in 0..self.context_switch.spins() {
            if word.load(Ordering::Acquire) == token::ENGINE {
                return TurnEnd::Call;
            }
            std::hint::spin_loop();
        }
        if self.context_switch.is_on_two() {
            // A signal may have stopped or killed the thread that had to wake this thread.
            self.context_switch.missed();
            self.context_switch.wake(wake_word_of(process as u32, slot));
        }
        self.mailbox.wait_on(word);
        let end = self.sleep_for_token(process, slot, word);
        self.mailbox.wait_on(std::ptr::null());
        end
    }

    fn sleep_for_token(&mut self, process: usize, slot: u32, word: &std::sync::atomic::AtomicU32) -> TurnEnd {
        let asleep: *const _ = &raw const self.processes[process].shared.slot(slot).engine_asleep;
        // SAFETY: the mapping lives as long as the process record's `shared`. The engine replaces
        // `shared` only when this loop ends.
        let asleep = unsafe { &*asleep };
        let mut started = None;
        let mut next_suspicion = SPIN_SUSPECT;
        let mut next_reminder = REMINDER;
        loop {
            asleep.store(1, Ordering::SeqCst);
            if word.load(Ordering::SeqCst) == token::ENGINE {
                asleep.store(0, Ordering::Relaxed);
                return TurnEnd::Call;
            }
            let _ = rustix::thread::futex::wait(word, rustix::thread::futex::Flags::empty(), token::PROGRAM, None);
            if word.load(Ordering::Acquire) == token::ENGINE {
                return TurnEnd::Call;
            }
            if self.interrupt.is_raised() {
                return TurnEnd::Interrupted;
            }
            self.outputs.drain();
            if let Some(end) = self.look_for_end(process) {
                // The process may have written a last call just before its end. `retired` keeps the
                // old image's slot.
                return if word.load(Ordering::Acquire) == token::ENGINE { TurnEnd::Call } else { end };
            }
            // The engine reads the clock only here. Most turns end before the first check.
            let elapsed = started.get_or_insert_with(Instant::now).elapsed();
            if elapsed >= FIRST_TURN_LIMIT && self.is_absent(process, slot) {
                return self.end_absent(process);
            }
            if elapsed >= next_reminder {
                // The process that had to wake the thread may be stopped or killed.
                next_reminder = elapsed * 2;
                self.context_switch.wake(wake_word_of(process as u32, slot));
            }
            if elapsed >= next_suspicion {
                next_suspicion = elapsed + (elapsed / 2).min(Duration::from_millis(50));
                self.suspect_spin(process, slot, elapsed);
            }
        }
    }

    /// Checks whether the running process has ended or has a new image.
    fn look_for_end(&mut self, process: usize) -> Option<TurnEnd> {
        if self.processes[process].connection.is_none() {
            return Some(TurnEnd::Gone);
        }
        let connection = self.processes[process].connection;
        self.receive_control_events();
        // The running thread may wait for a child that it has just created.
        self.greet_all();
        if self.processes[process].connection != connection {
            return Some(TurnEnd::Replaced);
        }
        let closed =
            self.control_events.iter().position(|event| matches!(event, ControlEvent::Closed { connection: c } if Some(*c) == connection))?;
        self.control_events.remove(closed);
        self.processes[process].connection = None;
        if self.tickets.announces_image_of(process) {
            return Some(self.await_new_image(process));
        }
        Some(TurnEnd::Gone)
    }

    /// Waits until the new image attaches after an exec.
    fn await_new_image(&mut self, process: usize) -> TurnEnd {
        let started = Instant::now();
        self.processes[process].state = ProcessState::Expected;
        while started.elapsed() < ATTACH_LIMIT && !self.interrupt.is_raised() {
            self.await_control_event(Duration::from_millis(20));
            self.greet_all();
            if self.processes[process].state == ProcessState::Attached {
                return TurnEnd::Replaced;
            }
            // SAFETY: signal 0 only checks whether the process exists.
            if unsafe { libc::kill(self.processes[process].pid, 0) } != 0 || self.is_zombie(process) {
                self.tickets.withdraw_images_of(process);
                return TurnEnd::Gone;
            }
        }
        self.tickets.withdraw_images_of(process);
        self.make_foreign(process);
        TurnEnd::Replaced
    }

    /// Returns the host's process id of a process by its virtual id; 0 if no process has that id.
    pub(crate) fn system_pid(&self, virtual_pid: u32) -> u32 {
        let is_it = |record: &Process| Self::virtual_pid(record.number) == virtual_pid && record.state == ProcessState::Attached;
        self.processes.find(is_it).map_or(0, |process| self.processes[process].pid as u32)
    }

    pub(crate) fn is_zombie(&self, process: usize) -> bool {
        let stat = crate::process::image::stat(format!("/proc/{}/stat", self.processes[process].pid));
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
    }

    /// Marks a process whose image cannot load the library. It runs outside simulated time.
    pub(crate) fn make_foreign(&mut self, process: usize) {
        let record = &mut self.processes[process];
        let host = self.world.spec().hosts[record.host].name.clone();
        record.state = ProcessState::Foreign;
        self.warnings.push(format!(
            "{host}: a program did not load the softband library (statically linked, or set-uid?): it runs outside simulated time; start it from a dynamically linked program"
        ));
    }

    fn suspect_spin(&self, process: usize, slot: u32, elapsed: Duration) {
        let record = &self.processes[process];
        let tid = record.shared.slot(slot).tid.load(Ordering::Relaxed) as i32;
        // A process without memory that peers may write more likely computes, unless it is asleep.
        // A closer check would only slow it down.
        if record.remotely_writable == 0 && elapsed < COMPUTE_SUSPECT && !is_asleep(record.pid, tid) {
            return;
        }
        // SAFETY: sends a signal to a thread. The kernel checks that the thread belongs to the
        // process.
        unsafe { libc::syscall(libc::SYS_tgkill, record.pid, tid, softband_ipc::layout::SPIN_SIGNAL) };
    }

    /// Waits, in wall-clock time, for images that were started or forked. No event may happen
    /// before they take part.
    pub(crate) fn await_expected(&mut self) {
        let started = Instant::now();
        while self.processes.any(|process| process.state == ProcessState::Expected) && !self.interrupt.is_raised() {
            self.await_control_event(Duration::from_millis(50));
            self.greet_all();
            self.note_early_exits();
            if started.elapsed() > ATTACH_LIMIT {
                while let Some(process) = self.processes.find(|process| process.state == ProcessState::Expected) {
                    self.make_foreign(process);
                }
            }
        }
    }

    /// Lets a thread wait from `now` on, at most until `deadline`.
    pub(crate) fn park(&mut self, process: usize, slot: u32, waiting: Waiting, deadline: Option<SimTime>) {
        let thread = &mut self.processes[process].threads[slot as usize];
        thread.generation = thread.generation.wrapping_add(1);
        let polls = waiting == Waiting::OsPoll;
        thread.state = ThreadState::Waiting(waiting);
        let generation = thread.generation;
        if let Some(deadline) = deadline {
            self.queue.push(deadline.max(self.now), process as u32, Event::WaitOver { process, slot, generation, polls });
        }
    }

    /// Lets a polling or spinning thread wait for news. Its pauses grow while no news arrive.
    pub(crate) fn park_for_news(&mut self, process: usize, slot: u32, waiting: Waiting) {
        let thread = &mut self.processes[process].threads[slot as usize];
        thread.waiting_since.get_or_insert(self.now);
        let slice = thread.slice_picos;
        thread.slice_picos = (slice * 2).min(SLICE_LAST_PICOS);
        self.park(process, slot, waiting, Some(self.now + SimDuration::from_picos(slice)));
        self.note_vain_poll();
    }

    /// Lets a waiting thread continue at `now`.
    pub(crate) fn wake(&mut self, process: usize, slot: u32) {
        let thread = &mut self.processes[process].threads[slot as usize];
        thread.generation = thread.generation.wrapping_add(1);
        thread.state = ThreadState::Scheduled;
        self.queue.push(self.now, process as u32, Event::Resume { process, slot });
    }

    /// Notes news for a process, and wakes its polling threads.
    pub(crate) fn touch(&mut self, process: ProcessId) {
        let index = process.0 as usize;
        self.processes[index].news += 1;
        self.wake_where(index, |waiting| *waiting == Waiting::Poll);
    }

    /// Notes a peer's write to registered memory of a process.
    pub(crate) fn touch_memory(&mut self, process: ProcessId, whole: bool) {
        let index = process.0 as usize;
        self.processes[index].memory_written += 1;
        // A spinning loop waits for the whole message. A loop that waits for a byte in its middle
        // sees it at one of its next polls. A turn at each packet would cost more than all other
        // work.
        if whole {
            self.wake_where(index, |waiting| *waiting == Waiting::Spin);
            self.touch(process);
        }
    }

    fn wake_where(&mut self, process: usize, matches: impl Fn(&Waiting) -> bool) {
        let now = self.now;
        for slot in 0..self.processes[process].threads.len() {
            let thread = &mut self.processes[process].threads[slot];
            if matches!(&thread.state, ThreadState::Waiting(waiting) if matches(waiting)) {
                // News that came after a long wait will probably take about as long again. Much
                // earlier polls are useless.
                let waited = thread.waiting_since.take().map_or(0, |since| now.saturating_since(since).as_picos());
                thread.slice_picos = (waited * 2).clamp(SLICE_FIRST_PICOS, SLICE_LAST_PICOS);
                self.wake(process, slot as u32);
            }
        }
    }

    /// Wakes each thread that waits for this object, if the object is ready.
    pub(crate) fn object_changed(&mut self, object: u32) {
        let mut nth = 0;
        while let Some(process) = self.processes.nth_living(nth) {
            nth += 1;
            if self.processes[process].state != ProcessState::Attached {
                continue;
            }
            for slot in 0..self.processes[process].threads.len() {
                let interest = match &self.processes[process].threads[slot].state {
                    ThreadState::Waiting(Waiting::Objects(entries)) => entries.iter().find(|(of, _)| *of == object).map(|(_, interest)| *interest),
                    _ => None,
                };
                if interest.is_some_and(|interest| self.is_ready(object, interest)) {
                    self.finish_wait(process, slot as u32, false);
                }
            }
        }
    }
}
