//! The producers of each completion ring. A ring that only the peer of one queue pair writes to needs no lock.

use softband_types::CqHandle;
use std::collections::BTreeMap;

/// Entries of the table of queue pairs, by the completion queue into whose ring that goes which reaches them, and the other way round.
#[derive(Default)]
pub(crate) struct CqProducers {
    /// With it, whether an entry has one sender only.
    of: BTreeMap<CqHandle, BTreeMap<u32, bool>>,
    by: BTreeMap<u32, CqHandle>,
    /// Queues that have lost one.
    left: Vec<CqHandle>,
}

impl CqProducers {
    /// What reaches this entry goes there from now on; the entry that was the only one until then, if there was one.
    pub(crate) fn add(&mut self, cq: CqHandle, entry: u32, has_one_sender: bool) -> Option<u32> {
        self.by.insert(entry, cq);
        let all = self.of.entry(cq).or_default();
        let only = if all.len() == 1 { all.keys().next().copied() } else { None };
        all.insert(entry, has_one_sender);
        only.filter(|former| *former != entry)
    }

    /// Whether nobody puts anything into that ring but the one sender of this entry.
    pub(crate) fn has_lone_sender(&self, entry: u32) -> bool {
        self.by.get(&entry).is_some_and(|cq| self.lone_of(*cq) == Some(entry))
    }

    fn lone_of(&self, cq: CqHandle) -> Option<u32> {
        let all = self.of.get(&cq).filter(|all| all.len() == 1)?;
        all.iter().find(|(_, has_one_sender)| **has_one_sender).map(|(entry, _)| *entry)
    }

    pub(crate) fn remove(&mut self, entry: u32) {
        let Some(cq) = self.by.remove(&entry) else { return };
        let Some(all) = self.of.get_mut(&cq) else { return };
        all.remove(&entry);
        if all.is_empty() {
            self.of.remove(&cq);
        } else {
            self.left.push(cq);
        }
    }

    /// The entries that are alone since others were removed. Each is named once.
    pub(crate) fn take_lone(&mut self) -> Vec<u32> {
        let left = std::mem::take(&mut self.left);
        left.into_iter().filter_map(|cq| self.lone_of(cq)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CQ: CqHandle = CqHandle(7);

    #[test]
    fn whoever_was_alone_is_named_once() {
        let mut producers = CqProducers::default();
        assert_eq!(producers.add(CQ, 1, true), None);
        assert_eq!(producers.add(CQ, 1, true), None, "it says the same again");
        assert!(producers.has_lone_sender(1));
        assert_eq!(producers.add(CQ, 2, true), Some(1));
        assert_eq!(producers.add(CQ, 3, true), None);
        assert!(!producers.has_lone_sender(1) && !producers.has_lone_sender(3));
        assert_eq!(producers.add(CqHandle(8), 4, false), None, "another queue");
        assert!(!producers.has_lone_sender(4), "it has many");
    }

    #[test]
    fn the_last_one_is_alone_again() {
        let mut producers = CqProducers::default();
        for entry in [1, 2, 3] {
            producers.add(CQ, entry, entry != 3);
        }
        producers.remove(1);
        assert!(producers.take_lone().is_empty());
        producers.remove(3);
        producers.remove(3);
        assert_eq!(producers.take_lone(), [2]);
        assert!(producers.take_lone().is_empty());
        assert!(producers.has_lone_sender(2) && !producers.has_lone_sender(1));
        producers.remove(2);
        assert!(producers.take_lone().is_empty() && producers.of.is_empty() && producers.by.is_empty());
    }

    #[test]
    fn one_with_many_senders_is_not_alone_when_it_is_left() {
        let mut producers = CqProducers::default();
        producers.add(CQ, 1, false);
        producers.add(CQ, 2, true);
        producers.remove(2);
        assert!(producers.take_lone().is_empty() && !producers.has_lone_sender(1));
    }
}
