//! Traffic counts.

use softband_types::Lid;
use std::ops::{Add, Sub};

/// Traffic in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub bytes: u64,
    pub packets: u64,
    /// Multicast packets among `packets`.
    pub multicast: u64,
}

/// Packets that a port has sent, and their bytes. A passing packet finds no more on its cache line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub bytes: u64,
    pub packets: u64,
}

impl Sent {
    /// Returns the traffic, with its number of multicast packets.
    pub(crate) fn with(self, multicast: u64) -> Traffic {
        Traffic { bytes: self.bytes, packets: self.packets, multicast }
    }
}

impl Traffic {
    /// Counts a packet.
    #[inline]
    pub(crate) fn count(&mut self, bytes: u32, dlid: Lid) {
        self.bytes += u64::from(bytes);
        self.packets += 1;
        self.multicast += u64::from(dlid.is_multicast());
    }

    /// Returns the packets with one destination.
    pub(crate) fn unicast(self) -> u64 {
        self.packets - self.multicast
    }
}

impl Add for Traffic {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, packets: self.packets + other.packets, multicast: self.multicast + other.multicast }
    }
}

impl Sub for Traffic {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { bytes: self.bytes - other.bytes, packets: self.packets - other.packets, multicast: self.multicast - other.multicast }
    }
}
