//! Links: width, speed, MTU, virtual lanes and credits.

use std::fmt;

/// Number of lanes of a link, fewest first. It prints as `1X`, `4X` and so on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkWidth {
    /// 1 lane.
    X1,
    /// 2 lanes.
    X2,
    /// 4 lanes.
    X4,
    /// 8 lanes.
    X8,
    /// 12 lanes.
    X12,
}

impl LinkWidth {
    /// All widths, narrowest first.
    pub const ALL: [Self; 5] = [Self::X1, Self::X2, Self::X4, Self::X8, Self::X12];
    /// Returns the number of lanes: 1, 2, 4, 8 or 12.
    pub const fn lanes(self) -> u64 {
        match self {
            Self::X1 => 1,
            Self::X2 => 2,
            Self::X4 => 4,
            Self::X8 => 8,
            Self::X12 => 12,
        }
    }
    /// Returns the code of LinkWidthActive in PortInfo (IBTA 14.2.5.6; `active_width` of
    /// `ibv_port_attr`). 2X came after the others, so its code, 16, is the largest.
    pub const fn code(self) -> u8 {
        match self {
            Self::X1 => 1,
            Self::X4 => 2,
            Self::X8 => 4,
            Self::X12 => 8,
            Self::X2 => 16,
        }
    }
    /// Returns the width of a code of LinkWidthActive, or `None` if the code is not exactly one
    /// width.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|width| width.code() == code)
    }
    /// Returns the width that prints as `text`, in upper or lower case, or `None` for any other
    /// text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|width| width.to_string().eq_ignore_ascii_case(text))
    }
}

impl fmt::Display for LinkWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}X", self.lanes())
    }
}

/// Signalling generation of a lane (IBTA volume 2), slowest first. A link trains to the fastest
/// generation of both ends and the cable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkSpeed {
    /// 1.25 Gb/s on a lane: Gigabit Ethernet (IEEE 802.3 clause 36). InfiniBand has no such lane, so
    /// that [`Self::ALL`] leaves it out.
    Gigabit,
    /// Single data rate: 2.5 Gb/s on a lane.
    Sdr,
    /// Double data rate: 5 Gb/s on a lane.
    Ddr,
    /// Quadruple data rate: 10 Gb/s on a lane.
    Qdr,
    /// 10.3125 Gb/s on a lane: the rate of FDR10, which Mellanox defined.
    Fdr10,
    /// Fourteen data rate: 14.0625 Gb/s on a lane.
    Fdr,
    /// Enhanced data rate: 25.78125 Gb/s on a lane.
    Edr,
    /// High data rate: 53.125 Gb/s on a lane.
    Hdr,
    /// Next data rate: 106.25 Gb/s on a lane.
    Ndr,
    /// Extended data rate: 212.5 Gb/s on a lane.
    Xdr,
}

impl LinkSpeed {
    /// All generations of InfiniBand, slowest first.
    pub const ALL: [Self; 9] = [Self::Sdr, Self::Ddr, Self::Qdr, Self::Fdr10, Self::Fdr, Self::Edr, Self::Hdr, Self::Ndr, Self::Xdr];

    /// Returns the bits per second on a lane, before the line code. From HDR on, PAM4 carries two
    /// bits per symbol.
    pub const fn lane_signalling_rate(self) -> u64 {
        match self {
            Self::Gigabit => 1_250_000_000,
            Self::Sdr => 2_500_000_000,
            Self::Ddr => 5_000_000_000,
            Self::Qdr => 10_000_000_000,
            Self::Fdr10 => 10_312_500_000,
            Self::Fdr => 14_062_500_000,
            Self::Edr => 25_781_250_000,
            Self::Hdr => 53_125_000_000,
            Self::Ndr => 106_250_000_000,
            Self::Xdr => 212_500_000_000,
        }
    }

