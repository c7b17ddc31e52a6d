//! The two ends of a ring of deliveries (`softband_ipc::queues`): peers put in what their sends complete, the owner takes it out.

use crate::fork::own_number;
use crate::shared_memory::{map_part, unmap_part};
use softband_ipc::queues::{DeliveriesHeader, deliveries_bytes};
use softband_ipc::ring::Cqe;
use softband_ipc::tables::QpEntry;
use std::sync::atomic::Ordering;

/// Looks at a taken lock before its holder is asked for.
const LOOKS: u32 = 2_000;

/// A ring, mapped here.
pub struct Deliveries {
    base: *mut u8,
    file: u32,
    offset: u64,
    entries: u32,
    /// Which process mapped it: a child of a fork must not take what is its parent's.
    mapped_by: u32,
}
// SAFETY: peers hold the ring's lock, the owner the one of its completion queue; the counters are atomics.
unsafe impl Send for Deliveries {}
// SAFETY: as above.
unsafe impl Sync for Deliveries {}

impl Deliveries {
    /// The ring of `entries` (a power of two) at `offset` of a process's file.
    pub fn map(file: u32, offset: u64, entries: u32) -> Option<Self> {
        if offset == 0 || !entries.is_power_of_two() {
            return None;
        }
        let base = map_part(file, offset, deliveries_bytes(entries))?;
        Some(Self { base, file, offset, entries, mapped_by: own_number() })
    }

    /// The ring into which what reaches a queue pair goes.
    pub fn of(entry: &QpEntry) -> Option<Self> {
        let (file, entries) = (entry.file.load(Ordering::Relaxed), entry.delivery_entries.load(Ordering::Relaxed));
        Self::map(file, entry.deliveries.load(Ordering::Relaxed), entries)
    }

    /// Whether this is still that ring.
    pub fn is_of(&self, entry: &QpEntry) -> bool {
        entry.deliveries.load(Ordering::Relaxed) == self.offset
            && entry.file.load(Ordering::Relaxed) == self.file
            && entry.delivery_entries.load(Ordering::Relaxed) == self.entries
    }

    fn header(&self) -> &DeliveriesHeader {
        // SAFETY: the mapping begins with the header, which consists of atomics.
        unsafe { &*self.base.cast::<DeliveriesHeader>() }
    }

    fn entry(&self, counter: u32) -> *mut Cqe {
        let index = (counter % self.entries) as usize;
        self.base.wrapping_add(size_of::<DeliveriesHeader>() + index * size_of::<Cqe>()).cast()
    }

    /// Completions that wait.
    #[inline]
    pub fn waiting(&self) -> u32 {
        let header = self.header();
        let waiting = header.produced.load(Ordering::Acquire).wrapping_sub(header.consumed.0.load(Ordering::Relaxed));
        if self.mapped_by == own_number() { waiting.min(self.entries) } else { 0 }
    }

    /// When the oldest one came.
    pub fn front_ps(&self) -> Option<u64> {
        // SAFETY: within the mapping.
        (self.waiting() > 0).then(|| unsafe { (*self.entry(self.header().consumed.0.load(Ordering::Relaxed))).time_ps })
    }

    /// Takes the oldest one. One thread at a time: the caller holds the completion queue's lock.
    pub fn take(&self) -> Option<Cqe> {
        if self.waiting() == 0 {
            return None;
        }
        let consumed = &self.header().consumed.0;
        let counter = consumed.load(Ordering::Relaxed);
        // SAFETY: within the mapping; the peer wrote the entry before it moved `produced`.
        let cqe = unsafe { self.entry(counter).read() };
        consumed.store(counter.wrapping_add(1), Ordering::Release);
        Some(cqe)
    }

    /// Whether there is room for one more.
    pub fn has_room(&self) -> bool {
        let header = self.header();
        header.produced.load(Ordering::Relaxed).wrapping_sub(header.consumed.0.load(Ordering::Acquire)) < self.entries
    }

    /// Puts one in; `before` is done just before it can be seen. False when there is no room.
    pub fn put(&self, cqe: &Cqe, before: impl FnOnce()) -> bool {
        let header = self.header();
        let me = own_number();
        self.lock(me);
        let has_room = self.has_room();
        if has_room {
            let counter = header.produced.load(Ordering::Relaxed);
            // SAFETY: within the mapping; the owner does not look at it before `produced` has moved on.
            unsafe { self.entry(counter).write(*cqe) };
            before();
            header.produced.store(counter.wrapping_add(1), Ordering::Release);
        }
        let _ = header.lock.compare_exchange(me, 0, Ordering::Release, Ordering::Relaxed);
        has_room
    }

    /// Takes the lock; from a process that is gone, too. What that one was writing was not to be seen yet.
    fn lock(&self, me: u32) {
        let lock = &self.header().lock;
        let mut looks = 0;
        while let Err(holder) = lock.compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed) {
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
                continue;
            }
            looks = 0;
            std::thread::yield_now();
            let is_gone = rustix::process::Pid::from_raw(holder as i32)
                .is_some_and(|holder| rustix::process::test_kill_process(holder) == Err(rustix::io::Errno::SRCH));
            if is_gone && lock.compare_exchange(holder, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        // SAFETY: mapped with this size, and nobody has a reference into it.
        unsafe { unmap_part(self.base, deliveries_bytes(self.entries)) };
    }
}
