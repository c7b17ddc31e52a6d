//! Events of kernels in the order of their times, then of their origin.

use softband_net::{Frame, InterfaceId, LinkAddress, NetError};
use softband_sim::SimTime;
use softband_types::Qpn;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Event of a kernel.
#[derive(Debug)]
pub(super) enum Due {
    /// A timer of the stack.
    Timer { host: usize },
    /// The link has sent the oldest frame of the ring.
    Sent { host: usize, interface: InterfaceId },
    /// The link has sent a frame of the ring. Frames count from 0, in the order of the stack.
    FrameSent { host: usize, interface: InterfaceId, frame: u64 },
    /// The link has lost a packet that is too long for its receiver.
    TooLong { host: usize, interface: InterfaceId, destination: IpAddr, mtu_bytes: u32 },
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
    /// A connection of SDP wants its queue pairs.
    SdpConnect { host: usize, end: u32 },
    /// A connection of SDP could not begin.
    SdpLost { host: usize, end: u32, error: NetError },
    /// The queue pair of a closed connection goes.
    SdpRelease { host: usize, end: u32 },
    /// The card interrupts for connections of SDP.
    SdpInterrupt { host: usize, interface: InterfaceId },
    /// A core has taken the oldest message of SDP.
    SdpTaken { host: usize, interface: InterfaceId },
    /// Requests to subnet administration have waited long enough.
    GroupsExpire,
    /// A query for a path has waited long enough.
    PathExpires { transaction: u64 },
    /// A frame has reached an interface of the management network.
    Arrived { host: usize, interface: InterfaceId, frame: Frame },
}

/// Event that another one can replace.
#[derive(Debug)]
pub(super) struct Alarm((SimTime, u64));

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

    /// Adds an event in place of an earlier one with the same meaning, which may be over.
    pub(super) fn replace(&mut self, old: &mut Option<Alarm>, at: SimTime, due: Due) {
        if let Some(Alarm(key)) = old.replace(Alarm((at, self.pushed))) {
            self.queue.remove(&key);
        }
        self.push(at, due);
    }

    pub(super) fn next_time(&self) -> Option<SimTime> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next event with its time, unless it is later than `now`.
    pub(super) fn pop_until(&mut self, now: SimTime) -> Option<(SimTime, Due)> {
        let entry = self.queue.first_entry().filter(|entry| entry.key().0 <= now)?;
        let ((at, _), due) = entry.remove_entry();
        Some((at, due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_has_one_event() {
        let (mut agenda, mut alarm) = (Agenda::default(), None);
        let at = SimTime::from_picos;
        for time in [9, 5, 7] {
            agenda.replace(&mut alarm, at(time), Due::GroupsExpire);
        }
        assert!(matches!(agenda.pop_until(at(9)), Some((time, Due::GroupsExpire)) if time == at(7)));
        agenda.replace(&mut alarm, at(8), Due::GroupsExpire);
        assert_eq!((agenda.next_time(), agenda.queue.len()), (Some(at(8)), 1));
    }
}
