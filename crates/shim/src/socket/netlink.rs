//! Route sockets (netlink(7)), by which programs list interfaces, routes and HCAs. The socket is a local
//! datagram socket that is connected to itself: this library puts the answers to a request into
//! its own queue, so the kernel provides all waits. Answers beyond the room of the queue wait in this
//! library, and follow when the program takes others.

use super::address::Given;
use super::{diag, interfaces, route};
use crate::clib::args::InOut;
use crate::clib::buffers::Readable;
use crate::clib::real;
use crate::process::pid;
use crate::runtime::world::{errno, fail, keeping_errno};
use libc::{c_int, sa_family_t, sockaddr, sockaddr_nl, socklen_t, ssize_t};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const TYPE_FLAGS: c_int = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
const SIZE: usize = size_of::<sockaddr_nl>();
const FDS_MAX: usize = 4096;

/// Port of each route socket by descriptor; 0 for other descriptors.
static PORTS: [AtomicU32; FDS_MAX] = [const { AtomicU32::new(0) }; FDS_MAX];
/// Whether a route socket asks for sockets (sock_diag(7)).
static DIAGNOSES: [AtomicBool; FDS_MAX] = [const { AtomicBool::new(false) }; FDS_MAX];
static USED: AtomicBool = AtomicBool::new(false);

/// Answers that wait for room in the queue of a socket.
type Waiting = Arc<Mutex<VecDeque<Vec<u8>>>>;
/// Waiting answers by descriptor. Copies of a descriptor share them.
static WAITING: Mutex<BTreeMap<c_int, Waiting>> = Mutex::new(BTreeMap::new());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn waiting(fd: c_int) -> Option<Waiting> {
    port(fd)?;
    locked(&WAITING).get(&fd).cloned()
}

fn cell(fd: c_int) -> Option<&'static AtomicU32> {
    usize::try_from(fd).ok().and_then(|fd| PORTS.get(fd))
}

fn port(fd: c_int) -> Option<u32> {
    if !USED.load(Ordering::Acquire) {
        return None;
    }
    cell(fd).map(|cell| cell.load(Ordering::Acquire)).filter(|port| *port != 0)
}

#[inline]
pub fn is_route_socket(fd: c_int) -> bool {
    port(fd).is_some()
}

/// Notes that the descriptor closes.
pub fn forget(fd: c_int) {
    if is_route_socket(fd)
        && let Some(cell) = cell(fd)
    {
        cell.store(0, Ordering::Release);
        locked(&WAITING).remove(&fd);
    }
}

/// Notes that `copy` is a copy of `fd`.
pub fn also(fd: c_int, copy: c_int) {
    if let (Some(port), Some(cell)) = (port(fd), cell(copy)) {
        cell.store(port, Ordering::Release);
        if let Some(answers) = waiting(fd) {
            locked(&WAITING).insert(copy, answers);
        }
        if let (Some(of), Some(copy)) = (diagnoses(fd), diagnoses(copy)) {
            copy.store(of.load(Ordering::Acquire), Ordering::Release);
        }
    }
}

fn diagnoses(fd: c_int) -> Option<&'static AtomicBool> {
    usize::try_from(fd).ok().and_then(|fd| DIAGNOSES.get(fd))
}

/// Creates a socket of a protocol with the flags of `kind`.
pub fn open(kind: c_int, protocol: c_int) -> c_int {
    let fd = real::socket(libc::AF_UNIX, libc::SOCK_DGRAM | kind & TYPE_FLAGS, 0);
    if fd < 0 {
        return fd;
    }
    let Some(cell) = cell(fd).filter(|_| connect_to_itself(fd)) else {
        real::close(fd);
        return fail(libc::EMFILE);
    };
    cell.store(pid::own_number() as u32, Ordering::Release);
    if let Some(diagnoses) = diagnoses(fd) {
        diagnoses.store(protocol == libc::NETLINK_SOCK_DIAG, Ordering::Release);
    }
    locked(&WAITING).insert(fd, Waiting::default());
    USED.store(true, Ordering::Release);
    fd
}

/// Gives the socket a name of the kernel's choice, and connects it to this name.
fn connect_to_itself(fd: c_int) -> bool {
    let mut name = [0u8; size_of::<libc::sockaddr_un>()];
    let family = size_of::<sa_family_t>() as socklen_t;
    name[..size_of::<sa_family_t>()].copy_from_slice(&(libc::AF_UNIX as sa_family_t).to_ne_bytes());
    let mut len = name.len() as socklen_t;
    // SAFETY: the buffer has the given lengths.
    unsafe {
        real::bind(fd, name.as_ptr().cast(), family) == 0
            && real::getsockname(fd, name.as_mut_ptr().cast(), InOut::of(&mut len)) == 0
            && real::connect(fd, name.as_ptr().cast(), len) == 0
    }
}

