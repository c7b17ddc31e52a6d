//! The programs' memory as the model reaches it: `process_vm_readv` and `process_vm_writev`,
//! without an engine mapping in between.
//!
//! The engine defers writes until the program or a read of the model can see them. The packets of a
//! message then need one system call together. Programs cannot observe the delay: a program runs
//! only when it has the token, and [`ProgramMemory::flush`] comes before that. Other processes may
//! have mapped the memory, too. Then [`ProgramMemory::flush_shared`] comes before their turns.

use crate::process::ahead::Ahead;
use crate::process::shared_words::SharedWords;
use crate::procfs;
use rustix::fd::OwnedFd;
use softband_model::verbs::api::{HostMemory, MemoryFault, PayloadSlice, read_and_write};
use softband_types::ProcessId;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Deferred bytes of one process beyond which the engine carries out the writes.
const DEFERRED_BYTES_MAX: usize = 4 << 20;
/// Longest vector of one system call (IOV_MAX).
const VECTORS_MAX: usize = 1024;
const PAGE: u64 = 4096;

#[derive(Default)]
struct Deferred {
    writes: Vec<(u64, PayloadSlice)>,
    bytes: usize,
    /// Set if other processes may look at the memory.
    is_shared: bool,
}

/// Memory of all programs, by engine number.
#[derive(Default)]
pub(crate) struct ProgramMemory {
    pids: Vec<Option<i32>>,
    deferred: Vec<Deferred>,
    /// Processes with writes deferred since the last [`Self::flush_all`].
    dirty: Vec<usize>,
    /// Processes with deferred writes that other processes may see.
    shared: Vec<usize>,
    /// Process whose memory the last event wrote, and the address.
    last_written: Option<(ProcessId, u64)>,
    /// Threads that compute while the engine goes on. Their memory is not to be touched.
    ahead: Ahead,
    /// Words that programs change themselves.
    words: SharedWords,
    /// Set when the engine has read memory of some program.
    has_reached: bool,
    /// First refusal of the host to give access to any program's memory. The engine reports it
    /// once.
    denied: Option<std::io::Error>,
    /// Lost writes, each with the host's process id.
    lost: Vec<(i32, Lost)>,
}

/// Reason why writes of peers do not reach registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The memory is a shared mapping, and the program may no longer write to it.
    Protected,
    /// The process changed its user or made itself undumpable.
    Hidden,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Protected => "what peers write to registered memory that is a shared mapping is lost while the program may not write to it itself",
            Self::Hidden => {
                "its memory cannot be reached, since the process has changed its user or made itself undumpable (prctl, PR_SET_DUMPABLE): it can \
                 register no memory but in wall pace what lies on a heap, and what peers write to other memory is lost"
            }
        })
    }
}

impl ProgramMemory {
    /// Sets the host's process id `pid` of process `number`. `None` means that the process is gone.
    pub(crate) fn set_pid(&mut self, number: ProcessId, pid: Option<i32>) {
        let index = number.0 as usize;
        if self.pids.len() <= index {
            self.pids.resize(index + 1, None);
            self.deferred.resize_with(index + 1, Deferred::default);
        }
        self.words.forget_process(number);
        self.ahead.forget(index);
        self.pids[index] = pid;
        self.deferred[index] = Deferred::default();
    }

    fn pid(&self, process: ProcessId) -> Result<i32, MemoryFault> {
        self.pids.get(process.0 as usize).copied().flatten().ok_or(MemoryFault)
    }

    /// Returns the threads that compute ahead.
    pub(crate) fn ahead_mut(&mut self) -> &mut Ahead {
        &mut self.ahead
    }

    /// Takes the process whose memory the last event wrote, with the address of the write.
    pub(crate) fn take_last_written(&mut self) -> Option<(ProcessId, u64)> {
        self.last_written.take()
    }

    /// Takes the first refusal of the host to give access to any program's memory.
    pub(crate) fn take_denied(&mut self) -> Option<std::io::Error> {
        self.denied.take()
    }

