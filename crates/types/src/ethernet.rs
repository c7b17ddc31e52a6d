//! Rates of Ethernet ports, of RDMA (RoCE) and of NICs.

use crate::{LinkRate, LinkSpeed, LinkWidth};
use std::fmt;

/// Rate of an Ethernet port, slowest first. A link trains to the fastest rate of both ends. It
/// prints as `1GbE`, `10GbE` and so on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EthernetRate {
    /// 1 Gb/s of data.
    G1,
    /// 10 Gb/s of data.
    G10,
    /// 25 Gb/s of data.
    G25,
    /// 40 Gb/s of data.
    G40,
    /// 50 Gb/s of data.
    G50,
    /// 100 Gb/s of data.
    G100,
    /// 200 Gb/s of data.
    G200,
    /// 400 Gb/s of data.
    G400,
    /// 800 Gb/s of data.
    G800,
}

impl EthernetRate {
    /// All rates, slowest first.
    pub const ALL: [Self; 9] = [Self::G1, Self::G10, Self::G25, Self::G40, Self::G50, Self::G100, Self::G200, Self::G400, Self::G800];

    /// Returns the lanes of the rate. Each lane signals and carries as much as an InfiniBand lane, except
    /// at 1 Gb/s:
    /// - 1.25 Gb/s with 8b/10b (IEEE 802.3 clause 36; 1000BASE-T carries the same data on four pairs);
    /// - 10.3125 Gb/s with 64b/66b (IEEE 802.3 clause 49; 40 Gb/s: clause 82);
    /// - 25.78125 Gb/s with 64b/66b (clauses 107 and 82);
    /// - 53.125 Gb/s with 256b/257b and RS(544,514) (clause 119, 200 Gb/s);
    /// - 106.25 Gb/s with 256b/257b and RS(544,514) (802.3ck, 802.3df).
    ///
    /// 50 Gb/s uses two lanes of 25 Gb/s, as the 25 Gigabit Ethernet Consortium defined it.
    pub const fn link_rate(self) -> LinkRate {
        let (width, speed) = match self {
            Self::G1 => (LinkWidth::X1, LinkSpeed::Gigabit),
            Self::G10 => (LinkWidth::X1, LinkSpeed::Fdr10),
            Self::G25 => (LinkWidth::X1, LinkSpeed::Edr),
            Self::G40 => (LinkWidth::X4, LinkSpeed::Fdr10),
            Self::G50 => (LinkWidth::X2, LinkSpeed::Edr),
            Self::G100 => (LinkWidth::X4, LinkSpeed::Edr),
            Self::G200 => (LinkWidth::X4, LinkSpeed::Hdr),
            Self::G400 => (LinkWidth::X4, LinkSpeed::Ndr),
            Self::G800 => (LinkWidth::X8, LinkSpeed::Ndr),
        };
        LinkRate { width, speed }
    }

    /// Returns the Ethernet rate of a link that trained to these lanes, or `None` if no rate
    /// matches.
    pub fn of(rate: LinkRate) -> Option<Self> {
        Self::ALL.into_iter().find(|ethernet| ethernet.link_rate() == rate)
    }
    /// Returns the rate that prints as `text`, in upper or lower case, or `None` for any other
    /// text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rate| rate.to_string().eq_ignore_ascii_case(text))
    }
}

impl fmt::Display for EthernetRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::G1 => "1GbE",
            Self::G10 => "10GbE",
            Self::G25 => "25GbE",
            Self::G40 => "40GbE",
            Self::G50 => "50GbE",
            Self::G100 => "100GbE",
            Self::G200 => "200GbE",
            Self::G400 => "400GbE",
            Self::G800 => "800GbE",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rate_carries_what_its_name_says() {
        // Nanoseconds for a megabyte.
        let times = EthernetRate::ALL.map(|rate| rate.link_rate().picos_of_bytes(1_000_000) / 1_000);
        assert_eq!(times, [8_000_000, 800_000, 320_000, 200_000, 160_000, 80_000, 40_000, 20_000, 10_000]);
    }

    #[test]
    fn names_and_lanes_lead_back() {
        for rate in EthernetRate::ALL {
            assert_eq!((EthernetRate::parse(&rate.to_string()), EthernetRate::of(rate.link_rate())), (Some(rate), Some(rate)));
        }
        let sdr = LinkRate { width: LinkWidth::X4, speed: LinkSpeed::Sdr };
        assert_eq!((EthernetRate::parse("56GbE"), EthernetRate::of(sdr)), (None, None));
    }
}
