//! Alarms of a process, by their signals.

use crate::protocol::program_time;
use softband_sim::SimTime;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
struct Alarm {
    at: SimTime,
    interval_picos: u64,
    generation: u64,
}

/// The alarms of a process. Each signal has at most one.
#[derive(Default)]
pub(super) struct Alarms {
    by_signal: BTreeMap<u32, Alarm>,
}

impl Alarms {
    /// Returns the times at which the alarms ring.
    pub(super) fn times(&self) -> impl Iterator<Item = SimTime> {
        self.by_signal.values().map(|alarm| alarm.at)
    }

    /// Sets an alarm, or clears it without a time. Returns the former time and interval in
    /// picoseconds.
    pub(super) fn set(&mut self, signal: u32, (at, interval_picos): (Option<SimTime>, u64), generation: u64) -> (u64, u64) {
        let former = self.by_signal.remove(&signal).map_or((0, 0), |alarm| (alarm.at.as_picos(), alarm.interval_picos));
        if let Some(at) = at {
            self.by_signal.insert(signal, Alarm { at, interval_picos, generation });
        }
        former
    }

    /// Takes an alarm that rings. Returns `None` if it is stale, else the time of its next ring, if
    /// it has any.
    pub(super) fn ring(&mut self, signal: u32, generation: u64) -> Option<Option<SimTime>> {
        let alarm = *self.by_signal.get(&signal).filter(|alarm| alarm.generation == generation)?;
        self.by_signal.remove(&signal);
        let next = program_time(alarm.at.as_picos().saturating_add(alarm.interval_picos)).filter(|_| alarm.interval_picos > 0);
        if let Some(next) = next {
            self.by_signal.insert(signal, Alarm { at: next, ..alarm });
        }
        Some(next)
    }
}
