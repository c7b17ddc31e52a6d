//! The first words over the control socket. The reply carries two descriptors: the shared memory file and the batons.

use bytemuck::{Pod, Zeroable};

/// Program to engine. One message on a `SOCK_SEQPACKET` connection; the connection stays open as long as the process image.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Hello {
    pub version: u32,
    pub pid: u32,
    /// Ticket from the environment or from [`crate::calls::ForkReply`].
    pub ticket: u64,
    /// Nonzero when this image came by fork: it takes over the parent's view and waits for its first turn.
    pub forked: u32,
    pub tid: u32,
}

/// Engine to program.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Welcome {
    pub version: u32,
    /// 0, or a positive errno: the ticket is not known, the version differs.
    pub status: i32,
    pub process: u32,
    /// Slot of the calling thread.
    pub slot: u32,
}

/// Program to engine, any time later: a thread that was away waits for its turn again.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Back {
    pub slot: u32,
    pub reserved: u32,
}
