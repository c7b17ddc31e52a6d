//! A port's SL-to-VL mapping table (IBTA 7.6.6).

use super::lane_of;
use softband_types::{OperationalVls, ServiceLevel, VirtualLane};

/// Lane of each service level. Links with fewer lanes fold it, as OpenSM does when it writes the
/// table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sl2Vl([u8; Self::LEVELS]);

impl Sl2Vl {
    /// Number of service levels.
    pub const LEVELS: usize = 16;
    /// Table in which each level has the lane of its number.
    pub const IDENTITY: Self = Self([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    /// Default table of OpenSM (`OSM_DEFAULT_QOS_SL2VL` in `osm_base.h`).
    pub const OPENSM: Self = Self([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 7]);

    /// Creates the table from the data lane (0 to 14) of each level, in order. Returns `None` if a
    /// number is no data lane.
    pub fn new(lanes: [u8; Self::LEVELS]) -> Option<Self> {
        lanes.iter().all(|lane| *lane < 15).then_some(Self(lanes))
    }

    /// Returns the lane of a level on a link.
    pub const fn lane(&self, service_level: ServiceLevel, vls: OperationalVls) -> VirtualLane {
        lane_of(ServiceLevel(self.0[(service_level.0 & 15) as usize]), vls)
    }

    /// Returns the lanes as written, level by level.
    pub const fn lanes(&self) -> &[u8; Self::LEVELS] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_is_what_a_subnet_without_tables_has() {
        for vls in (1..=5).filter_map(OperationalVls::from_code) {
            for level in (0..16).map(ServiceLevel) {
                assert_eq!(Sl2Vl::IDENTITY.lane(level, vls), lane_of(level, vls));
            }
        }
    }

    #[test]
    fn a_link_with_fewer_lanes_folds_the_table() {
        let vls = |code| OperationalVls::from_code(code).unwrap();
        let table = Sl2Vl::new([0, 0, 0, 0, 5, 5, 5, 5, 14, 14, 14, 14, 7, 7, 7, 7]).unwrap();
        assert_eq!([4, 8, 12].map(|level| table.lane(ServiceLevel(level), vls(5)).0), [5, 14, 7]);
        assert_eq!([4, 8, 12].map(|level| table.lane(ServiceLevel(level), vls(3)).0), [1, 2, 3]);
        assert_eq!(Sl2Vl::OPENSM.lane(ServiceLevel(15), vls(5)), VirtualLane(7));
        assert_eq!(Sl2Vl::new([15; 16]), None);
    }
}
