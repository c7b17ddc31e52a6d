//! Addresses and keys.

use std::fmt;

/// Local identifier of a port on its subnet: 16 bits. The default is [`Lid::NONE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lid(pub u16);

impl Lid {
    /// LID 0: no LID is assigned, as on Ethernet and before the subnet manager's sweep.
    pub const NONE: Self = Self(0);
    /// LID of any listening port, for SMPs with a directed route (IBTA 4.1.3).
    pub const PERMISSIVE: Self = Self(0xFFFF);

    /// Checks whether the LID names a single port: from 1 to 0xBFFF (IBTA 4.1.3).
    pub const fn is_unicast(self) -> bool {
        self.0 >= 1 && self.0 < 0xC000
    }
    /// Checks whether the LID names a multicast group: from 0xC000 to 0xFFFE (IBTA 4.1.3).
    pub const fn is_multicast(self) -> bool {
        self.0 >= 0xC000 && self.0 < 0xFFFF
    }
}

/// LID mask control (LMC): a port has 2^LMC LIDs (IBTA 4.1.3). From 0 to 7; the default is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Lmc(u8);

impl Lmc {
    /// LMC of a port with a single LID.
    pub const ZERO: Self = Self(0);

    /// Returns the LMC with a value; `None` above 7, because PortInfo has three bits for it (IBTA
    /// 14.2.5.6).
    pub const fn new(value: u8) -> Option<Self> {
        if value <= 7 { Some(Self(value)) } else { None }
    }

    /// Returns the value, from 0 to 7.
    pub const fn value(self) -> u8 {
        self.0
    }

    /// Returns the number of LIDs of a port, from 1 to 128.
    pub const fn lids(self) -> u16 {
        1 << self.0
    }
}

impl fmt::Display for Lmc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The LIDs of a port: a base, and `lmc.lids()` LIDs from it on (IBTA 4.1.3). The default is
/// [`Lid::NONE`] alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortLids {
    /// First LID. Its `lmc` low bits are 0.
    pub base: Lid,
    /// LMC of the port.
    pub lmc: Lmc,
}

impl PortLids {
    /// Returns the first LIDs that lie beyond `last`; `None` if no number is left.
    pub fn after(last: Lid, lmc: Lmc) -> Option<Self> {
        let base = last.0.checked_add(1)?.checked_next_multiple_of(lmc.lids())?;
        Some(Self { base: Lid(base), lmc })
    }

    const fn mask(self) -> u16 {
        self.lmc.lids() - 1
    }

    /// Checks whether a LID is one of the port's.
    #[inline]
    pub const fn contains(self, lid: Lid) -> bool {
        lid.0 == self.base.0 || self.lmc.0 > 0 && self.base.0 != 0 && lid.0 & !self.mask() == self.base.0 & !self.mask()
    }

    /// Returns the LID for path bits. Bits beyond the LMC have no effect (IBTA 4.1.3).
    #[inline]
    pub const fn with_path_bits(self, bits: u8) -> Lid {
        Lid(self.base.0 | bits as u16 & self.mask())
    }

    /// Returns the path bits of one of the LIDs.
    #[inline]
    pub const fn path_bits(self, lid: Lid) -> u8 {
        (lid.0 & self.mask()) as u8
    }

    /// Returns the largest LID.
    pub const fn last(self) -> Lid {
        Lid(self.base.0 | self.mask())
    }

    /// Returns all LIDs of a port with a base.
    pub fn all(self) -> impl Iterator<Item = Lid> + Clone {
        (self.base.0..=self.last().0).map(Lid)
    }
}

/// Globally unique identifier of a node or port: 64 bits, in the form of an EUI-64. The default, 0,
/// is no valid GUID. It prints as four groups of four hexadecimal digits, `0002:c903:0000:0001`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Guid(pub u64);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:04x}:{:04x}:{:04x}", self.0 >> 48, self.0 >> 32 & 0xFFFF, self.0 >> 16 & 0xFFFF, self.0 & 0xFFFF)
    }
}

