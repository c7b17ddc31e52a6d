//! Which packet goes next: round robin over virtual lanes, and on each lane over the inputs that feed it.

use super::CreditLedger;
use softband_types::{CreditBlocks, VirtualLane};
use std::collections::VecDeque;

/// What waits at a sending port, by lane and by input. An HCA has one input, a switch one for each of its ports.
pub struct Arbiter {
    lanes: Vec<Lane>,
    /// Lanes with something waiting, by bit.
    waiting: u16,
    lane_next: u8,
}

struct Lane {
    inputs: Vec<VecDeque<Waiting>>,
    input_next: usize,
    len: usize,
}

#[derive(Clone, Copy)]
struct Waiting {
    packet: u32,
    blocks: CreditBlocks,
}

/// What the arbiter decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Send {
        packet: u32,
        lane: VirtualLane,
    },
    /// Packets wait, on these lanes (by bit), but none has its credits.
    Stalled {
        lanes: u16,
    },
    Idle,
}

impl Arbiter {
    pub fn new(lanes: u8, inputs: usize) -> Self {
        let lane = || Lane { inputs: (0..inputs).map(|_| VecDeque::new()).collect(), input_next: 0, len: 0 };
        Self { lanes: (0..lanes).map(|_| lane()).collect(), waiting: 0, lane_next: 0 }
    }

    pub fn enqueue(&mut self, lane: VirtualLane, input: usize, packet: u32, blocks: CreditBlocks) {
        let queue = &mut self.lanes[usize::from(lane.0)];
        queue.inputs[input].push_back(Waiting { packet, blocks });
        queue.len += 1;
        self.waiting |= 1 << lane.0;
    }

    /// Takes the next packet out and its credits off the ledger.
    ///
    /// On a lane it is the turn of one input's oldest packet; when that lacks credits the lane waits, lest small packets of other
    /// inputs keep a large one waiting for ever.
    pub fn choose(&mut self, credits: &mut CreditLedger) -> Choice {
        if self.waiting == 0 {
            return Choice::Idle;
        }
        let count = self.lanes.len() as u8;
        for step in 0..count {
            let number = (self.lane_next + step) % count;
            if self.waiting & 1 << number == 0 {
                continue;
            }
            let lane = VirtualLane(number);
            if let Some(packet) = self.lanes[usize::from(number)].take(lane, credits) {
                if self.lanes[usize::from(number)].len == 0 {
                    self.waiting &= !(1 << number);
                }
                self.lane_next = (number + 1) % count;
                return Choice::Send { packet, lane };
            }
        }
        Choice::Stalled { lanes: self.waiting }
    }
}

impl Lane {
    fn take(&mut self, lane: VirtualLane, credits: &mut CreditLedger) -> Option<u32> {
        let inputs = self.inputs.len();
        let turn = (0..inputs).map(|step| (self.input_next + step) % inputs).find(|input| !self.inputs[*input].is_empty())?;
        let first = self.inputs[turn].front().copied()?;
        // The turn stays with this input until its packet has gone.
        self.input_next = turn;
        if !credits.permits(lane, first.blocks) {
            return None;
        }
        credits.consume(lane, first.blocks);
        self.inputs[turn].pop_front();
        self.input_next = (turn + 1) % inputs;
        self.len -= 1;
        Some(first.packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_take_turns_and_so_do_the_inputs_of_a_lane() {
        let mut arbiter = Arbiter::new(2, 2);
        let mut credits = CreditLedger::new(CreditBlocks(100));
        for (packet, (lane, input)) in [(0, 0), (0, 0), (0, 1), (1, 0), (1, 0)].into_iter().enumerate() {
            arbiter.enqueue(VirtualLane(lane), input, packet as u32, CreditBlocks(1));
        }
        let order: Vec<_> = std::iter::from_fn(|| match arbiter.choose(&mut credits) {
            Choice::Send { packet, .. } => Some(packet),
            _ => None,
        })
        .collect();
        assert_eq!(order, [0, 3, 2, 4, 1]);
        assert_eq!(arbiter.choose(&mut credits), Choice::Idle);
    }

    #[test]
    fn a_lane_without_credits_does_not_hold_up_the_others() {
        let mut arbiter = Arbiter::new(2, 1);
        let mut credits = CreditLedger::new(CreditBlocks(2));
        credits.consume(VirtualLane(0), CreditBlocks(1));
        arbiter.enqueue(VirtualLane(0), 0, 7, CreditBlocks(2));
        arbiter.enqueue(VirtualLane(1), 0, 8, CreditBlocks(2));
        assert_eq!(arbiter.choose(&mut credits), Choice::Send { packet: 8, lane: VirtualLane(1) });
        assert_eq!(arbiter.choose(&mut credits), Choice::Stalled { lanes: 1 });
    }
}
