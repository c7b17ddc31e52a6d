//! Limits of a run, in wall-clock time and in simulated time.

use crate::engine::Engine;
use crate::options::{Failure, Interrupt};
use crate::scheduler::waits::moment;
use softband_sim::{SimDuration, SimTime};
use std::time::Duration;

/// Time limits of a run. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Limit in wall-clock time, in both paces.
    pub wall: Option<Duration>,
    /// Limit in simulated time.
    pub simulated: Option<SimDuration>,
}

/// Lets `interrupt` expire after `limit`. The thread ends with the process.
fn expire_after(limit: Duration, interrupt: Interrupt) -> std::io::Result<()> {
    let wait = move || {
        std::thread::sleep(limit);
        interrupt.expire();
    };
    std::thread::Builder::new().name("timeout".into()).spawn(wait).map(drop)
}

impl Engine {
    /// Starts the wall-clock limit of the run.
    pub(crate) fn start_time_limit(&mut self) {
        if let Some(limit) = self.limits.wall
            && let Err(error) = expire_after(limit, self.interrupt.clone())
        {
            self.warn(format!("--timeout has no effect: the host starts no thread for it ({error})"));
        }
    }

    /// Returns the reason why an interrupted run ends.
    pub(crate) fn interruption(&mut self) -> Failure {
        if !self.interrupt.has_expired() {
            return Failure::Interrupted;
        }
        let seconds = self.limits.wall.unwrap_or_default().as_secs_f64();
        self.time_out(format!("{seconds} s of wall-clock time"))
    }

    /// Returns the failure of a run whose next event is later than its limit of simulated time.
    /// Returns `None` if all programs have ended.
    pub(crate) fn past_time_limit(&mut self) -> Option<Failure> {
        let end = SimTime::ZERO + self.limits.simulated?;
        let next = self.world.next_event_time().into_iter().chain(self.queue.next_time()).min()?;
        if next <= end || !self.processes.any(|process| process.is_alive()) {
            return None;
        }
        self.now = self.now.max(end);
        Some(self.time_out(moment(end)))
    }

    fn time_out(&mut self, limit: String) -> Failure {
        self.receive_control_events();
        self.handle_control_events();
        for program in 0..self.programs.len() {
            if self.statuses[program].is_none() {
                self.program_ended_at(program, self.now);
            }
        }
        Failure::TimedOut { limit, waiting: self.who_waits() }
    }
}
