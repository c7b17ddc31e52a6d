//! Requests of one queue pair that one thread at a time builds in place, field by field.

use crate::guard::guarded;
use crate::post::Data;
use rustix::thread::{Timespec, futex};
use softband_abi::verbs::ibv_sge;
use softband_client::{Errno, is_single_threaded, is_wall, thread_pointer};
use softband_ipc::post::PostRecord;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, compiler_fence};

/// A request under construction.
pub(crate) struct Pending {
    pub(crate) record: PostRecord,
    /// The only entry of its list: the common case.
    one: Option<ibv_sge>,
    entries: Vec<ibv_sge>,
    pub(crate) inline: Vec<u8>,
}

impl Pending {
    pub(crate) fn set_entry(&mut self, entry: ibv_sge) {
        self.one = Some(entry);
    }

    pub(crate) fn set_entries(&mut self, list: &[ibv_sge]) {
        self.one = None;
        self.entries.clear();
        self.entries.extend_from_slice(list);
    }

    #[inline(always)]
    pub(crate) fn data(&self) -> Data<'_> {
        match &self.one {
            Some(entry) => Data::Registered(std::slice::from_ref(entry)),
            None if self.entries.is_empty() => Data::Copied(&self.inline),
            None => Data::Registered(&self.entries),
        }
    }
}

#[derive(Default)]
struct Batch {
    /// Requests of this batch first. The others are free for reuse, with the memory of their lists.
    requests: Vec<Pending>,
    begun: usize,
    error: Option<Errno>,
}

impl Batch {
    #[cold]
    fn grow(&mut self) {
        let fresh = || Pending { record: bytemuck::Zeroable::zeroed(), one: None, entries: Vec::new(), inline: Vec::new() };
        guarded((), || self.requests.push(fresh()));
    }
}

/// Longest time between two checks of a waiting thread. The owner that ends may miss a new waiter.
/// A reliable check would have to wait for all of the owner's recent stores.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Requests of one queue pair under construction.
#[derive(Default)]
pub(crate) struct Builder {
    /// Thread between `wr_start` and `wr_complete` or `wr_abort`, or 0.
    owner: AtomicUsize,
    /// Batch of that thread.
    batch: UnsafeCell<Batch>,
    /// Number of threads that wait for the owner's end, and below, their futex word, which each
    /// wake-up changes.
    waiting: AtomicU32,
    woken: AtomicU32,
}
// SAFETY: only the owner accesses the batch.
unsafe impl Sync for Builder {}

/// Ends the owner's batch when dropped.
struct Ending<'a>(&'a Builder);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.owner.store(0, Ordering::Release);
        if self.0.waiting.load(Ordering::Relaxed) != 0 {
            self.0.woken.fetch_add(1, Ordering::SeqCst);
            let _ = futex::wake(&self.0.woken, futex::Flags::PRIVATE, 1);
        }
    }
}

