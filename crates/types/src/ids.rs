//! Typed numbers: identifiers, handles, keys and PSNs.

macro_rules! id {
    ($(#[$meta:meta])* $name:ident($inner:ty)) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $inner);
    };
}

id!(/// Number of a host, from 0, in the order of the fabric's description.
    HostId(u32));
id!(/// Number of a node (HCA or switch), from 0, over the whole fabric. Events of one instant come in
    /// the order of their nodes.
    NodeId(u32));
id!(/// Number of an HCA, from 0, over the whole fabric.
    HcaId(u32));
id!(/// Number of a program's process, from 0, as the engine assigns it; never an OS process id. A
    /// handle belongs to the process that created it.
    ProcessId(u32));
id!(/// Number of a port of an HCA or switch, from 1 to 254. Port 0 of a switch is its management
    /// port.
    PortNumber(u8));
id!(/// Queue pair number, 24 bits, unique on its HCA. QP 0 and QP 1 belong to
    /// management.
    Qpn(u32));
id!(/// Handle of a protection domain in the World that created it; never 0.
    PdHandle(u32));
id!(/// Handle of a completion queue in the World that created it; never 0.
    CqHandle(u32));
id!(/// Handle of a memory region in the World that created it; never 0.
    MrHandle(u32));
id!(/// Handle of an address handle in the World that created it; never 0.
    AhHandle(u32));
id!(/// Handle of a shared receive queue in the World that created it; never 0.
    SrqHandle(u32));
id!(/// Handle of a memory window in the World that created it; never 0.
    MwHandle(u32));
id!(/// Handle of a domain of extended reliable connections (IBTA annex A14) in the World
    /// that created it; never 0.
    XrcdHandle(u32));
id!(/// L_Key: 32 bits by which a process's own work requests name a memory region (IBTA 10.6.3).
    LKey(u32));
id!(/// R_Key: 32 bits by which a remote QP's requests name a memory region or window (IBTA 10.6.3).
    RKey(u32));

/// Packet sequence number: 24 bits, circular, so it has no `Ord` (IBTA 9.7.2). The default is 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Psn(u32);

impl Psn {
    const MASK: u32 = 0xFF_FFFF;

    /// Makes a PSN of the low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & Self::MASK)
    }
    /// Returns the PSN as a number from 0 to 2^24 - 1.
    pub const fn value(self) -> u32 {
        self.0
    }
    /// Returns the PSN of the packet that follows `packets` packets later. It wraps round after
    /// 2^24 - 1.
    pub const fn plus(self, packets: u32) -> Self {
        Self::new(self.0.wrapping_add(packets))
    }
    /// Returns the PSN of the packet before. The PSN before 0 is 2^24 - 1.
    pub const fn previous(self) -> Self {
        Self::new(self.0.wrapping_sub(1))
    }
    /// Returns the number of packets from `earlier` to `self` on the circle, from 0 to 2^24 - 1.
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & Self::MASK
    }
    /// Checks whether `self` precedes `other` by less than half the circle, 2^23 packets. A PSN
    /// does not precede itself.
    pub const fn is_before(self, other: Self) -> bool {
        let ahead = other.since(self);
        ahead != 0 && ahead < 1 << 23
    }
}

impl ProcessId {
    const KERNEL_FIRST: u32 = 1 << 31;

    /// Returns the number that stands for the kernel of a host: it owns the queue pairs of the host's
    /// network interfaces. No program has this number.
    pub const fn of_kernel(host: HostId) -> Self {
        Self(Self::KERNEL_FIRST | host.0)
    }

    /// Returns the host whose kernel has this number, or `None` for a program.
    pub const fn kernel_host(self) -> Option<HostId> {
        if self.0 & Self::KERNEL_FIRST == 0 { None } else { Some(HostId(self.0 & !Self::KERNEL_FIRST)) }
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
