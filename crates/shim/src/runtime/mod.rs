//! The library's own state in a process: attachment, memory, the calling thread's world.

pub mod allocator;
pub mod attach;
pub mod world;
