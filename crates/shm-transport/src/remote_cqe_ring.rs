//! The two ends of a ring of remote CQEs ([`crate::queues`]): peers add the CQEs of their
//! sends, and the owner takes them.

use crate::platform::Platform;
use crate::prefetch::will_write;
use crate::queues::{RemoteCqe, RemoteCqeRingHeader, remote_cqe_ring_bytes, wants};
#[cfg(not(loom))]
use crate::sync::AtomicU32;
use crate::sync::{Ordering, fence};
use crate::tables::QpEntry;
use softband_ipc::ring::Cqe;
use std::marker::PhantomData;

/// Reads of a taken lock before a check whether its holder has ended.
const SPINS: u32 = if cfg!(loom) { 1 } else { 2_000 };
/// Longest wait for the lock, in picoseconds. Then the engine does the work: the holder may have
/// stopped.
const PATIENCE_PICOS: u64 = 50_000_000_000;

/// Prefetch distance, in entries.
const AHEAD: u32 = 6;

/// A ring, mapped here.
pub struct RemoteCqeRing<P: Platform> {
    base: *mut u8,
    file: u32,
    offset: u64,
    entries: u32,
    /// PID that mapped it. A child of a fork must not take its parent's CQEs.
    mapped_by: u32,
    process: PhantomData<P>,
}
// SAFETY: peers hold the ring's lock or are its single producer, the owner holds its CQ's lock, and
// the counters are atomics.
unsafe impl<P: Platform> Send for RemoteCqeRing<P> {}
// SAFETY: each side reaches the ring through the same lock from any thread; only atomics are shared
// without it.
unsafe impl<P: Platform> Sync for RemoteCqeRing<P> {}

impl<P: Platform> RemoteCqeRing<P> {
    /// Maps the ring of `entries` (a power of two) at `offset` of a process's file.
    pub fn map(file: u32, offset: u64, entries: u32) -> Option<Self> {
        if offset == 0 || !entries.is_power_of_two() {
            return None;
        }
        let base = P::map_part(file, offset, remote_cqe_ring_bytes(entries))?;
        Some(Self { base, file, offset, entries, mapped_by: P::own_number(), process: PhantomData })
    }

    /// Maps the ring for completions of a queue pair.
    pub fn of(entry: &QpEntry) -> Option<Self> {
        let (file, entries) = (entry.file.load(Ordering::Relaxed), entry.remote_cqe_entries.load(Ordering::Relaxed));
        Self::map(file, entry.remote_cqe_ring.load(Ordering::Relaxed), entries)
    }

    /// Checks whether this is still that ring.
    #[inline]
    pub fn is_of(&self, entry: &QpEntry) -> bool {
        entry.remote_cqe_ring.load(Ordering::Relaxed) == self.offset
            && entry.file.load(Ordering::Relaxed) == self.file
            && entry.remote_cqe_entries.load(Ordering::Relaxed) == self.entries
    }

    fn header(&self) -> &RemoteCqeRingHeader {
        // SAFETY: the mapping begins with the header, which consists of atomics.
        unsafe { &*self.base.cast::<RemoteCqeRingHeader>() }
    }

    fn entry(&self, counter: u32) -> *mut RemoteCqe {
        let index = (counter & (self.entries - 1)) as usize; // a power of two
        self.base.wrapping_add(size_of::<RemoteCqeRingHeader>() + index * size_of::<RemoteCqe>()).cast()
    }

    /// Checks whether the entry of a counter is present.
    #[inline]
    fn is_there(&self, counter: u32) -> bool {
        self.has_number(counter) && self.mapped_by == P::own_number()
    }

    #[inline(always)]
    fn has_number(&self, counter: u32) -> bool {
        // SAFETY: the entry lies within the mapping, and only its atomic sequence is read while
        // others may write.
        let sequence = unsafe { &(*self.entry(counter)).sequence };
        sequence.load(Ordering::Acquire) == counter.wrapping_add(1)
    }

    /// Makes producers stamp completions from now on, because the owner reads completion times.
    pub fn want_stamps(&self) {
        self.header().wants.0.fetch_or(wants::STAMPS, Ordering::Release);
    }

