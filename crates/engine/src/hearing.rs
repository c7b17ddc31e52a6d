//! What the engine hears of: programs that end, connections, calls, commands.

use crate::control::Heard;
use crate::pace::Engine;
use std::collections::VecDeque;
use std::time::Duration;

impl Engine {
    pub(crate) fn hear_all(&mut self) {
        self.mailbox.clear();
        while let Ok(heard) = self.receiver.try_recv() {
            self.heard.push_back(heard);
        }
    }

    /// Waits for something to be heard, at most `limit` of wall-clock time.
    pub(crate) fn hear_for(&mut self, limit: Duration) {
        self.outputs.drain();
        if self.heard.is_empty()
            && let Ok(heard) = self.receiver.recv_timeout(limit)
        {
            self.heard.push_back(heard);
        }
        self.hear_all();
    }

    /// Takes what was heard, apart from hellos, in the order in which it came.
    pub(crate) fn take_heard(&mut self) {
        let mut hellos = VecDeque::new();
        while let Some(heard) = self.heard.pop_front() {
            match heard {
                Heard::Exited { program, status } => self.program_exited(program, status),
                Heard::Closed { connection } => self.connection_closed(connection),
                Heard::Back { connection, slot } => self.thread_back(connection, slot),
                Heard::Call { connection, slot } => self.wall_call(connection, slot),
                Heard::Command { socket, pid, command } => self.obey(&socket, pid, &command),
                hello @ Heard::Hello { .. } => hellos.push_back(hello),
            }
        }
        self.heard = hellos;
    }

    pub(crate) fn note_early_exits(&mut self) {
        let mut rest = VecDeque::new();
        while let Some(heard) = self.heard.pop_front() {
            match heard {
                Heard::Exited { program, status } => self.program_exited(program, status),
                other => rest.push_back(other),
            }
        }
        self.heard = rest;
    }
}
