//! Queues that peers reach themselves, in wall pace. They lie in a process's file of memory, beyond what addresses there can be
//! ([`super::layout::QUEUES_OFFSET`]).
//!
//! A receive queue is filled by its owner and emptied by the one queue pair that is connected to it, or by the engine, which then
//! says so in [`ReceiveQueueHeader::mode`] and waits until nobody is at it any more. Where several may take from it (a shared
//! receive queue), they do so one at a time. A ring of remote CQEs belongs to a completion queue: peers put in what their sends
//! complete there, one at a time, and the owner takes it out.

use super::post::PostSge;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What [`ReceiveQueueHeader::mode`] says in its lowest two bits.
pub mod mode {
    /// Requests are posted here, and the peer takes them.
    pub const SHARED: u32 = 0;
    /// Requests go to the engine.
    pub const ENGINE: u32 = 1;
    /// The engine is about to give the queue back: nobody posts or takes for the moment.
    pub const MOVING: u32 = 2;

    pub(super) const MASK: u32 = 3;

    /// The mode without its era.
    pub const fn of(word: u32) -> u32 {
        word & MASK
    }

    /// The era, to be compared with others.
    pub const fn era_of(word: u32) -> u32 {
        word & !MASK
    }
}

/// Head of a receive queue. Both counters only grow and wrap at 2^32; the place is counter % capacity. Each side has a cache line of
/// its own, and looks at the other's only when what it remembers of it is used up.
#[repr(C, align(64))]
pub struct ReceiveQueueHeader {
    /// Written by the engine alone: [`mode`] and, above it, a number of the era.
    pub mode: AtomicU32,
    /// Of queues that several take from: a thread that leaves fewer requests than this tells the engine, and makes it 0. The engine alone sets it.
    pub limit: AtomicU32,
    /// Completions that are older than this are not for this queue pair: it was made or reset then.
    pub since_ps: AtomicU64,
    pub produced: LineOf<AtomicU32>,
    pub consumed: LineOf<AtomicU32>,
    /// Of queues that several take from: the holder of the consumer lock ([`consumer`]), or 0.
    pub consumer: LineOf<AtomicU64>,
}

/// What [`ReceiveQueueHeader::consumer`] says of a process (by its number on the host) that takes while `mode` is as it is here: in another
/// era that means nothing any more, so nobody waits for one that was stopped in the midst of it.
pub const fn consumer(mode: u32, pid: u32) -> u64 {
    (mode as u64) << 32 | pid as u64
}

/// The process and the mode of [`consumer`].
pub const fn split_consumer(consumer: u64) -> (u32, u32) {
    ((consumer >> 32) as u32, consumer as u32)
}

impl ReceiveQueueHeader {
    /// One of [`mode`].
    pub fn mode(&self) -> u32 {
        mode::of(self.mode.load(Ordering::SeqCst))
    }

    /// Another mode in the same era. The engine alone does this.
    pub fn set_mode(&self, mode: u32) {
        self.mode.store(self.mode.load(Ordering::SeqCst) & !mode::MASK | mode, Ordering::SeqCst);
    }

    /// Shares the queue again: what anybody remembers of the counters is void. The engine alone does this, with a number that no queue
    /// has had: another one may lie where this does later.
    pub fn begin_era(&self, era: u32) {
        self.mode.store(era.wrapping_mul(mode::MASK + 1) | mode::SHARED, Ordering::SeqCst);
    }
}

/// Something with a cache line of its own.
#[derive(Default)]
#[repr(C, align(64))]
pub struct LineOf<T>(pub T);

/// Head of an entry; its list follows.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub struct ReceiveEntry {
    pub wr_id: u64,
    pub count: u32,
    pub reserved: u32,
}

/// Bytes from one entry to the next.
pub const fn entry_bytes(sges: u32) -> usize {
    (size_of::<ReceiveEntry>() + sges as usize * size_of::<PostSge>()).next_multiple_of(32)
}

/// Bytes of a receive queue.
pub const fn receive_queue_bytes(entries: u32, sges: u32) -> usize {
    size_of::<ReceiveQueueHeader>() + entries as usize * entry_bytes(sges)
}

/// Head of a ring of remote CQEs; the entries follow. The owner does not look at what peers write here: each entry says itself
/// whether it is there.
#[repr(C, align(64))]
pub struct RemoteCqeRingHeader {
    /// Number on the host of the process that is putting something in, or 0; who does so alone ([`super::tables::QpEntry::is_sole_producer`])
    /// leaves it.
    pub lock: AtomicU32,
    pub produced: AtomicU32,
    /// What `consumed` was when somebody last had to look.
    pub consumed_seen: AtomicU32,
    pub consumed: LineOf<AtomicU32>,
    /// What the owner asks of peers that put one in: [`wants`].
    pub wants: LineOf<AtomicU32>,
    /// Of a queue that raises events: for what it is armed.
    pub arming: LineOf<Arming>,
}

