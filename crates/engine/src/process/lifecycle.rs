//! Starts, forks, replaces and ends processes.

use crate::control::socket::ControlEvent;
use crate::control::tickets::Grant;
use crate::engine::{Engine, Event, Pace};
use crate::process::image::{AlarmState, Process, ProcessState, Shared, Thread, ThreadState, Waiting};
use crate::rpc::calls::program_time;
use crate::scheduler::threads::SLICE_FIRST_PICOS;
use softband_ipc::layout::{self, HostEntry, SharedHeader, THREADS_MAX};
use softband_sim::{RandomStream, SimDuration, SimTime};
use softband_types::ProcessId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Wall-clock time within which a call outside the engine's sight counts as immediate.
const AWAY_GRACE: Duration = Duration::from_millis(5);
/// Smallest exit status that stands for a signal.
const STATUS_OF_SIGNALS: i32 = 128;
/// Process id that process number 0 sees as its own.
const VIRTUAL_PID_FIRST: u32 = 1_000;

pub(crate) fn new_thread(state: ThreadState) -> Thread {
    Thread { state, generation: 0, news_seen: 0, memory_seen: 0, slice_picos: SLICE_FIRST_PICOS, came_back: false, paid: false, waiting_since: None }
}

fn host_entry(address: u32, name: &str) -> HostEntry {
    let mut entry = HostEntry { address, name_len: name.len().min(63) as u32, name: [0; 64] };
    entry.name[..entry.name_len as usize].copy_from_slice(&name.as_bytes()[..entry.name_len as usize]);
    entry
}

impl Engine {
    /// Adds a process of `program`, which will attach with the returned ticket.
    ///
    /// # Errors
    /// If the system has no memory or no descriptors for it. The engine's state is then unchanged.
    pub(crate) fn expect_process(&mut self, host: usize, program: usize, parent: Option<usize>) -> std::io::Result<u64> {
        let number = self.processes.len();
        let mut shared = Shared::new()?;
        let ticket = self.tickets.issue(Grant::Process(number))?;
        let number = ProcessId(number as u32);
        self.write_header(number, host, &mut shared);
        shared.slot(0).clock_ps.store(self.now.as_picos(), Ordering::Relaxed);
        self.processes.push(Process {
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
            threads: vec![new_thread(ThreadState::Expected)],
            busy: Vec::new(),
            news: 0,
            memory_written: 0,
            held_sends: Vec::new(),
            event_sender: None,
            announced: std::cell::Cell::new(softband_shm_transport::quiescence::Announced::nothing()),
            signals_pending: 0,
            alarms: BTreeMap::new(),
            objects: BTreeMap::new(),
            remotely_writable: 0,
            ended_at: None,
            leaves: false,
        });
        Ok(ticket)
    }

    pub(crate) fn write_header(&self, number: ProcessId, host: usize, shared: &mut Shared) {
        if self.pace == Pace::Wall {
            shared.write_hosts(self.world.spec().hosts.iter().enumerate().map(|(index, host)| host_entry(self.network.address(index), &host.name)));
        }
        let part = &self.world.spec().hosts[host];
        let mut host_name = [0; 64];
        if self.pace == Pace::Wall {
            shared.make_memory_file(&self.admission);
        }
        let memory_file = shared.memory_file_number();
        let name = part.name.as_bytes();
        host_name[..name.len().min(63)].copy_from_slice(&name[..name.len().min(63)]);
        shared.write_header(SharedHeader {
            magic: 0,
            version: 0,
            process: number.0,
            host_address: self.network.address(host),
            virtual_pid: Self::virtual_pid(number),
            host_name,
            epoch_seconds: self.epoch_seconds,
            cost_post_send: part.part.post_send.as_picos(),
            cost_inline_byte: part.part.inline_byte().as_picos(),
            cost_post_receive: part.part.post_receive.as_picos(),
            cost_poll_cq: part.part.poll_cq.as_picos(),
            cost_clock_read: part.part.clock_read.as_picos(),
            seed: RandomStream::new(self.seed, u64::from(number.0)).next_u64(),
            token_spins: AtomicU32::new(self.context_switch.spins()),
            pace: match self.pace {
                Pace::Virtual => layout::pace::VIRTUAL,
                Pace::Wall => layout::pace::WALL,
            },
            deadline_ps: AtomicU64::new(u64::MAX),
            epoch_slots: Default::default(),
            orders_epoch_slots: u32::from(self.quiescence.has_barriers),
            wall_start_ns: self.wall_start_ns,
            ring_produced: AtomicU64::new(0),
            ring_consumed: AtomicU64::new(0),
            memory_generation: AtomicU64::new(0),
            memory_file,
            is_welcomed: AtomicU32::new(0),
        });
    }

