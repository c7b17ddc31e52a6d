//! A packet in flight.

use softband_model::packet::Packet;
use softband_sim::SimTime;
use softband_types::{CreditBlocks, Lid, ServiceLevel, VirtualLane};
use std::num::NonZeroU32;

/// A packet in flight: the fields of the current hop, on one cache line, and the packet itself for
/// the end nodes.
#[repr(align(64))]
pub(crate) struct Transit {
    pub packet: Box<Packet>,
    /// Arrival times of its first and last bit.
    pub head: SimTime,
    pub tail: SimTime,
    /// Size from LRH to VCRC, or of a whole frame.
    pub bytes: u32,
    /// Time that it occupies the link by which it leaves a switch, in picoseconds.
    pub time_out: u32,
    /// Copied from the packet, so that switches need not read it.
    pub payload_bytes: u16,
    pub dlid: Lid,
    pub service_level: ServiceLevel,
    pub blocks: u16,
    /// Lane on the link by which it arrived.
    pub lane: VirtualLane,
    /// Port by which it arrived; on its way out of an HCA, that HCA's port.
    pub port: u32,
    /// Slab number, plus 1, of a count that the copies of a packet share: the copies still in the
    /// switch.
    pub copies: Option<NonZeroU32>,
    /// Whether it holds a place in the HCA's staging buffer. `completes` names the message (queue
    /// pair and epoch) that its departure completes.
    pub staged: bool,
    pub completes: Option<Box<(u32, u32)>>,
}

impl Transit {
    /// Wraps a packet of `bytes` bytes that is to leave by a port.
    #[inline]
    pub(crate) fn new(packet: Box<Packet>, bytes: u32, port: u32, lane: VirtualLane) -> Self {
        Self {
            bytes,
            time_out: 0,
            blocks: CreditBlocks::for_packet(bytes).0 as u16,
            payload_bytes: packet.limited_bytes() as u16,
            dlid: packet.dlid,
            service_level: packet.service_level,
            packet,
            lane,
            port,
            tail: SimTime::ZERO,
            head: SimTime::ZERO,
            copies: None,
            staged: false,
            completes: None,
        }
    }

    /// Copies the packet on the same hop, for another output.
    pub(crate) fn copy(&self) -> Self {
        Self { packet: self.packet.clone(), staged: false, completes: None, ..*self }
    }

    /// Takes the place in the staging buffer that the packet's departure frees.
    #[inline]
    pub(crate) fn take_departing(&mut self, lane: VirtualLane) -> Option<Departing> {
        std::mem::take(&mut self.staged).then(|| {
            let completes = self.completes.take().map(|completes| *completes);
            Departing { lane, bytes: self.bytes, completes }
        })
    }
}

/// Resources that the departing packet on an HCA's link frees: a place in the staging buffer, and
/// the message of an unreliable queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departing {
    pub lane: VirtualLane,
    pub bytes: u32,
    pub completes: Option<(u32, u32)>,
}
