//! Calls to the engine with values as request and reply.

use crate::ahead;
use crate::execution_token::{deliver_signals, exchange, give, lock_calls};
use crate::session::thread_slot;
use bytemuck::{Pod, Zeroable};
use softband_ipc::calls::{Call, Message, Op};
use softband_ipc::layout::{PAYLOAD_BYTES, ThreadSlot};
use std::sync::atomic::Ordering;

/// A positive error number of the C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// Makes the call `C` with `request`.
///
/// # Errors
/// The errno of the engine's reply. `ENODEV` in a thread that the engine does not know.
pub fn call<C: Call<Request: Pod, Reply: Pod>>(request: &C::Request) -> Result<C::Reply, Errno> {
    let mut reply = C::Reply::zeroed();
    call_bytes(C::OP, [bytemuck::bytes_of(request), &[]], (bytemuck::bytes_of_mut(&mut reply), &mut []))?;
    Ok(reply)
}

/// Makes the call `C` with `request`, followed by the elements of `tail`. Copies the elements after
/// the reply to `reply_tail`, as many as it holds, and returns their count.
///
/// # Errors
/// As [`call`]. `EMSGSIZE` if request and tail exceed the size of one call.
pub fn call_with_tail<C: Call>(
    request: &<C::Request as Message>::Head,
    tail: &[<C::Request as Message>::Element],
    reply_tail: &mut [<C::Reply as Message>::Element],
) -> Result<(<C::Reply as Message>::Head, usize), Errno> {
    let mut reply = <C::Reply as Message>::Head::zeroed();
    let parts = [bytemuck::bytes_of(request), bytemuck::cast_slice(tail)];
    let bytes = call_bytes(C::OP, parts, (bytemuck::bytes_of_mut(&mut reply), bytemuck::cast_slice_mut(reply_tail)))?;
    Ok((reply, bytes / size_of::<<C::Reply as Message>::Element>().max(1)))
}

/// Calls `op` with the two parts of its request. Fills `reply`, then `reply_tail` as far as bytes
/// follow, and returns the count of these bytes.
fn call_bytes(op: Op, [head, tail]: [&[u8]; 2], reply: (&mut [u8], &mut [u8])) -> Result<usize, Errno> {
    let Some(slot) = thread_slot() else { return Err(Errno(libc::ENODEV)) };
    let len = head.len() + tail.len();
    if len > PAYLOAD_BYTES {
        return Err(Errno(libc::EMSGSIZE));
    }
    let _one_at_a_time = lock_calls()?;
    ahead::catch_up();
    write_payload(slot, 0, head);
    write_payload(slot, head.len(), tail);
    slot.payload_len.store(len as u32, Ordering::Relaxed);
    exchange(slot, op);
    let status = slot.status.load(Ordering::Relaxed);
    let result = if status == 0 { read_reply(slot, reply) } else { Err(Errno(status)) };
    deliver_signals(slot);
    result
}

/// Makes the call `C` and never gets the token back: the thread or the process ends.
pub fn tell_last<C: Call<Request: Pod>>(request: &C::Request) {
    ahead::catch_up();
    if let Some(slot) = thread_slot() {
        let head = bytemuck::bytes_of(request);
        write_payload(slot, 0, head);
        slot.payload_len.store(head.len() as u32, Ordering::Relaxed);
        give(slot, C::OP);
    }
}

fn write_payload(slot: &ThreadSlot, offset: usize, bytes: &[u8]) {
    assert!(offset + bytes.len() <= PAYLOAD_BYTES);
    // SAFETY: this thread has the token, so nobody else touches the payload, and the range was
    // checked.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), slot.payload.as_ptr().cast_mut().add(offset), bytes.len()) };
}

fn read_reply(slot: &ThreadSlot, (reply, reply_tail): (&mut [u8], &mut [u8])) -> Result<usize, Errno> {
    let len = (slot.payload_len.load(Ordering::Relaxed) as usize).min(PAYLOAD_BYTES);
    let head = reply.len();
    if len < head {
        return Err(Errno(libc::EPROTO));
    }
    let tail = (len - head).min(reply_tail.len());
    // SAFETY: this thread has the token again, and both ranges lie within the payload.
    unsafe {
        std::ptr::copy_nonoverlapping(slot.payload.as_ptr(), reply.as_mut_ptr(), head);
        std::ptr::copy_nonoverlapping(slot.payload.as_ptr().add(head), reply_tail.as_mut_ptr(), tail);
    }
    Ok(tail)
}
