//! Calls to the engine with values as request and reply.

use crate::execution_token::{deliver_signals, exchange, give, lock_calls};
use crate::session::thread_slot;
use bytemuck::Pod;
use softband_ipc::calls::Op;
use softband_ipc::layout::{PAYLOAD_BYTES, ThreadSlot};
use std::sync::atomic::Ordering;

/// A positive error number of the C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// Calls `op` with `request`.
///
/// # Errors
/// The errno of the engine's reply. `ENODEV` in a thread that the engine does not know.
pub fn call<Request: Pod, Reply: Pod>(op: Op, request: &Request) -> Result<Reply, Errno> {
    call_bytes(op, request, &[], &mut []).map(|(reply, _)| reply)
}

/// Calls `op` with `request`. The reply carries no data.
///
/// # Errors
/// As [`call`].
pub fn call_void<Request: Pod>(op: Op, request: &Request) -> Result<(), Errno> {
    call_bytes::<Request, [u8; 0]>(op, request, &[], &mut []).map(|_| ())
}

/// Calls `op` with `request`, followed by `tail`. Copies the bytes after the reply to `reply_tail`
/// and returns their count.
///
/// # Errors
/// As [`call`]. `EMSGSIZE` if request and tail exceed the size of one call.
pub fn call_bytes<Request: Pod, Reply: Pod>(op: Op, request: &Request, tail: &[u8], reply_tail: &mut [u8]) -> Result<(Reply, usize), Errno> {
    let Some(slot) = thread_slot() else { return Err(Errno(libc::ENODEV)) };
    let head = bytemuck::bytes_of(request);
    let len = head.len() + tail.len();
    if len > PAYLOAD_BYTES {
        return Err(Errno(libc::EMSGSIZE));
    }
    let _one_at_a_time = lock_calls()?;
    write_payload(slot, 0, head);
    write_payload(slot, head.len(), tail);
    slot.payload_len.store(len as u32, Ordering::Relaxed);
    exchange(slot, op);
    let status = slot.status.load(Ordering::Relaxed);
    let result = if status == 0 { read_reply(slot, reply_tail) } else { Err(Errno(status)) };
    deliver_signals(slot);
    result
}

/// Sends `op` with `request` and never gets the token back: the thread or the process ends.
pub fn tell_last<Request: Pod>(op: Op, request: &Request) {
    if let Some(slot) = thread_slot() {
        let head = bytemuck::bytes_of(request);
        write_payload(slot, 0, head);
        slot.payload_len.store(head.len() as u32, Ordering::Relaxed);
        give(slot, op);
    }
}

fn write_payload(slot: &ThreadSlot, offset: usize, bytes: &[u8]) {
    assert!(offset + bytes.len() <= PAYLOAD_BYTES);
    // SAFETY: this thread has the token, so nobody else touches the payload, and the range was
    // checked.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), slot.payload.as_ptr().cast_mut().add(offset), bytes.len()) };
}

fn read_reply<Reply: Pod>(slot: &ThreadSlot, reply_tail: &mut [u8]) -> Result<(Reply, usize), Errno> {
    let len = (slot.payload_len.load(Ordering::Relaxed) as usize).min(PAYLOAD_BYTES);
    let head = size_of::<Reply>();
    if len < head {
        return Err(Errno(libc::EPROTO));
    }
    let mut reply: Reply = bytemuck::Zeroable::zeroed();
    let tail = (len - head).min(reply_tail.len());
    // SAFETY: this thread has the token again, and both ranges lie within the payload.
    unsafe {
        std::ptr::copy_nonoverlapping(slot.payload.as_ptr(), bytemuck::bytes_of_mut(&mut reply).as_mut_ptr(), head);
        std::ptr::copy_nonoverlapping(slot.payload.as_ptr().add(head), reply_tail.as_mut_ptr(), tail);
    }
    Ok((reply, tail))
}
