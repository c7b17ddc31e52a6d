mod problems;
mod wire;

use super::*;
use crate::link::{ArbitrationTables, Sl2Vl, WeightedLane};
use crate::management::Routing;
use crate::management::agent::{LinkState, NodeKind};
use softband_types::{Mtu, PKey, VirtualLane};
use softband_wire::mad::{Header, Layout, Method};
use wire::{Registers, Wire, vls};

const HCA: NodeKind = NodeKind::Hca;
const SWITCH: NodeKind = NodeKind::Switch;

/// Three switches in a ring, with two HCAs at each. HCA 0 has the manager. GUIDs descend, so the
/// order of nodes is not that of their discovery.
fn ring() -> Wire {
    let mut nodes: Vec<(NodeKind, u8, u64)> = (0..6).map(|hca| (HCA, 1, 0x100 - 0x10 * hca)).collect();
    nodes.extend((0..3).map(|switch| (SWITCH, 4, 0x300 - switch)));
    let mut cables = Vec::new();
    for switch in 0..3 {
        cables.extend([((2 * switch, 1), (6 + switch, 1)), ((2 * switch + 1, 1), (6 + switch, 2))]);
        cables.push(((6 + switch, 4), (6 + (switch + 1) % 3, 3)));
    }
    Wire::new(&nodes, &cables)
}

fn with_tables() -> Configuration {
    let classes = |weight| PortClasses {
        tables: ArbitrationTables {
            high: vec![WeightedLane { lane: VirtualLane(1), weight }],
            low: vec![WeightedLane { lane: VirtualLane(0), weight: 4 }; 40],
            high_limit: 3,
        },
        sl2vl: Sl2Vl::new([0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]).unwrap(),
    };
    Configuration {
        order: vec![Guid(0x100), Guid(0xF0)],
        hca: Some(classes(10)),
        switch: Some(classes(20)),
        pkeys: BTreeMap::from([(Guid(0x101), vec![PKey(0xFFFF), PKey(0x8005)])]),
        max_op_vls: vls(2),
        mtu_max: Mtu::B2048,
        ..Configuration::default()
    }
}

fn swept(mut wire: Wire, configuration: Configuration) -> (Wire, Manager) {
    let mut manager = Manager::new(configuration, 1);
    wire.run(&mut manager);
    (wire, manager)
}

fn states(wire: &Wire) -> Vec<LinkState> {
    wire.agents.iter().map(|agent| agent.link_state(PortNumber(1))).collect()
}

#[test]
fn lids_follow_the_order_and_then_the_guids() {
    let (wire, manager) = swept(ring(), with_tables());
    assert_eq!(manager.problems(), []);
    let lids = |port: u8| move |of: &Registers| of.lids.get(&port).map(|lids| lids.base.0);
    // The configuration names the first two. The others ascend.
    let hcas: Vec<_> = wire.registers[..6].iter().map(lids(1)).collect();
    assert_eq!(hcas, [1, 2, 6, 5, 4, 3].map(Some));
    let switches: Vec<_> = wire.registers[6..].iter().map(lids(0)).collect();
    assert_eq!(switches, [9, 8, 7].map(Some));
    assert!(wire.agents.iter().all(|agent| agent.manager_lid(PortNumber(u8::from(agent.ports() == 1))) == Lid(1)));
}

#[test]
fn a_sweep_makes_links_active_with_routes_and_tables() {
    let (wire, manager) = swept(ring(), with_tables());
    assert!(manager.is_idle());
    assert_eq!(states(&wire), [LinkState::Active; 9]);
    let own = &wire.registers[6];
    assert_eq!([1, 2, 6, 5, 4, 3].map(|lid| own.routes[&Lid(lid)]), [1, 2, 4, 4, 3, 3]);
    assert_eq!([7, 8, 9].map(|lid| own.routes[&Lid(lid)]), [3, 4, 0]);
    assert!(wire.registers.iter().flat_map(|of| of.links.values()).all(|link| *link == (Mtu::B2048, vls(2))));
    assert_eq!(wire.registers[0].pkeys[&1], [PKey(0xFFFF), PKey(0x8005)]);
    assert_eq!(wire.registers[1].pkeys[&1], [PKey(0xFFFF)]);
    let weights = |node: usize, port: u8| wire.registers[node].weights[&port].clone();
    assert_eq!((weights(0, 1).high[0].weight, weights(6, 4).high[0].weight), (10, 20));
    assert_eq!(weights(6, 4).low.iter().filter(|line| line.weight > 0).count(), 40);
    assert_eq!((weights(6, 4).high_limit, wire.registers[6].lanes.len()), (3, 16));
    assert_eq!(wire.registers[6].lanes[&(1, 4)][..2], [0, 1]);
}

#[test]
fn a_second_sweep_writes_nothing() {
    let (mut wire, mut manager) = swept(ring(), with_tables());
    let (before, first) = (wire.registers.clone(), manager.tally());
    wire.run(&mut manager);
    let second = manager.tally();
    assert_eq!((wire.registers == before, second.sweeps), (true, 2));
    // Nodes behind 14 ports, names, ports of six HCAs, and three switches with five ports each.
    let reads = 14 + 9 + 6 + 3 * (1 + 5);
    assert_eq!(second.sent - first.sent, reads);
}

