//! The producers of each completion ring. A ring with a single producer, the peer of one queue
//! pair, needs no lock.

use softband_types::CqHandle;
use std::collections::BTreeMap;

/// Entries of the table of queue pairs. One map finds them by the completion queue that receives
/// their completions, the other is the reverse.
#[derive(Default)]
pub struct CqProducers {
    /// The entries of each queue. The flag is true if an entry has only one sender.
    of: BTreeMap<CqHandle, BTreeMap<u32, bool>>,
    by: BTreeMap<u32, CqHandle>,
    /// Queues that have lost an entry.
    left: Vec<CqHandle>,
}

impl CqProducers {
    /// Adds an entry whose completions go to `cq`. Returns the entry that was the only one before,
    /// if any.
    pub fn add(&mut self, cq: CqHandle, entry: u32, has_one_sender: bool) -> Option<u32> {
        self.by.insert(entry, cq);
        let all = self.of.entry(cq).or_default();
        let only = if all.len() == 1 { all.keys().next().copied() } else { None };
        all.insert(entry, has_one_sender);
        only.filter(|former| *former != entry)
    }

    /// Returns whether the one sender of this entry is the single producer of its ring.
    pub fn has_lone_sender(&self, entry: u32) -> bool {
        self.by.get(&entry).is_some_and(|cq| self.lone_of(*cq) == Some(entry))
    }

    fn lone_of(&self, cq: CqHandle) -> Option<u32> {
        let all = self.of.get(&cq).filter(|all| all.len() == 1)?;
        all.iter().find(|(_, has_one_sender)| **has_one_sender).map(|(entry, _)| *entry)
    }

    pub fn remove(&mut self, entry: u32) {
        let Some(cq) = self.by.remove(&entry) else { return };
        let Some(all) = self.of.get_mut(&cq) else { return };
        all.remove(&entry);
        if all.is_empty() {
            self.of.remove(&cq);
        } else {
            self.left.push(cq);
        }
    }

    /// Returns the entries that are single producers since others were removed. Later calls do not
    /// repeat them.
    pub fn take_lone(&mut self) -> Vec<u32> {
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
