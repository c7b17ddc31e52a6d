//! Typed numbers: identifiers, handles, keys and PSNs.

macro_rules! id {
    ($(#[$meta:meta])* $name:ident($inner:ty)) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $inner);
    };
}

id!(/// A host of the fabric, in the order of the fabric file.
    HostId(u32));
id!(/// A node (HCA or switch) of the fabric: the node part of the event order.
    NodeId(u32));
id!(/// An HCA, counted over the whole fabric.
    HcaId(u32));
id!(/// A program's process as the engine numbers it; never an OS process id.
    ProcessId(u32));
id!(/// Port of an HCA or switch: 1-based, 0 is a switch's management port.
    PortNumber(u8));
id!(/// Queue pair number, 24 bits, unique on its HCA.
    Qpn(u32));
id!(/// Protection domain of a fabric.
    PdHandle(u32));
id!(/// Completion queue of a fabric.
    CqHandle(u32));
id!(/// Memory region of a fabric.
    MrHandle(u32));
id!(/// Address handle of a fabric.
    AhHandle(u32));
id!(/// Shared receive queue of a fabric.
    SrqHandle(u32));
id!(/// Memory window of a fabric.
    MwHandle(u32));
id!(/// Domain of extended reliable connections.
    XrcdHandle(u32));
id!(/// Local key of a memory region.
    LKey(u32));
id!(/// Remote key of a memory region.
    RKey(u32));

/// Packet sequence number: 24 bits, circular, so it has no `Ord` (IBTA 9.7.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Psn(u32);

impl Psn {
    const MASK: u32 = 0xFF_FFFF;

    pub const fn new(value: u32) -> Self {
        Self(value & Self::MASK)
    }
    pub const fn value(self) -> u32 {
        self.0
    }
    pub const fn plus(self, packets: u32) -> Self {
        Self::new(self.0.wrapping_add(packets))
    }
    pub const fn previous(self) -> Self {
        Self::new(self.0.wrapping_sub(1))
    }
    /// Returns the number of packets from `earlier` to `self`, on the circle.
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & Self::MASK
    }
    /// Checks whether `self` precedes `other` by less than half the circle (IBTA C9-... 2^23
    /// window).
    pub const fn is_before(self, other: Self) -> bool {
        let ahead = other.since(self);
        ahead != 0 && ahead < 1 << 23
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psn_order_wraps_round_the_circle() {
        let last = Psn::new(0xFF_FFFF);
        assert!(last.is_before(last.plus(1)));
        assert_eq!(last.plus(1), Psn::new(0));
        assert!(!Psn::new(0).is_before(last));
        assert_eq!(Psn::new(3).since(last), 4);
    }
}
