//! Raw Ethernet frames of network interfaces, which the kernels of hosts send and receive.

use super::World;
use crate::event::Event;
use crate::numbering::Owner;
use crate::subnet::FLOOD;
use softband_sim::SimTime;
use softband_types::{HcaId, PortNumber};
use softband_wire::ethernet::MAC_BYTES;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Reason why a port takes no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// There is no such port, or it belongs to InfiniBand.
    #[error("no Ethernet port has this number")]
    Port,
    /// The frame is shorter than its header, or longer than the MTU of the links.
    #[error("a frame of {0} bytes does not fit: it has a header of 14 bytes, and at most the MTU behind it")]
    Length(usize),
    /// The transmit ring is full.
    #[error("the transmit ring is full: wait for a frame that leaves")]
    RingFull,
}

impl World {
    /// Sends a raw frame from a port at `at`: MAC header and data, without padding and check sequence.
    /// [`Notice::FrameSent`](crate::notice::Notice::FrameSent) tells when its place in the ring is free.
    ///
    /// Switches know all ports from the start. They send a frame with a group's or an unknown address to
    /// all ports of the network. Only for a World without partitions.
    ///
    /// # Errors
    /// See [`FrameError`].
    pub fn send_frame(&mut self, hca: HcaId, port: PortNumber, frame: Arc<[u8]>, at: SimTime) -> Result<(), FrameError> {
        let id = self.ethernet_port(hca, port).ok_or(FrameError::Port)?;
        let longest = (MAC_BYTES + self.spec.ethernet.mtu_bytes) as usize;
        let address = frame.first_chunk::<6>().filter(|_| (MAC_BYTES as usize..=longest).contains(&frame.len()));
        let address = address.ok_or(FrameError::Length(frame.len()))?;
        if !self.hcas.take_transmit_place(id) {
            return Err(FrameError::RingFull);
        }
        if !self.floods {
            self.prepare_flooding();
        }
        let destination = self.subnet.lid_with_mac(id, *address).unwrap_or(FLOOD);
        let part = self.hcas.part(hca);
        let at = at + part.doorbell + part.send_wqe_fetch;
        let frame = self.hcas.keep_frame(id, destination, frame);
        self.timeline.push(at, hca.0, Event::FramePosted { frame });
        Ok(())
    }

    /// Gives places in the receive ring of a port back, after the kernel has taken as many frames.
    pub fn return_frames(&mut self, hca: HcaId, port: PortNumber, frames: u32) {
        if let Some(id) = self.ethernet_port(hca, port) {
            self.hcas.return_frames(id, frames);
        }
    }

    /// Returns the number of frames for which the receive ring of a port had no buffer.
    pub fn frames_missed(&self, hca: HcaId, port: PortNumber) -> u64 {
        self.ethernet_port(hca, port).map_or(0, |id| self.hcas.frames_missed(id))
    }

    /// Returns the MAC address of an Ethernet port; `None` without a cable.
    pub fn mac(&self, hca: HcaId, port: PortNumber) -> Option<[u8; 6]> {
        let id = self.ethernet_port(hca, port).filter(|id| self.links.cabling(*id).is_some())?;
        Some(self.subnet.mac(self.subnet.lid(id)))
    }

    fn ethernet_port(&self, hca: HcaId, port: PortNumber) -> Option<u32> {
        self.hcas.port_index(hca, port).filter(|id| self.links.framing(*id).has_raw_frames())
    }

    /// Enters the ports to which switches send frames for all. Runs without frames do not need them.
    fn prepare_flooding(&mut self) {
        self.floods = true;
        let ports = self.numbering.owners().iter().zip(0..);
        let hcas: BTreeSet<HcaId> = ports
            .filter_map(|(owner, port)| match owner {
                Owner::Hca { hca, .. } if self.links.framing(port).has_raw_frames() => Some(HcaId(*hca)),
                _ => None,
            })
            .collect();
        self.links.grow_tree(FLOOD, &hcas, &self.subnet);
    }
}
