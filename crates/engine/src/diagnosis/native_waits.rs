//! Finds the wait of a thread in the kernel: its system call and the sockets behind its
//! descriptors.

use crate::diagnosis::call_names::CallNames;
use crate::diagnosis::observer::Observer;
use crate::diagnosis::waits::Detail;
use crate::process::record::Process;
use crate::procfs;
use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::FileExt;

/// Descriptors of one wait that an answer names.
const DESCRIPTORS_MAX: usize = 8;
/// Bytes of a `struct pollfd`; the descriptor is its first four.
const POLLFD_BYTES: usize = 8;
/// State of a listening socket in `/proc/net/tcp`.
const TCP_LISTEN: &str = "0A";

/// Describes the wait of a thread in a system call. Returns `None` if the kernel does not show the
/// call.
pub(crate) fn of_thread(pid: i32, tid: i32) -> Option<String> {
    Call::of(pid, tid).map(|call| call.in_words(pid, &|address| address.to_string(), &|_| None))
}

/// System call of a thread.
struct Call {
    number: i64,
    arguments: [u64; 2],
}

impl Call {
    fn of(pid: i32, tid: i32) -> Option<Self> {
        let text = fs::read_to_string(procfs::path(pid, &format!("task/{tid}/syscall"))).ok()?;
        let mut words = text.split_ascii_whitespace();
        let number = words.next()?.parse().ok()?;
        let mut argument = || words.next().and_then(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()).unwrap_or(0);
        Some(Self { number, arguments: [argument(), argument()] })
    }

    /// Describes the call. `host` names an address. `event` names the event behind a Unix socket of
    /// the engine.
    fn in_words(&self, pid: i32, host: &dyn Fn(Ipv4Addr) -> String, event: &dyn Fn(&str) -> Option<String>) -> String {
        let one = |fd: u64| descriptor_in_words(pid, fd as i32, host, event);
        match self.number {
            libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_accept | libc::SYS_accept4 => {
                format!("waits for {}", one(self.arguments[0]))
            }
            libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg => format!("waits to write to {}", one(self.arguments[0])),
            libc::SYS_connect => format!("waits for a connection by {}", one(self.arguments[0])),
            libc::SYS_poll | libc::SYS_ppoll => many(polled(pid, self.arguments), one),
            libc::SYS_epoll_wait | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => many(watched(pid, self.arguments[0] as i32), one),
            libc::SYS_select | libc::SYS_pselect6 => "waits for descriptors (select)".into(),
            libc::SYS_futex => format!("waits for a lock, a condition or the end of a thread (futex at {:#x})", self.arguments[0]),
            libc::SYS_wait4 | libc::SYS_waitid => "waits for a child process".into(),
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep => "sleeps".into(),
            libc::SYS_pause | libc::SYS_rt_sigsuspend | libc::SYS_rt_sigtimedwait => "waits for a signal".into(),
            libc::SYS_sched_yield => "runs (it computes, or polls)".into(),
            number => format!("waits in system call {number}"),
        }
    }
}

fn many(descriptors: Vec<i32>, one: impl Fn(u64) -> String) -> String {
    let names: BTreeSet<String> = descriptors.into_iter().take(DESCRIPTORS_MAX).map(|fd| one(fd as u64)).collect();
    let names: Vec<String> = names.into_iter().collect();
    if names.is_empty() { "waits for descriptors".into() } else { format!("waits for {}", names.join(", or ")) }
}

/// Returns the descriptors of a `poll` with these arguments.
fn polled(pid: i32, [at, count]: [u64; 2]) -> Vec<i32> {
    let mut bytes = vec![0; (count as usize).min(DESCRIPTORS_MAX) * POLLFD_BYTES];
    let read = procfs::memory(pid, false).and_then(|memory| memory.read_exact_at(&mut bytes, at));
    if read.is_err() {
        return Vec::new();
    }
    let descriptors = bytes.chunks_exact(POLLFD_BYTES).map(|entry| i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]));
    descriptors.filter(|fd| *fd >= 0).collect()
}

/// Returns the descriptors that an epoll descriptor watches.
fn watched(pid: i32, fd: i32) -> Vec<i32> {
    let text = fs::read_to_string(procfs::path(pid, &format!("fdinfo/{fd}"))).unwrap_or_default();
    text.lines().filter_map(|line| line.strip_prefix("tfd:")?.split_ascii_whitespace().next()?.parse().ok()).collect()
}

fn descriptor_in_words(pid: i32, fd: i32, host: &dyn Fn(Ipv4Addr) -> String, event: &dyn Fn(&str) -> Option<String>) -> String {
    let Ok(target) = fs::read_link(procfs::path(pid, &format!("fd/{fd}"))) else { return format!("descriptor {fd}") };
    let target = target.to_string_lossy().into_owned();
    let Some(inode) = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) else {
        return if target.starts_with("pipe:") { format!("a pipe (descriptor {fd})") } else { format!("{target} (descriptor {fd})") };
    };
    tcp_socket(inode, host).or_else(|| unix_socket(inode).and_then(|path| event(&path))).unwrap_or_else(|| format!("a socket (descriptor {fd})"))
}