    /// Makes each producer check for armed events from now on, because the owner may sleep until an
    /// event.
    pub fn want_events(&self) {
        self.header().wants.0.fetch_or(wants::EVENTS, Ordering::SeqCst);
    }

    /// Arms an event for the next completion, or the next solicited or failed completion.
    pub fn arm(&self, solicited_only: bool) {
        // A child of a fork does not own the ring.
        if self.mapped_by == P::own_number() {
            self.header().arming.0.arm(solicited_only);
        }
    }

    /// Checks whether the caller's new entry raises an event. If so, the caller must notify the
    /// engine.
    #[inline(always)]
    pub fn raises_event(&self, is_solicited: bool) -> bool {
        self.header().wants.0.load(Ordering::Relaxed) & wants::EVENTS != 0 && self.disarms(is_solicited)
    }

    /// Disarms the event. Kept out of line, because the queues of small messages rarely have a
    /// channel.
    #[inline(never)]
    fn disarms(&self, is_solicited: bool) -> bool {
        fence(Ordering::SeqCst);
        self.header().arming.0.is_raised_by(is_solicited)
    }

    /// Returns the numbers of entries produced and consumed so far (both wrap). Slow while peers
    /// add entries.
    pub fn counters(&self) -> (u32, u32) {
        let header = self.header();
        let consumed = header.consumed.0.load(Ordering::Relaxed);
        let produced = header.produced.load(Ordering::Acquire);
        // The peer may have ended after it wrote the entry and before it counted the entry.
        let produced = produced.wrapping_add(u32::from(self.is_there(produced)));
        let waiting = produced.wrapping_sub(consumed);
        let waiting = if self.mapped_by == P::own_number() { waiting.min(self.entries) } else { 0 };
        (consumed.wrapping_add(waiting), consumed)
    }

    /// Returns the number of entries consumed so far (it wraps).
    pub fn consumed(&self) -> u32 {
        self.header().consumed.0.load(Ordering::Relaxed)
    }

    /// Checks whether at least `count` entries wait.
    #[inline]
    pub fn holds(&self, count: u32) -> bool {
        let consumed = self.header().consumed.0.load(Ordering::Relaxed);
        count == 0 || count <= self.entries && self.is_there(consumed.wrapping_add(count - 1))
    }

    /// Returns the `since_ps` of the oldest entry, if any: the time since which its queue pair has
    /// had that state.
    #[inline]
    pub fn front_since_ps(&self) -> Option<u64> {
        let counter = self.header().consumed.0.load(Ordering::Relaxed);
        // SAFETY: the entry lies within the mapping and is present.
        self.is_there(counter).then(|| unsafe { (*self.entry(counter)).since_ps })
    }

    /// Takes the oldest entry. One thread at a time: the caller holds the CQ's lock.
    #[inline]
    pub fn take(&self) -> Option<Cqe> {
        let consumed = &self.header().consumed.0;
        let counter = consumed.load(Ordering::Relaxed);
        if !self.is_there(counter) {
            return None;
        }
        // SAFETY: the entry lies within the mapping. The peer wrote it before its number, and does
        // not touch it before `consumed` moves.
        let cqe = cqe_of(unsafe { &*self.entry(counter) });
        consumed.store(counter.wrapping_add(1), Ordering::Release);
        Some(cqe)
    }

    /// Returns the number of waiting entries, up to `most`.
    #[inline(always)]
    pub fn ready(&self, most: usize) -> u32 {
        if self.mapped_by != P::own_number() {
            return 0;
        }
        let first = self.header().consumed.0.load(Ordering::Relaxed);
        let most = most.min(self.entries as usize) as u32;
        (0..most).take_while(|step| self.has_number(first.wrapping_add(*step))).count() as u32
    }