    pub(crate) fn virtual_pid(number: ProcessId) -> u32 {
        VIRTUAL_PID_FIRST + number.0
    }

    pub(crate) fn fork(&mut self, process: usize) -> Result<(u64, ProcessId), i32> {
        let (host, program) = (self.processes[process].host, self.processes[process].program);
        let ticket = self.expect_process(host, program, Some(process)).map_err(|error| error.raw_os_error().unwrap_or(libc::EAGAIN))?;
        let child = self.processes.len() - 1;
        let objects = self.processes[process].objects.clone();
        for (object, count) in &objects {
            for _ in 0..*count {
                self.objects.retain(*object);
            }
        }
        self.processes[child].objects = objects;
        self.processes[child].state = ProcessState::Promised;
        Ok((ticket, self.processes[child].number))
    }

    /// Waits for promised children. Their parent has had the token, so they exist now. No event may
    /// happen before they take part.
    pub(crate) fn keep_promises(&mut self, parent: usize) {
        while let Some(child) = self.processes.find(|process| process.state == ProcessState::Promised && process.parent == Some(parent)) {
            self.processes[child].state = ProcessState::Expected;
        }
    }

    pub(crate) fn cancel_fork(&mut self, ticket: u64) {
        if let Some(child) = self.tickets.withdraw(ticket).filter(|child| self.processes[*child].is_awaited()) {
            self.release_everything(child);
            self.processes[child].state = ProcessState::Ended;
        }
    }

    pub(crate) fn new_thread(&mut self, process: usize, parent: u32) -> Result<u32, i32> {
        let record = &mut self.processes[process];
        let free = record.threads.iter().position(|thread| thread.state == ThreadState::Ended);
        let slot = free.unwrap_or(record.threads.len());
        if slot >= THREADS_MAX {
            return Err(libc::EAGAIN);
        }
        let clock = record.clock(parent);
        let shared = record.shared.slot(slot as u32);
        shared.token.store(layout::token::ENGINE, Ordering::SeqCst);
        shared.clock_ps.store(clock.as_picos(), Ordering::Relaxed);
        shared.posted_len.store(0, Ordering::Relaxed);
        shared.tid.store(0, Ordering::Relaxed);
        let mut thread = new_thread(ThreadState::Scheduled);
        if let Some(old) = record.threads.get_mut(slot) {
            thread.generation = old.generation.wrapping_add(1);
            *old = thread;
        } else {
            record.threads.push(thread);
        }
        // This event follows the answer to the parent thread, which has yet to create the new
        // thread.
        let at = clock.max(self.now) + SimDuration::from_picos(1);
        self.queue.push(at, process as u32, Event::Resume { process, slot: slot as u32 });
        Ok(slot as u32)
    }

    /// Ends a process that announced its end. Its peers see the end from now on.
    pub(crate) fn process_exits(&mut self, process: usize) {
        if self.pace == Pace::Virtual {
            self.miss_children_of(process);
        }
        self.end_process(process);
        if self.pace == Pace::Virtual {
            self.await_death(process);
        }
    }

    /// Ends the children of `parent` that are zombies. The parent may have seen their end before
    /// the engine got the end of their connections.
    fn miss_children_of(&mut self, parent: usize) {
        let is_gone = |child: usize| {
            let record = &self.processes[child];
            record.parent == Some(parent) && record.state == ProcessState::Attached && record.pid > 0 && self.is_zombie(child)
        };
        let gone: Vec<usize> = (0..).map_while(|nth| self.processes.nth_living(nth)).filter(|child| is_gone(*child)).collect();
        gone.into_iter().for_each(|child| self.process_gone(child));
    }

    /// Ends a process that did not announce its end: a crash or a kill.
    pub(crate) fn process_gone(&mut self, process: usize) {
        if self.processes[process].state == ProcessState::Attached {
            // A living parent learns of this end and reports it if necessary. A signal may end a
            // shell's pipeline without a fault.
            let is_told = self.processes[process].parent.is_some_and(|parent| self.processes[parent].is_alive());
            if self.pace == Pace::Virtual && !is_told && !self.has_ended_by_itself(process) {
                self.warn(format!("{} was killed or crashed at {:.6} s of simulated time", self.command_of(process), self.now.as_secs_f64()));
            }
            self.end_process(process);
        }
    }

