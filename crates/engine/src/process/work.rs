//! Work of the threads of a process, for the bottlenecks of a run.

use softband_sim::SimDuration;

/// Work of a process's threads, by slot.
#[derive(Debug, Default)]
pub(crate) struct Work(Vec<SimDuration>);

impl Work {
    /// Adds the work of a turn. A program can write any time into its clock, so the sum saturates.
    pub(crate) fn add(&mut self, slot: u32, worked: SimDuration) {
        let slot = slot as usize;
        if self.0.len() <= slot {
            self.0.resize(slot + 1, SimDuration::ZERO);
        }
        self.0[slot] = SimDuration::from_picos(self.0[slot].as_picos().saturating_add(worked.as_picos()));
    }

    /// Returns the work of each slot's threads.
    pub(crate) fn by_slot(&self) -> &[SimDuration] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_a_false_clock_saturates() {
        let mut work = Work::default();
        work.add(1, SimDuration::from_picos(5));
        work.add(1, SimDuration::from_picos(u64::MAX));
        assert_eq!(work.by_slot(), [SimDuration::ZERO, SimDuration::from_picos(u64::MAX)]);
    }
}