impl Builder {
    /// Waits until no other thread builds, and starts a batch. The engine does not wait for this
    /// thread meanwhile.
    #[inline(always)]
    pub(crate) fn open(&self) {
        let me = thread_pointer();
        if is_single_threaded() && self.owner.load(Ordering::Relaxed) == 0 {
            self.owner.store(me, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            return;
        }
        self.open_in_a_crowd(me);
    }

    #[inline(never)]
    fn open_in_a_crowd(&self, me: usize) {
        let takes = || self.owner.compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if takes() {
            return;
        }
        if let Some(batch) = self.own() {
            batch.error.get_or_insert(Errno(libc::EINVAL)); // started twice
            return;
        }
        softband_client::away(|| {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            loop {
                let seen = self.woken.load(Ordering::SeqCst);
                if takes() {
                    break;
                }
                // The kernel's clock, because the C library's clock may show simulated time.
                let _ = futex::wait(&self.woken, futex::Flags::PRIVATE, seen, Some(&LOOK_AGAIN));
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        });
    }

    /// Returns the batch, if the calling thread has started it.
    #[expect(clippy::mut_from_ref, reason = "only the owner gets it, and nobody here keeps it")]
    fn own(&self) -> Option<&mut Batch> {
        // SAFETY: only the owner gets here, and the batch stays its own until it has closed it.
        (self.owner.load(Ordering::Relaxed) == thread_pointer()).then(|| unsafe { &mut *self.batch.get() })
    }

    /// Ends the batch and calls `post` with its requests, unless a request had an error.
    #[inline(always)]
    pub(crate) fn close(&self, post: impl FnOnce(&[Pending]) -> Result<(), Errno>) -> Result<(), Errno> {
        let batch = self.own().ok_or(Errno(libc::EINVAL))?;
        let ending = Ending(self);
        let begun = std::mem::take(&mut batch.begun);
        if let Some(error) = batch.error.take() {
            return Err(error);
        }
        if is_wall() {
            return post(&batch.requests[..begun]);
        }
        // The engine may give the token to another thread in `post`. That thread's
        // view of the batch must depend on simulated time alone.
        let requests = std::mem::take(&mut batch.requests);
        drop(ending);
        post(&requests[..begun])
    }

    /// Starts a request, to be filled in place. Returns `None` if `allowed` is an error or no batch
    /// is open.
    #[inline(always)]
    pub(crate) fn begin(&self, allowed: Result<(), Errno>) -> Option<&mut Pending> {
        let batch = self.own()?;
        if let Err(error) = allowed {
            batch.error.get_or_insert(error);
            return None;
        }
        if batch.begun == batch.requests.len() {
            batch.grow();
        }
        let Some(pending) = batch.requests.get_mut(batch.begun) else {
            batch.error.get_or_insert(Errno(libc::ENOMEM));
            return None;
        };
        batch.begun += 1;
        pending.one = None;
        pending.entries.clear();
        pending.inline.clear();
        Some(pending)
    }

    pub(crate) fn fail(&self, error: Errno) {
        self.begin(Err(error));
    }

    /// Changes the last started request.
    #[inline(always)]
    pub(crate) fn amend(&self, change: impl FnOnce(&mut Pending) -> Result<(), Errno>) {
        let Some(batch) = self.own() else { return };
        let last = batch.begun.checked_sub(1).and_then(|last| batch.requests.get_mut(last));
        if let Err(error) = last.map_or(Err(Errno(libc::EINVAL)), change) {
            batch.error.get_or_insert(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the inline length in bytes of each request that `build` makes.
    fn lengths_of_next(builder: &Builder, build: impl FnOnce(&Builder)) -> Vec<usize> {
        let mut lengths = Vec::new();
        builder.open();
        build(builder);
        let outcome = builder.close(|requests| {
            lengths.extend(requests.iter().map(|request| request.inline.len()));
            Ok(())
        });
        assert_eq!(outcome, Ok(()));
        lengths
    }

    #[test]
    fn an_error_in_one_request_drops_the_whole_batch() {
        let builder = Builder::default();
        builder.open();
        assert!(builder.begin(Ok(())).is_some());
        builder.fail(Errno(libc::EOPNOTSUPP));
        builder.amend(|_| Err(Errno(libc::EINVAL)));
        let unposted = |_: &[Pending]| panic!("none is posted");
        assert_eq!(builder.close(unposted), Err(Errno(libc::EOPNOTSUPP)), "the first error counts");
        assert_eq!(lengths_of_next(&builder, |_| ()), []);
    }

    #[test]
    fn fields_go_to_the_request_that_was_begun_last() {
        let two = |builder: &Builder| {
            assert!(builder.begin(Ok(())).is_some());
            assert!(builder.begin(Ok(())).is_some());
            builder.amend(|request| {
                request.inline.push(7);
                Ok(())
            });
        };
        let builder = Builder::default();
        assert_eq!(lengths_of_next(&builder, two), [0, 1]);
        assert_eq!(lengths_of_next(&builder, two), [0, 1], "what is used again is empty");
        assert_eq!(lengths_of_next(&builder, |builder| assert!(builder.begin(Ok(())).is_some())), [0], "nothing is left of the batch before");
    }

    #[test]
    fn one_thread_after_another_builds() {
        let (builder, inside) = (Builder::default(), AtomicU32::new(0));
        let posted = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        builder.open();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        assert!(builder.begin(Ok(())).is_some());
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        let outcome = builder.close(|requests| {
                            posted.fetch_add(requests.len() as u32, Ordering::SeqCst);
                            Ok(())
                        });
                        assert_eq!(outcome, Ok(()));
                    }
                });
            }
        });
        assert_eq!(posted.load(Ordering::SeqCst), 2_000);
    }

    #[test]
    fn a_field_without_a_request_is_an_error() {
        let builder = Builder::default();
        builder.open();
        builder.amend(|_| Ok(()));
        assert_eq!(builder.close(|_| Ok(())), Err(Errno(libc::EINVAL)));
    }

    #[test]
    fn who_begins_twice_is_told_so_and_does_not_wait_for_itself() {
        let builder = Builder::default();
        builder.open();
        builder.open();
        assert_eq!(builder.close(|_| Ok(())), Err(Errno(libc::EINVAL)));
        builder.open();
        assert_eq!(builder.close(|_| Ok(())), Ok(()));
    }

    #[test]
    fn who_has_not_begun_builds_nothing() {
        let builder = Builder::default();
        assert!(builder.begin(Ok(())).is_none());
        assert_eq!(builder.close(|_| Ok(())), Err(Errno(libc::EINVAL)));
        builder.open();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                assert!(builder.begin(Ok(())).is_none());
                builder.close(|_| Ok(()))
            });
            assert_eq!(other.join().ok(), Some(Err(Errno(libc::EINVAL))));
        });
        assert_eq!(builder.close(|requests| if requests.is_empty() { Ok(()) } else { Err(Errno(libc::EIO)) }), Ok(()));
    }
}
