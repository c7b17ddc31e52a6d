//! Ports that a manager disables, enables and resets, also beside planned faults.

use crate::desk::*;
use crate::unmanaged::{set_port, unmanaged};
use softband_fabric::notice::Notice;
use softband_sim::{SimDuration, SimTime};
use softband_spec::FabricSpec;
use softband_spec::faults::{FaultKind, FaultSpec};
use softband_types::PortNumber;
use softband_wire::mad::*;

/// Cable from the switch's port 2 to host 1.
const CABLE: usize = 1;
const DARK: (PortState, PhysicalState) = (PortState::DOWN, PhysicalState::DISABLED);
const UP: (PortState, PhysicalState) = (PortState::INIT, PhysicalState::LINK_UP);

fn at(micros: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_micros(micros)
}

/// A fabric whose faults come by its file.
fn with(faults: &[(u64, FaultKind)]) -> Desk {
    let faults = faults.iter().map(|(micros, kind)| FaultSpec { at: at(*micros), kind: kind.clone() }).collect();
    Desk::new(&FabricSpec { faults, ..unmanaged() })
}

/// Disables, enables or resets the switch's port 2.
fn switch(desk: &mut Desk, state: PhysicalState) {
    set_port(desk, &[1], 2, |info| (info.port_state, info.port_physical_state) = (PortState::DOWN, state));
}

fn disable(desk: &mut Desk) {
    switch(desk, PhysicalState::DISABLED);
}

fn enable(desk: &mut Desk) {
    switch(desk, PhysicalState::POLLING);
}

fn run_until(desk: &mut Desk, time: SimTime) {
    while desk.world.now() < time {
        desk.get::<NodeInfo>(&[1], AttributeId::NODE_INFO, 0);
    }
}

fn pass(desk: &mut Desk, micros: u64) {
    let until = desk.world.now() + SimDuration::from_micros(micros);
    run_until(desk, until);
}

/// Returns the state of the switch's port 2, after a check that packets cross its link only if it
/// is up.
fn state(desk: &mut Desk) -> (PortState, PhysicalState) {
    let info: PortInfo = desk.get(&[1], AttributeId::PORT_INFO, 2);
    let state = (info.port_state, info.port_physical_state);
    let far_end = desk.world.port(desk.world.hca_id(1, 0), PORT_1).unwrap().state;
    assert_eq!(far_end.is_some(), state == UP);
    state
}

fn link_switched(desk: &mut Desk) -> usize {
    desk.seen.drain(..).filter(|notice| *notice == Notice::LinkSwitched).count()
}

#[test]
fn a_port_disabled_while_its_link_trains_stays_off() {
    let mut desk = with(&[]);
    disable(&mut desk);
    pass(&mut desk, 1_100);
    enable(&mut desk);
    pass(&mut desk, 500);
    disable(&mut desk);
    pass(&mut desk, 1_100);
    assert_eq!(state(&mut desk), DARK);
    assert_eq!(desk.ask(&[1, 2], Method::GET, AttributeId::NODE_INFO, 0, [0; 64]), None);
    enable(&mut desk);
    pass(&mut desk, 1_100);
    assert_eq!(state(&mut desk), UP);
    // A reset, too.
    enable(&mut desk);
    pass(&mut desk, 500);
    disable(&mut desk);
    pass(&mut desk, 1_100);
    assert_eq!(state(&mut desk), DARK);
}

#[test]
fn a_planned_link_up_does_not_enable_a_port() {
    let mut desk = with(&[(500, FaultKind::LinkDown { cable: CABLE }), (1_500, FaultKind::LinkUp { cable: CABLE })]);
    run_until(&mut desk, at(1_000));
    disable(&mut desk);
    run_until(&mut desk, at(1_700));
    assert_eq!(state(&mut desk), DARK);
    enable(&mut desk);
    pass(&mut desk, 1_100);
    assert_eq!(state(&mut desk), UP);
}

#[test]
fn an_enabled_port_does_not_mend_a_cable() {
    let mut desk = with(&[]);
    disable(&mut desk);
    pass(&mut desk, 100);
    let now = desk.world.now();
    desk.world.add_faults(&[FaultSpec { at: now, kind: FaultKind::LinkDown { cable: CABLE } }]);
    enable(&mut desk);
    pass(&mut desk, 1_100);
    assert_eq!(state(&mut desk), (PortState::DOWN, PhysicalState::POLLING));
    let now = desk.world.now();
    desk.world.add_faults(&[FaultSpec { at: now, kind: FaultKind::LinkUp { cable: CABLE } }]);
    pass(&mut desk, 10);
    assert_eq!(state(&mut desk), UP);
}

#[test]
fn each_change_of_a_link_is_reported_once() {
    let mut desk = with(&[]);
    disable(&mut desk);
    pass(&mut desk, 1_100);
    assert_eq!(link_switched(&mut desk), 1);
    disable(&mut desk);
    pass(&mut desk, 1_100);
    assert_eq!(link_switched(&mut desk), 0);
    enable(&mut desk);
    pass(&mut desk, 1_100);
    assert_eq!(link_switched(&mut desk), 1);
    enable(&mut desk);
    pass(&mut desk, 1_100);
    assert_eq!(link_switched(&mut desk), 2, "a reset has both");
}

#[test]
fn later_faults_happen_once_whatever_joins_the_plan() {
    let mut desk = with(&[(5_000, FaultKind::LinkRecovers { cable: CABLE, lasts: SimDuration::from_micros(10) })]);
    for _ in 0..2 {
        enable(&mut desk);
        pass(&mut desk, 1_100);
    }
    for cable in [0, CABLE] {
        let now = desk.world.now();
        desk.world.add_faults(&[FaultSpec { at: now, kind: FaultKind::LinkUp { cable } }]);
    }
    run_until(&mut desk, at(5_200));
    let counters = desk.world.counters();
    let far_end = counters.iter().find(|port| port.node == "b/test0" && port.port == PortNumber(1)).unwrap().faults.unwrap();
    assert_eq!((far_end.link_error_recovery, far_end.link_downed), (1, 2));
}
