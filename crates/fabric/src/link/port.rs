//! A port of an HCA or switch: its egress side, and its state of the ingress side.

use super::counters::EthernetCounters;
use super::trains::NO_TRAIN;
use super::transit::Departing;
use super::tx_pending::{Ready, TxPending, take_ready};
use crate::numbering::Owner;
use crate::traffic::{Sent, Traffic};
use softband_model::link::{Arbiter, CreditLedger, FlowControl, Framing, ReceiveBuffer, Returns, Sending, serialisation};
use softband_model::switch::LifetimeCode;
use softband_sim::{SimDuration, SimTime};
use softband_types::{CreditBlocks, Lid, LinkRate, Mtu, OperationalVls, PortNumber, VirtualLane};

/// In `Port::in_train`: the port of a switch has packets of trains that its fields do not show.
pub(super) const IN_TRAIN: u8 = 1;
/// In `Port::in_train`: a train ends at this port of an HCA.
pub(super) const ENDS_TRAIN: u8 = 2;

/// In `Port::in_train`: packets of this port of an HCA are noted for a train, or join it.
pub(super) const NOTES_PACKETS: u8 = 4;

/// In `Port::in_train`: departures from this port of an HCA are planned, and its fields do not show
/// those that have happened.
pub(super) const PLANS: u8 = 8;

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

/// Other counters of a port.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) xmit_discards: u64,
    /// Time spent sending packets of congested lanes.
    pub(super) xmit_time_congested: SimDuration,
    pub(super) rcv_fecn: u64,
    pub(super) rcv_becn: u64,
    /// Time that the link idled while packets waited for credits.
    pub(super) wait: SimDuration,
    /// Wait time per lane, up to the highest lane that has waited.
    pub(super) lane_wait: Vec<SimDuration>,
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
pub(super) struct EthernetPort {
    pub(super) buffer: ReceiveBuffer,
    /// Delay between a pause frame's arrival and the stop of its priority.
    pub(super) pause_response: SimDuration,
    /// Departure time of the last pause frame; the link is busy until then.
    pub(super) pauses_until: SimTime,
    /// Frames that fit in the buffer. An InfiniBand port receives all that its peer sends, so it
    /// needs no count of its own.
    pub(super) received: Traffic,
    pub(super) counters: EthernetCounters,
}

/// Link parameters that a packet needs before it leaves by a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Onward {
    /// Delay from the arrival of a bit to its departure by this port.
    pub(super) through: SimDuration,
    /// Links with the same number have equal rate and framing, so packets take equal time on them.
    pub(super) kind: u16,
    pub(super) mtu_bytes: u16,
    pub(super) vls: OperationalVls,
}

impl Onward {
    /// The `kind` of a port without a link.
    pub(super) const NO_LINK: u16 = u16::MAX;
}

