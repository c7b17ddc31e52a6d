//! Starts, forks and ends processes.

use crate::control::tickets::Grant;
use crate::engine::{Engine, surroundings};
use crate::process::record::ProcessState;
use crate::process::system_process::{Ending, Outside, exists, is_doomed, is_zombie};
use crate::procfs::{forget, is_hidden};
use crate::scheduler::agenda::Event;
use softband_types::ProcessId;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Wall-clock time within which something outside the run may answer a call outside the engine's
/// sight at once. Programs of the run do not need it: they do not run meanwhile.
const AWAY_GRACE: Duration = Duration::from_millis(5);
/// Longest wall-clock time until the kernel closes the connection of a process that ends.
const CLOSE_PATIENCE: Duration = Duration::from_secs(60);
/// The same once the process has ended.
const CLOSE_GRACE: Duration = Duration::from_secs(5);
/// Longest wall-clock time for which the engine waits until a stopped thread goes on.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two looks at a thread or a process in the kernel.
const LOOK: Duration = Duration::from_millis(1);
/// Smallest exit status that stands for a signal.
const STATUS_OF_SIGNALS: i32 = 128;

impl Engine {
    /// Adds a process of `program`, which will attach with the returned ticket.
    ///
    /// # Errors
    /// If the system has no memory or no descriptors for it. The engine's state is then unchanged.
    pub(super) fn expect_process(&mut self, host: usize, program: usize, parent: Option<usize>) -> std::io::Result<u64> {
        let ticket = self.control.issue(Grant::Process(self.processes.len()))?;
        let around = surroundings(&self.world, &self.scheduler, &self.host, &self.realtime, &self.control);
        match self.processes.expect(&around, (host, program, parent)) {
            Ok(_) => Ok(ticket),
            Err(error) => {
                self.control.withdraw(ticket);
                Err(error)
            }
        }
    }

    pub(super) fn start_program(&mut self, program: usize) {
        if self.programs.is_placeholder(program) {
            return;
        }
        let ticket = match self.expect_process(self.programs.host_of(program), program, None) {
            Ok(ticket) => ticket,
            Err(error) => return self.cannot_start(program, &error),
        };
        crate::scheduler::tsc::release();
        let processors = (!self.scheduler.is_wall()).then(|| self.scheduler.processor_of_programs());
        let outcome = self.programs.start(program, (ticket, self.control.name()), processors, self.control.mailbox());
        let process = self.processes.len() - 1;
        match outcome {
            Ok(pid) => {
                self.processes[process].set_pid(pid);
                self.control.admission().note_pid(pid);
            }
            Err(error) => {
                self.processes[process].never_came();
                self.cannot_start(program, &error);
            }
        }
    }

