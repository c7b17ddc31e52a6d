//! The arbiter of a sending port. Virtual lanes take turns or send by weight; on each lane, its
//! inputs take turns.

mod weighted;

use super::FlowControl;
use super::inputs::Inputs;
use super::weights::Turns;
use softband_sim::SimTime;
use softband_types::{CreditBlocks, VirtualLane};

/// Packets that wait at a sending port, by lane and by input. An HCA has one input, a switch one
/// for each of its ports.
///
/// A packet that passes needs only the first 16 bytes.
#[repr(C)]
pub struct Arbiter {
    /// Lanes on which packets wait, by bit.
    waiting: u16,
    /// Lanes whose next packet lacked credits at its turn, by bit.
    starved: u16,
    inputs: u8,
    lanes: u8,
    lane_next: u8,
    /// Whether there are `turns` or a `congestion`, which count every packet.
    counts_packets: bool,
    /// First lane, which most traffic takes, in place. The others stand elsewhere.
    first: Lane,
    others: Box<[Lane]>,
    /// Rule by which lanes count as congested, if any.
    congestion: Option<Box<Congestion>>,
    /// Turns by the port's arbitration tables, if it has them.
    turns: Option<Box<Turns>>,
}

/// Rule by which a lane counts as congested.
#[derive(Clone, Copy, Debug)]
struct Congestion {
    /// Congestion begins when more blocks than this wait on the lane behind the packet that goes.
    above: u32,
    /// Congestion ends when no more blocks than this wait.
    until: u32,
    /// Whether a packet that had to wait for credits counts too. It may only suffer from congestion
    /// further on.
    of_victims: bool,
    /// Congested lanes, by bit.
    lanes: u16,
}

impl Congestion {
    /// Checks whether the lane that a packet leaves is congested, by the blocks that wait behind
    /// the packet.
    fn is_congested(&mut self, bit: u16, blocks: u32, was_starved: bool) -> bool {
        let is_victim = was_starved && !self.of_victims;
        if blocks > self.above && !is_victim {
            self.lanes |= bit;
        } else if blocks <= self.until {
            self.lanes &= !bit;
        }
        self.lanes & bit != 0 && !is_victim
    }
}

#[repr(C)]
struct Lane {
    input_next: u8,
    blocks: u32,
    inputs: Inputs,
    /// Time since which the lane is starved, while it is.
    starved_since: SimTime,
}

/// Packet that waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Number of the packet, of the caller's choice.
    pub packet: u32,
    /// Credits that the packet needs.
    pub blocks: CreditBlocks,
}

/// Decision of the arbiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A packet may go.
    Send {
        /// Number of the packet.
        packet: u32,
        /// Virtual lane of the packet.
        lane: VirtualLane,
        /// Whether the lane counts as congested, so a switch may mark the packet.
        congested: bool,
    },
    /// Packets wait, but none has its credits.
    Stalled {
        /// Lanes on which packets wait, by bit.
        lanes: u16,
    },
    /// No packet waits.
    Idle,
}

impl Arbiter {
    /// Creates the arbiter of a port with `lanes` data lanes (1 to 15) and `inputs` inputs (1 to
    /// 255).
    ///
    /// # Panics
    /// If there are more than 255 inputs.
    pub fn new(lanes: u8, inputs: usize) -> Self {
        let lane = || Lane { inputs: Inputs::default(), input_next: 0, blocks: 0, starved_since: SimTime::ZERO };
        Self {
            first: lane(),
            others: (1..lanes).map(|_| lane()).collect(),
            inputs: u8::try_from(inputs).expect("ports have 8-bit numbers"),
            lanes,
            waiting: 0,
            starved: 0,
            lane_next: 0,
            counts_packets: false,
            turns: None,
            congestion: None,
        }
    }

    fn lane(&self, number: u8) -> &Lane {
        if number == 0 { &self.first } else { &self.others[usize::from(number) - 1] }
    }

    fn lane_mut(&mut self, number: u8) -> &mut Lane {
        if number == 0 { &mut self.first } else { &mut self.others[usize::from(number) - 1] }
    }

