//! The two ends of a ring of remote CQEs (`softband_ipc::queues`): peers put in what their sends complete, the owner takes it out.

use crate::direct::will_write;
use crate::fork::own_number;
use crate::rq_consumer_lock::is_gone;
use crate::shared_memory::{map_part, unmap_part};
use softband_ipc::queues::{RemoteCqe, RemoteCqeRingHeader, remote_cqe_ring_bytes, wants};
use softband_ipc::ring::Cqe;
use softband_ipc::tables::QpEntry;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Reads of a taken lock before its holder is asked for.
const SPINS: u32 = 2_000;
/// How long somebody waits for the lock, before it leaves the work to the engine: its holder may have been stopped.
const PATIENCE_PICOS: u64 = 50_000_000_000;

/// So many entries ahead cache lines are fetched.
const AHEAD: u32 = 6;

/// A ring, mapped here.
pub struct RemoteCqeRing {
    base: *mut u8,
    file: u32,
    offset: u64,
    entries: u32,
    /// Which process mapped it: a child of a fork must not take what is its parent's.
    mapped_by: u32,
}
// SAFETY: peers hold the ring's lock or are the only one, the owner the one of its completion queue; the counters are atomics.
unsafe impl Send for RemoteCqeRing {}
// SAFETY: each side reaches the ring through the same lock from any thread; only atomics are shared without it.
unsafe impl Sync for RemoteCqeRing {}

impl RemoteCqeRing {
    /// The ring of `entries` (a power of two) at `offset` of a process's file.
    pub fn map(file: u32, offset: u64, entries: u32) -> Option<Self> {
        if offset == 0 || !entries.is_power_of_two() {
            return None;
        }
        let base = map_part(file, offset, remote_cqe_ring_bytes(entries))?;
        Some(Self { base, file, offset, entries, mapped_by: own_number() })
    }

    /// The ring into which what reaches a queue pair goes.
    pub fn of(entry: &QpEntry) -> Option<Self> {
        let (file, entries) = (entry.file.load(Ordering::Relaxed), entry.remote_cqe_entries.load(Ordering::Relaxed));
        Self::map(file, entry.remote_cqe_ring.load(Ordering::Relaxed), entries)
    }

    /// Whether this is still that ring.
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

    /// Whether the entry of a counter is there.
    #[inline]
    fn is_there(&self, counter: u32) -> bool {
        self.has_number(counter) && self.mapped_by == own_number()
    }

    #[inline(always)]
    fn has_number(&self, counter: u32) -> bool {
        // SAFETY: within the mapping; only this part of it is looked at while others may write.
        let sequence = unsafe { &(*self.entry(counter)).sequence };
        sequence.load(Ordering::Acquire) == counter.wrapping_add(1)
    }

    /// The owner reads times of completions: from now on they are noted.
    pub fn want_stamps(&self) {
        self.header().wants.0.fetch_or(wants::STAMPS, Ordering::Release);
    }

    /// The owner may sleep until an event comes: from now on each peer that puts something in looks for what is armed.
    pub fn want_events(&self) {
        self.header().wants.0.fetch_or(wants::EVENTS, Ordering::SeqCst);
    }

    /// The owner asks for an event with the next completion, or the next solicited or failed one.
    pub fn arm(&self, solicited_only: bool) {
        // A child of a fork has no part in it.
        if self.mapped_by == own_number() {
            self.header().arming.0.arm(solicited_only);
        }
    }

    /// Whether what the caller has put in raises an event. If so, the caller has to tell the engine.
    #[inline(always)]
    pub fn raises_event(&self, is_solicited: bool) -> bool {
        self.header().wants.0.load(Ordering::Relaxed) & wants::EVENTS != 0 && self.disarms(is_solicited)
    }

    /// Apart from the way of small messages, whose queues mostly have no channel.
    #[inline(never)]
    fn disarms(&self, is_solicited: bool) -> bool {
        fence(Ordering::SeqCst);
        self.header().arming.0.is_raised_by(is_solicited)
    }

