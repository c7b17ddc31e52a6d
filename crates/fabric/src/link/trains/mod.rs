//! Trains: packets of one HCA's port to one LID that pass all switches on their way without events.
//!
//! A train forms when packets follow one another through ports that nobody else wants. Then each
//! packet passes each port at a fixed time after it left the HCA: see [`Path`]. The HCAs at both
//! ends handle each packet, or plan the packets in the middle of a message (`plan`). A rival,
//! missing credits, an observer of a link or a change of the fabric ends the train (`dissolve`): its
//! packets become plain packets where they are then.
//!
//! Results are those of plain packets, to the picosecond.
//!
//! # Why a train is exact
//!
//! - All links of the way have one rate, so packets that left the HCA one after the other never meet
//!   again.
//! - A rival enters a port's queue a cable delay before it is ready. The train ends at that moment.
//! - A packet joins only if all links on its way will have credits for it. The check assumes that
//!   each flow-control packet waits for a packet of the largest size.
//! - Other packets of the same HCA may follow the train for a while. They are in its gaps, and their
//!   credits count as lost for the train.

mod arrival;
mod dissolve;
mod form;
mod plan;
mod refresh;
mod ride;

pub(crate) use arrival::{Arrived, LightPacket, Silent, Stay};
pub(crate) use plan::{Light, Load, Staged};

use softband_model::packet::Packet;
use softband_sim::{SimDuration, SimTime};
use softband_types::{CreditBlocks, Lid, Psn, ServiceLevel, VirtualLane};
use std::collections::{BTreeSet, VecDeque};

/// A port's `train_in` and `train_out` without a train.
pub(super) const NO_TRAIN: u32 = u32::MAX;

/// The trains of a World, by the port of the HCA that they start from.
pub(super) struct Trains {
    is_on: bool,
    /// For tests: trains form as soon as they can.
    is_eager: bool,
    sources: Vec<Source>,
    /// Ports with a train.
    active: BTreeSet<u32>,
    /// Passages of packets through switches without an event.
    passages: u64,
    /// Arrivals of packets at HCAs without an event.
    silent: u64,
    /// Partitions: time up to which all events have run, when parcels come in.
    heard: SimTime,
    /// Trains with planned departures that must end, by the port that they start from.
    ending: Vec<u32>,
}

/// The `packet` of a light packet: it exists in `launches` only.
const LIGHT: u32 = u32::MAX;

/// Packets, bytes and credit blocks from the beginning up to a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    blocks: u64,
}

/// A port of an HCA, with the packets that it sent last.
struct Source {
    /// The receiver, lane and service level of most packets of late.
    dlid: Lid,
    lane: VirtualLane,
    level: ServiceLevel,
    /// Samples of this receiver in a row, and samples until the next notes.
    samples: u32,
    pause: u32,
    /// The pause after the next failure.
    patience: u32,
    /// Packets since the notes began, and packets to other receivers among them.
    noted: u32,
    strangers: u32,
    /// Trains so far; the number wraps round.
    trains: u16,
    /// Attempts since then that met traffic of others.
    failures: u32,
    sums: Sums,
    /// Packets of one size among the last, at least.
    alike: u32,
    launches: VecDeque<Launch>,
    path: Option<Box<Path>>,
    /// Sums of the packets that the port shows, while departures are planned.
    shown: Sums,
    /// Light packets among `launches` are as this packet, except for their PSN.
    template: Option<Box<Template>>,
}

/// A packet in the middle of a message, for all light packets of a port.
struct Template {
    light: Light,
    /// Time for which a packet occupies the link.
    time: SimDuration,
    blocks: CreditBlocks,
    packet: Packet,
}

/// A packet that has left the HCA.
#[derive(Clone, Copy)]
struct Launch {
    /// Time of its first bit.
    at: SimTime,
    /// Time for which it occupies each link.
    time: SimDuration,
    /// Number of the packet, or [`LIGHT`] with the PSN in `psn`.
    packet: u32,
    psn: Psn,
    bytes: u32,
    blocks: u32,
    has_payload: bool,
    /// Its arrival is no event.
    is_silent: bool,
    /// The train carries it. Others are ahead of the train, as plain packets.
    carried: bool,
    /// Latest time at which its credits, and those of all packets before it, are back at the last
    /// switch. `None` before its arrival.
    returned: Option<SimTime>,
    /// Sums with this packet.
    sums: Sums,
}

