//! Models of the protocol: loom runs the code of this crate with all interleavings of a few threads
//! that have at most [`PREEMPTIONS`] preemptions, and with all values that a read may return.
//! `cargo xtask models` runs them.
//!
//! Each model that drops a step of the protocol must fail, and says so by `should_panic`.

mod epochs;
mod events;
mod queues;
mod rings;

use crate::epoch_slots::{EPOCH_SLOTS, EpochSlot, Owners};
use crate::platform::Platform;
use crate::queues::{
    Parties, ReceiveEntry, ReceiveQueueHeader, RemoteCqe, RemoteCqeRingHeader, entry_bytes, receive_queue_bytes, remote_cqe_ring_bytes,
};
use crate::quiescence::Transfers;
use crate::sync::{AtomicU32, AtomicU64, Ordering, Track};
use crate::tables::{KeyEntry, Tables};
use softband_ipc::layout::LineOf;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::Cell;

/// Entries of each queue and ring.
const ENTRIES: u32 = 2;
/// PID of no process.
const GONE: u32 = 99;
/// Numbers of files: a receive queue, and a ring of remote CQEs.
const QUEUE: u32 = 1;
const RING: u32 = 2;

/// A party of a model: its PID and thread are those of the calling thread.
#[derive(Clone, Copy, Default)]
struct Model;

/// Memory that the parties share. Loom makes it anew for each interleaving.
struct World {
    tables: Tables,
    slots: [LineOf<AtomicU64>; EPOCH_SLOTS],
    owners: Owners,
    swept: AtomicU32,
    queue: Block,
    ring: Block,
    /// Memory of the receive requests 1 and 2, into which messages go.
    buffers: [Track; 2],
    /// A receive request that the owner gave to the engine; 0 for none.
    given: AtomicU64,
}
// SAFETY: the blocks are memory of the world, which all threads may reach.
unsafe impl Send for World {}
// SAFETY: all threads may reach the world's memory. The protocol under test excludes conflicts, or loom reports them.
unsafe impl Sync for World {}

/// Zeroed memory, aligned as the queues need it.
struct Block(*mut u8, Layout);

impl Block {
    fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes, 64).expect("a layout");
        // SAFETY: the size is not zero.
        Self(unsafe { alloc_zeroed(layout) }, layout)
    }

    /// Puts a value in place.
    fn put<T>(&self, offset: usize, value: T) {
        assert!(offset + size_of::<T>() <= self.1.size());
        // SAFETY: the place lies in the block, and nobody uses it yet.
        unsafe { self.0.add(offset).cast::<T>().write(value) };
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.0, self.1) };
    }
}

impl World {
    fn new() -> Self {
        let queue = Block::new(receive_queue_bytes(ENTRIES, 0));
        queue.put(0, ReceiveQueueHeader::default());
        let ring = Block::new(remote_cqe_ring_bytes(ENTRIES));
        ring.put(0, RemoteCqeRingHeader::default());
        for index in 0..ENTRIES as usize {
            queue.put(size_of::<ReceiveQueueHeader>() + index * entry_bytes(0), ReceiveEntry::default());
            ring.put(size_of::<RemoteCqeRingHeader>() + index * size_of::<RemoteCqe>(), RemoteCqe::default());
        }
        Self {
            tables: Tables::default(),
            slots: Default::default(),
            owners: Owners::new(),
            swept: AtomicU32::new(0),
            queue,
            ring,
            buffers: Default::default(),
            given: AtomicU64::new(0),
        }
    }
}

loom::lazy_static! {
    static ref WORLD: World = World::new();
}

loom::thread_local! {
    static ME: Cell<u32> = Cell::new(1);
    static THREAD: Cell<u64> = Cell::new(1);
}

impl Platform for Model {
    fn own_number() -> u32 {
        ME.with(Cell::get)
    }

    fn is_attached_process() -> bool {
        true
    }

    fn thread() -> u64 {
        THREAD.with(Cell::get) << 12
    }

    fn is_single_threaded() -> bool {
        false
    }

    fn note_several_threads() {}

    fn is_gone(pid: u32) -> bool {
        pid == GONE
    }

    fn now_ps() -> u64 {
        0
    }

    fn yield_now() {
        loom::thread::yield_now();
    }

    fn epoch_slots() -> &'static [LineOf<AtomicU64>; EPOCH_SLOTS] {
        &WORLD.slots
    }

    fn owners() -> &'static Owners {
        &WORLD.owners
    }

    fn tables() -> Option<&'static Tables> {
        Some(&WORLD.tables)
    }

    fn swept() -> &'static AtomicU32 {
        &WORLD.swept
    }

    fn sweep(_tables: &'static Tables, _own: &EpochSlot) {}

    fn alias(_entry: &KeyEntry, _key: u32, _address: u64) -> Option<*mut u8> {
        None
    }

    fn map_part(file: u32, _offset: u64, _bytes: usize) -> Option<*mut u8> {
        Some(if file == QUEUE { WORLD.queue.0 } else { WORLD.ring.0 })
    }

    unsafe fn unmap_part(_base: *mut u8, _bytes: usize) {}
}

/// Switches away from a thread that could go on, unless LOOM_MAX_PREEMPTIONS says otherwise.
const PREEMPTIONS: usize = 2;

/// Runs a model.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(PREEMPTIONS));
    builder.max_branches = 20_000;
    builder.check(move || {
        let _ = WORLD.swept.load(Ordering::Relaxed); // made before any other thread begins
        model();
    });
}

/// Starts the only thread of process `pid`.
fn spawn<T: 'static>(pid: u32, run: impl FnOnce() -> T + 'static) -> loom::thread::JoinHandle<T> {
    spawn_thread(pid, u64::from(pid), run)
}

/// Starts a thread of process `pid`. Odd numbers of threads begin their search at one slot.
fn spawn_thread<T: 'static>(pid: u32, thread: u64, run: impl FnOnce() -> T + 'static) -> loom::thread::JoinHandle<T> {
    loom::thread::spawn(move || {
        ME.with(|me| me.set(pid));
        THREAD.with(|own| own.set(thread));
        run()
    })
}

/// Waits for quiescence, as the engine does.
fn await_quiescence() {
    let transfers = Transfers::of(&WORLD.slots);
    while !transfers.have_ended(&WORLD.slots) {
        loom::thread::yield_now();
    }
}

/// Returns a completion with this `wr_id`.
fn cqe(wr_id: u64) -> RemoteCqe {
    RemoteCqe { wr_id, parties: Parties::default(), ..RemoteCqe::default() }
}
