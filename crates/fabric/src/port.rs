//! A port of an HCA or switch: its sending end, and what it knows of its receiving end.

use crate::port_counters::EthernetCounters;
use crate::send_engine::Work;
use crate::tx_pending::{Ready, TxPending, take_ready};
use softband_model::link::{Arbiter, CreditLedger, FlowControl, Framing, ReceiveBuffer, Returns, Sending, serialisation};
use softband_model::parts::HcaPart;
use softband_model::switch::LifetimeCode;
use softband_model::transport::Throttle;
use softband_sim::{SimDuration, SimTime};
use softband_types::{CreditBlocks, Lid, LinkLayer, LinkRate, Mtu, OperationalVls, PortNumber, VirtualLane};
use std::collections::VecDeque;

/// Whose port it is; `index` counts its ports from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Hca { hca: u32, index: u8 },
    Switch { switch: u32, index: u8 },
}

impl Owner {
    pub(crate) fn index(self) -> u8 {
        let (Self::Hca { index, .. } | Self::Switch { index, .. }) = self;
        index
    }
}

/// What the departure of the packet on an HCA's link sets free: a place of the staging buffer, and the message of an unreliable
/// queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departing {
    pub lane: VirtualLane,
    pub bytes: u32,
    pub completes: Option<(u32, u32)>,
}

/// Packets of an HCA between DMA read and departure, by lane.
pub(crate) type Staging = [Staged; 15];

#[derive(Default)]
pub(crate) struct Staged {
    pub held: u32,
    pub held_bytes: u32,
    /// Work that waits for a place.
    pub parked: VecDeque<Work>,
}

impl Staged {
    /// Whether another packet may be read ahead.
    pub(crate) fn has_place(&self, part: &HcaPart) -> bool {
        self.held < part.transmit_staging_packets.max(1) && part.transmit_staging_bytes.is_none_or(|most| self.held_bytes < most)
    }
}

/// What it is cabled to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cabling {
    pub peer: u32,
    pub rate: LinkRate,
    pub framing: Framing,
    pub delay: SimDuration,
    pub vls: OperationalVls,
    pub mtu: Mtu,
}

impl Cabling {
    /// How long a packet of so many bytes occupies the link.
    pub(crate) fn serialisation(&self, bytes: u32) -> SimDuration {
        serialisation(self.rate, self.framing, bytes)
    }
}

/// What has passed in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub bytes: u64,
    pub packets: u64,
}

impl Traffic {
    pub(crate) fn count(&mut self, bytes: u32) {
        self.bytes += u64::from(bytes);
        self.packets += 1;
    }
}

/// Further counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub xmit_discards: u64,
    /// Time of sending packets of congested lanes.
    pub xmit_time_congested: SimDuration,
    pub rcv_fecn: u64,
    pub rcv_becn: u64,
    /// How long the link stood still with packets waiting and no credits.
    pub wait: SimDuration,
    /// Of lanes that have waited, and of those below them.
    pub lane_wait: Vec<SimDuration>,
}

impl Tally {
    /// These lanes, by bit, have waited for so long while the link stood still.
    fn count_wait(&mut self, lanes_waiting: u16, span: SimDuration) {
        self.wait += span;
        let lanes = 16 - lanes_waiting.leading_zeros() as usize;
        if self.lane_wait.len() < lanes {
            self.lane_wait.resize(lanes, SimDuration::ZERO);
        }
        for lane in (0..lanes).filter(|lane| lanes_waiting & 1 << lane != 0) {
            self.lane_wait[lane] += span;
        }
    }
}

/// What an Ethernet port has beside what every port has.
pub(crate) struct EthernetPort {
    pub buffer: ReceiveBuffer,
    /// From a pause frame's arrival to the stop of its priority.
    pub pause_response: SimDuration,
    /// When the last pause frame will have left: the link is taken until then.
    pub pauses_until: SimTime,
    /// Frames that there was room for; what an InfiniBand port has received is what its peer has sent.
    pub received: Traffic,
    pub counters: EthernetCounters,
}

/// What a packet that is to leave by a port needs to know of its link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Onward {
    /// From a first bit in to that bit out by this port.
    pub through: SimDuration,
    /// Links with the same number are alike in rate and framing: packets take the same time on them.
    pub kind: u16,
    pub mtu_bytes: u16,
    pub vls: OperationalVls,
}

impl Onward {
    /// In the place of a kind.
    pub(crate) const NO_LINK: u16 = u16::MAX;
}

