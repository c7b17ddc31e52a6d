//! The devices of management datagrams, `/dev/infiniband/umadN` and `issmN`, and the descriptors of
//! the connection manager's ([`connections`]).
//!
//! In the host's folder they are links to a device that does nothing. Its descriptor stands for the
//! engine's object, with the program's flags. At wall pace programs wait in the kernel for `umadN`,
//! so a socket takes its place, on which the engine sends short MADs, and a byte for each long one.

use crate::clib::args::{InOut, Text};
use crate::clib::buffers::{Cursor, Readable, Writable};
use crate::clib::real;
use crate::fd::descriptors::wait_or_again;
use crate::fd::{connections, mad_posts};
use crate::runtime::world::{active, errno, fail, walled};
use crate::time::pace::pay_for_call;
use libc::{c_int, c_ulong, ssize_t};
use rustix::fd::{AsRawFd, OwnedFd};
use softband_client::fds::{Entry, Kind};
use softband_client::{self as client, Errno, fds, warn};
use softband_ipc::calls::readiness::READABLE;
use softband_ipc::calls::{MadAgent, MadAgentName, MadOpen, MadReceive, MadSend, Object, op};
use softband_ipc::layout::PAYLOAD_BYTES;
use softband_ipc::post::SHORT_MAD_BYTES;

const MANAGEMENT: &[u8] = b"/dev/infiniband/umad";
const SUBNET_MANAGER: &[u8] = b"/dev/infiniband/issm";
/// Most bytes that one call carries.
const CHUNK_BYTES: usize = PAYLOAD_BYTES - 64;

/// Requests of `rdma/ib_user_ioctl_cmds.h` and `ib_user_mad.h`.
const REGISTER_AGENT: c_ulong = 0xC01C_1B01;
const UNREGISTER_AGENT: c_ulong = 0x4004_1B02;
const ENABLE_PKEY: c_ulong = 0x1B03;
const REGISTER_AGENT2: c_ulong = 0xC028_1B04;
/// `IB_USER_MAD_USER_RMPP`, the only flag of the newer request.
const OWN_RMPP: u32 = 1;
/// Requests that each descriptor answers.
const OF_DESCRIPTORS: [c_ulong; 3] = [libc::FIONBIO, libc::FIOCLEX, 0x5450];

/// `struct ib_user_mad_reg_req`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Agent {
    id: u32,
    methods: [u32; 4],
    qpn: u8,
    class: u8,
    class_version: u8,
    oui: [u8; 3],
    rmpp_version: u8,
    padding: u8,
}

/// `struct ib_user_mad_reg_req2`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Agent2 {
    id: u32,
    qpn: u32,
    class: u8,
    class_version: u8,
    reserved: u16,
    flags: u32,
    methods: [u64; 2],
    oui: u32,
    rmpp_version: u8,
    padding: [u8; 3],
}

const _: () = assert!(size_of::<Agent>() == 28 && size_of::<Agent2>() == 40);

/// Returns the device that a path names: its kind and its number.
fn device(path: &[u8]) -> Option<(Kind, u32)> {
    let number = |prefix: &[u8]| std::str::from_utf8(path.strip_prefix(prefix)?).ok()?.parse().ok();
    // Nearly every path ends here.
    if !path.starts_with(b"/dev/infiniband/") {
        return None;
    }
    if path == connections::DEVICE {
        return Some((Kind::ConnectionManager, 0));
    }
    let management = number(MANAGEMENT).map(|number| (Kind::ManagementDevice, number));
    management.or_else(|| number(SUBNET_MANAGER).map(|number| (Kind::SubnetManager, number)))
}

/// Makes the descriptor of an opened device stand for the engine's object. Leaves all other
/// descriptors.
pub fn opened(path: Text, flags: c_int, fd: c_int) -> c_int {
    if fd < 0 || flags & libc::O_PATH != 0 {
        return fd;
    }
    let Some((kind, number)) = path.bytes().and_then(device) else { return fd };
    if !(active() || walled()) {
        return fd;
    }
    match open(kind, number, flags, fd) {
        Ok(()) => fd,
        Err(Errno(error)) => {
            real::close(fd);
            fail(error)
        }
    }
}

