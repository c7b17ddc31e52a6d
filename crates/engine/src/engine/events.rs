//! The engine's reactions to control events: ends of programs, connections, calls, commands.

use crate::control::socket::ControlEvent;
use crate::engine::Engine;
use crate::process::record::ProcessState;
use std::time::Duration;

impl Engine {
    /// Waits for a control event, at most `limit` of wall-clock time.
    pub(super) fn await_control_event(&mut self, limit: Duration) {
        self.programs.drain_outputs();
        self.control.await_event(limit);
    }

    /// Handles all events but hellos, in the order of their arrival.
    pub(super) fn handle_control_events(&mut self) {
        while let Some(event) = self.control.next_but_hellos() {
            match event {
                ControlEvent::Exited { program, status } => self.program_exited(program, status),
                ControlEvent::Closed { connection } => self.connection_closed(connection),
                ControlEvent::Back { connection, slot } => self.scheduler.thread_back(&mut self.processes, connection, slot),
                ControlEvent::Command { socket, pid, command } => self.handle_command(&socket, pid, &command),
                ControlEvent::Hello { .. } => {}
            }
        }
    }

    /// Handles the ends of programs, and leaves the other events.
    pub(super) fn note_early_exits(&mut self) {
        while let Some((program, status)) = self.control.take_exit() {
            self.program_exited(program, status);
        }
    }

    fn program_exited(&mut self, program: usize, status: i32) {
        self.programs.set_status(program, status);
        let pid = self.programs.pid_of(program).unwrap_or(0);
        let Some(process) = self.processes.find(|process| process.pid() == pid && process.program() == program) else { return };
        if matches!(self.processes[process].state(), ProcessState::Expected | ProcessState::Foreign) {
            self.processes[process].never_came();
            self.programs.set_ended_at(program, self.scheduler.now());
        }
    }
}
