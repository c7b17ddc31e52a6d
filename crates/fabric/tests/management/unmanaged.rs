//! A fabric without the built-in subnet manager: a program configures it by management packets.

use crate::common::*;
use crate::desk::*;
use softband_fabric::World;
use softband_fabric::notice::Notice;
use softband_model::management::agent::LinkState;
use softband_spec::{FabricSpec, SubnetManager};
use softband_types::*;
use softband_wire::mad::*;
use std::collections::BTreeSet;

pub(crate) fn unmanaged() -> FabricSpec {
    let mut spec = through_switch(LinkSpeed::Sdr, &[1, 1], 5, host_part(600, 300));
    spec.subnet.manager = SubnetManager::OpenSm;
    spec
}

fn state_of(world: &World, host: usize) -> (Option<LinkState>, Lid, Lid) {
    let port = world.port(world.hca_id(host, 0), PORT_1).unwrap();
    (port.state, port.lid, port.sm_lid)
}

/// Writes PortInfo at the end of a directed route.
pub(crate) fn set_port(desk: &mut Desk, path: &[u8], number: u32, change: impl Fn(&mut PortInfo)) {
    let mut info: PortInfo = desk.get(path, AttributeId::PORT_INFO, number);
    info.port_state = PortState::NO_CHANGE;
    change(&mut info);
    let (_, answer) = desk.ask(path, Method::SET, AttributeId::PORT_INFO, number, info.to_bytes()).expect("an answer");
    assert_eq!(DirectedSmp::view(&answer).status(), 0, "{path:?} port {number}");
}

/// Gives all ports LIDs, links these lanes, and switches their tables, as a subnet manager does.
pub(crate) fn configure(desk: &mut Desk, vls: OperationalVlsCode) {
    let ends: [(&[u8], u32, u16); 5] = [(&[], 1, 1), (&[1], 0, 9), (&[1, 2], 1, 2), (&[1], 1, 0), (&[1], 2, 0)];
    for state in [PortState::NO_CHANGE, PortState::ARMED, PortState::ACTIVE] {
        for (path, number, lid) in ends {
            set_port(desk, path, number, |info| {
                (info.lid, info.master_sm_lid) = (Lid(lid), Lid(1));
                info.operational_vls = vls;
                info.port_state = if number == 0 { PortState::NO_CHANGE } else { state };
            });
        }
    }
    let mut table = LinearForwardingTable { ports: [PortNumber(255); 64] };
    (table.ports[1], table.ports[2]) = (PortNumber(1), PortNumber(2));
    desk.ask(&[1], Method::SET, AttributeId::LINEAR_FORWARDING_TABLE, 0, table.to_bytes()).expect("an answer");
}

#[test]
fn ports_wait_for_a_subnet_manager() {
    let mut desk = Desk::new(&unmanaged());
    assert_eq!(state_of(&desk.world, 1), (Some(LinkState::Init), Lid::NONE, Lid::NONE));
    configure(&mut desk, OperationalVlsCode::VL0_7);
    assert_eq!(state_of(&desk.world, 1), (Some(LinkState::Active), Lid(2), Lid(1)));
    let switch: PortInfo = desk.get(&[1], AttributeId::PORT_INFO, 0);
    assert_eq!(switch.lid, Lid(9));
}

#[test]
fn data_passes_once_ports_are_active() {
    let mut desk = Desk::new(&unmanaged());
    configure(&mut desk, OperationalVlsCode::VL0);
    let info: PortInfo = desk.get(&[1], AttributeId::PORT_INFO, 2);
    assert_eq!(info.operational_vls, OperationalVlsCode::VL0);
    let mut lab = Lab::over(desk.world);
    let (a, _) = lab.connect(0, 1, QpType::Rc);
    for number in 0..50 {
        let request = lab.request(0, number, lab.write_to(1, 0), 0, 16_384);
        lab.send(0, a, request);
    }
    lab.run();
    assert!(lab.completions(0).iter().all(|completion| completion.status == WcStatus::Success));
    assert_eq!(lab.completions(0).len(), 50);
    lab.world.audit().unwrap();
}

#[test]
fn data_is_lost_before_ports_are_active() {
    let mut desk = Desk::new(&unmanaged());
    configure(&mut desk, OperationalVlsCode::VL0_7);
    set_port(&mut desk, &[1], 2, |info| info.port_state = PortState::DOWN);
    let info: PortInfo = desk.get(&[1], AttributeId::PORT_INFO, 2);
    assert_eq!(info.port_state, PortState::INIT);
    // Both ends start again, and the switch tells its manager.
    assert_eq!(state_of(&desk.world, 1).0, Some(LinkState::Init));
    let trap = Smp::view(&desk.traps[0].mad[..]);
    let notice = softband_wire::mad::Notice::parse(&trap.data()).unwrap();
    assert_eq!((notice.trap_number, notice.issuer_lid), (TrapNumber::LINK_STATE_CHANGED, Lid(9)));
    let mut lab = Lab::over(desk.world);
    let (a, _) = lab.connect(0, 1, QpType::Rc);
    let request = lab.request(0, 1, lab.write_to(1, 0), 0, 64);
    lab.send(0, a, request);
    lab.run();
    assert_eq!(lab.completions(0)[0].status, WcStatus::RetryExceeded);
    lab.world.assert_credits_are_back();
}