    /// Returns whether a process ended itself with its own status, in a way that the engine does
    /// not see (`quick_exit`, its own system call). The engine gets no status of processes that
    /// programs started and left behind.
    fn has_ended_by_itself(&mut self, process: usize) -> bool {
        let Process { program, parent: None, .. } = self.processes[process] else { return false };
        let started = Instant::now();
        while self.statuses[program].is_none() && started.elapsed() < Duration::from_secs(1) && !self.interrupt.is_raised() {
            self.await_control_event(Duration::from_millis(1));
            self.note_early_exits();
        }
        self.statuses[program].is_some_and(|status| status < STATUS_OF_SIGNALS)
    }

    fn end_process(&mut self, process: usize) {
        let record = &mut self.processes[process];
        record.state = ProcessState::Ended;
        record.ended_at = Some(self.now);
        for thread in &mut record.threads {
            thread.state = ThreadState::Ended;
            thread.generation = thread.generation.wrapping_add(1);
        }
        let (number, program) = (record.number, record.program);
        self.withdraw_process(number);
        self.world.remove_process(self.now, number);
        self.memory.flush(number);
        self.memory.set_pid(number, None);
        self.cqs.retain(|_, cq| cq.process != process);
        self.release_everything(process);
        self.program_ended_at(program, self.now);
        let host = self.processes[process].host;
        if !self.processes.any(|process| process.host == host && process.is_alive()) {
            self.refuse_seekers_of(host);
        }
        self.processes[process].event_sender = None;
        self.drop_tickets();
        self.admission.forget_member(self.processes[process].secret);
        if self.pace == Pace::Wall {
            self.admission.take_file(self.processes[process].shared.memory_file_number());
            // A persistent fabric sees any number of processes come and go.
            self.processes[process].shared.retire();
        }
    }

    fn release_everything(&mut self, process: usize) {
        for (object, count) in std::mem::take(&mut self.processes[process].objects) {
            for _ in 0..count {
                self.release_object(object);
            }
        }
    }

    /// Waits until the host has ended the process. Simulated time stands still meanwhile. Otherwise
    /// a process that waits natively for this end would see it at a time that depends on the host.
    fn await_death(&mut self, process: usize) {
        let started = Instant::now();
        while self.processes[process].connection.is_some() && started.elapsed() < Duration::from_secs(5) && !self.interrupt.is_raised() {
            self.await_control_event(Duration::from_millis(1));
            self.take_closed();
        }
        self.await_zombie(process);
        let Some(parent) = self.processes[process].parent else { return };
        let away = |engine: &Self| engine.processes[parent].threads.iter().any(|thread| thread.state == ThreadState::Away);
        let started = Instant::now();
        while away(self) && started.elapsed() < Duration::from_millis(30) && !self.interrupt.is_raised() {
            self.await_control_event(Duration::from_millis(1));
            let connection = self.processes[parent].connection;
            let back =
                self.control_events.iter().position(|event| matches!(event, ControlEvent::Back { connection: c, .. } if Some(*c) == connection));
            if let Some(ControlEvent::Back { connection, slot }) = back.and_then(|index| self.control_events.remove(index)) {
                self.thread_back(connection, slot);
                break;
            }
        }
    }

