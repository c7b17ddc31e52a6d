//! What crosses between a program and the engine: `repr(C)`, versioned, no pointers, no logic.
//!
//! A program's process shares one memory file with the engine ([`layout`]). Each of its threads has a slot there: a clock, a
//! turn word, one call in progress and a buffer of posted work. Exactly one side owns a slot at a time; the turn word says
//! which. Completions come back through rings in the same file ([`ring`]).
//!
//! Everything here is plain data: whatever a program writes may be nonsense, and the engine checks it after copying it out.

pub mod attach;
pub mod calls;
pub mod command;
pub mod layout;
pub mod post;
pub mod queues;
pub mod ring;
pub mod tables;

/// Changes whenever anything in this crate changes its meaning or layout.
pub const VERSION: u32 = 19;

/// Environment variables by which a program finds its engine and its identity.
pub mod environment {
    /// Name of the engine's abstract Unix socket.
    pub const ENGINE: &str = "SOFTBAND_ENGINE";
    /// Ticket of the process that the next attaching image becomes, in [`TICKET_DIGITS`] hexadecimal digits.
    pub const TICKET: &str = "SOFTBAND_TICKET";
    /// Every ticket has as many: where things lie in a program's memory depends on the length of its environment.
    pub const TICKET_DIGITS: usize = 16;
    /// Folder with what the program's host has below `/sys/class/infiniband*` and `/dev/infiniband`.
    pub const FILES: &str = "SOFTBAND_FILES";

    /// Returns the text of a ticket.
    pub fn ticket_text(ticket: u64) -> String {
        format!("{ticket:0TICKET_DIGITS$x}")
    }

    /// Returns the ticket that a text stands for.
    pub fn ticket_of(text: &str) -> Option<u64> {
        if text.len() == TICKET_DIGITS { u64::from_str_radix(text, 16).ok() } else { None }
    }
}
