//! Polls of completion queues.

use crate::context::{Context, context};
use crate::convert::work_completion;
use crate::cq::{self, CqInner, CqQueue};
use crate::guard::{guarded, not_null};
use crate::qp::QpInner;
use libc::c_int;
use softband_abi::verbs::{ibv_cq, ibv_wc};
use softband_client::direct::RemoteCqeRing;
use softband_client::{Errno, advance_ps, end_looks, header, is_wall, note_cq_poll, poll_empty, sync, warn};
use softband_ipc::ring::{Cqe, flags};
use std::sync::atomic::Ordering;

pub(crate) unsafe extern "C" fn poll_cq(abi_cq: *mut ibv_cq, entries: c_int, completions: *mut ibv_wc) -> c_int {
    guarded(-1, || {
        // SAFETY: the caller names a CQ of ours, and so an open context.
        let Ok((ours, cq)) = (unsafe { split(abi_cq) }) else { return -1 };
        let room = usize::try_from(entries).unwrap_or(0);
        if room == 0 {
            return 0;
        }
        let mut taken = 0;
        let store = |cqe: &Cqe| {
            // SAFETY: the caller gave room for `entries` completions, and `taken` stays below that.
            unsafe { completions.add(taken).write(work_completion(cqe)) };
            taken += 1;
        };
        match poll(ours, cq, room, store) {
            Ok(count) => {
                if count > 0 {
                    cq.note_found();
                }
                count as c_int
            }
            Err(_) => -1,
        }
    })
}

/// Returns our parts of a CQ and of its context.
///
/// # Safety
/// `abi_cq` is a CQ of ours.
pub(crate) unsafe fn split<'a>(abi_cq: *mut ibv_cq) -> Result<(&'a Context, &'a CqInner), Errno> {
    // SAFETY: a CQ of ours names the context that created it, which outlives it.
    unsafe { Ok((context((*not_null(abi_cq)?).context)?, cq::inner(abi_cq)?)) }
}

/// Executes a poll verb: charges its cost and polls. If nothing is there, lets time pass and polls
/// again.
///
/// # Errors
/// `EIO` if the CQ has overflowed: the missing completions will not come.
pub(crate) fn poll(ours: &Context, cq: &CqInner, room: usize, mut store: impl FnMut(&Cqe)) -> Result<usize, Errno> {
    if is_wall() {
        return poll_in_wall_pace(ours, cq, room, store);
    }
    advance_ps(header().cost_poll_cq);
    note_cq_poll();
    let mut taken = take(ours, cq, room, &mut store);
    if taken == 0 {
        if cq.freshly_armed.swap(false, Ordering::Relaxed) {
            // This is the last poll before the program sleeps. Time must not advance to the event
            // that will wake it.
            sync();
        } else {
            poll_empty(cq.handle);
        }
        taken = take(ours, cq, room, &mut store);
    }
    if taken == 0 {
        not_overflowed(cq)?
    } else {
        end_looks();
        advance_ps(header().cost_take_completion * taken as u64);
    }
    Ok(taken)
}

fn not_overflowed(cq: &CqInner) -> Result<(), Errno> {
    if cq.queue.lock().ring.overflowed() {
        warn::once("a completion queue overflowed: the program made it too small for the work it posts");
        return Err(Errno(libc::EIO));
    }
    Ok(())
}

fn poll_in_wall_pace(ours: &Context, cq: &CqInner, room: usize, mut store: impl FnMut(&Cqe)) -> Result<usize, Errno> {
    let taken = take(ours, cq, room, &mut store);
    if taken > 0 {
        cq.patience.found();
        return Ok(taken);
    }
    not_overflowed(cq)?;
    if cq.freshly_armed.swap(false, Ordering::Relaxed) {
        // This is the last poll before the program sleeps. The event must be armed when this
        // returns.
        sync();
        return Ok(take(ours, cq, room, &mut store));
    }
    if !cq.patience.polls_again() {
        poll_empty(cq.handle);
    }
    Ok(0)
}

/// Takes at most `room` completions that are present now.
pub(crate) fn take(ours: &Context, cq: &CqInner, room: usize, store: &mut impl FnMut(&Cqe)) -> usize {
    let mut taken = 0;
    let mut queue = cq.queue.lock();
    while taken < room {
        let delivered = only_delivered(&mut queue, cq, room - taken);
        if delivered > 0 {
            taken += take_delivered((ours, cq), &mut queue, delivered, store);
            continue;
        }
        let Some(from) = next(&mut queue, cq) else { break };
        // Each variant is converted in place: a copy of recent stores would wait until they reach
        // the cache.
        let is_kept = match from {
            From::Engine => queue.ring.take().map(|mut cqe| keep((ours, cq), &mut queue, &mut cqe, store)),
            From::Peer => cq.remote_cqe_ring.as_ref().and_then(RemoteCqeRing::take).map(|mut cqe| keep((ours, cq), &mut queue, &mut cqe, store)),
            From::Own => take_own(&mut queue).map(|mut cqe| keep((ours, cq), &mut queue, &mut cqe, store)),
        };
        let Some(is_kept) = is_kept else { break };
        taken += usize::from(is_kept);
    }
    taken
}

