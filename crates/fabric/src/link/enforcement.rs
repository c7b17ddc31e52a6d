//! Partitions that switches enforce (IBTA 7.9.5, 10.9.3), and packets that switches do not forward.

use super::port::Onward;
use super::{Hop, Links};
use crate::event::Event;
use crate::numbering::Owner;
use softband_model::management::agent::{KeyViolation, ViolatedKey};
use softband_model::packet::Packet;
use softband_sim::SimTime;
use softband_types::PKey;

/// A switch's port with a table of partition keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Enforcement {
    /// Keys that a manager has written; `None`: the default key.
    keys: Option<Vec<PKey>>,
    inbound: bool,
    outbound: bool,
}

/// Packets that a switch did not forward, at one of its ports (IBTA 16.1.3.5).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unforwarded {
    /// PortRcvSwitchRelayErrors: no table entry, or one that leads back.
    pub(crate) relay: u64,
    /// Those of `relay` with an entry that leads back.
    pub(crate) looping: u64,
    /// Those of PortXmitDiscards that are larger than the next link's MTU.
    pub(crate) too_large: u64,
    /// Those of PortXmitDiscards that stayed too long in the switch.
    pub(crate) outlived: u64,
    /// Those of PortXmitDiscards that waited too long at the head of their queue.
    pub(crate) outlived_at_head: u64,
    /// PortRcvConstraintErrors: a foreign P_Key came in.
    pub(crate) received_foreign: u64,
    /// PortXmitConstraintErrors: a foreign P_Key was to go out.
    pub(crate) sent_foreign: u64,
}

impl Enforcement {
    fn keys(&self) -> &[PKey] {
        self.keys.as_deref().unwrap_or(&[PKey::DEFAULT_FULL])
    }

    /// Checks a packet that comes in. A full member may also send as a limited one.
    fn admits(&self, key: PKey) -> bool {
        let is_own = |own: &PKey| own.partition() == key.partition() && (own.is_full_member() || !key.is_full_member());
        !self.inbound || self.keys().iter().any(is_own)
    }

    /// Checks a packet that goes out.
    fn releases(&self, key: PKey) -> bool {
        !self.outbound || self.keys().iter().any(|own| key.reaches(*own))
    }
}

/// Ports of switches by number, with their tables.
pub(super) type Enforcing = Vec<Option<Box<Enforcement>>>;

fn at(enforcing: &Enforcing, port: u32) -> Option<&Enforcement> {
    enforcing.get(port as usize)?.as_deref()
}

/// Checks whether the port by which a packet enters a switch, or leaves it, refuses its P_Key.
pub(super) fn refuses(enforcing: &Enforcing, input: u32, output: u32, key: PKey) -> bool {
    let is_admitted = at(enforcing, input).is_none_or(|of| of.admits(key));
    !(is_admitted && at(enforcing, output).is_none_or(|of| of.releases(key)))
}

impl Links {
    /// Returns the partition keys of a switch's port.
    pub(crate) fn switch_pkeys(&self, port: u32) -> &[PKey] {
        self.enforcement(port).map_or(&[PKey::DEFAULT_FULL], Enforcement::keys)
    }

    /// Sets the partition keys of a switch's port.
    pub(crate) fn set_switch_pkeys(&mut self, port: u32, keys: Vec<PKey>) {
        self.enforcement_mut(port).keys = Some(keys);
    }

    /// Lets a switch's port check the partition keys of packets that come in and go out.
    pub(crate) fn enforce(&mut self, port: u32, inbound: bool, outbound: bool) {
        let is_changed = self.enforcement(port).map_or((false, false), |of| (of.inbound, of.outbound)) != (inbound, outbound);
        if is_changed {
            let of = self.enforcement_mut(port);
            (of.inbound, of.outbound) = (inbound, outbound);
        }
    }

    fn enforcement(&self, port: u32) -> Option<&Enforcement> {
        at(&self.enforcing, port)
    }

    fn enforcement_mut(&mut self, port: u32) -> &mut Enforcement {
        let ports = self.ports.len();
        self.enforcing.resize_with(ports, || None);
        self.enforcing[port as usize].get_or_insert_default()
    }

    /// Returns the packets that a port's switch did not forward.
    pub(crate) fn unforwarded(&self, port: u32) -> Unforwarded {
        self.unforwarded.get(&port).copied().unwrap_or_default()
    }

    /// Takes a packet with a foreign P_Key that a switch has discarded, with the port that refused it.
    pub(crate) fn take_foreign(&mut self, violation: u32) -> (u32, KeyViolation) {
        self.foreign.take(violation)
    }
}

impl Hop<'_> {
    /// Counts a packet that a switch has not forwarded, where an operator looks for it.
    pub(super) fn count_unforwarded(&mut self, input: u32, packet: &Packet, now: SimTime) {
        let Owner::Switch { switch, index } = self.links.ports[input as usize].owner else { return };
        if at(&self.links.enforcing, input).is_some_and(|of| !of.admits(packet.pkey)) {
            self.links.unforwarded.entry(input).or_default().received_foreign += 1;
            return self.report_foreign(input, packet, now);
        }
        let node = &self.links.switches[switch as usize];
        let entry = node.switch.route(packet.dlid);
        match entry.filter(|output| *output != usize::from(index)) {
            _ if packet.dlid.is_multicast() => {}
            None => {
                let unforwarded = self.links.unforwarded.entry(input).or_default();
                unforwarded.relay += 1;
                unforwarded.looping += u64::from(entry.is_some());
            }
            Some(output) => {
                let output = node.first_port + output as u32;
                if at(&self.links.enforcing, output).is_none_or(|of| of.releases(packet.pkey)) {
                    let port = &mut self.links.ports[output as usize];
                    port.tally.xmit_discards += 1;
                    if port.onward.kind != Onward::NO_LINK && packet.payload_bytes() > u32::from(port.onward.mtu_bytes) {
                        self.links.unforwarded.entry(output).or_default().too_large += 1;
                    }
                } else {
                    self.links.unforwarded.entry(output).or_default().sent_foreign += 1;
                    self.report_foreign(output, packet, now);
                }
            }
        }
    }

    /// Hands a packet with a foreign P_Key to the agent of the switch.
    fn report_foreign(&mut self, port: u32, packet: &Packet, now: SimTime) {
        let Packet { slid, dlid, service_level, source, destination, .. } = *packet;
        let violation = KeyViolation { key: ViolatedKey::Partition(packet.pkey), slid, dlid, service_level, source, destination };
        let violation = self.links.foreign.insert((port, violation));
        self.timeline.push(now, self.links.ports[port as usize].node, Event::ForeignAtSwitch { violation });
    }
}