    /// How many were put in and taken out so far (both wrap). Slow while peers put something in.
    pub fn counters(&self) -> (u32, u32) {
        let header = self.header();
        let consumed = header.consumed.0.load(Ordering::Relaxed);
        let produced = header.produced.load(Ordering::Acquire);
        // The peer may have ended after it put the entry in and before it counted it.
        let produced = produced.wrapping_add(u32::from(self.is_there(produced)));
        let waiting = produced.wrapping_sub(consumed);
        let waiting = if self.mapped_by == own_number() { waiting.min(self.entries) } else { 0 };
        (consumed.wrapping_add(waiting), consumed)
    }

    /// Whether at least `count` wait.
    #[inline]
    pub fn holds(&self, count: u32) -> bool {
        let consumed = self.header().consumed.0.load(Ordering::Relaxed);
        count == 0 || count <= self.entries && self.is_there(consumed.wrapping_add(count - 1))
    }

    /// Since when the oldest one's queue pair has been as it was then; `None` when there is none.
    #[inline]
    pub fn front_since_ps(&self) -> Option<u64> {
        let counter = self.header().consumed.0.load(Ordering::Relaxed);
        // SAFETY: within the mapping, and it is there.
        self.is_there(counter).then(|| unsafe { (*self.entry(counter)).since_ps })
    }

    /// Takes the oldest one. One thread at a time: the caller holds the completion queue's lock.
    #[inline]
    pub fn take(&self) -> Option<Cqe> {
        let consumed = &self.header().consumed.0;
        let counter = consumed.load(Ordering::Relaxed);
        if !self.is_there(counter) {
            return None;
        }
        // SAFETY: within the mapping; the peer wrote the entry before it numbered it, and does not touch it before `consumed` moves.
        let cqe = cqe_of(unsafe { &*self.entry(counter) });
        consumed.store(counter.wrapping_add(1), Ordering::Release);
        Some(cqe)
    }

    /// How many wait, up to `most`.
    #[inline(always)]
    pub fn ready(&self, most: usize) -> u32 {
        if self.mapped_by != own_number() {
            return 0;
        }
        let first = self.header().consumed.0.load(Ordering::Relaxed);
        let most = most.min(self.entries as usize) as u32;
        (0..most).take_while(|step| self.has_number(first.wrapping_add(*step))).count() as u32
    }

    /// Takes the oldest `count`. The caller knows that they wait. One thread at a time, as for `take`.
    #[inline(always)]
    pub fn take_ready(&self, count: u32, mut to: impl FnMut(Cqe)) {
        let consumed = &self.header().consumed.0;
        let first = consumed.load(Ordering::Relaxed);
        for step in 0..count {
            // SAFETY: as in `take`.
            let cqe = cqe_of(unsafe { &*self.entry(first.wrapping_add(step)) });
            // Before its receive request counts as done: another one may be posted then, and complete.
            consumed.store(first.wrapping_add(step + 1), Ordering::Release);
            to(cqe);
        }
    }

