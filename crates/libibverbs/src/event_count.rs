//! Counts of events that a program must acknowledge before their object is destroyed.

use crate::guard::lock;
use std::sync::{Condvar, Mutex, PoisonError};

#[derive(Default)]
struct Counts {
    taken: u32,
    acknowledged: u32,
}

/// Counter of one object and one kind of event.
#[derive(Default)]
pub(crate) struct EventCount {
    counts: Mutex<Counts>,
    changed: Condvar,
}

impl EventCount {
    pub(crate) fn take(&self) {
        let mut counts = lock(&self.counts);
        counts.taken = counts.taken.wrapping_add(1);
    }

    pub(crate) fn acknowledge(&self, events: u32) {
        let mut counts = lock(&self.counts);
        counts.acknowledged = counts.acknowledged.wrapping_add(events);
        drop(counts);
        self.changed.notify_all();
    }

    /// Waits until the program has acknowledged all taken events. The engine does not wait for this
    /// thread meanwhile.
    pub(crate) fn wait_until_settled(&self) {
        if self.is_settled() {
            return;
        }
        softband_client::away(|| {
            let mut counts = lock(&self.counts);
            while counts.taken != counts.acknowledged {
                counts = self.changed.wait(counts).unwrap_or_else(PoisonError::into_inner);
            }
        });
    }

    fn is_settled(&self) -> bool {
        let counts = lock(&self.counts);
        counts.taken == counts.acknowledged
    }
}

#[cfg(test)]
mod tests {
    use super::EventCount;

    #[test]
    fn an_object_may_go_once_its_events_are_acknowledged() {
        let events = EventCount::default();
        assert!(events.is_settled());
        events.take();
        events.take();
        events.acknowledge(1);
        assert!(!events.is_settled());
        std::thread::scope(|scope| {
            scope.spawn(|| events.acknowledge(1));
            events.wait_until_settled();
        });
        assert!(events.is_settled());
    }
}
