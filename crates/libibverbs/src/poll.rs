//! Taking completions.

use crate::context::{Context, context};
use crate::convert::work_completion;
use crate::cq::{self, CqInner};
use crate::guard::{guarded, lock, not_null};
use libc::c_int;
use softband_abi::verbs::{ibv_cq, ibv_wc};
use softband_client::completion::CompletionRing;
use softband_client::deliveries::Deliveries;
use softband_client::{Errno, advance_ps, header, is_wall, poll_empty, sync, warn};
use softband_ipc::ring::{Cqe, flags};
use std::sync::atomic::Ordering;

/// Completions that are taken under one lock.
const BATCH: usize = 8;

pub(crate) unsafe extern "C" fn poll_cq(shown: *mut ibv_cq, entries: c_int, completions: *mut ibv_wc) -> c_int {
    guarded(-1, || {
        // SAFETY: the caller names a CQ of ours and with it an open context.
        let Ok((ours, cq)) = (unsafe { parts(shown) }) else { return -1 };
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
        match look(ours, cq, room, store) {
            Ok(count) => count as c_int,
            Err(_) => -1,
        }
    })
}

/// Our parts of a completion queue and of its context.
///
/// # Safety
/// `shown` is a CQ of ours.
pub(crate) unsafe fn parts<'a>(shown: *mut ibv_cq) -> Result<(&'a Context, &'a CqInner), Errno> {
    // SAFETY: the caller's promise.
    unsafe { Ok((context((*not_null(shown)?).context)?, cq::inner(shown)?)) }
}

/// One call of a poll verb: pays for it, looks, and where nothing is there lets time pass and looks once more.
///
/// # Errors
/// When the queue has overflowed: what is missing will not come.
pub(crate) fn look(ours: &Context, cq: &CqInner, room: usize, mut store: impl FnMut(&Cqe)) -> Result<usize, Errno> {
    if is_wall() {
        return look_in_wall_pace(ours, cq, room, store);
    }
    advance_ps(header().cost_poll_cq);
    let mut taken = take(ours, cq, room, &mut store);
    if taken == 0 {
        if cq.freshly_armed.swap(false, Ordering::Relaxed) {
            // The last look before the program goes to sleep: time must not run on to the event it is going to sleep for.
            sync();
        } else {
            poll_empty();
        }
        taken = take(ours, cq, room, &mut store);
    }
    if taken == 0 {
        not_overflowed(cq)?
    }
    Ok(taken)
}

fn not_overflowed(cq: &CqInner) -> Result<(), Errno> {
    if lock(&cq.ring).overflowed() {
        warn::once("a completion queue overflowed: the program made it too small for the work it posts");
        return Err(Errno(libc::EIO));
    }
    Ok(())
}

fn look_in_wall_pace(ours: &Context, cq: &CqInner, room: usize, mut store: impl FnMut(&Cqe)) -> Result<usize, Errno> {
    if cq.waiting() > 0 {
        let taken = take(ours, cq, room, &mut store);
        if taken > 0 {
            cq.patience.found();
            return Ok(taken);
        }
    }
    not_overflowed(cq)?;
    if cq.freshly_armed.swap(false, Ordering::Relaxed) {
        // The last look before the program goes to sleep: what it has armed is armed when this returns.
        sync();
        return Ok(take(ours, cq, room, &mut store));
    }
    if cq.patience.looks_again() {
        std::hint::spin_loop();
    } else {
        poll_empty();
    }
    Ok(0)
}

/// Takes at most `room` completions that are there now.
pub(crate) fn take(ours: &Context, cq: &CqInner, room: usize, store: &mut impl FnMut(&Cqe)) -> usize {
    let mut taken = 0;
    let mut batch = [<Cqe as bytemuck::Zeroable>::zeroed(); BATCH];
    while taken < room {
        let mut count = 0;
        let wanted = BATCH.min(room - taken);
        let mut ring = lock(&cq.ring);
        while count < wanted {
            let own = if cq.takes_own { cq.own.take(ring.all_taken()) } else { None };
            let Some(cqe) = own.or_else(|| take_older(&mut ring, cq.deliveries.as_ref())) else { break };
            batch[count] = cqe;
            count += 1;
        }
        drop(ring);
        for cqe in &batch[..count] {
            if retire(ours, cqe) {
                // What posters and the engine stamp may differ a little; a queue's time never goes back.
                let time_ps = cq.last_stamp_ps.fetch_max(cqe.time_ps, Ordering::AcqRel).max(cqe.time_ps);
                store(&Cqe { time_ps, ..*cqe });
                taken += 1;
            }
        }
        if count < wanted {
            break;
        }
    }
    taken
}

/// The older one of what the engine and what peers have put there.
fn take_older(ring: &mut CompletionRing, deliveries: Option<&Deliveries>) -> Option<Cqe> {
    let Some((deliveries, delivered)) = deliveries.and_then(|deliveries| Some((deliveries, deliveries.front_ps()?))) else {
        return ring.take();
    };
    if ring.front_ps().is_some_and(|time| time < delivered) { ring.take() } else { deliveries.take() }
}

/// Lets the queue pair of a completion know that work is done. False: the queue pair is gone or was reset since, and with it,
/// by the manual pages, its completions.
fn retire(ours: &Context, cqe: &Cqe) -> bool {
    if cqe.srq != 0
        && let Some(pointer) = ours.shared_queues().get(&cqe.srq)
    {
        // SAFETY: shared queues leave the table before they are freed, and the table is locked.
        let srq = unsafe { &(*pointer.0).inner };
        srq.receive.retire_one();
        if srq.is_xrc {
            return true; // The queue pair may be another process's.
        }
    }
    let queue_pairs = ours.queue_pairs();
    let Some(pointer) = queue_pairs.get(&cqe.qpn) else { return false };
    // SAFETY: queue pairs leave the table before they are freed, and the table is locked.
    let qp = unsafe { &(*pointer.0).inner };
    if qp.reset_at_ps.load(Ordering::Relaxed) > cqe.time_ps {
        return false;
    }
    if cqe.srq != 0 {
        return true;
    }
    if cqe.flags & flags::RECEIVE != 0 {
        qp.receive.retire_one()
    } else if cqe.flags & flags::CARRIED_OUT_BY_PROGRAM != 0 {
        qp.send.retire_up_to(cqe.send_retired)
    } else {
        qp.send.retire_given_up_to(cqe.send_retired)
    }
    true
}
