//! The room of links: ports, switches, and the packets between HCAs.
//!
//! A packet's hop also needs the timeline, the fault plan and the subnet's lanes: see [`Hop`].

mod audit;
mod capture;
mod configure;
mod construct;
mod counters;
mod deadlock;
mod elsewhere;
mod enforcement;
mod ethernet;
mod forwarding;
mod lane15;
mod losses;
mod marking;
mod multicast;
mod parcel;
mod paths;
mod port;
mod sending;
mod trains;
mod transit;
mod tx_pending;

pub(crate) use capture::Leg;
pub use capture::PacketSink;
pub use counters::{EthernetCounters, PortCounters};
pub use deadlock::Starved;
pub use elsewhere::CarriedElsewhere;
pub use parcel::Parcel;
pub(crate) use port::Cabling;
pub(crate) use trains::{Arrived, Light, LightPacket, Load, Silent, Staged, Stay};
pub(crate) use transit::{Departing, Transit};

use crate::faults::Faults;
use crate::numbering::Owner;
use crate::pdes::timeline::Timeline;
use crate::slab::Slab;
use crate::subnet::Subnet;
use port::Port;
use softband_model::link::Framing;
use softband_model::management::agent::KeyViolation;
use softband_model::packet::{Packet, PacketPool};
use softband_model::switch::{LifetimeCode, MarkingSettings, Switch};
use softband_sim::SimDuration;
use softband_types::{Lid, Mtu, PortNumber, VirtualLane};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Ports, switches, and the packets on links and in switches.
pub(crate) struct Links {
    /// Ports of all HCAs, then of all switches.
    ports: Vec<Port>,
    switches: Vec<SwitchNode>,
    packets: Slab<Transit>,
    packet_pool: PacketPool,
    trains: trains::Trains,
    lane15: lane15::Lane15,
    /// Copies of multicast packets that are still in a switch.
    copies_left: Slab<u32>,
    /// Ports whose packets have waited so long that the whole fabric needs a deadlock check.
    deadlock_checks: Vec<u32>,
    /// Ports with new limits for packets that wait, until [`Hop::watch_new_limits`].
    new_limits: Vec<u32>,
    /// Reported cycles of output ports and lanes that wait for each other.
    deadlocks_told: Vec<Vec<(u32, u8)>>,
    /// Parcels for each other partition.
    outboxes: Vec<Vec<Parcel>>,
    /// How switches mark packets; `None` without congestion control.
    marking: Option<MarkingSettings>,
    /// `None` while nobody captures packets.
    capture: Option<Box<capture::Capture>>,
    elsewhere: elsewhere::Elsewhere,
    /// Ports of switches with partition keys of their own. Empty while no manager has written any.
    enforcing: enforcement::Enforcing,
    unforwarded: BTreeMap<u32, enforcement::Unforwarded>,
    /// Ports whose links have trained to another rate.
    retrained: BTreeMap<u32, counters::Retrained>,
    /// Packets with a foreign P_Key, with the port that refused them, until their events.
    foreign: Slab<(u32, KeyViolation)>,
    /// The smallest MTU of all links, until one of them changes.
    mtu_least: OnceLock<Option<Mtu>>,
    /// Names of the nodes in the fabric file's notation: `a/mthca0`, `sw`.
    names: Vec<String>,
}

struct SwitchNode {
    switch: Switch,
    first_port: u32,
    buffer_hold: SimDuration,
    /// The longest stay of a packet in the switch.
    packet_lifetime: LifetimeCode,
}

/// The rooms that a packet's hop needs: links, time, faults, and the subnet's lanes.
pub(crate) struct Hop<'a> {
    pub links: &'a mut Links,
    pub timeline: &'a mut Timeline,
    pub faults: &'a mut Faults,
    pub subnet: &'a Subnet,
}

impl Links {
    /// Returns the cable of a port; `None` without one.
    #[inline]
    pub(crate) fn cabling(&self, port: u32) -> Option<Cabling> {
        self.ports[port as usize].cabling
    }

    /// Returns the framing of a port's packets.
    #[inline]
    pub(crate) fn framing(&self, port: u32) -> Framing {
        self.ports[port as usize].framing
    }

    /// Returns the node of a port.
    pub(crate) fn node(&self, port: u32) -> u32 {
        self.ports[port as usize].node
    }

    /// Checks whether packets of a lane can leave by a port: it has a cable, and the lane sends.
    #[inline]
    pub(crate) fn can_send(&self, port: u32, lane: VirtualLane) -> bool {
        let port = &self.ports[port as usize];
        port.cabling.is_some() && !port.is_blocked && port.arbiter.sends_on(lane)
    }

    /// Checks whether a port sends packets of a lane.
    #[inline]
    pub(crate) fn sends_on(&self, port: u32, lane: VirtualLane) -> bool {
        self.ports[port as usize].arbiter.sends_on(lane)
    }

    /// Returns the smallest MTU of all links.
    pub(crate) fn mtu_least(&self) -> Option<Mtu> {
        let least = || self.ports.iter().filter_map(|port| port.cabling.map(|cabling| cabling.mtu)).min();
        *self.mtu_least.get_or_init(least)
    }

