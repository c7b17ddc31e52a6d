//! Files of peers' registered memory, with a cache: a request to the engine takes longer than
//! mapping, and needs the engine awake.

use super::{FILE, own_file};
use crate::connection::{fetch_file, is_shared};
use crate::direct::Here;
use crate::session::header;
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use softband_shm_transport::platform::Platform;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

const KEPT_MAX: usize = 16;

/// A cached file. Writers hold the lock of peers; reads need no lock.
struct Kept {
    number: AtomicU32,
    /// PID of the process with this memory. The library closes the file after its end.
    owner: AtomicU32,
    fd: AtomicI32,
}

static KEPT: [Kept; KEPT_MAX] = [const { Kept { number: AtomicU32::new(0), owner: AtomicU32::new(0), fd: AtomicI32::new(-1) } }; KEPT_MAX];
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Checks whether `fd` belongs to the library: a program that closes all descriptors must not close
/// it.
pub fn is_kept(fd: i32) -> bool {
    kept_fds().any(|kept| kept == fd)
}

/// Returns the descriptors of the own file and of peers' files.
pub fn kept_fds() -> impl Iterator<Item = i32> {
    let own = std::iter::once(FILE.load(Ordering::Acquire));
    own.chain(KEPT.iter().map(|kept| kept.fd.load(Ordering::Acquire))).filter(|fd| *fd >= 0)
}

/// Calls `with` on the file `number` (as in the tables) of process `owner`. The caller holds the
/// lock of peers.
pub(super) fn with_file<T>(number: u32, owner: u32, with: impl FnOnce(BorrowedFd<'_>) -> Option<T>) -> Option<T> {
    if let Some(own) = own_file().filter(|_| number == header().memory_file) {
        return with(own);
    }
    if let Some(kept) = KEPT.iter().find(|kept| kept.number.load(Ordering::Relaxed) == number && kept.fd.load(Ordering::Relaxed) >= 0) {
        // SAFETY: the descriptor is open while the entry is cached, and the lock of peers prevents
        // its removal.
        return with(unsafe { BorrowedFd::borrow_raw(kept.fd.load(Ordering::Relaxed)) });
    }
    let file = fetch_file(number)?;
    // High numbers stay out of the way of programs that expect their first file to be 3.
    let file = rustix::io::fcntl_dupfd_cloexec(&file, 900).unwrap_or(file);
    let done = with(file.as_fd());
    keep(number, owner, file);
    done
}

fn keep(number: u32, owner: u32, file: OwnedFd) {
    let kept = &KEPT[NEXT.fetch_add(1, Ordering::Relaxed) as usize % KEPT_MAX];
    let_go(kept);
    kept.number.store(number, Ordering::Relaxed);
    kept.owner.store(owner, Ordering::Relaxed);
    kept.fd.store(file.into_raw_fd(), Ordering::Release);
}

fn let_go(kept: &Kept) {
    let fd = kept.fd.swap(-1, Ordering::AcqRel);
    if fd >= 0 {
        // SAFETY: `keep` stored the descriptor, and nobody else has it now.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
}

/// Closes the files of processes that have ended. In a shared fabric it closes all, because this
/// process cannot tell. The caller holds the lock of peers.
pub(super) fn forget_gone() {
    let goes = |kept: &&Kept| kept.fd.load(Ordering::Relaxed) >= 0 && (is_shared() || Here::is_gone(kept.owner.load(Ordering::Relaxed)));
    KEPT.iter().filter(goes).for_each(let_go);
}

/// Closes all files, because a forked child reaches no peers. The fork holds the lock.
pub(super) fn forget_all() {
    KEPT.iter().for_each(let_go);
}
