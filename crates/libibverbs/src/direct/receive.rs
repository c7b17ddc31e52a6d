//! Posts of receive requests to a queue that peers consume themselves.

use super::{Direct, count_fallback};
use crate::spin_lock::{Held, SpinLock};
use softband_client::direct::ReceiveQueue;
use softband_client::direct::{TablesGuard, guard_tables};
use softband_ipc::post::{PostRecord, PostSge};
use softband_shm_transport::fallback::FallbackReason;
use softband_shm_transport::receive_queue::Posted;
use softband_shm_transport::tables::QpEntry;
use std::sync::atomic::Ordering;

/// State of a queue pair or an SRQ for this.
pub(crate) struct OwnQueue {
    /// Its entry in the table plus one, or 0.
    entry: u32,
    /// Name of the queue there.
    name: u32,
    queue: SpinLock<Known>,
}

/// The queue, after the first post, and the version of its entry at lookup.
#[derive(Default)]
struct Known {
    queue: Option<ReceiveQueue>,
    version: u32,
}

/// Held while a request takes its place and is posted, which keeps requests in order.
pub(crate) struct Posting<'a> {
    of: &'a OwnQueue,
    known: Held<'a, Known>,
    guard: Option<TablesGuard>,
}

impl OwnQueue {
    pub(crate) fn new(entry: u32, name: u32) -> Self {
        Self { entry, name, queue: SpinLock::default() }
    }

    /// Keeps other threads from posting.
    pub(crate) fn hold(&self) -> impl Drop + '_ {
        self.queue.lock()
    }

    #[inline(always)]
    pub(crate) fn begin(&self) -> Posting<'_> {
        let (known, guard) = self.queue.lock_and_guard();
        Posting { of: self, known, guard }
    }
}

impl Known {
    /// Looks the queue up again after a change of its entry: its size may differ.
    #[inline(always)]
    fn look_at(&mut self, own: &QpEntry) {
        let version = own.version.load(Ordering::SeqCst);
        if self.queue.is_none() || self.version != version {
            self.find(own, version);
        }
    }

    #[cold]
    fn find(&mut self, own: &QpEntry, version: u32) {
        self.version = version;
        if !self.queue.as_ref().is_some_and(|queue| queue.is_of(own)) {
            self.queue = ReceiveQueue::of(own);
        }
    }
}

impl Posting<'_> {
    /// Posts a request to the queue, or to the engine if the engine owns the queue at present. Fails
    /// if this queue never changes its owner.
    #[inline(always)]
    pub(crate) fn post(&mut self, list: &[PostSge], wr_id: u64, record: impl Fn() -> PostRecord) -> Direct<()> {
        let Some(index) = self.of.entry.checked_sub(1) else { return Err(FallbackReason::NotPublished) };
        loop {
            let guard = self.guard.take().or_else(guard_tables).ok_or(FallbackReason::NotPublished)?;
            let own = guard.queue_pair(index, self.of.name).ok_or(FallbackReason::NotPublished)?;
            self.known.look_at(own);
            let queue = self.known.queue.as_ref().ok_or(FallbackReason::QueueNotMapped)?;
            let is_posted = match queue.post(&guard, wr_id, list) {
                Posted::Here => true,
                // Still under the guard: the queue must not change its owner before the engine can
                // find the request.
                Posted::ForEngine => {
                    let is_posted = softband_client::post::try_post(record(), list);
                    if is_posted {
                        count_fallback(FallbackReason::QueueTakenOver);
                    }
                    is_posted
                }
                Posted::Later => false,
            };
            if is_posted {
                return Ok(());
            }
            drop(guard);
            std::thread::yield_now();
        }
    }
}