    fn cannot_start(&mut self, program: usize, error: &std::io::Error) {
        let host = &self.world.spec().hosts[self.programs.host_of(program)].name;
        let remedy = match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => ": raise the limit on open files (ulimit -n)",
            Some(libc::ENOMEM) => ": raise the limit on memory (ulimit -v), or run fewer programs",
            _ => "",
        };
        self.report.warn_again(format!("{host}: cannot start '{}': {error}{remedy}", self.programs.command_of(program)));
        self.programs.set_status(program, 127);
    }

    pub(super) fn fork(&mut self, process: usize) -> Result<(u64, ProcessId), i32> {
        let (host, program) = (self.processes[process].host(), self.processes[process].program());
        let ticket = self.expect_process(host, program, Some(process)).map_err(|error| error.raw_os_error().unwrap_or(libc::EAGAIN))?;
        let child = self.processes.len() - 1;
        let objects = self.processes[process].objects().clone();
        for (object, count) in &objects {
            (0..*count).for_each(|_| self.host.retain(*object));
        }
        self.processes[child].set_objects(objects);
        self.processes.inherit_sharing(process, child);
        self.processes[child].promise();
        Ok((ticket, self.processes[child].number()))
    }

    pub(super) fn cancel_fork(&mut self, ticket: u64) {
        if let Some(child) = self.control.withdraw(ticket).filter(|child| self.processes[*child].is_awaited()) {
            self.host_calls().release_everything(child);
            self.processes.end_sharing(child);
            self.processes[child].never_came();
        }
    }

    /// Ends a process that announced its end. Its peers see the end from now on.
    pub(super) fn process_exits(&mut self, process: usize) {
        if !self.scheduler.is_wall() {
            self.miss_children_of(process);
        }
        self.end_process(process);
        if !self.scheduler.is_wall() {
            self.await_death(process);
            self.await_watched_status(process);
        }
    }

    /// Ends the children of `parent` that are zombies. The parent may have seen their end before
    /// the engine got the end of their connections.
    fn miss_children_of(&mut self, parent: usize) {
        let is_gone = |child: &usize| {
            let record = &self.processes[*child];
            record.parent() == Some(parent) && record.is_attached() && record.pid() > 0 && is_zombie(record.pid())
        };
        let gone: Vec<usize> = (0..).map_while(|nth| self.processes.nth_living(nth)).filter(is_gone).collect();
        gone.into_iter().for_each(|child| self.process_gone(child));
    }

    /// Ends a process that did not announce its end: a crash or a kill.
    pub(super) fn process_gone(&mut self, process: usize) {
        if self.processes[process].is_attached() {
            // A living parent learns of this end and reports it if necessary. A signal may end a
            // shell's pipeline without a fault.
            let is_told = self.processes[process].parent().is_some_and(|parent| self.processes[parent].is_alive());
            if !self.scheduler.is_wall() && !is_told && !self.programs.has_watcher() && !self.has_ended_by_itself(process) {
                let at = self.scheduler.now().as_secs_f64();
                self.warn(format!("{} was killed or crashed at {at:.6} s of simulated time", self.command_of(process)));
            }
            self.end_process(process);
            self.await_watched_status(process);
        }
    }

    /// Waits for the exit status of a program that somebody watches, in simulated time.
    fn await_watched_status(&mut self, process: usize) {
        if self.programs.awaits_statuses() && !self.scheduler.is_wall() && self.processes[process].parent().is_none() {
            self.await_status(process);
        }
    }

    /// Returns whether a process ended itself with its own status, in a way that the engine does
    /// not see (`quick_exit`, its own system call). The engine gets no status of processes that
    /// programs started and left behind.
    fn has_ended_by_itself(&mut self, process: usize) -> bool {
        if self.processes[process].parent().is_some() {
            return false;
        }
        self.await_status(process);
        self.programs.status_of(self.processes[process].program()).is_some_and(|status| status < STATUS_OF_SIGNALS)
    }

    /// Waits for the exit status of the program whose first process has ended. Simulated time stands
    /// still meanwhile. Otherwise timeouts of other programs would pass on a busy machine.
    fn await_status(&mut self, process: usize) {
        let (program, pid) = (self.processes[process].program(), self.processes[process].pid());
        let mut ending = Ending::of(pid);
        while self.programs.status_of(program).is_none() && ending.is_awaited(pid) && !self.scheduler.is_interrupted() {
            self.programs.drain_outputs();
            self.control.await_another_event(LOOK);
            self.note_early_exits();
        }
    }

    /// Ends a process in every room.
    fn end_process(&mut self, process: usize) {
        let now = self.scheduler.now();
        self.processes[process].end();
        self.processes.end_sharing(process);
        let (number, program, host) = (self.processes[process].number(), self.processes[process].program(), self.processes[process].host());
        self.plane().withdraw_process(number);
        if self.world.has_member(number) {
            self.plane().count_all_direct_traffic();
        }
        self.world.remove_process(now, number);
        self.memory.flush(number);
        self.memory.set_pid(number, None);
        self.cqs.remove_all_of(process);
        self.host_calls().release_everything(process);
        self.programs.ended_at(program, now);
        if !self.processes.any(|process| process.host() == host && process.is_alive()) {
            self.host_calls().refuse_seekers_of(host);
            if !self.scheduler.is_wall() {
                self.verbs().cm_refuse_seekers_of(host);
            }
        }
        self.drop_tickets();
        self.control.admission().forget_member(self.processes[process].secret());
        if self.scheduler.is_wall() {
            self.control.admission().take_file(self.processes[process].shared().memory_file_number());
            forget(self.processes[process].pid());
            // A persistent fabric sees any number of processes come and go.
            self.processes[process].shared_mut().retire();
        }
    }

    /// Drops tickets that admit nobody any more, if a sweep is due.
    fn drop_tickets(&mut self) {
        let (processes, programs) = (&self.processes, &self.programs);
        self.control.drop_tickets(|grant| match grant {
            Grant::Process(process) | Grant::Image(process) | Grant::Moved { process, .. } => processes.pids_above(programs, process).any(exists),
            Grant::Host { pid, .. } => is_hidden(pid) || exists(pid),
            Grant::Offspring(_) => true,
        });
    }

    /// Waits until the host has ended the process. Simulated time stands still meanwhile. Otherwise
    /// a process that waits natively for this end would see it at a time that depends on the host.
    fn await_death(&mut self, process: usize) {
        let started = Instant::now();
        let pid = self.processes[process].pid();
        // Another process may hold the other end of the connection of one that has ended.
        let is_patient = || started.elapsed() < CLOSE_GRACE || started.elapsed() < CLOSE_PATIENCE && !is_zombie(pid);
        while self.processes[process].connection().is_some() && is_patient() && !self.scheduler.is_interrupted() {
            self.programs.drain_outputs();
            self.control.await_another_event(LOOK);
            while let Some(connection) = self.control.take_closed() {
                self.connection_closed(connection);
            }
        }
        self.await_zombie(process);
        self.settle_away();
    }

    /// Waits for the ends of other processes that a thread of `caller` has brought about by a signal:
    /// the process `pid`, or all that are about to end if `pid` is 0.
    pub(super) fn await_ends(&mut self, caller: usize, pid: u32) {
        let is_meant = |pid_of: i32| pid_of > 0 && if pid == 0 { is_doomed(pid_of) } else { pid_of as u32 == pid };
        let mut nth = 0;
        while let Some(process) = self.processes.nth_living(nth) {
            nth += 1;
            if process != caller && self.processes[process].is_attached() && is_meant(self.processes[process].pid()) {
                self.await_death(process);
            }
        }
    }

    /// Waits until the process is a zombie. Its descriptors close a moment before the parent gets
    /// SIGCHLD and can wait for it.
    pub(super) fn await_zombie(&self, process: usize) {
        let pid = self.processes[process].pid();
        if pid <= 0 || is_zombie(pid) {
            return;
        }
        let mut ending = Ending::of(pid);
        while !is_zombie(pid) && ending.is_awaited(pid) && !self.scheduler.is_interrupted() {
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    pub(super) fn connection_closed(&mut self, connection: u64) {
        let Some(process) = self.processes.of_connection(connection) else { return };
        if self.memory.ahead_mut().keep_closed(process, connection) {
            return;
        }
        self.processes[process].close_connection();
        if self.processes[process].state() == ProcessState::Attached {
            // Calls of its threads come first. The last call may be the end of the process.
            let clocks = self.processes[process].slots().map(|slot| self.scheduler.clock_of(&self.processes, process, slot));
            let at = clocks.max().unwrap_or(self.scheduler.now());
            self.scheduler.push(at, process as u32, Event::ProcessGone { process });
        }
    }

    /// Lets a thread go where the engine does not see it. A call that returns at once ends at the
    /// same simulated time in every run.
    pub(super) fn goes_away(&mut self, process: usize, slot: u32) {
        if !self.scheduler.go_away(&mut self.processes, process, slot) {
            return;
        }
        let started = Instant::now();
        self.settle_thread(process, slot);
        while self.processes[process].is_away(slot) && started.elapsed() < AWAY_GRACE {
            self.await_control_event(LOOK);
            self.greet_all();
            self.handle_control_events();
        }
    }

    /// Waits, in wall-clock time, until each thread that is away has come back, or sleeps in its call.
    /// The programs of the run have just had a turn, or one of them has ended, so they may have ended
    /// the call. The thread then comes back at this moment of simulated time, however late the machine
    /// lets it run.
    pub(super) fn settle_away(&mut self) {
        for (process, slot) in self.scheduler.threads_away(&self.processes) {
            self.settle_thread(process, slot);
        }
    }

    fn settle_thread(&mut self, process: usize, slot: u32) {
        let mut stopped_since = None;
        while self.processes[process].is_away(slot) && !self.scheduler.is_interrupted() {
            self.control.receive();
            let connection = self.processes[process].connection();
            if let Some(connection) = connection.filter(|connection| self.control.take_back_of(*connection, slot)) {
                return self.scheduler.thread_back(&mut self.processes, connection, slot);
            }
            let (pid, at) = (self.processes[process].pid(), self.processes[process].shared().slot(slot));
            // The order counts: a thread notes its return before it sleeps for its token.
            let state = Outside::of(pid, at.tid.load(Ordering::Relaxed) as i32);
            let is_back = at.is_back.load(Ordering::SeqCst) != 0;
            if state != Outside::Stopped {
                stopped_since = None;
                self.processes[process].thread_mut(slot).note_stop(false);
            }
            match state {
                Outside::Asleep if !is_back => return,
                Outside::Gone => return,
                Outside::Stopped if self.processes[process].thread(slot).is_stopped() => return,
                // A program of the run may have stopped it, and only that program lets it go on.
                Outside::Stopped if stopped_since.get_or_insert_with(Instant::now).elapsed() > STOP_PATIENCE => {
                    return self.processes[process].thread_mut(slot).note_stop(true);
                }
                Outside::Asleep | Outside::Awake | Outside::Stopped => self.control.await_another_event(LOOK),
            }
        }
    }
}
