//! The cache of an HCA for the contexts of queue pairs.

use super::{Hcas, QpSlot};
use softband_model::parts::ContextCache;
use softband_sim::SimTime;
use std::collections::BTreeMap;

/// Contexts of one HCA, by their last use.
#[derive(Default)]
pub(super) struct Contexts {
    by_use: BTreeMap<u64, u32>,
    uses: u64,
    /// End of the last fetch.
    fetched: SimTime,
}

/// State of a queue pair's context.
#[derive(Clone, Copy, Default)]
pub(super) struct Context {
    /// Number of its last use, or 0 outside of the cache.
    used: u64,
    /// A message waits for the fetch, and starts when it is done.
    is_awaited: bool,
}

impl Contexts {
    fn fetch(&mut self, cache: ContextCache, now: SimTime) -> SimTime {
        self.fetched = self.fetched.max(now) + cache.miss;
        self.fetched
    }
}

impl Hcas {
    /// Uses the context of a queue pair. Returns the time when the HCA has it: `now` if it is in the
    /// cache.
    pub(super) fn use_context(&mut self, hca: u32, qp: u32, now: SimTime) -> SimTime {
        let node = &mut self.nodes[hca as usize];
        let Some(cache) = node.part.context_cache else { return now };
        let Some(slot) = self.qps[qp as usize].as_deref_mut() else { return now };
        let contexts = &mut node.contexts;
        contexts.uses += 1;
        let former = std::mem::replace(&mut slot.context.used, contexts.uses);
        contexts.by_use.insert(contexts.uses, qp);
        if former > 0 {
            contexts.by_use.remove(&former);
            return now;
        }
        if contexts.by_use.len() > cache.contexts as usize
            && let Some((_, oldest)) = contexts.by_use.pop_first()
            && let Some(slot) = self.qps[oldest as usize].as_deref_mut()
        {
            slot.context.used = 0;
        }
        contexts.fetch(cache, now)
    }

    /// As [`Self::use_context`], for a message that starts. After the fetch, it starts in any case.
    pub(super) fn use_context_to_start(&mut self, hca: u32, qp: u32, now: SimTime) -> SimTime {
        if self.slot_mut(qp).is_some_and(|slot| std::mem::take(&mut slot.context.is_awaited)) {
            return now;
        }
        let at = self.use_context(hca, qp, now);
        if at > now
            && let Some(slot) = self.slot_mut(qp)
        {
            slot.context.is_awaited = true;
        }
        at
    }

    /// Drops the context of a queue pair that goes.
    pub(super) fn forget_context(contexts: &mut Contexts, slot: &QpSlot) {
        contexts.by_use.remove(&slot.context.used);
    }
}
