//! Timers of programs: timerfds and alarms.

use crate::host::objects::Object;
use crate::protocol::{Caller, program_time};
use crate::rpc::host_calls::HostCalls;
use crate::scheduler::agenda::Event;
use softband_ipc::calls::{self, readiness};
use softband_sim::SimTime;

impl HostCalls<'_> {
    pub(crate) fn alarm(&mut self, caller: Caller, alarm: &calls::Alarm) -> Result<calls::AlarmReply, i32> {
        if alarm.signal == 0 || alarm.signal > 63 {
            return Err(libc::EINVAL);
        }
        let (at_ps, interval_ps) = self.scheduler.set_alarm(self.processes, caller.process, alarm.signal, (alarm.at_ps, alarm.interval_ps));
        Ok(calls::AlarmReply { at_ps, interval_ps })
    }

    pub(crate) fn timer_new(&mut self, caller: Caller, _: &calls::TimerNew) -> Result<calls::Object, i32> {
        let object = self.host.add(Object::Timer { at: SimTime::ZERO, interval_picos: 0, expirations: 0, generation: 0 });
        self.processes[caller.process].hold(object);
        Ok(calls::Object { object, reserved: 0 })
    }

    pub(crate) fn timer_read(&mut self, caller: Caller, timer: &calls::Object) -> Result<calls::Count, i32> {
        let object = self.processes[caller.process].held(timer.object)?;
        let Some(Object::Timer { expirations, .. }) = self.host.object_mut(object) else { return Err(libc::EINVAL) };
        let count = std::mem::take(expirations);
        if count == 0 { Err(libc::EAGAIN) } else { Ok(calls::Count { count }) }
    }

    pub(crate) fn timer_set(&mut self, caller: Caller, set: &calls::TimerSet) -> Result<calls::TimerSet, i32> {
        let object = self.processes[caller.process].held(set.object)?;
        let Some(Object::Timer { at, interval_picos, expirations, generation }) = self.host.object_mut(object) else { return Err(libc::EINVAL) };
        let former = calls::TimerSet { object, reserved: 0, at_ps: at.as_picos(), interval_ps: *interval_picos };
        *generation += 1;
        *expirations = 0;
        (*at, *interval_picos) = (SimTime::from_picos(set.at_ps), set.interval_ps);
        let generation = *generation;
        if let Some(at) = program_time(set.at_ps).filter(|at| *at > SimTime::ZERO) {
            self.scheduler.push(at.max(self.scheduler.now()), caller.process as u32, Event::TimerFires { object, generation });
        }
        Ok(former)
    }

    pub(crate) fn timer_fires(&mut self, object: u32, fired: u32) {
        let now = self.scheduler.now();
        let Some(Object::Timer { at, interval_picos, expirations, generation }) = self.host.object_mut(object) else { return };
        if *generation != fired {
            return;
        }
        // As in Linux, an interval goes on without an edge until the program reads the timer.
        let edge = if *expirations == 0 { readiness::READABLE } else { 0 };
        *expirations += 1;
        let next = program_time(now.as_picos().saturating_add(*interval_picos)).filter(|_| *interval_picos > 0);
        if let Some(next) = next {
            *at = next;
            let at = *at;
            self.scheduler.push(at, u32::MAX, Event::TimerFires { object, generation: fired });
        } else {
            *at = SimTime::ZERO;
        }
        self.scheduler.object_changed(self.processes, self.host, (object, edge));
    }
}
