//! Layout of the memory that one process shares with the engine.

use bytemuck::{Pod, Zeroable};
use std::mem::offset_of;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64};

/// Mark of the file: "SOFTBAND".
pub const MAGIC: u64 = u64::from_le_bytes(*b"SOFTBAND");
/// Most threads of one process at a time. A slot takes memory when a thread uses it.
pub const THREADS_MAX: usize = 1024;
/// Largest request or reply of one call.
pub const PAYLOAD_BYTES: usize = 32 * 1024;
/// Size of the buffer for posts until the next turn.
pub const POSTED_BYTES: usize = 128 * 1024;
/// Size of the whole file. The file is sparse: only used pages take memory.
pub const SHARED_BYTES: usize = 1 << 30;

/// Size of the file of a process's registered memory, in wall pace. Each page lies at its own
/// address. The file is sparse.
pub const MEMORY_FILE_BYTES: u64 = QUEUES_OFFSET + (1 << 40);
/// Offset behind the highest address: queues that peers reach (`softband_shm_transport::queues`).
pub const QUEUES_OFFSET: u64 = 1 << 47;
pub const MEMORY_FILE_NAME: &str = "softband-memory";

/// Signal (SIGRTMAX-2) to a thread that keeps the token for long, because it may spin on memory.
/// While [`SharedHeader::call_names_wanted`] is set, the signal asks the thread for its MPI call.
pub const SPIN_SIGNAL: i32 = 62;

/// Most threads of a process that can move data at the same time.
pub const EPOCH_SLOTS: usize = 32;

/// Most reasons of [`SharedHeader::fallbacks`].
pub const FALLBACKS_MAX: usize = 32;

/// Most threads of a process that can name their MPI call.
pub const CALL_NAMES_MAX: usize = 16;
/// Longest name of an MPI call, in bytes. A longer name is cut.
pub const CALL_NAME_BYTES: usize = 40;

/// The MPI call of a thread, written by the thread itself.
#[repr(C)]
pub struct CallName {
    /// Host thread id. Written last. 0 if the entry is free.
    pub tid: AtomicU32,
    pub len: AtomicU32,
    pub name: [AtomicU8; CALL_NAME_BYTES],
}

impl Default for CallName {
    fn default() -> Self {
        Self { tid: AtomicU32::new(0), len: AtomicU32::new(0), name: [const { AtomicU8::new(0) }; CALL_NAME_BYTES] }
    }
}

/// Most shared mappings of a process that the engine follows. Each has a number below this.
pub const RANGES_MAX: usize = 256;
/// A bit for each shared mapping of a process.
pub type RangeBits = [AtomicU64; RANGES_MAX / 64];

/// A value with its own cache line.
#[derive(Default)]
#[repr(C, align(64))]
pub struct LineOf<T>(pub T);

/// Values of [`SharedHeader::pace`].
pub mod pace {
    /// The program's clock is the simulation's.
    pub const VIRTUAL: u32 = 0;
    /// The program's clock is the host's. All threads share slot 0 for their calls, one at a time.
    pub const WALL: u32 = 1;
}

/// Kernel's addresses of an entry of the list of hosts, if the engine relays sockets in wall pace. An
/// entry has one of each role: [`SharedHeader::kernel_base`] + role * [`SharedHeader::relayed`] + its
/// index.
pub mod relay {
    /// Programs connect and send to it. The engine listens there in their place.
    pub const PUBLIC: u32 = 0;
    /// Programs bind to it.
    pub const HIDDEN: u32 = 1;
    /// The engine connects from it, in place of a client with the entry's address.
    pub const PEER: u32 = 2;
    /// Number of roles.
    pub const ROLES: u32 = 3;
}

