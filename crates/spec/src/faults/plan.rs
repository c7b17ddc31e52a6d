//! The specification of a fabric's faults, from a file or a command.

use super::BitErrorRate;
use crate::{FabricSpec, PortRef};
use softband_model::packet::PacketKind;
use softband_sim::{SimDuration, SimTime};

/// Fault and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultSpec {
    /// Time since the start of the run.
    pub at: SimTime,
    /// Kind of fault, and its place.
    pub kind: FaultKind,
}

/// Kind of fault. Indices refer to the cables, hosts and switches of the fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The link loses its connection. Its ports go to Down, and packets on it are lost.
    LinkDown {
        /// Index of the cable.
        cable: usize,
    },
    /// The link trains again. Its ports go to Active.
    LinkUp {
        /// Index of the cable.
        cable: usize,
    },
    /// The link retrains for `lasts`, and its ports stay Active.
    LinkRecovers {
        /// Index of the cable.
        cable: usize,
        /// Time until the link carries packets again.
        lasts: SimDuration,
    },
    /// Bit errors in both directions, until a fault sets another rate.
    BitErrors {
        /// Index of the cable.
        cable: usize,
        /// Probability that a bit is wrong.
        rate: BitErrorRate,
    },
    /// Loses packet `number` of a class, counted from 1 among the packets that leave `port` from
    /// the fault's time on.
    Drop {
        /// Port that the packets leave.
        port: PortRef,
        /// Class of packets that count.
        packet: PacketClass,
        /// Number of the packet to lose, from 1 on.
        number: u64,
    },
    /// The host and its programs stop for the rest of the run. Its links go down.
    HostDies {
        /// Index of the host.
        host: usize,
    },
    /// The switch stops for the rest of the run. Its links go down.
    SwitchDies {
        /// Index of the switch.
        switch: usize,
    },
}

impl FaultKind {
    /// Names of the kinds in files and commands, in the order of the kinds.
    pub const NAMES: [&'static str; 7] = ["link_down", "link_up", "link_recovers", "bit_errors", "drop", "host_dies", "switch_dies"];

    /// Returns the name of the kind in files and commands: an entry of [`FaultKind::NAMES`].
    pub fn name(&self) -> &'static str {
        let index = match self {
            Self::LinkDown { .. } => 0,
            Self::LinkUp { .. } => 1,
            Self::LinkRecovers { .. } => 2,
            Self::BitErrors { .. } => 3,
            Self::Drop { .. } => 4,
            Self::HostDies { .. } => 5,
            Self::SwitchDies { .. } => 6,
        };
        Self::NAMES[index]
    }
}

/// Class of packets that a [`FaultKind::Drop`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketClass {
    /// All packets.
    Any,
    /// Sends.
    Send,
    /// RDMA writes.
    Write,
    /// Requests of RDMA reads.
    ReadRequest,
    /// Responses with the data of RDMA reads.
    ReadResponse,
    /// Requests of compare-and-swap, fetch-and-add, and atomic writes.
    Atomic,
    /// Responses to atomic operations.
    AtomicAck,
    /// Unreliable datagrams.
    Datagram,
    /// Acknowledgements.
    Ack,
    /// NAKs, including RNR NAKs.
    Nak,
    /// CN packets of congestion control (IBTA annex A10).
    CongestionNotification,
}

impl PacketClass {
    /// All classes.
    pub const ALL: [Self; 11] = [
        Self::Any,
        Self::Send,
        Self::Write,
        Self::ReadRequest,
        Self::ReadResponse,
        Self::Atomic,
        Self::AtomicAck,
        Self::Datagram,
        Self::Ack,
        Self::Nak,
        Self::CongestionNotification,
    ];

    /// Returns the name of the class in files and commands, such as `read_request`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Send => "send",
            Self::Write => "write",
            Self::ReadRequest => "read_request",
            Self::ReadResponse => "read_response",
            Self::Atomic => "atomic",
            Self::AtomicAck => "atomic_ack",
            Self::Datagram => "datagram",
            Self::Ack => "ack",
            Self::Nak => "nak",
            Self::CongestionNotification => "cn",
        }
    }

    /// Returns the class with this name, or `None` if no class has it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Checks whether a packet of this kind belongs to the class.
    pub fn has(self, kind: &PacketKind) -> bool {
        self == Self::Any || Self::of(kind) == Some(self)
    }

    /// Returns the class of a packet; `None` for a raw frame, which only `Any` has.
    fn of(kind: &PacketKind) -> Option<Self> {
        let class = match kind {
            PacketKind::Send { .. } => Self::Send,
            PacketKind::Write { .. } => Self::Write,
            PacketKind::ReadRequest { .. } => Self::ReadRequest,
            PacketKind::ReadResponse { .. } => Self::ReadResponse,
            PacketKind::CompareSwap { .. } | PacketKind::FetchAdd { .. } | PacketKind::AtomicWrite { .. } => Self::Atomic,
            PacketKind::AtomicAck { .. } => Self::AtomicAck,
            PacketKind::Datagram { .. } => Self::Datagram,
            PacketKind::Ack => Self::Ack,
            PacketKind::Nak(_) | PacketKind::RnrNak { .. } => Self::Nak,
            PacketKind::CongestionNotification => Self::CongestionNotification,
            PacketKind::Frame => return None,
        };
        Some(class)
    }
}

impl FabricSpec {
    /// Returns the index of the cable on a port, or `None` for a port without a cable.
    pub fn cable_at(&self, port: PortRef) -> Option<usize> {
        self.cables.iter().position(|cable| cable.ends.contains(&port))
    }

    /// Returns the cables of the host or switch that dies, by index. Other faults have none.
    pub fn cables_of(&self, kind: &FaultKind) -> Vec<usize> {
        let is_of = |end: &PortRef| match (kind, end) {
            (FaultKind::HostDies { host }, PortRef::Hca { host: of, .. }) => host == of,
            (FaultKind::SwitchDies { switch }, PortRef::Switch { switch: of, .. }) => switch == of,
            _ => false,
        };
        (0..self.cables.len()).filter(|cable| self.cables[*cable].ends.iter().any(is_of)).collect()
    }
}