    /// Returns the line code: the bits of data, and the bits on the lane that carry them.
    ///
    /// - Gigabit Ethernet, and up to QDR: 8b/10b.
    /// - Up to EDR: 64b/66b. The forward error correction of EDR takes its check bits out of the
    ///   synchronisation headers, so it does not change the rate.
    /// - From HDR on: RS(544,514) over 256b/257b; 544/514 of 257/256 are 17/16.
    const fn line_code(self) -> LineCode {
        match self {
            Self::Gigabit | Self::Sdr | Self::Ddr | Self::Qdr => LineCode { data: 8, coded: 10 },
            Self::Fdr10 | Self::Fdr | Self::Edr => LineCode { data: 64, coded: 66 },
            Self::Hdr | Self::Ndr | Self::Xdr => LineCode { data: 16, coded: 17 },
        }
    }

    /// Returns LinkSpeedActive and its extensions as a set of bits: 1 for SDR, up to 256 for XDR
    /// (`active_speed` of `ibv_port_attr`). Gigabit Ethernet has none: 0.
    pub const fn code(self) -> u16 {
        match self {
            Self::Gigabit => 0,
            Self::Sdr => 1,
            Self::Ddr => 2,
            Self::Qdr => 4,
            Self::Fdr10 => 8,
            Self::Fdr => 16,
            Self::Edr => 32,
            Self::Hdr => 64,
            Self::Ndr => 128,
            Self::Xdr => 256,
        }
    }
    /// Returns the generation of a code, or `None` if the code is not exactly one generation.
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|speed| speed.code() == code)
    }
    /// Checks whether a link of this speed needs forward error correction: PAM4 requires it, so HDR
    /// and later do.
    pub const fn needs_error_correction(self) -> bool {
        matches!(self, Self::Hdr | Self::Ndr | Self::Xdr)
    }
    /// Returns the generation that prints as `text`, in upper or lower case, or `None` for any
    /// other text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|speed| speed.to_string().eq_ignore_ascii_case(text))
    }
}

#[derive(Clone, Copy)]
struct LineCode {
    data: u64,
    coded: u64,
}

impl fmt::Display for LinkSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gigabit => "gigabit",
            Self::Sdr => "SDR",
            Self::Ddr => "DDR",
            Self::Qdr => "QDR",
            Self::Fdr10 => "FDR10",
            Self::Fdr => "FDR",
            Self::Edr => "EDR",
            Self::Hdr => "HDR",
            Self::Ndr => "NDR",
            Self::Xdr => "XDR",
        })
    }
}

/// Width and speed to which a link trained. It prints as `4X EDR`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkRate {
    /// Number of lanes.
    pub width: LinkWidth,
    /// Signalling generation of each lane.
    pub speed: LinkSpeed,
}

impl LinkRate {
    /// Returns the time that `bytes` of data take on the link, in picoseconds, rounded up. The
    /// result is exact up to 300 MB: FDR carries no whole number of bytes per second.
    pub const fn picos_of_bytes(self, bytes: u32) -> u64 {
        picos(bytes, self.width.lanes(), self.speed)
    }
    /// Returns the time that a byte of data takes on a single lane, in picoseconds, rounded up:
    /// 4,000 for SDR.
    pub const fn picos_of_symbol(self) -> u64 {
        picos(1, 1, self.speed)
    }
}

const fn picos(bytes: u32, lanes: u64, speed: LinkSpeed) -> u64 {
    // Every rate is a multiple of 10 kb/s; 64 bits hold the product for up to 300 MB.
    let code = speed.line_code();
    let bits = bytes as u64 * 8 * code.coded;
    (bits * 100_000_000).div_ceil(lanes * (speed.lane_signalling_rate() / 10_000) * code.data)
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.width, self.speed)
    }
}

/// MTU: largest payload of a packet, without its headers, smallest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mtu {
    /// 256 bytes.
    B256,
    /// 512 bytes.
    B512,
    /// 1,024 bytes.
    B1024,
    /// 2,048 bytes.
    B2048,
    /// 4,096 bytes.
    B4096,
}

