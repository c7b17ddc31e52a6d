//! Buses: the slots that a host offers an HCA, and the edge of an HCA's card.

use softband_sim::SimDuration;
use std::fmt;

/// Bus of an HCA: its slot, and the bridge between the slot and the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusPart {
    /// Name of the part in the catalogue.
    pub name: String,
    /// Slot that the card sits in.
    pub slot: Slot,
    /// Bridge between slot and host bridge, or `None` for a slot at the host bridge itself.
    pub bridge: Option<Bridge>,
}

/// Slot for a card. Once a card sits in it, it holds the values that both have trained to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// PCI Express slot, for a single card.
    PciExpress(PciExpress),
    /// PCI-X bus, for several cards.
    PciX(PciX),
}

/// Chip between a slot and the host bridge. Requests pass it one way, data the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// Delay of each passage.
    pub delay: SimDuration,
    /// Rate of payload in bytes per second, both directions together. `None`: more than its slot.
    pub bytes_per_second: Option<u64>,
}

/// PCI Express slot. Each direction has the full rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciExpress {
    /// Generation, from 1 to 6.
    pub generation: u8,
    /// Number of lanes: a value of [`PciExpress::LANES`].
    pub lanes: u8,
    /// Largest payload of a memory write in bytes: a power of two from 128 to 4096.
    pub max_payload_bytes: u32,
    /// Header of a memory write in bytes: 12 for addresses of 32 bits, or 16. Framing and check
    /// sums follow from the generation.
    pub write_header_bytes: u32,
    /// Largest payload of a read completion in bytes: a power of two from 64 to
    /// `max_payload_bytes`.
    pub completion_bytes: u32,
    /// Header of a read completion in bytes: 12.
    pub completion_header_bytes: u32,
    /// Share of the raw rate that link-layer packets take, in parts per million, up to 500,000.
    pub link_layer_ppm: u32,
}

/// PCI-X bus: both directions and all ports of its cards share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciX {
    /// Clock of the bus.
    pub clock: PciXClock,
    /// Bytes per clock: 4 or 8.
    pub width_bytes: u32,
    /// Clocks for which a split read request has the bus, from 1 to 1000: arbitration, address,
    /// attributes, response, turn-around.
    pub request_clocks: u32,
    /// Clocks for which a burst has the bus beside its data, from 1 to 1000.
    pub burst_clocks: u32,
    /// Payload of a write burst in bytes: a power of two from 128 to 4096.
    pub write_burst_bytes: u32,
}

/// Clock of a PCI-X bus, slowest first. The names are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PciXClock {
    /// 66.7 MHz: 15 ns per clock.
    Mhz66,
    /// 100 MHz: 10 ns per clock.
    Mhz100,
    /// 133.3 MHz: 7.5 ns per clock.
    Mhz133,
}

/// Edge of a card: the kind of slot that it fits, and the most that it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardInterface {
    /// PCI Express card.
    PciExpress {
        /// Latest generation of the card, from 1 to 6.
        generation: u8,
        /// Lanes of the card: a value of [`PciExpress::LANES`].
        lanes: u8,
    },
    /// PCI-X card.
    PciX {
        /// Fastest clock of the card.
        clock: PciXClock,
    },
}

impl PciExpress {
    /// All generations, 1 to 6.
    pub const GENERATIONS: std::ops::RangeInclusive<u8> = 1..=6;
    /// All numbers of lanes that a slot can have.
    pub const LANES: [u8; 6] = [1, 2, 4, 8, 12, 16];

    /// Returns the bytes per second of each direction after line coding. In generation 6, it counts
    /// only those that FLITs leave for packets.
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

    /// Returns the bytes of a packet beside header and payload: 8 for framing, sequence number and
    /// check sum. From generation 6 on it returns 0, because FLITs carry them for all packets.
    pub fn framing_bytes(&self) -> u32 {
        if self.generation < 6 { 8 } else { 0 }
    }
}

impl PciXClock {
    /// All clocks, slowest first.
    pub const ALL: [Self; 3] = [Self::Mhz66, Self::Mhz100, Self::Mhz133];

    /// Returns the clock that has this name in MHz (66, 100 or 133), or `None` for any other
    /// number.
    pub fn of_mhz(mhz: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|clock| clock.mhz() == mhz)
    }

    /// Returns the name in MHz: 66, 100 or 133.
    pub fn mhz(self) -> u32 {
        match self {
            Self::Mhz66 => 66,
            Self::Mhz100 => 100,
            Self::Mhz133 => 133,
        }
    }

    /// Returns the time of a clock.
    pub fn period(self) -> SimDuration {
        SimDuration::from_picos(match self {
            Self::Mhz66 => 15_000,
            Self::Mhz100 => 10_000,
            Self::Mhz133 => 7_500,
        })
    }
}

impl Slot {
    /// Returns the slot with a card in it: the lesser of both in each respect. Returns `None` if
    /// the card is of another kind.
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

    /// Returns a card that makes full use of the slot.
    pub fn interface(self) -> CardInterface {
        match self {
            Self::PciExpress(slot) => CardInterface::PciExpress { generation: slot.generation, lanes: slot.lanes },
            Self::PciX(slot) => CardInterface::PciX { clock: slot.clock },
        }
    }
}

impl CardInterface {
    /// Checks whether the card fits the slot: both are PCI Express, or both are PCI-X.
    pub fn is_kind_of(self, slot: Slot) -> bool {
        matches!((self, slot), (Self::PciExpress { .. }, Slot::PciExpress(_)) | (Self::PciX { .. }, Slot::PciX(_)))
    }

    /// Returns the name of the card's kind for messages: `PCI Express` or `PCI-X`.
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
