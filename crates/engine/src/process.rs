//! A program's process as the engine sees it: shared memory, threads, what it owns.

use crate::admission::Admission;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::mm::{MapFlags, ProtFlags};
use softband_ipc::layout::{
    HOSTS_MAX, HOSTS_OFFSET, HostEntry, MAGIC, MEMORY_FILE_BYTES, MEMORY_FILE_NAME, PAYLOAD_BYTES, POSTED_BYTES, QUEUES_OFFSET, RINGS_OFFSET,
    SHARED_BYTES, SLOTS_OFFSET, SharedHeader, THREADS_MAX, ThreadSlot, WALL_RING_BYTES,
};
use softband_ipc::ring::{CqRingHeader, Cqe, entry_offset, ring_bytes};
use softband_sim::{SimDuration, SimTime};
use softband_types::ProcessId;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const PAGE_BYTES: u64 = 4096;

/// The file that a process shares with the engine, mapped here.
pub(crate) struct Shared {
    base: *mut u8,
    /// None when the process has ended: the mapping is one that nobody shares then.
    file: Option<OwnedFd>,
    ring_next: usize,
    rings_free: BTreeMap<u32, Vec<usize>>,
    /// In wall pace: where the process's registered memory lies.
    memory: Option<(u32, Arc<OwnedFd>)>,
    /// Where the next queue goes that peers reach, and places that are free, by their size.
    queue_next: u64,
    queues_free: BTreeMap<u64, Vec<u64>>,
}

/// Makes a file in memory whose size nobody can change any more: who maps it never faults because another process cuts it. No seal can
/// be added later either: one against writing would keep the engine from mapping it again.
pub(crate) fn sealed_file(name: &str, bytes: u64) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// A part of a file, mapped.
pub(crate) struct Mapped {
    base: *mut u8,
    bytes: usize,
}

impl Mapped {
    pub(crate) fn new(file: BorrowedFd<'_>, offset: u64, bytes: usize) -> Option<Self> {
        // SAFETY: a fresh mapping where the kernel likes.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, offset) };
        base.ok().map(|base| Self { base: base.cast(), bytes })
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: our own mapping; no reference into it outlives this.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.bytes) };
    }
}

impl Shared {
    pub(crate) fn new() -> std::io::Result<Self> {
        let file = sealed_file("softband", SHARED_BYTES as u64)?;
        // SAFETY: a fresh mapping of a file that is as large as the mapping.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), SHARED_BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)? };
        Ok(Self {
            base: base.cast(),
            file: Some(file),
            ring_next: RINGS_OFFSET,
            rings_free: BTreeMap::new(),
            memory: None,
            queue_next: QUEUES_OFFSET,
            queues_free: BTreeMap::new(),
        })
    }

    /// Makes the file for registered memory. The process has none if the system refuses.
    pub(crate) fn make_memory_file(&mut self, admission: &Admission) {
        // A program's limit on the size of files would end the engine here, and the program later.
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        if limit.is_some_and(|limit| limit < MEMORY_FILE_BYTES) {
            return;
        }
        let file = sealed_file(MEMORY_FILE_NAME, MEMORY_FILE_BYTES).ok().map(Arc::new);
        self.memory = file.map(|file| (admission.put_file(file.clone()), file));
    }

    /// By which number peers ask for the file of registered memory; 0 for none. Not as the header says it: a program could lead its
    /// peers to somebody else's file there.
    pub(crate) fn memory_file_number(&self) -> u32 {
        self.memory.as_ref().map_or(0, |(number, _)| *number)
    }

    pub(crate) fn memory_file(&self) -> Option<&Arc<OwnedFd>> {
        self.memory.as_ref().map(|(_, file)| file)
    }

    /// Room for a queue that peers reach, all zeros.
    pub(crate) fn allocate_queue(&mut self, bytes: usize) -> Option<u64> {
        self.memory.as_ref()?;
        let bytes = (bytes as u64).next_multiple_of(PAGE_BYTES);
        if let Some(offset) = self.queues_free.get_mut(&bytes).and_then(Vec::pop) {
            return Some(offset);
        }
        let offset = self.queue_next;
        self.queue_next = offset.checked_add(bytes).filter(|end| *end <= MEMORY_FILE_BYTES)?;
        Some(offset)
    }

