//! Nodes with their agents, on wires that lose packets.

use crate::link::{ArbitrationTables, Sl2Vl};
use crate::management::ManagementPacket;
use crate::management::agent::{Agent, Hardware, LinkView, NodeFacts, NodeKind, Onward, Tally};
use crate::management::manager::Manager;
use softband_sim::{RandomStream, SimDuration, SimTime};
use softband_types::*;
use std::collections::{BTreeMap, BTreeSet};

const HOP: SimDuration = SimDuration::from_micros(1);
/// Events after which a test gives up.
const EVENTS_MAX: usize = 1_000_000;

/// Node and port.
type End = (usize, u8);
/// Destination of a packet, and the packet.
type UnderWay = (Option<End>, ManagementPacket);

/// Registers of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Registers {
    pub(super) lids: BTreeMap<u8, PortLids>,
    pub(super) links: BTreeMap<u8, (Mtu, OperationalVls)>,
    pub(super) active: BTreeSet<u8>,
    pub(super) routes: BTreeMap<Lid, u8>,
    pub(super) groups: BTreeMap<Lid, BTreeSet<u8>>,
    pub(super) pkeys: BTreeMap<u8, Vec<PKey>>,
    pub(super) lanes: BTreeMap<(u8, u8), [u8; 16]>,
    pub(super) weights: BTreeMap<u8, ArbitrationTables>,
    up: BTreeSet<u8>,
}

impl Hardware for Registers {
    fn link(&self, port: u8) -> Option<LinkView> {
        let (mtu, vls) = self.links.get(&port).copied().unwrap_or((Mtu::B4096, vls(4)));
        let rate = LinkRate { width: LinkWidth::X4, speed: LinkSpeed::Edr };
        self.up.contains(&port).then_some(LinkView { rate, mtu, vls })
    }
    fn configure(&mut self, port: u8, mtu: Mtu, vls: OperationalVls) {
        self.links.insert(port, (mtu, vls));
    }
    fn let_data_pass(&mut self, port: u8, passes: bool) {
        if passes {
            self.active.insert(port);
        } else {
            self.active.remove(&port);
        }
    }
    fn lids(&self, port: u8) -> PortLids {
        self.lids.get(&port).copied().unwrap_or_default()
    }
    fn set_lids(&mut self, port: u8, lids: PortLids) {
        self.lids.insert(port, lids);
    }
    fn route(&self, lid: Lid) -> Option<u8> {
        self.routes.get(&lid).copied()
    }
    fn set_route(&mut self, lid: Lid, output: Option<u8>) {
        match output {
            Some(output) => self.routes.insert(lid, output),
            None => self.routes.remove(&lid),
        };
    }
    fn multicast_outputs(&self, mlid: Lid) -> Vec<u8> {
        self.groups.get(&mlid).into_iter().flatten().copied().collect()
    }
    fn pkeys(&self, port: u8) -> Vec<PKey> {
        self.pkeys.get(&port).cloned().unwrap_or_default()
    }
    fn lanes(&self, input: u8, output: u8) -> Sl2Vl {
        self.lanes.get(&(input, output)).and_then(|lanes| Sl2Vl::new(*lanes)).unwrap_or(Sl2Vl::IDENTITY)
    }
    fn set_multicast_outputs(&mut self, mlid: Lid, first: u8, mask: u16) {
        let group = self.groups.entry(mlid).or_default();
        group.retain(|port| !(first..first + 16).contains(port));
        group.extend((0..16).filter(|bit| mask & 1 << bit != 0).map(|bit| first + bit));
    }
    fn set_pkeys(&mut self, port: u8, keys: Vec<PKey>) {
        self.pkeys.insert(port, keys);
    }
    fn enforce_partitions(&mut self, _port: u8, _inbound: bool, _outbound: bool) {}
    fn set_lanes(&mut self, input: u8, output: u8, lanes: Sl2Vl) {
        self.lanes.insert((input, output), *lanes.lanes());
    }
    fn set_weights(&mut self, port: u8, tables: &ArbitrationTables) {
        self.weights.insert(port, tables.clone());
    }
    fn tally(&self, _port: u8) -> Tally {
        Tally::default()
    }
}

pub(super) fn vls(code: u8) -> OperationalVls {
    OperationalVls::from_code(code).unwrap()
}

/// Nodes and cables. Node 0 is an HCA, with the manager at its port 1.
pub(super) struct Wire {
    pub(super) agents: Vec<Agent>,
    pub(super) registers: Vec<Registers>,
    cables: BTreeMap<End, End>,
    /// Packets under way, by time and number: to the manager, or to a port of a node.
    packets: BTreeMap<(SimTime, usize), UnderWay>,
    count: usize,
    now: SimTime,
    random: RandomStream,
    pub(super) loss_ppm: u64,
    /// Nodes that discard all, from a number of packets on.
    pub(super) dead: BTreeMap<usize, usize>,
}