/// Fields are in the order in which a passing packet needs them. The egress port costs three cache
/// lines, the ingress port the first and the sixth.
#[repr(C, align(64))]
pub(super) struct Port {
    pub(super) node: u32,
    /// The port at the other end of its cable; an invalid index without a cable.
    pub(super) far_end: u32,
    /// The packet that left last; the link is free once it has left.
    pub(super) sending: Sending,
    /// Time of the next attempt to send. Attempts scheduled for other times do nothing.
    pub(super) due: SimTime,
    pub(super) cable_delay: SimDuration,
    /// Delay from freed buffer to flow-control packet.
    pub(super) credit_return: SimDuration,
    pub(super) owner: Owner,
    /// Framing of its packets, with or without a cable.
    pub(super) framing: Framing,
    /// Its sender is blocked for lack of credits.
    pub(super) sender_waits: bool,
    /// Freed buffers cause events, because the sender needs a message.
    pub(super) tells_sender: bool,
    /// A `QueueWatch` event is pending. HCA ports never need this event, because no packet waits
    /// for theirs.
    pub(super) watched: bool,
    /// The departure of the packet on the link needs handling: see `departing`.
    pub(super) departs: bool,
    /// A train may use the port: see [`IN_TRAIN`], [`ENDS_TRAIN`], [`NOTES_PACKETS`] and
    /// [`PLANS`].
    pub(super) in_train: u8,
    /// Lanes that wait for credits while the link idles, as bits. `stalled_since` has the start
    /// time.
    stalled_lanes: u16,
    // The second line.
    pub(super) sent: Sent,
    pub(super) flow_control: FlowControl,
    pub(super) onward: Onward,
    // The third line.
    /// Packets that will be ready to leave.
    pub(super) tx_pending: TxPending,
    /// Its first 16 bytes are on the third line.
    pub(super) arbiter: Arbiter,
    pub(super) departing: Option<Departing>,
    /// `Some` for cabled Ethernet ports.
    pub(super) ethernet: Option<Box<EthernetPort>>,
    pub(super) number: PortNumber,
    /// Maximum wait for credits at the head of a lane.
    pub(super) head_lifetime: LifetimeCode,
    /// Packets that still pass before the next is marked.
    pub(super) until_mark: u16,
    /// The kind of its link, also while no data passes: see `onward`.
    pub(super) kind_of_link: u16,
    // The sixth line.
    /// Freed receive blocks that its sender has not yet seen.
    pub(super) returns: Returns,
    // Fields that most packets do not need.
    /// The subnet manager has not let data pass.
    pub(super) is_blocked: bool,
    /// Input by which the packets of `train_out` come.
    pub(super) train_input: u8,
    /// Trains that leave by this port, and that arrive by it, by the port that they start from.
    pub(super) train_out: u32,
    pub(super) train_in: u32,
    stalled_since: SimTime,
    pub(super) cabling: Option<Cabling>,
    pub(super) tally: Tally,
    /// Multicast packets among those sent.
    sent_multicast: u64,
    /// Makes the number of cache lines odd. With a power of two, the first lines of all ports would
    /// share an eighth of the sets of each cache.
    _stride: [u64; 5],
}

impl Port {
    pub(super) fn new(node: u32, owner: Owner, framing: Framing, credit_return: SimDuration) -> Self {
        Self {
            node,
            owner,
            number: PortNumber(owner.index() + 1),
            cabling: None,
            onward: Onward { through: SimDuration::ZERO, kind: Onward::NO_LINK, mtu_bytes: 0, vls: OperationalVls::VL0 },
            credit_return,
            arbiter: Arbiter::new(1, 1),
            flow_control: FlowControl::credits(CreditLedger::new(CreditBlocks(0), CreditBlocks(0))),
            ethernet: None,
            framing,
            sending: Sending { from: SimTime::ZERO, until: SimTime::ZERO },
            returns: Returns::default(),
            sender_waits: false,
            tells_sender: framing.may_drop_on_arrival(),
            due: SimTime::MAX,
            tx_pending: TxPending::default(),
            departing: None,
            departs: false,
            watched: matches!(owner, Owner::Hca { .. }),
            head_lifetime: LifetimeCode::INFINITE,
            until_mark: 0,
            kind_of_link: Onward::NO_LINK,
            is_blocked: false,
            in_train: 0,
            train_input: 0,
            train_out: NO_TRAIN,
            train_in: NO_TRAIN,
            stalled_lanes: 0,
            stalled_since: SimTime::ZERO,
            far_end: u32::MAX,
            cable_delay: SimDuration::ZERO,
            sent: Sent::default(),
            tally: Tally::default(),
            sent_multicast: 0,
            _stride: [0; 5],
        }
    }

    /// Counts a packet that the port sends.
    #[inline]
    pub(super) fn count_sent(&mut self, bytes: u32, dlid: Lid) {
        self.sent.bytes += u64::from(bytes);
        self.sent.packets += 1;
        if dlid.is_multicast() {
            self.sent_multicast += 1;
        }
    }

    /// Returns all that the port has sent.
    pub(super) fn sent_traffic(&self) -> Traffic {
        self.sent.with(self.sent_multicast)
    }

    /// Returns the time at which the link is free.
    pub(super) fn free_at(&self) -> SimTime {
        // Framing is on a cache line that is needed anyway.
        if !self.framing.may_drop_on_arrival() {
            return self.sending.until;
        }
        self.ethernet.as_ref().map_or(self.sending.until, |ethernet| self.sending.until.max(ethernet.pauses_until))
    }

    /// Gives the port the buffer that decides over each arriving frame, and its delay between the
    /// arrival of a pause frame and the stop of its priority.
    pub(super) fn decide_over_arrivals(&mut self, arrivals: Option<(ReceiveBuffer, SimDuration)>) {
        self.ethernet = arrivals.map(|(buffer, pause_response)| {
            Box::new(EthernetPort {
                buffer,
                pause_response,
                pauses_until: SimTime::ZERO,
                received: Traffic::default(),
                counters: EthernetCounters::default(),
            })
        });
    }