    /// Returns whether writes were lost since the last [`ProgramMemory::take_lost`].
    pub(crate) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Takes the lost writes since the last call, each with the host's process id.
    pub(crate) fn take_lost(&mut self) -> Vec<(i32, Lost)> {
        std::mem::take(&mut self.lost)
    }

    /// Notes a region that programs can map from now on: its address and its length in bytes.
    pub(crate) fn note_shared(&mut self, process: ProcessId, key: u32, span: (u64, u64), file: Arc<OwnedFd>) {
        self.words.note(process, key, span, file);
    }

    /// Forgets a region that no program maps any more.
    pub(crate) fn forget_shared(&mut self, process: ProcessId, key: u32) {
        self.words.forget(process, key);
    }

    pub(crate) fn forget_shared_of(&mut self, process: ProcessId) {
        self.words.forget_process(process);
    }

    /// Carries out the deferred writes of all processes.
    pub(crate) fn flush_all(&mut self) {
        for index in std::mem::take(&mut self.dirty) {
            self.flush(ProcessId(index as u32));
        }
    }

    /// Carries out the deferred writes of `process` before the next turn of any process.
    pub(crate) fn show_soon(&mut self, process: ProcessId) {
        let deferred = &mut self.deferred[process.0 as usize];
        if !deferred.writes.is_empty() && !std::mem::replace(&mut deferred.is_shared, true) {
            self.shared.push(process.0 as usize);
        }
    }

    /// Carries out the deferred writes that other processes may see.
    pub(crate) fn flush_shared(&mut self) {
        for index in std::mem::take(&mut self.shared) {
            self.flush(ProcessId(index as u32));
        }
    }

    /// Returns whether the whole span is mapped, and writable if `write`. The kernel checks this
    /// when it pins memory. If the engine cannot read a program's mappings, it trusts the program.
    /// With `by_kernel` the engine reaches the memory through the kernel and tests access first.
    pub(crate) fn can_be_pinned(&mut self, process: ProcessId, (address, len): (u64, u64), write: bool, by_kernel: bool) -> bool {
        // The last page of a file mapping may lie behind the end of the file.
        if by_kernel && len > 0 && self.read(process, address.saturating_add(len - 1), &mut [0]).is_err() {
            return false;
        }
        let Ok(maps) = self.pid(process).and_then(|pid| procfs::maps(pid).map_err(|_| MemoryFault)) else {
            return true;
        };
        // Mapped files may have any name.
        covers(&String::from_utf8_lossy(&maps), (address, address.saturating_add(len)), if write { "rw" } else { "r" })
    }

    /// Carries out the deferred writes of `process`.
    pub(crate) fn flush(&mut self, process: ProcessId) {
        let index = process.0 as usize;
        if self.deferred.get(index).is_none_or(|deferred| deferred.writes.is_empty()) {
            return;
        }
        self.ahead.settle_process(index);
        let deferred = std::mem::take(&mut self.deferred[index]);
        if let Ok(pid) = self.pid(process) {
            for batch in deferred.writes.chunks(VECTORS_MAX) {
                self.write_batch(pid, batch);
            }
        }
        // Keep the allocation for the next writes.
        let mut writes = deferred.writes;
        writes.clear();
        self.deferred[index] = Deferred { writes, bytes: 0, is_shared: false };
    }