impl Wire {
    /// Makes nodes of these kinds, ports and GUIDs, and cables between their ports.
    pub(super) fn new(nodes: &[(NodeKind, u8, u64)], cables: &[(End, End)]) -> Self {
        let facts = |(kind, ports, guid): &(NodeKind, u8, u64)| NodeFacts {
            kind: *kind,
            description: format!("node {guid}"),
            guid: Guid(*guid),
            ports: *ports,
            vendor_id: 1,
            device_id: 2,
            revision: 3,
            mtu_max: Mtu::B4096,
            vl_cap: vls(4),
            port_buffer_bytes: 1 << 20,
            widths: vec![LinkWidth::X4],
            speeds: vec![LinkSpeed::Edr],
            packet_lifetime: 18,
            head_lifetimes: Vec::new(),
            weights: vec![None; usize::from(*ports)],
        };
        let mut wire = Self {
            agents: nodes.iter().map(|node| Agent::new(facts(node), None)).collect(),
            registers: vec![Registers::default(); nodes.len()],
            cables: BTreeMap::new(),
            packets: BTreeMap::new(),
            count: 0,
            now: SimTime::ZERO,
            random: RandomStream::new(1, 0),
            loss_ppm: 0,
            dead: BTreeMap::new(),
        };
        for (a, b) in cables {
            wire.plug(*a, *b);
        }
        wire
    }

    pub(super) fn plug(&mut self, a: (usize, u8), b: (usize, u8)) {
        for (near, far) in [(a, b), (b, a)] {
            self.cables.insert(near, far);
            self.registers[near.0].up.insert(near.1);
        }
    }

    /// Takes a cable out. Returns the traps that its ends send.
    pub(super) fn unplug(&mut self, end: (usize, u8)) -> Vec<ManagementPacket> {
        let Some(far) = self.cables.remove(&end) else { return Vec::new() };
        self.cables.remove(&far);
        let mut traps = Vec::new();
        for (node, port) in [end, far] {
            self.registers[node].up.remove(&port);
            self.agents[node].restart_port(PortNumber(port), self.now);
            traps.extend(self.agents[node].take_traps(self.now, &self.registers[node]).into_iter().map(|(_, trap)| *trap));
        }
        traps
    }

    pub(super) fn seeded(mut self, seed: u64, loss_ppm: u64) -> Self {
        (self.random, self.loss_ppm) = (RandomStream::new(seed, 0), loss_ppm);
        self
    }

    /// Runs a manager until it is idle and no packet is under way.
    pub(super) fn run(&mut self, manager: &mut Manager) {
        manager.start(self.now);
        self.go_on(manager);
    }

    pub(super) fn go_on(&mut self, manager: &mut Manager) {
        for _ in 0..EVENTS_MAX {
            while let Some((root, packet)) = manager.poll_transmit() {
                assert_eq!(root, 0);
                self.send(*packet);
            }
            let arrival = self.packets.first_key_value().map(|((at, _), _)| *at);
            let due = manager.poll_timeout().filter(|at| arrival.is_none_or(|arrival| *at < arrival));
            if let Some(at) = due {
                self.now = self.now.max(at);
                manager.handle_timeout(self.now);
                continue;
            }
            let Some(((at, _), (to, packet))) = self.packets.pop_first() else { return };
            self.now = at;
            match to {
                None => {
                    manager.handle_packet(0, &packet, at);
                }
                Some(end) => self.arrive(end, packet),
            }
        }
        panic!("the manager does not end");
    }

    fn send(&mut self, mut packet: ManagementPacket) {
        let onward = self.agents[0].send(&mut packet, PortNumber(1), self.now, &mut self.registers[0]);
        self.follow(0, onward, packet);
    }

    fn arrive(&mut self, (node, port): (usize, u8), mut packet: ManagementPacket) {
        if self.dead.get(&node).is_some_and(|from| self.count >= *from) {
            return;
        }
        let onward = self.agents[node].receive(&mut packet, PortNumber(port), self.now, &mut self.registers[node]);
        self.follow(node, onward, packet);
    }

    fn follow(&mut self, node: usize, onward: Onward, packet: ManagementPacket) {
        self.count += 1;
        let at = (self.now + HOP, self.count);
        match onward {
            Onward::Nowhere | Onward::Lid => {}
            Onward::Host if node == 0 => {
                self.packets.insert(at, (None, packet));
            }
            Onward::Host => {}
            Onward::Port(port) => {
                let far = self.cables.get(&(node, port.0)).copied();
                if let Some(far) = far
                    && self.random.next_u64() % 1_000_000 >= self.loss_ppm
                {
                    self.packets.insert(at, (Some(far), packet));
                }
            }
        }
    }
}