fn open(kind: Kind, device: u32, flags: c_int, fd: c_int) -> Result<(), Errno> {
    let request = MadOpen { device, is_manager: u32::from(kind == Kind::SubnetManager) };
    let opened = if kind == Kind::ConnectionManager { client::call::<op::CmOpen>(&()) } else { client::call::<op::MadOpen>(&request) };
    let object = match opened {
        Ok(opened) => opened.object,
        Err(Errno(libc::EBUSY)) if flags & libc::O_NONBLOCK != 0 => return Err(Errno(libc::EAGAIN)),
        Err(Errno(libc::EBUSY)) => {
            warn::once("a second open of issmN fails with EBUSY; the kernel would wait for the first subnet manager");
            return Err(Errno(libc::EBUSY));
        }
        Err(error) => return Err(error),
    };
    let placed = if walled() && kind != Kind::SubnetManager { place_socket(object, flags, fd) } else { Ok(()) };
    let placed = placed.and_then(|()| if fds::register(fd, Entry { kind, object }) { Ok(()) } else { Err(Errno(libc::EMFILE)) });
    if placed.is_ok() && walled() && kind == Kind::ManagementDevice {
        mad_posts::note_open(object);
    }
    if placed.is_err() {
        let _ = client::call::<op::ObjectClose>(&Object { object, reserved: 0 });
    }
    placed
}

/// Notes that a descriptor of an object closes. Another may go on.
pub fn note_close(entry: Entry) {
    if walled() && entry.kind == Kind::ManagementDevice {
        mad_posts::note_close(entry.object);
    }
}

/// Puts the socket of an object in the place of `fd`. An exec closes it, because the new image has
/// no object.
fn place_socket(object: u32, flags: c_int, fd: c_int) -> Result<(), Errno> {
    let socket: OwnedFd = client::event_socket(object)?;
    if real::dup3(socket.as_raw_fd(), fd, libc::O_CLOEXEC) < 0 {
        return Err(Errno(errno()));
    }
    if flags & libc::O_NONBLOCK != 0 {
        // SAFETY: F_SETFL takes flags.
        unsafe { real::fcntl(fd, libc::F_SETFL, (libc::O_NONBLOCK | libc::O_RDWR) as usize) };
    }
    Ok(())
}

/// Returns the object behind a descriptor of these devices, in both paces.
pub fn entry(fd: c_int) -> Option<Entry> {
    let is_device = |entry: &Entry| matches!(entry.kind, Kind::ManagementDevice | Kind::SubnetManager | Kind::ConnectionManager);
    fds::lookup(fd).filter(is_device).filter(|_| active() || walled())
}

/// Transfers the parts one by one, as the kernel does for a device without lists. Stops at the first
/// that is cut short.
fn each<Part: Copy>(parts: &[Part], len: impl Fn(Part) -> usize, mut transfer: impl FnMut(Part) -> Result<usize, Errno>) -> ssize_t {
    let mut whole = 0;
    for part in parts {
        match transfer(*part) {
            Ok(count) => {
                whole += count;
                if count < len(*part) {
                    break;
                }
            }
            Err(_) if whole > 0 => break,
            Err(Errno(error)) => return fail(error),
        }
    }
    whole as ssize_t
}

/// Writes MADs or commands, one from each part.
pub fn write(fd: c_int, entry: Entry, parts: &[Readable]) -> ssize_t {
    each(
        parts,
        |part| part.len(),
        |part| match entry.kind {
            Kind::ManagementDevice => send(entry.object, part.bytes()),
            Kind::ConnectionManager => connections::write(fd, entry, part),
            _ => Err(Errno(libc::EINVAL)),
        },
    )
}

fn send(object: u32, bytes: &[u8]) -> Result<usize, Errno> {
    pay_for_call();
    if walled() && mad_posts::try_post(object, bytes) {
        return Ok(bytes.len());
    }
    let _one_at_a_time = walled().then(mad_posts::transfer);
    let mut offset = 0;
    loop {
        let part = &bytes[offset..bytes.len().min(offset + CHUNK_BYTES)];
        let more = u32::from(offset + part.len() < bytes.len());
        let request = MadSend { object, len: part.len() as u32, offset: offset as u32, more };
        client::call_with_tail::<op::MadSend>(&request, part, &mut [])?;
        if more == 0 {
            return Ok(bytes.len());
        }
        offset += part.len();
    }
}

/// Reads MADs, one into each part.
pub fn read(fd: c_int, entry: Entry, parts: &[Writable]) -> ssize_t {
    each(
        parts,
        |part| part.len(),
        |part| if entry.kind == Kind::ManagementDevice { receive(fd, entry.object, part) } else { Err(Errno(libc::EINVAL)) },
    )
}

fn receive(fd: c_int, object: u32, room: Writable) -> Result<usize, Errno> {
    pay_for_call();
    if walled() {
        return receive_by_socket(fd, object, room);
    }
    loop {
        match take(object, room) {
            Err(Errno(libc::EAGAIN)) => wait_or_again(fd, object, READABLE, u64::MAX)?,
            outcome => return outcome,
        }
    }
}

