//! What the command line asks of an engine that stays: one message on a connection of its own to the control socket, and one back.

use bytemuck::{Pod, Zeroable};

/// Command line to engine. Its length tells it from what programs send.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Command {
    pub version: u32,
    /// One of [`kind`].
    pub kind: u32,
    /// NUL-padded: the name of the host that is meant, or the words of a fault.
    pub argument: [u8; 112],
}

/// Values of [`Command::kind`].
pub mod kind {
    /// A ticket with which programs attach on a host.
    pub const TICKET: u32 = 0;
    /// Everything there is to know.
    pub const STATUS: u32 = 1;
    /// Something goes wrong from now on.
    pub const FAULT: u32 = 3;
    /// End all programs, and the engine.
    pub const DOWN: u32 = 2;
}

/// Engine to command line. A descriptor comes with it: a file that holds JSON.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct CommandReply {
    pub version: u32,
    /// 0, or a positive errno.
    pub status: i32,
    pub ticket: u64,
}

const _: () = {
    use crate::attach::{FileRequest, Hello, Word};
    let sizes = [size_of::<Command>(), size_of::<Hello>(), size_of::<Word>(), size_of::<FileRequest>()];
    let mut one = 0;
    while one < sizes.len() {
        let mut other = one + 1;
        while other < sizes.len() {
            assert!(sizes[one] != sizes[other], "the engine tells messages apart by their sizes");
            other += 1;
        }
        one += 1;
    }
};