/// Values of [`ThreadSlot::token`].
pub mod token {
    pub const ENGINE: u32 = 0;
    pub const PROGRAM: u32 = 1;
    /// The engine has given up on the process.
    pub const DEAD: u32 = 2;
    /// The thread computes, and has announced that it makes no call before
    /// [`ThreadSlot::ahead_until_ps`](super::ThreadSlot::ahead_until_ps). The engine goes on up to
    /// that time. Slot and memory still belong to the thread.
    pub const AHEAD: u32 = 3;
}

/// Number of words of [`SharedHeader::processors`], for 1,024 processors.
pub const PROCESSOR_WORDS: usize = 16;

/// Head of the file. The engine writes it before the program sees it. Afterwards the program writes
/// only some of the atomics.
#[repr(C)]
pub struct SharedHeader {
    pub magic: u64,
    pub version: u32,
    pub process: u32,
    /// IPv4 address of the program's host, as a big-endian number (198.18.0.1 is 0xC6120001).
    pub host_address: u32,
    /// Result of `getpid`.
    pub virtual_pid: u32,
    pub host_name: [u8; 64],
    /// Distance from the address of a host to its address in the kernel, in wall pace. It wraps.
    pub kernel_distance: u32,
    /// Nonzero if a TCP/IP of the host carries the sockets of its programs, in simulated time. Then the
    /// engine describes the network interfaces ([`crate::calls::Op::ReadInterface`]).
    pub has_modelled_network: u32,
    /// Address of the first entry of the list of hosts in the kernel, in wall pace.
    pub kernel_base: u32,
    /// Number of entries of the list of hosts if the engine carries sockets over a modelled network in
    /// wall pace, else 0. See [`relay`].
    pub relayed: u32,
    /// Wall-clock date of simulated time zero, in seconds since 1970.
    pub epoch_seconds: u64,
    /// CPU time that the program pays for each operation, in picoseconds.
    pub cost_post_send: u64,
    /// Additional time for each list of send requests whose doorbell carries the WQE.
    pub cost_write_combining_flush: u64,
    /// Additional time for each datagram.
    pub cost_post_address: u64,
    pub cost_post_receive: u64,
    pub cost_poll_cq: u64,
    /// Additional time for each completion that a poll returns.
    pub cost_take_completion: u64,
    pub cost_clock_read: u64,
    /// Time to copy a mebibyte.
    pub cost_copy_mebibyte: u64,
    /// Time to copy a mebibyte between the program and the page cache. 0 if files take no time.
    pub cost_file_mebibyte: u64,
    /// Nonzero if the host has a disk, in simulated time.
    pub has_disk: u32,
    /// Nonzero if hosts of the fabric have Ethernet ports with RDMA. Then the engine describes the network
    /// interfaces in both paces, and knows more addresses of hosts ([`crate::calls::Op::Resolve`]).
    pub has_rdma_addresses: u32,
    /// Seed of this process's random streams.
    pub seed: u64,
    /// Number of times that a thread checks for its token before it sleeps. 0 while the engine has
    /// no processor of its own.
    pub token_spins: AtomicU32,
    /// One of [`pace`].
    pub pace: u32,
    /// Earliest deadline (of an armed alarm). A clock read must not pass it without a turn of the
    /// engine.
    pub deadline_ps: AtomicU64,
    /// In wall pace: each is odd while a thread of the process moves data itself.
    pub epoch_slots: [LineOf<AtomicU64>; EPOCH_SLOTS],
    /// Nonzero if the engine puts a barrier between all instructions of registered programs before
    /// it reads the epoch slots.
    pub orders_epoch_slots: u32,
    /// In wall pace: the host's monotonic clock when the engine started, in nanoseconds.
    pub wall_start_ns: u64,
    /// In wall pace: bytes put into and taken out of the ring of posts. Both only grow.
    pub ring_produced: AtomicU64,
    pub ring_consumed: AtomicU64,
    /// Counter of peers' writes to registered memory of this process.
    pub memory_generation: AtomicU64,
    /// In wall pace: number of the file of this process's registered memory, or 0.
    pub memory_file: u32,
    /// Nonzero after the engine has sent its whole welcome. Nothing more will arrive on the control
    /// socket.
    pub is_welcomed: AtomicU32,
    /// Number of times that a thread has asked the kernel for a descriptor without a wait.
    pub kernel_questions: AtomicU32,
    /// In wall pace: requests that the program gave to the engine instead of carrying them out, by
    /// reason (`softband_shm_transport::fallback`).
    pub fallbacks: [AtomicU64; FALLBACKS_MAX],
    /// Nonzero once the engine asks threads for their MPI calls.
    pub call_names_wanted: AtomicU32,
    /// Number of entries of `call_names` that threads have claimed.
    pub call_names_claimed: AtomicU32,
    pub call_names: [CallName; CALL_NAMES_MAX],
    /// Processors on which threads may compute ahead of the engine (bit n of all words: processor
    /// n). All zero if threads compute one at a time.
    pub processors: [u64; PROCESSOR_WORDS],
    /// In simulated time: the shared mappings that another process of the host has, too.
    pub shared_ranges: RangeBits,
    /// In simulated time: the shared mappings that the process has written in its present turn.
    pub written_ranges: RangeBits,
    /// The clock of the first of these writes, in picoseconds.
    pub written_at_ps: AtomicU64,
}

