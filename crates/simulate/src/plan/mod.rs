//! The plan of a run: every choice in plain values, so that a failing plan can shrink.

mod fabric;
mod words;

pub use fabric::{EthernetPlan, FabricPlan, PartNames, Shape, Tweaks};

use softband_sim::SimTime;
use softband_spec::faults::{FaultKind, FaultSpec};
use softband_types::QpType;

/// A fabric, its programs and its faults.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seed of the World, which selects the packets that are lost.
    pub seed: u64,
    pub fabric: FabricPlan,
    pub processes: Vec<ProcessPlan>,
    pub connections: Vec<ConnectionPlan>,
    /// In any order; each has its own time.
    pub actions: Vec<Action>,
    pub faults: Vec<FaultSpec>,
    /// Packets that HCAs lose, in a million.
    pub loss_ppm: u32,
}

/// A process and the HCA that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessPlan {
    pub host: usize,
    pub hca: usize,
    /// Whether its queue pairs take receive requests from one shared queue.
    pub shares_receives: bool,
}

/// Two queue pairs that are connected, or, for datagrams, that send to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionPlan {
    /// `XrcSend` stands for an extended reliable connection, whose end 0 sends to end 1.
    pub transport: QpType,
    /// Process at each end.
    pub ends: [usize; 2],
    pub receives: [ReceivePlan; 2],
    pub service_level: u8,
    pub mtu_bytes: u32,
    /// Codes of the specification.
    pub ack_timeout: u8,
    pub retry_count: u8,
    pub rnr_retry: u8,
    pub rnr_timer: u8,
    pub rd_atomic: u8,
    pub send_depth: u32,
    pub signals_all: bool,
    pub first_psn: u32,
}

/// Receive requests of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivePlan {
    /// Requests that wait at a time.
    pub depth: u32,
    /// Time of the first posts. A late receiver makes its peer wait.
    pub from_nanos: u64,
    /// Time from a completion to the next post.
    pub lag_nanos: u64,
    /// Room of a request, without a datagram's 40 bytes.
    pub len_bytes: u32,
    pub pieces: u8,
}

impl ConnectionPlan {
    /// Returns the type of the queue pair at an end.
    pub(crate) fn type_at(&self, side: usize) -> QpType {
        if self.transport == QpType::XrcSend && side == 1 { QpType::XrcRecv } else { self.transport }
    }
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    pub connection: usize,
    /// 0 or 1.
    pub side: usize,
}

impl End {
    pub(crate) fn peer(self) -> Self {
        Self { side: 1 - self.side, ..self }
    }
}

/// A step of a program at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    pub at_nanos: u64,
    pub step: Step,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Post {
        end: End,
        message: Message,
    },
    /// Deregisters one of the regions that peers write to.
    Deregister {
        process: usize,
        region: usize,
    },
    /// Resets both ends and connects them again.
    Reconnect {
        connection: usize,
    },
    /// Moves an end from RTS to SQD, where only started requests go on.
    Drain {
        end: End,
    },
    /// Moves an end from SQD or SQE back to RTS.
    Resume {
        end: End,
    },
    /// Moves an end to the error state.
    Break {
        end: End,
    },
    Destroy {
        end: End,
    },
    /// The process dies without clean-up.
    Kill {
        process: usize,
    },
}

/// A send request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub operation: Operation,
    pub len_bytes: u32,
    /// Scatter/gather entries that share the bytes.
    pub pieces: u8,
    pub signaled: bool,
    pub solicited: bool,
    pub fence: bool,
    pub inline: bool,
    pub immediate: bool,
    pub flaw: Flaw,
}

/// A mistake in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    /// No region has the local key.
    LocalKey,
    /// No region of the peer has the remote key.
    RemoteKey,
    /// The message is longer than any receive request.
    Length,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Send,
    /// Write to a region of the peer.
    Write {
        region: usize,
    },
    /// Read of bytes that never change.
    Read,
    /// Read of the bytes that the last write of the same queue pair wrote.
    ReadBack,
    FetchAdd,
    CompareSwap,
    AtomicWrite,
    /// Binds a new window to a region of this side.
    Bind {
        region: usize,
    },
    /// Write through the window that the peer bound last.
    WriteWindow,
    /// Invalidates the window that this side bound last.
    Invalidate,
    /// Send that invalidates the window that the peer bound last.
    SendInvalidate,
}

impl Operation {
    /// Checks whether only reliable connections offer the operation.
    pub(crate) fn expects_response(self) -> bool {
        matches!(self, Self::Read | Self::ReadBack | Self::FetchAdd | Self::CompareSwap | Self::AtomicWrite)
    }

    /// Checks whether the operation is a kind of write.
    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::Write { .. } | Self::WriteWindow)
    }

    /// Checks whether the operation is work within the HCA.
    pub(crate) fn is_local(self) -> bool {
        matches!(self, Self::Bind { .. } | Self::Invalidate)
    }

    fn is_of_window(self) -> bool {
        self.is_local() || matches!(self, Self::WriteWindow | Self::SendInvalidate)
    }
}

impl Message {
    /// Checks whether the message takes a receive request of the peer.
    pub(crate) fn takes_receive(&self) -> bool {
        matches!(self.operation, Operation::Send | Operation::SendInvalidate) || self.operation.writes() && self.immediate
    }
}

/// Regions of each process that peers write to, besides the region of all other memory.
pub(crate) const REGIONS: usize = 3;
/// Codes of acknowledgement timeouts from this code on (0.5 s) outlast any queue.
const PATIENT: u8 = 17;
const RNR_RETRY_INFINITE: u8 = 7;
/// Codes of packet lifetimes from this code on (0.27 s) outlast any queue.
const LONG_LIFETIME: u8 = 16;

impl Plan {
    /// Checks whether nothing in the plan can make a request fail. Every request then succeeds.
    pub fn is_calm(&self) -> bool {
        let harmless = |action: &Action| match &action.step {
            // A window may be invalid by the time of its use.
            Step::Post { message, .. } => message.flaw == Flaw::None && !message.operation.is_of_window(),
            Step::Drain { .. } | Step::Resume { .. } => true,
            _ => false,
        };
        let keeps_packets = self.fabric.lifetime.is_none_or(|code| code >= LONG_LIFETIME);
        let patient = |connection: &ConnectionPlan| {
            (connection.ack_timeout == 0 || connection.ack_timeout >= PATIENT) && connection.rnr_retry == RNR_RETRY_INFINITE
        };
        let lossless = self.fabric.ethernet.is_none_or(|ethernet| ethernet.pauses);
        keeps_packets
            && self.loss_ppm == 0
            && self.faults.is_empty()
            && lossless
            && self.actions.iter().all(harmless)
            && self.connections.iter().all(patient)
    }

    /// Returns the time after which every fault has ended.
    pub(crate) fn calm_from(&self) -> SimTime {
        let actions = self.actions.iter().map(|action| SimTime::from_picos(action.at_nanos * 1_000));
        let faults = self.faults.iter().map(|fault| match fault.kind {
            FaultKind::LinkRecovers { lasts, .. } => fault.at.saturating_add(lasts),
            _ => fault.at,
        });
        let last = actions.chain(faults).max().unwrap_or_default();
        SimTime::from_picos(last.as_picos() + 1_000_000_000)
    }
}
