//! Marks of congestion: switches set the FECN of packets (IBTA annex A10).

use super::Links;

impl Links {
    /// Marks a packet that leaves a congested lane of a switch port, if it is large enough and its
    /// turn has come.
    pub(super) fn mark(&mut self, id: u32, packet: u32) {
        let Some(marking) = self.marking else { return };
        let transit = self.packets.get_mut(packet);
        let port = &mut self.ports[id as usize];
        port.tally.xmit_time_congested += port.serialisation(transit.bytes);
        if u32::from(transit.blocks) < marking.packet_size.0 || transit.dlid.is_multicast() {
            return;
        }
        if port.until_mark > 0 {
            port.until_mark -= 1;
            return;
        }
        port.until_mark = marking.marking_rate;
        transit.packet.fecn = true;
    }
}