/// Global identifier of a port or multicast group: subnet prefix and GUID, 16 bytes in network byte
/// order. The default is all zeros, which names no port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The default subnet prefix, fe80::/64 (IBTA 4.1.1).
    pub const DEFAULT_PREFIX: u64 = 0xFE80_0000_0000_0000;

    /// Returns the GID of a port with this GUID, in the subnet with this prefix.
    pub const fn new(prefix: u64, guid: Guid) -> Self {
        let (p, g) = (prefix.to_be_bytes(), guid.0.to_be_bytes());
        Self([p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7]])
    }

    /// Returns the GID that stands for an IPv4 address in RoCE v2: ::ffff:a.b.c.d (RFC 4291,
    /// 2.5.5.2).
    pub const fn of_ipv4([a, b, c, d]: [u8; 4]) -> Self {
        Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, a, b, c, d])
    }
    /// Returns the IPv4 address that the GID stands for, or `None` if it stands for none.
    pub const fn ipv4(self) -> Option<[u8; 4]> {
        match self.0 {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, a, b, c, d] => Some([a, b, c, d]),
            _ => None,
        }
    }
    /// Returns the type of a datagram to the GID over RoCE v2, as HCAs of mlx5 state it in completions:
    /// bit 3 means UDP, and the bits below mean IPv6 (1) or IPv4 (2).
    pub const fn datagram_type(self) -> u8 {
        const UDP: u8 = 1 << 3;
        UDP | if self.ipv4().is_some() { 2 } else { 1 }
    }
    /// Checks whether the GID is multicast. Its first byte is 0xFF (IBTA 4.1.1), or it stands for
    /// an IPv4 multicast address, 224.0.0.0/4.
    pub const fn is_multicast(self) -> bool {
        match self.ipv4() {
            Some([first, ..]) => first >> 4 == 0xE,
            None => self.0[0] == 0xFF,
        }
    }
    /// Checks whether the GID has the link-local prefix fe80::/64.
    pub const fn is_link_local(self) -> bool {
        matches!(self.0, [0xFE, 0x80, 0, 0, 0, 0, 0, 0, ..])
    }
}

/// P_Key: the number of a partition, 15 bits, and the membership bit, 0x8000 (IBTA 10.9.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PKey(pub u16);

impl PKey {
    /// Full membership of the default partition, 0x7FFF. Each port has it unless its description
    /// says otherwise.
    pub const DEFAULT_FULL: Self = Self(0xFFFF);
    /// Checks whether the membership bit is set: full members reach all members of a partition.
    pub const fn is_full_member(self) -> bool {
        self.0 & 0x8000 != 0
    }
    /// Returns the partition, from 0 to 0x7FFF, without the membership bit. 0 means no partition.
    pub const fn partition(self) -> u16 {
        self.0 & 0x7FFF
    }
    /// Checks whether a packet with this key may reach a QP with the key `other`. Two limited
    /// members cannot reach each other (IBTA 10.9.3).
    pub const fn reaches(self, other: Self) -> bool {
        self.partition() == other.partition() && (self.is_full_member() || other.is_full_member())
    }
}

/// Q_Key: 32 bits that a datagram carries, and that its receiving UD QP compares with its own (IBTA
/// 10.2.5). The default is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct QKey(pub u32);

#[cfg(test)]
mod tests {
    use super::{Gid, Guid, PKey};

    #[test]
    fn gids_of_ipv4_addresses_lead_back_and_know_groups() {
        let gid = Gid::of_ipv4([10, 77, 0, 1]);
        assert_eq!((gid.ipv4(), gid.is_multicast(), gid.is_link_local()), (Some([10, 77, 0, 1]), false, false));
        assert!(Gid::of_ipv4([239, 0, 0, 1]).is_multicast() && !Gid::of_ipv4([240, 0, 0, 1]).is_multicast());
        let local = Gid::new(Gid::DEFAULT_PREFIX, Guid(1));
        assert_eq!((local.ipv4(), local.is_multicast(), local.is_link_local()), (None, false, true));
        assert!(Gid([0xFF; 16]).is_multicast());
    }

    #[test]
    fn only_limited_members_do_not_hear_each_other() {
        let (full, limited, other) = (PKey(0x8001), PKey(0x0001), PKey(0x8002));
        assert!(full.reaches(full) && full.reaches(limited) && limited.reaches(full));
        assert!(!limited.reaches(limited) && !full.reaches(other));
    }
}