    pub(crate) fn free_queue(&mut self, offset: u64, bytes: usize) {
        use rustix::fs::{FallocateFlags, fallocate};
        let bytes = (bytes as u64).next_multiple_of(PAGE_BYTES);
        let Some((_, file)) = &self.memory else { return };
        if fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes).is_ok() {
            self.queues_free.entry(bytes).or_default().push(offset);
        }
    }

    /// # Panics
    /// When it was retired.
    pub(crate) fn file(&self) -> &OwnedFd {
        self.file.as_ref().expect("the process has not ended")
    }

    /// The process has ended: gives file and mapping back. Later writes to it go where nobody reads.
    pub(crate) fn retire(&mut self) {
        static NOWHERE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping, which is never undone.
        let map = || unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), SHARED_BYTES, ProtFlags::READ | ProtFlags::WRITE, flags) };
        let nowhere = *NOWHERE.get_or_init(|| map().map_or(0, |base| base as usize));
        self.memory = None;
        if nowhere != 0 && self.file.take().is_some() {
            // SAFETY: our own mapping; no reference into it lives across this call.
            let _ = unsafe { rustix::mm::munmap(self.base.cast(), SHARED_BYTES) };
            self.base = std::ptr::with_exposed_provenance_mut(nowhere);
        }
    }

    /// Writes the header. Called before the program sees the file.
    pub(crate) fn write_header(&mut self, mut header: SharedHeader) {
        header.magic = MAGIC;
        header.version = softband_ipc::VERSION;
        // SAFETY: the header fits before the slots (asserted in `layout`), and nobody else has the file yet.
        unsafe { self.base.cast::<SharedHeader>().write(header) };
    }

    /// Writes the list of hosts. Called before the program sees the file, which ends the list by being zero.
    pub(crate) fn write_hosts(&mut self, hosts: impl Iterator<Item = HostEntry>) {
        for (index, host) in hosts.take(HOSTS_MAX - 1).enumerate() {
            // SAFETY: below the number of entries for which the file has room.
            unsafe { self.base.add(HOSTS_OFFSET).cast::<HostEntry>().add(index).write(host) };
        }
    }

    pub(crate) fn header(&self) -> &SharedHeader {
        // SAFETY: written at birth; the program can only change its atomics meaningfully, and whatever it writes is only a number.
        unsafe { &*self.base.cast::<SharedHeader>() }
    }

    pub(crate) fn slot(&self, number: u32) -> &ThreadSlot {
        assert!((number as usize) < THREADS_MAX);
        // SAFETY: within the mapping; the fields that both sides write are atomics or guarded by the turn.
        unsafe { &*self.base.add(SLOTS_OFFSET).cast::<ThreadSlot>().add(number as usize) }
    }

    /// Copies out what a thread wrote as its request. A lying length is cut.
    pub(crate) fn request(&self, slot: u32) -> Vec<u8> {
        let slot = self.slot(slot);
        let len = (slot.payload_len.load(Ordering::Relaxed) as usize).min(PAYLOAD_BYTES);
        // SAFETY: the range lies in the payload; the bytes may change under a lying program, which harms only itself.
        unsafe { std::slice::from_raw_parts(slot.payload.as_ptr(), len) }.to_vec()
    }

    /// Copies out what a thread has posted and empties its buffer.
    pub(crate) fn take_posted(&self, slot: u32, into: &mut Vec<u8>) {
        let slot = self.slot(slot);
        let len = (slot.posted_len.swap(0, Ordering::Relaxed) as usize).min(POSTED_BYTES);
        into.clear();
        // SAFETY: as in `request`.
        into.extend_from_slice(unsafe { std::slice::from_raw_parts(slot.posted.as_ptr(), len) });
    }

    /// Whether there is something in the ring of posts.
    pub(crate) fn has_posts(&self) -> bool {
        self.header().ring_produced.load(Ordering::SeqCst) != self.header().ring_consumed.load(Ordering::Relaxed)
    }

    /// Copies out what is in the ring of posts, in wall pace. Answers up to where that is; the caller tells when it was carried out.
    pub(crate) fn read_ring(&self, into: &mut Vec<u8>) -> Option<u64> {
        into.clear();
        let header = self.header();
        let (produced, consumed) = (header.ring_produced.load(Ordering::Acquire), header.ring_consumed.load(Ordering::Relaxed));
        if produced == consumed {
            return None;
        }
        // A lying program loses what it has posted.
        let len = produced.wrapping_sub(consumed);
        if len <= WALL_RING_BYTES as u64 {
            let start = consumed as usize % WALL_RING_BYTES;
            let first = (len as usize).min(WALL_RING_BYTES - start);
            let ring = self.slot(1).posted.as_ptr();
            // SAFETY: both ranges lie in the buffer; the bytes may change under a lying program, which harms only itself.
            unsafe {
                into.extend_from_slice(std::slice::from_raw_parts(ring.add(start), first));
                into.extend_from_slice(std::slice::from_raw_parts(ring, len as usize - first));
            }
        }
        Some(produced)
    }

    /// Writes the reply of a call: `status`, then `parts` one after another.
    pub(crate) fn reply(&self, slot: u32, status: i32, parts: &[&[u8]]) {
        let slot = self.slot(slot);
        let mut at = 0;
        for part in parts {
            assert!(at + part.len() <= PAYLOAD_BYTES, "a reply fits");
            // SAFETY: the range was checked, and it is the engine's turn on this slot.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), slot.payload.as_ptr().cast_mut().add(at), part.len()) };
            at += part.len();
        }
        slot.payload_len.store(at as u32, Ordering::Relaxed);
        slot.status.store(status, Ordering::Relaxed);
    }

    /// Room for a ring of `capacity` entries; `None` when the file is full.
    pub(crate) fn allocate_ring(&mut self, capacity: u32) -> Option<usize> {
        let offset = match self.rings_free.get_mut(&capacity).and_then(Vec::pop) {
            Some(offset) => offset,
            None => {
                let offset = self.ring_next;
                let end = offset + ring_bytes(capacity).next_multiple_of(64);
                if end > SHARED_BYTES {
                    return None;
                }
                self.ring_next = end;
                offset
            }
        };
        let header = self.ring(offset);
        header.produced.store(0, Ordering::Relaxed);
        header.consumed.store(0, Ordering::Relaxed);
        header.capacity.store(capacity, Ordering::Relaxed);
        header.overflowed.store(0, Ordering::Relaxed);
        Some(offset)
    }

    pub(crate) fn free_ring(&mut self, offset: usize, capacity: u32) {
        self.rings_free.entry(capacity).or_default().push(offset);
    }

    fn ring(&self, offset: usize) -> &CqRingHeader {
        // SAFETY: offsets come from `allocate_ring` only; the header consists of atomics.
        unsafe { &*self.base.add(offset).cast::<CqRingHeader>() }
    }

    /// Completions that a ring holds. The program's counter is not trusted: more than fit do not count.
    pub(crate) fn waiting(&self, offset: usize, capacity: u32) -> u32 {
        let header = self.ring(offset);
        let waiting = header.produced.load(Ordering::Relaxed).wrapping_sub(header.consumed.load(Ordering::Acquire));
        waiting.min(capacity)
    }

    /// Byte `offset` of the file, for a harness that plays the program.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < SHARED_BYTES);
        self.base.wrapping_add(offset)
    }

    /// How much was put into a ring.
    pub(crate) fn produced(&self, offset: usize) -> u32 {
        self.ring(offset).produced.load(Ordering::Relaxed)
    }

    /// As a program does that takes all completions: the last of them.
    pub(crate) fn take_all(&self, offset: usize, capacity: u32) -> Cqe {
        let header = self.ring(offset);
        let produced = header.produced.load(Ordering::Acquire);
        header.consumed.store(produced, Ordering::Release);
        // SAFETY: the index is below the capacity for which the room was made.
        unsafe { self.at(offset + entry_offset(produced.wrapping_sub(1), capacity)).cast::<Cqe>().read() }
    }

    /// A completion found no room where the program keeps its own.
    pub(crate) fn mark_overflowed(&self, offset: usize) {
        self.ring(offset).overflowed.store(1, Ordering::Release);
    }

    /// Puts a completion into a ring; false when it is full. The program's counter is not trusted beyond that.
    pub(crate) fn produce(&self, offset: usize, capacity: u32, cqe: Cqe) -> bool {
        let header = self.ring(offset);
        let produced = header.produced.load(Ordering::Relaxed);
        let waiting = produced.wrapping_sub(header.consumed.load(Ordering::Acquire));
        if waiting >= capacity {
            header.overflowed.store(1, Ordering::Release);
            return false;
        }
        let at = offset + entry_offset(produced, capacity);
        // SAFETY: the index is below the capacity for which the room was made.
        unsafe { self.base.add(at).cast::<Cqe>().write(cqe) };
        header.produced.store(produced.wrapping_add(1), Ordering::Release);
        true
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.file.is_none() {
            return;
        }
        // SAFETY: our own mapping; no reference into it outlives the process record.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), SHARED_BYTES) };
    }
}