/// The way of a train.
struct Path {
    hops: Vec<Waypoint>,
    /// The port of the receiving HCA, and the time from departure to the first bit there.
    target: u32,
    to_target: SimDuration,
    /// Time from departure to that from the last switch.
    to_last: SimDuration,
    mtu_bytes: u16,
    /// Blocks of the receive buffer of the first link, and the longest time for which a packet holds
    /// its share.
    first: (u32, SimDuration),
    /// As `first`, for the smallest receive buffer on links between switches.
    between: (u32, SimDuration),
    /// Blocks of the receive buffer of the last link, and the time from the end of a packet's stay
    /// to its credits at the last switch.
    last: (u32, SimDuration),
    /// Latest time at which credits of a packet that has arrived are back at the last switch.
    returned: SimTime,
    /// Blocks of other packets of this HCA since the train formed.
    lost: u32,
    /// Time after which a packet leaves no trace on any link.
    window: SimDuration,
    /// Number of the first packet that has not arrived.
    next_arrival: u64,
    /// While arrivals are silent: the time for which writes may wait at the receiving HCA, without
    /// packets of the train, so that no packet lacks credits.
    allowance: SimDuration,
    /// Numbers of the last packets whose credits a new packet needs: between switches, on the last
    /// link, and for planned departures on the first.
    gates: [u64; 3],
    /// Number of the train among those of its port; it wraps round.
    number: u16,
    formed: u64,
}

/// A switch on the way of a train.
struct Waypoint {
    input: u32,
    output: u32,
    /// Time from the departure from the HCA to that from this switch.
    offset: SimDuration,
    through: SimDuration,
    lane_in: VirtualLane,
    lane_out: VirtualLane,
    /// Time from the last bit's way through the switch to the flow-control packet.
    hold: SimDuration,
    /// Time of the largest packet on the link back, and the delay of its cable.
    back: (SimDuration, SimDuration),
    /// Packets whose departure the output port shows, and whose freed blocks the input port shows.
    passed: Sums,
    noted: Sums,
}

impl Trains {
    pub(super) fn new() -> Self {
        Self {
            is_on: true,
            is_eager: false,
            sources: Vec::new(),
            active: BTreeSet::new(),
            passages: 0,
            silent: 0,
            heard: SimTime::ZERO,
            ending: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Lets trains form from now on, or no more. Existing trains stay.
    pub(super) fn set_on(&mut self, is_on: bool) {
        self.is_on = is_on;
    }

    pub(super) fn be_eager(&mut self) {
        self.is_eager = true;
    }

    /// Notes that all events up to `time` have run.
    pub(super) fn note_heard(&mut self, time: SimTime) {
        self.heard = self.heard.max(time);
    }

    /// Returns the number of passages of packets through switches without an event.
    pub(super) fn passages(&self) -> u64 {
        self.passages
    }

    /// Returns the number of arrivals of packets at HCAs without an event.
    pub(super) fn silent_arrivals(&self) -> u64 {
        self.silent
    }

    #[inline]
    fn path(&self, source: u32) -> Option<&Path> {
        self.sources.get(source as usize)?.path.as_deref()
    }
}

impl Source {
    fn new() -> Self {
        Self {
            dlid: Lid::NONE,
            lane: VirtualLane(0),
            level: ServiceLevel(0),
            samples: 0,
            pause: 0,
            patience: ride::PATIENCE_LEAST,
            noted: 0,
            strangers: 0,
            failures: 0,
            trains: 0,
            sums: Sums::default(),
            alike: 0,
            launches: VecDeque::new(),
            path: None,
            shown: Sums::default(),
            template: None,
        }
    }

    /// Returns the sums before the first packet of `launches`.
    fn sums_before(&self) -> Sums {
        self.launches.front().map_or(self.sums, Launch::sums_before)
    }
}

impl Launch {
    fn sums_before(&self) -> Sums {
        let Sums { packets, bytes, blocks } = self.sums;
        Sums { packets: packets - 1, bytes: bytes - u64::from(self.bytes), blocks: blocks - u64::from(self.blocks) }
    }

    /// Returns the time at which the receiving HCA handles the packet: the arrival of its first bit,
    /// or of its last bit without payload.
    fn arrives(&self, to_target: SimDuration) -> SimTime {
        let head = self.at + to_target;
        if self.has_payload { head } else { head + self.time }
    }
}

impl Waypoint {
    /// Returns the time at which a packet leaves the switch.
    fn departs(&self, launch: &Launch) -> SimTime {
        launch.at + self.offset
    }

    /// Returns the time at which the flow-control packet for a packet's blocks is due.
    fn frees(&self, launch: &Launch) -> SimTime {
        self.departs(launch) + beyond(launch.time, self.through) + self.hold
    }
}

/// Returns the part of `time` beyond `other`.
fn beyond(time: SimDuration, other: SimDuration) -> SimDuration {
    SimDuration::from_picos(time.as_picos().saturating_sub(other.as_picos()))
}
