//! The engine's reactions to control events: ends of programs, connections, calls, commands.

use crate::control::socket::ControlEvent;
use crate::engine::Engine;
use std::collections::VecDeque;
use std::time::Duration;

impl Engine {
    pub(crate) fn receive_control_events(&mut self) {
        self.mailbox.clear();
        while let Ok(event) = self.receiver.try_recv() {
            self.control_events.push_back(event);
        }
    }

    /// Waits for a control event, at most `limit` of wall-clock time.
    pub(crate) fn await_control_event(&mut self, limit: Duration) {
        self.outputs.drain();
        if self.control_events.is_empty()
            && let Ok(event) = self.receiver.recv_timeout(limit)
        {
            self.control_events.push_back(event);
        }
        self.receive_control_events();
    }

    /// Handles all events but hellos, in the order of their arrival.
    pub(crate) fn handle_control_events(&mut self) {
        let mut hellos = VecDeque::new();
        while let Some(event) = self.control_events.pop_front() {
            match event {
                ControlEvent::Exited { program, status } => self.program_exited(program, status),
                ControlEvent::Closed { connection } => self.connection_closed(connection),
                ControlEvent::Back { connection, slot } => self.thread_back(connection, slot),
                ControlEvent::Call { connection, slot } => self.wall_call(connection, slot),
                ControlEvent::Command { socket, pid, command } => self.handle_command(&socket, pid, &command),
                hello @ ControlEvent::Hello { .. } => hellos.push_back(hello),
            }
        }
        self.control_events = hellos;
    }

    pub(crate) fn note_early_exits(&mut self) {
        let mut rest = VecDeque::new();
        while let Some(event) = self.control_events.pop_front() {
            match event {
                ControlEvent::Exited { program, status } => self.program_exited(program, status),
                other => rest.push_back(other),
            }
        }
        self.control_events = rest;
    }
}
