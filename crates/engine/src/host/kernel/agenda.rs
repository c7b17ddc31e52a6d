//! Events of kernels in the order of their times, then of their origin.

use softband_net::{Frame, InterfaceId, LinkAddress};
use softband_sim::SimTime;
use softband_types::Qpn;
use std::collections::BTreeMap;

/// Event of a kernel.
#[derive(Debug)]
pub(super) enum Due {
    /// A timer of the stack.
    Timer { host: usize },
    /// The link has sent the oldest frame of the ring.
    Sent { host: usize, interface: InterfaceId },
    /// The card of an interface interrupts.
    Interrupt { host: usize, interface: InterfaceId },
    /// A core has taken the oldest packet of an interface.
    Taken { host: usize, interface: InterfaceId },
    /// An interface asks for membership in its broadcast group again.
    Join { host: usize, interface: InterfaceId },
    /// An interface wants a connection to a neighbour.
    Connect { host: usize, interface: InterfaceId, to: LinkAddress },
    /// The queue pair of a failed connection goes, and its other end.
    Disconnect { host: usize, interface: InterfaceId, to: LinkAddress, qpn: Qpn },
    /// Requests to subnet administration have waited long enough.
    GroupsExpire,
    /// A frame has reached an interface of the management network.
    Arrived { host: usize, interface: InterfaceId, frame: Frame },
}

#[derive(Debug, Default)]
pub(super) struct Agenda {
    queue: BTreeMap<(SimTime, u64), Due>,
    pushed: u64,
}

impl Agenda {
    pub(super) fn push(&mut self, at: SimTime, due: Due) {
        self.queue.insert((at, self.pushed), due);
        self.pushed += 1;
    }

    pub(super) fn next_time(&self) -> Option<SimTime> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next event, unless it is later than `now`.
    pub(super) fn pop_until(&mut self, now: SimTime) -> Option<Due> {
        let entry = self.queue.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }
}
