//! Admission to the engine: the control thread decides for each connection, without the engine's
//! own thread.
//!
//! The kernel names the user and process of a connection. The fabric's own user and root may
//! connect. A program that has changed its user may connect as well, if it descends from a process
//! of the fabric.

use anyhow::Context;
use rustix::fd::{AsRawFd, OwnedFd};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum length of a chain of parents. A longer chain belongs to nobody.
const GENERATIONS_MAX: usize = 256;

/// The facts for these decisions. The engine's thread and the control thread share them.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    facts: Mutex<Facts>,
    is_shared: bool,
}

/// User and process of a connection, from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    /// 0 if this process cannot see the peer's namespace.
    pub(crate) pid: i32,
}

impl Peer {
    /// Returns the peer of a Unix socket.
    pub(crate) fn of(socket: &OwnedFd) -> Option<Self> {
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to `peer`.
        let status = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &raw mut len) };
        (status == 0).then_some(Self { uid: peer.uid, pid: peer.pid })
    }

    fn is_owner_or_root(self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }
}

#[derive(Debug, Default)]
struct Facts {
    /// The system's numbers of the fabric's processes, each with its start, because the system
    /// reuses free numbers. The number of an ended process stays: a new image may still have it.
    pids: BTreeMap<i32, u64>,
    /// The secrets of attached processes.
    members: BTreeSet<u64>,
    /// Files of registered memory, by their numbers in the tables.
    files: BTreeMap<u32, Arc<OwnedFd>>,
    last_file: u32,
}

impl Admission {
    /// Creates the facts of a shared fabric. The rights of its folder decide on who connects.
    pub(crate) fn of_shared_fabric() -> Self {
        Self { is_shared: true, ..Self::default() }
    }

    /// Returns whether the fabric is shared.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the system's number of a process of the fabric.
    pub(crate) fn note_pid(&self, pid: i32) {
        if let Some(started) = start_of(pid) {
            self.facts().pids.insert(pid, started);
        }
    }

    /// Notes the secret of a process that has attached.
    pub(crate) fn note_member(&self, secret: u64) {
        self.facts().members.insert(secret);
    }

    /// Forgets the secret of a process that has ended.
    pub(crate) fn forget_member(&self, secret: u64) {
        self.facts().members.remove(&secret);
    }

    /// Adds a file. Returns the number by which processes may ask for it. No other file ever gets
    /// it.
    pub(crate) fn put_file(&self, file: Arc<OwnedFd>) -> u32 {
        let mut facts = self.facts();
        facts.last_file += 1;
        let number = facts.last_file;
        facts.files.insert(number, file);
        number
    }

    pub(crate) fn take_file(&self, number: u32) {
        self.facts().files.remove(&number);
    }

    /// Returns the file of registered memory `number`, if `secret` belongs to an attached process.
    pub(crate) fn file_for(&self, secret: u64, number: u32) -> Option<Arc<OwnedFd>> {
        let facts = self.facts();
        facts.members.contains(&secret).then(|| facts.files.get(&number).cloned())?
    }

    /// Returns whether this peer may connect.
    pub(crate) fn admits(&self, peer: Peer) -> bool {
        self.is_shared || peer.pid > 0 && (peer.is_owner_or_root() || self.descends(peer.pid))
    }

    /// Returns whether this peer may give commands. Programs may have changed their user, and need a
    /// ticket instead.
    pub(crate) fn obeys(&self, peer: Peer) -> bool {
        self.is_shared || peer.is_owner_or_root()
    }

    /// Returns whether `secret` belongs to an attached process.
    pub(crate) fn is_member(&self, secret: u64) -> bool {
        self.facts().members.contains(&secret)
    }

    /// Returns whether the process `pid`, or a parent of it, is the engine or one of the fabric's
    /// processes.
    fn descends(&self, pid: i32) -> bool {
        let own = std::process::id() as i32;
        ancestors(pid).any(|pid| pid == own || self.is_noted(pid))
    }

    fn is_noted(&self, pid: i32) -> bool {
        let noted = self.facts().pids.get(&pid).copied();
        noted.is_some() && noted == start_of(pid)
    }
}