/// In the order in which a packet that passes needs them: three lines of the cache where it leaves, the first and the sixth where it came in.
#[repr(C, align(64))]
pub(crate) struct Port {
    pub node: u32,
    /// The port at the other end of its cable; nowhere where it has none.
    pub far_end: u32,
    /// The packet that went last; the link is free when it has left.
    pub sending: Sending,
    /// When it next tries to send. Tries that were scheduled for later do nothing.
    pub due: SimTime,
    pub cable_delay: SimDuration,
    /// From freed buffer to flow-control packet.
    pub credit_return: SimDuration,
    pub owner: Owner,
    /// How it frames what it sends, cabled or not.
    pub framing: Framing,
    /// The port that sends to it stands still for want of credits.
    pub sender_waits: bool,
    /// Freed buffers are events: the port that sends to it has to learn of them.
    pub tells_sender: bool,
    /// A `QueueWatch` is under way. HCAs' ports have none: nobody waits for what they wait to send.
    pub watched: bool,
    /// The packet on the link is to be told of when it has left: `departing`.
    pub departs: bool,
    /// Lanes that wait for credits while the link stands still, by bit, and (below) since when.
    stalled_lanes: u16,
    // The second line.
    pub sent: Traffic,
    pub flow_control: FlowControl,
    pub onward: Onward,
    // The third line.
    /// What will be ready to leave.
    pub tx_pending: TxPending,
    /// With its first 16 bytes.
    pub arbiter: Arbiter,
    pub departing: Option<Departing>,
    /// Of cabled ports of Ethernet links.
    pub ethernet: Option<Box<EthernetPort>>,
    pub number: PortNumber,
    /// How long a packet may wait for credits at the head of a lane.
    pub head_lifetime: LifetimeCode,
    pub lid: Lid,
    /// Packets that still pass before one is marked.
    pub until_mark: u16,
    // The sixth line.
    /// Of what it has received: what its sender has not seen yet to be free again.
    pub returns: Returns,
    // What most packets do not need.
    stalled_since: SimTime,
    pub cabling: Option<Cabling>,
    pub tally: Tally,
    /// Of an HCA.
    pub staging: Option<Box<Staging>>,
    /// Of an HCA that slows down service levels: each of them.
    pub throttles: Vec<Throttle>,
    /// What each of them holds back, in the order in which it may go on.
    pub held_back: Vec<VecDeque<Work>>,
    /// Ports with the same number are those that routes lead to from each other.
    pub network: u32,
}

impl Port {
    pub(crate) fn new(node: u32, owner: Owner, number: PortNumber, framing: Framing, credit_return: SimDuration) -> Self {
        Self {
            node,
            owner,
            number,
            lid: Lid::NONE,
            network: 0,
            cabling: None,
            onward: Onward { through: SimDuration::ZERO, kind: Onward::NO_LINK, mtu_bytes: 0, vls: OperationalVls::VL0 },
            credit_return,
            arbiter: Arbiter::new(1, 1),
            flow_control: FlowControl::Credits(CreditLedger::new(CreditBlocks(0), CreditBlocks(0))),
            ethernet: None,
            framing,
            sending: Sending { from: SimTime::ZERO, until: SimTime::ZERO },
            returns: Returns::default(),
            sender_waits: false,
            tells_sender: framing.link_layer() == LinkLayer::Ethernet,
            due: SimTime::MAX,
            tx_pending: TxPending::default(),
            departing: None,
            departs: false,
            watched: matches!(owner, Owner::Hca { .. }),
            head_lifetime: LifetimeCode::INFINITE,
            until_mark: 0,
            throttles: Vec::new(),
            held_back: Vec::new(),
            stalled_lanes: 0,
            stalled_since: SimTime::ZERO,
            staging: matches!(owner, Owner::Hca { .. }).then(Box::default),
            far_end: u32::MAX,
            cable_delay: SimDuration::ZERO,
            sent: Traffic::default(),
            tally: Tally::default(),
        }
    }

    /// # Panics
    /// Of a switch's port.
    pub(crate) fn staged(&mut self, lane: VirtualLane) -> &mut Staged {
        &mut self.staging.as_deref_mut().expect("only HCAs stage packets")[usize::from(lane.0)]
    }

    /// When its link is free.
    pub(crate) fn free_at(&self) -> SimTime {
        match (self.framing, &self.ethernet) {
            (Framing::Ethernet { .. }, Some(ethernet)) => self.sending.until.max(ethernet.pauses_until),
            _ => self.sending.until,
        }
    }

    /// How long a packet of so many bytes occupies the link.
    pub(crate) fn serialisation(&self, bytes: u32) -> SimDuration {
        self.cabling.map_or(SimDuration::ZERO, |cabling| cabling.serialisation(bytes))
    }

    /// The departure to announce, now that the packet has left.
    pub(crate) fn take_departing(&mut self) -> Option<Departing> {
        self.departs = false;
        self.departing.take()
    }

    /// Lets a packet wait for its turn.
    pub(crate) fn enqueue(&mut self, Ready { packet, input, lane, blocks, .. }: Ready) {
        self.arbiter.enqueue(lane, usize::from(input), packet, CreditBlocks(u32::from(blocks)));
    }

    /// The same with all that is ready by now.
    pub(crate) fn take_ready(&mut self, now: SimTime) {
        while let Some(ready) = take_ready(&mut self.tx_pending, now) {
            self.enqueue(ready);
        }
    }

    /// When it has to try again, while nothing is heard of its receiver: for what waits, and for what has to be told of its departure,
    /// when the link is free.
    pub(crate) fn next_tx(&self) -> Option<SimTime> {
        if self.departs || !self.arbiter.is_empty() {
            return Some(self.free_at());
        }
        self.tx_pending.first().map(|first| first.at.max(self.free_at()))
    }

    /// The counts up to `until`, a wait at hand included.
    pub(crate) fn tally_at(&self, until: SimTime) -> Tally {
        let mut tally = self.tally.clone();
        if self.stalled_lanes != 0 {
            tally.count_wait(self.stalled_lanes, until.saturating_since(self.stalled_since));
        }
        tally
    }

    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled_lanes != 0
    }

    /// Notes which lanes wait for credits from now on; none when the link runs.
    pub(crate) fn set_stalled(&mut self, lanes: u16, now: SimTime) {
        if self.stalled_lanes != 0 {
            self.tally.count_wait(self.stalled_lanes, now - self.stalled_since);
        }
        self.stalled_lanes = lanes;
        if lanes != 0 {
            self.stalled_since = now;
        }
    }
}
