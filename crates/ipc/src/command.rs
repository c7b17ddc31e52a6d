//! Commands of the command line to the engine of a persistent fabric. Each is one message on its
//! own connection to the control socket, with one reply.

use bytemuck::{Pod, Zeroable};

/// Command line to engine. Its size distinguishes it from messages of programs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Command {
    pub version: u32,
    /// One of [`kind`].
    pub kind: u32,
    /// NUL-padded: the name of a host, or the words of a fault or capture.
    pub argument: [u8; 112],
}

/// Values of [`Command::kind`].
pub mod kind {
    /// Request a ticket with which programs attach on a host.
    pub const TICKET: u32 = 0;
    /// Report the whole status.
    pub const STATUS: u32 = 1;
    /// Inject a fault.
    pub const FAULT: u32 = 3;
    /// End all programs and the engine.
    pub const DOWN: u32 = 2;
    /// Capture packets: a descriptor of the caller, then the names of ports. Without words, end the
    /// caller's capture.
    pub const CAPTURE: u32 = 4;
    /// Report the counters of all ports.
    pub const METRICS: u32 = 5;
}

/// Engine to command line, with a descriptor of a file that contains JSON.
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
