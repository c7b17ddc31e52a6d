//! A process of a program: its state, threads, signals and objects.

use crate::process::alarms::Alarms;
use crate::process::awaited::Awaited;
use crate::process::event_sender::EventSender;
use crate::process::image::Shared;
use crate::process::looks::Sight;
use crate::process::sharing::Arrivals;
use crate::process::thread::{Thread, ThreadState, Waiting};
use crate::process::work::Work;
use crate::protocol::{END, program_time};
use softband_ipc::layout::{THREADS_MAX, token};
use softband_shm_transport::quiescence::Announced;
use softband_sim::{SimDuration, SimTime};
use softband_types::ProcessId;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Process id that process number 0 sees as its own.
const VIRTUAL_PID_FIRST: u32 = 1_000;

/// State of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessState {
    /// The engine issued its ticket, but its parent has not had the token to create it.
    Promised,
    /// Its image has not attached yet (started, forked or about to be replaced).
    Expected,
    Attached,
    /// Runs outside the simulation, because its image cannot load the library.
    Foreign,
    Ended,
}

/// The consequence of a signal for the threads of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Raised {
    /// This thread ends its wait for objects or a time.
    EndsWait(u32),
    /// This thread ends its poll.
    Wakes(u32),
    /// The next thread that gets the token takes the signal, or the system has raised it.
    Nothing,
}

/// A process of a program.
pub(crate) struct Process {
    number: ProcessId,
    host: usize,
    /// Index of its program in the run.
    program: usize,
    parent: Option<usize>,
    /// Number by which the process proves its identity; 0 before it attaches.
    secret: u64,
    state: ProcessState,
    shared: Shared,
    /// Host's process id; 0 before the process exists.
    pid: i32,
    /// Start time of the process in the kernel's ticks. Another process may later have the same id.
    pid_since: Option<u64>,
    /// Number of the control connection.
    connection: Option<u64>,
    threads: Vec<Thread>,
    /// In simulated time: work of the threads while messages were under way, under all images.
    work: Work,
    /// Counter of all news that a thread of the process could see.
    news: u64,
    memory_written: u64,
    /// Counter of peers' whole writes.
    writes: u64,
    /// Writes of other processes to shared memory.
    pub(super) arrivals: Arrivals,
    /// Objects for which the program asks without a wait.
    awaited: Awaited,
    /// In wall pace: send requests that the engine carries out after it has read all processes'
    /// posts again.
    held_sends: Vec<u8>,
    /// In wall pace, once the process has a channel: socket that sends its events.
    event_sender: Option<EventSender>,
    /// In wall pace: the transfers that the process has announced, as last seen by the engine.
    announced: Cell<Announced>,
    signals_pending: u64,
    alarms: Alarms,
    /// Objects that the process holds, each with its number of references.
    objects: BTreeMap<u32, u32>,
    /// Number of registrations so far that let peers write. The process may spin on this memory.
    remotely_writable: u32,
    /// Set if the process has announced its end. The system ends it at once, at any point of its
    /// other threads. These threads therefore get no more turns.
    leaves: bool,
}

impl Process {
    /// Creates the record of a process that has not attached yet.
    pub(super) fn new(number: ProcessId, (host, program, parent): (usize, usize, Option<usize>), shared: Shared) -> Self {
        Self {
            number,
            host,
            program,
            parent,
            secret: 0,
            state: ProcessState::Expected,
            shared,
            pid: 0,
            pid_since: None,
            connection: None,
            threads: vec![Thread::new(ThreadState::Expected)],
            work: Work::default(),
            news: 0,
            memory_written: 0,
            writes: 0,
            arrivals: Arrivals::default(),
            awaited: Awaited::default(),
            held_sends: Vec::new(),
            event_sender: None,
            announced: Cell::new(Announced::nothing()),
            signals_pending: 0,
            alarms: Alarms::default(),
            objects: BTreeMap::new(),
            remotely_writable: 0,
            leaves: false,
        }
    }

