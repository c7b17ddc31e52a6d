//! Notices: the World's reports to the engine after an event.

use softband_model::management::ManagementPacket;
use softband_model::verbs::api::Completion;
use softband_types::{CqHandle, HcaId, PortNumber, ProcessId, Qpn, SrqHandle};
use std::sync::Arc;

/// Change that a program may now see. All notices of a `step` carry that step's time:
/// [`World::now`](crate::World::now).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A completion entered a completion queue.
    Completed {
        /// Owner of the queue pair.
        process: ProcessId,
        /// Completion queue.
        cq: CqHandle,
        /// The completion.
        completion: Completion,
    },
    /// A raw frame has left a port, or the port has discarded it: its place in the ring is free.
    FrameSent {
        /// HCA or NIC of the port.
        hca: HcaId,
        /// Port that has sent the frame.
        port: PortNumber,
    },
    /// A raw frame has arrived in the memory of a host. It holds a place in the receive ring until
    /// [`World::return_frames`](crate::World::return_frames).
    FrameArrived {
        /// HCA or NIC of the port.
        hca: HcaId,
        /// Port that has received the frame.
        port: PortNumber,
        /// The frame from its MAC header to the end of its data.
        frame: Arc<[u8]>,
    },
    /// An armed completion queue raises its event.
    CqEvent {
        /// Owner of the queue.
        process: ProcessId,
        /// Completion queue.
        cq: CqHandle,
    },
    /// A completion queue overran and accepts no more completions (`IBV_EVENT_CQ_ERR`).
    CqError {
        /// Owner of the queue.
        process: ProcessId,
        /// Completion queue.
        cq: CqHandle,
    },
    /// A peer or a read response wrote to a process's registered memory.
    MemoryWritten {
        /// Owner of the memory.
        process: ProcessId,
        /// Place of the write: its address and its length in bytes.
        span: (u64, u64),
        /// Whether the write is the last of its message.
        last: bool,
        /// Whether the whole message is in memory. Pollers that do not check each byte wait for
        /// this.
        whole: bool,
        /// Whether a peer wrote, and not the response to a request of the process.
        by_peer: bool,
    },
    /// A queue pair raises an asynchronous event.
    QpEvent {
        /// Owner of the QP.
        process: ProcessId,
        /// HCA of the QP.
        hca: HcaId,
        /// Number of the QP.
        qpn: Qpn,
        /// Number of the event in `ibv_event_type`.
        event: u32,
    },
    /// A shared receive queue raises an asynchronous event.
    SrqEvent {
        /// Owner of the queue.
        process: ProcessId,
        /// HCA of the queue.
        hca: HcaId,
        /// Shared receive queue.
        srq: SrqHandle,
        /// Number of the event in `ibv_event_type`.
        event: u32,
    },
    /// Packets wait for each other's credits in a cycle.
    Deadlock {
        /// Each port, and the port whose credits it waits for.
        waits: String,
        /// Whether switches discard the packets in the end. Otherwise the packets wait for ever.
        is_broken_up: bool,
    },
    /// A time has come that the caller asked for.
    Wakeup {
        /// Number that the caller gave to [`World::wake_at`](crate::World::wake_at).
        token: u32,
    },
    /// A manager has switched a link off or on.
    LinkSwitched,
    /// A host died with everything that runs on it.
    HostDied {
        /// Index of the host.
        host: usize,
    },
    /// A port raises an asynchronous event.
    PortEvent {
        /// HCA of the port.
        hca: HcaId,
        /// Number of the port, from 1.
        port: PortNumber,
        /// Number of the event in `ibv_event_type`.
        event: u32,
    },
    /// A MAD that no agent of the HCA answers has arrived: the host's software handles it.
    ManagementArrived {
        /// HCA that received it.
        hca: HcaId,
        /// Number of the port, from 1.
        port: PortNumber,
        /// The MAD with its addresses.
        packet: Box<ManagementPacket>,
    },
}
