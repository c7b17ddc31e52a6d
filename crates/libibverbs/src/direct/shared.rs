//! Posting to shared receive queues that peers take from themselves.

use crate::short::Short;
use softband_client::direct::look;
use softband_client::receive_queue::{Posted, ReceiveQueue};
use softband_ipc::post::{PostRecord, PostSge};
use softband_ipc::tables::of_shared_queue;

/// What a shared receive queue keeps for that.
pub(crate) struct SharedQueue {
    /// Its entry in the table plus one, or 0.
    entry: u32,
    /// Its name there.
    name: u32,
    /// Held while a request is posted: the queue, once something was posted to it.
    pub(crate) posting: Short<Option<ReceiveQueue>>,
}

impl SharedQueue {
    pub(crate) fn new(handle: u32, entry: u32) -> Self {
        Self { entry, name: of_shared_queue(handle), posting: Short::default() }
    }

    /// Posts a receive request where peers take it themselves, or to the engine if that has the queue at present; false: this is no
    /// queue that changes hands.
    pub(crate) fn receive(&self, known: &mut Option<ReceiveQueue>, record: PostRecord, list: &[PostSge]) -> bool {
        let Some(index) = self.entry.checked_sub(1) else { return false };
        loop {
            let Some(looking) = look() else { return false };
            let Some(own) = looking.queue_pair(index, self.name) else { return false };
            if !known.as_ref().is_some_and(|queue| queue.is_of(own)) {
                *known = ReceiveQueue::of(own); // it may have another size now
            }
            let Some(queue) = known.as_ref() else { return false };
            let is_posted = match queue.post(&looking, record.wr_id, list) {
                Posted::Here => true,
                // Still looking: the queue must not change hands before the request is where the engine finds it.
                Posted::ForEngine => softband_client::post::try_post(record, list),
                Posted::Later => false,
            };
            if is_posted {
                return true;
            }
            drop(looking);
            std::thread::yield_now();
        }
    }
}
