//! Traffic that programs of wall pace carried without the model. It counts at the ports of its way
//! as if its packets had passed there, and changes nothing else.

use super::Links;
use crate::numbering::Owner;
use crate::traffic::Traffic;
use softband_types::{Gid, Lid, PortLids};
use std::collections::BTreeSet;

/// First LID of multicast groups (IBTA 4.1.3).
const MULTICAST_LIDS: u16 = 0xC000;
/// Largest counts of a port. A lying program must not overflow sums with real traffic.
const BYTES_MAX: u64 = 1 << 60;
const PACKETS_MAX: u64 = 1 << 56;

/// Packets that crossed the fabric outside the model, in both directions of a way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CarriedElsewhere {
    /// Packets of requests.
    pub sent_packets: u64,
    /// Their bytes, from BTH to invariant CRC.
    pub sent_bytes: u64,
    /// Packets of responses.
    pub returned_packets: u64,
    /// Their bytes, from BTH to invariant CRC.
    pub returned_bytes: u64,
    /// RDMA writes among the requests.
    pub writes: u64,
    /// RDMA reads among them.
    pub reads: u64,
    /// Atomics among them.
    pub atomics: u64,
    /// Datagrams that found no receive request.
    pub lost: u64,
    /// A GID like that of their global routes, if they have one. Only its kind matters.
    pub destination: Option<Gid>,
}

/// Traffic that each port sent outside the model; empty without any.
#[derive(Default)]
pub(super) struct Elsewhere(Vec<Traffic>);

impl Elsewhere {
    pub(super) fn sent_by(&self, port: u32) -> Traffic {
        self.0.get(port as usize).copied().unwrap_or_default()
    }

    fn add(&mut self, port: u32, more: Traffic) {
        if self.0.len() <= port as usize {
            self.0.resize(port as usize + 1, Traffic::default());
        }
        let sum = &mut self.0[port as usize];
        sum.bytes = sum.bytes.saturating_add(more.bytes).min(BYTES_MAX);
        // Each packet has at least one byte, also of a liar.
        sum.packets = sum.packets.saturating_add(more.packets).min(PACKETS_MAX);
        sum.multicast = sum.multicast.saturating_add(more.multicast).min(sum.packets);
    }
}

impl Links {
    /// Counts traffic from a port to `dlid` at all ports of its way, by the present routes. Messages
    /// to a LID of the port itself cross no link. Returns the port of a single receiver.
    pub(crate) fn count_elsewhere(&mut self, from: u32, (own, dlid): (PortLids, Lid), carried: &CarriedElsewhere) -> Option<u32> {
        if own.contains(dlid) {
            return Some(from);
        }
        let (sent, returned) = (self.framed(from, carried.sent_packets, carried), self.framed(from, carried.returned_packets, carried));
        let sent = Traffic { bytes: sent.bytes.saturating_add(carried.sent_bytes), ..sent };
        let returned = Traffic { bytes: returned.bytes.saturating_add(carried.returned_bytes), ..returned };
        if dlid.0 >= MULTICAST_LIDS {
            self.count_at_members(from, dlid, Traffic { multicast: sent.packets, ..sent });
            return None;
        }
        let to = self.count_on_way(from, dlid, sent)?;
        self.count_on_way(to, own.base, returned);
        Some(to)
    }

    /// Returns packets with only the bytes around their transport headers and payload.
    fn framed(&self, port: u32, packets: u64, carried: &CarriedElsewhere) -> Traffic {
        let framing = self.ports[port as usize].framing;
        let bytes = packets.saturating_mul(u64::from(framing.packet_bytes(carried.destination, 0)));
        Traffic { bytes, packets, multicast: 0 }
    }

    /// Counts traffic at each port that sends it. Returns the port that receives it.
    fn count_on_way(&mut self, from: u32, dlid: Lid, traffic: Traffic) -> Option<u32> {
        let mut at = from;
        // No route passes a switch twice.
        for _ in 0..=self.switches.len() {
            let cabling = self.ports[at as usize].cabling?;
            self.elsewhere.add(at, traffic);
            let Owner::Switch { switch, .. } = self.ports[cabling.peer as usize].owner else { return Some(cabling.peer) };
            let node = &self.switches[switch as usize];
            at = node.first_port + node.switch.route(dlid)? as u32;
        }
        None
    }

    /// Counts multicast traffic on the tree of its group.
    fn count_at_members(&mut self, from: u32, mlid: Lid, traffic: Traffic) {
        let (mut ports, mut passed) = (vec![from], BTreeSet::new());
        while let Some(port) = ports.pop() {
            let Some(cabling) = self.ports[port as usize].cabling else { continue };
            self.elsewhere.add(port, traffic);
            let Owner::Switch { switch, index } = self.ports[cabling.peer as usize].owner else { continue };
            if passed.insert(switch) {
                let node = &self.switches[switch as usize];
                let outputs = node.switch.multicast_outputs(mlid).into_iter().filter(|output| *output != index);
                ports.extend(outputs.map(|output| node.first_port + u32::from(output)));
            }
        }
    }
}