/// One thread of the program.
#[repr(C, align(4096))]
pub struct ThreadSlot {
    /// Holder of the execution token, see [`token`]. A futex for the engine; the program sleeps on
    /// its wake word.
    pub token: AtomicU32,
    /// Nonzero while the program sleeps in the kernel. The engine must then wake it when it gives
    /// it the token.
    pub program_asleep: AtomicU32,
    /// The thread's own clock: picoseconds since the start of the run.
    pub clock_ps: AtomicU64,
    /// Call in progress, one of [`crate::calls::Op`].
    pub op: AtomicU32,
    /// Result: 0 or a positive errno.
    pub status: AtomicI32,
    /// Used bytes of `payload`, by the request and then by the reply.
    pub payload_len: AtomicU32,
    /// Used bytes of `posted`.
    pub posted_len: AtomicU32,
    /// Signals to raise before the thread continues: bit n stands for signal n.
    pub signals: AtomicU64,
    /// Host thread id, for the engine only.
    pub tid: AtomicU32,
    /// Nonzero while the engine sleeps in the kernel. The program must then wake it when it returns
    /// the token. With one word for both sides, a waking side could clear a flag that the other has
    /// just set.
    pub engine_asleep: AtomicU32,
    /// Nonzero while the thread spins for the token. It then occupies the programs' processor.
    pub spinning: AtomicU32,
    /// Set by the engine for a spinning thread: another thread has the token. The spinning thread
    /// must wake `successor` and sleep.
    pub stand_down: AtomicU32,
    /// A wake word, see [`wake_word_of`].
    pub successor: AtomicU32,
    /// Number of empty polls that the thread may still make without a call, before `looks_end_ps`
    /// by its clock. The process has news that the thread has not found yet.
    pub looks_left: AtomicU32,
    pub looks_end_ps: AtomicU64,
    /// Nonzero while the thread waits for a descriptor of the kernel, in steps.
    pub awaits_kernel: AtomicU32,
    /// Time before which a thread that computes ahead makes no call, in picoseconds.
    pub ahead_until_ps: AtomicU64,
    /// Time of the next event of the fabric or of another program, as of the beginning of the turn.
    pub next_event_ps: AtomicU64,
    /// Nonzero from the moment at which a thread comes back from a call outside the engine's sight.
    pub is_back: AtomicU32,
    /// In wall pace: nonzero if the engine has not seen the call in progress yet.
    pub is_calling: AtomicU32,
    pub payload: [u8; PAYLOAD_BYTES],
    pub posted: [u8; POSTED_BYTES],
}