/// What a thread waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Anything new for the process.
    Poll,
    /// Registered memory written by a peer.
    Spin,
    /// A moment.
    Sleep,
    /// What another process of the run does outside our sight: it looks again at a moment.
    OsPoll,
    /// One of the objects, by (object, interest).
    Objects(Vec<(u32, u32)>),
}

/// Where a thread is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ThreadState {
    /// Made, but its image or OS thread has not come yet.
    Expected,
    /// It will get the token by an event that is already scheduled.
    Scheduled,
    Waiting(Waiting),
    /// In the operating system, outside our sight.
    Away,
    Ended,
}

/// One thread of a program.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) state: ThreadState,
    /// Changes at each new wait: wake-ups of an earlier one are stale.
    pub(crate) generation: u32,
    /// The process's `news` when the thread last got the token.
    pub(crate) news_seen: u64,
    pub(crate) memory_seen: u64,
    /// Time of the next fruitless poll, grows while polls stay fruitless.
    pub(crate) slice_picos: u64,
    /// It is back from where it is about to be told to have gone: the word of that came faster than its turn.
    pub(crate) came_back: bool,
    /// The call in progress has cost its time already and is carried out now.
    pub(crate) paid: bool,
    /// When it began to look for news in vain.
    pub(crate) waiting_since: Option<SimTime>,
}

