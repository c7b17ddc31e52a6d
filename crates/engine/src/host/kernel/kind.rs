//! The kinds of links that interfaces have.

use super::Common;
use super::core::Joined;
use super::ethernet::EthernetLink;
use super::ipoib::IpoibLink;
use super::management::ManagementLink;
use softband_fabric::World;
use softband_model::parts::KernelPath;
use softband_net::{Frame, PayloadSlice};
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

    /// Returns the bytes of the next packet with the headers of its link.
    pub(super) fn next_bytes(&self) -> u64 {
        match self {
            Self::Ethernet(link) => link.next_bytes(),
            Self::Ipoib(link) => link.next_bytes(),
            Self::Loopback | Self::Management(_) => 0,
        }
    }

    /// Returns the next packet behind the headers of its link.
    pub(super) fn next_packet(&self, common: &Common) -> Option<PayloadSlice> {
        match self {
            Self::Ethernet(link) => link.next_packet(),
            Self::Ipoib(link) => link.next_packet(common),
            Self::Loopback | Self::Management(_) => None,
        }
    }

    /// Returns whether received segments become larger ones.
    pub(super) fn joins(&self) -> bool {
        match self {
            Self::Ethernet(link) => link.joins(),
            Self::Ipoib(link) => link.joins(),
            Self::Loopback | Self::Management(_) => false,
        }
    }

    /// Returns the time that a core needs for checksums that the card does not compute. A core reads
    /// bytes as fast as it copies them.
    pub(super) fn checksum_cost(&self, path: &KernelPath, bytes: u64) -> SimDuration {
        let is_summed = match self {
            Self::Ethernet(link) => link.sums(),
            Self::Ipoib(link) => link.sums(),
            Self::Loopback | Self::Management(_) => true,
        };
        if is_summed { SimDuration::ZERO } else { path.copy(bytes) }
    }

    /// Takes the oldest packet, and with it those that join it. A packet that is no frame is `None`.
    pub(super) fn take_frame(&mut self, world: &mut World, common: &mut Common, now: SimTime) -> Option<(Frame, Joined)> {
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