    /// Waits until the process is a zombie. Its descriptors close a moment before the parent gets
    /// SIGCHLD and can wait for it.
    pub(crate) fn await_zombie(&self, process: usize) {
        let started = Instant::now();
        while self.processes[process].pid > 0 && !self.is_zombie(process) && started.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    fn take_closed(&mut self) {
        while let Some(index) = self.control_events.iter().position(|event| matches!(event, ControlEvent::Closed { .. })) {
            if let Some(ControlEvent::Closed { connection }) = self.control_events.remove(index) {
                self.connection_closed(connection);
            }
        }
    }

    pub(crate) fn connection_closed(&mut self, connection: u64) {
        let Some(process) = self.processes.find(|process| process.connection == Some(connection)) else { return };
        self.processes[process].connection = None;
        if self.processes[process].state == ProcessState::Attached {
            // Calls of its threads come first. The last call may be the end of the process.
            let slots = 0..self.processes[process].threads.len() as u32;
            let at = slots.map(|slot| self.clock_of(process, slot)).max().unwrap_or(self.now);
            self.queue.push(at, process as u32, Event::ProcessGone { process });
        }
    }

    /// Lets a thread continue that was away, at the present horizon.
    pub(crate) fn thread_back(&mut self, connection: u64, slot: u32) {
        let Some(process) = self.processes.find(|process| process.connection == Some(connection)) else { return };
        let Some(thread) = self.processes[process].threads.get_mut(slot as usize) else { return };
        if thread.state == ThreadState::Scheduled {
            thread.came_back = true;
        } else if thread.state == ThreadState::Away {
            self.resume_from_away(process, slot);
        }
    }

    fn resume_from_away(&mut self, process: usize, slot: u32) {
        self.processes[process].threads[slot as usize].state = ThreadState::Scheduled;
        let clock = self.clock_of(process, slot);
        self.queue.push(clock, process as u32, Event::Resume { process, slot });
    }

    /// Returns the time at which the call of a thread takes place: the thread's own clock, in wall
    /// pace the host's clock. In wall pace, a program with a false time would lead the engine's
    /// clock away from the host's. That would affect the work of all programs.
    pub(crate) fn clock_of(&self, process: usize, slot: u32) -> SimTime {
        match self.pace {
            Pace::Virtual => self.processes[process].clock(slot).max(self.now),
            Pace::Wall => self.now,
        }
    }

    /// Lets a thread go where the engine does not see it. A call that returns at once ends at the
    /// same simulated time in every run.
    pub(crate) fn goes_away(&mut self, process: usize, slot: u32) {
        let thread = &mut self.processes[process].threads[slot as usize];
        thread.state = ThreadState::Away;
        if std::mem::take(&mut thread.came_back) {
            self.resume_from_away(process, slot);
            return;
        }
        let started = Instant::now();
        while self.processes[process].threads[slot as usize].state == ThreadState::Away && started.elapsed() < AWAY_GRACE {
            self.await_control_event(AWAY_GRACE);
            self.greet_all();
            self.handle_control_events();
        }
    }

    /// Sets, changes or clears a timer that raises a signal. Returns the former setting.
    pub(crate) fn set_alarm(&mut self, process: usize, signal: u32, at: SimTime, interval_picos: u64) -> (u64, u64) {
        self.alarms_made += 1;
        let generation = self.alarms_made;
        let record = &mut self.processes[process];
        let former = record.alarms.remove(&signal).map_or((0, 0), |alarm| (alarm.at.as_picos(), alarm.interval_picos));
        if let Some(at) = program_time(at.as_picos()).filter(|at| *at > SimTime::ZERO) {
            let at = at.max(self.now);
            record.alarms.insert(signal, AlarmState { at, interval_picos, generation });
            self.queue.push(at, process as u32, Event::AlarmRings { process, signal, generation });
        }
        self.publish_deadline(process);
        former
    }

    fn publish_deadline(&self, process: usize) {
        let record = &self.processes[process];
        let earliest = record.alarms.values().map(|alarm| alarm.at.as_picos()).min().unwrap_or(u64::MAX);
        record.shared.header().deadline_ps.store(earliest, Ordering::Relaxed);
    }

    pub(crate) fn alarm_rings(&mut self, process: usize, signal: u32, generation: u64) {
        let record = &mut self.processes[process];
        if record.state != ProcessState::Attached || record.alarms.get(&signal).is_none_or(|alarm| alarm.generation != generation) {
            return;
        }
        let alarm = record.alarms.remove(&signal).expect("just looked at");
        let next = program_time(alarm.at.as_picos().saturating_add(alarm.interval_picos)).filter(|_| alarm.interval_picos > 0);
        if let Some(next) = next {
            record.alarms.insert(signal, AlarmState { at: next, ..alarm });
            self.queue.push(next, process as u32, Event::AlarmRings { process, signal, generation });
        }
        self.publish_deadline(process);
        self.raise(process, signal);
    }

    /// Raises a signal for a process. The first waiting thread takes it; otherwise the next thread
    /// that gets the token.
    fn raise(&mut self, process: usize, signal: u32) {
        let record = &mut self.processes[process];
        record.signals_pending |= 1 << (signal & 63);
        let waiting = record.threads.iter().position(|thread| matches!(thread.state, ThreadState::Waiting(_)));
        match waiting {
            Some(slot) => match &record.threads[slot].state {
                ThreadState::Waiting(Waiting::Objects(_) | Waiting::Sleep | Waiting::OsPoll) => self.finish_wait(process, slot as u32, true),
                _ => self.wake(process, slot as u32),
            },
            None if record.threads.iter().all(|thread| thread.state == ThreadState::Away || thread.state == ThreadState::Ended) => {
                record.signals_pending &= !(1 << (signal & 63));
                record.send_signal(signal as i32);
            }
            None => {}
        }
    }
}