    /// Enables the detection of congestion. A lane is congested when more than `above` waits, until
    /// its queue falls to `hysteresis` below `above`. With `of_victims`, lanes that lack credits
    /// count too.
    pub fn detect_congestion(&mut self, above: CreditBlocks, hysteresis: CreditBlocks, of_victims: bool) {
        let until = above.0.saturating_sub(hysteresis.0);
        self.congestion = Some(Box::new(Congestion { above: above.0, until, of_victims, lanes: 0 }));
        self.counts_packets = true;
    }

    /// Adds a packet behind those of the same lane and input. `packet` is a number of the caller's
    /// choice.
    pub fn enqueue(&mut self, lane: VirtualLane, input: usize, packet: u32, blocks: CreditBlocks) {
        let inputs = usize::from(self.inputs);
        let queue = self.lane_mut(lane.0);
        queue.inputs.push(inputs, input, Waiting { packet, blocks });
        queue.blocks += blocks.0;
        self.waiting |= 1 << lane.0;
    }

    /// Returns the packets that wait on a lane, from one input, in their order.
    pub fn waiting_from(&self, lane: VirtualLane, input: usize) -> impl Iterator<Item = Waiting> {
        self.lane(lane.0).inputs.of(input)
    }

    /// Takes out the first packet of a lane from one input.
    pub fn take_from(&mut self, lane: VirtualLane, input: usize) -> Option<Waiting> {
        let queue = self.lane_mut(lane.0);
        let waiting = queue.inputs.pop(input)?;
        queue.blocks -= waiting.blocks.0;
        if queue.inputs.is_empty() {
            self.waiting &= !(1 << lane.0);
        }
        Some(waiting)
    }

    /// Returns the lanes on which packets wait, by bit.
    pub fn waiting(&self) -> u16 {
        self.waiting
    }

    /// Checks whether the port counts no packets: it has neither weights nor a limit of congestion.
    pub fn is_plain(&self) -> bool {
        !self.counts_packets
    }

    /// Checks whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Lets a packet go at once if no packet waits and flow control permits it. The state changes
    /// as if the packet had been enqueued and chosen. Returns `false` otherwise, and always on a
    /// port with weights: the caller enqueues the packet then.
    #[inline]
    pub fn passes(&mut self, lane: VirtualLane, input: usize, blocks: CreditBlocks, flow_control: &mut FlowControl) -> bool {
        if self.waiting != 0 || !flow_control.permits(lane, blocks) || self.counts_packets && !self.count_passing(lane) {
            return false;
        }
        flow_control.consume(lane, blocks);
        self.lane_mut(lane.0).input_next = next_of(input as u8, self.inputs);
        self.lane_next = next_of(lane.0, self.lanes);
        true
    }

    /// Notes that a packet has passed without the arbiter, on a port that counts no packets.
    pub fn note_passage(&mut self, lane: VirtualLane, input: usize) {
        self.lane_mut(lane.0).input_next = next_of(input as u8, self.inputs);
        self.lane_next = next_of(lane.0, self.lanes);
    }

    /// Checks whether a packet may pass by the rules of this port, and updates its lane's
    /// congestion. Nothing waits behind the packet.
    #[cold]
    fn count_passing(&mut self, lane: VirtualLane) -> bool {
        if let Some(congestion) = &mut self.congestion {
            congestion.is_congested(1 << lane.0, 0, false);
        }
        self.turns.is_none()
    }

    /// Takes out the next packet that flow control permits.
    ///
    /// On a lane, one input's oldest packet has the turn. If it lacks credits, the lane waits:
    /// otherwise small packets of other inputs could delay a large packet forever.
    pub fn choose(&mut self, flow_control: &mut FlowControl, now: SimTime) -> Choice {
        if self.waiting == 0 {
            return Choice::Idle;
        }
        if self.turns.is_some() {
            return self.choose_by_weight(flow_control, now);
        }
        if self.waiting.is_power_of_two() {
            let choice = self.choose_of(self.waiting.trailing_zeros() as u8, flow_control, now);
            return choice.unwrap_or(Choice::Stalled { lanes: self.waiting });
        }
        // Lanes from `lane_next` on, then the lanes below it.
        let (from_next, mut below) = (self.waiting & (u16::MAX << self.lane_next), self.waiting & !(u16::MAX << self.lane_next));
        let mut left = if from_next != 0 { from_next } else { std::mem::take(&mut below) };
        while left != 0 {
            let number = left.trailing_zeros() as u8;
            if let Some(choice) = self.choose_of(number, flow_control, now) {
                return choice;
            }
            left &= left - 1;
            if left == 0 {
                left = std::mem::take(&mut below);
            }
        }
        Choice::Stalled { lanes: self.waiting }
    }