#[test]
fn a_lossy_wire_changes_the_number_of_requests_only() {
    let (sound, _) = swept(ring(), with_tables());
    for seed in 0..20 {
        let configuration = Configuration { retries: 40, window: 1 + seed as usize, ..with_tables() };
        let (wire, manager) = swept(ring().seeded(seed, 100_000), configuration);
        assert_eq!(manager.problems(), [], "seed {seed}");
        assert!(manager.tally().sent_again > 0, "seed {seed}");
        assert!(wire.registers == sound.registers, "seed {seed}");
        assert_eq!(states(&wire), states(&sound), "seed {seed}");
    }
}

#[test]
fn a_very_lossy_wire_ends_with_a_list_of_problems() {
    for seed in 0..20 {
        let (_, manager) = swept(ring().seeded(seed, 500_000), with_tables());
        assert!(manager.is_idle());
        assert!(!manager.problems().is_empty(), "seed {seed}");
        assert!(manager.tally().sweeps <= 3, "seed {seed}");
    }
}

#[test]
fn hosts_at_one_cable_need_no_switch() {
    let wire = Wire::new(&[(HCA, 2, 0x20), (HCA, 2, 0x10)], &[((0, 1), (1, 2))]);
    let (wire, manager) = swept(wire, Configuration::default());
    assert_eq!(manager.problems(), []);
    assert_eq!((wire.registers[0].lid_of(1), wire.registers[1].lid_of(2)), (Lid(2), Lid(1)));
    assert_eq!((wire.agents[0].manager_lid(PortNumber(1)), wire.agents[1].manager_lid(PortNumber(2))), (Lid(2), Lid(2)));
    assert_eq!(manager.topology().peer(0, PortNumber(1)), Some((1, PortNumber(2))));
    let names: Vec<&str> = manager.topology().nodes().iter().map(Node::description).collect();
    assert_eq!(names, ["node 32", "node 16"]);
}

#[test]
fn a_trap_leads_to_new_routes() {
    let (mut wire, mut manager) = swept(ring(), with_tables());
    let traps = wire.unplug((6, 4));
    assert_eq!(traps.len(), 2, "both switches report the change");
    for trap in &traps {
        manager.handle_packet(0, trap, SimTime::ZERO);
    }
    let (root, repress) = manager.poll_transmit().expect("a reply to the trap");
    assert_eq!((root, Header::view(&repress.mad[..]).method()), (0, Method::TRAP_REPRESS));
    wire.go_on(&mut manager);
    assert_eq!(manager.problems(), []);
    let own = &wire.registers[6];
    assert_eq!([1, 2, 6, 5, 4, 3].map(|lid| own.routes[&Lid(lid)]), [1, 2, 3, 3, 3, 3]);
    // The cable comes back, and its ports with it.
    wire.plug((6, 4), (7, 3));
    wire.run(&mut manager);
    assert_eq!(own_routes(&wire), [1, 2, 4, 4, 3, 3]);
    assert_eq!(wire.agents[7].link_state(PortNumber(3)), LinkState::Active);
}

fn own_routes(wire: &Wire) -> [u8; 6] {
    [1, 2, 6, 5, 4, 3].map(|lid| wire.registers[6].routes[&Lid(lid)])
}

#[test]
fn an_interval_brings_the_next_sweep() {
    let interval = softband_sim::SimDuration::from_micros(10_000_000);
    let mut manager = Manager::new(Configuration { sweep_interval: Some(interval), ..Configuration::default() }, 1);
    assert_eq!(manager.poll_timeout(), None);
    manager.start(SimTime::ZERO);
    let due = manager.poll_timeout().expect("the first request waits for its answer");
    // Nobody answers, so the sweep ends after the retries.
    for _ in 0..4 {
        manager.handle_timeout(manager.poll_timeout().unwrap_or(due));
    }
    assert_eq!((manager.is_idle(), manager.problems()), (true, &[Problem::NoOwnPort(0)][..]));
    assert_eq!(manager.poll_timeout(), Some(SimTime::ZERO + Configuration::default().timeout * 4 + interval));
}

#[test]
fn switches_copy_packets_of_a_group_to_its_members() {
    let (mut wire, mut manager) = swept(ring(), with_tables());
    let mlid = Lid(0xC021);
    let member = |hca: u64| (Guid(0x100 - 0x10 * hca), PortNumber(1));
    manager.set_members(mlid, [member(0), member(2), member(4)], SimTime::ZERO);
    wire.go_on(&mut manager);
    let outputs = |wire: &Wire, switch: usize| wire.registers[6 + switch].multicast(mlid);
    assert_eq!((outputs(&wire, 0), outputs(&wire, 1), outputs(&wire, 2)), (vec![1, 3, 4], vec![1, 3], vec![1, 4]));
    manager.set_members(mlid, [member(0), member(1)], SimTime::ZERO);
    wire.go_on(&mut manager);
    assert_eq!((outputs(&wire, 0), outputs(&wire, 1), outputs(&wire, 2)), (vec![1, 2], vec![], vec![]));
}

#[test]
fn a_routing_engine_that_does_not_suit_gives_way_to_minimum_hops() {
    let (wire, manager) = swept(ring(), Configuration { routing: Routing::FatTree, ..with_tables() });
    assert!(matches!(manager.problems(), [Problem::Unroutable { .. }]));
    assert_eq!(own_routes(&wire), [1, 2, 4, 4, 3, 3]);
}

impl Registers {
    fn lid_of(&self, port: u8) -> Lid {
        self.lids.get(&port).copied().unwrap_or_default().base
    }

    fn multicast(&self, mlid: Lid) -> Vec<u8> {
        self.groups.get(&mlid).into_iter().flatten().copied().collect()
    }
}
