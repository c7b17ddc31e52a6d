//! The room of the programs of a run: their starts, their output, and their ends.

use crate::control::socket::Mailbox;
use crate::process::launch::{Identity, Libraries, Program, Started, start};
use crate::process::outputs::Outputs;
use crate::process::record::Process;
use rustix::thread::CpuSet;
use softband_fabric::World;
use softband_sim::SimTime;
use std::sync::{Arc, Mutex, PoisonError};

/// Process groups, for the guard of a run.
pub(crate) type Groups = Arc<Mutex<Vec<i32>>>;

/// A program with its progress.
struct Record {
    program: Program,
    started: Option<Started>,
    status: Option<i32>,
    ended_at: SimTime,
}

/// Receives the number and the exit status of each program that ends. Returns whether it waits for
/// output of other programs to judge the end.
pub type EndWatcher = Box<dyn FnMut(usize, i32) -> bool + Send>;

/// The programs of a run by number, in the order of the command line.
pub(crate) struct Programs {
    all: Vec<Record>,
    libraries: Libraries,
    outputs: Outputs,
    /// Process groups of all started programs.
    groups: Groups,
    watcher: Option<EndWatcher>,
    /// Whether the watcher waits for output.
    is_word_awaited: bool,
    /// Programs whose ends end the run. The others are servers. Without a list, all are.
    main: Option<Vec<usize>>,
}

impl Programs {
    /// # Errors
    /// If the system has no descriptors for the programs' output.
    pub(crate) fn new(libraries: Libraries) -> std::io::Result<Self> {
        Ok(Self {
            all: Vec::new(),
            libraries,
            outputs: Outputs::new()?,
            groups: Groups::default(),
            watcher: None,
            is_word_awaited: false,
            main: None,
        })
    }

    /// Sets the programs of the run.
    pub(crate) fn set(&mut self, programs: Vec<Program>) {
        let record = |program| Record { program, started: None, status: None, ended_at: SimTime::ZERO };
        self.all = programs.into_iter().map(record).collect();
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn host_of(&self, program: usize) -> usize {
        self.all[program].program.host
    }

    /// Returns the command of a program as the user wrote it.
    pub(crate) fn command_of(&self, program: usize) -> &str {
        &self.all[program].program.command
    }

    /// Names the program of a process: `a: 'ib_send_bw'`.
    pub(crate) fn name_for(&self, world: &World, process: &Process) -> String {
        format!("{}: '{}'", world.spec().hosts[process.host()].name, self.command_of(process.program()))
    }

    pub(crate) fn libraries(&self) -> &Libraries {
        &self.libraries
    }

    pub(crate) fn add_variable(&mut self, program: usize, variable: (String, String)) {
        self.all[program].program.environment.push(variable);
    }

    /// Returns whether this entry stands for programs that others start.
    pub(crate) fn is_placeholder(&self, program: usize) -> bool {
        self.all[program].program.arguments.is_empty()
    }

    /// Starts a program, in simulated time only on `processors`. Returns the host's process id.
    ///
    /// # Errors
    /// If the host cannot start it.
    pub(crate) fn start(
        &mut self,
        program: usize,
        (ticket, engine): (u64, &str),
        processors: Option<CpuSet>,
        mailbox: &Arc<Mailbox>,
    ) -> std::io::Result<i32> {
        let identity = Identity { number: program, ticket, engine };
        let record = &mut self.all[program];
        let started = start(&mut record.program, &identity, (&self.libraries, processors), mailbox, &mut self.outputs)?;
        let pid = started.pid;
        record.started = Some(started);
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).push(pid);
        Ok(pid)
    }

    /// Returns the host's process id of a started program.
    pub(crate) fn pid_of(&self, program: usize) -> Option<i32> {
        self.all.get(program).and_then(|record| record.started.as_ref()).map(|started| started.pid)
    }