impl Mtu {
    /// All MTUs, smallest first.
    pub const ALL: [Self; 5] = [Self::B256, Self::B512, Self::B1024, Self::B2048, Self::B4096];
    /// Returns the MTU in bytes: 256, 512, 1024, 2048 or 4096.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::B256 => 256,
            Self::B512 => 512,
            Self::B1024 => 1024,
            Self::B2048 => 2048,
            Self::B4096 => 4096,
        }
    }
    /// Returns the MTU of exactly that many bytes, or `None` if InfiniBand has none.
    pub fn from_bytes(bytes: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|mtu| mtu.bytes() == bytes)
    }
}

/// Virtual lane of a link: 0 (the default) to 14 carry data, and 15 carries subnet management only
/// (IBTA 7.6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct VirtualLane(pub u8);

/// VLCap and OperationalVLs of PortInfo: a code from 1 to 5 for 1, 2, 4, 8 and 15 data lanes (IBTA
/// 14.2.5.6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OperationalVls(u8);

impl OperationalVls {
    /// Code 1: the single data lane, VL 0, that every port has.
    pub const VL0: Self = Self(1);

    /// Returns the lanes of a code, or `None` if the code is outside 1 to 5.
    pub fn from_code(code: u8) -> Option<Self> {
        (1..=5).contains(&code).then_some(Self(code))
    }
    /// Returns the code, from 1 to 5: no count of lanes.
    pub const fn code(self) -> u8 {
        self.0
    }
    /// Returns the number of data lanes in operation: 1, 2, 4, 8 or 15.
    pub const fn data_lanes(self) -> u8 {
        match self.0 {
            1 => 1,
            2 => 2,
            3 => 4,
            4 => 8,
            _ => 15,
        }
    }
}

/// Size in blocks of 64 bytes, the unit of receive buffers and flow-control credits (IBTA 7.9.3).
/// The default is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CreditBlocks(pub u32);

impl CreditBlocks {
    /// Bytes of a block.
    pub const BLOCK_BYTES: u32 = 64;
    /// Returns the blocks that a packet of `bytes` needs, rounded up.
    pub const fn for_packet(bytes: u32) -> Self {
        Self(bytes.div_ceil(Self::BLOCK_BYTES))
    }
}

impl std::ops::Add for CreditBlocks {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(width: LinkWidth, speed: LinkSpeed) -> LinkRate {
        LinkRate { width, speed }
    }

    /// Returns the data rate of a 4X link in Mb/s, which names the generation.
    fn megabits(speed: LinkSpeed) -> u64 {
        1_000_000_000 * 8 / (rate(LinkWidth::X4, speed).picos_of_bytes(1_000_000) / 1_000)
    }

    #[test]
    fn every_generation_carries_what_its_line_code_leaves() {
        assert_eq!(LinkSpeed::ALL.map(megabits), [8_000, 16_000, 32_000, 40_000, 54_545, 100_000, 200_000, 400_000, 800_000]);
    }

    #[test]
    fn a_rate_that_is_no_whole_number_of_bytes_a_second_is_exact() {
        // 64 of 66 bits of 14.0625 Gb/s: 18.75 GB in eleven seconds.
        assert_eq!(rate(LinkWidth::X1, LinkSpeed::Fdr).picos_of_bytes(187_500_000), 110_000_000_000);
        assert_eq!(rate(LinkWidth::X12, LinkSpeed::Xdr).picos_of_bytes(300), 1_000);
        assert_eq!(rate(LinkWidth::X1, LinkSpeed::Sdr).picos_of_symbol(), 4_000);
    }

    #[test]
    fn codes_and_names_lead_back() {
        for speed in LinkSpeed::ALL {
            assert_eq!((LinkSpeed::from_code(speed.code()), LinkSpeed::parse(&speed.to_string())), (Some(speed), Some(speed)));
        }
        for width in LinkWidth::ALL {
            assert_eq!((LinkWidth::from_code(width.code()), LinkWidth::parse(&width.to_string())), (Some(width), Some(width)));
        }
        assert_eq!((LinkSpeed::parse("fdr10"), LinkSpeed::from_code(3), LinkWidth::parse("3X")), (Some(LinkSpeed::Fdr10), None, None));
    }
}