    pub(crate) fn number(&self) -> ProcessId {
        self.number
    }
    /// Returns the index of the process among all processes.
    pub(crate) fn index(&self) -> usize {
        self.number.0 as usize
    }
    /// Returns the process id that the program sees as its own, in simulated time.
    pub(crate) fn virtual_pid(&self) -> u32 {
        virtual_pid(self.number)
    }
    pub(crate) fn host(&self) -> usize {
        self.host
    }
    pub(crate) fn program(&self) -> usize {
        self.program
    }
    pub(crate) fn parent(&self) -> Option<usize> {
        self.parent
    }
    pub(crate) fn secret(&self) -> u64 {
        self.secret
    }
    /// Returns the host's process id; 0 before the process exists.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }
    pub(crate) fn connection(&self) -> Option<u64> {
        self.connection
    }
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
    pub(crate) fn shared_mut(&mut self) -> &mut Shared {
        &mut self.shared
    }

    pub(crate) fn state(&self) -> ProcessState {
        self.state
    }
    pub(crate) fn is_attached(&self) -> bool {
        self.state == ProcessState::Attached
    }
    /// Returns whether an image will attach with the ticket of this process.
    pub(crate) fn is_awaited(&self) -> bool {
        matches!(self.state, ProcessState::Promised | ProcessState::Expected)
    }
    pub(crate) fn is_alive(&self) -> bool {
        matches!(self.state, ProcessState::Promised | ProcessState::Expected | ProcessState::Attached)
    }
    /// Returns whether the process has announced its end.
    pub(crate) fn leaves(&self) -> bool {
        self.leaves
    }
    pub(crate) fn announce_end(&mut self) {
        self.leaves = true;
    }
    /// Marks a child that its parent creates in its present turn.
    pub(crate) fn promise(&mut self) {
        self.state = ProcessState::Promised;
    }
    /// Marks a process whose image the engine awaits.
    pub(crate) fn expect_image(&mut self) {
        self.state = ProcessState::Expected;
    }
    /// Marks a process whose image cannot load the library.
    pub(crate) fn become_foreign(&mut self) {
        self.state = ProcessState::Foreign;
    }
    /// Marks a process that never attached as ended.
    pub(crate) fn never_came(&mut self) {
        self.state = ProcessState::Ended;
    }

    /// Attaches the image of process `pid`.
    pub(crate) fn attach(&mut self, pid: i32, connection: Option<u64>, secret: u64) {
        self.state = ProcessState::Attached;
        self.secret = secret;
        self.set_pid(pid);
        self.connection = connection;
        self.threads[0].resume();
    }

    /// Puts fresh shared memory and one thread into the place of the former image. Returns the
    /// former memory. Descriptors stay.
    pub(super) fn replace_image(&mut self, shared: Shared) -> Shared {
        self.threads = vec![Thread::new(ThreadState::Expected)];
        self.remotely_writable = 0;
        std::mem::replace(&mut self.shared, shared)
    }

    /// Moves the process to another host, before its new image attaches.
    pub(crate) fn move_to(&mut self, host: usize) {
        self.host = host;
    }

    /// Ends the process and its threads.
    pub(crate) fn end(&mut self) {
        self.state = ProcessState::Ended;
        self.threads.iter_mut().for_each(Thread::end);
        self.event_sender = None;
    }

    pub(crate) fn close_connection(&mut self) {
        self.connection = None;
    }
    /// Sets the host's process id and the start time of that process.
    pub(crate) fn set_pid(&mut self, pid: i32) {
        (self.pid, self.pid_since) = (pid, crate::control::admission::start_of(pid));
    }
    /// Sends a signal to this process only, even if another process has its id by now.
    pub(crate) fn send_signal(&self, signal: i32) {
        crate::process::system_process::send_signal(self.pid, self.pid_since, signal);
    }

