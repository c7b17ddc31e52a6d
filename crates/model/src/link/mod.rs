//! A link's ends: framing and serialisation, virtual lanes, flow control.

mod arbiter;
mod credit;
mod flow_control;
mod framing;
mod image;
mod inputs;
mod levels;
mod pause;
mod returns;
mod weights;

pub use arbiter::{Arbiter, Choice, Waiting};
pub use credit::CreditLedger;
pub use flow_control::FlowControl;
pub use framing::Framing;
pub use levels::Sl2Vl;
pub use pause::{PauseLedger, PauseLoop, ReceiveBuffer, Taken, Thresholds};
pub use returns::{Returning, Returns, Sending};
pub use weights::{ArbitrationTables, WeightedLane};

use softband_sim::SimDuration;
use softband_types::{CreditBlocks, LinkRate, Mtu, OperationalVls, ServiceLevel, VirtualLane};
use softband_wire as wire;

/// Returns the time that a packet of `bytes` (LRH to VCRC, or address to check sequence) occupies a
/// link. Delimiters and gaps of the framing count as well: 8 bytes on InfiniBand, 20 on Ethernet.
pub fn serialisation(rate: LinkRate, framing: Framing, bytes: u32) -> SimDuration {
    SimDuration::from_picos(rate.picos_of_bytes(bytes + framing.spacing_bytes()))
}

/// Returns a symbol time: a byte on a single lane. It is the tick of `port_xmit_wait`.
pub fn symbol_time(rate: LinkRate) -> SimDuration {
    SimDuration::from_picos(rate.picos_of_symbol())
}

/// Returns the default lane of a service level: the same number, folded into the operational lanes.
pub const fn lane_of(service_level: ServiceLevel, vls: OperationalVls) -> VirtualLane {
    let lanes = vls.data_lanes();
    VirtualLane(if lanes.is_power_of_two() { service_level.0 & (lanes - 1) } else { service_level.0 % lanes })
}

/// Returns the blocks of each lane. A port's receive buffer is divided permanently among its
/// operational data lanes.
pub const fn blocks_per_lane(port_buffer_bytes: u32, vls: OperationalVls) -> CreditBlocks {
    CreditBlocks(port_buffer_bytes / CreditBlocks::BLOCK_BYTES / vls.data_lanes() as u32)
}

/// Returns the largest MTU, up to `wanted`, whose packets fit into a lane of `blocks`; at least
/// 256.
///
/// A lane too small even for that still sends one packet at a time: see [`CreditLedger::permits`].
pub fn mtu_that_fits(wanted: Mtu, blocks: CreditBlocks) -> Mtu {
    let fits = |mtu: &&Mtu| CreditBlocks::for_packet(mtu.bytes() + wire::BASE_BYTES) <= blocks;
    Mtu::ALL.iter().filter(|mtu| **mtu <= wanted).rfind(fits).copied().unwrap_or(Mtu::B256)
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_types::{LinkSpeed, LinkWidth};

    #[test]
    fn a_full_packet_takes_34_bytes_more_than_its_payload() {
        let sdr = LinkRate { width: LinkWidth::X4, speed: LinkSpeed::Sdr };
        assert_eq!(serialisation(sdr, Framing::Infiniband, 2_048 + wire::BASE_BYTES), SimDuration::from_nanos(2_082));
        assert_eq!(symbol_time(sdr), SimDuration::from_nanos(4));
    }

    #[test]
    fn eight_lanes_of_sixteen_packets_hold_two_each() {
        let eight = OperationalVls::from_code(4).unwrap();
        assert_eq!(blocks_per_lane(33_792, eight), CreditBlocks(66));
        assert_eq!(lane_of(ServiceLevel(9), eight), VirtualLane(1));
    }

    #[test]
    fn the_mtu_shrinks_to_what_a_lane_holds() {
        assert_eq!(mtu_that_fits(Mtu::B4096, CreditBlocks(33)), Mtu::B2048);
        assert_eq!(mtu_that_fits(Mtu::B4096, CreditBlocks(32)), Mtu::B1024);
        assert_eq!(mtu_that_fits(Mtu::B2048, CreditBlocks(1)), Mtu::B256);
    }
}
