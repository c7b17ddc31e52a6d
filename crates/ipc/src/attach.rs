//! The first words over the control socket. The reply carries three descriptors: the shared memory file, the wake words, and the tables;
//! in wall pace also the process's file of registered memory, if it has one.

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
    /// By which the images attach that this process makes, and by which it asks for files.
    pub secret: u64,
}

/// Program to engine, on a connection of its own: the file of registered memory `number`, as the tables name it. The engine answers
/// with one byte and the descriptor, or closes the connection.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct FileRequest {
    pub version: u32,
    pub number: u32,
    /// [`Welcome::secret`].
    pub secret: u64,
}

/// Program to engine, any time later.
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
    /// In wall pace: a thread has made a call.
    pub const CALL: u32 = 1;
}
