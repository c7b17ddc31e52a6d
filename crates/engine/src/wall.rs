//! Wall pace: the programs' clock is the host's. The engine keeps the objects and answers control verbs; data moves without it.

use crate::pace::{Engine, Event, Failure};
use crate::process::ProcessState;
use softband_ipc::layout::{baton_of, turn};
use softband_sim::SimTime;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often the engine looks at what programs print, and for Ctrl-C.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

impl Engine {
    /// Answers calls until every program has ended.
    pub(crate) fn wall_loop(&mut self) -> Option<Failure> {
        loop {
            if self.interrupt.is_raised() {
                return Some(Failure::Interrupted);
            }
            self.now = SimTime::from_picos(self.started_at.elapsed().as_nanos() as u64 * 1_000);
            self.greet_all();
            self.take_heard();
            self.settle_events();
            if self.statuses.iter().all(Option::is_some) {
                return None;
            }
            self.hear_for(LOOK_INTERVAL);
        }
    }

    /// What is scheduled happens at once: nobody's clock waits for it.
    fn settle_events(&mut self) {
        while let Some((_, event)) = self.queue.pop() {
            match event {
                Event::Resume { process, slot } if self.processes[process].state == ProcessState::Attached => self.return_call(process, slot),
                Event::Resume { .. } => {}
                other => self.handle(other),
            }
        }
    }

    fn return_call(&mut self, process: usize, slot: u32) {
        let shared = self.processes[process].shared.slot(slot);
        shared.turn.store(turn::PROGRAM, Ordering::SeqCst);
        if shared.program_asleep.swap(0, Ordering::SeqCst) != 0 {
            self.handover.pass(baton_of(process as u32, slot));
        }
    }

    /// A thread has made a call.
    pub(crate) fn wall_call(&mut self, connection: u64, slot: u32) {
        let Some(process) = self.processes.iter().position(|process| process.connection == Some(connection)) else { return };
        let record = &self.processes[process];
        if slot as usize >= record.threads.len() || record.state != ProcessState::Attached {
            return;
        }
        self.execute(process, slot);
    }
}
