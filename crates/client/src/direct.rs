//! Moving data in the posting thread: looking at the engine's tables, and the system calls.

use crate::session::header;
use rustix::fd::OwnedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use softband_ipc::tables::{KeyEntry, QPS, QpEntry, Tables, key_index};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

static TABLES: AtomicPtr<Tables> = AtomicPtr::new(std::ptr::null_mut());
pub(crate) static MOVERS: Mutex<()> = Mutex::new(());

/// Maps the file of tables that the engine sent.
pub(crate) fn map(file: &OwnedFd) -> rustix::io::Result<()> {
    if TABLES.load(Ordering::Acquire).is_null() {
        // SAFETY: a fresh mapping, never undone, of a file that the engine made as large as this.
        let tables = unsafe { mmap(std::ptr::null_mut(), size_of::<Tables>(), ProtFlags::READ, MapFlags::SHARED, file, 0)? };
        TABLES.store(tables.cast(), Ordering::Release);
    }
    Ok(())
}

/// A forked child has no part in its parent's queue pairs; it maps the tables anew when it attaches.
pub(crate) fn forget() {
    TABLES.store(std::ptr::null_mut(), Ordering::Release);
}

/// A stretch of a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub address: u64,
    pub len_bytes: u64,
}

/// The right to look at the tables: what is valid stays so while this lives.
pub struct Looking {
    tables: &'static Tables,
    _one_at_a_time: MutexGuard<'static, ()>,
}

/// Begins to move data.
pub fn look() -> Option<Looking> {
    let one_at_a_time = MOVERS.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: set once, by `map`; the mapping is never undone, and the tables consist of atomics.
    let tables = unsafe { TABLES.load(Ordering::Acquire).as_ref() }?;
    // Sequentially consistent: the engine first takes an entry away and then looks at this.
    header().direct.fetch_add(1, Ordering::SeqCst);
    Some(Looking { tables, _one_at_a_time: one_at_a_time })
}

impl Drop for Looking {
    fn drop(&mut self) {
        header().direct.fetch_add(1, Ordering::SeqCst);
    }
}

impl Looking {
    /// A queue pair by its entry, if that is still this queue pair's.
    pub fn queue_pair(&self, index: u32, qpn: u32) -> Option<&'static QpEntry> {
        let entry = &self.tables.qps[(index as usize).min(QPS - 1)];
        // A child of a fork may hold its parent's queue pairs, but they are not its own.
        let is_own = entry.pid.load(Ordering::Relaxed) == crate::fork::own_number();
        (qpn != 0 && entry.qpn.load(Ordering::SeqCst) == qpn && is_own).then_some(entry)
    }

    /// The queue pair that `of` is connected to, if that one is connected to `of`, whose entry is `index`.
    pub fn peer(&self, of: &QpEntry, index: u32) -> Option<&'static QpEntry> {
        let peer = of.peer.load(Ordering::Acquire).checked_sub(1)?;
        let entry = self.tables.qps.get(peer as usize)?;
        let same = |a: &AtomicU32, b: &AtomicU32| a.load(Ordering::SeqCst) == b.load(Ordering::SeqCst);
        let is_it = entry.qpn.load(Ordering::SeqCst) != 0 && same(&entry.qpn, &of.dest_qpn) && same(&entry.dest_qpn, &of.qpn);
        (is_it && entry.peer.load(Ordering::Acquire) == index + 1).then_some(entry)
    }

    fn region(&self, key: u32) -> Option<&'static KeyEntry> {
        let entry = &self.tables.keys[key_index(key)?];
        (key != 0 && entry.key.load(Ordering::SeqCst) == key).then_some(entry)
    }

    /// Where `len_bytes` at `iova` of a region are, if queue pair `by` may reach them with these rights.
    pub fn reach(&self, by: &QpEntry, key: u32, iova: u64, len_bytes: u64, rights: u32) -> Option<Stretch> {
        let region = self.region(key)?;
        let same = |a: &AtomicU32, b: &AtomicU32| a.load(Ordering::Relaxed) == b.load(Ordering::Relaxed);
        if !same(&region.hca, &by.hca) || !same(&region.pd, &by.pd) || !same(&region.pid, &by.pid) {
            return None;
        }
        let offset = iova.checked_sub(region.iova.load(Ordering::Relaxed))?;
        let fits = offset.checked_add(len_bytes)? <= region.len_bytes.load(Ordering::Relaxed);
        let allowed = region.access.load(Ordering::Relaxed) & rights == rights;
        (fits && allowed).then(|| Stretch { address: region.address.load(Ordering::Relaxed) + offset, len_bytes })
    }
}

/// Copies from this process's `local` to `remote` of process `pid`; false unless all of it went.
pub fn write(pid: u32, local: &[Stretch], remote: Stretch) -> bool {
    transfer(libc::SYS_process_vm_writev, pid, local, remote)
}

/// The other way round.
pub fn read(pid: u32, local: &[Stretch], remote: Stretch) -> bool {
    transfer(libc::SYS_process_vm_readv, pid, local, remote)
}

const STRETCHES_MAX: usize = 64;

fn transfer(call: libc::c_long, pid: u32, local: &[Stretch], remote: Stretch) -> bool {
    if remote.len_bytes == 0 {
        return true;
    }
    if local.len() > STRETCHES_MAX {
        return false;
    }
    let vector = |stretch: &Stretch| libc::iovec { iov_base: stretch.address as *mut libc::c_void, iov_len: stretch.len_bytes as usize };
    let mut here = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; STRETCHES_MAX];
    for (to, from) in here.iter_mut().zip(local) {
        *to = vector(from);
    }
    let there = vector(&remote);
    // SAFETY: the kernel checks both sides' addresses; which of them may be named was checked against the tables.
    let moved = unsafe { libc::syscall(call, pid as libc::pid_t, here.as_ptr(), local.len(), &raw const there, 1usize, 0usize) };
    moved >= 0 && moved as u64 == remote.len_bytes
}