/// Reads a MAD at wall pace. The socket carries short ones, and a byte for each longer one.
fn receive_by_socket(fd: c_int, object: u32, room: Writable) -> Result<usize, Errno> {
    loop {
        if let Some(record) = mad_posts::take_left(object) {
            return put(object, &record, room);
        }
        let mut record = [0u8; SHORT_MAD_BYTES];
        let has_room = room.len() >= SHORT_MAD_BYTES;
        if !has_room {
            // A reader with too little room leaves the MAD to the next.
            let seen = receive_packet(fd, &mut record, libc::MSG_PEEK)?;
            if seen > 1 && room.len() < seen {
                return Err(Errno(libc::EINVAL));
            }
        }
        let count = match receive_packet(fd, &mut record, if has_room { 0 } else { libc::MSG_DONTWAIT }) {
            // Another thread took what this one had seen.
            Err(Errno(libc::EAGAIN)) if !has_room => continue,
            outcome => outcome?,
        };
        if count > 1 {
            return put(object, &record[..count], room);
        }
        match take(object, room) {
            // Another thread took the MAD.
            Err(Errno(libc::EAGAIN)) => {}
            outcome => return outcome,
        }
    }
}

/// Gives a record from the socket to the reader. Without room, it stays for the next reader: another
/// thread took the one that this reader had seen.
fn put(object: u32, record: &[u8], room: Writable) -> Result<usize, Errno> {
    if room.len() < record.len() {
        mad_posts::leave(object, record);
        return Err(Errno(libc::EINVAL));
    }
    room.put_at(0, record);
    mad_posts::note_read(object, record);
    Ok(record.len())
}

fn receive_packet(fd: c_int, into: &mut [u8], flags: c_int) -> Result<usize, Errno> {
    // SAFETY: there is room for the length.
    let count = unsafe { real::recv(fd, into.as_mut_ptr().cast(), into.len(), flags) };
    usize::try_from(count).map_err(|_| Errno(errno()))
}

/// Takes the byte that announces a MAD or an event. The kernel waits for it, unless the descriptor does not wait.
pub(super) fn await_byte(fd: c_int) -> Result<(), Errno> {
    let mut byte = 0u8;
    // SAFETY: there is room for one byte.
    let count = unsafe { real::recv(fd, (&raw mut byte).cast(), 1, 0) };
    if count < 0 { Err(Errno(errno())) } else { Ok(()) }
}

/// Takes the next MAD from the engine, in parts if it is long.
fn take(object: u32, room: Writable) -> Result<usize, Errno> {
    let _one_at_a_time = walled().then(mad_posts::transfer);
    let parts = [room];
    let mut cursor = Cursor::new(&parts);
    let (mut offset, mut error) = (0, 0);
    loop {
        let request = MadReceive { object, room: u32::try_from(room.len()).unwrap_or(u32::MAX), offset: offset as u32, reserved: 0 };
        let rest = cursor.room().unwrap_or_default();
        let (head, count) = client::call_with_tail::<op::MadReceive>(&request, &[], rest)?;
        if offset == 0 && head.error == 0 {
            mad_posts::note_read(object, &rest[..count]);
        }
        cursor.advance(count);
        offset += count;
        // The first reply alone has the error.
        error = head.error.max(error);
        if count == 0 || offset >= head.whole as usize {
            return if error == 0 { Ok(offset) } else { Err(Errno(error as c_int)) };
        }
    }
}

/// Answers `ioctl`. Returns `None` if the kernel has to.
///
/// # Safety
/// The argument is what the request takes.
pub unsafe fn control(entry: Entry, request: c_ulong, argument: usize) -> Option<c_int> {
    let request = request & c_ulong::from(u32::MAX);
    if OF_DESCRIPTORS.contains(&request) {
        return None;
    }
    if entry.kind != Kind::ManagementDevice {
        return Some(fail(libc::ENOTTY));
    }
    let object = entry.object;
    // SAFETY: each request takes the address of its structure, or nothing.
    let outcome = unsafe {
        match request {
            REGISTER_AGENT => register(object, InOut::from_raw(argument as *mut Agent)),
            REGISTER_AGENT2 => register2(object, InOut::from_raw(argument as *mut Agent2)),
            UNREGISTER_AGENT => unregister(object, InOut::from_raw(argument as *mut u32)),
            ENABLE_PKEY => client::call::<op::MadEnablePkey>(&Object { object, reserved: 0 }).inspect(|()| mad_posts::note_pkey_index(object)),
            _ => Err(Errno(libc::ENOTTY)),
        }
    };
    Some(match outcome {
        Ok(()) => 0,
        Err(Errno(error)) => fail(error),
    })
}

