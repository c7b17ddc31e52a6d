//! Verbs objects and their rules.
pub mod api;
mod memory;
mod memory_window;
mod multicast;
mod objects;
mod shared_receive_queue;
mod table;
mod transition;
mod xrc;

pub use memory::{ChunkPool, Segment};
pub(crate) use memory::{Reach, RemoteAccess};
pub use memory_window::{MemoryWindow, WindowBinding, WindowType};
pub use multicast::{Group, Multicast};
pub use objects::{AddressHandle, CompletionQueue, Limits, MemoryRegion, ProtectionDomain, Verbs};
pub use shared_receive_queue::SharedReceiveQueue;
pub use table::Table;
pub use transition::{check_modification, of_this_side};
pub use xrc::{Xrcd, XrcdKey, XrcdOpen};

/// Largest message: 2^31 bytes (IBTA 9.7.7).
pub const MESSAGE_BYTES_MAX: u64 = 1 << 31;