    /// Takes out a lane's next packet, if it has its credits.
    #[inline]
    fn choose_of(&mut self, number: u8, flow_control: &mut FlowControl, now: SimTime) -> Option<Choice> {
        let (bit, inputs) = (1 << number, self.inputs);
        let is_starved = self.starved & bit != 0;
        let lane = self.lane_mut(number);
        let Some(packet) = lane.take(inputs, VirtualLane(number), flow_control) else {
            self.starve(number, now);
            return None;
        };
        let (is_empty, blocks) = (lane.inputs.is_empty(), lane.blocks);
        if is_empty {
            self.waiting &= !bit;
        }
        self.starved &= !bit;
        self.lane_next = next_of(number, self.lanes);
        let congested = self.congestion.as_mut().is_some_and(|congestion| congestion.is_congested(bit, blocks, is_starved));
        Some(Choice::Send { packet, lane: VirtualLane(number), congested })
    }

    fn starve(&mut self, number: u8, now: SimTime) {
        if self.starved & 1 << number == 0 {
            self.lane_mut(number).starved_since = now;
            self.starved |= 1 << number;
        }
    }

    /// Checks whether the next packet of a lane lacked credits.
    pub fn is_lane_starved(&self, lane: VirtualLane) -> bool {
        self.starved & 1 << lane.0 != 0
    }

    /// Returns the lanes whose next packet lacked credits, by bit.
    pub fn starved(&self) -> u16 {
        self.starved
    }

    /// Checks whether the next packet of any lane lacked credits.
    pub fn is_starved(&self) -> bool {
        self.starved != 0
    }

    /// Returns the lanes whose next packet lacks credits, each with the time since which it does.
    pub fn starved_lanes(&self) -> impl Iterator<Item = (VirtualLane, SimTime)> {
        let starved = |number: &u8| self.starved & 1 << number != 0;
        (0..self.lanes).filter(starved).map(|number| (VirtualLane(number), self.lane(number).starved_since))
    }

    /// Returns the packet of a lane that has the turn.
    pub fn head(&self, lane: VirtualLane) -> Option<Waiting> {
        let lane = self.lane(lane.0);
        lane.turn().and_then(|input| lane.inputs.front(input))
    }

    /// Returns all packets of a lane.
    pub fn queued(&self, lane: VirtualLane) -> impl Iterator<Item = Waiting> {
        self.lane(lane.0).inputs.iter()
    }

    /// Takes out the packet of a lane that has the turn, without credits: the packet goes nowhere.
    pub fn discard_head(&mut self, lane: VirtualLane) -> Option<Waiting> {
        let inputs = self.inputs;
        let queue = self.lane_mut(lane.0);
        let input = queue.turn()?;
        let packet = queue.pop(inputs, input);
        if queue.inputs.is_empty() {
            self.waiting &= !(1 << lane.0);
        }
        self.starved &= !(1 << lane.0);
        packet
    }
}

impl Lane {
    fn take(&mut self, inputs: u8, lane: VirtualLane, flow_control: &mut FlowControl) -> Option<u32> {
        let turn = self.turn()?;
        let first = self.inputs.front(turn)?;
        // The turn stays with this input until its packet has gone.
        self.input_next = turn as u8;
        if !flow_control.permits(lane, first.blocks) {
            return None;
        }
        flow_control.consume(lane, first.blocks);
        self.pop(inputs, turn).map(|first| first.packet)
    }

    /// Returns the input whose oldest packet goes next.
    fn turn(&self) -> Option<usize> {
        self.inputs.next_from(usize::from(self.input_next))
    }

