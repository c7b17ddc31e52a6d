//! A port of an HCA or switch: its egress side, and its state of the ingress side.

use crate::hca::send_engine::Work;
use crate::link::counters::EthernetCounters;
use crate::link::tx_pending::{Ready, TxPending, take_ready};
use softband_model::link::{Arbiter, CreditLedger, FlowControl, Framing, ReceiveBuffer, Returns, Sending, serialisation};
use softband_model::parts::HcaPart;
use softband_model::switch::LifetimeCode;
use softband_model::transport::Throttle;
use softband_sim::{SimDuration, SimTime};
use softband_types::{CreditBlocks, Lid, LinkLayer, LinkRate, Mtu, OperationalVls, PortNumber, VirtualLane};
use std::collections::VecDeque;

/// The node that owns a port; `index` counts the node's ports from 0.
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

/// Resources that the departing packet on an HCA's link frees: a place in the staging buffer, and
/// the message of an unreliable queue pair.
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
    /// Checks whether the HCA may read another packet ahead.
    pub(crate) fn has_place(&self, part: &HcaPart) -> bool {
        self.held < part.transmit_staging_packets.max(1) && part.transmit_staging_bytes.is_none_or(|most| self.held_bytes < most)
    }
}

/// The cable and the link parameters of a port.
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
    /// Returns the time for which a packet of `bytes` bytes occupies the link.
    pub(crate) fn serialisation(&self, bytes: u32) -> SimDuration {
        serialisation(self.rate, self.framing, bytes)
    }
}

/// Traffic in one direction.
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

/// Other counters of a port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub xmit_discards: u64,
    /// Time spent sending packets of congested lanes.
    pub xmit_time_congested: SimDuration,
    pub rcv_fecn: u64,
    pub rcv_becn: u64,
    /// Time that the link idled while packets waited for credits.
    pub wait: SimDuration,
    /// Wait time per lane, up to the highest lane that has waited.
    pub lane_wait: Vec<SimDuration>,
}

impl Tally {
    /// Adds a wait of length `span` to the total, and to each lane in the bit mask.
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

/// The Ethernet-specific state of a port.
pub(crate) struct EthernetPort {
    pub buffer: ReceiveBuffer,
    /// Delay between a pause frame's arrival and the stop of its priority.
    pub pause_response: SimDuration,
    /// Departure time of the last pause frame; the link is busy until then.
    pub pauses_until: SimTime,
    /// Frames that fit in the buffer. An InfiniBand port receives all that its peer sends, so it
    /// needs no count of its own.
    pub received: Traffic,
    pub counters: EthernetCounters,
}

/// Link parameters that a packet needs before it leaves by a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Onward {
    /// Delay from the arrival of a bit to its departure by this port.
    pub through: SimDuration,
    /// Links with the same number have equal rate and framing, so packets take equal time on them.
    pub kind: u16,
    pub mtu_bytes: u16,
    pub vls: OperationalVls,
}

impl Onward {
    /// The `kind` of a port without a link.
    pub(crate) const NO_LINK: u16 = u16::MAX;
}

/// Fields are in the order in which a passing packet needs them. The egress port costs three cache
/// lines, the ingress port the first and the sixth.
#[repr(C, align(64))]
pub(crate) struct Port {
    pub node: u32,
    /// The port at the other end of its cable; an invalid index without a cable.
    pub far_end: u32,
    /// The packet that left last; the link is free once it has left.
    pub sending: Sending,
    /// Time of the next attempt to send. Attempts scheduled for other times do nothing.
    pub due: SimTime,
    pub cable_delay: SimDuration,
    /// Delay from freed buffer to flow-control packet.
    pub credit_return: SimDuration,
    pub owner: Owner,
    /// Framing of its packets, with or without a cable.
    pub framing: Framing,
    /// Its sender is blocked for lack of credits.
    pub sender_waits: bool,
    /// Freed buffers cause events, because the sender needs a message.
    pub tells_sender: bool,
    /// A `QueueWatch` event is pending. HCA ports never need this event, because no packet waits
    /// for theirs.
    pub watched: bool,
    /// The departure of the packet on the link needs handling: see `departing`.
    pub departs: bool,
    /// Lanes that wait for credits while the link idles, as bits. `stalled_since` has the start
    /// time.
    stalled_lanes: u16,
    // The second line.
    pub sent: Traffic,
    pub flow_control: FlowControl,
    pub onward: Onward,
    // The third line.
    /// Packets that will be ready to leave.
    pub tx_pending: TxPending,
    /// Its first 16 bytes are on the third line.
    pub arbiter: Arbiter,
    pub departing: Option<Departing>,
    /// `Some` for cabled Ethernet ports.
    pub ethernet: Option<Box<EthernetPort>>,
    pub number: PortNumber,
    /// Maximum wait for credits at the head of a lane.
    pub head_lifetime: LifetimeCode,
    pub lid: Lid,
    /// Packets that still pass before the next is marked.
    pub until_mark: u16,
    // The sixth line.
    /// Freed receive blocks that its sender has not yet seen.
    pub returns: Returns,
    // Fields that most packets do not need.
    stalled_since: SimTime,
    pub cabling: Option<Cabling>,
    pub tally: Tally,
    /// `Some` for an HCA's port.
    pub staging: Option<Box<Staging>>,
    /// Throttles per service level, for an HCA that throttles service levels.
    pub throttles: Vec<Throttle>,
    /// Work held back per service level, in the order in which it may continue.
    pub held_back: Vec<VecDeque<Work>>,
    /// Network number. Routes connect the ports with the same number.
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
    /// Panics for a switch's port.
    pub(crate) fn staged(&mut self, lane: VirtualLane) -> &mut Staged {
        &mut self.staging.as_deref_mut().expect("only HCAs stage packets")[usize::from(lane.0)]
    }

    /// Returns the time at which the link is free.
    pub(crate) fn free_at(&self) -> SimTime {
        match (self.framing, &self.ethernet) {
            (Framing::Ethernet { .. }, Some(ethernet)) => self.sending.until.max(ethernet.pauses_until),
            _ => self.sending.until,
        }
    }

    /// Returns the time for which a packet of `bytes` bytes occupies the link.
    pub(crate) fn serialisation(&self, bytes: u32) -> SimDuration {
        self.cabling.map_or(SimDuration::ZERO, |cabling| cabling.serialisation(bytes))
    }

    /// Returns the pending departure action of the packet that has left.
    pub(crate) fn take_departing(&mut self) -> Option<Departing> {
        self.departs = false;
        self.departing.take()
    }

    /// Adds a packet to the arbiter's queues.
    pub(crate) fn enqueue(&mut self, Ready { packet, input, lane, blocks, .. }: Ready) {
        self.arbiter.enqueue(lane, usize::from(input), packet, CreditBlocks(u32::from(blocks)));
    }

    /// Adds all packets that are ready by now to the arbiter's queues.
    pub(crate) fn take_ready(&mut self, now: SimTime) {
        while let Some(ready) = take_ready(&mut self.tx_pending, now) {
            self.enqueue(ready);
        }
    }

    /// Returns the time of the next attempt to send if no message of the receiver arrives first.
    /// Waiting packets and pending departures need the time at which the link is free.
    pub(crate) fn next_tx(&self) -> Option<SimTime> {
        if self.departs || !self.arbiter.is_empty() {
            return Some(self.free_at());
        }
        self.tx_pending.first().map(|first| first.at.max(self.free_at()))
    }

    /// Returns the counters up to `until`, including a current wait.
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

    /// Sets the lanes that wait for credits from now on; 0 when the link runs.
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