/// Returns a name that nobody can guess, so nobody can take it first. All names are equally long,
/// because programs have them in their environment.
pub(crate) fn random_name() -> anyhow::Result<String> {
    Ok(format!("softband-{}", random_word()?))
}

/// Returns 32 hexadecimal digits that nobody can guess.
///
/// # Errors
/// If the system has no random numbers.
pub fn random_word() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).context("the system has no random numbers")?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// Closes `/proc/PID/fd` of this process to programs of the same user. The files there would let
/// them write any program's memory.
pub(crate) fn hide_from_programs() {
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

/// Returns whether the process `pid` is `ancestor` or descends from it, according to the kernel
/// now.
pub(crate) fn is_or_descends_from(pid: i32, ancestor: i32) -> bool {
    ancestor > 0 && ancestors(pid).any(|pid| pid == ancestor)
}

/// Returns a process, its parent, and so on.
fn ancestors(pid: i32) -> impl Iterator<Item = i32> {
    std::iter::successors(Some(pid), |pid| parent_of(*pid)).take_while(|pid| *pid > 1).take(GENERATIONS_MAX)
}

fn parent_of(pid: i32) -> Option<i32> {
    stat_field(pid, 4)?.parse().ok()
}

/// Returns the start of a process, in ticks since the start of the machine. A later image of the
/// process keeps it.
pub(crate) fn start_of(pid: i32) -> Option<u64> {
    stat_field(pid, 22)?.parse().ok()
}

/// Returns field `number` of the kernel's line on a process, counted as in proc_pid_stat(5).
fn stat_field(pid: i32, number: usize) -> Option<String> {
    let stat = crate::procfs::stat(pid);
    // Field 2 is the name, which may contain spaces and brackets.
    stat.rsplit_once(") ")?.1.split(' ').nth(number.checked_sub(3)?).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stranger(pid: i32) -> Peer {
        Peer { pid, uid: rustix::process::geteuid().as_raw().wrapping_add(4_321).max(1) }
    }

    #[test]
    fn other_users_connect_only_from_below_the_fabric_s_processes() {
        let admission = Admission::default();
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get();
        assert!(admission.admits(stranger(std::process::id() as i32)), "the engine's own process is one of the fabric");
        assert!(!admission.admits(stranger(parent)));
        admission.note_pid(parent);
        assert!(admission.admits(stranger(parent)) && !admission.obeys(stranger(parent)));
        assert!(!admission.admits(stranger(1)));
    }

    #[test]
    fn a_process_of_another_namespace_connects_to_a_shared_fabric_alone() {
        let own = Peer { pid: 0, uid: rustix::process::geteuid().as_raw() };
        assert!(!Admission::default().admits(own));
        assert!(Admission::of_shared_fabric().admits(stranger(0)) && Admission::of_shared_fabric().obeys(stranger(0)));
    }

    #[test]
    fn the_kernel_names_the_peer_of_a_socket() {
        let (one, _other) =
            rustix::net::socketpair(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, rustix::net::SocketFlags::CLOEXEC, None)
                .unwrap();
        let own = Peer { pid: std::process::id() as i32, uid: rustix::process::geteuid().as_raw() };
        assert_eq!(Peer::of(&one), Some(own));
    }

    #[test]
    fn a_file_is_given_to_attached_processes_only() {
        let admission = Admission::default();
        let file = Arc::new(rustix::fs::memfd_create("a-file", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
        let number = admission.put_file(file);
        assert!(admission.file_for(42, number).is_none());
        admission.note_member(42);
        assert!(admission.file_for(42, number).is_some());
        assert!(admission.file_for(42, number + 1).is_none());
        admission.forget_member(42);
        assert!(admission.file_for(42, number).is_none());
    }

    #[test]
    fn descent_follows_the_chain_of_parents() {
        let own = std::process::id() as i32;
        assert!(is_or_descends_from(own, own));
        assert!(is_or_descends_from(own, rustix::process::getppid().unwrap().as_raw_nonzero().get()));
        assert!(!is_or_descends_from(own, 0));
        assert!(!is_or_descends_from(1, own));
    }
}
