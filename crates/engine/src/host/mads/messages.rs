//! Messages of several MADs that arrive, and the control of those that leave.

use super::fields::{Fields, class_header_bytes};
use super::requests::{Acknowledgement, Transaction};
use super::segments::{self, BAD_TYPE, Kind, RESOURCES_EXHAUSTED, Reception, Segment, TOO_LONG, UNSUPPORTED_VERSION, VERSION};
use super::{MESSAGE_BYTES_MAX, MadTable, Port, PortFacts, RECEPTION_BYTES_MAX, Times, answer_to};
use softband_model::management::ManagementPacket;
use softband_sim::SimTime;
use softband_types::{Lid, Qpn};
use std::collections::BTreeMap;

/// Most messages that arrive at a port at once, with those that have just arrived.
const RECEPTIONS_MAX: usize = 64;
/// Most bytes of segments of a port that await others, besides those of awaited answers.
const SEGMENT_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;
/// Most bytes of segments of all ports beyond [`SEGMENT_BYTES_MAX`]: the longest message.
const EXCESS_BYTES_MAX: usize = RECEPTION_BYTES_MAX;

/// Identifies a message that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    port: Port,
    agent: u32,
    from: (Lid, Qpn),
    class: u8,
    class_version: u8,
    method: u8,
    transaction: u64,
}

/// All messages of the fabric that arrive in segments.
#[derive(Debug, Default)]
pub(super) struct Receptions {
    /// Each with the LID of its port.
    all: BTreeMap<Name, (Lid, Reception)>,
}

impl Receptions {
    pub(super) fn forget(&mut self, port: Port, agent: u32) {
        self.all.retain(|name, _| (name.port, name.agent) != (port, agent));
    }

    pub(super) fn next_deadline(&self) -> Option<SimTime> {
        self.all.values().map(|(_, reception)| reception.until).min()
    }

    /// Ends the receptions whose life is over. Returns the packets that tell their senders.
    pub(super) fn expire(&mut self, now: SimTime) -> Vec<(Port, Box<ManagementPacket>)> {
        let over = |(_, (_, reception)): &(&Name, &(Lid, Reception))| reception.until <= now;
        let names: Vec<Name> = self.all.iter().filter(over).map(|(name, _)| *name).collect();
        let ended = names.into_iter().filter_map(|name| Some((name.port, self.all.remove(&name)?)));
        let told = ended.filter(|(_, (_, reception))| !reception.is_complete());
        told.map(|(port, (lid, reception))| (port, answer_to(&reception.packet, lid, segments::end(&reception.packet.mad, TOO_LONG)))).collect()
    }

    /// Returns whether a port may take a segment. Only answers that it awaits may be long, as no
    /// other node can make it await them.
    fn has_room(&self, port: Port, is_awaited: bool) -> bool {
        let of_port = || self.all.iter().filter(|(name, _)| name.port == port);
        let bytes: usize = of_port().map(|(_, (_, reception))| reception.bytes()).sum();
        of_port().count() < RECEPTIONS_MAX && (bytes < SEGMENT_BYTES_MAX || is_awaited && self.excess() < EXCESS_BYTES_MAX)
    }

    /// Returns the bytes of all ports that no port has for itself.
    fn excess(&self) -> usize {
        let mut ports: BTreeMap<Port, usize> = BTreeMap::new();
        for (name, (_, reception)) in &self.all {
            *ports.entry(name.port).or_default() += reception.bytes();
        }
        ports.into_values().map(|bytes| bytes.saturating_sub(SEGMENT_BYTES_MAX)).sum()
    }
}

impl MadTable {
    /// Handles a MAD of the protocol for messages. Returns the file that becomes readable.
    pub(super) fn arrive_segment(
        &mut self,
        (port, agent): (Port, u32),
        packet: &ManagementPacket,
        segment: Segment,
        facts: PortFacts<'_>,
        times: Times,
    ) -> Option<u32> {
        let transaction = Transaction::of_received(port, agent, Fields::of(&packet.mad), packet.slid);
        let broken = match segment.kind {
            _ if segment.version != VERSION => Some(UNSUPPORTED_VERSION),
            None => Some(BAD_TYPE),
            Some(Kind::Data) => return self.take_data((port, agent), packet, segment, facts, times),
            Some(Kind::Acknowledgement) => match self.requests.acknowledge(&transaction, segment, times.now) {
                Acknowledgement::Broken(status) => Some(status),
                Acknowledgement::Fine(packets) => {
                    self.leave(port, packets);
                    None
                }
            },
            // The kernel tells the program nothing.
            Some(Kind::Stop | Kind::Abort) => {
                self.requests.remove(&transaction);
                None
            }
        };
        if let Some(status) = broken {
            self.requests.remove(&transaction);
            self.outgoing.push((port, answer_to(packet, facts.lid, segments::end(&packet.mad, status))));
        }
        None
    }

    fn take_data(
        &mut self,
        (port, agent): (Port, u32),
        packet: &ManagementPacket,
        segment: Segment,
        facts: PortFacts<'_>,
        times: Times,
    ) -> Option<u32> {
        let fields = Fields::of(&packet.mad);
        let name = Name {
            port,
            agent,
            from: (packet.slid, packet.source),
            class: fields.class(),
            class_version: fields.class_version(),
            method: fields.method(),
            transaction: fields.transaction_id(),
        };
        let is_known = self.receptions.all.contains_key(&name);
        let is_awaited = self.requests.contains(&Transaction::of_received(port, agent, fields, packet.slid));
        let checked = segments::check_data(segment).and_then(|()| {
            let has_room = self.receptions.has_room(port, fields.is_response() && is_awaited) || is_known && segment.number == 1;
            if has_room { Ok(()) } else { Err(RESOURCES_EXHAUSTED) }
        });
        if let Err(status) = checked {
            self.receptions.all.remove(&name);
            self.outgoing.push((port, answer_to(packet, facts.lid, segments::end(&packet.mad, status))));
            return None;
        }
        if !is_known && segment.number == 1 {
            let reception = Reception::new(packet.clone(), class_header_bytes(fields.class()), times.now);
            self.receptions.all.insert(name, (facts.lid, reception));
        }
        let (_, reception) = self.receptions.all.get_mut(&name)?;
        let arrived = reception.take(&packet.mad, segment, times.now);
        if reception.bytes() > RECEPTION_BYTES_MAX {
            self.receptions.all.remove(&name);
            self.outgoing.push((port, answer_to(packet, facts.lid, segments::end(&packet.mad, RESOURCES_EXHAUSTED))));
            return None;
        }
        let first = reception.packet.clone();
        if let Some(mad) = arrived.acknowledgement {
            self.outgoing.push((port, answer_to(packet, facts.lid, mad)));
        }
        self.deliver((port, agent), &first, &arrived.message?, facts, times.visible)
    }
}
