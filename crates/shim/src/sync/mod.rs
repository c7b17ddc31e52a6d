//! Threads, and the means by which they wait for each other.

pub mod doorbell;
pub mod locks;
pub mod semaphore;
pub mod system_v;
pub mod threads;
