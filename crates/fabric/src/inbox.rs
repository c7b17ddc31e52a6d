//! Packets that will be ready to leave by a port: it takes them when it next looks, so that their becoming ready is no event of its own.

use softband_sim::SimTime;
use softband_types::VirtualLane;
use std::collections::VecDeque;

/// A packet that may leave from some time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    pub at: SimTime,
    pub packet: u32,
    /// Of the node that the port belongs to: which of its ports it came in by; 0 of an HCA's own.
    pub input: u8,
    /// That it leaves on.
    pub lane: VirtualLane,
    pub blocks: u16,
}

/// Ordered by time, then by input: not by who was told first. What is alike in both stays in the order in which it was sent.
#[derive(Default)]
pub(crate) struct Inbox(VecDeque<Ready>);

impl Inbox {
    #[inline]
    pub(crate) fn insert(&mut self, ready: Ready) {
        let is_last = self.0.back().is_none_or(|last| (last.at, last.input) <= (ready.at, ready.input));
        if is_last {
            return self.0.push_back(ready);
        }
        // Nearly all are: the others come by shorter ways.
        let place = self.0.partition_point(|other| (other.at, other.input) <= (ready.at, ready.input));
        self.0.insert(place, ready);
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<&Ready> {
        self.0.front()
    }

    /// Takes the first one out, if it is ready.
    #[inline]
    pub(crate) fn take(&mut self, now: SimTime) -> Option<Ready> {
        if self.0.front()?.at <= now { self.0.pop_front() } else { None }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Ready> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_out_by_time_and_input_and_not_before_they_are_ready() {
        let at = SimTime::from_picos;
        let ready = |time, input, packet| Ready { at: at(time), packet, input, lane: VirtualLane(0), blocks: 1 };
        let mut inbox = Inbox::default();
        [ready(5, 1, 0), ready(5, 0, 1), ready(3, 7, 2), ready(5, 1, 3), ready(9, 0, 4)].into_iter().for_each(|one| inbox.insert(one));
        assert_eq!(inbox.take(at(2)), None);
        let order: Vec<u32> = std::iter::from_fn(|| inbox.take(at(5)).map(|ready| ready.packet)).collect();
        assert_eq!(order, [2, 1, 0, 3]);
        assert_eq!(inbox.first().map(|ready| ready.packet), Some(4));
    }
}