    /// Takes out what `goes`, wherever it stands: what stays moves up to the end, behind which peers go on unhindered. One thread at a
    /// time, as for `take`.
    pub fn sweep(&self, goes: &mut impl FnMut(&Cqe) -> bool) {
        let consumed = &self.header().consumed.0;
        let first = consumed.load(Ordering::Relaxed);
        let waiting = (0..self.entries).take_while(|step| self.is_there(first.wrapping_add(*step))).count() as u32;
        let mut begin = first.wrapping_add(waiting);
        for step in (0..waiting).rev() {
            let counter = first.wrapping_add(step);
            // SAFETY: within the mapping; what is there and not consumed is this thread's.
            if goes(&cqe_of(unsafe { &*self.entry(counter) })) {
                continue;
            }
            begin = begin.wrapping_sub(1);
            if begin != counter {
                // SAFETY: both places lie in the mapping, differ, and hold entries that this thread has not consumed yet.
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

    /// Whether there is room for one more. Nobody else puts anything in.
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

    /// Something will be put in soon: the cache line for it may be the owner's, which looks at what comes next.
    #[inline(always)]
    pub fn will_put(&self) {
        will_write(self.entry(self.header().produced.load(Ordering::Relaxed)).cast());
    }

    /// Room for one more; `None` when there is none, or the lock cannot be had, which is not needed where nobody else puts anything in.
    #[inline(always)]
    pub fn reserve(&self, is_single_threaded: bool) -> Option<Room<'_>> {
        let me = if is_single_threaded { 0 } else { own_number() };
        if !is_single_threaded && !self.lock(me) {
            return None;
        }
        let (counter, former) = self.next_place(self.header());
        let room = Room { ring: self, counter, entry: self.entry(counter), former, me };
        self.has_room(counter).then_some(room)
    }

    /// The counter of the next one to be put in, and what its entry says now. Nobody else puts anything in.
    #[inline]
    fn next_place(&self, header: &RemoteCqeRingHeader) -> (u32, u32) {
        // SAFETY: within the mapping.
        let sequence = |counter| unsafe { &(*self.entry(counter)).sequence }.load(Ordering::Relaxed);
        let counter = header.produced.load(Ordering::Relaxed);
        let (next, former) = (counter.wrapping_add(1), sequence(counter));
        // A process that is gone may have put one in and not counted it.
        if former == next { (next, sequence(next)) } else { (counter, former) }
    }

    #[inline]
    fn lock(&self, me: u32) -> bool {
        self.header().lock.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok() || self.wait_for_lock(me)
    }

    /// Takes the lock; from a process that is gone, too. What that one was writing was not to be seen yet. False when it cannot be had.
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
            std::thread::yield_now();
            if holder != 0 && is_gone(holder) && lock.compare_exchange(holder, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return true;
            }
            let now = crate::now_ps();
            if now > *until.get_or_insert(now + PATIENCE_PICOS) {
                return false;
            }
        }
        true
    }
}

/// Room for one completion, and the lock, if one was needed.
pub struct Room<'a> {
    ring: &'a RemoteCqeRing,
    counter: u32,
    entry: *mut RemoteCqe,
    /// What the entry says as its number: that of a former round, or none.
    former: u32,
    /// By what the lock was taken; 0: without one.
    me: u32,
}

impl Room<'_> {
    /// Writes one; its stamp and its number are set here. Nobody sees it yet.
    #[inline(always)]
    pub fn write(&self, cqe: RemoteCqe) {
        let stamp_ps = if self.ring.header().wants.0.load(Ordering::Relaxed) & wants::STAMPS == 0 { 0 } else { crate::now_ps() };
        // SAFETY: within the mapping; the owner does not look at it before the number says that it is there.
        unsafe { self.entry.write(RemoteCqe { stamp_ps, sequence: AtomicU32::new(self.former), ..cqe }) };
    }

    /// Lets the owner see what was written.
    #[inline(always)]
    pub fn publish(self) {
        let (ring, header) = (self.ring, self.ring.header());
        // SAFETY: the entry lies in the mapping, and this room is its only writer until it is published.
        unsafe { &(*self.entry).sequence }.store(self.counter.wrapping_add(1), Ordering::Release);
        header.produced.store(self.counter.wrapping_add(1), Ordering::Release);
        // Not the next one: the owner may be looking at it at this time.
        will_write(ring.entry(self.counter.wrapping_add(AHEAD)).cast());
    }
}

impl Drop for Room<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let lock = &self.ring.header().lock;
        // Unless somebody took it for that of a process that is gone.
        if self.me != 0 && lock.load(Ordering::Relaxed) == self.me {
            lock.store(0, Ordering::Release);
        }
    }
}

impl Drop for RemoteCqeRing {
    fn drop(&mut self) {
        // SAFETY: mapped with this size, and nobody has a reference into it.
        unsafe { unmap_part(self.base, remote_cqe_ring_bytes(self.entries)) };
    }
}

fn cqe_of(entry: &RemoteCqe) -> Cqe {
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