    /// Takes the oldest `count` entries. The caller has checked that they wait. One thread at a
    /// time, as for `take`.
    #[inline(always)]
    pub fn take_ready(&self, count: u32, mut to: impl FnMut(Cqe)) {
        let consumed = &self.header().consumed.0;
        let first = consumed.load(Ordering::Relaxed);
        for step in 0..count {
            // SAFETY: the caller has checked that these entries are present, and the peer does not
            // touch them before `consumed` moves.
            let cqe = cqe_of(unsafe { &*self.entry(first.wrapping_add(step)) });
            // First this: the program may post another receive request in `to`, and that request
            // may complete.
            consumed.store(first.wrapping_add(step + 1), Ordering::Release);
            to(cqe);
        }
    }

    /// Removes all entries for which `goes` returns true, at any position. The others move up to
    /// the end, so producers continue unhindered. One thread at a time, as for `take`.
    pub fn sweep(&self, goes: &mut impl FnMut(&Cqe) -> bool) {
        let consumed = &self.header().consumed.0;
        let first = consumed.load(Ordering::Relaxed);
        let waiting = (0..self.entries).take_while(|step| self.is_there(first.wrapping_add(*step))).count() as u32;
        let mut begin = first.wrapping_add(waiting);
        for step in (0..waiting).rev() {
            let counter = first.wrapping_add(step);
            // SAFETY: the entry lies within the mapping, and present entries that are not consumed
            // belong to this thread.
            if goes(&cqe_of(unsafe { &*self.entry(counter) })) {
                continue;
            }
            begin = begin.wrapping_sub(1);
            if begin != counter {
                // SAFETY: both places lie in the mapping, differ, and hold entries that this thread
                // has not consumed yet.
                unsafe {
                    std::ptr::copy_nonoverlapping(self.entry(counter), self.entry(begin), 1);
                    (*self.entry(begin)).sequence.store(begin.wrapping_add(1), Ordering::Relaxed);
                }
            }
        }
        if waiting > 0 {
            consumed.store(begin, Ordering::Release);
        }
    }

    /// Checks whether the ring has room for another entry. The caller is the only producer.
    #[inline]
    fn has_room(&self, produced: u32) -> bool {
        let header = self.header();
        if produced.wrapping_sub(header.consumed_seen.load(Ordering::Relaxed)) < self.entries {
            return true;
        }
        let consumed = header.consumed.0.load(Ordering::Acquire);
        header.consumed_seen.store(consumed, Ordering::Relaxed);
        produced.wrapping_sub(consumed) < self.entries
    }

    /// Prefetches the next entry for a write soon. The owner, which polls that entry, may hold its
    /// cache line.
    #[inline(always)]
    pub fn will_put(&self) {
        will_write(self.entry(self.header().produced.load(Ordering::Relaxed)).cast());
    }

    /// Reserves room for an entry. Returns `None` if the ring is full or the lock is not available.
    /// A single producer needs no lock.
    #[inline(always)]
    pub fn reserve(&self, is_single_threaded: bool) -> Option<Room<'_, P>> {
        let me = if is_single_threaded { 0 } else { P::own_number() };
        if !is_single_threaded && !self.lock(me) {
            return None;
        }
        let (counter, former) = self.next_place(self.header());
        let room = Room { ring: self, counter, entry: self.entry(counter), former, me };
        self.has_room(counter).then_some(room)
    }

    /// Returns the counter of the next entry and the entry's present number. The caller is the only
    /// producer.
    #[inline]
    fn next_place(&self, header: &RemoteCqeRingHeader) -> (u32, u32) {
        // SAFETY: the entry lies within the mapping, and its sequence is an atomic.
        let sequence = |counter| unsafe { &(*self.entry(counter)).sequence }.load(Ordering::Relaxed);
        let counter = header.produced.load(Ordering::Relaxed);
        let (next, former) = (counter.wrapping_add(1), sequence(counter));
        // A process that has ended may have written an entry without counting it.
        if former == next { (next, sequence(next)) } else { (counter, former) }
    }

    #[inline]
    fn lock(&self, me: u32) -> bool {
        self.header().lock.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok() || self.wait_for_lock(me)
    }

    /// Takes the lock, also from a process that has ended: its unfinished entry is not visible yet.
    /// Returns false on timeout.
    #[cold]
    fn wait_for_lock(&self, me: u32) -> bool {
        let lock = &self.header().lock;
        let mut spins = 0;
        let mut until = None;
        while let Err(holder) = lock.compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed) {
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
                continue;
            }
            spins = 0;
            P::yield_now();
            if holder != 0 && P::is_gone(holder) && lock.compare_exchange(holder, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return true;
            }
            let now = P::now_ps();
            if now > *until.get_or_insert(now + PATIENCE_PICOS) {
                return false;
            }
        }
        true
    }
}