/// Bits of [`RemoteCqeRingHeader::wants`].
pub mod wants {
    /// The owner reads times of completions: read the clock.
    pub const STAMPS: u32 = 1;
    /// The completion queue has a channel: look at [`super::RemoteCqeRingHeader::arming`] afterwards.
    pub const EVENTS: u32 = 2;
}

/// For what a completion queue is armed, and how many events the engine is still to raise for it. A peer that lets a completion in looks here
/// afterwards, and the owner looks for completions after it has armed the queue, both across a fence: so one of them sees the other.
#[derive(Default)]
#[repr(transparent)]
pub struct Arming(AtomicU32);

impl Arming {
    const ANY: u32 = 1;
    const SOLICITED: u32 = 2;
    const KINDS: u32 = Self::ANY | Self::SOLICITED;
    /// One event that the engine is to raise. That they are counted here lets it make up for those who end before they have told it.
    const DUE: u32 = 4;

    /// The owner asks for one event; a fence as well.
    pub fn arm(&self, solicited_only: bool) {
        self.0.fetch_or(if solicited_only { Self::SOLICITED } else { Self::ANY }, Ordering::SeqCst);
    }

    /// Whether a completion that has just come in raises the event, which is due then: the caller tells the engine, who raises it.
    #[inline]
    pub fn is_raised_by(&self, is_solicited: bool) -> bool {
        self.0.load(Ordering::Relaxed) & Self::KINDS != 0 && self.take(is_solicited, Self::DUE)
    }

    /// The same for a completion of the engine's, which raises the event at once.
    pub fn disarm(&self, is_solicited: bool) -> bool {
        self.take(is_solicited, 0)
    }

    fn take(&self, is_solicited: bool, adds: u32) -> bool {
        let fitting = if is_solicited { Self::KINDS } else { Self::ANY };
        let taken = |word: u32| (word & fitting != 0).then_some((word & !Self::KINDS).wrapping_add(adds));
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, taken).is_ok()
    }

    /// The engine raises an event that a program has announced; false when none is due.
    pub fn redeem(&self) -> bool {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| word.checked_sub(Self::DUE)).is_ok()
    }
}

/// What one message completes: a cache line, so that the owner sees all of it at once.
#[repr(C, align(64))]
pub struct RemoteCqe {
    pub wr_id: u64,
    /// The era of the queue pair that it is for began then: a moment before all that the engine completes for it later.
    pub since_ps: u64,
    /// When it was put in, where the owner wants to know; 0 elsewhere.
    pub stamp_ps: u64,
    pub byte_len: u32,
    pub immediate: u32,
    pub parties: Parties,
    /// [`super::ring::flags`].
    pub flags: u32,
    /// As `enum ibv_wc_opcode`.
    pub opcode: u32,
    /// Its counter plus one, written last.
    pub sequence: AtomicU32,
}

/// What a completion says of who has received and who has sent: the same for all messages of a connection.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parties {
    pub qpn: u32,
    pub source_qpn: u32,
    /// Shared receive queue whose request is completed, or 0.
    pub srq: u32,
    pub source_lid: u16,
    pub pkey_index: u16,
    pub service_level: u8,
    pub path_bits: u8,
    pub reserved: u16,
}

const _: () = assert!(size_of::<RemoteCqe>() == 64);

/// Bytes of a ring of remote CQEs.
pub const fn remote_cqe_ring_bytes(entries: u32) -> usize {
    size_of::<RemoteCqeRingHeader>() + entries as usize * size_of::<RemoteCqe>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arming_gets_one_event_for_what_it_was_made_for() {
        let arming = Arming::default();
        assert!(!arming.is_raised_by(true), "nobody has armed it");
        arming.arm(true);
        assert!(!arming.is_raised_by(false));
        assert!(arming.is_raised_by(true));
        assert!(!arming.is_raised_by(true), "it was for one");
        arming.arm(false);
        arming.arm(true);
        assert!(arming.is_raised_by(false), "the stronger one holds");
        assert!(!arming.is_raised_by(true));
        assert!(arming.redeem() && arming.redeem() && !arming.redeem(), "two are due");
    }

    #[test]
    fn the_engine_raises_its_own_at_once() {
        let arming = Arming::default();
        arming.arm(false);
        assert!(arming.is_raised_by(false));
        arming.arm(true);
        assert!(!arming.disarm(false) && arming.disarm(true) && !arming.disarm(true));
        assert!(arming.redeem() && !arming.redeem(), "what was due before stays so");
    }
}
