//! First messages on the control socket. The reply carries three descriptors: the shared memory
//! file, the wake words, and the tables. In wall pace it also carries the process's file of
//! registered memory, if the process has one.
//!
//! The engine of a shared fabric may live in other namespaces than its programs, and see neither
//! their process numbers nor their sockets. There the hello carries descriptors as well: the
//! process's folder in `/proc` and, if the process may open them, its `mem` and `maps`. Its sockets
//! of the Internet come from the engine ([`SocketRequest`]).

use bytemuck::{Pod, Zeroable};

/// Program to engine: one message on a `SOCK_SEQPACKET` connection. The connection stays open as
/// long as the process image.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Hello {
    pub version: u32,
    pub pid: u32,
    /// Ticket from the environment or from [`crate::calls::ForkReply`].
    pub ticket: u64,
    /// Nonzero if this image came by fork. The image then takes over the parent's view and waits
    /// for its first turn.
    pub forked: u32,
    pub tid: u32,
}

/// Engine to program.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Welcome {
    pub version: u32,
    /// 0, or a positive errno: the ticket is unknown, or the version differs.
    pub status: i32,
    pub process: u32,
    /// Slot of the calling thread.
    pub slot: u32,
    /// Secret by which child images attach, and by which the process requests files.
    pub secret: u64,
    /// Number of the process in the tables, if that is not its own process number. Otherwise 0.
    pub table_number: u32,
    pub reserved: u32,
}

/// Program to engine, on its own connection: requests the file of registered memory `number` of the
/// tables. The engine answers with one byte and the descriptor, or closes the connection.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct FileRequest {
    pub version: u32,
    pub number: u32,
    /// [`Welcome::secret`].
    pub secret: u64,
}

/// Program to engine of a shared fabric, on its own connection: requests a socket in the engine's
/// network namespace. The engine answers with an errno (`i32`). If the errno is 0, the descriptor
/// comes with it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct SocketRequest {
    pub version: u32,
    /// Arguments of socket(2).
    pub domain: i32,
    pub kind: i32,
    pub protocol: i32,
    /// [`Welcome::secret`].
    pub secret: u64,
    pub reserved: u64,
}

/// Program to engine, at any later time.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Word {
    pub slot: u32,
    /// One of [`word`].
    pub kind: u32,
}

/// Values of [`Word::kind`].
pub mod word {
    /// A thread that was away waits for the token again.
    pub const BACK: u32 = 0;
}
