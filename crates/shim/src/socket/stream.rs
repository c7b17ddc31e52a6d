//! Sends and receives bytes of the engine's stream sockets, for all calls of the C library.

use super::modelled::{is_modelled, pay_for_call};
use super::open::timeout_deadline;
use crate::clib::buffers::{Cursor, Readable, Writable};
use crate::fd::descriptors::{is_nonblocking, wait_object};
use crate::signal::actions;
use crate::time::pace::empty_poll;
use libc::c_int;
use softband_client::{self as client, Errno};
use softband_ipc::calls::readiness::{READABLE, WRITABLE};
use softband_ipc::calls::{Count, SocketData, SocketOption, SocketReceive, op, socket_option, stream};
use softband_ipc::layout::PAYLOAD_BYTES;

/// Most bytes that one call carries.
pub const CHUNK_BYTES: usize = PAYLOAD_BYTES - 64;

/// Waits for `interest`. In nonblocking mode, fails with `EAGAIN`.
fn wait(fd: c_int, object: u32, flags: c_int, interest: u32, deadline: u64) -> Result<(), Errno> {
    if flags & libc::MSG_DONTWAIT != 0 || is_nonblocking(fd) {
        empty_poll();
        return Err(Errno(libc::EAGAIN));
    }
    wait_object(object, interest, deadline)
}

/// A send of one call of the program, in several chunks.
#[derive(Debug)]
pub struct Sending {
    fd: c_int,
    object: u32,
    flags: c_int,
    deadline: Option<u64>,
    sent: usize,
    /// Bytes of the whole call, if they are known.
    wanted: Option<usize>,
    /// Whether a request to the engine had the price of the call.
    is_paid: bool,
    /// Whether the call waits until it is whole.
    waits: bool,
    /// Whether the call ends when the peer has read its bytes.
    awaits_peer: bool,
}

impl Sending {
    /// Begins a call with these bytes, if their number is known.
    pub fn begin(fd: c_int, object: u32, flags: c_int, wanted: Option<usize>) -> Self {
        pay_for_call();
        let waits = wanted.is_some() && is_modelled() && flags & libc::MSG_DONTWAIT == 0 && !is_nonblocking(fd);
        Self { fd, object, flags, deadline: None, sent: 0, wanted, is_paid: false, waits, awaits_peer: false }
    }

    /// Returns the bytes of the call behind a part with `len` bytes.
    fn rest(&self, len: usize) -> usize {
        self.wanted.map_or(0, |wanted| wanted.saturating_sub(self.sent + len))
    }

