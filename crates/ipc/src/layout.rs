//! The memory that one process shares with the engine.

use crate::queues::LineOf;
use bytemuck::{Pod, Zeroable};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// Marks the file as ours: "SOFTBAND".
pub const MAGIC: u64 = u64::from_le_bytes(*b"SOFTBAND");
/// Threads that one process may have at a time. A slot takes memory when a thread uses it.
pub const THREADS_MAX: usize = 1024;
/// Largest request or reply of one call.
pub const PAYLOAD_BYTES: usize = 32 * 1024;
/// Posted work that may be waiting for the next turn.
pub const POSTED_BYTES: usize = 128 * 1024;
/// Size of the whole file; it is sparse, only what is touched takes memory.
pub const SHARED_BYTES: usize = 1 << 30;

/// The file in which, in wall pace, registered memory of a process lies: each page at its own address. Sparse.
pub const MEMORY_FILE_BYTES: u64 = QUEUES_OFFSET + (1 << 40);
/// Behind the highest address: queues that peers reach (`crate::queues`).
pub const QUEUES_OFFSET: u64 = 1 << 47;
pub const MEMORY_FILE_NAME: &str = "softband-memory";

/// Signal (SIGRTMAX-2) that the engine sends to a thread that keeps the token for long: it may spin on memory.
pub const SPIN_SIGNAL: i32 = 62;

/// Threads of a process that can be moving data at the same time.
pub const EPOCH_SLOTS: usize = 32;

/// Values of [`SharedHeader::pace`].
pub mod pace {
    /// The program's clock is the simulation's.
    pub const VIRTUAL: u32 = 0;
    /// The program's clock is the host's. All its threads share slot 0 for their calls, one at a time.
    pub const WALL: u32 = 1;
}

/// Values of [`ThreadSlot::turn`].
pub mod token {
    pub const ENGINE: u32 = 0;
    pub const PROGRAM: u32 = 1;
    /// The engine has given the process up.
    pub const DEAD: u32 = 2;
}

/// Head of the file. The engine writes it before the program sees it; the program only reads it.
#[repr(C)]
pub struct SharedHeader {
    pub magic: u64,
    pub version: u32,
    pub process: u32,
    /// IPv4 address of the program's host, as a big-endian number (127.77.0.1 is 0x7F4D0001).
    pub host_address: u32,
    /// What `getpid` answers.
    pub virtual_pid: u32,
    pub host_name: [u8; 64],
    /// Wall-clock date of simulated time zero, in seconds since 1970.
    pub epoch_seconds: u64,
    /// What the program pays for on its CPU, in picoseconds.
    pub cost_post_send: u64,
    /// Beside that, for each byte of inline data.
    pub cost_inline_byte: u64,
    pub cost_post_receive: u64,
    pub cost_poll_cq: u64,
    pub cost_clock_read: u64,
    /// Seed of this process's random streams.
    pub seed: u64,
    /// How often a thread reads its word before it sleeps: none while the engine has no processor of its own.
    pub token_spins: AtomicU32,
    /// One of [`pace`].
    pub pace: u32,
    /// Earliest deadline that a clock read must not pass without a turn of the engine (an armed alarm).
    pub deadline_ps: AtomicU64,
    /// In wall pace: each is odd while a thread of the process moves data itself.
    pub epoch_slots: [LineOf<AtomicU64>; EPOCH_SLOTS],
    /// Not zero: before the engine reads those, it puts a barrier between all instructions of programs that have asked the kernel for it.
    pub orders_epoch_slots: u32,
    /// In wall pace: the host's monotonic clock when the engine started.
    pub wall_start_ns: u64,
    /// Bytes that were put into and taken out of the ring of posts, in wall pace. Both only grow.
    pub ring_produced: AtomicU64,
    pub ring_consumed: AtomicU64,
    /// Grows whenever a peer has written registered memory of this process.
    pub memory_generation: AtomicU64,
    /// In wall pace: number of the file of this process's registered memory, or 0.
    pub memory_file: u32,
    /// Not zero: the engine is through with sending its welcome, and nothing more will come over the control socket.
    pub is_welcomed: AtomicU32,
}

