//! Who puts completions into which ring of deliveries: where it is one queue pair's peer alone, that one needs no lock.

use softband_types::CqHandle;
use std::collections::{BTreeMap, BTreeSet};

/// Entries of the table of queue pairs, by the completion queue into whose ring that goes which reaches them, and the other way round.
#[derive(Default)]
pub(crate) struct Feeders {
    of: BTreeMap<CqHandle, BTreeSet<u32>>,
    by: BTreeMap<u32, CqHandle>,
}

impl Feeders {
    /// What reaches this entry goes there from now on; the entry that was alone until then, if there was one.
    pub(crate) fn add(&mut self, cq: CqHandle, entry: u32) -> Option<u32> {
        self.by.insert(entry, cq);
        let all = self.of.entry(cq).or_default();
        let alone = if all.len() == 1 { all.first().copied() } else { None };
        all.insert(entry);
        alone.filter(|former| *former != entry)
    }

    pub(crate) fn are_only(&self, entry: u32) -> bool {
        self.by.get(&entry).and_then(|cq| self.of.get(cq)).is_some_and(|all| all.len() == 1)
    }

    pub(crate) fn remove(&mut self, entry: u32) {
        let Some(cq) = self.by.remove(&entry) else { return };
        if let Some(all) = self.of.get_mut(&cq) {
            all.remove(&entry);
            if all.is_empty() {
                self.of.remove(&cq);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CQ: CqHandle = CqHandle(7);

    #[test]
    fn whoever_was_alone_is_named_once() {
        let mut feeders = Feeders::default();
        assert_eq!(feeders.add(CQ, 1), None);
        assert_eq!(feeders.add(CQ, 1), None, "it says the same again");
        assert!(feeders.are_only(1));
        assert_eq!(feeders.add(CQ, 2), Some(1));
        assert_eq!(feeders.add(CQ, 3), None);
        assert!(!feeders.are_only(1) && !feeders.are_only(3));
        assert_eq!(feeders.add(CqHandle(8), 4), None, "another queue");
        assert!(feeders.are_only(4));
    }

    #[test]
    fn the_last_one_is_alone_again() {
        let mut feeders = Feeders::default();
        for entry in [1, 2, 3] {
            feeders.add(CQ, entry);
        }
        feeders.remove(1);
        feeders.remove(3);
        feeders.remove(3);
        assert!(feeders.are_only(2) && !feeders.are_only(1));
        feeders.remove(2);
        assert!(!feeders.are_only(2) && feeders.of.is_empty() && feeders.by.is_empty());
    }
}
