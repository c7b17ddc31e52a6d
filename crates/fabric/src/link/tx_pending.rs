//! Packets that an egress port will transmit. The port takes ready packets when it next transmits,
//! so readiness needs no event of its own.

use softband_sim::{Keyed, SimTime, SmallQueue};
use softband_types::VirtualLane;

/// A packet that may leave from a given time on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ready {
    pub at: SimTime,
    pub packet: u32,
    /// Input port by which the packet entered the node; 0 for an HCA's own packets.
    pub input: u8,
    /// Lane on which the packet leaves.
    pub lane: VirtualLane,
    pub blocks: u16,
}

/// Orders by time, then by input, not by insertion. Packets with equal keys keep their send order.
impl Keyed for Ready {
    type Key = (SimTime, u8);

    fn key(&self) -> Self::Key {
        (self.at, self.input)
    }
}

pub(super) type TxPending = SmallQueue<Ready, 2>;

/// Removes the first packet if it is ready.
#[inline]
pub(super) fn take_ready(tx_pending: &mut TxPending, now: SimTime) -> Option<Ready> {
    if tx_pending.first()?.at <= now { tx_pending.pop_first() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_out_by_time_and_input_and_not_before_they_are_ready() {
        let at = SimTime::from_picos;
        let ready = |time, input, packet| Ready { at: at(time), packet, input, lane: VirtualLane(0), blocks: 1 };
        let mut tx_pending = TxPending::default();
        for one in [ready(5, 1, 0), ready(5, 0, 1), ready(3, 7, 2), ready(5, 1, 3), ready(9, 0, 4)] {
            tx_pending.insert(one);
        }
        assert_eq!(take_ready(&mut tx_pending, at(2)), None);
        let order: Vec<u32> = std::iter::from_fn(|| take_ready(&mut tx_pending, at(5)).map(|ready| ready.packet)).collect();
        assert_eq!(order, [2, 1, 0, 3]);
        assert_eq!(tx_pending.first().map(|ready| ready.packet), Some(4));
    }
}
