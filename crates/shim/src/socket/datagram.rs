//! Sends and receives on the engine's datagram sockets, for all calls of the C library.

use super::address::Given;
use super::modelled::{is_modelled, pay_for_call};
use super::open::{leave_to_kernel, names, timeout_deadline};
use crate::clib::buffers::{Cursor, Readable, Writable};
use crate::fd::descriptors::{is_nonblocking, wait_object};
use crate::signal::actions;
use crate::time::pace::empty_poll;
use libc::c_int;
use softband_client::{self as client, Errno, warn};
use softband_ipc::calls::readiness::{READABLE, WRITABLE};
use softband_ipc::calls::{DatagramReceive, DatagramReceived, DatagramSend, DatagramWish, Endpoint, datagram, op};
use softband_ipc::layout::PAYLOAD_BYTES;

/// Way of a datagram without control messages.
pub const NO_WISH: DatagramWish = DatagramWish { source: [0; 16], interface: 0, hop_limit: 0 };

/// Most bytes that one call carries.
const CHUNK_BYTES: usize = PAYLOAD_BYTES - 64;

/// The outcome of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    Bytes(usize),
    /// The destination lies outside the fabric. The kernel has the descriptor now.
    LeftToKernel,
}

/// A received datagram: the bytes that fit, its length, and its addresses.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    pub len: usize,
    pub whole: usize,
    /// Its sender and destination.
    pub head: DatagramReceived,
}

/// Waits for `interest`. In nonblocking mode, fails with `EAGAIN`.
fn wait(fd: c_int, object: u32, flags: c_int, interest: u32, deadline: u64) -> Result<(), Errno> {
    if flags & libc::MSG_DONTWAIT != 0 || is_nonblocking(fd) {
        empty_poll();
        return Err(Errno(libc::EAGAIN));
    }
    wait_object(object, interest, deadline)
}

/// Returns address and flags of a destination.
fn destination(to: Option<Given>) -> Result<(Endpoint, u32), Errno> {
    let Some(to) = to else { return Ok((Endpoint::v4((0, 0)), datagram::NO_ADDRESS)) };
    let at = to.endpoint()?;
    if to.read().is_none() && !is_modelled() {
        return Err(Errno(libc::ENETUNREACH));
    }
    Ok((at, to.family_flag()))
}

/// Sends the parts as one datagram, to `to` or to the peer.
pub fn send(fd: c_int, object: u32, parts: &[Readable], (to, way): (Option<Given>, DatagramWish), flags: c_int) -> Result<Sent, Errno> {
    pay_for_call();
    if flags & (libc::MSG_OOB | libc::MSG_MORE) != 0 {
        warn::once("datagram sockets support neither MSG_OOB nor MSG_MORE in simulated time");
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let mut gathered = Vec::new();
    let bytes = if let [part] = parts {
        part.bytes()
    } else {
        parts.iter().for_each(|part| gathered.extend_from_slice(part.bytes()));
        &gathered
    };
    let mut deadline = None;
    loop {
        let error = match destination(to).and_then(|to| send_once(object, bytes, to, way)) {
            Ok(()) => return Ok(Sent::Bytes(bytes.len())),
            Err(error) => error,
        };
        match error {
            Errno(libc::EAGAIN) => {
                let deadline = *deadline.get_or_insert_with(|| timeout_deadline(fd, libc::SO_SNDTIMEO));
                wait(fd, object, flags, WRITABLE, deadline)?;
            }
            Errno(libc::ENETUNREACH) if leave(fd, object) => return Ok(Sent::LeftToKernel),
            Errno(libc::EPIPE) => {
                if flags & libc::MSG_NOSIGNAL == 0 {
                    actions::raise_all(1 << libc::SIGPIPE);
                }
                return Err(error);
            }
            _ => return Err(error),
        }
    }
}

/// Passes a datagram to the engine, in parts if it is long.
fn send_once(object: u32, bytes: &[u8], (to, to_flags): (Endpoint, u32), way: DatagramWish) -> Result<(), Errno> {
    let mut offset = 0;
    loop {
        let part = &bytes[offset..bytes.len().min(offset + CHUNK_BYTES)];
        let is_last = offset + part.len() == bytes.len();
        let flags = if is_last { to_flags } else { to_flags | datagram::MORE };
        let request = DatagramSend { object, len: part.len() as u32, offset: offset as u32, flags, to, way };
        client::call_with_tail::<op::DatagramSend>(&request, part, &mut [])?;
        if is_last {
            return Ok(());
        }
        offset += part.len();
    }
}

/// Hands a socket to the kernel, because its destination lies outside the fabric. Returns false if
/// the fabric already knows its port.
fn leave(fd: c_int, object: u32) -> bool {
    let Ok(names) = names(object) else { return false };
    if names.local.port != 0 && names.connected == 0 {
        return false;
    }
    warn::once("datagrams to addresses outside the fabric go by the machine's network, outside simulated time");
    let peer = (names.connected != 0).then_some(names.peer);
    leave_to_kernel(fd);
    if let Some(peer) = peer {
        let (bytes, len) = super::address::encode(super::open::family(fd), &peer);
        super::address::connect_natively(fd, Given::of(&bytes, len as libc::socklen_t));
    }
    true
}

/// Receives a datagram into the parts. The rest of a longer datagram is lost.
pub fn receive(fd: c_int, object: u32, parts: &[Writable], flags: c_int) -> Result<Taken, Errno> {
    pay_for_call();
    if flags & libc::MSG_ERRQUEUE != 0 {
        return Err(Errno(libc::EAGAIN));
    }
    let peek = u32::from(flags & libc::MSG_PEEK != 0);
    let mut cursor = Cursor::new(parts);
    let mut deadline = None;
    let mut taken: Option<Taken> = None;
    loop {
        let offset = taken.map_or(0, |taken| taken.len);
        let room = cursor.room();
        if let Some(taken) = taken
            && (room.is_none() || taken.len == taken.whole)
        {
            return Ok(taken);
        }
        let room = room.unwrap_or_default();
        let len_max = room.len().min(CHUNK_BYTES);
        let request = DatagramReceive { object, len_max: len_max as u32, peek, offset: offset as u32 };
        match client::call_with_tail::<op::DatagramReceive>(&request, &[], &mut room[..len_max]) {
            Ok((head, len)) => {
                let len = len.min(len_max);
                cursor.advance(len);
                taken = Some(Taken { len: offset + len, whole: head.whole as usize, head });
                if len_max == 0 {
                    return taken.ok_or(Errno(libc::EAGAIN));
                }
            }
            Err(Errno(libc::EAGAIN)) => {
                let deadline = *deadline.get_or_insert_with(|| timeout_deadline(fd, libc::SO_RCVTIMEO));
                wait(fd, object, flags, READABLE, deadline)?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns the length of the next datagram, or 0.
pub fn next_len(object: u32) -> usize {
    pay_for_call();
    let request = DatagramReceive { object, len_max: 0, peek: 1, offset: 0 };
    client::call_with_tail::<op::DatagramReceive>(&request, &[], &mut []).map_or(0, |(head, _)| head.whole as usize)
}
