//! Subnets with faults: each gives a clear problem, and the rest of the subnet works.

use super::*;
use softband_wire::mad::{Header, Layout, Method};

/// A switch with HCAs at its first ports.
fn star(hcas: usize) -> Wire {
    let mut nodes: Vec<(NodeKind, u8, u64)> = (0..hcas as u64).map(|hca| (HCA, 1, 0x10 * (hca + 1))).collect();
    nodes.push((SWITCH, 8, 0x1000));
    let cables: Vec<_> = (0..hcas).map(|hca| ((hca, 1), (hcas, hca as u8 + 1))).collect();
    Wire::new(&nodes, &cables)
}

fn at(guid: u64, port: u8) -> Place {
    Place { guid: Guid(guid), port: PortNumber(port) }
}

#[test]
fn two_hcas_with_one_guid_are_a_problem_of_the_second() {
    let nodes = [(HCA, 1, 0x10), (HCA, 1, 0x20), (HCA, 1, 0x20), (SWITCH, 8, 0x1000)];
    let wire = Wire::new(&nodes, &[((0, 1), (3, 1)), ((1, 1), (3, 2)), ((2, 1), (3, 3))]);
    let (wire, manager) = swept(wire, Configuration::default());
    assert_eq!(manager.problems(), [Problem::DuplicateGuid { guid: Guid(0x20), place: at(0x1000, 3) }]);
    assert_eq!([0, 1, 2].map(|hca| states(&wire)[hca]), [LinkState::Active, LinkState::Active, LinkState::Init]);
}

#[test]
fn two_switches_with_one_guid_are_a_problem() {
    let nodes = [(HCA, 1, 0x10), (SWITCH, 8, 0x1000), (SWITCH, 8, 0x2000), (SWITCH, 8, 0x2000), (HCA, 1, 0x20), (HCA, 1, 0x30)];
    let cables = [((0, 1), (1, 1)), ((1, 2), (2, 1)), ((1, 3), (3, 1)), ((2, 2), (4, 1)), ((3, 3), (5, 1))];
    let (wire, manager) = swept(Wire::new(&nodes, &cables), Configuration::default());
    assert_eq!(manager.problems(), [Problem::DuplicateGuid { guid: Guid(0x2000), place: at(0x1000, 3) }]);
    // The host behind the first of them works.
    assert_eq!((states(&wire)[4], wire.registers[1].routes[&Lid(2)]), (LinkState::Active, 2));
    assert_eq!(states(&wire)[5], LinkState::Init);
}

#[test]
fn a_cable_from_a_switch_to_itself_stays_unused() {
    let mut wire = star(2);
    wire.plug((2, 5), (2, 6));
    wire.plug((2, 7), (2, 7));
    let (wire, manager) = swept(wire, Configuration::default());
    assert_eq!(manager.problems(), [5, 6, 7].map(|port| Problem::LoopedCable(at(0x1000, port))));
    assert_eq!(states(&wire)[..2], [LinkState::Active; 2]);
    assert_eq!(wire.agents[2].link_state(PortNumber(5)), LinkState::Init);
}

#[test]
fn a_node_that_never_answers_is_a_silent_neighbour() {
    let mut wire = star(3);
    wire.dead.insert(1, 0);
    let (wire, manager) = swept(wire, Configuration::default());
    assert_eq!(manager.problems(), [Problem::SilentNeighbour(at(0x1000, 2))]);
    assert_eq!((states(&wire)[0], states(&wire)[2], manager.tally().sweeps), (LinkState::Active, LinkState::Active, 1));
}

#[test]
fn a_node_that_vanishes_at_any_moment_costs_only_itself() {
    let (_, whole) = swept(star(3), Configuration::default());
    let mut kinds = BTreeSet::new();
    for from in (0..4 * whole.tally().sent as usize).step_by(3) {
        let mut wire = star(3);
        wire.dead.insert(1, from);
        let (wire, manager) = swept(wire, Configuration::default());
        assert!(manager.is_idle() && manager.tally().sweeps <= 3, "from packet {from}");
        assert_eq!((states(&wire)[0], states(&wire)[2]), (LinkState::Active, LinkState::Active), "from packet {from}");
        kinds.extend(manager.problems().iter().map(|problem| problem.to_string()));
    }
    // After a write without an answer, the next sweep finds nobody at the port.
    assert!(kinds.iter().any(|kind| kind.contains("nobody answers behind port 2")), "{kinds:?}");
}

#[test]
fn a_node_with_another_m_key_stays_as_it_is() {
    let (mut wire, mut first) = swept(star(3), Configuration { m_key: 7, ..Configuration::default() });
    assert_eq!(first.problems(), []);
    let before = wire.registers.clone();
    wire.run(&mut first);
    assert_eq!(first.problems(), [], "the manager knows its key");
    let mut second = Manager::new(Configuration { m_key: 8, mtu_max: Mtu::B512, ..Configuration::default() }, 1);
    wire.run(&mut second);
    let nodes: BTreeSet<String> = second.problems().iter().map(|problem| problem.to_string()).collect();
    let expected = [0x10, 0x20, 0x30, 0x1000].map(|guid| Problem::WrongMKey(Guid(guid)).to_string());
    assert_eq!(nodes, BTreeSet::from(expected));
    assert!(wire.registers == before);
}

#[test]
fn a_port_without_room_for_its_keys_is_a_problem() {
    let pkeys = BTreeMap::from([(Guid(0x21), (0..200).map(PKey).collect())]);
    let (wire, manager) = swept(star(2), Configuration { pkeys, ..Configuration::default() });
    assert_eq!(manager.problems(), [Problem::TooManyPKeys(at(0x20, 1))]);
    assert_eq!(states(&wire)[1], LinkState::Active);
}

#[test]
fn any_answer_leaves_the_manager_whole() {
    let mut random = softband_sim::RandomStream::new(3, 0);
    for number in 0..300 {
        let routing = Routing::ALL[number % Routing::ALL.len()];
        let mut manager = Manager::new(Configuration { retries: 0, routing, ..with_tables() }, 1);
        manager.start(SimTime::ZERO);
        for _ in 0..200 {
            let Some((_, mut packet)) = manager.poll_transmit() else { break };
            // The answer belongs to its request. All else is random.
            Header::view_mut(&mut packet.mad[..]).method(Method::GET_RESP).status(Status(Status::DIRECTION));
            packet.mad[64..128].iter_mut().for_each(|byte| *byte = random.next_u64() as u8);
            if !random.next_u64().is_multiple_of(4) {
                packet.mad[64..68].copy_from_slice(&[1, 1, 1 + (random.next_u64() % 3) as u8, 1 + (random.next_u64() % 8) as u8]);
                packet.mad[100] = 1 + (random.next_u64() % 2) as u8;
            }
            manager.handle_packet(0, &packet, SimTime::ZERO);
        }
        while let Some(at) = manager.poll_timeout() {
            manager.handle_timeout(at);
        }
        assert!(manager.is_idle());
    }
}
