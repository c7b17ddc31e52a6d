//! Which descriptors stand for objects of the engine.
//!
//! The descriptor itself is a real one of the kernel (so that its number is taken and `fcntl` works on it); only what it is
//! read, written and waited for is the engine's.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Descriptors above this are never ours.
const FDS_MAX: usize = 65_536;

/// What kind of object a descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    StreamSocket = 1,
    DatagramSocket = 2,
    CompletionChannel = 3,
    AsyncChannel = 4,
    Timer = 5,
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

/// Whether anything was ever registered: most processes have nothing to forget.
static USED: AtomicBool = AtomicBool::new(false);

/// Nothing stands for anything any more: a forked child has none of its parent's objects.
pub(crate) fn forget_all() {
    if USED.swap(false, Ordering::AcqRel) {
        TABLE.iter().for_each(|cell| cell.store(0, Ordering::Relaxed));
    }
}

/// Lets `fd` stand for an object. Returns false when the number is beyond what the table holds.
pub fn register(fd: i32, entry: Entry) -> bool {
    USED.store(true, Ordering::Release);
    cell(fd).is_some_and(|cell| {
        cell.store(u64::from(entry.kind as u8) << 32 | u64::from(entry.object), Ordering::Release);
        true
    })
}

/// What `fd` stands for.
pub fn lookup(fd: i32) -> Option<Entry> {
    let raw = cell(fd)?.load(Ordering::Acquire);
    let kind = match raw >> 32 {
        1 => Kind::StreamSocket,
        2 => Kind::DatagramSocket,
        3 => Kind::CompletionChannel,
        4 => Kind::AsyncChannel,
        5 => Kind::Timer,
        _ => return None,
    };
    Some(Entry { kind, object: raw as u32 })
}

/// `fd` stands for nothing any more; tells what it stood for.
pub fn remove(fd: i32) -> Option<Entry> {
    let entry = lookup(fd)?;
    cell(fd)?.store(0, Ordering::Release);
    Some(entry)
}

/// All descriptors that stand for something, lowest first (for handing them over an exec).
pub fn all() -> impl Iterator<Item = (i32, Entry)> {
    (0..FDS_MAX as i32).filter_map(|fd| lookup(fd).map(|entry| (fd, entry)))
}
