//! Posting receive requests to a queue that peers take from themselves.

use crate::spin_lock::{Held, SpinLock};
use softband_client::direct::{TablesGuard, guard_tables};
use softband_client::receive_queue::{Posted, ReceiveQueue};
use softband_ipc::post::{PostRecord, PostSge};
use softband_ipc::tables::QpEntry;
use std::sync::atomic::Ordering;

/// What a queue pair, or a shared receive queue, keeps for that.
pub(crate) struct OwnQueue {
    /// Its entry in the table plus one, or 0.
    entry: u32,
    /// Its name there.
    name: u32,
    queue: SpinLock<Known>,
}

/// The queue, once something was posted to it, and the version of the entry by which it was found.
#[derive(Default)]
struct Known {
    queue: Option<ReceiveQueue>,
    version: u32,
}

/// Held while a request takes its place and is posted: one follows the other.
pub(crate) struct Posting<'a> {
    of: &'a OwnQueue,
    known: Held<'a, Known>,
    guard: Option<TablesGuard>,
}

impl OwnQueue {
    pub(crate) fn new(entry: u32, name: u32) -> Self {
        Self { entry, name, queue: SpinLock::default() }
    }

    /// Nobody posts meanwhile.
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
    /// It may have another size now.
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
    /// Posts a request where peers take it themselves, or to the engine if that has the queue at present; false: this is no queue that
    /// changes hands.
    #[inline(always)]
    pub(crate) fn post(&mut self, list: &[PostSge], wr_id: u64, record: impl Fn() -> PostRecord) -> bool {
        let Some(index) = self.of.entry.checked_sub(1) else { return false };
        loop {
            let Some(guard) = self.guard.take().or_else(guard_tables) else { return false };
            let Some(own) = guard.queue_pair(index, self.of.name) else { return false };
            self.known.look_at(own);
            let Some(queue) = &self.known.queue else { return false };
            let is_posted = match queue.post(&guard, wr_id, list) {
                Posted::Here => true,
                // Still under the guard: the queue must not change hands before the request is where the engine finds it.
                Posted::ForEngine => softband_client::post::try_post(record(), list),
                Posted::Later => false,
            };
            if is_posted {
                return true;
            }
            drop(guard);
            std::thread::yield_now();
        }
    }
}
