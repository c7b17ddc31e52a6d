//! Packets with a wrong P_Key or Q_Key, for the agent of their port (IBTA 9.6.1.1.3, 9.6.1.1.5).

use super::Hcas;
use crate::event::Event;
use crate::pdes::timeline::Timeline;
use softband_model::management::agent::{KeyViolation, ViolatedKey};
use softband_model::packet::Packet;
use softband_sim::SimTime;
use softband_types::{HcaId, QpState};

impl Hcas {
    /// Notes a packet for a queue pair of another partition.
    #[cold]
    pub(super) fn note_foreign_partition(&mut self, timeline: &mut Timeline, packet: &Packet, port: u32, now: SimTime) {
        let hca = HcaId(self.ports[port as usize].hca);
        let Some(slot) = self.qp_index(hca, packet.destination).and_then(|qp| self.slot(qp)) else { return };
        let a = &slot.qp.attributes;
        let listens = matches!(a.state, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe);
        if listens && slot.port == Some(port) && !packet.pkey.reaches(a.pkey) {
            self.note_violation(timeline, ViolatedKey::Partition(packet.pkey), packet, port, now);
        }
    }

    #[cold]
    pub(super) fn note_violation(&mut self, timeline: &mut Timeline, key: ViolatedKey, packet: &Packet, port: u32, now: SimTime) {
        let Packet { slid, dlid, service_level, source, destination, .. } = *packet;
        let violation = KeyViolation { key, slid, dlid, service_level, source, destination };
        let violation = self.key_violations.insert((port, violation));
        timeline.push(now, self.ports[port as usize].hca, Event::KeyViolation { violation });
    }

    /// Takes a packet with a wrong key, with its port.
    pub(crate) fn take_key_violation(&mut self, violation: u32) -> (u32, KeyViolation) {
        self.key_violations.take(violation)
    }
}