    /// Returns the flags of the next part of the call, with `rest` bytes behind it.
    fn stream_flags(&self, rest: usize) -> u32 {
        let is_last = rest == 0;
        let urgent = is_last && self.flags & libc::MSG_OOB != 0;
        let more = !is_last || self.flags & libc::MSG_MORE != 0;
        let waits = self.waits && self.flags & libc::MSG_OOB == 0;
        let flags = [(urgent, stream::URGENT), (more, stream::MORE), (self.is_paid, stream::IS_PAID), (waits, stream::WAITS)];
        flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag)
    }

    /// Waits for room. In nonblocking mode, fails with `EAGAIN`.
    fn wait(&mut self) -> Result<(), Errno> {
        let deadline = *self.deadline.get_or_insert_with(|| timeout_deadline(self.fd, libc::SO_SNDTIMEO));
        wait(self.fd, self.object, self.flags, WRITABLE, deadline)
    }

    /// Waits until a send can take bytes, and returns their number.
    pub fn room(&mut self) -> Result<usize, Errno> {
        let question = SocketOption { object: self.object, name: socket_option::ROOM, value: 0, set: 0 };
        loop {
            match client::call::<op::SocketOption>(&question)?.value {
                0 => self.wait()?,
                room => return Ok(room as usize),
            }
        }
    }

    /// Sends a part of `bytes`, at least one. Waits for room if the socket waits.
    pub fn some(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        let chunk = &bytes[..bytes.len().min(CHUNK_BYTES)];
        loop {
            let rest = self.rest(chunk.len());
            let (flags, rest) = (self.stream_flags(rest), u32::try_from(rest).unwrap_or(u32::MAX));
            let request = SocketData { object: self.object, len: chunk.len() as u32, flags, rest };
            let sent = client::call_with_tail::<op::SocketSend>(&request, chunk, &mut []);
            self.is_paid = true;
            match sent {
                Ok((Count { count }, _)) => {
                    self.awaits_peer = count & stream::AWAITS_PEER != 0;
                    let taken = ((count & !stream::AWAITS_PEER) as usize).min(chunk.len());
                    self.sent += taken;
                    return Ok(taken);
                }
                Err(Errno(libc::EAGAIN)) => self.wait()?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends all of `bytes`, for which there was room. Waits if another thread took the room.
    pub fn all(&mut self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            match self.some(bytes) {
                Ok(taken) => bytes = &bytes[taken..],
                Err(Errno(libc::EAGAIN | libc::EINTR)) => wait_object(self.object, WRITABLE, u64::MAX).or_else(unless_interrupted)?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the bytes sent. An error counts only if there are none.
    pub fn end(mut self, outcome: Result<(), Errno>) -> Result<usize, Errno> {
        if self.awaits_peer {
            // The engine has the bytes. A signal or a timeout that ends the wait changes nothing.
            let _ = self.wait();
        }
        match outcome {
            Err(error) if self.sent == 0 => {
                if error == Errno(libc::EPIPE) && self.flags & libc::MSG_NOSIGNAL == 0 {
                    actions::raise_all(1 << libc::SIGPIPE);
                }
                Err(error)
            }
            _ => Ok(self.sent),
        }
    }
}

fn unless_interrupted(error: Errno) -> Result<(), Errno> {
    if error == Errno(libc::EINTR) { Ok(()) } else { Err(error) }
}

/// Sends all parts. Fails only if no byte was sent.
pub fn send(fd: c_int, object: u32, parts: &[Readable], flags: c_int) -> Result<usize, Errno> {
    let wanted = parts.iter().map(Readable::len).sum();
    let mut sending = Sending::begin(fd, object, flags, Some(wanted));
    for part in parts {
        let mut rest = part.bytes();
        while !rest.is_empty() {
            match sending.some(rest) {
                Ok(taken) => rest = &rest[taken..],
                Err(error) => return sending.end(Err(error)),
            }
        }
    }
    sending.end(Ok(()))
}

/// Receives into the parts. Returns 0 at the end of the stream.
pub fn receive(fd: c_int, object: u32, parts: &[Writable], flags: c_int) -> Result<usize, Errno> {
    pay_for_call();
    receive_more(fd, object, parts, flags)
}

/// Receives into the parts as a part of a call that is paid for.
pub fn receive_more(fd: c_int, object: u32, parts: &[Writable], flags: c_int) -> Result<usize, Errno> {
    if flags & libc::MSG_OOB != 0 && is_modelled() {
        return receive_urgent(object, parts, flags);
    }
    let wanted: usize = parts.iter().map(Writable::len).sum();
    let peek = flags & libc::MSG_PEEK != 0;
    let mut cursor = Cursor::new(parts);
    let mut deadline = None;
    let mut received = 0;
    let mut paid = 0;
    while received < wanted {
        let Some(room) = cursor.room() else { break };
        let len_max = room.len().min(CHUNK_BYTES);
        let rest = u32::try_from(wanted.saturating_sub(received + len_max)).unwrap_or(u32::MAX);
        let request = SocketReceive { object, len_max: len_max as u32, peek: u32::from(peek), flags: paid, rest, reserved: 0 };
        paid = stream::IS_PAID;
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

/// Receives the urgent byte, for which no call waits.
fn receive_urgent(object: u32, parts: &[Writable], flags: c_int) -> Result<usize, Errno> {
    let mut cursor = Cursor::new(parts);
    let mut none = [0; 1];
    let room = cursor.room().unwrap_or(&mut none);
    let peek = u32::from(flags & libc::MSG_PEEK != 0);
    let request = SocketReceive { object, len_max: 1, peek, flags: stream::URGENT, rest: 0, reserved: 0 };
    client::call_with_tail::<op::SocketReceive>(&request, &[], &mut room[..1]).map(|(_, taken)| taken)
}
