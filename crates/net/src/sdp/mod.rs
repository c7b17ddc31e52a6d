//! Sockets Direct Protocol (IBTA annex A4): streams over reliable connections of InfiniBand.
//!
//! Each connection has private receive buffers, and messages say how many are free (credits). Small
//! data goes by copy through these buffers (BCopy). The data of a large blocking call stays where it
//! is: the sender announces it, and the receiver fetches it by RDMA reads (ZCopy).
//!
//! This module has the messages and the rules of a connection. The caller owns queue pairs and
//! memory, and carries out [`Order`]s.

mod connection;
mod credits;
mod headers;
mod input;
mod output;
mod receiver;
mod role;
mod sender;
#[cfg(test)]
mod tests;
mod user;

pub(crate) use connection::{Connection, Context};
pub use headers::{Base, HeaderError, Hello, Message, abort, hello_of};
pub(crate) use role::{Listener, Role};
pub(crate) use user::{Got, Part, Taken};

use crate::payload::Payload;
use softband_sim::SimDuration;
use std::net::IpAddr;

/// Receive buffers of a connection (`SDP_RX_SIZE` of OFED 1.5).
pub const RECEIVE_BUFFERS: u32 = 64;
/// Bytes of a receive buffer with its header (`rcvbuf_initial_size` of OFED 1.5).
pub const BUFFER_BYTES: u32 = 32_768;
/// Messages that the send queue of a connection holds (`SDP_TX_SIZE` of OFED 1.5), besides the
/// request that ends it.
pub const SEND_MESSAGES: u32 = 64;
/// Most bytes of an announced source: 510 pages (`SDP_MAX_RDMA_READ_LEN` of OFED 1.5).
pub const SOURCE_BYTES_MAX: u32 = 510 * 4_096;
/// Time after which the bytes of a source go by copy (`SDP_SRCAVAIL_ADV_TIMEOUT` of OFED 1.5).
const SOURCE_TIMEOUT: SimDuration = SimDuration::from_micros(1_000_000);
/// Bits of an address within a region of memory.
pub const REGION_BITS: u32 = 21;
/// Address of the first region whose numbers the stack chooses.
const FIRST_SOURCE: u64 = 3 << 46;

/// Returns the address of the bytes of a source.
pub const fn source_address(number: u32) -> u64 {
    FIRST_SOURCE | (number as u64) << REGION_BITS
}

/// Request of a connection to its queue pair.
#[derive(Clone, Debug)]
pub enum Order {
    /// Make a queue pair, and one at the host with this address. Posts that follow wait for both.
    Connect {
        /// Address of the other end.
        to: IpAddr,
    },
    /// Send a message to a receive buffer of the peer. `Stack::sdp_sent` must follow.
    Send {
        /// Header.
        header: Vec<u8>,
        /// Data behind the header.
        payload: Payload,
    },
    /// Read bytes of the peer's memory. `Stack::sdp_read` must follow.
    Read {
        /// Address in the peer's memory.
        address: u64,
        /// Key of the peer's memory.
        rkey: u32,
        /// Bytes to read, at most [`SOURCE_BYTES_MAX`].
        bytes: u32,
    },
    /// Let the peer read these bytes, from [`source_address`] on.
    Expose {
        /// Number of the source.
        source: u32,
        /// Bytes.
        payload: Payload,
    },
    /// The peer has read the source, or never will.
    Conceal {
        /// Number of the source.
        source: u32,
    },
    /// This many buffers return to the receive queue, the oldest first.
    Repost {
        /// Number of buffers.
        buffers: u32,
    },
    /// Destroy the queue pair.
    Close,
}
