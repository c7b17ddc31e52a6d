//! Alarms of processes: timers that raise a signal.

use crate::host::room::HostServices;
use crate::process::processes::Processes;
use crate::process::record::Raised;
use crate::protocol::program_time;
use crate::scheduler::agenda::Event;
use crate::scheduler::room::Scheduler;
use softband_sim::SimTime;

impl Scheduler {
    /// Sets, changes or clears a timer that raises a signal. Returns the former time and interval,
    /// in picoseconds.
    pub(crate) fn set_alarm(&mut self, processes: &mut Processes, process: usize, signal: u32, (at_picos, interval_picos): (u64, u64)) -> (u64, u64) {
        let generation = self.next_alarm();
        let at = program_time(at_picos).filter(|at| *at > SimTime::ZERO).map(|at| at.max(self.now()));
        if let Some(at) = at {
            self.push(at, process as u32, Event::AlarmRings { process, signal, generation });
        }
        processes[process].set_alarm(signal, (at, interval_picos), generation)
    }

    /// Handles the time of an alarm.
    pub(crate) fn alarm_rings(&mut self, processes: &mut Processes, host: &mut HostServices, (process, signal): (usize, u32), generation: u64) {
        let Some(next) = processes[process].ring(signal, generation) else { return };
        if let Some(next) = next {
            self.push(next, process as u32, Event::AlarmRings { process, signal, generation });
        }
        match processes[process].raise(signal) {
            Raised::EndsWait(slot) => self.finish_wait(processes, host, (process, slot), true),
            Raised::Wakes(slot) => self.wake(processes, process, slot),
            Raised::Nothing => {}
        }
    }
}
