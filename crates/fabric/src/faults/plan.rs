//! What a fabric's faults are, as a file or a command says it.

use super::BitErrorRate;
use crate::spec::{FabricSpec, PortRef};
use softband_model::packet::PacketKind;
use softband_sim::{SimDuration, SimTime};

/// A fault and when it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultSpec {
    /// Since the run began.
    pub at: SimTime,
    pub kind: FaultKind,
}

/// Cables, hosts and switches stand here by their places in the fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    LinkDown {
        cable: usize,
    },
    LinkUp {
        cable: usize,
    },
    /// The link trains anew for so long, and its ports stay Active.
    LinkRecovers {
        cable: usize,
        lasts: SimDuration,
    },
    /// In both directions, until another rate is set.
    BitErrors {
        cable: usize,
        rate: BitErrorRate,
    },
    /// The `number`th packet of a class, from 1 on, that leaves `port` from the fault's time on is lost.
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
    /// Names as files and commands have them.
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

/// Which packets a [`FaultKind::Drop`] counts.
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
    /// NAKs, RNR NAKs among them.
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

    pub(crate) fn has(self, kind: &PacketKind) -> bool {
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
    /// The cable that ends on a port.
    pub fn cable_at(&self, port: PortRef) -> Option<usize> {
        self.cables.iter().position(|cable| cable.ends.contains(&port))
    }

    /// The cables of a host, or of a switch.
    pub(crate) fn cables_of(&self, kind: &FaultKind) -> Vec<usize> {
        let is_of = |end: &PortRef| match (kind, end) {
            (FaultKind::HostDies { host }, PortRef::Hca { host: of, .. }) => host == of,
            (FaultKind::SwitchDies { switch }, PortRef::Switch { switch: of, .. }) => switch == of,
            _ => false,
        };
        (0..self.cables.len()).filter(|cable| self.cables[*cable].ends.iter().any(is_of)).collect()
    }
}