    /// Returns the number of packets that started to cross a link from the nodes of this partition.
    pub(crate) fn packets_sent(&self, timeline: &Timeline) -> u64 {
        let ports = self.ports.iter().enumerate().filter(|(_, port)| timeline.has_node(port.node));
        ports.map(|(id, port)| port.sent.packets + self.passed_unseen(id as u32, timeline.happened_until()).packets).sum()
    }

    /// Lets trains form as soon as they can.
    pub(crate) fn seek_trains(&mut self) {
        self.trains.be_eager();
    }

    /// Returns the number of passages of packets through switches without an event.
    pub(crate) fn passages_in_trains(&self) -> u64 {
        self.trains.passages()
    }

    /// Returns the number of arrivals of packets at HCAs without an event.
    pub(crate) fn silent_arrivals(&self) -> u64 {
        self.trains.silent_arrivals()
    }

    /// Returns all packets in flight.
    pub(crate) fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter().map(|transit| &*transit.packet)
    }

    pub(crate) fn packets_under_way(&self) -> usize {
        self.packets.len()
    }

    /// Returns a packet in flight by its number.
    #[inline]
    pub(crate) fn in_flight(&mut self, packet: u32) -> &mut Transit {
        self.packets.get_mut(packet)
    }

    #[inline]
    pub(crate) fn add(&mut self, transit: Transit) -> u32 {
        self.packets.insert(transit)
    }

    #[inline]
    pub(crate) fn take(&mut self, packet: u32) -> Transit {
        self.packets.take(packet)
    }

    /// Returns the boxes of packets that are gone, for new packets.
    #[inline]
    pub(crate) fn packet_pool(&mut self) -> &mut PacketPool {
        &mut self.packet_pool
    }

    /// Counts packets that an HCA's port discarded instead of sending.
    pub(crate) fn count_discards(&mut self, port: u32, packets: u64) {
        self.ports[port as usize].tally.xmit_discards += packets;
    }

    /// Counts a packet that arrived with a FECN.
    pub(crate) fn count_fecn(&mut self, port: u32) {
        self.ports[port as usize].tally.rcv_fecn += 1;
    }

    /// Counts a packet that arrived with a BECN.
    pub(crate) fn count_becn(&mut self, port: u32) {
        self.ports[port as usize].tally.rcv_becn += 1;
    }

    /// Returns the name of a node in the fabric file's notation: `a/mthca0`, `sw`.
    fn name_of_node(&self, node: u32) -> &str {
        &self.names[node as usize]
    }

    /// Returns the name of a port in the fabric file's notation: `a/mthca0/1`, `sw/1`.
    pub(crate) fn name_of_port(&self, id: u32) -> String {
        let port = &self.ports[id as usize];
        format!("{}/{}", self.name_of_node(port.node), port.number.0)
    }

    /// Sets the output of a switch for a LID.
    pub(crate) fn set_route(&mut self, switch: usize, lid: Lid, output: u8) {
        self.switches[switch].switch.set_route(lid, output);
    }

    /// Removes the output of a switch for a LID.
    pub(crate) fn clear_route(&mut self, switch: usize, lid: Lid) {
        self.switches[switch].switch.clear_route(lid);
    }

    /// Returns the index of a switch's output for a LID, from 0.
    pub(crate) fn route(&self, switch: usize, lid: Lid) -> Option<u8> {
        self.switches[switch].switch.route(lid).map(|output| output as u8)
    }

    /// Returns the indices of a switch's outputs for a multicast LID, from 0.
    pub(crate) fn multicast_outputs(&self, switch: usize, mlid: Lid) -> Vec<u8> {
        self.switches[switch].switch.multicast_outputs(mlid)
    }

    /// Adds or removes an output of a switch, with an index from 0, for a multicast LID.
    pub(crate) fn set_multicast_output(&mut self, switch: usize, mlid: Lid, output: u8, is_member: bool) {
        let switch = &mut self.switches[switch].switch;
        if is_member { switch.add_multicast_output(mlid, output) } else { switch.remove_multicast_output(mlid, output) }
    }

    /// Returns the number of a port at its node.
    pub(crate) fn number(&self, id: u32) -> PortNumber {
        self.ports[id as usize].number
    }

    fn is_switch_port(&self, id: u32) -> bool {
        matches!(self.ports[id as usize].owner, Owner::Switch { .. })
    }

    /// Checks that nothing is left on the links.
    ///
    /// # Panics
    /// Panics if a link's sender lacks credits although nothing is in flight.
    pub(crate) fn assert_credits_are_back(&self) {
        for (id, port) in self.ports.iter().enumerate().filter(|(_, port)| port.cabling.is_some()) {
            for lane in (0..15).map(VirtualLane) {
                let unnoted = self.unnoted_blocks(id as u32, lane);
                let returned = self.ports[port.far_end as usize].returns.blocks(lane) + unnoted;
                let missing = port.flow_control.blocks_missing(lane, returned, || port.stored(lane));
                assert_eq!(missing, 0, "node {} port {:?} {lane:?}", port.node, port.number);
            }
        }
    }
}