/// Number of words on which threads sleep. All programs of a run share them in a separate file. A
/// thread that stands down can therefore wake its successor on the same processor. A wake from
/// another processor costs five times as much. A word only means "check again": a program that
/// misuses them only costs time.
pub const WAKE_WORDS: usize = 4096;
/// In wall pace: `BELL` is the word on which the engine sleeps. `ENGINE_SLEEPS` is nonzero
/// meanwhile.
pub const BELL: u32 = WAKE_WORDS as u32 - 1;
pub const ENGINE_SLEEPS: u32 = WAKE_WORDS as u32 - 2;
/// Size of the ring for the process's posts in wall pace. The ring lies in the post buffer of slot
/// 1.
pub const WALL_RING_BYTES: usize = POSTED_BYTES;

/// Returns the wake word of a thread. Two threads may share a word; both then check.
pub const fn wake_word_of(process: u32, slot: u32) -> u32 {
    process.wrapping_mul(7).wrapping_add(slot) % ENGINE_SLEEPS
}

/// Offset of the header.
pub const HEADER_OFFSET: usize = 0;
/// Offset of slot 0.
pub const SLOTS_OFFSET: usize = 4096;
/// Offset of the hosts of the fabric, in wall pace: a list that ends with address 0.
pub const HOSTS_OFFSET: usize = SLOTS_OFFSET + THREADS_MAX * size_of::<ThreadSlot>();
/// Most entries of the list, with its end.
pub const HOSTS_MAX: usize = 16 * 1024;
/// Offset of the counters of traffic that the program carried itself, in wall pace.
pub const TRAFFIC_OFFSET: usize = HOSTS_OFFSET + (HOSTS_MAX * size_of::<HostEntry>()).next_multiple_of(4096);
/// Most pairs of a queue pair and a destination whose traffic a process counts at a time.
pub const TRAFFIC_ROWS: usize = 16 * 1024;
/// Offset of the first completion ring.
pub const RINGS_OFFSET: usize = TRAFFIC_OFFSET + (TRAFFIC_ROWS * size_of::<TrafficRow>()).next_multiple_of(4096);

/// Traffic of one way through the fabric that the program carried itself. All numbers only grow. The
/// first 64 bytes hold all that most messages touch.
#[repr(C, align(64))]
#[derive(Default)]
pub struct TrafficRow {
    /// Port and destination (`softband_shm_transport::traffic`). Never changes; 0 if the row was
    /// never used.
    pub way: AtomicU64,
    /// Packets of requests, and their bytes from BTH to invariant CRC.
    pub sent_bytes: AtomicU64,
    pub sent_packets: AtomicU64,
    /// The same of responses.
    pub returned_bytes: AtomicU64,
    pub returned_packets: AtomicU64,
    /// RDMA writes and reads among the requests.
    pub writes: AtomicU64,
    pub reads: AtomicU64,
    /// PID of the process one of whose queue pairs writes this row; 0 for none.
    pub writer: AtomicU32,
    /// Atomics among the requests.
    pub atomics: AtomicU64,
    /// Datagrams that found no receive request.
    pub lost: AtomicU64,
}

const _: () = assert!(offset_of!(TrafficRow, writer) < 64 && size_of::<TrafficRow>() == 128);

/// A host of the fabric. A program reads names without a call, because it may need them in
/// constructors and after a fork.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct HostEntry {
    /// IPv4 address as a big-endian number.
    pub address: u32,
    pub name_len: u32,
    /// Index of the host. The first entry of each host has its index.
    pub host: u32,
    /// Bits of the address that name its subnet.
    pub prefix: u32,
    pub name: [u8; 64],
}

const _: () = assert!(size_of::<SharedHeader>() <= SLOTS_OFFSET);
const _: () = assert!(size_of::<ThreadSlot>().is_multiple_of(4096));
const _: () = assert!(RINGS_OFFSET < SHARED_BYTES);