/// One thread of the program.
#[repr(C, align(4096))]
pub struct ThreadSlot {
    /// Who has the execution token, see [`token`]. A futex for the engine; the program sleeps on its wake word.
    pub token: AtomicU32,
    /// Nonzero while the program sleeps in the kernel and must be woken when it gets the token.
    pub program_asleep: AtomicU32,
    /// The thread's own clock: picoseconds since the run began.
    pub clock_ps: AtomicU64,
    /// Call in progress, one of [`crate::calls::Op`].
    pub op: AtomicU32,
    /// Outcome: 0 or a positive errno.
    pub status: AtomicI32,
    /// Bytes used of `payload`, by the request and then by the reply.
    pub payload_len: AtomicU32,
    /// Bytes used of `posted`.
    pub posted_len: AtomicU32,
    /// Signals to raise before going on: bit n stands for signal n.
    pub signals: AtomicU64,
    /// Host thread id, for the engine's eyes.
    pub tid: AtomicU32,
    /// Nonzero while the engine sleeps in the kernel and must be woken when the token comes back. A word of its own: with one for
    /// both, a side that wakes up could clear what the other has just set.
    pub engine_asleep: AtomicU32,
    /// Nonzero while the thread spins for the token, and so keeps the programs' processor busy.
    pub spinning: AtomicU32,
    /// Set by the engine for a thread that spins: another one has the token; wake `successor` and sleep.
    pub stand_down: AtomicU32,
    /// A wake word, see [`wake_word_of`].
    pub successor: AtomicU32,
    pub payload: [u8; PAYLOAD_BYTES],
    pub posted: [u8; POSTED_BYTES],
}

/// Words on which threads sleep, in a file of their own that all programs of a run share: so a thread that stands down can wake the
/// one after it on the same processor, which costs a fifth of having it woken from another one. They carry no meaning beyond "look
/// again": a program that plays with them costs time and nothing else.
pub const WAKE_WORDS: usize = 4096;
/// In wall pace: the word on which the engine sleeps, and the one that is nonzero while it does.
pub const BELL: u32 = WAKE_WORDS as u32 - 1;
pub const ENGINE_SLEEPS: u32 = WAKE_WORDS as u32 - 2;
/// In wall pace the process's posts go through a ring of this size, in the room that slot 1 has for them.
pub const WALL_RING_BYTES: usize = POSTED_BYTES;

/// The wake word of a thread. Two may share one; both look then.
pub const fn wake_word_of(process: u32, slot: u32) -> u32 {
    process.wrapping_mul(7).wrapping_add(slot) % ENGINE_SLEEPS
}

/// Offset of the header.
pub const HEADER_OFFSET: usize = 0;
/// Offset of slot 0.
pub const SLOTS_OFFSET: usize = 4096;
/// Offset of the hosts of the fabric, in wall pace: a list that ends with address 0.
pub const HOSTS_OFFSET: usize = SLOTS_OFFSET + THREADS_MAX * size_of::<ThreadSlot>();
/// Hosts that the list has room for, its end included.
pub const HOSTS_MAX: usize = 16 * 1024;
/// Offset of the first completion ring.
pub const RINGS_OFFSET: usize = HOSTS_OFFSET + (HOSTS_MAX * size_of::<HostEntry>()).next_multiple_of(4096);

/// A host of the fabric. A program reads names without asking: it may do so in constructors and after a fork.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct HostEntry {
    /// IPv4 as a big-endian number.
    pub address: u32,
    pub name_len: u32,
    pub name: [u8; 64],
}

const _: () = assert!(size_of::<SharedHeader>() <= SLOTS_OFFSET);
const _: () = assert!(size_of::<ThreadSlot>().is_multiple_of(4096));
const _: () = assert!(RINGS_OFFSET < SHARED_BYTES);
