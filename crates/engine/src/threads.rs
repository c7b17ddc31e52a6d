//! Turns: giving one to a thread, waiting for it to come back, waking those that wait.

use crate::control::ControlEvent;
use crate::pace::{Engine, Event};
use crate::process::{Process, ProcessState, ThreadState, Waiting};
use softband_ipc::calls::{Op, ProcessNumber, Ticket};
use softband_ipc::layout::{token, wake_word_of};
use softband_sim::{SimDuration, SimTime};
use softband_types::ProcessId;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A thread that keeps the token this long may be spinning on memory.
const SPIN_SUSPECT: Duration = Duration::from_millis(2);
/// The same for a process that has no memory which its peers may write.
const COMPUTE_SUSPECT: Duration = Duration::from_secs(1);
/// A thread that keeps the token this long may not know that it has it.
const REMINDER: Duration = Duration::from_millis(50);
/// How long a thread may take to begin its first turn, after it was started and said so.
const FIRST_TURN_LIMIT: Duration = Duration::from_secs(10);
/// How long a new image may take to attach.
const ATTACH_LIMIT: Duration = Duration::from_secs(10);
/// First and longest pause between fruitless polls of a polling thread.
pub(crate) const SLICE_FIRST_PICOS: u64 = 20_000_000;
const SLICE_LAST_PICOS: u64 = 1_000_000_000;

/// Whether a thread waits in the kernel for something that may take any time.
fn is_asleep(pid: i32, tid: i32) -> bool {
    let stat = crate::process::stat(format!("/proc/{pid}/task/{tid}/stat"));
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// The thread asks for something.
    Call,
    /// The process is gone.
    Gone,
    /// The process has a new image, or one that we cannot follow.
    Replaced,
    Interrupted,
}

impl Engine {
    /// Gives the token to a thread and sees to whatever it asks for when it comes back.
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

    /// The processor of the programs is shared with them, and so is its setting for the counter.
    fn choose_processors(&mut self) {
        if self.context_switch.reconsider() {
            for process in self.processes.living() {
                process.shared.header().token_spins.store(self.context_switch.spins(), Ordering::Relaxed);
            }
        }
        if self.context_switch.is_on_two() { crate::tsc::release() } else { crate::tsc::trap() }
    }

    fn give_token(&mut self, process: usize, slot: u32) {
        let last = self.context_switch.before((process, slot)).map(|(process, slot)| self.processes[process].shared.slot(slot));
        self.context_switch.give((process, slot), self.processes[process].shared.slot(slot), last);
    }

