//! Ethernet ports: frames into receive buffers, and the pause frames that keep the buffers from
//! overflowing.

use super::Hop;
use super::parcel::FlowControlMessage;
use softband_model::link::Taken;
use softband_sim::SimTime;
use softband_types::{CreditBlocks, VirtualLane};
use softband_wire::ethernet::PAUSE_FRAME_BYTES;

impl Hop<'_> {
    /// Stores an arriving frame in the receive buffer, or drops it if the buffer has no room.
    pub(crate) fn on_frame_arrival(&mut self, id: u32, now: SimTime) {
        let transit = self.links.packets.get_mut(id);
        let (at, lane) = (transit.port, transit.lane);
        let blocks = CreditBlocks(u32::from(transit.blocks));
        let port = &mut self.links.ports[at as usize];
        let (by, Some(ethernet)) = (port.far_end, &mut port.ethernet) else { unreachable!("frames come to cabled Ethernet ports") };
        match ethernet.buffer.take(lane, blocks) {
            Taken::Dropped => {
                ethernet.counters.rcv_discards += 1;
                self.links.packets.take(id);
            }
            Taken::Kept { pauses } => {
                if pauses {
                    self.send_pause(at, lane, true, now);
                }
                self.schedule_arrival(id, by);
            }
        }
    }

    /// Frees the buffer of a frame that has left.
    pub(super) fn free_frame(&mut self, id: u32, lane: VirtualLane, blocks: CreditBlocks, now: SimTime) {
        let Some(ethernet) = &mut self.links.ports[id as usize].ethernet else { unreachable!("its peer pauses, so it is Ethernet's") };
        if ethernet.buffer.release(lane, blocks) {
            self.send_pause(id, lane, false, now);
        }
    }

    /// Sends a pause or resume frame: behind the frame on the link, before all others.
    fn send_pause(&mut self, id: u32, lane: VirtualLane, pauses: bool, now: SimTime) {
        let port = &mut self.links.ports[id as usize];
        let (Some(ethernet), Some(cabling)) = (&mut port.ethernet, port.cabling) else { return };
        let start = now.max(port.sending.until).max(ethernet.pauses_until);
        let sent = start + cabling.serialisation(PAUSE_FRAME_BYTES);
        ethernet.pauses_until = sent;
        ethernet.counters.xmit_pauses += 1;
        let Some(response) = self.links.ports[cabling.peer as usize].ethernet.as_ref().map(|ethernet| ethernet.pause_response) else { return };
        self.tell_sender(cabling.peer, sent + cabling.delay + response, FlowControlMessage::Pause { lane, pauses });
    }
}