    /// Returns the clock of a thread, as its program wrote it.
    pub(crate) fn clock(&self, slot: u32) -> SimTime {
        program_time(self.shared.slot(slot).clock_ps.load(Ordering::Relaxed)).unwrap_or(END)
    }
    /// Returns the latest clock of all threads.
    pub(crate) fn last_clock(&self) -> Option<SimTime> {
        self.slots().map(|slot| self.clock(slot)).max()
    }

    pub(crate) fn slots(&self) -> std::ops::Range<u32> {
        0..self.threads.len() as u32
    }
    pub(crate) fn threads(&self) -> &[Thread] {
        &self.threads
    }
    /// # Panics
    /// If the process never had such a thread.
    pub(crate) fn thread(&self, slot: u32) -> &Thread {
        &self.threads[slot as usize]
    }
    /// # Panics
    /// If the process never had such a thread.
    pub(crate) fn thread_mut(&mut self, slot: u32) -> &mut Thread {
        &mut self.threads[slot as usize]
    }
    pub(crate) fn is_any_away(&self) -> bool {
        self.threads.iter().any(|thread| *thread.state() == ThreadState::Away)
    }
    pub(crate) fn is_away(&self, slot: u32) -> bool {
        *self.threads[slot as usize].state() == ThreadState::Away
    }
    /// Returns whether the thread polls for a state that only the operating system knows.
    pub(crate) fn is_at_os_poll(&self, slot: u32) -> bool {
        self.threads.get(slot as usize).is_some_and(|thread| *thread.state() == ThreadState::Waiting(Waiting::OsPoll))
    }

    /// Prepares a thread for its turn at `now`. It sees all news and takes the pending signals.
    /// Nothing happens before `next_event`.
    pub(crate) fn begin_turn(&mut self, slot: u32, now: SimTime, next_event: SimTime) {
        let thread = &mut self.threads[slot as usize];
        thread.begin_turn(now);
        thread.see((self.news, self.memory_written));
        thread.rounds.begin_turn(self.arrivals.begin_turn(next_event));
        if std::mem::take(&mut thread.has_spun) {
            thread.looks.see_writes(self.writes);
        }
        let shared = self.shared.slot(slot);
        shared.looks_left.store(thread.looks.granted(), Ordering::Relaxed);
        shared.looks_end_ps.store(next_event.as_picos(), Ordering::Relaxed);
        shared.next_event_ps.store(next_event.as_picos(), Ordering::Relaxed);
        shared.clock_ps.fetch_max(now.as_picos(), Ordering::Relaxed);
        shared.signals.fetch_or(std::mem::take(&mut self.signals_pending), Ordering::Relaxed);
    }

    /// Notes the end of a thread's turn, in which it has posted or not.
    pub(crate) fn end_turn(&mut self, slot: u32, has_posted: bool) {
        let left = self.shared.slot(slot).looks_left.load(Ordering::Relaxed);
        let has_written = self.has_written();
        self.threads[slot as usize].rounds.end_turn(has_written);
        let looks = &mut self.threads[slot as usize].looks;
        looks.end_turn(left);
        if has_posted {
            looks.posted(self.shared.taken());
        }
    }

    /// Notes an empty poll of a queue. Returns whether the thread may find news elsewhere, so that
    /// it is not parked.
    pub(crate) fn looks_on(&mut self, slot: u32, queue: u32) -> bool {
        let is_unread = self.awaited.has_news(self.shared.kernel_questions()) || self.shared.has_unread();
        let sight = Sight { news: self.news, writes: self.writes, taken: self.shared.taken(), is_unread };
        let thread = &mut self.threads[slot as usize];
        let is_on_round = thread.rounds.look(queue, self.arrivals.count);
        thread.looks.look(sight) || is_on_round
    }

