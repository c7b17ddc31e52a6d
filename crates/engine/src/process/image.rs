//! A program's process as the engine sees it: shared memory, threads and objects.

use crate::control::admission::Admission;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::mm::{MapFlags, ProtFlags};
use softband_ipc::layout::{
    HOSTS_MAX, HOSTS_OFFSET, HostEntry, MAGIC, MEMORY_FILE_BYTES, MEMORY_FILE_NAME, PAYLOAD_BYTES, POSTED_BYTES, QUEUES_OFFSET, RINGS_OFFSET,
    SHARED_BYTES, SLOTS_OFFSET, SharedHeader, THREADS_MAX, TRAFFIC_OFFSET, TRAFFIC_ROWS, ThreadSlot, TrafficRow, WALL_RING_BYTES,
};
use softband_ipc::ring::{CqRingHeader, Cqe, entry_offset, ring_bytes};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const PAGE_BYTES: u64 = 4096;

/// File that a process shares with the engine, mapped in the engine.
pub(crate) struct Shared {
    base: *mut u8,
    /// `None` after the process has ended. The mapping is then private to the engine.
    file: Option<OwnedFd>,
    ring_next: usize,
    rings_free: BTreeMap<u32, Vec<usize>>,
    /// Offsets and capacities of the rings in use.
    rings: Vec<(usize, u32)>,
    /// Counters of the completions taken from rings that were freed, modulo 2^32.
    taken_before: u32,
    /// In wall pace: number and file of the process's registered memory.
    memory: Option<(u32, Arc<OwnedFd>)>,
    /// Offset of the next queue for peers, and free offsets by size in bytes.
    queue_next: u64,
    queues_free: BTreeMap<u64, Vec<u64>>,
}

/// Creates a file in memory whose size nobody can change. Another process therefore cannot cut the
/// file and cause a fault here. The seals also prevent later seals: a write seal would keep the
/// engine from mapping the file again.
pub(crate) fn sealed_file(name: &str, bytes: u64) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// A mapped part of a file.
pub(crate) struct Mapped {
    base: *mut u8,
    bytes: usize,
}

impl Mapped {
    pub(crate) fn new(file: BorrowedFd<'_>, offset: u64, bytes: usize) -> Option<Self> {
        // SAFETY: creates a new mapping at an address that the kernel chooses.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, offset) };
        base.ok().map(|base| Self { base: base.cast(), bytes })
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: this type owns the mapping, and no reference into it outlives this value.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.bytes) };
    }
}

impl Shared {
    pub(crate) fn new() -> std::io::Result<Self> {
        let file = sealed_file("softband", SHARED_BYTES as u64)?;
        // SAFETY: creates a new mapping of a file that is as large as the mapping.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), SHARED_BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)? };
        Ok(Self {
            base: base.cast(),
            file: Some(file),
            ring_next: RINGS_OFFSET,
            rings_free: BTreeMap::new(),
            rings: Vec::new(),
            taken_before: 0,
            memory: None,
            queue_next: QUEUES_OFFSET,
            queues_free: BTreeMap::new(),
        })
    }

    /// Creates the file for registered memory. The process has no file if the system refuses.
    pub(crate) fn make_memory_file(&mut self, admission: &Admission) {
        // A program's limit on file sizes would end the engine here, and the program later.
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        if limit.is_some_and(|limit| limit < MEMORY_FILE_BYTES) {
            return;
        }
        let file = sealed_file(MEMORY_FILE_NAME, MEMORY_FILE_BYTES).ok().map(Arc::new);
        self.memory = file.map(|file| (admission.put_file(file.clone()), file));
    }

    /// Returns the number by which peers request the file of registered memory; 0 if the process
    /// has none. The engine does not use the number in the header, because a program could lead
    /// peers to a file of another process there.
    pub(crate) fn memory_file_number(&self) -> u32 {
        self.memory.as_ref().map_or(0, |(number, _)| *number)
    }

    pub(crate) fn memory_file(&self) -> Option<&Arc<OwnedFd>> {
        self.memory.as_ref().map(|(_, file)| file)
    }

    /// Returns the offset of room for a queue that peers reach, filled with zeros.
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

    /// Returns the shared file.
    ///
    /// # Panics
    /// If the process was retired.
    pub(crate) fn file(&self) -> &OwnedFd {
        self.file.as_ref().expect("the process has not ended")
    }

