//! Sends and receives bytes of the engine's stream sockets, for all calls of the C library.

use super::open::timeout_deadline;
use crate::clib::buffers::{Cursor, Readable, Writable};
use crate::fd::descriptors::{is_nonblocking, wait_object};
use crate::signal::actions;
use crate::time::pace::{empty_poll, pay_for_call};
use libc::c_int;
use softband_client::{self as client, Errno};
use softband_ipc::calls::readiness::{READABLE, WRITABLE};
use softband_ipc::calls::{Count, SocketData, SocketReceive, op};
use softband_ipc::layout::PAYLOAD_BYTES;

/// Most bytes that one call carries.
const CHUNK_BYTES: usize = PAYLOAD_BYTES - 64;

/// Waits for `interest`. In nonblocking mode, fails with `EAGAIN`.
fn wait(fd: c_int, object: u32, flags: c_int, interest: u32, deadline: u64) -> Result<(), Errno> {
    if flags & libc::MSG_DONTWAIT != 0 || is_nonblocking(fd) {
        if interest == WRITABLE {
            crate::fd::epoll::found_full(fd);
        }
        empty_poll();
        return Err(Errno(libc::EAGAIN));
    }
    wait_object(object, interest, deadline)
}

/// Sends all parts. Fails only if no byte was sent.
pub fn send(fd: c_int, object: u32, parts: &[Readable], flags: c_int) -> Result<usize, Errno> {
    pay_for_call();
    let mut deadline = None;
    let mut sent = 0;
    for part in parts {
        let mut rest = part.bytes();
        while !rest.is_empty() {
            let chunk = &rest[..rest.len().min(CHUNK_BYTES)];
            let request = SocketData { object, len: chunk.len() as u32 };
            let error = match client::call_with_tail::<op::SocketSend>(&request, chunk, &mut []) {
                Ok((Count { count }, _)) => {
                    let taken = (count as usize).min(chunk.len());
                    sent += taken;
                    rest = &rest[taken..];
                    continue;
                }
                Err(Errno(libc::EAGAIN)) => {
                    let deadline = *deadline.get_or_insert_with(|| timeout_deadline(fd, libc::SO_SNDTIMEO));
                    match wait(fd, object, flags, WRITABLE, deadline) {
                        Ok(()) => continue,
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            if sent > 0 {
                return Ok(sent);
            }
            if error == Errno(libc::EPIPE) && flags & libc::MSG_NOSIGNAL == 0 {
                actions::raise_all(1 << libc::SIGPIPE);
            }
            return Err(error);
        }
    }
    Ok(sent)
}

/// Receives into the parts. Returns 0 at the end of the stream.
pub fn receive(fd: c_int, object: u32, parts: &[Writable], flags: c_int) -> Result<usize, Errno> {
    pay_for_call();
    let wanted: usize = parts.iter().map(Writable::len).sum();
    let peek = flags & libc::MSG_PEEK != 0;
    let mut cursor = Cursor::new(parts);
    let mut deadline = None;
    let mut received = 0;
    while received < wanted {
        let Some(room) = cursor.room() else { break };
        let len_max = room.len().min(CHUNK_BYTES);
        let request = SocketReceive { object, len_max: len_max as u32, peek: u32::from(peek), reserved: 0 };
        let error = match client::call_with_tail::<op::SocketReceive>(&request, &[], &mut room[..len_max]) {
            Ok((_, 0)) => return Ok(received),
            Ok((_, taken)) => {
                received += taken;
                cursor.advance(taken);
                // A short answer holds all available bytes; a full answer may not. A peek does not
                // consume them.
                let more_may_be_there = taken == len_max && !peek;
                if received >= wanted || peek || !(more_may_be_there || flags & libc::MSG_WAITALL != 0) {
                    return Ok(received);
                }
                continue;
            }
            Err(error) => error,
        };
        let must_wait = error == Errno(libc::EAGAIN) && (received == 0 || flags & libc::MSG_WAITALL != 0);
        let waited = if must_wait {
            let deadline = *deadline.get_or_insert_with(|| timeout_deadline(fd, libc::SO_RCVTIMEO));
            wait(fd, object, flags, READABLE, deadline)
        } else {
            Err(error)
        };
        if let Err(error) = waited {
            return if received > 0 { Ok(received) } else { Err(error) };
        }
    }
    if wanted == 0 { Ok(0) } else { Ok(received) }
}