/// Room for one completion, with the lock if it was needed.
pub struct Room<'a, P: Platform> {
    ring: &'a RemoteCqeRing<P>,
    counter: u32,
    entry: *mut RemoteCqe,
    /// Present number of the entry: from a former round, or none.
    former: u32,
    /// PID that took the lock; 0 without a lock.
    me: u32,
}

impl<P: Platform> Room<'_, P> {
    /// Writes the entry with its stamp, without its new number: nobody sees the entry yet.
    #[inline(always)]
    pub fn write(&self, cqe: RemoteCqe) {
        let stamp_ps = if self.ring.header().wants.0.load(Ordering::Relaxed) & wants::STAMPS == 0 { 0 } else { P::now_ps() };
        // SAFETY: the entry lies within the mapping, and the owner does not read it before its
        // number is set.
        unsafe { put(self.entry, RemoteCqe { stamp_ps, ..cqe }, self.former) };
    }

    /// Makes the written entry visible to the owner.
    #[inline(always)]
    pub fn publish(self) {
        let (ring, header) = (self.ring, self.ring.header());
        // SAFETY: the entry lies in the mapping, and this room is its only writer until it is
        // published.
        unsafe { &(*self.entry).sequence }.store(self.counter.wrapping_add(1), Ordering::Release);
        header.produced.store(self.counter.wrapping_add(1), Ordering::Release);
        // Not the next entry, which the owner may be polling.
        will_write(ring.entry(self.counter.wrapping_add(AHEAD)).cast());
    }
}

impl<P: Platform> Drop for Room<'_, P> {
    #[inline(always)]
    fn drop(&mut self) {
        let lock = &self.ring.header().lock;
        // Another process may have taken the lock because it found this process gone.
        if self.me != 0 && lock.load(Ordering::Relaxed) == self.me {
            lock.store(0, Ordering::Release);
        }
    }
}

impl<P: Platform> Drop for RemoteCqeRing<P> {
    fn drop(&mut self) {
        // SAFETY: the mapping has this size, and nobody has a reference into it.
        unsafe { P::unmap_part(self.base, remote_cqe_ring_bytes(self.entries)) };
    }
}

/// Writes a whole cache line, with the entry's present number.
///
/// # Safety
/// The caller alone writes the entry.
#[cfg(not(loom))]
#[inline(always)]
unsafe fn put(entry: *mut RemoteCqe, cqe: RemoteCqe, former: u32) {
    // SAFETY: the entry lies in a mapped ring, and the caller alone writes it.
    unsafe { entry.write(RemoteCqe { sequence: AtomicU32::new(former), ..cqe }) };
}

/// The same for models, in which the number must stay the same atomic.
#[cfg(loom)]
unsafe fn put(entry: *mut RemoteCqe, cqe: RemoteCqe, _former: u32) {
    // SAFETY: the entry lies in the model's ring, and `track` reports a second writer to loom.
    unsafe {
        (*entry).track.write();
        (*entry).wr_id = cqe.wr_id;
        (*entry).parties = cqe.parties;
    }
}

fn cqe_of(entry: &RemoteCqe) -> Cqe {
    #[cfg(loom)]
    entry.track.read();
    let parties = &entry.parties;
    Cqe {
        wr_id: entry.wr_id,
        time_ps: entry.stamp_ps.max(entry.since_ps),
        opcode: entry.opcode,
        byte_len: entry.byte_len,
        immediate: entry.immediate,
        qpn: parties.qpn,
        source_qpn: parties.source_qpn,
        flags: entry.flags,
        pkey_index: parties.pkey_index,
        source_lid: parties.source_lid,
        service_level: parties.service_level,
        path_bits: parties.path_bits,
        srq: parties.srq,
        ..bytemuck::Zeroable::zeroed()
    }
}
