//! Links: width, speed, MTU, virtual lanes and credits.

use std::fmt;

/// Lanes of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkWidth {
    X1,
    X4,
    X12,
}

impl LinkWidth {
    pub const ALL: [Self; 3] = [Self::X1, Self::X4, Self::X12];
    pub const fn lanes(self) -> u64 {
        match self {
            Self::X1 => 1,
            Self::X4 => 4,
            Self::X12 => 12,
        }
    }
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|width| width.to_string().eq_ignore_ascii_case(text))
    }
}

impl fmt::Display for LinkWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}X", self.lanes())
    }
}

/// Signalling generation of a lane. The three rates with 8b/10b encoding (IBTA volume 2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkSpeed {
    Sdr,
    Ddr,
    Qdr,
}

impl LinkSpeed {
    pub const ALL: [Self; 3] = [Self::Sdr, Self::Ddr, Self::Qdr];
    /// Data rate of one lane in bytes per second, after 8b/10b.
    pub const fn lane_bytes_per_second(self) -> u64 {
        match self {
            Self::Sdr => 250_000_000,
            Self::Ddr => 500_000_000,
            Self::Qdr => 1_000_000_000,
        }
    }
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|speed| speed.to_string().eq_ignore_ascii_case(text))
    }
}

impl fmt::Display for LinkSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sdr => "SDR",
            Self::Ddr => "DDR",
            Self::Qdr => "QDR",
        })
    }
}

/// What a link trained to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkRate {
    pub width: LinkWidth,
    pub speed: LinkSpeed,
}

impl LinkRate {
    pub const fn bytes_per_second(self) -> u64 {
        self.width.lanes() * self.speed.lane_bytes_per_second()
    }
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.width, self.speed)
    }
}

/// Maximum transfer unit of a packet's payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mtu {
    B256,
    B512,
    B1024,
    B2048,
    B4096,
}

impl Mtu {
    pub const ALL: [Self; 5] = [Self::B256, Self::B512, Self::B1024, Self::B2048, Self::B4096];
    pub const fn bytes(self) -> u32 {
        match self {
            Self::B256 => 256,
            Self::B512 => 512,
            Self::B1024 => 1024,
            Self::B2048 => 2048,
            Self::B4096 => 4096,
        }
    }
    pub fn from_bytes(bytes: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|mtu| mtu.bytes() == bytes)
    }
}

/// A virtual lane, 0 to 15; lane 15 carries subnet management only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct VirtualLane(pub u8);

/// VLCap and OperationalVLs: a code, not a count (IBTA PortInfo; 1 = VL0 ... 5 = VL0-14).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OperationalVls(u8);

impl OperationalVls {
    pub fn from_code(code: u8) -> Option<Self> {
        (1..=5).contains(&code).then_some(Self(code))
    }
    pub const fn code(self) -> u8 {
        self.0
    }
    /// Data lanes in operation.
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

/// Flow-control credits: blocks of 64 bytes (IBTA 7.9.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CreditBlocks(pub u32);

impl CreditBlocks {
    pub const BLOCK_BYTES: u32 = 64;
    /// The blocks a packet of `bytes` needs: all of them, rounded up.
    pub const fn for_packet(bytes: u32) -> Self {
        Self(bytes.div_ceil(Self::BLOCK_BYTES))
    }
}