    pub(crate) fn watch_ends(&mut self, watcher: EndWatcher) {
        self.watcher = Some(watcher);
    }

    /// Stops the watch. From now on, the engine itself ends the programs.
    pub(crate) fn end_watch(&mut self) {
        (self.watcher, self.is_word_awaited) = (None, false);
    }

    pub(crate) fn has_watcher(&self) -> bool {
        self.watcher.is_some()
    }

    /// Lets the run end with these programs.
    pub(crate) fn end_with(&mut self, main: Vec<usize>) {
        self.main = Some(main);
    }

    /// Returns whether something depends on the moment at which a program's status comes.
    pub(crate) fn awaits_statuses(&self) -> bool {
        self.watcher.is_some() || self.main.is_some()
    }

    /// Returns whether the run ends without some of its programs.
    pub(crate) fn have_servers(&self) -> bool {
        self.main.is_some()
    }

    /// Returns whether a program is one of those that end the run.
    pub(crate) fn is_main(&self, program: usize) -> bool {
        self.main.as_ref().is_none_or(|main| main.contains(&program))
    }

    pub(crate) fn set_status(&mut self, program: usize, status: i32) {
        self.all[program].status = Some(status);
        if let Some(pid) = self.pid_of(program) {
            // The machine may give the number to another group.
            self.groups.lock().unwrap_or_else(PoisonError::into_inner).retain(|group| *group != pid);
        }
        if let Some(watcher) = &mut self.watcher {
            // The watcher sees a program's last words before its end.
            self.outputs.drain();
            self.is_word_awaited |= watcher(program, status);
        }
    }

    /// Passes on the output for which the watcher waits, before simulated time goes on.
    pub(crate) fn pass_awaited_words(&mut self) {
        if self.is_word_awaited {
            self.outputs.drain();
        }
    }

    pub(crate) fn status_of(&self, program: usize) -> Option<i32> {
        self.all[program].status
    }

    /// Returns whether all programs have ended that the run waits for.
    pub(crate) fn are_over(&self) -> bool {
        (0..self.all.len()).filter(|program| self.is_main(*program)).all(|program| self.status_of(program).is_some())
    }

    /// Returns whether a started program has not ended.
    pub(crate) fn is_any_running(&self) -> bool {
        self.all.iter().any(|record| record.status.is_none() && record.started.is_some())
    }

    /// Notes a time at which the program still ran.
    pub(crate) fn ended_at(&mut self, program: usize, at: SimTime) {
        let record = &mut self.all[program];
        record.ended_at = record.ended_at.max(at);
    }

    /// Sets the time at which a program ended that took no part in simulated time.
    pub(crate) fn set_ended_at(&mut self, program: usize, at: SimTime) {
        self.all[program].ended_at = at;
    }

    /// Lets all programs without a status end now, at the time limit.
    pub(crate) fn end_remaining_at(&mut self, at: SimTime) {
        for record in self.all.iter_mut().filter(|record| record.status.is_none()) {
            record.ended_at = record.ended_at.max(at);
        }
    }

    /// Returns each program with its status and its end.
    pub(crate) fn results(&self) -> impl Iterator<Item = (&Program, Option<i32>, SimTime)> {
        self.all.iter().map(|record| (&record.program, record.status, record.ended_at))
    }

    /// Sends a signal to the process groups of all started programs.
    pub(crate) fn signal_all(&self, signal: i32) {
        self.all.iter().filter_map(|record| record.started.as_ref()).for_each(|started| started.signal(signal));
    }

    /// Returns the process groups of the programs, as they start.
    pub(crate) fn groups(&self) -> Groups {
        self.groups.clone()
    }

    /// Passes on the available output.
    pub(crate) fn drain_outputs(&mut self) {
        self.outputs.drain();
    }

    /// Returns whether some process still holds the other end of an output.
    pub(crate) fn has_open_outputs(&self) -> bool {
        self.outputs.is_open()
    }
}
