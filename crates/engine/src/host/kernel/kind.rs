//! The kinds of links that interfaces have.

use super::Common;
use super::ethernet::EthernetLink;
use super::ipoib::IpoibLink;
use super::management::ManagementLink;
use softband_fabric::World;
use softband_model::parts::KernelPath;
use softband_net::Frame;
use softband_sim::{SimDuration, SimTime};

/// Link of an interface. A core takes the packets of IPoIB and Ethernet.
pub(super) enum Kind {
    Loopback,
    Management(ManagementLink),
    Ipoib(Box<IpoibLink>),
    Ethernet(Box<EthernetLink>),
}

impl Kind {
    /// Returns whether an interrupt that was due at `now` still is.
    pub(super) fn awaits_interrupt(&self, now: SimTime) -> bool {
        match self {
            Self::Ipoib(link) => link.awaits_interrupt(now),
            Self::Ethernet(link) => link.awaits_interrupt(now),
            Self::Loopback | Self::Management(_) => false,
        }
    }

    /// Notes that a core begins to take packets.
    pub(super) fn begin_polling(&mut self) {
        match self {
            Self::Ipoib(link) => link.begin_polling(),
            Self::Ethernet(link) => link.begin_polling(),
            Self::Loopback | Self::Management(_) => {}
        }
    }

    /// Returns the time that a core needs for the next packet.
    pub(super) fn receive_cost(&self, path: &KernelPath) -> SimDuration {
        match self {
            Self::Ethernet(link) => path.receive_packet + link.checksum_cost(path, link.next_bytes()),
            _ => path.receive_packet,
        }
    }

    /// Takes the oldest packet. A packet that is no frame is `None`.
    pub(super) fn take_frame(&mut self, world: &mut World, common: &mut Common, now: SimTime) -> Option<Frame> {
        match self {
            Self::Ipoib(link) => link.take_frame(world, common, now),
            Self::Ethernet(link) => link.take_frame(world),
            Self::Loopback | Self::Management(_) => None,
        }
    }

    /// Returns whether packets are left. Without them, the core ends its work.
    pub(super) fn go_on_polling(&mut self) -> bool {
        match self {
            Self::Ipoib(link) => link.go_on_polling(),
            Self::Ethernet(link) => link.go_on_polling(),
            Self::Loopback | Self::Management(_) => false,
        }
    }
}
