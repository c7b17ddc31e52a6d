//! Buses: the slots that a host offers an HCA, and the edge of an HCA's card.

use softband_sim::SimDuration;
use std::fmt;

/// Bus of an HCA: its slot, and the bridge between the slot and the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusPart {
    pub name: String,
    pub slot: Slot,
    pub bridge: Option<Bridge>,
}

/// Slot for a card. Once a card sits in it, it holds the values that both have trained to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    PciExpress(PciExpress),
    PciX(PciX),
}

/// Chip between a slot and the host bridge. Requests pass it one way, data the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// Delay of each passage.
    pub delay: SimDuration,
    /// Rate of payload, both directions together. `None`: more than its slot.
    pub bytes_per_second: Option<u64>,
}

/// A PCI Express slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciExpress {
    /// 1 to 6.
    pub generation: u8,
    pub lanes: u8,
    /// Payload of one memory write.
    pub max_payload_bytes: u32,
    /// Header of a memory write; framing and check sums follow from the generation.
    pub write_header_bytes: u32,
    /// Payload of one read completion.
    pub completion_bytes: u32,
    /// Header of a read completion.
    pub completion_header_bytes: u32,
    /// Share of the raw rate taken by link-layer packets, in parts per million.
    pub link_layer_ppm: u32,
}

/// A PCI-X bus: both directions and all ports of its cards share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciX {
    pub clock: PciXClock,
    pub width_bytes: u32,
    /// Clocks for which a split read request has the bus: arbitration, address, attributes,
    /// response, turn-around.
    pub request_clocks: u32,
    /// Clocks for which a burst has the bus beside its data.
    pub burst_clocks: u32,
    /// Payload of one write burst.
    pub write_burst_bytes: u32,
}

/// The clocks of PCI-X; their names are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PciXClock {
    Mhz66,
    Mhz100,
    Mhz133,
}

/// The edge of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardInterface {
    PciExpress { generation: u8, lanes: u8 },
    PciX { clock: PciXClock },
}

impl PciExpress {
    pub const GENERATIONS: std::ops::RangeInclusive<u8> = 1..=6;
    pub const LANES: [u8; 6] = [1, 2, 4, 8, 12, 16];

    /// Returns the bytes per second each way after line coding. In generation 6, only those that
    /// FLITs leave for packets.
    pub fn raw_bytes_per_second(&self) -> u64 {
        // Megatransfers per second and lane, of 1 bit each (PAM4 counted as two), and the share of
        // packet bytes: 8b/10b, 128b/130b, and 236 of the 256 bytes of a FLIT (PCI Express Base
        // 6.0).
        let (megatransfers, part, whole) = match self.generation {
            0 | 1 => (2_500, 8, 10),
            2 => (5_000, 8, 10),
            3 => (8_000, 128, 130),
            4 => (16_000, 128, 130),
            5 => (32_000, 128, 130),
            _ => (64_000, 236, 256),
        };
        u64::from(self.lanes) * megatransfers * 1_000_000 / 8 * part / whole
    }

    /// Returns the bytes of a packet beside header and payload: framing, sequence number and check
    /// sum. FLITs carry them for all packets.
    pub fn framing_bytes(&self) -> u32 {
        if self.generation < 6 { 8 } else { 0 }
    }
}

impl PciXClock {
    pub const ALL: [Self; 3] = [Self::Mhz66, Self::Mhz100, Self::Mhz133];

    pub fn of_mhz(mhz: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|clock| clock.mhz() == mhz)
    }

    pub fn mhz(self) -> u32 {
        match self {
            Self::Mhz66 => 66,
            Self::Mhz100 => 100,
            Self::Mhz133 => 133,
        }
    }

    pub fn period(self) -> SimDuration {
        SimDuration::from_picos(match self {
            Self::Mhz66 => 15_000,
            Self::Mhz100 => 10_000,
            Self::Mhz133 => 7_500,
        })
    }
}

impl Slot {
    /// Returns the slot with a card in it: the lesser of both. Returns `None` if the card is of
    /// another kind.
    pub fn train(self, card: CardInterface) -> Option<Self> {
        match (self, card) {
            (Self::PciExpress(slot), CardInterface::PciExpress { generation, lanes }) => {
                let (generation, lanes) = (slot.generation.min(generation), slot.lanes.min(lanes));
                Some(Self::PciExpress(PciExpress { generation, lanes, ..slot }))
            }
            (Self::PciX(slot), CardInterface::PciX { clock }) => Some(Self::PciX(PciX { clock: slot.clock.min(clock), ..slot })),
            _ => None,
        }
    }

    /// Returns the card that the slot is made for.
    pub fn interface(self) -> CardInterface {
        match self {
            Self::PciExpress(slot) => CardInterface::PciExpress { generation: slot.generation, lanes: slot.lanes },
            Self::PciX(slot) => CardInterface::PciX { clock: slot.clock },
        }
    }
}

impl CardInterface {
    pub fn is_kind_of(self, slot: Slot) -> bool {
        matches!((self, slot), (Self::PciExpress { .. }, Slot::PciExpress(_)) | (Self::PciX { .. }, Slot::PciX(_)))
    }

    /// Returns the name of the card's kind.
    pub fn kind(self) -> &'static str {
        match self {
            Self::PciExpress { .. } => "PCI Express",
            Self::PciX { .. } => "PCI-X",
        }
    }
}

impl fmt::Display for CardInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PciExpress { generation, lanes } => write!(f, "PCI Express gen {generation} x{lanes}"),
            Self::PciX { clock } => write!(f, "PCI-X {} MHz", clock.mhz()),
        }
    }
}