    /// Returns the blocks of a lane in the buffer that decides over arriving frames.
    pub(super) fn stored(&self, lane: VirtualLane) -> CreditBlocks {
        self.ethernet.as_ref().map_or(CreditBlocks(0), |ethernet| ethernet.buffer.held(lane))
    }

    /// Returns the fill level of the port's buffer below which it resumes its sender.
    pub(super) fn resumes_at(&self) -> CreditBlocks {
        self.ethernet.as_ref().map_or(CreditBlocks(0), |ethernet| ethernet.buffer.resumes_at())
    }

    /// Returns the time for which a packet of `bytes` bytes occupies the link.
    pub(super) fn serialisation(&self, bytes: u32) -> SimDuration {
        self.cabling.map_or(SimDuration::ZERO, |cabling| cabling.serialisation(bytes))
    }

    /// Returns the pending departure action of the packet that has left.
    pub(super) fn take_departing(&mut self) -> Option<Departing> {
        self.departs = false;
        self.departing.take()
    }

    /// Adds a packet to the arbiter's queues.
    pub(super) fn enqueue(&mut self, Ready { packet, input, lane, blocks, .. }: Ready) {
        self.arbiter.enqueue(lane, usize::from(input), packet, CreditBlocks(u32::from(blocks)));
    }

    /// Adds all packets that are ready by now to the arbiter's queues.
    pub(super) fn take_ready(&mut self, now: SimTime) {
        while let Some(ready) = take_ready(&mut self.tx_pending, now) {
            self.enqueue(ready);
        }
    }

    /// Returns the time of the next attempt to send if no message of the receiver arrives first.
    /// Waiting packets and pending departures need the time at which the link is free.
    pub(super) fn next_tx(&self) -> Option<SimTime> {
        if self.departs || !self.arbiter.is_empty() {
            return Some(self.free_at());
        }
        self.tx_pending.first().map(|first| first.at.max(self.free_at()))
    }

    /// Checks whether departures of a lane can be planned: no packet of another lane waits, and none
    /// lacks credits.
    pub(super) fn can_plan(&self, lane: VirtualLane) -> bool {
        let others = self.arbiter.waiting() & !(1 << lane.0);
        others == 0 && self.arbiter.is_plain() && !self.is_stalled() && !self.is_blocked && self.ethernet.is_none()
    }

    /// Checks whether nothing waits to leave by the port of a switch, and a train may pass.
    pub(super) fn is_quiet(&self) -> bool {
        self.arbiter.is_empty() && self.arbiter.is_plain() && !self.is_stalled() && !self.is_blocked && self.ethernet.is_none()
    }

    /// Returns the counters up to `until`, including a current wait.
    pub(super) fn tally_at(&self, until: SimTime) -> Tally {
        let mut tally = self.tally.clone();
        if self.stalled_lanes != 0 {
            tally.count_wait(self.stalled_lanes, until.saturating_since(self.stalled_since));
        }
        tally
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.stalled_lanes != 0
    }

    /// Sets the lanes that wait for credits from now on; 0 when the link runs.
    pub(super) fn set_stalled(&mut self, lanes: u16, now: SimTime) {
        if self.stalled_lanes != 0 {
            self.tally.count_wait(self.stalled_lanes, now - self.stalled_since);
        }
        self.stalled_lanes = lanes;
        if lanes != 0 {
            self.stalled_since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Transit;
    use super::*;
    use std::mem::offset_of;

    /// A large fabric exceeds the cache, so a forwarded packet must touch few cache lines of a
    /// port.
    #[test]
    fn what_passes_finds_what_it_needs_on_few_lines_of_the_cache() {
        const LINE: usize = 64;
        let lines = [offset_of!(Port, node), offset_of!(Port, sent), offset_of!(Port, tx_pending), offset_of!(Port, returns)];
        assert_eq!(lines.map(|offset| (offset / LINE, offset % LINE)), [(0, 0), (1, 0), (2, 0), (5, 0)]);
        assert_eq!(offset_of!(Port, arbiter), 3 * LINE - 16);
        assert_eq!((size_of::<Option<Transit>>(), size_of::<Port>()), (LINE, 9 * LINE));
    }
}
