//! The main loop: the next event of the fabric or of a program, whichever is earlier.

use crate::diagnosis::waits::moment;
use crate::engine::Engine;
use crate::engine::notices::is_for_kernel;
use crate::host::files::Files;
use crate::options::{Failure, Pace};
use crate::process::launch::Program;
use crate::process::record::{Process, ProcessState};
use crate::process::system_process::is_quiet;
use crate::realtime::fallbacks;
use crate::report::{ProgramReport, RunReport};
use crate::scheduler::agenda::Event;
use crate::scheduler::time_limit::Guard;
use softband_fabric::notice::Notice;
use softband_ipc::calls::readiness;
use softband_ipc::layout::BELL;
use softband_sim::SimTime;
use std::time::{Duration, Instant};

/// Node number of the engine's own events in the event order, after all processes.
const NODE_ENGINE: u32 = u32::MAX;

/// Longest waits at the end of a failed run, in wall-clock time: for the ends of killed programs, for
/// their last output, and for processes that they left behind. Part of it that is left to a run that
/// its user or its limit ends.
const END_PATIENCE: Duration = Duration::from_secs(5);
const OUTPUT_PATIENCE: Duration = Duration::from_secs(2);
const SWEEP_PATIENCE: Duration = Duration::from_secs(2);
const URGENCY: u32 = 10;
/// Exit status of a program that the engine has killed.
const STATUS_KILLED: i32 = 128 + libc::SIGKILL;
/// Pause between looks for news of a run that stands still, and the longest wait for them.
const NEWS_PAUSE: Duration = Duration::from_millis(20);
const NEWS_PATIENCE: Duration = Duration::from_secs(60);

impl Engine {
    /// Runs `programs` to their ends. All started processes have ended when this returns.
    pub fn run(&mut self, programs: Vec<Program>) -> RunReport {
        let started = Instant::now();
        self.programs.set(programs);
        for program in 0..self.programs.len() {
            if let Some(variable) = self.files_variable(self.programs.host_of(program)) {
                let cache = Files::cache_variable(&variable.1);
                self.programs.add_variable(program, variable);
                cache.into_iter().for_each(|cache| self.programs.add_variable(program, cache));
            }
        }
        for program in 0..self.programs.len() {
            self.scheduler.push(SimTime::ZERO, NODE_ENGINE, Event::StartProgram { program });
        }
        self.guard = self.start_guard();
        let failure = match self.scheduler.pace() {
            Pace::Virtual => self.main_loop(),
            Pace::Wall => {
                self.control.ring(Some(self.scheduler.word(BELL)));
                let failure = self.wall_loop();
                self.control.ring(None);
                failure
            }
        };
        crate::scheduler::tsc::release();
        let stopped = self.stopped_servers(failure.is_some());
        self.end_everything(failure.is_some() || !stopped.is_empty());
        if self.scheduler.is_wall() || failure.is_some() || !stopped.is_empty() {
            crate::process::sweep::end_all_of(self.control.name(), self.patience_at_end(SWEEP_PATIENCE));
        }
        if !self.scheduler.is_wall() {
            self.world.look_at(self.scheduler.now());
        }
        self.guard.iter().for_each(Guard::run_has_ended);
        self.results(failure, &stopped, started.elapsed())
    }

    /// Returns the servers that still run when the main programs have ended. Warns of those that
    /// have failed before.
    fn stopped_servers(&mut self, has_failed: bool) -> Vec<usize> {
        let servers = || (0..self.programs.len()).filter(|program| !self.programs.is_main(*program));
        let running: Vec<usize> = servers().filter(|program| self.programs.status_of(*program).is_none()).collect();
        let failed: Vec<(usize, i32)> =
            servers().filter_map(|server| Some((server, self.programs.status_of(server)?))).filter(|(_, status)| *status != 0).collect();
        for (server, status) in failed {
            let host = &self.world.spec().hosts[self.programs.host_of(server)].name;
            let command = self.programs.command_of(server);
            self.report.warn_again(format!("{host}: the server '{command}' ended with status {status} before the main programs"));
        }
        if has_failed {
            return Vec::new();
        }
        self.programs.end_remaining_at(self.scheduler.now());
        running
    }