/// Returns the number of peer completions that come next, if no other source has any. Most CQs have
/// only one source.
#[inline(always)]
fn only_delivered(queue: &mut CqQueue, cq: &CqInner, room: usize) -> u32 {
    let Some(remote_cqe_ring) = &cq.remote_cqe_ring else { return 0 };
    if !queue.own.is_empty() {
        return 0;
    }
    let count = remote_cqe_ring.ready(room);
    // An engine completion that came first is visible by now.
    if count == 0 || queue.ring.front_ps().is_some() {
        return 0;
    }
    queue.own_before = None;
    count
}

/// Takes `count` peer completions. Returns the number that the program gets.
#[inline(always)]
fn take_delivered(of: (&Context, &CqInner), queue: &mut CqQueue, count: u32, store: &mut impl FnMut(&Cqe)) -> usize {
    let mut taken = 0;
    if let Some(remote_cqe_ring) = &of.1.remote_cqe_ring {
        remote_cqe_ring.take_ready(count, |mut cqe| taken += usize::from(keep(of, queue, &mut cqe, store)));
    }
    taken
}

/// Gives a completion to the program, if its queue pair still exists.
#[inline]
fn keep((ours, cq): (&Context, &CqInner), queue: &mut CqQueue, cqe: &mut Cqe, store: &mut impl FnMut(&Cqe)) -> bool {
    let is_kept = retire(ours, cq, &mut queue.known, cqe);
    if is_kept {
        // Stamps of posters and engine may differ slightly, but the times of a CQ never decrease.
        queue.last_stamp_ps = queue.last_stamp_ps.max(cqe.time_ps);
        cqe.time_ps = queue.last_stamp_ps;
        store(cqe);
    }
    is_kept
}

/// Takes the oldest completion of the program's own work.
#[inline]
fn take_own(queue: &mut CqQueue) -> Option<Cqe> {
    if let Some(left) = &mut queue.own_left {
        *left = left.saturating_sub(1);
    }
    queue.own.pop_front().map(|own| own.cqe)
}

/// Source of the next completion.
#[derive(Clone, Copy)]
enum From {
    /// The engine's ring.
    Engine,
    /// The ring of remote CQEs, which peers fill.
    Peer,
    /// Work that the program executed itself.
    Own,
}

/// Returns the source of the next completion. The program's own completions precede later
/// completions of the engine and of peers. Before a peer's completion come only those own ones that
/// were present when it was first seen, or when it arrived if the CQ has a channel. Otherwise, a
/// program that posts after each completion would never see its peers' completions.
#[inline]
fn next(queue: &mut CqQueue, cq: &CqInner) -> Option<From> {
    let is_own_due = queue.own.front().is_some_and(|own| own.behind.wrapping_sub(queue.ring.all_taken()) as i32 <= 0);
    if !is_own_due {
        queue.own_before = None;
        return next_of_others(queue, cq);
    }
    if queue.own_left == Some(0) {
        return None; // the next poll gets work posted since this poll began, and all later completions
    }
    let remote_cqe_ring = cq.remote_cqe_ring.as_ref().filter(|remote_cqe_ring| remote_cqe_ring.holds(1));
    let before = remote_cqe_ring.map(|remote_cqe_ring| match queue.own.front() {
        Some(own) if cq.has_channel => usize::from(own.behind_peers.wrapping_sub(remote_cqe_ring.consumed()) as i32 <= 0),
        _ => queue.own_before.unwrap_or(queue.own.len()),
    });
    queue.own_before = before.and_then(|before| before.checked_sub(1));
    // An engine completion that came first is visible by now.
    let is_peers = before == Some(0) && remote_cqe_ring.is_some_and(|remote_cqe_ring| comes_before_the_engines(queue, remote_cqe_ring));
    Some(if is_peers { From::Peer } else { From::Own })
}

/// Checks whether a peer's completion precedes the engine's next one.
#[inline]
fn comes_before_the_engines(queue: &CqQueue, remote_cqe_ring: &RemoteCqeRing) -> bool {
    remote_cqe_ring.front_since_ps().is_some_and(|since_ps| queue.ring.front_ps().is_none_or(|engine_ps| engine_ps >= since_ps))
}

/// Returns the source of the next completion of the engine or of a peer.
#[inline]
fn next_of_others(queue: &mut CqQueue, cq: &CqInner) -> Option<From> {
    let Some(remote_cqe_ring) = &cq.remote_cqe_ring else { return queue.ring.front_ps().map(|_| From::Engine) };
    let Some(since_ps) = remote_cqe_ring.front_since_ps() else {
        // The engine's completion came after earlier ones of peers. Check the peers again after it
        // is visible.
        queue.ring.front_ps()?;
        return if remote_cqe_ring.front_since_ps().is_none() { Some(From::Engine) } else { next_of_two(queue, remote_cqe_ring) };
    };
    // An engine completion that came first is visible by now.
    match queue.ring.front_ps() {
        None => Some(From::Peer),
        Some(engine_ps) if engine_ps < since_ps => Some(From::Engine),
        Some(_) => next_of_two(queue, remote_cqe_ring),
    }
}

