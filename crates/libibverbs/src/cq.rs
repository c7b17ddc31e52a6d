//! Creation and destruction of CQs.

use crate::context::{CqPointer, context};
use crate::cq_ex::ExtendedPoll;
use crate::event_count::EventCount;
use crate::guard::{not_null, object, status};
use crate::patience::Patience;
use crate::qp::QpInner;
use crate::query::device_of;
use crate::spin_lock::SpinLock;
use crate::{channel, cq_ex, direct};
use libc::{c_int, c_void};
use softband_abi::verbs::*;
use softband_client::completion::CompletionRing;
use softband_client::direct::RemoteCqeRing;
use softband_client::{Errno, call, header, is_wall};
use softband_ipc::calls::{CreateCq, CreateCqReply, Handle, ResizeCq, op};
use softband_ipc::post::kind;
use softband_ipc::ring::Cqe;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A CQ: the header's structure, and our part. The plain structure is the head of the extended one.
#[repr(C)]
pub(crate) struct Cq {
    pub(crate) abi: ibv_cq_ex,
    pub(crate) inner: CqInner,
}

/// Our part of a CQ. References to it may be shared.
pub(crate) struct CqInner {
    pub(crate) hca: u32,
    pub(crate) handle: u32,
    pub(crate) queue: SpinLock<CqQueue>,
    /// Completions of work that peers have executed.
    pub(crate) remote_cqe_ring: Option<RemoteCqeRing>,
    /// Threads that execute work themselves complete it here.
    pub(crate) takes_own: bool,
    pub(crate) has_channel: bool,
    /// The program reads completion times.
    pub(crate) has_stamps: bool,
    pub(crate) completion_events: EventCount,
    pub(crate) async_events: EventCount,
    /// Set when the program arms the CQ, cleared by its next empty poll.
    pub(crate) freshly_armed: AtomicBool,
    pub(crate) burst: Burst,
    pub(crate) patience: Patience,
    pub(crate) extended: ExtendedPoll,
}

/// Completion of work that a posting thread has executed.
pub(crate) struct OwnCqe {
    /// Number of engine completions that precede it.
    pub(crate) behind: u32,
    /// Number of peers' completions that precede it, for a CQ with a channel. Programs that sleep leave
    /// many completions of both kinds, and may take a part. They need both kinds to go on.
    pub(crate) behind_peers: u32,
    pub(crate) cqe: Cqe,
}

/// State of a CQ that one thread at a time uses.
pub(crate) struct CqQueue {
    /// Completions from the engine.
    pub(crate) ring: CompletionRing,
    /// Completions of work that posting threads have executed.
    pub(crate) own: VecDeque<OwnCqe>,
    /// Own completions left from the time of `ibv_start_poll`, until `ibv_end_poll`. A request
    /// posted meanwhile completes later, as on hardware: programs rely on its event.
    pub(crate) own_left: Option<usize>,
    /// Own completions that still precede the next peer completion, if a peer completion is
    /// present.
    pub(crate) own_before: Option<usize>,
    /// Queue pair of the last completion, removed before the queue pair is freed.
    pub(crate) known: Option<(u32, *const QpInner)>,
    /// Number of the engine's next completion, with the count of peer completions when it was first
    /// seen.
    pub(crate) delivered_before: Option<(u32, u32)>,
    pub(crate) last_stamp_ps: u64,
}
// SAFETY: threads follow the pointer only with the lock, which a thread takes before it frees the
// queue pair.
unsafe impl Send for CqQueue {}

/// Completions that come in a row, at wall pace. A thread completes all its requests as it posts them.
/// An HCA completes them one by one, while the program handles the event of the first. Some programs
/// rely on that: they take a limited number, arm the queue before or afterwards, and wait. So
/// completions that they leave count as later than the arming.
#[derive(Default)]
pub(crate) struct Burst(AtomicU32);

impl Burst {
    /// The program has taken an event, and has not armed the queue since.
    const EVENT_TAKEN: u32 = 1;
    /// Its last poll since then has left completions.
    const HAS_LEFT: u32 = 2;
    /// It has armed the queue since then. No event, and no poll of the last completion, has followed.
    const ARMED: u32 = 3;