    fn pop(&mut self, inputs: u8, input: usize) -> Option<Waiting> {
        let first = self.inputs.pop(input)?;
        self.input_next = next_of(input as u8, inputs);
        self.blocks -= first.blocks.0;
        Some(first)
    }
}

/// Returns the number after `number` in a circle of `count`.
fn next_of(number: u8, count: u8) -> u8 {
    let next = number.wrapping_add(1);
    if next < count { next } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::super::CreditLedger;
    use super::*;

    const NOW: SimTime = SimTime::from_picos(7);

    /// Returns the credits of each lane; lane 0 has spent `spent`.
    fn credits(per_lane: u32, spent: u32) -> FlowControl {
        let mut ledger = CreditLedger::new(CreditBlocks(per_lane), CreditBlocks(per_lane));
        if spent > 0 {
            ledger.consume(VirtualLane(0), CreditBlocks(spent));
        }
        FlowControl::Credits(ledger)
    }

    #[test]
    fn lanes_take_turns_and_so_do_the_inputs_of_a_lane() {
        let mut arbiter = Arbiter::new(2, 2);
        let mut credits = credits(100, 0);
        for (packet, (lane, input)) in [(0, 0), (0, 0), (0, 1), (1, 0), (1, 0)].into_iter().enumerate() {
            arbiter.enqueue(VirtualLane(lane), input, packet as u32, CreditBlocks(1));
        }
        let order: Vec<_> = std::iter::from_fn(|| match arbiter.choose(&mut credits, NOW) {
            Choice::Send { packet, .. } => Some(packet),
            _ => None,
        })
        .collect();
        assert_eq!(order, [0, 3, 2, 4, 1]);
        assert_eq!(arbiter.choose(&mut credits, NOW), Choice::Idle);
    }

    #[test]
    fn a_packet_that_passes_leaves_the_turns_as_if_it_had_waited() {
        let run = |passes: bool| {
            let mut arbiter = Arbiter::new(2, 3);
            let mut credits = credits(100, 0);
            if passes {
                assert!(arbiter.passes(VirtualLane(0), 1, CreditBlocks(1), &mut credits));
            } else {
                arbiter.enqueue(VirtualLane(0), 1, 9, CreditBlocks(1));
                assert!(matches!(arbiter.choose(&mut credits, NOW), Choice::Send { packet: 9, .. }));
            }
            for (packet, (lane, input)) in [(0, 0), (0, 1), (0, 2), (1, 0)].into_iter().enumerate() {
                arbiter.enqueue(VirtualLane(lane), input, packet as u32, CreditBlocks(1));
            }
            assert!(!arbiter.passes(VirtualLane(0), 1, CreditBlocks(1), &mut credits), "others wait");
            let order: Vec<Choice> = (0..4).map(|_| arbiter.choose(&mut credits, NOW)).collect();
            order
        };
        assert_eq!(run(true), run(false));
        let mut arbiter = Arbiter::new(1, 1);
        assert!(!arbiter.passes(VirtualLane(0), 0, CreditBlocks(2), &mut credits(2, 1)), "it lacks credits");
    }

    #[test]
    fn a_lane_without_credits_does_not_hold_up_the_others() {
        let mut arbiter = Arbiter::new(2, 1);
        let mut credits = credits(2, 1);
        arbiter.enqueue(VirtualLane(0), 0, 7, CreditBlocks(2));
        arbiter.enqueue(VirtualLane(1), 0, 8, CreditBlocks(2));
        assert_eq!(arbiter.choose(&mut credits, NOW), Choice::Send { packet: 8, lane: VirtualLane(1), congested: false });
        assert_eq!(arbiter.choose(&mut credits, NOW), Choice::Stalled { lanes: 1 });
    }

    #[test]
    fn a_starved_lane_knows_since_when_until_its_packet_goes_or_is_discarded() {
        let mut arbiter = Arbiter::new(1, 2);
        let mut credits = credits(2, 1);
        arbiter.enqueue(VirtualLane(0), 0, 7, CreditBlocks(2));
        arbiter.enqueue(VirtualLane(0), 1, 8, CreditBlocks(1));
        assert!(!arbiter.is_starved());
        arbiter.choose(&mut credits, NOW);
        arbiter.choose(&mut credits, SimTime::from_picos(9));
        assert_eq!(arbiter.starved_lanes().collect::<Vec<_>>(), [(VirtualLane(0), NOW)]);
        assert_eq!(arbiter.head(VirtualLane(0)).map(|first| first.packet), Some(7));
        assert_eq!(arbiter.discard_head(VirtualLane(0)).map(|first| first.packet), Some(7));
        assert!(!arbiter.is_starved());
        assert_eq!(arbiter.choose(&mut credits, NOW), Choice::Send { packet: 8, lane: VirtualLane(0), congested: false });
    }

    /// Returns whether packets are marked, in the order in which they leave. A greedy input always
    /// has another packet; the other input has a single one.
    fn marks_with_a_greedy_input(hysteresis: u32) -> Vec<bool> {
        let mut arbiter = Arbiter::new(1, 2);
        arbiter.detect_congestion(CreditBlocks(33), CreditBlocks(hysteresis), false);
        let mut credits = credits(1_000, 0);
        for input in [1, 0, 0] {
            arbiter.enqueue(VirtualLane(0), input, 0, CreditBlocks(33));
        }
        let greedy_first = arbiter.choose(&mut credits, NOW);
        assert!(matches!(greedy_first, Choice::Send { congested: true, .. }), "two wait behind it: {greedy_first:?}");
        arbiter.enqueue(VirtualLane(0), 0, 0, CreditBlocks(33));
        let leave = |_| {
            let Choice::Send { congested, .. } = arbiter.choose(&mut credits, NOW) else { panic!("it has its credits") };
            congested
        };
        (0..3).map(leave).collect()
    }

    #[test]
    fn with_hysteresis_a_greedy_input_gets_its_marks_until_its_queue_has_gone() {
        assert_eq!(marks_with_a_greedy_input(0), [true, false, false], "the other one alone is marked");
        assert_eq!(marks_with_a_greedy_input(36), [true, true, false]);
    }

    #[test]
    fn a_packet_that_passes_ends_congestion_as_it_would_in_a_queue() {
        let mut arbiter = Arbiter::new(1, 1);
        arbiter.detect_congestion(CreditBlocks(40), CreditBlocks(20), false);
        let mut credits = credits(1_000, 0);
        let mut next = |arbiter: &mut Arbiter, waiting: &[u32]| {
            waiting.iter().for_each(|blocks| arbiter.enqueue(VirtualLane(0), 0, 0, CreditBlocks(*blocks)));
            let Choice::Send { congested, .. } = arbiter.choose(&mut credits, NOW) else { panic!("it has its credits") };
            congested
        };
        assert!(next(&mut arbiter, &[1, 41]));
        arbiter.discard_head(VirtualLane(0));
        assert!(arbiter.passes(VirtualLane(0), 0, CreditBlocks(1), &mut self::credits(10, 0)));
        assert!(!next(&mut arbiter, &[1, 30]), "30 are less than 40");
    }

    #[test]
    fn a_lane_is_congested_by_what_waits_behind_and_not_by_a_want_of_credits() {
        let congested = |of_victims: bool, waiting: u32, starve: bool| {
            let mut arbiter = Arbiter::new(1, 1);
            arbiter.detect_congestion(CreditBlocks(10), CreditBlocks(0), of_victims);
            let mut credits = credits(100, if starve { 100 } else { 0 });
            arbiter.enqueue(VirtualLane(0), 0, 1, CreditBlocks(33));
            arbiter.enqueue(VirtualLane(0), 0, 2, CreditBlocks(waiting));
            if starve {
                assert_eq!(arbiter.choose(&mut credits, NOW), Choice::Stalled { lanes: 1 });
                let FlowControl::Credits(ledger) = &mut credits else { unreachable!("it was made so") };
                ledger.give_back(VirtualLane(0), CreditBlocks(100));
            }
            let Choice::Send { congested, .. } = arbiter.choose(&mut credits, NOW) else { panic!("it has its credits") };
            congested
        };
        assert!(!congested(false, 10, false));
        assert!(congested(false, 11, false));
        assert!(!congested(false, 11, true));
        assert!(congested(true, 11, true));
    }
}
