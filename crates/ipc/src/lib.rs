//! Data that programs and the engine exchange: `repr(C)`, versioned, no pointers, no logic.
//!
//! A program's process shares one memory file with the engine ([`layout`]). Each of its threads has
//! a slot there: a clock, a token word, one call in progress and a buffer of posts. Exactly one
//! side owns a slot at a time, as its token word states. Completions come back through rings in the
//! same file ([`ring`]). Tables and queues of wall pace are in `softband-shm-transport`.
//!
//! All types are plain data. A program may write nonsense, so the engine copies data before it
//! checks it.

pub mod attach;
pub mod calls;
pub mod command;
pub mod image;
pub mod interfaces;
pub mod layout;
pub mod post;
pub mod ring;

/// Changes with every change of meaning or layout in this crate, and in the tables and queues of
/// `softband-shm-transport`.
pub const VERSION: u32 = 31;

/// Environment variables by which a program finds its engine and its identity.
pub mod environment {
    /// Name of the engine's abstract Unix socket, or path of the socket of a shared fabric.
    pub const ENGINE: &str = "SOFTBAND_ENGINE";
    /// Ticket of the process of the next image that attaches, in [`TICKET_DIGITS`] hexadecimal
    /// digits.
    pub const TICKET: &str = "SOFTBAND_TICKET";

    /// How computation takes time, in simulated time: `measured:F` or `recorded:F`, with the factor
    /// F in millionths. Without the variable, computation takes none.
    pub const COMPUTE: &str = "SOFTBAND_COMPUTE";
    /// Every ticket has this length. The addresses in a program's memory depend on the length of
    /// its environment.
    pub const TICKET_DIGITS: usize = 16;
    /// Folder that stands for `/sys/class/infiniband*` and `/dev/infiniband` of the program's host.
    pub const FILES: &str = "SOFTBAND_FILES";
    /// Name of the fabric that commands use. The user sets it, or `softband exec`.
    pub const FABRIC: &str = "SOFTBAND_FABRIC";
    /// The program's host, and all hosts with commas between them. For scripts.
    pub const HOST: &str = "SOFTBAND_HOST";
    pub const HOSTS: &str = "SOFTBAND_HOSTS";
    /// Folder of the libraries, which goes first in `LD_LIBRARY_PATH`.
    pub const LIBRARIES: &str = "SOFTBAND_LIBRARIES";

    /// Returns whether the value of [`ENGINE`] is the path of a shared fabric's socket.
    pub fn is_of_shared_fabric(engine: &str) -> bool {
        engine.starts_with('/')
    }

    /// Returns the text of a ticket.
    pub fn ticket_text(ticket: u64) -> String {
        format!("{ticket:0TICKET_DIGITS$x}")
    }

    /// Returns the ticket that a text stands for.
    pub fn ticket_of(text: &str) -> Option<u64> {
        if text.len() == TICKET_DIGITS { u64::from_str_radix(text, 16).ok() } else { None }
    }
}
