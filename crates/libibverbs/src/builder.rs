//! Requests of one queue pair that are built field by field, by one thread at a time, in place.

use crate::guard::guarded;
use crate::post::Data;
use rustix::thread::{Timespec, futex};
use softband_abi::verbs::ibv_sge;
use softband_client::{Errno, is_single_threaded, is_wall, thread_pointer};
use softband_ipc::post::PostRecord;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, compiler_fence};

/// A request that is being built.
pub(crate) struct Pending {
    pub(crate) record: PostRecord,
    /// What it sends, where that is one entry, as it mostly is.
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
    /// Those of this batch first; behind them are such as may be used again, with the memory of their lists.
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

/// A waiting thread looks again after this at the latest: the one that ends may not see at once that somebody has begun to wait, for to be sure of
/// that it would have to wait for all that it has just written.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// The requests under construction of one queue pair.
#[derive(Default)]
pub(crate) struct Builder {
    /// The thread that is between `wr_start` and `wr_complete` or `wr_abort`, or 0.
    owner: AtomicUsize,
    /// That thread's.
    batch: UnsafeCell<Batch>,
    /// Threads that wait for it to end, and what they sleep on: another number whenever they are woken.
    waiting: AtomicU32,
    woken: AtomicU32,
}
// SAFETY: the batch is reached by its owner only.
unsafe impl Sync for Builder {}

/// Ends the batch of its owner when it is dropped.
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
    /// Waits until no other thread builds. The engine does not wait for this one meanwhile.
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
            batch.error.get_or_insert(Errno(libc::EINVAL)); // begun twice
            return;
        }
        softband_client::away(|| {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            loop {
                let seen = self.woken.load(Ordering::SeqCst);
                if takes() {
                    break;
                }
                // By the kernel's clock: that of the C library may be a simulated one.
                let _ = futex::wait(&self.woken, futex::Flags::PRIVATE, seen, Some(&LOOK_AGAIN));
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        });
    }

    /// The batch, if the calling thread has begun one.
    #[expect(clippy::mut_from_ref, reason = "only the owner gets it, and nobody here keeps it")]
    fn own(&self) -> Option<&mut Batch> {
        // SAFETY: only the owner comes here, and the batch stays its own until it has closed it.
        (self.owner.load(Ordering::Relaxed) == thread_pointer()).then(|| unsafe { &mut *self.batch.get() })
    }

    /// Ends the batch and does `post` with its requests; not when there was an error in any.
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
        // The engine may give the token to another thread meanwhile, which must find the batch ended or not by simulated time alone.
        let requests = std::mem::take(&mut batch.requests);
        drop(ending);
        post(&requests[..begun])
    }

    /// Begins a request, which is filled in where it stands; `None` when that is not allowed, or nothing is open.
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

    /// Changes the request that was begun last.
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

    /// How much inline data the requests have that `build` makes.
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
