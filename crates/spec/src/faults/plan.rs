//! The specification of a fabric's faults, from a file or a command.

use super::BitErrorRate;
use crate::{FabricSpec, PortRef};
use softband_model::packet::PacketKind;
use softband_sim::{SimDuration, SimTime};

/// A fault and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultSpec {
    /// Time since the start of the run.
    pub at: SimTime,
    pub kind: FaultKind,
}

/// A kind of fault. Indices refer to the cables, hosts and switches of the fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    LinkDown {
        cable: usize,
    },
    LinkUp {
        cable: usize,
    },
    /// The link retrains for `lasts`, and its ports stay Active.
    LinkRecovers {
        cable: usize,
        lasts: SimDuration,
    },
    /// Bit errors in both directions, until a fault sets another rate.
    BitErrors {
        cable: usize,
        rate: BitErrorRate,
    },
    /// Loses packet `number` of a class, counted from 1 among the packets that leave `port` from
    /// the fault's time on.
    Drop {
        port: PortRef,
        packet: PacketClass,
        number: u64,
    },
    HostDies {
        host: usize,
    },
    SwitchDies {
        switch: usize,
    },
}

impl FaultKind {
    /// Names in files and commands.
    pub const NAMES: [&'static str; 7] = ["link_down", "link_up", "link_recovers", "bit_errors", "drop", "host_dies", "switch_dies"];

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

/// The class of packets that a [`FaultKind::Drop`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketClass {
    Any,
    Send,
    Write,
    ReadRequest,
    ReadResponse,
    /// Requests of compare and swap, fetch and add, and atomic writes.
    Atomic,
    AtomicAck,
    Datagram,
    Ack,
    /// NAKs, including RNR NAKs.
    Nak,
    CongestionNotification,
}

impl PacketClass {
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

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    pub fn has(self, kind: &PacketKind) -> bool {
        self == Self::Any || self == Self::of(kind)
    }

    fn of(kind: &PacketKind) -> Self {
        match kind {
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
        }
    }
}

impl FabricSpec {
    /// Returns the cable that ends on a port.
    pub fn cable_at(&self, port: PortRef) -> Option<usize> {
        self.cables.iter().position(|cable| cable.ends.contains(&port))
    }

    /// Returns the cables of a dying host or switch.
    pub fn cables_of(&self, kind: &FaultKind) -> Vec<usize> {
        let is_of = |end: &PortRef| match (kind, end) {
            (FaultKind::HostDies { host }, PortRef::Hca { host: of, .. }) => host == of,
            (FaultKind::SwitchDies { switch }, PortRef::Switch { switch: of, .. }) => switch == of,
            _ => false,
        };
        (0..self.cables.len()).filter(|cable| self.cables[*cable].ends.iter().any(is_of)).collect()
    }
}
