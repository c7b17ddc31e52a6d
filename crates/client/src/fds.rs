//! Table of the descriptors that stand for objects of the engine.
//!
//! The kernel's descriptor is real: it occupies the number, and `fcntl` works on it. The engine
//! handles reads, writes and waits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Limit of the table. Softband never uses descriptors from this number on.
const FDS_MAX: usize = 65_536;

/// Kind of object behind a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    StreamSocket = 1,
    DatagramSocket = 2,
    CompletionChannel = 3,
    AsyncChannel = 4,
    Timer = 5,
    /// `umadN`.
    ManagementDevice = 6,
    /// `issmN`.
    SubnetManager = 7,
    /// `rdma_cm`.
    ConnectionManager = 8,
}

impl Kind {
    /// Returns the kind with this number, if it exists.
    pub fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            1 => Self::StreamSocket,
            2 => Self::DatagramSocket,
            3 => Self::CompletionChannel,
            4 => Self::AsyncChannel,
            5 => Self::Timer,
            6 => Self::ManagementDevice,
            7 => Self::SubnetManager,
            8 => Self::ConnectionManager,
            _ => return None,
        })
    }
}

/// An object of the engine behind a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub kind: Kind,
    pub object: u32,
}

static TABLE: [AtomicU64; FDS_MAX] = [const { AtomicU64::new(0) }; FDS_MAX];

fn cell(fd: i32) -> Option<&'static AtomicU64> {
    usize::try_from(fd).ok().and_then(|fd| TABLE.get(fd))
}

/// True after the first registration: most processes have nothing to forget.
static USED: AtomicBool = AtomicBool::new(false);

/// Clears the table. A forked child has none of its parent's objects.
pub(crate) fn forget_all() {
    if USED.swap(false, Ordering::AcqRel) {
        TABLE.iter().for_each(|cell| cell.store(0, Ordering::Relaxed));
    }
}

/// Registers an object for `fd`. Returns false if the number exceeds the table.
pub fn register(fd: i32, entry: Entry) -> bool {
    USED.store(true, Ordering::Release);
    cell(fd).is_some_and(|cell| {
        cell.store(u64::from(entry.kind as u8) << 32 | u64::from(entry.object), Ordering::Release);
        true
    })
}

/// Returns the object behind `fd`.
pub fn lookup(fd: i32) -> Option<Entry> {
    let raw = cell(fd)?.load(Ordering::Acquire);
    let kind = Kind::from_number(raw >> 32)?;
    Some(Entry { kind, object: raw as u32 })
}

/// Removes `fd` from the table and returns its former object.
pub fn remove(fd: i32) -> Option<Entry> {
    let entry = lookup(fd)?;
    cell(fd)?.store(0, Ordering::Release);
    Some(entry)
}

/// Returns all registered descriptors, lowest first, to hand them over an exec.
pub fn all() -> impl Iterator<Item = (i32, Entry)> {
    (0..FDS_MAX as i32).filter_map(|fd| lookup(fd).map(|entry| (fd, entry)))
}
