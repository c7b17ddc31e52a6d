//! Ports with several LIDs.

use crate::common::*;
use crate::desk::*;
use crate::equality::{assert_equal, generated};
use crate::unmanaged::{configure, set_port, unmanaged};
use softband_fabric::World;
use softband_model::verbs::api::{AddressVector, DatagramDestination, QpModification, SendOperation};
use softband_spec::FabricSpec;
use softband_types::*;
use softband_wire::mad::*;

const TREE: &str = "kind = \"fat-tree\"\nhosts = 8\nports = 4\nlevels = 3";
const TORUS: &str = "kind = \"torus\"\ndimensions = [3, 3]";

fn with_lmc(lmc: u8, routing: &str, form: &str) -> FabricSpec {
    generated(&format!("[subnet]\nlmc = {lmc}\nrouting = \"{routing}\"\n[generate]\n{form}\n"))
}

fn lids(world: &World, host: usize) -> PortLids {
    let port = world.port(world.hca_id(host, 0), PORT_1).unwrap();
    PortLids { base: port.lid, lmc: port.lmc }
}

#[test]
fn both_ways_to_configure_a_fabric_give_the_same_lids_and_routes() {
    for (routing, form) in [("minimum-hop", TREE), ("fat-tree", TREE), ("up-down", TREE), ("torus", TORUS), ("dimension-order", TORUS)] {
        for lmc in [1, 3] {
            let spec = with_lmc(lmc, routing, form);
            assert_equal(&format!("{routing} with LMC {lmc}"), &spec);
            let world = World::new(&spec, 1);
            assert_eq!(lids(&world, 0), PortLids { base: Lid(1 << lmc), lmc: Lmc::new(lmc).unwrap() });
            assert_eq!(lids(&world, 2), PortLids { base: Lid(3 << lmc), lmc: Lmc::new(lmc).unwrap() });
        }
    }
}

/// Returns the ports of switches by which the first host's packets leave for a LID of the last.
fn ways(spec: &FabricSpec, path: u16) -> Vec<String> {
    let mut lab = Lab::new(spec);
    let last = spec.hosts.len() - 1;
    let to = Lid(lab.programs[last].lid.0 + path);
    let (a, b) = (lab.create(0, QpType::Rc), lab.create(last, QpType::Rc));
    let towards = |modification: &mut QpModification, dlid| {
        if let Some(vector) = &mut modification.address_vector {
            vector.dlid = dlid;
        }
    };
    lab.bring_up(0, a, QpType::Rc, (last, b), |modification| towards(modification, to));
    let from = lab.programs[0].lid;
    lab.bring_up(last, b, QpType::Rc, (0, a), |modification| towards(modification, from));
    for number in 0..10 {
        let request = lab.request(0, number, lab.write_to(last, 0), 0, 4_096);
        lab.send(0, a, request);
    }
    lab.run();
    assert_eq!(lab.statuses(0), (0..10).map(|number| (number, WcStatus::Success)).collect::<Vec<_>>());
    let counters = lab.world.counters();
    let is_way = |port: &&softband_fabric::PortCounters| spec.switches.iter().any(|switch| switch.name == port.node) && port.port_xmit_pkts >= 20;
    counters.iter().filter(is_way).map(|port| format!("{}/{}", port.node, port.port.0)).collect()
}

#[test]
fn the_lids_of_a_port_have_routes_of_their_own() {
    for routing in ["minimum-hop", "fat-tree", "up-down"] {
        let spec = with_lmc(2, routing, TREE);
        let all: std::collections::BTreeSet<_> = (0..4).map(|path| ways(&spec, path)).collect();
        assert!(all.len() > 1, "{routing}: {all:?}");
        assert!(all.iter().all(|way| way.len() == 5), "{routing}: each is a shortest route: {all:?}");
    }
    // An order of dimensions has a single route.
    let spec = with_lmc(1, "dimension-order", TORUS);
    assert_eq!(ways(&spec, 0), ways(&spec, 1));
}

#[test]
fn path_bits_of_a_sender_are_in_its_source_lid() {
    let mut spec = through_switch(LinkSpeed::Sdr, &[1, 1], 4, host_part(600, 300));
    spec.subnet.lmc = Lmc::new(2).unwrap();
    let mut lab = Lab::new(&spec);
    let (a, b) = (lab.create(0, QpType::Ud), lab.create(1, QpType::Ud));
    for (who, qpn) in [(0, a), (1, b)] {
        lab.bring_up(who, qpn, QpType::Ud, (1 - who, qpn), |_| ());
    }
    let own = lab.programs[0];
    // Bits beyond the LMC have no effect.
    let vector = AddressVector { dlid: Lid(lab.programs[1].lid.0 + 3), port: PORT_1, source_path_bits: 0x12, ..Default::default() };
    let ah = lab.world.create_ah(own.process, own.pd, vector).unwrap();
    lab.receive(1, b, 7, 0, 1_024);
    let to = DatagramDestination { ah, remote_qpn: b, remote_qkey: QKey(0x1111) };
    let mut request = lab.request(0, 1, SendOperation::Send { immediate: None }, 0, 64);
    request.datagram = Some(to);
    lab.send(0, a, request);
    lab.run();
    let received = lab.completions(1).pop().expect("a datagram");
    assert_eq!((received.source_lid, received.destination_lid), (Lid(own.lid.0 + 2), Lid(lab.programs[1].lid.0 + 3)));
    assert_eq!(lab.world.path_bits(received.destination_lid), 3);
}

