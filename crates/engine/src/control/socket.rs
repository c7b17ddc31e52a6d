//! The control socket. Its thread hears programs come, come back and go, while the engine follows
//! its own order.

use crate::control::admission::{Admission, Peer};
use crate::control::quota::Quota;
use crate::procfs::{View, hidden_number};
use rustix::event::epoll;
use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use softband_ipc::attach::{FileRequest, Hello, SocketRequest, Welcome, Word, word};
use softband_ipc::command::Command;
use softband_ipc::environment;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

/// Interval at which an engine that waits for a program looks around: for the program's end, for
/// Ctrl-C, for a loop that spins on memory.
const WATCH_INTERVAL: std::time::Duration = std::time::Duration::from_millis(2);

/// An event from outside the engine's own thread.
#[derive(Debug)]
pub(crate) enum ControlEvent {
    /// A process image says hello. `pid` comes from the kernel, not from the program. In a shared
    /// fabric it is the number of a hidden process, which shows itself by the `view`.
    Hello { connection: u64, socket: OwnedFd, hello: Hello, pid: i32, view: Option<View> },
    /// A thread that was away waits for the token.
    Back { connection: u64, slot: u32 },
    /// A process image is gone (ended, killed or replaced).
    Closed { connection: u64 },
    /// The command line sends a command.
    Command { socket: OwnedFd, pid: i32, command: Command },
    /// A program's first process has ended.
    Exited { program: usize, status: i32 },
}

impl ControlEvent {
    /// Returns the connection of a `Closed` event.
    pub(crate) fn closed(&self) -> Option<u64> {
        match self {
            Self::Closed { connection } => Some(*connection),
            _ => None,
        }
    }
}

/// The queue of events for the engine, and the means to wake an engine that waits for a program.
pub(crate) struct Mailbox {
    sender: Sender<ControlEvent>,
    filled: AtomicBool,
    waiting_on: AtomicPtr<AtomicU32>,
    bell: Mutex<Option<Bell>>,
}

/// A word that counts events.
struct Bell(*const AtomicU32);
// SAFETY: any thread may use an atomic. The setter of the bell keeps its memory until it takes the
// bell away.
unsafe impl Send for Bell {}

impl Mailbox {
    pub(crate) fn new() -> (Arc<Self>, Receiver<ControlEvent>) {
        let (sender, receiver) = std::sync::mpsc::channel();
        let mailbox = Self { sender, filled: AtomicBool::new(false), waiting_on: AtomicPtr::new(std::ptr::null_mut()), bell: Mutex::new(None) };
        (Arc::new(mailbox), receiver)
    }

    pub(crate) fn put(&self, event: ControlEvent) {
        let _ = self.sender.send(event);
        self.filled.store(true, Ordering::SeqCst);
        self.call();
    }

    /// Wakes an engine that sleeps in wall pace, or is about to.
    pub(crate) fn call(&self) {
        if let Ok(bell) = self.bell.lock()
            && let Some(Bell(word)) = &*bell
        {
            // SAFETY: the word exists as long as the bell, and the lock holds the bell in place.
            unsafe { &**word }.fetch_add(1, Ordering::SeqCst);
        }
        self.nudge();
    }

    /// Sets the word that each event changes, until the next call. An engine that is about to sleep
    /// on the word then stays awake.
    pub(crate) fn ring(&self, bell: Option<&AtomicU32>) {
        *self.bell.lock().unwrap_or_else(PoisonError::into_inner) = bell.map(|word| Bell(word));
    }

    /// Lets the engine look around if it waits for a program.
    fn nudge(&self) {
        let word = self.waiting_on.load(Ordering::SeqCst);
        if !word.is_null() {
            // A late wake-up finds no waiter; the next nudge follows within milliseconds. The
            // address may have been unmapped meanwhile. This code passes it as a number and never
            // reads it; the kernel checks it.
            // SAFETY: FUTEX_WAKE only uses the address as a key.
            unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, 1) };
        }
    }

    /// Returns whether an event came since the last [`Mailbox::clear`].
    pub(crate) fn is_filled(&self) -> bool {
        self.filled.load(Ordering::Acquire)
    }
    pub(crate) fn clear(&self) {
        self.filled.store(false, Ordering::SeqCst);
    }
    /// Sets the word to wake when an event comes; null for none.
    pub(crate) fn wait_on(&self, word: *const AtomicU32) {
        self.waiting_on.store(word.cast_mut(), Ordering::SeqCst);
    }
}

