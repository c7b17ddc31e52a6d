//! What the World tells the engine after an event.

use softband_model::verbs::api::Completion;
use softband_types::{CqHandle, HcaId, PortNumber, ProcessId, Qpn, SrqHandle};

/// Something that a program may now see. All notices of one `step` carry that step's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A completion entered a completion queue.
    Completed { process: ProcessId, cq: CqHandle, completion: Completion },
    /// An armed completion queue raises its event.
    CqEvent { process: ProcessId, cq: CqHandle },
    /// A completion queue was overrun and takes no more completions (`IBV_EVENT_CQ_ERR`).
    CqError { process: ProcessId, cq: CqHandle },
    /// Registered memory of a process was written by a peer or by a read response.
    MemoryWritten {
        process: ProcessId,
        /// The whole message is there: for those who look from time to time, and not at each byte.
        whole: bool,
    },
    /// An asynchronous event of a queue pair, numbered as the verbs do (`IBV_EVENT_...`).
    QpEvent { process: ProcessId, hca: HcaId, qpn: Qpn, event: u32 },
    /// An asynchronous event of a shared receive queue.
    SrqEvent { process: ProcessId, hca: HcaId, srq: SrqHandle, event: u32 },
    /// Packets wait for each other's credits in a cycle.
    Deadlock {
        /// Each port with the one whose credits it waits for.
        waits: String,
        /// Switches will give packets up in the end; else they wait for ever.
        is_broken_up: bool,
    },
    /// The time has come that was asked for.
    Wakeup { token: u32 },
    /// A host has died, and with it all that runs there.
    HostDied { host: usize },
    /// An asynchronous event of a port.
    PortEvent { hca: HcaId, port: PortNumber, event: u32 },
}
