//! A recording as a GOAL trace.
//!
//! - **Computation** is a `calc` of the rank.
//! - **Eager messages** are one `send`. The sender continues once the send has begun.
//! - **Rendezvous** (above the eager limit): the sender announces the message, the receiver answers
//!   once the receive is posted, and the data follow. The sender continues after the data. Both
//!   control messages have [`CONTROL_BYTES`].
//! - **Collectives** are rounds of messages ([`collectives`]). Arithmetic on data takes no time.
//! - **New communicators** cost a sum of 8 bytes over the old one.

pub mod collectives;
mod ranks;

use super::{Recording, RecordingError};
use crate::protocol::Protocol;
use ranks::RankTrace;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Bytes of a control message of a rendezvous: addresses, keys and lengths (UCX sends 50 to 70).
pub const CONTROL_BYTES: u64 = 64;

/// Choices of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Protocol that carries the messages of the trace. `None` writes the messages of a rendezvous
    /// into the trace, for other simulators.
    pub protocol: Option<Protocol>,
    /// Largest eager message in bytes, without a protocol.
    pub eager_bytes: u64,
    /// Factor for the time of computation; 0 leaves computation out.
    pub factor: f64,
}

/// Number of a message's tag in the trace, by communicator, tag and role.
#[derive(Default)]
struct Tags {
    numbers: BTreeMap<Channel, u32>,
    communicators: BTreeMap<(Vec<i64>, u32), u32>,
}

/// Messages that match each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Channel {
    communicator: u32,
    /// Tag of the program; `None` for collectives.
    tag: Option<i64>,
    role: Role,
}

/// Role of a message in its transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Data,
    Announcement,
    Answer,
}

impl Tags {
    fn of(&mut self, channel: Channel) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(channel).or_insert(next)
    }

    /// Returns the number that all members have for a communicator: the `count`-th with these
    /// members.
    fn communicator(&mut self, members: &[i64], count: u32) -> u32 {
        let next = self.communicators.len() as u32;
        *self.communicators.entry((members.to_vec(), count)).or_insert(next)
    }
}

/// Returns the trace of a recording.
///
/// # Errors
/// A call that a trace cannot express, with its rank and number.
pub fn goal(recording: &Recording, options: &Options) -> Result<String, RecordingError> {
    let mut tags = Tags::default();
    let mut text = String::new();
    if let Some(protocol) = options.protocol {
        let _ = writeln!(text, "{} {protocol}", crate::goal::PROTOCOL_MARK);
    }
    let _ = writeln!(text, "num_ranks {}", recording.ranks.len());
    for (rank, lines) in recording.ranks.iter().enumerate() {
        let _ = writeln!(text, "rank {rank} {{");
        RankTrace::new(rank as u32, options, &mut tags, &mut text).write(lines)?;
        text.push_str("}\n");
    }
    Ok(text)
}
