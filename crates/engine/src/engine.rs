//! The main loop: the next event of the fabric or of a program, whichever is earlier.

use crate::control::admission::Admission;
use crate::control::socket::{self, ControlEvent, Mailbox};
use crate::control::tickets::Tickets;
use crate::host::files::Files;
use crate::host::network::Network;
use crate::host::objects::Objects;
use crate::host::sockets::SocketTable;
pub use crate::options::{Failure, Interrupt, Options, Pace};
use crate::process::image::{Process, ProcessState, ThreadState};
use crate::process::launch::{Libraries, Program, Started};
use crate::process::memory::ProgramMemory;
use crate::process::outputs::Outputs;
use crate::process::processes::Processes;
use crate::realtime::direct::DirectTables;
use crate::report::RunReport;
use crate::scheduler::agenda::Agenda;
use crate::scheduler::context_switch::{ContextSwitch, Processors};
use crate::scheduler::time_limit::Limits;
use crate::scheduler::vain_polls::VainPolls;
use anyhow::Context;
use softband_fabric::World;
use softband_fabric::notice::Notice;
use softband_ipc::layout::BELL;
use softband_sim::SimTime;
use softband_spec::FabricSpec;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Node number of the engine's own events in the event order, after all processes.
const NODE_ENGINE: u32 = u32::MAX;
const PRELOAD: &str = "libsoftband.so";

/// An event on the program side.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    StartProgram {
        program: usize,
    },
    /// The thread gets the execution token.
    Resume {
        process: usize,
        slot: u32,
    },
    /// The engine carries out the thread's call. All events up to the thread's clock have happened.
    Execute {
        process: usize,
        slot: u32,
    },
    /// A wait has reached its deadline.
    WaitOver {
        process: usize,
        slot: u32,
        generation: u32,
        /// Set if the wait was a [`Waiting::OsPoll`](crate::process::image::Waiting).
        polls: bool,
    },
    ObjectChanged {
        object: u32,
    },
    TimerFires {
        object: u32,
        generation: u32,
    },
    AlarmRings {
        process: usize,
        signal: u32,
        generation: u64,
    },
    SeekOver {
        object: u32,
    },
    ProcessGone {
        process: usize,
    },
}

/// A fabric and the programs that run on it.
pub struct Engine {
    pub(crate) world: World,
    pub(crate) queue: Agenda,
    pub(crate) now: SimTime,
    pub(crate) processes: Processes,
    pub(crate) memory: ProgramMemory,
    pub(crate) objects: Objects,
    pub(crate) sockets: SocketTable,
    pub(crate) cqs: BTreeMap<u32, crate::rpc::completion_queues::CqRecord>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) receiver: Receiver<ControlEvent>,
    pub(crate) control_events: VecDeque<ControlEvent>,
    pub(crate) tickets: Tickets,
    pub(crate) admission: Arc<Admission>,
    pub(crate) retired: Vec<crate::process::image::Shared>,
    pub(crate) interrupt: Interrupt,
    pub(crate) warnings: Vec<String>,
    /// Description of packets that will never move again, if a deadlock exists.
    pub(crate) deadlock: Option<String>,
    pub(crate) seed: u64,
    /// Date of simulated time zero, in seconds since 1970.
    pub(crate) epoch_seconds: u64,
    pub(crate) pace: Pace,
    /// In wall pace: channels with events that their programs have not got yet, and the number of
    /// events.
    pub(crate) untold: BTreeMap<u32, u64>,
    pub(crate) started_at: Instant,
    /// The same moment on the clock that programs read, in nanoseconds.
    pub(crate) wall_start_ns: u64,
    pub(crate) turns: u64,
    pub(crate) alarms_made: u64,
    pub(crate) context_switch: ContextSwitch,
    pub(crate) direct: DirectTables,
    pub(crate) quiescence: crate::realtime::quiescence::Quiescence,
    pub(crate) receive_queues: crate::realtime::receive_queues::ReceiveQueues,
    pub(crate) posted: Vec<u8>,
    pub(crate) name: String,
    pub(crate) libraries: Libraries,
    pub(crate) programs: Vec<Program>,
    pub(crate) outputs: Outputs,
    pub(crate) started: Vec<Option<Started>>,
    pub(crate) statuses: Vec<Option<i32>>,
    /// Set if other processes start programs and the command line requests passes.
    pub(crate) stays: bool,
    pub(crate) ended_at: Vec<SimTime>,
    pub(crate) fabric_events: u64,
    pub(crate) limits: Limits,
    pub(crate) vain_polls: VainPolls,
    pub(crate) network: Network,
    pub(crate) files: Option<Files>,
}