/// State of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessState {
    /// Its ticket was given out, but its parent has not had the token to make it.
    Promised,
    /// Its image has not attached yet (started, forked or about to be replaced).
    Expected,
    Attached,
    /// Runs outside: its image could not be given the library.
    Foreign,
    Ended,
}

/// A process of a program.
pub(crate) struct Process {
    pub(crate) number: ProcessId,
    pub(crate) host: usize,
    /// Which of the run's programs it belongs to.
    pub(crate) program: usize,
    pub(crate) parent: Option<usize>,
    /// By which it proves itself once it has attached; 0 before.
    pub(crate) secret: u64,
    pub(crate) state: ProcessState,
    pub(crate) shared: Shared,
    /// The system's number of it; 0 before there is one.
    pub(crate) pid: i32,
    /// When the process with this number was started, in the kernel's ticks: the number may be another's later.
    pub(crate) pid_since: Option<u64>,
    /// Number of the control connection.
    pub(crate) connection: Option<u64>,
    pub(crate) threads: Vec<Thread>,
    /// In simulated time: how long each slot's threads worked while something was sent, under all images.
    pub(crate) busy: Vec<SimDuration>,
    /// Counts everything new that a thread of it could see.
    pub(crate) news: u64,
    pub(crate) memory_written: u64,
    /// In wall pace: send requests that are carried out when all processes' posts have been looked at again.
    pub(crate) held_sends: Vec<u8>,
    /// In wall pace, once the process has a channel: the socket that sends its events.
    pub(crate) event_sender: Option<crate::wall::EventSender>,
    /// In wall pace: the transfers that it has announced, as the engine has seen them.
    pub(crate) announced: Cell<crate::quiescence::Announced>,
    pub(crate) signals_pending: u64,
    pub(crate) alarms: BTreeMap<u32, AlarmState>,
    /// Objects that it holds, with how often.
    pub(crate) objects: BTreeMap<u32, u32>,
    /// Has memory that peers may write: it may spin on it.
    pub(crate) remotely_writable: u32,
    /// Told to end by the engine or known to have ended on its own; time of it.
    pub(crate) ended_at: Option<SimTime>,
    /// Has said that it ends: the system ends it at once, so its other threads, whom that may find anywhere, get no turn any more.
    pub(crate) leaves: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct AlarmState {
    pub(crate) at: SimTime,
    pub(crate) interval_picos: u64,
    pub(crate) generation: u64,
}

impl Process {
    pub(crate) fn clock(&self, slot: u32) -> SimTime {
        let picos = self.shared.slot(slot).clock_ps.load(Ordering::Relaxed);
        crate::calls::program_time(picos).unwrap_or(crate::calls::END)
    }
    /// Notes which process of the system it is.
    pub(crate) fn set_pid(&mut self, pid: i32) {
        (self.pid, self.pid_since) = (pid, crate::admission::start_of(pid));
    }
    /// Sends a signal to it, and to no other process that has its number by now.
    pub(crate) fn send_signal(&self, signal: i32) {
        crate::system_process::send_signal(self.pid, self.pid_since, signal);
    }
    /// An image is to attach with its ticket.
    pub(crate) fn is_awaited(&self) -> bool {
        matches!(self.state, ProcessState::Promised | ProcessState::Expected)
    }
    pub(crate) fn is_alive(&self) -> bool {
        matches!(self.state, ProcessState::Promised | ProcessState::Expected | ProcessState::Attached)
    }
}

/// A `stat` of `/proc`, empty where there is none. Processes may have any name, and those that are cut are no longer UTF-8.
pub(crate) fn stat(path: String) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
