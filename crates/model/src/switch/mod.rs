//! A cut-through switch: where a packet goes on, and when its first bit does.

use crate::parts::SwitchPart;
use softband_sim::{SimDuration, SimTime};
use softband_types::{Lid, LinkSpeed};

/// A switch's forwarding table and timing.
pub struct Switch {
    /// Output port (0-based) of each unicast LID; `NOWHERE` where none was set.
    lft: Vec<u8>,
    forward_latency: Vec<(LinkSpeed, SimDuration)>,
}

const NOWHERE: u8 = u8::MAX;

impl Switch {
    pub fn new(part: &SwitchPart) -> Self {
        Self { lft: Vec::new(), forward_latency: part.forward_latency.clone() }
    }

    /// Sets the entry of the linear forwarding table for `lid` to the output with this 0-based index.
    pub fn set_route(&mut self, lid: Lid, output: u8) {
        let index = usize::from(lid.0);
        if self.lft.len() <= index {
            self.lft.resize(index + 1, NOWHERE);
        }
        self.lft[index] = output;
    }

    /// The 0-based output of a packet for `lid`.
    pub fn route(&self, lid: Lid) -> Option<usize> {
        self.lft.get(usize::from(lid.0)).copied().filter(|output| *output != NOWHERE).map(usize::from)
    }

    /// First bit in to first bit out on a port of this speed; that of the nearest speed given when its own is not.
    pub fn forward_latency(&self, speed: LinkSpeed) -> SimDuration {
        let exact = self.forward_latency.iter().find(|(of, _)| *of == speed);
        exact.or(self.forward_latency.last()).map_or(SimDuration::ZERO, |(_, latency)| *latency)
    }

    /// When a packet whose first bit came in at `head` may go out on a link of `speed`.
    ///
    /// Where the output is faster than the input it starts later, so as not to run out of bits before the last has come.
    pub fn ready_at(&self, head: SimTime, speed: LinkSpeed, time_in: SimDuration, time_out: SimDuration) -> SimTime {
        let wait = if time_in > time_out { time_in - time_out } else { SimDuration::ZERO };
        head + self.forward_latency(speed) + wait
    }
}
