//! The model's own subnet manager as a program on a host.

use softband_model::management::ManagementPacket;
use softband_model::management::manager::{Manager, SweptPaths};
use softband_sim::SimTime;

/// A subnet manager, the ports that it has, and the time of its next event.
pub(crate) struct Resident {
    manager: Manager,
    /// Ports of HCAs, one in each network.
    ports: Vec<u32>,
    scheduled: Option<SimTime>,
    /// Sweeps whose paths the fabric has taken over.
    adopted: u64,
}

impl Resident {
    pub(crate) fn new(manager: Manager, ports: Vec<u32>) -> Self {
        Self { manager, ports, scheduled: None, adopted: 0 }
    }

    pub(crate) fn manager_mut(&mut self) -> &mut Manager {
        &mut self.manager
    }

    /// Takes in a packet that has reached a port. Returns false if it is not for the manager.
    pub(crate) fn take(&mut self, port: u32, packet: &ManagementPacket, now: SimTime) -> bool {
        let root = self.ports.iter().position(|own| *own == port);
        root.is_some_and(|root| self.manager.handle_packet(root, packet, now))
    }

    /// Checks whether a port is the manager's.
    pub(crate) fn has(&self, port: u32) -> bool {
        self.ports.contains(&port)
    }

    /// Carries out all that is due.
    pub(crate) fn go_on(&mut self, now: SimTime) {
        self.scheduled = None;
        if self.manager.tally().sweeps == 0 {
            self.manager.start(now);
        } else if self.manager.poll_timeout().is_some_and(|due| due <= now) {
            self.manager.handle_timeout(now);
        }
    }

    /// Returns the next packet to send, with its port.
    pub(crate) fn next_packet(&mut self) -> Option<(u32, Box<ManagementPacket>)> {
        let (root, packet) = self.manager.poll_transmit()?;
        Some((self.ports[root], packet))
    }

    /// Returns the time of an event to schedule, unless an earlier one is pending.
    pub(crate) fn next_event(&mut self) -> Option<SimTime> {
        let due = self.manager.poll_timeout().filter(|due| self.scheduled.is_none_or(|scheduled| scheduled > *due))?;
        self.scheduled = Some(due);
        Some(due)
    }

    /// Returns the port of a manager's first event, at time zero.
    pub(crate) fn first_port(&self) -> Option<u32> {
        self.ports.first().copied()
    }

    /// Returns the paths of a sweep that has ended, once.
    pub(crate) fn take_paths(&mut self) -> Option<SweptPaths> {
        let sweeps = self.manager.tally().sweeps;
        let has_news = self.manager.is_idle() && sweeps > self.adopted;
        self.adopted = if has_news { sweeps } else { self.adopted };
        self.manager.paths().filter(|_| has_news)
    }
}