    /// Returns the environment variable by which programs of `host` find their files.
    pub(super) fn files_variable(&mut self, host: usize) -> Option<(String, String)> {
        match self.host.files_variable(host, &self.world, self.kernels.as_ref()) {
            Ok(variable) => variable,
            Err(error) => {
                self.report.warn_again(format!("programs see no files of their HCAs: {error}"));
                None
            }
        }
    }

    fn main_loop(&mut self) -> Option<Failure> {
        let mut notices = Vec::new();
        loop {
            self.processes.drop_retired();
            self.programs.pass_awaited_words();
            if let Some(failure) = self.outside_failure() {
                return Some(failure);
            }
            if let Some(waits) = self.report.take_deadlock() {
                return Some(Failure::Deadlock { waits });
            }
            if self.programs.have_servers() && self.programs.are_over() {
                return None;
            }
            if self.control.has_events() {
                self.control.receive();
                self.greet_all();
                self.handle_control_events();
            }
            if self.processes.any(|process| process.state() == ProcessState::Expected) {
                self.await_expected();
                continue;
            }
            if self.scheduler.limits().simulated.is_some()
                && let Some(failure) = self.past_time_limit()
            {
                return Some(failure);
            }
            match (self.world.next_event_time(), self.scheduler.next_time()) {
                (Some(fabric), own) if own.is_none_or(|own| fabric <= own) => self.step_fabric(&mut notices),
                (_, Some(_)) => {
                    let (time, event) = self.scheduler.pop().expect("there is a next event");
                    self.scheduler.set_now(time);
                    // All earlier events of the fabric have happened.
                    self.world.look_at(time);
                    if self.scheduler.only_polls_happen(event, || self.world.next_event_time().is_none()) {
                        self.scheduler.stir();
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

    /// Returns the failure of a run that a signal, a limit or the host ends. Warns of registered
    /// memory that the engine could not reach, with its program.
    pub(super) fn outside_failure(&mut self) -> Option<Failure> {
        if self.scheduler.is_interrupted() {
            return Some(self.interruption());
        }
        if let Some(error) = self.memory.take_denied() {
            return Some(Failure::MemoryDenied { reason: error.to_string() });
        }
        if self.memory.has_lost() {
            for (pid, what) in self.memory.take_lost() {
                let Some(process) = self.processes.find(|process| process.pid() == pid) else { continue };
                self.warn(format!("{}: {what}", self.command_of(process)));
            }
        }
        None
    }

    pub(super) fn step_fabric(&mut self, notices: &mut Vec<Notice>) {
        match &mut self.kernels {
            None => self.world.step(&mut self.memory, notices),
            Some(kernels) => self.world.step(&mut kernels.memory_beside(&mut self.memory), notices),
        }
        // Kernels probe connections for ever, and programs may wait for none of the results.
        if self.kernels.is_none() || notices.iter().any(|notice| !is_for_kernel(notice)) {
            self.scheduler.stir();
        }
        self.report.count_fabric_event();
        // An atomic operation writes without a data packet, so no notice reports its write.
        if let Some((process, address)) = self.memory.take_last_written()
            && !notices.iter().any(|notice| matches!(notice, Notice::MemoryWritten { .. }))
        {
            notices.push(Notice::MemoryWritten { process, span: (address, 8), last: true, whole: true, by_peer: true });
        }
        if notices.is_empty() {
            return;
        }
        self.scheduler.advance_to(self.world.now());
        for notice in notices.drain(..) {
            self.notice(notice);
        }
    }

    pub(super) fn handle(&mut self, event: Event) {
        match event {
            Event::StartProgram { program } => self.start_program(program),
            Event::Resume { process, slot } => {
                if self.processes[process].is_attached() && !self.processes[process].leaves() {
                    let now = self.scheduler.now();
                    match self.processes[process].puts_off(slot, now) {
                        Some(visible) => self.scheduler.resume(process, slot, visible),
                        None => self.run_thread(process, slot, now),
                    }
                }
            }
            Event::Execute { process, slot } => {
                if self.processes[process].is_attached() {
                    self.execute(process, slot);
                    self.check_vain_polls();
                    self.scheduler.note_call(&self.processes, process, slot);
                }
            }
            Event::Rejoin { process, slot } => {
                if self.processes[process].is_attached() && !self.processes[process].leaves() {
                    self.rejoin(process, slot);
                }
            }
            Event::WaitOver { process, slot, generation, .. } => {
                self.scheduler.wait_over(&mut self.processes, &mut self.host, (process, slot), generation);
            }
            Event::ObjectChanged { object, edge } => {
                self.vain_polls.note_object();
                self.host_calls().look_at_stack(object);
                self.scheduler.object_changed(&mut self.processes, &mut self.host, (object, edge));
            }
            Event::TimerFires { object, generation } => self.host_calls().timer_fires(object, generation),
            Event::AlarmRings { process, signal, generation } => {
                self.scheduler.alarm_rings(&mut self.processes, &mut self.host, (process, signal), generation);
            }
            Event::SeekOver { object } => {
                if self.host_calls().seek_is_over(object) {
                    self.host_calls().refuse_seeker(object);
                }
            }
            Event::DatagramsArrive => {
                for object in self.host_calls().datagrams_arrive() {
                    self.vain_polls.note_object();
                    self.scheduler.object_changed(&mut self.processes, &mut self.host, (object, readiness::READABLE));
                }
            }
            Event::MadsExpire => self.verbs().mads_expire(),
            Event::CmExpires => self.verbs().cm_expires(),
            Event::KernelsDue => self.host_calls().kernels_due(),
            Event::ProcessGone { process } => self.process_gone(process),
        }
    }

    /// Names programs that poll in vain, if a check is due.
    fn check_vain_polls(&mut self) {
        if self.scheduler.take_check_of_polls() {
            let mut polls = std::mem::take(&mut self.vain_polls);
            polls.check(Instant::now(), self.report.fabric_events(), &self.observer());
            self.vain_polls = polls;
        }
    }

    /// Handles an empty schedule: the run has ended, waits for the operating system, or is stuck.
    fn idle(&mut self) -> Option<Option<Failure>> {
        if self.programs.are_over() {
            return Some(None);
        }
        let is_outside = |process: &Process| process.state() == ProcessState::Foreign || process.is_alive() && process.is_any_away();
        if !self.processes.any(Process::is_alive) || self.processes.any(is_outside) {
            self.await_control_event(Duration::from_millis(50));
            return None;
        }
        if self.host_calls().refuse_all_seekers() {
            return None;
        }
        if self.await_last_news() {
            self.greet_all();
            self.handle_control_events();
            return None;
        }
        Some(Some(Failure::Stuck { waiting: self.observer().describe_waits() }))
    }

    /// Waits for news of processes that are not asleep: the engine may not yet have got the end of one
    /// that was just killed. Returns whether news have come.
    fn await_last_news(&mut self) -> bool {
        let started = Instant::now();
        loop {
            self.await_control_event(NEWS_PAUSE);
            if self.control.has_events() {
                return true;
            }
            let is_restless = self.processes.any(|process| process.connection().is_some() && process.pid() > 0 && !is_quiet(process.pid()));
            if !is_restless || self.scheduler.is_interrupted() || started.elapsed() > NEWS_PATIENCE {
                return false;
            }
        }
    }

    /// Starts the guard of the run, and with it the wall-clock limit.
    fn start_guard(&mut self) -> Option<Guard> {
        if (0..self.programs.len()).all(|program| self.programs.is_placeholder(program)) {
            return None; // a fabric that other commands use, and that its own command ends
        }
        let limit = self.scheduler.limits().wall;
        match Guard::start(
            (self.scheduler.begun(), limit),
            self.scheduler.interrupt().clone(),
            self.programs.groups(),
            self.control.name().to_owned(),
        ) {
            Ok(guard) => Some(guard),
            Err(error) if limit.is_some() => {
                self.warn(format!("--timeout has no effect: the host starts no thread for it ({error})"));
                None
            }
            Err(_) => None,
        }
    }

    /// Returns the reason why an interrupted run ends.
    fn interruption(&mut self) -> Failure {
        if !self.scheduler.interrupt().has_expired() {
            return Failure::Interrupted;
        }
        let seconds = self.scheduler.limits().wall.unwrap_or_default().as_secs_f64();
        self.time_out(format!("{seconds} s of wall-clock time"))
    }

    /// Returns the failure of a run whose next event is later than its limit of simulated time.
    /// Returns `None` if all programs have ended.
    fn past_time_limit(&mut self) -> Option<Failure> {
        let end = SimTime::ZERO + self.scheduler.limits().simulated?;
        let next = self.world.next_event_time().into_iter().chain(self.scheduler.next_time()).min()?;
        if next <= end || !self.processes.any(|process| process.is_alive()) {
            return None;
        }
        self.scheduler.advance_to(end);
        Some(self.time_out(moment(end)))
    }

    fn time_out(&mut self, limit: String) -> Failure {
        self.control.receive();
        self.handle_control_events();
        self.programs.end_remaining_at(self.scheduler.now());
        Failure::TimedOut { limit, waiting: self.observer().describe_waits() }
    }

    /// Kills all remaining processes. After a failure, also waits for the programs to end.
    fn end_everything(&mut self, failed: bool) {
        self.programs.end_watch();
        if failed {
            // No program may see and report the end of another.
            self.programs.signal_all(libc::SIGSTOP);
        }
        self.programs.signal_all(libc::SIGKILL);
        for process in self.processes.living() {
            if process.is_alive() {
                process.send_signal(libc::SIGKILL);
            }
        }
        let (limit, patience) = (Instant::now(), self.patience_at_end(END_PATIENCE));
        while failed && self.programs.is_any_running() && limit.elapsed() < patience {
            self.await_control_event(Duration::from_millis(20));
            self.note_early_exits();
            self.control.clear();
        }
        let (limit, patience) = (Instant::now(), self.patience_at_end(OUTPUT_PATIENCE));
        while self.programs.has_open_outputs() && limit.elapsed() < patience {
            self.programs.drain_outputs();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns how long the end of the run may wait for something: the whole time, or the part that is
    /// left to a run that its user or its limit ends.
    fn patience_at_end(&self, whole: Duration) -> Duration {
        if self.scheduler.interrupt().is_urgent() { whole / URGENCY } else { whole }
    }

    /// Returns the results of the run.
    fn results(&self, failure: Option<Failure>, stopped: &[usize], wall: Duration) -> RunReport {
        let programs = self.programs.results().enumerate().map(|(number, (program, status, ended_at))| ProgramReport {
            host: self.world.spec().hosts[program.host].name.clone(),
            command: program.command.clone(),
            // A machine may be too busy to end a killed program in time.
            exit_status: status.unwrap_or(if failure.is_some() || stopped.contains(&number) { STATUS_KILLED } else { 1 }),
            ended_at_seconds: ended_at.as_secs_f64(),
            is_main: self.programs.is_main(number),
            is_stopped: stopped.contains(&number),
        });
        RunReport {
            programs: programs.collect(),
            virtual_seconds: self.programs.results().map(|(.., ended_at)| ended_at).max().map_or(0.0, SimTime::as_secs_f64),
            wall_seconds: wall.as_secs_f64(),
            turns: self.scheduler.turns(),
            fabric_events: self.report.fabric_events(),
            announced_computations: self.report.announced_computations(),
            warnings: self.report.warnings().to_vec(),
            told: self.vain_polls.told().to_vec(),
            failure,
            fallbacks: self.scheduler.is_wall().then(|| fallbacks::to_json(&self.realtime.fallbacks_of_all(&self.processes))),
        }
    }
}