/// Returns the address of the engine with this name: an abstract name, or the path of a shared
/// fabric's socket.
pub(crate) fn address(engine: &str) -> rustix::io::Result<SocketAddrUnix> {
    if environment::is_of_shared_fabric(engine) { SocketAddrUnix::new(engine) } else { SocketAddrUnix::new_abstract_name(engine.as_bytes()) }
}

/// Opens the engine's socket and starts the thread that serves it. With `watches`, also starts a
/// thread that lets an engine look around while it waits for a program's turn.
pub(crate) fn serve(name: &str, (mailbox, admission): (Arc<Mailbox>, Arc<Admission>), watches: bool) -> std::io::Result<()> {
    let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let listener = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&listener, &address(name)?)?;
    if admission.is_shared() {
        // The rights of the folder decide on who connects.
        std::fs::set_permissions(name, std::fs::Permissions::from_mode(0o666))?;
    }
    rustix::net::listen(&listener, 128)?;
    epoll::add(&poller, &listener, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    if watches {
        let nudged = mailbox.clone();
        // The engine waits for programs without a time limit of its own: a timer at each turn costs
        // more than the turn.
        std::thread::Builder::new().name("watch".into()).spawn(move || {
            loop {
                std::thread::sleep(WATCH_INTERVAL);
                nudged.nudge();
            }
        })?;
    }
    std::thread::Builder::new().name("control".into()).spawn(move || {
        if let Err(error) = listen_for_ever((&poller, &listener), &mailbox, &admission) {
            eprintln!("softband: the control socket failed: {error}");
        }
    })?;
    Ok(())
}

fn listen_for_ever((poller, listener): (&OwnedFd, &OwnedFd), mailbox: &Mailbox, admission: &Admission) -> rustix::io::Result<()> {
    let mut connections: BTreeMap<u64, Connection> = BTreeMap::new();
    let mut quota = Quota::by_limit(admission.is_shared());
    let mut next = 1;
    let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 16];
    loop {
        let count = match epoll::wait(poller, &mut events, None) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error),
        };
        for event in &events[..count] {
            match event.data.u64() {
                0 => {
                    let Ok(socket) = rustix::net::accept_with(listener, SocketFlags::CLOEXEC) else {
                        // Too many descriptors are open: another connection has to close first.
                        std::thread::sleep(WATCH_INTERVAL);
                        continue;
                    };
                    let Some(peer) = Peer::of(&socket).filter(|peer| admission.admits(*peer)) else { continue };
                    let (pid, holder) = if admission.is_shared() { (hidden_number(next), peer.uid) } else { (peer.pid, peer.pid as u32) };
                    if !quota.take(holder) {
                        refuse_one_more(&socket);
                    } else if epoll::add(poller, &socket, epoll::EventData::new_u64(next), epoll::EventFlags::IN).is_err() {
                        quota.give_back(holder);
                    } else {
                        connections.insert(next, Connection { socket, peer, pid, holder, has_said_hello: false });
                        next += 1;
                    }
                }
                number => {
                    let Some(connection) = connections.get_mut(&number) else { continue };
                    if !receive(number, connection, mailbox, admission) {
                        let _ = epoll::delete(poller, &connection.socket);
                        quota.give_back(connection.holder);
                        connections.remove(&number);
                        mailbox.put(ControlEvent::Closed { connection: number });
                    }
                }
            }
        }
    }
}

/// The control thread's record of a connection.
struct Connection {
    socket: OwnedFd,
    peer: Peer,
    /// The system's number of the process that opened the connection. In a shared fabric it is the
    /// number of a hidden process.
    pid: i32,
    /// Holder of the connection in the quota.
    holder: u32,
    /// A connection belongs to one process: when it closes, that process is gone.
    has_said_hello: bool,
}

/// Reads one message. Returns false if the other end is gone or the message is invalid.
fn receive(number: u64, connection: &mut Connection, mailbox: &Mailbox, admission: &Admission) -> bool {
    let Connection { ref socket, peer, pid, ref mut has_said_hello, .. } = *connection;
    let mut buffer = [0u8; 128];
    let takes_descriptors = admission.is_shared() && !*has_said_hello;
    let Some((len, descriptors)) = receive_with_descriptors(socket, &mut buffer, takes_descriptors) else { return false };
    if len == size_of::<Hello>() {
        if std::mem::replace(has_said_hello, true) {
            return false;
        }
        let hello = bytemuck::pod_read_unaligned(&buffer[..len]);
        let (Ok(own), Ok(another)) = (socket.as_fd().try_clone_to_owned(), socket.as_fd().try_clone_to_owned()) else { return false };
        let view = if admission.is_shared() { View::of(descriptors, another) } else { None };
        mailbox.put(ControlEvent::Hello { connection: number, socket: own, hello, pid, view });
        true
    } else if len == size_of::<Word>() {
        let Word { slot, kind } = bytemuck::pod_read_unaligned(&buffer[..len]);
        match kind {
            word::BACK => mailbox.put(ControlEvent::Back { connection: number, slot }),
            _ => return false,
        }
        true
    } else if len == size_of::<Command>() {
        admission.obeys(peer) && receive_command((socket, pid), bytemuck::pod_read_unaligned(&buffer[..len]), mailbox)
    } else if len == size_of::<FileRequest>() {
        hand_out_file(socket, bytemuck::pod_read_unaligned(&buffer[..len]), admission)
    } else if len == size_of::<SocketRequest>() {
        hand_out_socket(socket, bytemuck::pod_read_unaligned(&buffer[..len]), admission)
    } else {
        false
    }
}

