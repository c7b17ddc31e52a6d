//! The device of the connection manager, `/dev/infiniband/rdma_cm` (`rdma/rdma_user_cm.h`).
//!
//! A program writes commands. A command has the address of the room for its reply, which is there
//! before `write` returns. Its descriptor is like those of MAD devices ([`super::management`]).

use crate::clib::buffers::{Readable, Writable};
use crate::clib::real;
use crate::fd::descriptors::wait_or_again;
use crate::fd::management::await_byte;
use crate::runtime::world::walled;
use crate::time::pace::pay_for_call;
use libc::{c_int, c_void};
use softband_client::fds::{Entry, Kind};
use softband_client::{self as client, Errno, fds};
use softband_ipc::calls::readiness::READABLE;
use softband_ipc::calls::{CmCommand, op};
use softband_ipc::layout::PAYLOAD_BYTES;

pub const DEVICE: &[u8] = b"/dev/infiniband/rdma_cm";
/// Its files below `/sys`. It is no device of an HCA, so they lie apart from those of HCAs.
pub const CLASS: &[u8] = b"/sys/class/misc/rdma_cm";

/// Bytes of a command's header: its number, its length, and the room for its reply.
const HEADER_BYTES: usize = 8;
/// Most bytes of a command or of an option's value.
const BYTES_MAX: usize = PAYLOAD_BYTES / 4;

/// Number of commands.
const COMMANDS: u32 = 23;
const CREATE_ID: u32 = 0;
const GET_EVENT: u32 = 12;
const SET_OPTION: u32 = 14;
const JOIN_IP_MULTICAST: u32 = 16;
const MIGRATE_ID: u32 = 18;
const JOIN_MULTICAST: u32 = 22;
/// Commands whose reply goes to the address at their start.
const WITH_REPLY: [u32; 9] = [1, 5, 11, GET_EVENT, JOIN_IP_MULTICAST, 17, MIGRATE_ID, 19, JOIN_MULTICAST];

/// A command as a program writes it.
struct Given<'a> {
    number: u32,
    room: usize,
    body: &'a [u8],
}

impl<'a> Given<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let half = |at: usize| Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let number = u32::from_ne_bytes(*bytes.first_chunk()?);
        let (len, room) = (half(4)?, half(6)?);
        let body = bytes.get(HEADER_BYTES..HEADER_BYTES + usize::from(len))?;
        Some(Self { number, room: room.into(), body })
    }

    fn number_at<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.body.get(at..)?.first_chunk().copied()
    }

    fn address_at(&self, at: usize) -> Option<usize> {
        self.number_at(at).map(|bytes| u64::from_ne_bytes(bytes) as usize)
    }

    /// Returns the address of the room for the reply.
    fn reply_address(&self) -> Option<usize> {
        match self.number {
            CREATE_ID => self.address_at(8),
            number if WITH_REPLY.contains(&number) => self.address_at(0),
            _ => None,
        }
    }
}

/// Carries out a command, and returns its length.
pub fn write(fd: c_int, entry: Entry, part: Readable) -> Result<usize, Errno> {
    let given = Given::parse(part.bytes()).filter(|given| given.number < COMMANDS).ok_or(Errno(libc::EINVAL))?;
    let mut body = given.body.to_vec();
    match given.number {
        MIGRATE_ID => name_channel(&given, &mut body)?,
        SET_OPTION => append_value(&given, &mut body)?,
        _ => {}
    }
    if body.len() > BYTES_MAX {
        return Err(Errno(libc::EINVAL));
    }
    pay_for_call();
    let mut reply = [0; 1024];
    let request = CmCommand { object: entry.object, number: given.number, len: body.len() as u32, room: given.room as u32 };
    let count = loop {
        if given.number == GET_EVENT && walled() {
            await_byte(fd)?;
        }
        match client::call_with_tail::<op::CmCommand>(&request, &body, &mut reply) {
            // The event is gone with its identifier, or another thread took it.
            Err(Errno(libc::EAGAIN)) if given.number == GET_EVENT && walled() => {}
            Err(Errno(libc::EAGAIN)) if given.number == GET_EVENT => wait_or_again(fd, entry.object, READABLE, u64::MAX)?,
            outcome => {
                let (head, count) = outcome?;
                if head.withdrawn > 0 && walled() {
                    announce_anew(&given, fd);
                }
                break count;
            }
        }
    };
    if let Some(address) = given.reply_address().filter(|_| count > 0) {
        // SAFETY: the command has room for its reply there, and the engine keeps to its length.
        let room = unsafe { Writable::new(address as *mut c_void, count.min(given.room)) };
        room.put_at(0, &reply[..count.min(given.room)]);
    }
    Ok(part.len())
}

/// Takes the bytes that announce events, and has the engine announce those that are left. A byte
/// without an event would let a program wait for it in vain, after a poll.
fn announce_anew(given: &Given<'_>, fd: c_int) {
    let fd = if given.number == MIGRATE_ID { given.number_at(12).map_or(fd, c_int::from_ne_bytes) } else { fd };
    let Some(entry) = fds::lookup(fd) else { return };
    let mut byte = 0u8;
    // SAFETY: there is room for one byte.
    while unsafe { real::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT) } > 0 {}
    let request = CmCommand { object: entry.object, number: CmCommand::ANNOUNCE, len: 0, room: 0 };
    let _ = client::call_with_tail::<op::CmCommand>(&request, &[], &mut []);
}

/// Puts the engine's number of a channel in the place of its descriptor.
fn name_channel(given: &Given<'_>, body: &mut [u8]) -> Result<(), Errno> {
    let fd = given.number_at(12).map(c_int::from_ne_bytes).ok_or(Errno(libc::EINVAL))?;
    let channel = fds::lookup(fd).filter(|entry| entry.kind == Kind::ConnectionManager).ok_or(Errno(libc::EINVAL))?;
    body[12..16].copy_from_slice(&channel.object.to_ne_bytes());
    Ok(())
}

/// Adds the value of an option to the command that has its address.
fn append_value(given: &Given<'_>, body: &mut Vec<u8>) -> Result<(), Errno> {
    const VALUE_AT: usize = 24;
    let (address, len) = given.address_at(0).zip(given.number_at(20).map(u32::from_ne_bytes)).ok_or(Errno(libc::EINVAL))?;
    let len = len as usize;
    if len > BYTES_MAX - VALUE_AT || address == 0 && len > 0 {
        return Err(Errno(libc::EINVAL));
    }
    body.truncate(VALUE_AT);
    // SAFETY: the program states the address and the length of its value.
    body.extend_from_slice(unsafe { Readable::new(address as *const c_void, len) }.bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_as_long_as_it_says() {
        let mut bytes = [0u8; 24];
        bytes[0] = 12;
        bytes[4] = 8;
        bytes[6] = 0x44;
        bytes[7] = 1;
        bytes[8] = 0x10;
        let given = Given::parse(&bytes).unwrap();
        assert_eq!((given.number, given.room, given.body.len(), given.reply_address()), (12, 324, 8, Some(0x10)));
        bytes[4] = 17;
        assert!(Given::parse(&bytes).is_none());
        assert!(Given::parse(&bytes[..7]).is_none());
    }

    #[test]
    fn only_some_commands_have_replies() {
        let of = |number| Given { number, room: 4, body: &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0] }.reply_address();
        assert_eq!(of(CREATE_ID), Some(2));
        assert_eq!(of(1), Some(1));
        assert_eq!(of(2), None, "BIND_IP");
    }
}