#[test]
fn programs_learn_of_the_changes_of_their_ports() {
    let mut desk = Desk::new(&unmanaged());
    let hca = desk.world.hca_id(0, 0);
    configure(&mut desk, OperationalVlsCode::VL0_7);
    let events: Vec<u32> = (desk.seen.iter())
        .filter_map(|notice| match notice {
            Notice::PortEvent { hca: of, event, .. } if *of == hca => Some(*event),
            _ => None,
        })
        .collect();
    // LID_CHANGE, SM_CHANGE and PORT_ACTIVE of `ibv_event_type`.
    assert_eq!(events, [11, 13, 9]);
}

/// Lets the time of a change of links pass, then returns state and physical state of a port.
fn states_of(desk: &mut Desk, path: &[u8], number: u32) -> (PortState, PhysicalState) {
    let until = desk.world.now() + nanos(1_100_000);
    while desk.world.now() < until {
        desk.get::<PortInfo>(path, AttributeId::PORT_INFO, number);
    }
    let info: PortInfo = desk.get(path, AttributeId::PORT_INFO, number);
    (info.port_state, info.port_physical_state)
}

#[test]
fn a_disabled_port_has_no_link_until_it_is_enabled() {
    let mut desk = Desk::new(&unmanaged());
    configure(&mut desk, OperationalVlsCode::VL0_7);
    set_port(&mut desk, &[1], 2, |info| (info.port_state, info.port_physical_state) = (PortState::DOWN, PhysicalState::DISABLED));
    assert_eq!(states_of(&mut desk, &[1], 2), (PortState::DOWN, PhysicalState::DISABLED));
    assert_eq!(state_of(&desk.world, 1).0, None, "the other end has no link");
    assert_eq!(desk.world.statistics().iter().filter(|port| port.is_disabled && port.state.is_none()).count(), 1);
    assert_eq!(desk.ask(&[1, 2], Method::GET, AttributeId::NODE_INFO, 0, [0; 64]), None);
    // A second request, and one that only configures the port, change nothing.
    set_port(&mut desk, &[1], 2, |info| info.port_physical_state = PhysicalState::DISABLED);
    set_port(&mut desk, &[1], 2, |info| info.port_physical_state = PhysicalState::NO_CHANGE);
    assert_eq!(states_of(&mut desk, &[1], 2), (PortState::DOWN, PhysicalState::DISABLED));
    let downs = |desk: &mut Desk| desk.world.statistics().iter().map(|port| port.counters.link_downed_counter).sum::<u8>();
    assert_eq!(downs(&mut desk), 2, "at both ends");
    set_port(&mut desk, &[1], 2, |info| info.port_physical_state = PhysicalState::POLLING);
    assert_eq!(states_of(&mut desk, &[1], 2), (PortState::INIT, PhysicalState::LINK_UP));
    assert_eq!(state_of(&desk.world, 1).0, Some(LinkState::Init));
    let traps: BTreeSet<u64> = desk.traps.iter().map(|trap| Header::view(&trap.mad[..]).transaction_id()).collect();
    assert_eq!(traps.len(), 2, "the switch reports both changes, and repeats what nobody answers");
    let both: [(&[u8], u32); 2] = [(&[1], 2), (&[1, 2], 1)];
    for state in [PortState::ARMED, PortState::ACTIVE] {
        both.into_iter().for_each(|(path, number)| set_port(&mut desk, path, number, |info| info.port_state = state));
    }
    assert_eq!(state_of(&desk.world, 1).0, Some(LinkState::Active));
    // Polling resets a link that is up.
    set_port(&mut desk, &[1], 2, |info| info.port_physical_state = PhysicalState::POLLING);
    assert_eq!(states_of(&mut desk, &[1], 2), (PortState::INIT, PhysicalState::LINK_UP));
    assert_eq!(downs(&mut desk), 4);
    // A port cannot be disabled and become Active at once.
    let mut info: PortInfo = desk.get(&[1], AttributeId::PORT_INFO, 2);
    (info.port_state, info.port_physical_state) = (PortState::ACTIVE, PhysicalState::DISABLED);
    let (_, answer) = desk.ask(&[1], Method::SET, AttributeId::PORT_INFO, 2, info.to_bytes()).unwrap();
    assert_ne!(DirectedSmp::view(&answer).status(), 0);
}