fn tcp_socket(inode: &str, host: &dyn Fn(Ipv4Addr) -> String) -> Option<String> {
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|table| {
        let text = fs::read_to_string(table).ok()?;
        let fields = text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>()).find(|fields| fields.get(9) == Some(&inode))?;
        let ((_, local_port), (peer, peer_port)) = (endpoint(fields[1])?, endpoint(fields[2])?);
        Some(match fields[3] {
            TCP_LISTEN => format!("a connection to its TCP port {local_port}"),
            _ => format!("data from {}:{peer_port} (TCP)", host(peer)),
        })
    })
}

/// Parses an address and a port of `/proc/net/tcp`. The address has four bytes in the host's order,
/// or sixteen with the IPv4 address in the last four.
fn endpoint(text: &str) -> Option<(Ipv4Addr, u16)> {
    let (address, port) = text.split_once(':')?;
    let last = address.get(address.len().checked_sub(8)?..)?;
    let address = Ipv4Addr::from(u32::from_str_radix(last, 16).ok()?.to_le_bytes());
    Some((address, u16::from_str_radix(port, 16).ok()?))
}

/// Returns the abstract name of a Unix socket.
fn unix_socket(inode: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/net/unix").ok()?;
    let fields = text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>()).find(|fields| fields.get(6) == Some(&inode))?;
    fields.get(7)?.strip_prefix('@').map(str::to_owned)
}

impl Observer<'_> {
    /// Adds a line for each thread and each queue pair of the process. In wall pace threads wait in
    /// the kernel.
    pub(crate) fn describe_natively(&self, process: &Process, calls: &CallNames, lines: &mut Vec<String>) {
        let host = |address: Ipv4Addr| self.name_of_native_host(address);
        let event = |path: &str| self.name_of_event_socket(process, path);
        let tasks = fs::read_dir(procfs::path(process.pid(), "task")).into_iter().flatten().flatten();
        let mut threads: Vec<i32> = tasks.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        threads.sort_unstable();
        for tid in threads {
            let what = match Call::of(process.pid(), tid) {
                Some(call) => call.in_words(process.pid(), &host, &event),
                None => "runs (it computes, or polls)".into(),
            };
            let call = calls.in_words(process, tid as u32);
            lines.push(format!("{} (process {}, thread {tid}) {what}{call}", self.command_of(process), process.pid()));
        }
        lines.extend(self.queue_pair_lines(process, Detail::Process));
    }

    fn name_of_native_host(&self, address: Ipv4Addr) -> String {
        let hosts = &self.world.spec().hosts;
        let named = (0..hosts.len()).find(|host| self.host.network().kernel_address(*host) == address.to_bits());
        named.map_or_else(|| address.to_string(), |host| hosts[host].name.clone())
    }

    /// Names the event of the channel whose bytes arrive at this socket.
    fn name_of_event_socket(&self, process: &Process, path: &str) -> Option<String> {
        let is_it = |object: u32| {
            let socket = self.host.event_socket(object);
            socket.is_some_and(|(_, socket)| socket.abstract_name() == Some(path.as_bytes()))
        };
        let channel = process.objects().keys().copied().find(|object| is_it(*object))?;
        let queue = self.cqs.of_channel(process.index(), channel).next();
        Some(match queue {
            Some(handle) => format!("an event of {}", self.name_of_cq(handle)),
            None => "an event of an HCA".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    /// Returns the description of the thread that runs `wait`, when the kernel shows it asleep
    /// there.
    fn words_of(wait: impl FnOnce() + Send + 'static) -> String {
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // SAFETY: only returns a number.
            sender.send(unsafe { libc::gettid() }).unwrap();
            wait();
        });
        let (pid, tid) = (std::process::id() as i32, receiver.recv().unwrap());
        let mut words = None;
        for _ in 0..500 {
            std::thread::sleep(std::time::Duration::from_millis(2));
            let next = of_thread(pid, tid);
            if next.is_some() && next == words {
                break;
            }
            words = next;
        }
        words.unwrap_or_default()
    }

    #[test]
    fn sockets_pipes_locks_and_sleeps_are_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        let words = words_of(move || drop(stream.read(&mut [0; 1])));
        assert_eq!(words, format!("waits for data from 127.0.0.1:{port} (TCP)"));
        drop(peer);
        let words = words_of(move || drop(listener.accept()));
        assert_eq!(words, format!("waits for a connection to its TCP port {port}"));
        let (reader, _writer) = std::io::pipe().unwrap();
        let words = words_of(move || {
            let mut set = libc::pollfd { fd: std::os::fd::AsRawFd::as_raw_fd(&reader), events: libc::POLLIN, revents: 0 };
            // SAFETY: the pointer names one element, as the count states.
            unsafe { libc::poll(&raw mut set, 1, 60_000) };
        });
        assert!(words.starts_with("waits for a pipe (descriptor "), "{words}");
        let words = words_of(|| std::thread::sleep(std::time::Duration::from_secs(60)));
        assert_eq!(words, "sleeps");
        let (_held, waits) = std::sync::mpsc::channel::<()>();
        let words = words_of(move || _ = waits.recv());
        assert!(words.starts_with("waits for a lock, a condition"), "{words}");
    }
}