    fn write_batch(&mut self, pid: i32, batch: &[(u64, PayloadSlice)]) {
        if procfs::is_hidden(pid) {
            return batch.iter().for_each(|(address, payload)| self.write_regardless(pid, *address, payload.bytes()));
        }
        let mut local: Vec<libc::iovec> = Vec::with_capacity(batch.len());
        let mut remote: Vec<libc::iovec> = Vec::with_capacity(batch.len());
        let mut total = 0;
        for (address, payload) in batch {
            let bytes = payload.bytes();
            total += bytes.len();
            local.push(libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() });
            // Neighboring packets of one message form one span on the other side.
            match remote.last_mut() {
                Some(last) if last.iov_base as u64 + last.iov_len as u64 == *address => last.iov_len += bytes.len(),
                _ => remote.push(libc::iovec { iov_base: *address as *mut libc::c_void, iov_len: bytes.len() }),
            }
        }
        // SAFETY: the local vectors name live buffers, which the kernel only reads. The kernel
        // checks the remote vectors.
        let written = unsafe { libc::process_vm_writev(pid, local.as_ptr(), local.len() as u64, remote.as_ptr(), remote.len() as u64, 0) };
        if written == total as isize || written < 0 && self.is_denied(pid) {
            return;
        }
        // Some page is gone or protected. The engine writes the other pages, as an HCA would write
        // the pages that it has pinned.
        match batch {
            [(address, payload)] => self.write_regardless(pid, *address, payload.bytes()),
            _ => batch.chunks(1).for_each(|single| self.write_batch(pid, single)),
        }
    }

    /// Writes page by page, regardless of the program's present access rights: an HCA has pinned
    /// the pages. Skips pages that are gone.
    fn write_regardless(&mut self, pid: i32, address: u64, bytes: &[u8]) {
        let file = match procfs::memory(pid, true) {
            Ok(file) => file,
            Err(_) if procfs::is_hidden(pid) => return self.note_lost(pid, Lost::Hidden),
            Err(_) => return,
        };
        let (mut from, mut looked) = (0, false);
        while from < bytes.len() {
            let at = address + from as u64;
            let to = bytes.len().min(from + (PAGE - at % PAGE) as usize);
            if file.write_all_at(&bytes[from..to], at).is_err() && !std::mem::replace(&mut looked, true) && is_mapped(pid, at) {
                self.note_lost(pid, Lost::Protected);
            }
            from = to;
        }
    }

    /// Reads memory of a hidden process.
    fn read_hidden(&mut self, pid: i32, address: u64, into: &mut [u8]) -> Result<(), MemoryFault> {
        let Ok(file) = procfs::memory(pid, false) else {
            self.note_lost(pid, Lost::Hidden);
            return Err(MemoryFault);
        };
        file.read_exact_at(into, address).map_err(|_| MemoryFault)
    }

    fn note_lost(&mut self, pid: i32, what: Lost) {
        if !self.lost.contains(&(pid, what)) {
            self.lost.push((pid, what));
        }
    }

    /// Returns whether the last system call failed because the host denies access to this memory.
    fn is_denied(&mut self, pid: i32) -> bool {
        let error = std::io::Error::last_os_error();
        let is_denied = error.raw_os_error() == Some(libc::EPERM);
        // If a process has another user or is not dumpable, another user owns its files in /proc
        // (proc(5)). That must not end the run for other programs. The same holds if the engine has
        // reached other memory.
        if is_denied
            && std::fs::metadata(format!("/proc/{pid}/stat"))
                .map_or(true, |data| data.uid() != rustix::process::geteuid().as_raw() || self.has_reached)
        {
            self.note_lost(pid, Lost::Hidden);
        } else if is_denied && self.denied.is_none() {
            self.denied = Some(error);
        }
        is_denied
    }
}

fn is_mapped(pid: i32, address: u64) -> bool {
    procfs::maps(pid).is_ok_and(|maps| covers(&String::from_utf8_lossy(&maps), (address, address + 1), ""))
}

/// Returns whether the mappings of `/proc/PID/maps` cover a range without a gap and with the
/// `needed` rights (`r`, `rw`).
fn covers(maps: &str, (start, end): (u64, u64), needed: &str) -> bool {
    let mut covered = start;
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (Some(range), Some(rights)) = (fields.next(), fields.next()) else { continue };
        let Some((from, to)) = range.split_once('-') else { continue };
        let (Ok(from), Ok(to)) = (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16)) else { continue };
        if to <= covered {
            continue;
        }
        if from > covered || !rights.starts_with(needed) {
            return false;
        }
        covered = to;
        if covered >= end {
            return true;
        }
    }
    covered >= end
}