    /// Notes news of the kernel's descriptors. Returns whether the program has asked for any.
    pub(crate) fn note_kernel_news(&mut self) -> bool {
        let questions = self.shared.kernel_questions();
        self.awaited.note_kernel_news(questions);
        questions != 0
    }
    /// Returns whether a thread waits for a descriptor of the kernel.
    pub(crate) fn awaits_kernel(&self, slot: u32) -> bool {
        let waits = |state: &ThreadState| matches!(state, ThreadState::Waiting(Waiting::Sleep | Waiting::OsPoll | Waiting::Objects(_)));
        waits(self.threads[slot as usize].state()) && self.shared.slot(slot).awaits_kernel.load(Ordering::Relaxed) != 0
    }

    /// Notes that the program asks for an object: without a wait, or with one.
    pub(crate) fn note_question(&mut self, object: u32, interest: u32, waits: bool) {
        if waits || !self.objects.contains_key(&object) {
            self.awaited.remove(object);
        } else {
            self.awaited.ask(object, interest);
        }
    }
    /// Notes that the program has taken something from an object.
    pub(crate) fn note_taken(&mut self, object: u32) {
        self.awaited.take(object);
    }
    /// Notes that an object is ready for which the program asks without a wait.
    pub(crate) fn note_ready(&mut self, object: u32) {
        self.awaited.note_news(object);
    }
    /// Returns the objects for which the program asks without a wait.
    pub(crate) fn awaited(&self) -> &Awaited {
        &self.awaited
    }

    /// Adds a thread that begins at the clock of thread `parent`. Returns its slot and that clock.
    pub(crate) fn add_thread(&mut self, parent: u32) -> Result<(u32, SimTime), i32> {
        let free = self.threads.iter().position(|thread| *thread.state() == ThreadState::Ended);
        let slot = free.unwrap_or(self.threads.len());
        if slot >= THREADS_MAX {
            return Err(libc::EAGAIN);
        }
        let clock = self.clock(parent);
        let shared = self.shared.slot(slot as u32);
        shared.token.store(token::ENGINE, Ordering::SeqCst);
        shared.clock_ps.store(clock.as_picos(), Ordering::Relaxed);
        shared.posted_len.store(0, Ordering::Relaxed);
        shared.tid.store(0, Ordering::Relaxed);
        match self.threads.get_mut(slot) {
            Some(old) => old.replace(),
            None => self.threads.push(Thread::new(ThreadState::Scheduled)),
        }
        Ok((slot as u32, clock))
    }

    pub(crate) fn note_news(&mut self) {
        self.news += 1;
    }
    pub(crate) fn note_memory_written(&mut self) {
        self.memory_written += 1;
    }
    /// Notes that a peer has written a whole message.
    pub(crate) fn note_write_of_peer(&mut self) {
        self.writes += 1;
    }
    /// Returns whether a thread that begins this wait has missed news.
    pub(crate) fn has_missed(&self, slot: u32, waiting: &Waiting) -> bool {
        self.threads[slot as usize].has_missed(waiting, (self.news, self.memory_written))
    }

    /// Returns the work of each slot's threads.
    pub(crate) fn busy(&self) -> &[SimDuration] {
        self.work.by_slot()
    }
    /// Adds the work of a turn that began at `begun` by the thread's clock.
    pub(crate) fn note_work(&mut self, slot: u32, begun: SimTime) {
        self.work.add(slot, self.clock(slot).saturating_since(begun));
    }

    /// Returns the number of registrations so far that let peers write.
    pub(crate) fn remotely_writable(&self) -> u32 {
        self.remotely_writable
    }
    pub(crate) fn note_region(&mut self, is_remotely_writable: bool) {
        self.remotely_writable += u32::from(is_remotely_writable);
    }

