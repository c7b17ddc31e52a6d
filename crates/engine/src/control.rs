//! The control socket: a thread that hears programs come, come back and go, while the engine follows its own order.

use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use softband_ipc::attach::{Back, Hello, Welcome};
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender};

/// How often an engine that waits for a program looks around: for its end, for Ctrl-C, for a loop that spins on memory.
const WATCH_INTERVAL: std::time::Duration = std::time::Duration::from_millis(2);

/// What the control thread heard.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A process image says hello. `pid` is what the kernel says, not what the program says.
    Hello { connection: u64, socket: OwnedFd, hello: Hello, pid: i32 },
    /// A thread that was away waits for its turn.
    Back { connection: u64, slot: u32 },
    /// A process image is gone (ended, killed or replaced).
    Closed { connection: u64 },
    /// A program's first process has ended.
    Exited { program: usize, status: i32 },
}

/// Where the control thread puts what it heard, and how it wakes an engine that waits for a program.
pub(crate) struct Mailbox {
    sender: Sender<Heard>,
    filled: AtomicBool,
    waiting_on: AtomicPtr<AtomicU32>,
}

impl Mailbox {
    pub(crate) fn new() -> (Arc<Self>, Receiver<Heard>) {
        let (sender, receiver) = std::sync::mpsc::channel();
        let mailbox = Self { sender, filled: AtomicBool::new(false), waiting_on: AtomicPtr::new(std::ptr::null_mut()) };
        (Arc::new(mailbox), receiver)
    }

    pub(crate) fn put(&self, heard: Heard) {
        let _ = self.sender.send(heard);
        self.filled.store(true, Ordering::SeqCst);
        self.nudge();
    }

    /// Lets the engine look around if it waits for a program.
    fn nudge(&self) {
        let word = self.waiting_on.load(Ordering::SeqCst);
        if !word.is_null() {
            // A wake-up that comes too late finds nobody; the engine is nudged again within milliseconds. The kernel checks the
            // address, which may have been unmapped meanwhile, so it is passed as a number and never looked at here.
            // SAFETY: FUTEX_WAKE only uses the address as a key.
            unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, 1) };
        }
    }

    /// Whether something was heard since the last [`Mailbox::clear`].
    pub(crate) fn is_filled(&self) -> bool {
        self.filled.load(Ordering::Acquire)
    }
    pub(crate) fn clear(&self) {
        self.filled.store(false, Ordering::SeqCst);
    }
    /// Which word to wake when something comes; null for none.
    pub(crate) fn wait_on(&self, word: *const AtomicU32) {
        self.waiting_on.store(word.cast_mut(), Ordering::SeqCst);
    }
}

/// Opens the engine's abstract socket and starts the thread that serves it.
pub(crate) fn serve(name: &str, mailbox: Arc<Mailbox>) -> std::io::Result<()> {
    let listener = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&listener, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    rustix::net::listen(&listener, 128)?;
    let nudged = mailbox.clone();
    // The engine waits for programs without a time limit of its own: setting a timer at each turn costs more than the turn.
    std::thread::Builder::new().name("watch".into()).spawn(move || {
        loop {
            std::thread::sleep(WATCH_INTERVAL);
            nudged.nudge();
        }
    })?;
    std::thread::Builder::new().name("control".into()).spawn(move || {
        if let Err(error) = listen_for_ever(&listener, &mailbox) {
            eprintln!("softband: the control socket failed: {error}");
        }
    })?;
    Ok(())
}

fn listen_for_ever(listener: &OwnedFd, mailbox: &Mailbox) -> rustix::io::Result<()> {
    let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poller, listener, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    let mut connections: BTreeMap<u64, OwnedFd> = BTreeMap::new();
    let mut next = 1;
    let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 16];
    loop {
        let count = match epoll::wait(&poller, &mut events, None) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error),
        };
        for event in &events[..count] {
            match event.data.u64() {
                0 => {
                    if let Ok(socket) = rustix::net::accept_with(listener, SocketFlags::CLOEXEC) {
                        epoll::add(&poller, &socket, epoll::EventData::new_u64(next), epoll::EventFlags::IN)?;
                        connections.insert(next, socket);
                        next += 1;
                    }
                }
                number => {
                    let Some(socket) = connections.get(&number) else { continue };
                    if !hear(number, socket, mailbox) {
                        let _ = epoll::delete(&poller, socket);
                        connections.remove(&number);
                        mailbox.put(Heard::Closed { connection: number });
                    }
                }
            }
        }
    }
}

/// Reads one message; false when the other end is gone or talks nonsense.
fn hear(connection: u64, socket: &OwnedFd, mailbox: &Mailbox) -> bool {
    let mut buffer = [0u8; 64];
    let Ok((len, _)) = rustix::net::recv(socket, &mut buffer[..], RecvFlags::DONTWAIT) else { return false };
    if len == size_of::<Hello>() {
        let hello = bytemuck::pod_read_unaligned(&buffer[..len]);
        let (Ok(credentials), Ok(own)) = (rustix::net::sockopt::socket_peercred(socket), socket.as_fd().try_clone_to_owned()) else {
            return false;
        };
        mailbox.put(Heard::Hello { connection, socket: own, hello, pid: credentials.pid.as_raw_nonzero().get() });
        true
    } else if len == size_of::<Back>() {
        let back: Back = bytemuck::pod_read_unaligned(&buffer[..len]);
        mailbox.put(Heard::Back { connection, slot: back.slot });
        true
    } else {
        false
    }
}

/// Answers a hello, with the shared file and the batons unless it is refused.
pub(crate) fn welcome(socket: &OwnedFd, welcome: &Welcome, files: Option<[&OwnedFd; 2]>) {
    let parts = [std::io::IoSlice::new(bytemuck::bytes_of(welcome))];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = files.map(|files| files.map(|file| file.as_fd()));
    if let Some(fds) = &fds {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    // A program that is gone already will be heard of as closed.
    let _ = rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL);
}