impl HostMemory for ProgramMemory {
    fn read(&mut self, process: ProcessId, address: u64, into: &mut [u8]) -> Result<(), MemoryFault> {
        self.ahead.settle_process(process.0 as usize);
        self.flush(process);
        let pid = self.pid(process)?;
        if procfs::is_hidden(pid) {
            return self.read_hidden(pid, address, into);
        }
        let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
        // SAFETY: the local vector names a live, exclusively borrowed buffer. The kernel checks the
        // remote vector.
        let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
        if read == into.len() as isize {
            self.has_reached = true;
            return Ok(());
        }
        if read < 0 && self.is_denied(pid) {
            return Err(MemoryFault);
        }
        // This read ignores the program's present access rights.
        let file = procfs::memory(pid, false).map_err(|_| MemoryFault)?;
        file.read_exact_at(into, address).map_err(|_| MemoryFault)
    }

    fn write(&mut self, process: ProcessId, address: u64, payload: &PayloadSlice) -> Result<(), MemoryFault> {
        self.pid(process)?;
        self.last_written = Some((process, address));
        let deferred = &mut self.deferred[process.0 as usize];
        if deferred.writes.is_empty() {
            self.dirty.push(process.0 as usize);
        }
        deferred.bytes += payload.len as usize;
        deferred.writes.push((address, payload.clone()));
        if deferred.bytes > DEFERRED_BYTES_MAX {
            self.flush(process);
        }
        Ok(())
    }

    fn update(&mut self, process: ProcessId, address: u64, change: &dyn Fn(u64) -> u64) -> Result<u64, MemoryFault> {
        self.ahead.settle_process(process.0 as usize);
        self.flush(process);
        let Some(word) = self.words.word(process, address) else { return read_and_write(self, process, address, change) };
        let updated = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |original| Some(change(original)));
        self.last_written = Some((process, address));
        updated.map_err(|_| MemoryFault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "1000-3000 rw-p 0 0:0 0 [heap]\n3000-4000 r--p 0 0:0 0 /lib\n8000-9000 ---p 0 0:0 0\n";

    #[test]
    fn memory_can_be_pinned_where_it_is_mapped_with_the_rights_that_are_asked_for() {
        assert!(covers(MAPS, (0x1800, 0x4000), "r"));
        assert!(covers(MAPS, (0x1000, 0x3000), "rw"));
        assert!(!covers(MAPS, (0x1000, 0x3001), "rw"));
        assert!(!covers(MAPS, (0x10, 0x1010), "r"));
        assert!(!covers(MAPS, (0x3f00, 0x4001), "r"));
        assert!(!covers(MAPS, (0x8000, 0x8001), "r"));
        assert!(covers(MAPS, (0x8000, 0x8001), ""));
    }

    #[test]
    fn put_off_writes_are_there_before_a_read_and_after_a_flush() {
        let mut memory = ProgramMemory::default();
        let me = ProcessId(0);
        memory.set_pid(me, Some(std::process::id() as i32));
        let mut target = vec![0u8; 64];
        let address = target.as_mut_ptr() as u64;
        let buffer: Arc<[u8]> = Arc::from(&[7u8; 32][..]);
        for half in 0..2_u32 {
            let payload = PayloadSlice { buffer: Some(buffer.clone()), offset: half * 16, len: 16 };
            memory.write(me, address + u64::from(half) * 16, &payload).unwrap();
        }
        let mut seen = [0u8; 40];
        memory.read(me, address, &mut seen).unwrap();
        assert_eq!(&seen[..32], &[7; 32]);
        assert_eq!(&seen[32..], &[0; 8]);
        assert_eq!(target[31], 7);
    }

    #[test]
    fn memory_that_is_not_there_is_a_fault_and_not_a_crash() {
        let mut memory = ProgramMemory::default();
        assert_eq!(memory.read(ProcessId(3), 8, &mut [0]), Err(MemoryFault));
        memory.set_pid(ProcessId(0), Some(std::process::id() as i32));
        assert_eq!(memory.read(ProcessId(0), 8, &mut [0]), Err(MemoryFault));
    }
}
