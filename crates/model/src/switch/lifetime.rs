//! Time that packets may wait in switches before the switches discard them (IBTA 18.2.5.4).

use softband_sim::SimDuration;

/// Lifetime as the subnet manager writes it: 4.096 us x 2^code, and no limit from 20 on (IBTA
/// 14.2.5.4 and 14.2.5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifetimeCode(u8);

impl LifetimeCode {
    /// Code 20: no limit.
    pub const INFINITE: Self = Self(20);

    /// Creates a lifetime from its code, from 0 to 20. Returns `None` for any other code.
    pub const fn new(code: u8) -> Option<Self> {
        if code <= 20 { Some(Self(code)) } else { None }
    }
    /// Returns the lifetime of a code from a datagram: codes above 20 mean no limit, as 20.
    pub const fn of_wire(code: u8) -> Self {
        if code <= 20 { Self(code) } else { Self::INFINITE }
    }
    /// Returns the code, from 0 to 20.
    pub const fn code(self) -> u8 {
        self.0
    }
    /// Returns the limit, 4.096 us x 2^code, or `None` for code 20.
    pub const fn limit(self) -> Option<SimDuration> {
        if self.0 >= Self::INFINITE.0 { None } else { Some(SimDuration::from_nanos(4_096 << self.0)) }
    }
}

/// Limits of a subnet, by the names of OpenSM's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketLifetimes {
    /// LifeTimeValue: how long a packet may stay in one switch.
    pub packet_life_time: LifetimeCode,
    /// HOQLife of ports between switches: how long a packet may wait at the head of its lane.
    pub head_of_queue_lifetime: LifetimeCode,
    /// HOQLife of switch ports that lead to an HCA.
    pub leaf_head_of_queue_lifetime: LifetimeCode,
}

impl Default for PacketLifetimes {
    /// Returns OpenSM's defaults (`osm_base.h`: 0x12, 0x12 and 0x10).
    fn default() -> Self {
        Self { packet_life_time: LifetimeCode(18), head_of_queue_lifetime: LifetimeCode(18), leaf_head_of_queue_lifetime: LifetimeCode(16) }
    }
}

impl PacketLifetimes {
    /// No limits: packets wait as long as it takes.
    pub const INFINITE: Self = Self {
        packet_life_time: LifetimeCode::INFINITE,
        head_of_queue_lifetime: LifetimeCode::INFINITE,
        leaf_head_of_queue_lifetime: LifetimeCode::INFINITE,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_double_and_twenty_is_no_limit() {
        let limits = PacketLifetimes::default();
        assert_eq!(limits.leaf_head_of_queue_lifetime.limit(), Some(SimDuration::from_nanos(268_435_456)));
        assert_eq!(limits.packet_life_time.limit(), Some(SimDuration::from_nanos(1_073_741_824)));
        assert_eq!(LifetimeCode::new(20).unwrap().limit(), None);
        assert_eq!((LifetimeCode::new(21), LifetimeCode::of_wire(31)), (None, LifetimeCode::INFINITE));
    }
}