    /// Releases file and mapping of an ended process. Later writes go to memory that nobody reads.
    pub(crate) fn retire(&mut self) {
        static NOWHERE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: creates a new mapping, which the engine never removes.
        let map = || unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), SHARED_BYTES, ProtFlags::READ | ProtFlags::WRITE, flags) };
        let nowhere = *NOWHERE.get_or_init(|| map().map_or(0, |base| base as usize));
        self.memory = None;
        if nowhere != 0 && self.file.take().is_some() {
            // SAFETY: this value owns the mapping, and no reference into it lives across this call.
            let _ = unsafe { rustix::mm::munmap(self.base.cast(), SHARED_BYTES) };
            self.base = std::ptr::with_exposed_provenance_mut(nowhere);
        }
    }

    /// Writes the header. The caller calls this before the program sees the file.
    pub(crate) fn write_header(&mut self, mut header: SharedHeader) {
        header.magic = MAGIC;
        header.version = softband_ipc::VERSION;
        // SAFETY: the header fits before the slots (asserted in `layout`), and no other process has
        // the file yet.
        unsafe { self.base.cast::<SharedHeader>().write(header) };
    }

    /// Writes the list of hosts. The caller calls this before the program sees the file. The zeros
    /// of the new file end the list.
    pub(crate) fn write_hosts(&mut self, hosts: impl Iterator<Item = HostEntry>) {
        for (index, host) in hosts.take(HOSTS_MAX - 1).enumerate() {
            // SAFETY: the index is below the number of entries for which the file has room.
            unsafe { self.base.add(HOSTS_OFFSET).cast::<HostEntry>().add(index).write(host) };
        }
    }

    pub(crate) fn header(&self) -> &SharedHeader {
        // SAFETY: the engine wrote the header at creation. The program can change only atomics in a
        // meaningful way, and each value that it writes is only a number.
        unsafe { &*self.base.cast::<SharedHeader>() }
    }

    /// Returns the counters of traffic that the program carried itself.
    pub(crate) fn traffic(&self) -> &[TrafficRow] {
        // SAFETY: the rows lie within the mapping, and consist of atomics. Each value that the
        // program writes is only a number.
        unsafe { std::slice::from_raw_parts(self.base.add(TRAFFIC_OFFSET).cast::<TrafficRow>(), TRAFFIC_ROWS) }
    }

    pub(crate) fn slot(&self, number: u32) -> &ThreadSlot {
        assert!((number as usize) < THREADS_MAX);
        // SAFETY: the slot lies within the mapping. Fields that both sides write are atomics, or
        // the execution token guards them.
        unsafe { &*self.base.add(SLOTS_OFFSET).cast::<ThreadSlot>().add(number as usize) }
    }

    /// Copies the request of a thread. Cuts a false length to the size of the payload.
    pub(crate) fn request(&self, slot: u32) -> Vec<u8> {
        let slot = self.slot(slot);
        let len = (slot.payload_len.load(Ordering::Relaxed) as usize).min(PAYLOAD_BYTES);
        // SAFETY: the range lies in the payload. A lying program may change the bytes meanwhile,
        // which harms only that program.
        unsafe { std::slice::from_raw_parts(slot.payload.as_ptr(), len) }.to_vec()
    }

    /// Copies the posts of a thread and empties its buffer.
    pub(crate) fn take_posted(&self, slot: u32, into: &mut Vec<u8>) {
        let slot = self.slot(slot);
        let len = (slot.posted_len.swap(0, Ordering::Relaxed) as usize).min(POSTED_BYTES);
        into.clear();
        // SAFETY: the range lies in `posted`. A lying program may change the bytes meanwhile, which
        // harms only that program.
        into.extend_from_slice(unsafe { std::slice::from_raw_parts(slot.posted.as_ptr(), len) });
    }

    /// Returns whether the ring of posts holds records.
    pub(crate) fn has_posts(&self) -> bool {
        self.header().ring_produced.load(Ordering::SeqCst) != self.header().ring_consumed.load(Ordering::Relaxed)
    }

    /// Returns whether a call waits for the engine, in wall pace. All threads make their calls in slot 0.
    pub(crate) fn has_call(&self) -> bool {
        self.slot(0).is_calling.load(Ordering::SeqCst) != 0
    }

    /// Takes the call that waits for the engine. Returns false if there is none.
    pub(crate) fn takes_call(&self) -> bool {
        self.has_call() && self.slot(0).is_calling.swap(0, Ordering::SeqCst) != 0
    }

    /// Copies the records in the ring of posts, in wall pace. Returns the counter of their end; the
    /// caller publishes it after it has carried out the records.
    pub(crate) fn read_ring(&self, into: &mut Vec<u8>) -> Option<u64> {
        into.clear();
        let header = self.header();
        let (produced, consumed) = (header.ring_produced.load(Ordering::Acquire), header.ring_consumed.load(Ordering::Relaxed));
        if produced == consumed {
            return None;
        }
        // A lying program loses its posts.
        let len = produced.wrapping_sub(consumed);
        if len <= WALL_RING_BYTES as u64 {
            let start = consumed as usize % WALL_RING_BYTES;
            let first = (len as usize).min(WALL_RING_BYTES - start);
            let ring = self.slot(1).posted.as_ptr();
            // SAFETY: both ranges lie in the buffer. A lying program may change the bytes
            // meanwhile, which harms only that program.
            unsafe {
                into.extend_from_slice(std::slice::from_raw_parts(ring.add(start), first));
                into.extend_from_slice(std::slice::from_raw_parts(ring, len as usize - first));
            }
        }
        Some(produced)
    }

    /// Writes the reply of a call: `status`, then the `parts` in order.
    pub(crate) fn reply(&self, slot: u32, status: i32, parts: &[&[u8]]) {
        let slot = self.slot(slot);
        let mut at = 0;
        for part in parts {
            assert!(at + part.len() <= PAYLOAD_BYTES, "a reply fits");
            // SAFETY: the assertion checked the range, and the engine owns this slot now.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), slot.payload.as_ptr().cast_mut().add(at), part.len()) };
            at += part.len();
        }
        slot.payload_len.store(at as u32, Ordering::Relaxed);
        slot.status.store(status, Ordering::Relaxed);
    }

    /// Allocates a ring of `capacity` entries, and returns its offset. Returns `None` if the file
    /// is full.
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
        self.rings.push((offset, capacity));
        Some(offset)
    }

    pub(crate) fn free_ring(&mut self, offset: usize, capacity: u32) {
        self.rings_free.entry(capacity).or_default().push(offset);
        self.taken_before = self.taken_before.wrapping_add(self.ring(offset).consumed.load(Ordering::Relaxed));
        self.rings.retain(|(used, _)| *used != offset);
    }

    /// Returns whether a ring holds a completion.
    pub(crate) fn has_unread(&self) -> bool {
        self.rings.iter().any(|(offset, capacity)| self.waiting(*offset, *capacity) > 0)
    }

    /// Returns the number of completions that the program has taken, modulo 2^32.
    pub(crate) fn taken(&self) -> u32 {
        let consumed = self.rings.iter().map(|(offset, _)| self.ring(*offset).consumed.load(Ordering::Relaxed));
        consumed.fold(self.taken_before, u32::wrapping_add)
    }

    /// Returns how often the program has asked the kernel for a descriptor without a wait.
    pub(super) fn kernel_questions(&self) -> u32 {
        self.header().kernel_questions.load(Ordering::Relaxed)
    }

    fn ring(&self, offset: usize) -> &CqRingHeader {
        // SAFETY: offsets come only from `allocate_ring`, and the header consists of atomics.
        unsafe { &*self.base.add(offset).cast::<CqRingHeader>() }
    }

    /// Returns the number of completions in a ring, at most `capacity`: the program's counter may
    /// be false.
    pub(crate) fn waiting(&self, offset: usize, capacity: u32) -> u32 {
        let header = self.ring(offset);
        let waiting = header.produced.load(Ordering::Relaxed).wrapping_sub(header.consumed.load(Ordering::Acquire));
        waiting.min(capacity)
    }

    /// Returns the address of byte `offset` of the file, for a harness that acts as the program.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < SHARED_BYTES);
        self.base.wrapping_add(offset)
    }

    /// Returns the counter of completions put into a ring.
    pub(crate) fn produced(&self, offset: usize) -> u32 {
        self.ring(offset).produced.load(Ordering::Relaxed)
    }

    /// Takes all completions as a program does, and returns the last.
    pub(crate) fn take_all(&self, offset: usize, capacity: u32) -> Cqe {
        let header = self.ring(offset);
        let produced = header.produced.load(Ordering::Acquire);
        header.consumed.store(produced, Ordering::Release);
        // SAFETY: the index is below the number of entries for which the ring has room.
        unsafe { self.at(offset + entry_offset(produced.wrapping_sub(1), capacity)).cast::<Cqe>().read() }
    }

    /// Marks a ring as overflowed, because a completion that the program carried out found no room.
    pub(crate) fn mark_overflowed(&self, offset: usize) {
        self.ring(offset).overflowed.store(1, Ordering::Release);
    }

    /// Puts a completion into a ring. Returns false if the ring is full by the program's counter.
    pub(crate) fn produce(&self, offset: usize, capacity: u32, cqe: Cqe) -> bool {
        let header = self.ring(offset);
        let produced = header.produced.load(Ordering::Relaxed);
        let waiting = produced.wrapping_sub(header.consumed.load(Ordering::Acquire));
        if waiting >= capacity {
            header.overflowed.store(1, Ordering::Release);
            return false;
        }
        let at = offset + entry_offset(produced, capacity);
        // SAFETY: the index is below the number of entries for which the ring has room.
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
        // SAFETY: this value owns the mapping, and no reference into it outlives the process
        // record.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), SHARED_BYTES) };
    }
}