/// Receives a message, and its descriptors if wanted. Returns `None` if the other end is gone.
fn receive_with_descriptors(socket: &OwnedFd, buffer: &mut [u8], wanted: bool) -> Option<(usize, Vec<OwnedFd>)> {
    if !wanted {
        return rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT).ok().map(|(len, _)| (len, Vec::new()));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(socket, &mut [std::io::IoSliceMut::new(buffer)], &mut ancillary, flags).ok()?;
    let descriptors = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
        _ => Vec::new(),
    });
    Some((received.bytes, descriptors.collect()))
}

/// Passes a command on.
fn receive_command((socket, pid): (&OwnedFd, i32), command: Command, mailbox: &Mailbox) -> bool {
    let Ok(own) = socket.as_fd().try_clone_to_owned() else { return false };
    mailbox.put(ControlEvent::Command { socket: own, pid, command });
    true
}

/// Gives an attached process a peer's file of registered memory. The control thread does this
/// because it never waits for a program. The engine's own thread may wait for the end of a transfer
/// of the asking process.
fn hand_out_file(socket: &OwnedFd, request: FileRequest, admission: &Admission) -> bool {
    let file = admission.file_for(request.secret, request.number).filter(|_| request.version == softband_ipc::VERSION);
    file.is_some_and(|file| send_with_files(socket, &[1], &[&file]))
}

/// Gives an attached process of a shared fabric a socket of this network namespace. Its own
/// namespace may lack the addresses of the hosts.
fn hand_out_socket(socket: &OwnedFd, request: SocketRequest, admission: &Admission) -> bool {
    // A Unix socket takes events from the engine, and needs no streams.
    let is_known = match request.kind & 0xf {
        libc::SOCK_STREAM => matches!(request.domain, libc::AF_INET | libc::AF_INET6),
        libc::SOCK_DGRAM => matches!(request.domain, libc::AF_INET | libc::AF_INET6 | libc::AF_UNIX),
        _ => false,
    };
    if !admission.is_shared() || !admission.is_member(request.secret) || request.version != softband_ipc::VERSION || !is_known {
        return false;
    }
    // SAFETY: a plain system call. The descriptor is new, and nobody else has it.
    let made = unsafe {
        match libc::socket(request.domain, request.kind | libc::SOCK_CLOEXEC, request.protocol) {
            -1 => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
            made => Ok(OwnedFd::from_raw_fd(made)),
        }
    };
    match made {
        Ok(made) => send_with_files(socket, &0_i32.to_ne_bytes(), &[&made]),
        Err(errno) => send_with_files(socket, &errno.to_ne_bytes(), &[]),
    }
}

/// Refuses a process with too many open connections. Takes its message off the socket, because the
/// kernel would otherwise report a broken connection in place of the answer.
fn refuse_one_more(socket: &OwnedFd) {
    let status = libc::EUSERS;
    welcome(socket, &Welcome { version: softband_ipc::VERSION, status, process: 0, slot: 0, secret: 0, table_number: 0, reserved: 0 }, &[]);
    let _ = rustix::net::recv(socket, &mut [0u8; 128][..], RecvFlags::DONTWAIT);
}

/// Answers a hello. Unless the answer is a refusal, `files` are the shared file, the wake words,
/// the tables and, in wall pace, the file of registered memory.
pub(crate) fn welcome(socket: &OwnedFd, welcome: &Welcome, files: &[&OwnedFd]) {
    // If the program is gone already, its connection closes and the control thread reports that.
    send_with_files(socket, bytemuck::bytes_of(welcome), files);
}

fn send_with_files(socket: &OwnedFd, bytes: &[u8], files: &[&OwnedFd]) -> bool {
    let parts = [std::io::IoSlice::new(bytes)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    }
    rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_ok()
}
