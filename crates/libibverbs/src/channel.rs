//! Completion channels, on which programs sleep until a completion event.

use crate::context::{close_placeholder, context, placeholder};
use crate::cq;
use crate::events::{Reading, is_interrupted, read_or_wait};
use crate::guard::{guarded, lock, minus_one, not_null, object, status};
use libc::{c_int, c_void};
use softband_abi::verbs::{ibv_comp_channel, ibv_context, ibv_cq};
use softband_client::fds::Kind;
use softband_client::{Errno, call, is_wall};
use softband_ipc::calls::{Hca, Object, op};
use softband_ipc::post::{PostRecord, kind};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// A completion channel: the header's structure, and the engine's object behind its descriptor.
#[repr(C)]
struct Channel {
    abi: ibv_comp_channel,
    object: u32,
}

/// Guards `refcnt` of every channel.
static USERS: Mutex<()> = Mutex::new(());

/// Returns the engine's object of a channel; 0 for NULL.
///
/// # Safety
/// `abi_channel` is NULL or a channel of ours.
pub(crate) unsafe fn object_of(abi_channel: *mut ibv_comp_channel) -> u32 {
    // SAFETY: a channel that is not NULL is ours, so it begins with our structure.
    if abi_channel.is_null() { 0 } else { unsafe { (*abi_channel.cast::<Channel>()).object } }
}

/// Changes the number of CQs that use a channel.
///
/// # Safety
/// As [`object_of`].
pub(crate) unsafe fn add_user(abi_channel: *mut ibv_comp_channel, change: c_int) {
    if !abi_channel.is_null() {
        let _users = lock(&USERS);
        // SAFETY: the caller promises NULL or a channel of ours, and the lock is held.
        unsafe { (*abi_channel).refcnt += change };
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_create_comp_channel(abi_context: *mut ibv_context) -> *mut ibv_comp_channel {
    object(|| {
        // SAFETY: the caller names an open context.
        let hca = unsafe { context(abi_context) }?.hca;
        let Object { object, .. } = call::<op::CreateChannel>(&Hca { hca, reserved: 0 })?;
        let fd = placeholder(Kind::CompletionChannel, object)?;
        let channel = Channel { abi: ibv_comp_channel { context: abi_context, fd, refcnt: 0 }, object };
        Ok(Box::into_raw(Box::new(channel)).cast())
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_destroy_comp_channel(abi_channel: *mut ibv_comp_channel) -> c_int {
    status(|| {
        let channel = not_null(abi_channel)?.cast::<Channel>();
        let users = lock(&USERS);
        // SAFETY: the caller names a channel of ours; the lock is held.
        if unsafe { (*abi_channel).refcnt } != 0 {
            return Err(Errno(libc::EBUSY));
        }
        drop(users);
        // SAFETY: `ibv_create_comp_channel` boxed it, and nobody uses it any more.
        let channel = unsafe { Box::from_raw(channel) };
        close_placeholder(channel.abi.fd, channel.object);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_get_cq_event(abi_channel: *mut ibv_comp_channel, cq: *mut *mut ibv_cq, cookie: *mut *mut c_void) -> c_int {
    // SAFETY: the caller names a channel of ours, or NULL.
    let is_over = !abi_channel.is_null() && unsafe { is_interrupted((*abi_channel).fd) };
    // SAFETY: the caller promises a channel of ours and writable results.
    if is_over { -1 } else { unsafe { get_event(abi_channel, cq, cookie) } }
}

#[inline(never)] // its caller has nothing to tidy up
unsafe extern "C" fn get_event(abi_channel: *mut ibv_comp_channel, cq: *mut *mut ibv_cq, cookie: *mut *mut c_void) -> c_int {
    minus_one(|| {
        // SAFETY: the caller names a channel of ours, and so an open context.
        let (object, fd, ours) = unsafe { (object_of(not_null(abi_channel)?), (*abi_channel).fd, context((*abi_channel).context)?) };
        loop {
            let event = read_or_wait::<op::ChannelRead>(&Reading { object, fd })?;
            // Held until the event counts as taken. From then on, the destruction of the CQ waits
            // for its acknowledgement.
            let queues = ours.completion_queues();
            let Some(pointer) = queues.get(&event.cq).copied() else {
                continue; // the CQ of this event was destroyed
            };
            // SAFETY: the CQ is in the table, so it is not destroyed, and the caller gives writable
            // results.
            unsafe {
                (*pointer.0).inner.completion_events.take();
                (*pointer.0).inner.burst.note_event();
                not_null(cq)?.write(pointer.0.cast());
                not_null(cookie)?.write((*pointer.0).abi.cq_context);
            }
            return Ok(0);
        }
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_ack_cq_events(abi_cq: *mut ibv_cq, events: u32) {
    guarded((), || {
        // SAFETY: the caller names a CQ of ours.
        if let Ok(cq) = unsafe { cq::inner(abi_cq) } {
            // SAFETY: the caller names a CQ of ours. The program can read the counter, and only this library writes it.
            unsafe { (*abi_cq).comp_events_completed = (*abi_cq).comp_events_completed.wrapping_add(events) };
            cq.completion_events.acknowledge(events);
        }
    });
}

pub(crate) unsafe extern "C" fn req_notify_cq(abi_cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    status(|| {
        // SAFETY: the caller names a CQ of ours.
        let cq = unsafe { cq::inner(abi_cq) }?;
        if let Some(remote_cqe_ring) = &cq.remote_cqe_ring {
            // A producer that adds a completion afterwards sees this. The next poll sees completions from before.
            remote_cqe_ring.arm(solicited_only != 0);
            cq.note_armed();
            return Ok(());
        }
        let record =
            PostRecord { kind: kind::ARM_CQ, hca: cq.hca, object: cq.handle, flags: u32::from(solicited_only != 0), ..bytemuck::Zeroable::zeroed() };
        cq.freshly_armed.store(true, Ordering::Relaxed);
        softband_client::post::post(record, &[], &[])?;
        if is_wall() {
            // Completions after this call must raise the event. At wall pace, that holds once the
            // engine has received the request.
            softband_client::sync();
        }
        Ok(())
    })
}