fn monotonic_nanos() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Engine {
    /// Creates an engine for `spec`. `libraries` is the directory that holds `libsoftband.so` and
    /// `libibverbs.so.1`.
    ///
    /// # Errors
    /// If the libraries are missing or the engine cannot open the control socket.
    pub fn new(spec: &FabricSpec, seed: u64, libraries: &Path, options: Options, interrupt: Interrupt) -> anyhow::Result<Self> {
        let preload = libraries.join(PRELOAD);
        anyhow::ensure!(preload.is_file(), "{} is not there: run `make build`, or name the folder in SOFTBAND_LIB", preload.display());
        let (mailbox, receiver) = Mailbox::new();
        crate::control::admission::hide_from_programs();
        let name = crate::control::admission::random_name()?;
        let processors = Processors::choose(options.processors);
        let admission = Arc::new(Admission::default());
        socket::serve(&name, (mailbox.clone(), admission.clone()), options.pace == Pace::Virtual).context("cannot open the control socket")?;
        if options.pace == Pace::Virtual {
            processors.settle();
        }
        let files = Files::new(&name)?;
        let directory = files.way_to(libraries)?;
        let libraries = Libraries { preload: directory.join(PRELOAD), directory, by_preload: options.by_preload };
        let mut engine = Self::assemble(spec, seed, name, (libraries, processors, options.pace), interrupt, (mailbox, receiver))?;
        if options.pace == Pace::Wall {
            engine.network = Network::reserve()?;
        }
        engine.admission = admission;
        engine.files = Some(files);
        engine.epoch_seconds = options.epoch_seconds;
        engine.limits = options.limits;
        Ok(engine)
    }

    /// Assembles an engine from its parts.
    pub(crate) fn assemble(
        spec: &FabricSpec,
        seed: u64,
        name: String,
        (libraries, processors, pace): (Libraries, Processors, Pace),
        interrupt: Interrupt,
        (mailbox, receiver): (Arc<Mailbox>, Receiver<ControlEvent>),
    ) -> anyhow::Result<Self> {
        Ok(Self {
            world: World::new(spec, seed),
            queue: Agenda::default(),
            now: SimTime::ZERO,
            processes: Processes::default(),
            memory: ProgramMemory::default(),
            objects: Objects::default(),
            sockets: SocketTable::new(spec.hosts.len()),
            cqs: BTreeMap::new(),
            mailbox,
            receiver,
            control_events: VecDeque::new(),
            tickets: Tickets::default(),
            admission: Arc::default(),
            retired: Vec::new(),
            interrupt,
            warnings: Vec::new(),
            deadlock: None,
            seed,
            epoch_seconds: 0,
            pace,
            untold: BTreeMap::new(),
            started_at: Instant::now(),
            wall_start_ns: monotonic_nanos(),
            turns: 0,
            alarms_made: 0,
            context_switch: ContextSwitch::new(processors)?,
            direct: DirectTables::new()?,
            quiescence: crate::realtime::quiescence::Quiescence::new(),
            receive_queues: crate::realtime::receive_queues::ReceiveQueues::default(),
            posted: Vec::new(),
            name,
            libraries,
            programs: Vec::new(),
            outputs: Outputs::new()?,
            started: Vec::new(),
            statuses: Vec::new(),
            ended_at: Vec::new(),
            fabric_events: 0,
            stays: false,
            limits: Limits::default(),
            vain_polls: VainPolls::default(),
            network: Network::simulated(),
            files: None,
        })
    }

    /// Adds one nameless program on host 0, for the harness.
    pub(crate) fn programs_for_harness(&mut self) {
        self.programs =
            vec![Program { host: 0, command: "harness".into(), arguments: Vec::new(), environment: Vec::new(), stdout: None, stderr: None }];
        self.started = vec![None];
        self.statuses = vec![None];
        self.ended_at = vec![SimTime::ZERO];
    }

    pub fn world(&self) -> &World {
        &self.world
    }

    /// Runs `programs` to their ends. All started processes have ended when this returns.
    pub fn run(&mut self, programs: Vec<Program>) -> RunReport {
        let started = Instant::now();
        self.started.extend(programs.iter().map(|_| None));
        self.statuses.resize(programs.len(), None);
        self.ended_at.resize(programs.len(), SimTime::ZERO);
        self.programs = programs;
        for program in 0..self.programs.len() {
            let files = self.files_variable(self.programs[program].host);
            self.programs[program].environment.extend(files);
        }
        for program in 0..self.programs.len() {
            self.queue.push(SimTime::ZERO, NODE_ENGINE, Event::StartProgram { program });
        }
        self.start_time_limit();
        let failure = match self.pace {
            Pace::Virtual => self.main_loop(),
            Pace::Wall => {
                self.mailbox.ring(Some(self.context_switch.word(BELL)));
                let failure = self.wall_loop();
                self.mailbox.ring(None);
                failure
            }
        };
        crate::scheduler::tsc::release();
        self.end_everything(failure.is_some());
        if self.pace == Pace::Wall || failure.is_some() {
            crate::process::sweep::end_all_of(&self.name);
        }
        self.report(failure, started.elapsed())
    }

    fn main_loop(&mut self) -> Option<Failure> {
        let mut notices = Vec::new();
        loop {
            self.retired.clear();
            if self.interrupt.is_raised() {
                return Some(self.interruption());
            }
            if let Some(error) = self.memory.denied.take() {
                return Some(Failure::MemoryDenied { reason: error.to_string() });
            }
            if !self.memory.lost.is_empty() {
                self.tell_of_lost();
            }
            if let Some(waits) = self.deadlock.take() {
                return Some(Failure::Deadlock { waits });
            }
            if self.mailbox.is_filled() || !self.control_events.is_empty() {
                self.receive_control_events();
                self.greet_all();
                self.handle_control_events();
            }
            if self.processes.any(|process| process.state == ProcessState::Expected) {
                self.await_expected();
                continue;
            }
            if self.limits.simulated.is_some()
                && let Some(failure) = self.past_time_limit()
            {
                return Some(failure);
            }
            match (self.world.next_event_time(), self.queue.next_time()) {
                (Some(fabric), own) if own.is_none_or(|own| fabric <= own) => self.step_fabric(&mut notices),
                (_, Some(_)) => {
                    let (time, event) = self.queue.pop().expect("there is a next event");
                    self.now = time;
                    if self.only_polls_happen(event) {
                        self.queue.stir();
                        if let Some(end) = self.idle() {
                            return end;
                        }
                    }
                    self.handle(event);
                }
                _ => {
                    if let Some(end) = self.idle() {
                        return end;
                    }
                }
            }
        }
    }

    pub(crate) fn step_fabric(&mut self, notices: &mut Vec<Notice>) {
        self.world.step(&mut self.memory, notices);
        self.queue.stir();
        self.fabric_events += 1;
        // An atomic operation writes without a data packet, so no notice reports its write.
        if let Some(process) = self.memory.last_written.take()
            && !notices.iter().any(|notice| matches!(notice, Notice::MemoryWritten { .. }))
        {
            notices.push(Notice::MemoryWritten { process, whole: true });
        }
        if notices.is_empty() {
            return;
        }
        self.now = self.now.max(self.world.now());
        for notice in notices.drain(..) {
            self.notice(notice);
        }
    }

    pub(crate) fn handle(&mut self, event: Event) {
        match event {
            Event::StartProgram { program } => self.start_program(program),
            Event::Resume { process, slot } => {
                if self.processes[process].state == ProcessState::Attached && !self.processes[process].leaves {
                    self.run_thread(process, slot, self.now);
                }
            }
            Event::Execute { process, slot } => {
                if self.processes[process].state == ProcessState::Attached {
                    self.execute(process, slot);
                    self.note_call(process, slot);
                }
            }
            Event::WaitOver { process, slot, generation, .. } => {
                let record = &self.processes[process];
                let Some(thread) = record.threads.get(slot as usize) else { return };
                if record.state == ProcessState::Attached && thread.generation == generation {
                    self.wait_over(process, slot);
                }
            }
            Event::ObjectChanged { object } => {
                self.vain_polls.note_object();
                self.object_changed(object);
            }
            Event::TimerFires { object, generation } => self.timer_fires(object, generation),
            Event::AlarmRings { process, signal, generation } => self.alarm_rings(process, signal, generation),
            Event::SeekOver { object } => self.refuse_seeker(object),
            Event::ProcessGone { process } => self.process_gone(process),
        }
    }

    /// Handles an empty schedule: the run has ended, waits for the operating system, or is stuck.
    fn idle(&mut self) -> Option<Option<Failure>> {
        if self.statuses.iter().all(Option::is_some) {
            return Some(None);
        }
        let away = |process: &Process| process.threads.iter().any(|thread| thread.state == ThreadState::Away);
        let alive: Vec<&Process> = self.processes.living().filter(|process| process.is_alive()).collect();
        if alive.is_empty() || alive.iter().any(|process| away(process)) || self.processes.any(|p| p.state == ProcessState::Foreign) {
            self.await_control_event(Duration::from_millis(50));
            return None;
        }
        if self.refuse_all_seekers() {
            return None;
        }
        // The engine may not yet have got the end of a process that was just killed.
        self.await_control_event(Duration::from_millis(200));
        if self.mailbox.is_filled() || !self.control_events.is_empty() {
            self.greet_all();
            self.handle_control_events();
            return None;
        }
        Some(Some(Failure::Stuck { waiting: self.who_waits() }))
    }

    /// Warns of registered memory that the engine could not reach, with its program.
    pub(crate) fn tell_of_lost(&mut self) {
        for (pid, what) in std::mem::take(&mut self.memory.lost) {
            let Some(process) = self.processes.find(|process| process.pid == pid) else { continue };
            self.warn(format!("{}: {what}", self.command_of(process)));
        }
    }

    /// Adds a warning for the user. Each warning appears once.
    pub(crate) fn warn(&mut self, line: String) {
        if !self.warnings.contains(&line) {
            self.warnings.push(line);
        }
    }

    pub(crate) fn program_exited(&mut self, program: usize, status: i32) {
        self.statuses[program] = Some(status);
        let pid = self.started[program].as_ref().map_or(0, |started| started.pid);
        let own = self.processes.find(|process| process.pid == pid && process.program == program);
        if let Some(process) = own {
            match self.processes[process].state {
                ProcessState::Expected | ProcessState::Foreign => {
                    self.processes[process].state = ProcessState::Ended;
                    self.ended_at[program] = self.now;
                }
                _ => {}
            }
        }
    }

    pub(crate) fn program_ended_at(&mut self, program: usize, at: SimTime) {
        self.ended_at[program] = self.ended_at[program].max(at);
    }

    pub(crate) fn command_of(&self, process: usize) -> String {
        let record = &self.processes[process];
        format!("{}: '{}'", self.world.spec().hosts[record.host].name, self.programs[record.program].command)
    }

    /// Kills all remaining processes. After a failure, also waits for the programs to end.
    fn end_everything(&mut self, failed: bool) {
        if failed {
            // No program may see and report the end of another.
            self.started.iter().flatten().for_each(|started| started.signal(libc::SIGSTOP));
        }
        self.started.iter().flatten().for_each(|started| started.signal(libc::SIGKILL));
        for process in self.processes.living() {
            if process.is_alive() {
                process.send_signal(libc::SIGKILL);
            }
        }
        let limit = Instant::now();
        while failed
            && self.statuses.iter().zip(&self.started).any(|(status, started)| status.is_none() && started.is_some())
            && limit.elapsed() < Duration::from_secs(5)
        {
            self.await_control_event(Duration::from_millis(20));
            self.note_early_exits();
            self.control_events.clear();
        }
        let limit = Instant::now();
        while self.outputs.is_open() && limit.elapsed() < Duration::from_secs(2) {
            self.outputs.drain();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