/// Returns the bytes of the argument of a request, or 0 for another request.
pub fn argument_bytes(request: c_ulong) -> usize {
    match request & c_ulong::from(u32::MAX) {
        REGISTER_AGENT => size_of::<Agent>(),
        REGISTER_AGENT2 => size_of::<Agent2>(),
        UNREGISTER_AGENT => size_of::<u32>(),
        _ => 0,
    }
}

fn unregister(object: u32, id: InOut<u32>) -> Result<(), Errno> {
    let id = id.get().ok_or(Errno(libc::EFAULT))?;
    client::call::<op::MadUnregister>(&MadAgentName { object, id }).inspect(|()| mad_posts::note_no_agent(object, id))
}

fn register_with_engine(wanted: &MadAgent) -> Result<u32, Errno> {
    let id = client::call::<op::MadRegister>(wanted)?.id;
    mad_posts::note_agent(wanted.object, id, wanted.is_newer != 0, wanted.qpn == 0 && wanted.rmpp_version == 0);
    Ok(id)
}

fn register(object: u32, asked: InOut<Agent>) -> Result<(), Errno> {
    let agent = asked.get().ok_or(Errno(libc::EFAULT))?;
    let [a, b, c, d] = agent.methods.map(u64::from);
    let [x, y, z] = agent.oui;
    let wanted = MadAgent {
        object,
        id: 0,
        qpn: agent.qpn.into(),
        class: agent.class.into(),
        class_version: agent.class_version.into(),
        oui: u32::from_be_bytes([0, x, y, z]),
        rmpp_version: agent.rmpp_version.into(),
        own_rmpp: 0,
        is_newer: 0,
        reserved: 0,
        methods: [a | b << 32, c | d << 32],
    };
    let id = register_with_engine(&wanted)?;
    asked.set(Agent { id, ..agent });
    Ok(())
}

fn register2(object: u32, asked: InOut<Agent2>) -> Result<(), Errno> {
    let agent = asked.get().ok_or(Errno(libc::EFAULT))?;
    if agent.flags & !OWN_RMPP != 0 {
        // The kernel names the flags that it knows.
        asked.set(Agent2 { flags: OWN_RMPP, ..agent });
        return Err(Errno(libc::EINVAL));
    }
    let wanted = MadAgent {
        object,
        id: 0,
        qpn: agent.qpn,
        class: agent.class.into(),
        class_version: agent.class_version.into(),
        oui: agent.oui,
        rmpp_version: agent.rmpp_version.into(),
        own_rmpp: agent.flags & OWN_RMPP,
        is_newer: 1,
        reserved: 0,
        methods: agent.methods,
    };
    let id = register_with_engine(&wanted)?;
    asked.set(Agent2 { id, ..agent });
    Ok(())
}

/// Lets a status name the device that the descriptor stands for: libraries look at the type.
pub fn correct_status(fd: c_int, status: &mut libc::stat) {
    if entry(fd).is_some() {
        status.st_mode = libc::S_IFCHR | status.st_mode & !libc::S_IFMT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_names_are_devices() {
        assert_eq!(device(b"/dev/infiniband/umad0"), Some((Kind::ManagementDevice, 0)));
        assert_eq!(device(b"/dev/infiniband/umad12"), Some((Kind::ManagementDevice, 12)));
        assert_eq!(device(b"/dev/infiniband/issm1"), Some((Kind::SubnetManager, 1)));
        for path in ["", "/dev/infiniband/umad", "/dev/infiniband/umad1/x", "/dev/infiniband/uverbs0", "umad0", "/dev/infiniband/umadness"] {
            assert_eq!(device(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn a_list_stops_at_a_short_part() {
        let transfer = |outcomes: &[Result<usize, Errno>]| {
            let mut left = outcomes.iter();
            each(&[4usize, 4, 4], |len| len, |_| *left.next().expect("no further part"))
        };
        assert_eq!(transfer(&[Ok(4), Ok(4), Ok(4)]), 12);
        assert_eq!(transfer(&[Ok(4), Ok(1)]), 5);
        assert_eq!(transfer(&[Ok(4), Err(Errno(libc::EAGAIN))]), 4);
        assert_eq!(transfer(&[Err(Errno(libc::EAGAIN))]), -1);
    }
}
