//! Turns whose thread has announced a computation, and runs beside the engine meanwhile.

use crate::engine::Engine;
use crate::engine::turns::TurnEnd;
use crate::process::ahead::Runner;
use crate::protocol::{END, program_time};
use crate::scheduler::agenda::Event;
use softband_ipc::layout::token;
use softband_sim::SimTime;
use std::sync::atomic::Ordering;

impl Engine {
    /// Lets a thread compute ahead. Its posts so far take place, and its turn goes on at the
    /// announced time.
    pub(super) fn thread_goes_ahead(&mut self, process: usize, slot: u32, work_begun: Option<SimTime>) {
        self.take_work_of_turn(process, slot);
        self.processes.keep_promises(process);
        let record = &self.processes[process];
        let runner = Runner { process, slot, host: record.host(), pid: record.pid() };
        let announced = record.shared().slot(slot).ahead_until_ps.load(Ordering::Relaxed);
        let until = program_time(announced).unwrap_or(END).max(self.scheduler.now());
        if !self.memory.ahead_mut().begin(runner, record.shared(), work_begun) {
            // The system has no memory for another mapping. The engine waits for this thread.
            let end = self.wait_for_token(process, slot, token::AHEAD);
            return self.end_turn(process, slot, (end, work_begun), self.scheduler.now());
        }
        self.report.note_announced_computation();
        self.scheduler.push(until, process as u32, Event::Rejoin { process, slot });
        if !self.scheduler.computes_in_parallel() {
            self.memory.ahead_mut().settle_process(process);
        }
    }

    /// Goes on with the turn of a thread that has computed ahead, at the announced time.
    pub(super) fn rejoin(&mut self, process: usize, slot: u32) {
        let caught = self.memory.ahead_mut().end(process, slot);
        let (work_begun, closed) = caught.as_ref().map_or((None, None), |caught| (caught.work_begun, caught.closed));
        let end = if closed.is_some() && caught.is_some_and(|caught| !caught.has_called) {
            self.processes[process].close_connection();
            TurnEnd::Gone
        } else {
            self.wait_for_token(process, slot, token::AHEAD)
        };
        self.end_turn(process, slot, (end, work_begun), self.scheduler.now());
        if let Some(connection) = closed.filter(|_| end == TurnEnd::Call) {
            // The process has ended after its call.
            self.connection_closed(connection);
        }
    }
}