/// `bind` of a route socket. Returns `None` for other sockets.
pub fn bind(fd: c_int, at: Given) -> Option<c_int> {
    port(fd)?;
    if at.family() != libc::AF_NETLINK || (at.len() as usize) < SIZE {
        return Some(fail(libc::EINVAL));
    }
    // SAFETY: the address has the bytes of a `sockaddr_nl`, which consists of numbers.
    let wanted = unsafe { at.as_ptr().cast::<sockaddr_nl>().read_unaligned() }.nl_pid;
    if wanted != 0
        && let Some(cell) = cell(fd)
    {
        cell.store(wanted, Ordering::Release);
    }
    Some(0)
}

/// Writes the address of a port, truncated to the available room.
///
/// # Safety
/// `out` is null or has room for `room` bytes.
unsafe fn write(port: u32, out: *mut sockaddr, room: Option<socklen_t>, len: InOut<socklen_t>) {
    let Some(room) = room.filter(|_| !out.is_null()) else { return };
    let mut bytes = [0u8; SIZE];
    bytes[..2].copy_from_slice(&(libc::AF_NETLINK as sa_family_t).to_ne_bytes());
    bytes[4..8].copy_from_slice(&port.to_ne_bytes());
    // SAFETY: `out` has room for `room` bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast::<u8>(), SIZE.min(room as usize)) };
    len.set(SIZE as socklen_t);
}

/// Writes the kernel's address, which sends all answers.
///
/// # Safety
/// `from` is null or has room for `room` bytes.
pub unsafe fn write_sender(from: *mut sockaddr, room: Option<socklen_t>, len: InOut<socklen_t>) {
    // SAFETY: the room is the caller's.
    unsafe { write(0, from, room, len) };
}

/// `getsockname` of a route socket. Returns `None` for other sockets.
///
/// # Safety
/// `out` is null or has room for `*len` bytes.
pub unsafe fn name(fd: c_int, out: *mut sockaddr, len: InOut<socklen_t>) -> Option<c_int> {
    let port = port(fd)?;
    // SAFETY: the room is the caller's.
    unsafe { write(port, out, len.get(), len) };
    Some(0)
}

/// Takes requests, and puts the answers into the queue of the socket.
pub fn send(fd: c_int, parts: &[Readable]) -> ssize_t {
    let request: Vec<u8> = parts.iter().flat_map(|part| part.bytes().iter().copied()).collect();
    let port = port(fd).unwrap_or(0);
    let is_diag = diagnoses(fd).is_some_and(|diagnoses| diagnoses.load(Ordering::Acquire));
    let network = || route::answers(&request, (&interfaces::own(), &interfaces::routes()), port);
    let answers = if is_diag { diag::answers(&request, port) } else { network() };
    match put(fd, answers) {
        Ok(()) => request.len() as ssize_t,
        Err(errno) => fail(errno),
    }
}

/// Appends answers to the queue of a socket, or to those that wait for room there.
fn put(fd: c_int, answers: Vec<Vec<u8>>) -> Result<(), c_int> {
    let waiting = waiting(fd).ok_or(libc::EBADF)?;
    let mut waiting = locked(&waiting);
    waiting.extend(answers);
    fill(fd, &mut waiting)
}

/// Moves answers into the queue of a socket until it is full. Fails if the kernel takes none at all.
fn fill(fd: c_int, waiting: &mut VecDeque<Vec<u8>>) -> Result<(), c_int> {
    while let Some(first) = waiting.front() {
        // SAFETY: the bytes are those of the answer.
        if unsafe { real::send(fd, first.as_ptr().cast(), first.len(), libc::MSG_DONTWAIT) } < 0 {
            if errno() == libc::EAGAIN {
                return Ok(());
            }
            waiting.clear();
            return Err(libc::ENOBUFS);
        }
        waiting.pop_front();
    }
    Ok(())
}

/// Lets waiting answers into the queue of a socket, from which the program may have taken others.
pub fn note_taken(fd: c_int) {
    if let Some(waiting) = waiting(fd) {
        // The program gets the error of a socket at its next call.
        keeping_errno(|| {
            let _ = fill(fd, &mut locked(&waiting));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_beyond_the_room_of_the_queue_follow_when_others_are_taken() {
        const COUNT: usize = 5_000;
        let fd = open(libc::SOCK_RAW, libc::NETLINK_SOCK_DIAG);
        assert!(fd >= 0);
        let answers = (0..COUNT).map(|number| [&number.to_ne_bytes()[..], &[0; 1_000]].concat()).collect();
        assert_eq!(put(fd, answers), Ok(()));
        let mut room = [0; 2_000];
        for number in 0..COUNT {
            // SAFETY: the room has the given length.
            let len = unsafe { real::recv(fd, room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT) };
            assert_eq!((len, room.first_chunk()), (1_008, Some(&number.to_ne_bytes())));
            note_taken(fd);
        }
        assert!(locked(&waiting(fd).unwrap()).is_empty());
        forget(fd);
        assert!(waiting(fd).is_none());
        real::close(fd);
    }
}
