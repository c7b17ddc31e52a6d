//! Posts of work requests into the slot's buffer, without a call to the engine.

use crate::ahead;
use crate::calls::Errno;
use crate::computation;
use crate::execution_token::{note_progress, now_ps, sync};
use crate::session::{is_wall, thread_slot};
use softband_ipc::layout::{POSTED_BYTES, ThreadSlot};
use softband_ipc::post::{PostRecord, PostSge, kind, record_bytes};
use std::sync::atomic::Ordering;

/// Appends `record` with its entries and inline bytes, stamped with the thread's clock.
///
/// Sets the counts and the time in `record`.
///
/// # Errors
/// `ENODEV` in a thread that the engine does not know. `EINVAL` if the record exceeds the whole
/// buffer.
pub fn post(mut record: PostRecord, entries: &[PostSge], inline: &[u8]) -> Result<(), Errno> {
    ahead::catch_up();
    let Some(slot) = thread_slot() else { return Err(Errno(libc::ENODEV)) };
    let len = record_bytes(entries.len(), inline.len());
    if len > POSTED_BYTES {
        return Err(Errno(libc::EINVAL));
    }
    record.sge_count = entries.len() as u32;
    record.inline_len = inline.len() as u32;
    if is_wall() {
        let padding = inline.len().next_multiple_of(8) - inline.len();
        crate::ring::append(&[bytemuck::bytes_of(&record), bytemuck::cast_slice(entries), inline, &[0; 8][..padding]]);
        return Ok(());
    }
    if slot.posted_len.load(Ordering::Relaxed) as usize + len > POSTED_BYTES {
        sync(); // the engine takes all posts at each call
    }
    note_progress();
    computation::count();
    record.time_ps = now_ps();
    let start = slot.posted_len.load(Ordering::Relaxed) as usize;
    let mut at = append(slot, start, bytemuck::bytes_of(&record));
    at = append(slot, at, bytemuck::cast_slice(entries));
    append(slot, at, inline);
    slot.posted_len.store((start + len) as u32, Ordering::Relaxed);
    Ok(())
}

/// Posts a MAD, at wall pace. `object` is the open file.
///
/// # Errors
/// As [`post`].
pub fn post_mad(object: u32, record: &[u8]) -> Result<(), Errno> {
    post(PostRecord { kind: kind::MAD, object, ..bytemuck::Zeroable::zeroed() }, &[], record)
}

/// As [`post`], at wall pace, without waiting. Returns false if the buffer has no room at the
/// moment. During a transfer, a thread must not wait for the engine, because the engine waits for
/// it.
#[inline(never)] // it needs thread-local storage, for which the way of those that do not come here would pay
pub fn try_post(mut record: PostRecord, entries: &[PostSge]) -> bool {
    record.sge_count = entries.len() as u32;
    crate::ring::try_append(&[bytemuck::bytes_of(&record), bytemuck::cast_slice(entries)])
}

fn append(slot: &ThreadSlot, at: usize, bytes: &[u8]) -> usize {
    assert!(at + bytes.len() <= POSTED_BYTES);
    // SAFETY: this thread has the token, so nobody else touches the buffer, and the range was
    // checked.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), slot.posted.as_ptr().cast_mut().add(at), bytes.len()) };
    at + bytes.len()
}