/// As [`next_of_others`], if both sources have a completion.
#[cold]
fn next_of_two(queue: &mut CqQueue, remote_cqe_ring: &RemoteCqeRing) -> Option<From> {
    let is_before = queue.ring.front_ps()? < remote_cqe_ring.front_since_ps()?;
    Some(if is_before || has_come_to_the_engine(queue, remote_cqe_ring) { From::Engine } else { From::Peer })
}

/// Checks whether the program has taken all peer completions from before the engine's next
/// completion was first seen. Later ones of the same queue pair begin its new epoch, so none is
/// overtaken, and peers cannot delay the engine for ever.
fn has_come_to_the_engine(queue: &mut CqQueue, remote_cqe_ring: &RemoteCqeRing) -> bool {
    let number = queue.ring.all_taken();
    let (produced, consumed) = remote_cqe_ring.counters();
    let before = match queue.delivered_before {
        Some((of, before)) if of == number => before,
        _ => produced,
    };
    queue.delivered_before = Some((number, before));
    consumed.wrapping_sub(before) as i32 >= 0
}

/// Removes the completions of a destroyed or reset queue pair from its CQs, which makes room for
/// others.
pub(crate) fn forget(ours: &Context, qp: &QpInner, before_ps: u64) {
    let qpn = qp.qpn;
    let mut goes = |cqe: &Cqe| {
        let goes = cqe.qpn == qpn && cqe.time_ps < before_ps;
        if !goes || cqe.srq == 0 {
            return goes;
        }
        let shared_queues = ours.shared_queues();
        // SAFETY: SRQs leave the table before they are freed, and the table is locked.
        let Some(srq) = shared_queues.get(&cqe.srq).map(|pointer| unsafe { &(*pointer.0).inner }) else { return true };
        if !srq.is_xrc {
            srq.receive.retire_one();
        }
        !srq.is_xrc // as in `retire`
    };
    let (sends, receives) = (qp.send_cq.get(), qp.recv_cq.get());
    let other = receives.filter(|receives| !sends.is_some_and(|sends| std::ptr::eq(sends, *receives)));
    for cq in sends.into_iter().chain(other) {
        let mut queue = cq.queue.lock();
        // Its memory may be freed once nobody holds this lock.
        queue.known = None;
        queue.own_before = None;
        // The positions of peer completions have changed, so their count starts anew.
        queue.delivered_before = None;
        let gone = queue.ring.sweep(&mut goes);
        if let Some(remote_cqe_ring) = &cq.remote_cqe_ring {
            remote_cqe_ring.sweep(&mut goes);
        }
        // The removed completions of the engine count as taken. The later own ones must not
        // overtake the remaining earlier ones.
        queue.own.retain(|own| !goes(&own.cqe));
        let consumed = cq.remote_cqe_ring.as_ref().map_or(0, RemoteCqeRing::consumed);
        for own in queue.own.iter_mut() {
            own.behind = own.behind.wrapping_add(gone.iter().filter(|number| number.wrapping_sub(own.behind) as i32 >= 0).count() as u32);
            own.behind_peers = consumed;
        }
    }
}

/// Tells the queue pair of a completion that work is done. Returns false if the queue pair is
/// destroyed or was reset: by the manual pages, its completions are then void.
fn retire(ours: &Context, cq: &CqInner, known: &mut Option<(u32, *const QpInner)>, cqe: &Cqe) -> bool {
    if cqe.srq != 0
        && let Some(pointer) = ours.shared_queues().get(&cqe.srq)
    {
        // SAFETY: SRQs leave the table before they are freed, and the table is locked.
        let srq = unsafe { &(*pointer.0).inner };
        srq.receive.retire_one();
        if srq.is_xrc {
            return true; // the queue pair may belong to another process
        }
    }
    let at = match *known {
        Some((qpn, at)) if qpn == cqe.qpn => at,
        _ => {
            let queue_pairs = ours.queue_pairs();
            // SAFETY: queue pairs leave the table before they are freed, and the table is locked.
            let Some(qp) = queue_pairs.get(&cqe.qpn).map(|pointer| unsafe { &(*pointer.0).inner }) else { return false };
            // A malicious peer may name any queue pair. Only those of this CQ wait for its lock
            // before they are freed.
            if !qp.completes_to(cq) {
                return false;
            }
            std::ptr::from_ref(qp)
        }
    };
    *known = Some((cqe.qpn, at));
    // SAFETY: a thread that frees a queue pair first removes it from the table, and then takes the
    // locks of its CQs.
    let qp = unsafe { &*at };
    if qp.reset_at_ps.load(Ordering::Relaxed) > cqe.time_ps {
        return false;
    }
    if cqe.srq != 0 {
        return true;
    }
    if cqe.flags & flags::RECEIVE != 0 {
        qp.receive.retire_next()
    } else if cqe.flags & flags::CARRIED_OUT_BY_PROGRAM != 0 {
        qp.send.retire_up_to(cqe.send_retired)
    } else {
        qp.send.retire_given_up_to(cqe.send_retired)
    }
    true
}
