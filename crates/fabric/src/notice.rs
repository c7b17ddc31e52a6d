//! Notices: the World's reports to the engine after an event.

use softband_model::verbs::api::Completion;
use softband_types::{CqHandle, HcaId, PortNumber, ProcessId, Qpn, SrqHandle};

/// A change that a program may now see. All notices of one `step` carry that step's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A completion entered a completion queue.
    Completed { process: ProcessId, cq: CqHandle, completion: Completion },
    /// An armed completion queue raises its event.
    CqEvent { process: ProcessId, cq: CqHandle },
    /// A completion queue overran and accepts no more completions (`IBV_EVENT_CQ_ERR`).
    CqError { process: ProcessId, cq: CqHandle },
    /// A peer or a read response wrote to a process's registered memory.
    MemoryWritten {
        process: ProcessId,
        /// The whole message is in memory. Pollers that do not check each byte wait for this.
        whole: bool,
    },
    /// An asynchronous event of a queue pair, with its verbs number (`IBV_EVENT_...`).
    QpEvent { process: ProcessId, hca: HcaId, qpn: Qpn, event: u32 },
    /// An asynchronous event of a shared receive queue.
    SrqEvent { process: ProcessId, hca: HcaId, srq: SrqHandle, event: u32 },
    /// Packets wait for each other's credits in a cycle.
    Deadlock {
        /// Each port, and the port whose credits it waits for.
        waits: String,
        /// Switches discard the packets in the end; otherwise the packets wait for ever.
        is_broken_up: bool,
    },
    /// The requested time has come.
    Wakeup { token: u32 },
    /// A host died with everything that runs on it.
    HostDied { host: usize },
    /// An asynchronous event of a port.
    PortEvent { hca: HcaId, port: PortNumber, event: u32 },
}