    /// The thread has given the token away: take its posts, and carry its call out when its time comes.
    fn thread_called(&mut self, process: usize, slot: u32) {
        self.take_posts(process, slot);
        let shared = &self.processes[process].shared;
        let op = shared.slot(slot).op.load(Ordering::Relaxed);
        if op == Op::ForkCancel as u32
            && let Ok(Ticket { ticket }) = crate::calls::request(&shared.request(slot))
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
        // SAFETY: the mapping lives as long as the process record's `shared`, which is only replaced when this loop ends.
        let word = unsafe { &*word };
        for _ in 0..self.context_switch.spins() {
            if word.load(Ordering::Acquire) == token::ENGINE {
                return TurnEnd::Call;
            }
            std::hint::spin_loop();
        }
        if self.context_switch.is_on_two() {
            // A signal may have stopped or killed the thread that was to wake this one.
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
        // SAFETY: as in `wait_for_token`.
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
                // A last request may have been written just before the end; the old image's slot is kept in `retired`.
                return if word.load(Ordering::Acquire) == token::ENGINE { TurnEnd::Call } else { end };
            }
            // The clock is read only here: most turns end before the first look around.
            let elapsed = started.get_or_insert_with(Instant::now).elapsed();
            if elapsed >= FIRST_TURN_LIMIT && self.is_absent(process, slot) {
                return self.end_absent(process);
            }
            if elapsed >= next_reminder {
                // The process that was to wake the thread may have been stopped or killed.
                next_reminder = elapsed * 2;
                self.context_switch.wake(wake_word_of(process as u32, slot));
            }
            if elapsed >= next_suspicion {
                next_suspicion = elapsed + (elapsed / 2).min(Duration::from_millis(50));
                self.suspect_spin(process, slot, elapsed);
            }
        }
    }

    /// Hears whether the running process has ended or was replaced.
    fn look_for_end(&mut self, process: usize) -> Option<TurnEnd> {
        if self.processes[process].connection.is_none() {
            return Some(TurnEnd::Gone);
        }
        let connection = self.processes[process].connection;
        self.receive_control_events();
        // A child that the running thread has just made may be what it waits for.
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

    /// The old image is gone by exec: wait for the new one to say hello.
    fn await_new_image(&mut self, process: usize) -> TurnEnd {
        let started = Instant::now();
        self.processes[process].state = ProcessState::Expected;
        while started.elapsed() < ATTACH_LIMIT && !self.interrupt.is_raised() {
            self.await_control_event(Duration::from_millis(20));
            self.greet_all();
            if self.processes[process].state == ProcessState::Attached {
                return TurnEnd::Replaced;
            }
            // SAFETY: signal 0 only asks whether the process is there.
            if unsafe { libc::kill(self.processes[process].pid, 0) } != 0 || self.is_zombie(process) {
                self.tickets.withdraw_images_of(process);
                return TurnEnd::Gone;
            }
        }
        self.tickets.withdraw_images_of(process);
        self.make_foreign(process);
        TurnEnd::Replaced
    }

    /// The system's number of a process of the run by the one that programs know; 0 where there is none.
    pub(crate) fn find_process(&self, asked: &ProcessNumber) -> Result<Vec<u8>, i32> {
        let is_it = |record: &Process| Self::virtual_pid(record.number) == asked.number && record.state == ProcessState::Attached;
        let number = self.processes.find(is_it).map_or(0, |process| self.processes[process].pid as u32);
        Ok(crate::calls::reply(&ProcessNumber { number, reserved: 0 }))
    }

    pub(crate) fn is_zombie(&self, process: usize) -> bool {
        let stat = crate::process::stat(format!("/proc/{}/stat", self.processes[process].pid));
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
    }

    /// An image that cannot be given the library runs outside the fabric's time.
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
        // Without memory that peers may write it more likely computes, unless it is asleep: a closer look would only slow it down.
        if record.remotely_writable == 0 && elapsed < COMPUTE_SUSPECT && !is_asleep(record.pid, tid) {
            return;
        }
        // SAFETY: a signal to a thread; the kernel checks that it belongs to the process.
        unsafe { libc::syscall(libc::SYS_tgkill, record.pid, tid, softband_ipc::layout::SPIN_SIGNAL) };
    }

    /// Waits, in wall-clock time, for images that were started or forked: nothing may happen before they take part.
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

    /// A thread waits from `now` on, at most until `deadline`.
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

    /// A polling or spinning thread waits for news, with pauses that grow while there are none.
    pub(crate) fn park_for_news(&mut self, process: usize, slot: u32, waiting: Waiting) {
        let thread = &mut self.processes[process].threads[slot as usize];
        thread.waiting_since.get_or_insert(self.now);
        let slice = thread.slice_picos;
        thread.slice_picos = (slice * 2).min(SLICE_LAST_PICOS);
        self.park(process, slot, waiting, Some(self.now + SimDuration::from_picos(slice)));
        self.note_vain_poll();
    }

    /// Lets a waiting thread go on at `now`.
    pub(crate) fn wake(&mut self, process: usize, slot: u32) {
        let thread = &mut self.processes[process].threads[slot as usize];
        thread.generation = thread.generation.wrapping_add(1);
        thread.state = ThreadState::Scheduled;
        self.queue.push(self.now, process as u32, Event::Resume { process, slot });
    }

    /// Something new for a process: its polling threads look.
    pub(crate) fn touch(&mut self, process: ProcessId) {
        let index = process.0 as usize;
        self.processes[index].news += 1;
        self.wake_where(index, |waiting| *waiting == Waiting::Poll);
    }

    /// Registered memory of a process was written by a peer.
    pub(crate) fn touch_memory(&mut self, process: ProcessId, whole: bool) {
        let index = process.0 as usize;
        self.processes[index].memory_written += 1;
        // A loop that spins wants the message. One that wants a byte in its midst sees it at its next poll from time to time:
        // a turn at each packet would cost more than all the rest.
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
                // What came after so long will come again after about as long: no need to look much sooner.
                let waited = thread.waiting_since.take().map_or(0, |since| now.saturating_since(since).as_picos());
                thread.slice_picos = (waited * 2).clamp(SLICE_FIRST_PICOS, SLICE_LAST_PICOS);
                self.wake(process, slot as u32);
            }
        }
    }

    /// An object may have become ready: each thread that waits for it looks again.
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