#[test]
fn subnet_administration_returns_all_paths() {
    let mut spec = through_switch(LinkSpeed::Sdr, &[1, 1, 1], 4, host_part(600, 300));
    spec.subnet.lmc = Lmc::new(1).unwrap();
    let mut desk = Desk::new(&spec);
    let wanted = PathRecord { sgid: desk.gid(1), dgid: desk.gid(2), ..PathRecord::default() };
    let ends = ComponentMask::PATH_SGID | ComponentMask::PATH_DGID;
    let pairs = |records: &[PathRecord]| records.iter().map(|record| (record.slid.0, record.dlid.0)).collect::<Vec<_>>();
    let all: Vec<PathRecord> = desk.table(AttributeId::PATH_RECORD, ends, &wanted, Method::GET_TABLE);
    // The first pairs share no LID.
    assert_eq!(pairs(&all), [(4, 6), (5, 7), (4, 7), (5, 6)]);
    assert!(all.iter().all(|record| (record.sgid, record.dgid) == (wanted.sgid, wanted.dgid)));
    let few = PathRecord { numb_path: 2, ..wanted };
    let few: Vec<PathRecord> = desk.table(AttributeId::PATH_RECORD, ends | ComponentMask::PATH_NUMB_PATH, &few, Method::GET_TABLE);
    assert_eq!(pairs(&few), [(4, 6), (5, 7)]);
    // A single answer has the first path.
    let (status, one) = desk.administer(Method::GET, AttributeId::PATH_RECORD, ends, &wanted);
    assert_eq!((status, one.slid, one.dlid), (Status::SUCCESS, Lid(4), Lid(6)));
    let by_lid = PathRecord { slid: Lid(5), dlid: Lid(7), ..PathRecord::default() };
    let by_lid: Vec<PathRecord> =
        desk.table(AttributeId::PATH_RECORD, ComponentMask::PATH_SLID | ComponentMask::PATH_DLID, &by_lid, Method::GET_TABLE);
    assert_eq!(pairs(&by_lid), [(5, 7)]);
    // Records of ports have the first LID, whichever the request names.
    let node = NodeRecord { lid: Lid(5), ..NodeRecord::default() };
    let nodes: Vec<NodeRecord> = desk.table(AttributeId::NODE_RECORD, ComponentMask::NODE_LID, &node, Method::GET_TABLE);
    assert_eq!(nodes.iter().map(|node| node.lid).collect::<Vec<_>>(), [Lid(4)]);
}

#[test]
fn a_manager_gives_a_port_several_lids() {
    let mut desk = Desk::new(&unmanaged());
    configure(&mut desk, OperationalVlsCode::VL0);
    let several = |desk: &mut Desk, base, lmc| {
        let mut info: PortInfo = desk.get(&[1, 2], AttributeId::PORT_INFO, 1);
        (info.port_state, info.lid, info.lmc) = (PortState::NO_CHANGE, Lid(base), lmc);
        let (_, mad) = desk.ask(&[1, 2], Method::SET, AttributeId::PORT_INFO, 1, info.to_bytes()).unwrap();
        Status(DirectedSmp::view(&mad).status())
    };
    assert_eq!(several(&mut desk, 18, 2), Status::INVALID_FIELD, "the low bits of a base are 0");
    assert_eq!(several(&mut desk, 16, 2), Status::SUCCESS);
    assert_eq!(lids(&desk.world, 1), PortLids { base: Lid(16), lmc: Lmc::new(2).unwrap() });
    set_port(&mut desk, &[1], 0, |info| info.lmc = 0);
    let mut switch: PortInfo = desk.get(&[1], AttributeId::PORT_INFO, 0);
    (switch.lmc, switch.port_state) = (1, PortState::NO_CHANGE);
    let (_, mad) = desk.ask(&[1], Method::SET, AttributeId::PORT_INFO, 0, switch.to_bytes()).unwrap();
    assert_eq!(Status(DirectedSmp::view(&mad).status()), Status::INVALID_FIELD, "port 0 of a switch has a single LID");
    let mut table: LinearForwardingTable = desk.get(&[1], AttributeId::LINEAR_FORWARDING_TABLE, 0);
    table.ports[16..20].fill(PortNumber(2));
    desk.ask(&[1], Method::SET, AttributeId::LINEAR_FORWARDING_TABLE, 0, table.to_bytes()).unwrap();
    // A packet to each of the LIDs reaches the port's agents. None reaches the LID beyond.
    for lid in 16..20 {
        assert!(desk.performance(Lid(lid), Method::GET, AttributeId::PORT_COUNTERS, &[0, 1]).is_some(), "{lid}");
    }
    assert!(desk.performance(Lid(20), Method::GET, AttributeId::PORT_COUNTERS, &[0, 1]).is_none());
    assert_eq!(several(&mut desk, 2, 0), Status::SUCCESS);
    assert_eq!(lids(&desk.world, 1), PortLids { base: Lid(2), lmc: Lmc::ZERO });
}
