//! Addresses and keys.

use std::fmt;

/// Local identifier of a port on its subnet (16 bits; 0 means none).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lid(pub u16);

impl Lid {
    pub const NONE: Self = Self(0);
    /// The directed-route address of whoever is listening.
    pub const PERMISSIVE: Self = Self(0xFFFF);

    pub const fn is_unicast(self) -> bool {
        self.0 >= 1 && self.0 < 0xC000
    }
    pub const fn is_multicast(self) -> bool {
        self.0 >= 0xC000 && self.0 < 0xFFFF
    }
}

/// Globally unique identifier, EUI-64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Guid(pub u64);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:04x}:{:04x}:{:04x}", self.0 >> 48, self.0 >> 32 & 0xFFFF, self.0 >> 16 & 0xFFFF, self.0 & 0xFFFF)
    }
}

/// Global identifier: subnet prefix and GUID, in network byte order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The default subnet prefix (IBTA 4.1.1): fe80::/64.
    pub const DEFAULT_PREFIX: u64 = 0xFE80_0000_0000_0000;

    pub const fn new(prefix: u64, guid: Guid) -> Self {
        let (p, g) = (prefix.to_be_bytes(), guid.0.to_be_bytes());
        Self([p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7]])
    }
}

/// Partition key: 15 bits of index and the membership bit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PKey(pub u16);

impl PKey {
    pub const DEFAULT_FULL: Self = Self(0xFFFF);
    pub const fn is_full_member(self) -> bool {
        self.0 & 0x8000 != 0
    }
    /// Partition without the membership bit; 0 is none.
    pub const fn partition(self) -> u16 {
        self.0 & 0x7FFF
    }
    /// Whether a packet with this key may reach a queue pair with that one: two limited members do not hear each other
    /// (IBTA 10.9.3).
    pub const fn reaches(self, other: Self) -> bool {
        self.partition() == other.partition() && (self.is_full_member() || other.is_full_member())
    }
}

/// Queue key of an unreliable datagram QP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct QKey(pub u32);

#[cfg(test)]
mod tests {
    use super::PKey;

    #[test]
    fn only_limited_members_do_not_hear_each_other() {
        let (full, limited, other) = (PKey(0x8001), PKey(0x0001), PKey(0x8002));
        assert!(full.reaches(full) && full.reaches(limited) && limited.reaches(full));
        assert!(!limited.reaches(limited) && !full.reaches(other));
    }
}