    pub(crate) fn note_event(&self) {
        self.0.store(Self::EVENT_TAKEN, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

impl CqInner {
    /// Notes that the program has armed the queue.
    pub(crate) fn note_armed(&self) {
        let has_left = match self.burst.0.load(Ordering::Relaxed) {
            Burst::EVENT_TAKEN => false,
            Burst::HAS_LEFT => true,
            _ => return,
        };
        self.burst.0.store(Burst::ARMED, Ordering::Relaxed);
        if has_left {
            self.note_rest();
        }
    }

    /// Notes that a poll has found completions.
    #[inline]
    pub(crate) fn note_found(&self) {
        if !self.burst.is_over() {
            self.note_rest();
        }
    }

    /// Raises the event of an armed queue for the completions that a poll has left there.
    #[cold]
    fn note_rest(&self) {
        let is_armed = self.burst.0.load(Ordering::Relaxed) == Burst::ARMED;
        let is_left = !self.has_fewer_than(1);
        let state = match (is_armed, is_left) {
            (false, false) => Burst::EVENT_TAKEN,
            (false, true) => Burst::HAS_LEFT,
            (true, false) => 0,
            (true, true) if self.raises_event() => {
                direct::notify(kind::NOTIFY_OWN, self.hca, self.handle);
                0
            }
            // Armed for solicited events alone, or raised meanwhile.
            (true, true) => 0,
        };
        self.burst.0.store(state, Ordering::Relaxed);
    }

    /// Checks whether fewer than `count` completions wait, from all sources.
    pub(crate) fn has_fewer_than(&self, count: usize) -> bool {
        self.holds_fewer_than(&self.queue.lock(), count)
    }

    #[inline]
    fn holds_fewer_than(&self, queue: &CqQueue, count: usize) -> bool {
        let Some(rest) = count.checked_sub(queue.own.len() + queue.ring.all_waiting() as usize).filter(|rest| *rest > 0) else { return false };
        !self.remote_cqe_ring.as_ref().is_some_and(|remote_cqe_ring| remote_cqe_ring.holds(rest as u32))
    }

    /// Adds a completion of work that the calling thread has executed. Returns false if the CQ is
    /// full.
    #[inline(always)]
    pub(crate) fn push_own(&self, cqe: Cqe) -> bool {
        let mut queue = self.queue.lock();
        let has_room = self.holds_fewer_than(&queue, queue.ring.capacity() as usize);
        if has_room {
            let behind = queue.ring.all_produced();
            let peers = self.remote_cqe_ring.as_ref().filter(|_| self.has_channel);
            let behind_peers = peers.map_or(0, |remote_cqe_ring| remote_cqe_ring.counters().0);
            queue.own.push_back(OwnCqe { behind, behind_peers, cqe });
        }
        has_room
    }

    /// Checks whether a completion that was just added raises an event. If so, the caller notifies
    /// the engine.
    #[inline]
    pub(crate) fn raises_event(&self) -> bool {
        self.has_channel && self.remote_cqe_ring.as_ref().is_some_and(|remote_cqe_ring| remote_cqe_ring.raises_event(false))
    }
}

/// Creation attributes of plain and extended CQs.
pub(crate) struct CqInit {
    pub(crate) entries: u32,
    pub(crate) cookie: *mut c_void,
    pub(crate) channel: *mut ibv_comp_channel,
    pub(crate) vector: u32,
    pub(crate) has_stamps: bool,
}

/// Returns our part of the CQ that `abi_cq` points to.
///
/// # Safety
/// This library created `abi_cq`, and it is not destroyed.
pub(crate) unsafe fn inner<'a>(abi_cq: *mut ibv_cq) -> Result<&'a CqInner, Errno> {
    let cq = not_null(abi_cq)?.cast::<Cq>();
    // SAFETY: the caller promises a CQ of ours, and programs keep the pointer to the whole box.
    Ok(unsafe { &(*cq).inner })
}

/// Creates a CQ. The caller sets its readers.
///
/// # Safety
/// `abi_context` is an open context of ours, and the channel is NULL or ours.
pub(crate) unsafe fn create(abi_context: *mut ibv_context, init: &CqInit) -> Result<*mut Cq, Errno> {
    // SAFETY: an open context keeps its device, and has set the number of vectors at its creation.
    let (ours, entries_max, vectors) = unsafe { (context(abi_context)?, device_of(abi_context)?.max_cqe, (*abi_context).num_comp_vectors) };
    if init.entries == 0 || init.entries > entries_max || init.vector >= vectors as u32 {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: `init.channel` is NULL or ours, since `ibv_create_cq` takes no other.
    let channel = unsafe { channel::object_of(init.channel) };
    let request = CreateCq { hca: ours.hca, entries: init.entries, channel, own_only: 0, cookie: init.cookie as u64 };
    let mut reply = call::<op::CreateCq>(&request)?;
    let remote_cqe_ring = RemoteCqeRing::map(header().memory_file, reply.remote_cqe_ring, reply.capacity.next_power_of_two());
    if reply.remote_cqe_ring != 0 && remote_cqe_ring.is_none() {
        // Peers must not add completions that nobody can read.
        call::<op::DestroyCq>(&Handle { handle: reply.handle, reserved: 0 })?;
        reply = call::<op::CreateCq>(&CreateCq { own_only: 1, ..request })?;
    }
    if let Some(remote_cqe_ring) = remote_cqe_ring.as_ref().filter(|_| init.has_stamps) {
        remote_cqe_ring.want_stamps();
    }
    if let Some(remote_cqe_ring) = remote_cqe_ring.as_ref().filter(|_| !init.channel.is_null()) {
        remote_cqe_ring.want_events();
    }
    let cq = Box::into_raw(Box::new(Cq {
        abi: abi_cq(abi_context, init, &reply),
        inner: CqInner {
            hca: ours.hca,
            handle: reply.handle,
            queue: SpinLock::new(CqQueue {
                ring: CompletionRing::new(reply.ring_offset, reply.capacity),
                own: VecDeque::new(),
                own_left: None,
                own_before: None,
                known: None,
                delivered_before: None,
                last_stamp_ps: 0,
            }),
            // Own completions raise events through the arming state in the ring of remote CQEs.
            has_channel: !init.channel.is_null(),
            takes_own: is_wall() && (init.channel.is_null() || remote_cqe_ring.is_some()),
            remote_cqe_ring,
            has_stamps: init.has_stamps,
            completion_events: EventCount::default(),
            async_events: EventCount::default(),
            freshly_armed: AtomicBool::new(false),
            burst: Burst::default(),
            patience: Patience::default(),
            extended: ExtendedPoll::default(),
        },
    }));
    ours.completion_queues().insert(reply.handle, CqPointer(cq));
    // SAFETY: the channel still exists, because its destruction and this call exclude each other by the manual page.
    unsafe { channel::add_user(init.channel, 1) };
    Ok(cq)
}

fn abi_cq(context: *mut ibv_context, init: &CqInit, reply: &CreateCqReply) -> ibv_cq_ex {
    ibv_cq_ex {
        context,
        channel: init.channel,
        cq_context: init.cookie,
        handle: reply.handle,
        cqe: c_int::try_from(reply.capacity).unwrap_or(c_int::MAX),
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        comp_events_completed: 0,
        async_events_completed: 0,
        ..cq_ex::readers()
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_create_cq(
    abi_context: *mut ibv_context,
    entries: c_int,
    cookie: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    object(|| {
        let entries = u32::try_from(entries).map_err(|_| Errno(libc::EINVAL))?;
        let vector = u32::try_from(vector).map_err(|_| Errno(libc::EINVAL))?;
        // SAFETY: the caller names an open context, and NULL or a channel of it.
        Ok(unsafe { create(abi_context, &CqInit { entries, cookie, channel, vector, has_stamps: false }) }?.cast())
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_resize_cq(abi_cq: *mut ibv_cq, entries: c_int) -> c_int {
    status(|| {
        let entries = u32::try_from(entries).map_err(|_| Errno(libc::EINVAL))?;
        // SAFETY: the caller names a CQ of ours.
        let inner = unsafe { inner(abi_cq) }?;
        if !inner.has_fewer_than(entries as usize + 1) {
            return Err(Errno(libc::EINVAL)); // it must hold all waiting completions (IBTA 11.2.6.3)
        }
        let reply = call::<op::ResizeCq>(&ResizeCq { cq: inner.handle, entries })?;
        inner.queue.lock().ring.replace(CompletionRing::new(reply.ring_offset, reply.capacity));
        // SAFETY: the caller names a CQ of ours. The program can read the number, and only this library writes it.
        unsafe { (*abi_cq).cqe = c_int::try_from(reply.capacity).unwrap_or(c_int::MAX) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_destroy_cq(abi_cq: *mut ibv_cq) -> c_int {
    status(|| {
        // SAFETY: the caller names a CQ of ours.
        let (ours, inner, channel) = unsafe { (context((*not_null(abi_cq)?).context)?, inner(abi_cq)?, (*abi_cq).channel) };
        call::<op::DestroyCq>(&Handle { handle: inner.handle, reserved: 0 })?;
        ours.completion_queues().remove(&inner.handle);
        // By the manual page, this waits until the program has acknowledged all its events.
        inner.completion_events.wait_until_settled();
        inner.async_events.wait_until_settled();
        // SAFETY: the channel is NULL or exists, because it cannot be destroyed while it has users.
        // `create` boxed the CQ, and nobody uses it any more.
        unsafe {
            channel::add_user(channel, -1);
            drop(Box::from_raw(abi_cq.cast::<Cq>()));
        }
        Ok(())
    })
}
