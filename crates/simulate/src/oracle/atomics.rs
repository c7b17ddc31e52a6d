//! Atomics against a sequential reference: the order in which memory saw them.

use super::{Rule, Sent, Violation};
use crate::memory::{Memory, Update, mix};
use crate::plan::Operation;
use std::collections::BTreeMap;

/// An atomic that was posted.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    operation: Operation,
    process: usize,
    cell: u64,
    compare: u64,
    /// Updates that memory had seen by then.
    from: usize,
}

#[derive(Default)]
pub(crate) struct Atomics {
    wanted: BTreeMap<u64, Wanted>,
    /// Value that an atomic stores, or that a fetch and add adds, to its tag.
    by_value: BTreeMap<u64, u64>,
    executed: BTreeMap<u64, Update>,
    seen: usize,
}

/// Returns the value that a swap or an atomic write stores.
pub(crate) fn value_of(tag: u64) -> u64 {
    mix(tag ^ 0xA70)
}

impl Atomics {
    /// Records an atomic on a counter of `process`, and returns its operand: the number to add, or
    /// the value to store.
    pub(crate) fn post(&mut self, tag: u64, operation: Operation, (process, cell): (usize, u64), compare: u64, memory: &Memory) -> u64 {
        let operand = if operation == Operation::FetchAdd { tag } else { value_of(tag) };
        self.wanted.insert(tag, Wanted { operation, process, cell, compare, from: memory.updates.len() });
        self.by_value.insert(operand, tag);
        operand
    }

    /// Judges the updates that memory saw since the last call.
    pub(crate) fn judge_updates(&mut self, memory: &Memory) -> Result<(), Violation> {
        for update in &memory.updates[self.seen..] {
            self.seen += 1;
            let Update { before, after, .. } = *update;
            if before == after {
                continue; // a comparison failed
            }
            let by_sum = self.by_value.get(&after.wrapping_sub(before)).filter(|tag| self.wanted[tag].operation == Operation::FetchAdd);
            let tag = by_sum.or_else(|| self.by_value.get(&after)).copied();
            let wanted = tag.and_then(|tag| self.wanted.get(&tag));
            let Some((tag, wanted)) = tag.zip(wanted) else {
                return Err(Violation::new(Rule::Atomics, format!("no request asked for the update {update:x?}")));
            };
            if (wanted.process, wanted.cell) != (update.process, update.cell) {
                return Err(Violation::new(Rule::Atomics, format!("the update {update:x?} changed another counter than {wanted:x?}")));
            }
            if wanted.operation == Operation::CompareSwap && wanted.compare != before {
                return Err(Violation::new(Rule::Atomics, format!("{wanted:x?} swapped, but found {before:#x}")));
            }
            if self.executed.insert(tag, *update).is_some() {
                return Err(Violation::new(Rule::Atomics, format!("{wanted:x?} was executed twice")));
            }
        }
        Ok(())
    }

    /// Judges an atomic that succeeded; `outcome` is the value that it returned.
    pub(super) fn on_success(&mut self, sent: &Sent, outcome: Option<&[u8]>, memory: &Memory) -> Result<(), Violation> {
        self.judge_updates(memory)?;
        let Some(wanted) = self.wanted.get(&sent.tag) else { return Ok(()) };
        let executed = self.executed.get(&sent.tag);
        let wrong = |why: String| Err(Violation::new(Rule::Atomics, format!("{why}: {wanted:x?}, executed: {executed:x?}")));
        let returned = outcome.and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes);
        match (wanted.operation, executed, returned) {
            (Operation::AtomicWrite, Some(_), _) => Ok(()),
            (Operation::FetchAdd | Operation::CompareSwap, Some(update), Some(returned)) if returned == update.before => Ok(()),
            (Operation::CompareSwap, None, Some(returned)) if returned != wanted.compare => {
                let held = memory.updates[wanted.from..].iter().filter(|update| (update.process, update.cell) == (wanted.process, wanted.cell));
                if held.clone().any(|update| update.before == returned) { Ok(()) } else { wrong(format!("the counter never held {returned:#x}")) }
            }
            _ => wrong(format!("it returned {returned:x?}")),
        }
    }
}