    /// Returns whether sends of the process wait for the next reading of its posts.
    pub(crate) fn holds_sends(&self) -> bool {
        !self.held_sends.is_empty()
    }
    pub(crate) fn take_held_sends(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held_sends)
    }
    pub(crate) fn hold_sends(&mut self, sends: Vec<u8>) {
        self.held_sends = sends;
    }

    pub(crate) fn event_sender(&self) -> Option<&EventSender> {
        self.event_sender.as_ref()
    }
    /// Creates the socket that sends events, if the process has none yet.
    pub(crate) fn make_event_sender(&mut self) -> rustix::io::Result<&EventSender> {
        if self.event_sender.is_none() {
            self.event_sender = Some(EventSender::new()?);
        }
        self.event_sender.as_ref().ok_or(rustix::io::Errno::BADF)
    }
    pub(super) fn announced(&self) -> &Cell<Announced> {
        &self.announced
    }

    /// Checks that the process holds the object. Nobody may guess objects of other programs.
    pub(crate) fn held(&self, object: u32) -> Result<u32, i32> {
        self.objects.contains_key(&object).then_some(object).ok_or(libc::EBADF)
    }
    pub(crate) fn hold(&mut self, object: u32) {
        *self.objects.entry(object).or_insert(0) += 1;
    }
    /// Gives one reference to an object up. Fails if the process has none.
    pub(crate) fn let_go(&mut self, object: u32) -> Result<(), i32> {
        let count = self.objects.get_mut(&object).ok_or(libc::EBADF)?;
        *count -= 1;
        if *count == 0 {
            self.awaited.remove(object);
            self.objects.remove(&object);
        }
        Ok(())
    }
    /// Returns the held objects, each with its number of references.
    pub(crate) fn objects(&self) -> &BTreeMap<u32, u32> {
        &self.objects
    }
    /// Replaces the held objects, and returns the former ones.
    pub(crate) fn set_objects(&mut self, objects: BTreeMap<u32, u32>) -> BTreeMap<u32, u32> {
        std::mem::replace(&mut self.objects, objects)
    }

    /// Returns the times at which the alarms of the process ring.
    pub(crate) fn alarms(&self) -> impl Iterator<Item = SimTime> {
        self.alarms.times()
    }
    /// Sets an alarm, or clears it without a time. Returns the former time and interval in
    /// picoseconds.
    pub(crate) fn set_alarm(&mut self, signal: u32, setting: (Option<SimTime>, u64), generation: u64) -> (u64, u64) {
        let former = self.alarms.set(signal, setting, generation);
        self.publish_deadline();
        former
    }
    /// Takes an alarm that rings. Returns `None` if it is stale, else the time of its next ring, if
    /// it has any.
    pub(crate) fn ring(&mut self, signal: u32, generation: u64) -> Option<Option<SimTime>> {
        let next = self.is_attached().then(|| self.alarms.ring(signal, generation))??;
        self.publish_deadline();
        Some(next)
    }
    fn publish_deadline(&self) {
        let earliest = self.alarms.times().min().map_or(u64::MAX, SimTime::as_picos);
        self.shared.header().deadline_ps.store(earliest, Ordering::Relaxed);
    }

    /// Raises a signal. The first waiting thread takes it; otherwise the next thread that gets the
    /// token.
    pub(crate) fn raise(&mut self, signal: u32) -> Raised {
        self.signals_pending |= 1 << (signal & 63);
        let waiting = self.threads.iter().position(|thread| matches!(thread.state(), ThreadState::Waiting(_)));
        match waiting {
            Some(slot) => match self.threads[slot].state() {
                ThreadState::Waiting(Waiting::Objects(_) | Waiting::Sleep | Waiting::OsPoll) => Raised::EndsWait(slot as u32),
                _ => Raised::Wakes(slot as u32),
            },
            None => {
                if self.threads.iter().all(|thread| matches!(thread.state(), ThreadState::Away | ThreadState::Ended)) {
                    self.signals_pending &= !(1 << (signal & 63));
                    self.send_signal(signal as i32);
                }
                Raised::Nothing
            }
        }
    }
}

/// Returns the process id that a program sees as that of process `number`, in simulated time.
pub(crate) fn virtual_pid(number: ProcessId) -> u32 {
    VIRTUAL_PID_FIRST + number.0
}
