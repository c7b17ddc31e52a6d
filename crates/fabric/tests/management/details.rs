//! Details of counters: reasons of errors and discards, and waits of lanes.

use crate::bring_up::ring;
use crate::common::*;
use crate::desk::*;
use crate::loops::{route, write};
use softband_sim::SimDuration;
use softband_types::*;
use softband_wire::mad::*;

/// Asks for an attribute of a port, or resets the counters of the bits in `reset` first.
fn ask<T: Layout>(desk: &mut Desk, to: Lid, attribute: AttributeId, port: u8, reset: Option<u16>) -> T {
    let mut selection = [0; 4];
    selection[1] = port;
    selection[2..].copy_from_slice(&reset.unwrap_or_default().to_be_bytes());
    let method = if reset.is_some() { Method::SET } else { Method::GET };
    let mad = desk.performance(to, method, attribute, &selection).expect("an answer");
    assert_eq!(Header::view(&mad).status(), Status::SUCCESS);
    T::parse(&mad[PERFORMANCE_DATA_OFFSET..]).unwrap()
}

fn errors(desk: &mut Desk, to: Lid, port: u8, reset: Option<u16>) -> PortRcvErrorDetails {
    ask(desk, to, AttributeId::PORT_RCV_ERROR_DETAILS, port, reset)
}

/// Returns the reasons of discards: inactive, MTU, lifetime, lifetime at the head.
fn discards(desk: &mut Desk, to: Lid, port: u8) -> [u16; 4] {
    let details: PortXmitDiscardDetails = ask(desk, to, AttributeId::PORT_XMIT_DISCARD_DETAILS, port, None);
    [
        details.port_inactive_discards,
        details.port_neighbor_mtu_discards,
        details.port_sw_lifetime_limit_discards,
        details.port_sw_hoq_lifetime_limit_discards,
    ]
}

fn switch_lid(desk: &mut Desk, path: &[u8]) -> Lid {
    desk.get::<PortInfo>(path, AttributeId::PORT_INFO, 0).lid
}

#[test]
fn a_missing_entry_and_one_that_leads_back_are_told_apart() {
    for (entry, is_loop) in [(1, true), (255, false)] {
        let mut desk = Desk::of_three();
        let (lid, switch) = (desk.lid(2), switch_lid(&mut desk, &[1]));
        route(&mut desk, &[1], lid, entry);
        let mut desk = Desk::over(write(desk, 2, 1).0.world);
        let found = errors(&mut desk, switch, 1, None);
        let counts = (found.port_looping_errors, found.port_dlid_mapping_errors);
        assert!(if is_loop { counts.0 > 0 && counts.1 == 0 } else { counts.0 == 0 && counts.1 > 0 }, "{found:?}");
        assert_eq!((found.port_select, found.port_local_physical_errors), (PortNumber(1), 0));
        // All ports together have the counts of this port.
        let all = errors(&mut desk, switch, 255, None);
        assert_eq!((all.port_looping_errors, all.port_dlid_mapping_errors), counts);
    }
}

#[test]
fn a_reset_concerns_the_selected_counters_alone() {
    let mut desk = Desk::of_three();
    let (lid, switch) = (desk.lid(2), switch_lid(&mut desk, &[1]));
    route(&mut desk, &[1], lid, 255);
    let mut desk = Desk::over(write(desk, 2, 1).0.world);
    let before = errors(&mut desk, switch, 1, None);
    // Bit 3 selects the fourth counter, DLID mapping errors.
    assert_eq!(errors(&mut desk, switch, 1, Some(!(1 << 3))), PortRcvErrorDetails { counter_select: 0, ..before });
    assert_eq!(errors(&mut desk, switch, 1, Some(1 << 3)).port_dlid_mapping_errors, 0);
    let counters = PortCounters { port_select: PortNumber(1), ..PortCounters::default() }.to_bytes();
    let mad = desk.performance(switch, Method::GET, AttributeId::PORT_COUNTERS, &counters).unwrap();
    let counters = PortCounters::parse(&mad[PERFORMANCE_DATA_OFFSET..]).unwrap();
    assert_eq!(counters.port_rcv_switch_relay_errors, before.port_dlid_mapping_errors, "the sum has a reset of its own");
    let refused = desk.performance(switch, Method::GET, AttributeId::PORT_RCV_ERROR_DETAILS, &[0, 200, 0, 0]).unwrap();
    assert_eq!(Header::view(&refused).status(), Status::INVALID_FIELD);
}

#[test]
fn discards_name_the_neighbor_s_mtu_and_the_inactive_port() {
    let mut desk = Desk::of_three();
    let switch = switch_lid(&mut desk, &[1]);
    let mut info: PortInfo = desk.get(&[1], AttributeId::PORT_INFO, 3);
    (info.port_state, info.port_physical_state, info.neighbor_mtu) = (PortState::NO_CHANGE, PhysicalState::NO_CHANGE, MtuCode::B256);
    desk.ask(&[1], Method::SET, AttributeId::PORT_INFO, 3, info.to_bytes()).expect("an answer");
    let mut desk = Desk::over(write(desk, 2, 1).0.world);
    let [inactive, too_large, ..] = discards(&mut desk, switch, 3);
    assert!(inactive == 0 && too_large > 0);

    let mut info: PortInfo = desk.get(&[1], AttributeId::PORT_INFO, 2);
    (info.port_state, info.port_physical_state) = (PortState::DOWN, PhysicalState::DISABLED);
    desk.ask(&[1], Method::SET, AttributeId::PORT_INFO, 2, info.to_bytes()).expect("an answer");
    let mut desk = Desk::over(write(desk, 1, 1).0.world);
    let [inactive, too_large, ..] = discards(&mut desk, switch, 2);
    assert!(inactive > 0 && too_large == 0);
}

/// The ways from host 0 to the switches of the ring.
const RING: [&[u8]; 3] = [&[1], &[1, 2], &[1, 2, 2]];

/// Lets the tables of the ring lead packets for host 1 in a circle, and writes to it until host 0 gives
/// up.
fn send_into_loop(mut desk: Desk) -> Lab {
    let lid = desk.lid(1);
    for path in RING {
        route(&mut desk, path, lid, 2);
    }
    let mut lab = Lab::over(desk.world);
    let (a, _) = lab.connect_with(0, 1, QpType::Rc, |m| m.retry_count = m.retry_count.map(|_| 1));
    for number in 0..8 {
        let request = lab.request(0, number, lab.write_to(1, 0), 0, 65_536);
        lab.send(0, a, request);
    }
    while lab.completions(0).is_empty() && lab.step() {}
    lab
}

#[test]
fn a_loop_through_a_ring_ends_by_a_lifetime_and_its_lane_has_waited() {
    let mut desk = Desk::new(&ring());
    let switch = switch_lid(&mut desk, &[1]);
    let lab = send_into_loop(desk);
    let total = lab.world.counters().iter().find(|port| port.node == "s0" && port.port == PortNumber(2)).unwrap().port_xmit_discards;
    let mut desk = Desk::over(lab.world);
    let [inactive, too_large, outlived, outlived_at_head] = discards(&mut desk, switch, 2);
    assert_eq!((inactive, too_large), (0, 0));
    assert!(outlived + outlived_at_head > 0 && u64::from(outlived + outlived_at_head) >= total);
    let waits: PortVlXmitWaitCounters = ask(&mut desk, switch, AttributeId::PORT_VL_XMIT_WAIT_COUNTERS, 2, None);
    assert!(waits.port_vl_xmit_wait[0] > 0 && waits.port_vl_xmit_wait[1..].iter().all(|wait| *wait == 0));
}

/// Writes the limits of all switches of the ring: at the head of a queue, and in a switch.
fn limit(desk: &mut Desk, at_head: u8, in_switch: u8) {
    for path in RING {
        let mut switch: SwitchInfo = desk.get(path, AttributeId::SWITCH_INFO, 0);
        switch.life_time_value = in_switch;
        let mut data = [0; 64];
        switch.emit(&mut data);
        desk.ask(path, Method::SET, AttributeId::SWITCH_INFO, 0, data).expect("an answer");
        assert_eq!(desk.get::<SwitchInfo>(path, AttributeId::SWITCH_INFO, 0).life_time_value, in_switch);
        for port in 1..=3 {
            let mut info: PortInfo = desk.get(path, AttributeId::PORT_INFO, port);
            (info.port_state, info.port_physical_state, info.hoq_life) = (PortState::NO_CHANGE, PhysicalState::NO_CHANGE, at_head);
            desk.ask(path, Method::SET, AttributeId::PORT_INFO, port, info.to_bytes()).expect("an answer");
            assert_eq!(desk.get::<PortInfo>(path, AttributeId::PORT_INFO, port).hoq_life, at_head);
        }
    }
}

#[test]
fn a_switch_obeys_the_limits_that_a_manager_writes() {
    // 4.096 us * 2^10 is 4 ms, and 20 is no limit.
    for (at_head, in_switch) in [(10, 20), (20, 10)] {
        let mut desk = Desk::new(&ring());
        limit(&mut desk, at_head, in_switch);
        let switches = RING.map(|path| switch_lid(&mut desk, path));
        let lab = send_into_loop(desk);
        let mut desk = Desk::over(lab.world);
        let found = switches.map(|switch| discards(&mut desk, switch, 2));
        let [outlived, outlived_at_head] = [2, 3].map(|reason| found.iter().map(|of| u32::from(of[reason])).sum::<u32>());
        let is_at_head = at_head < in_switch;
        assert!(if is_at_head { outlived == 0 && outlived_at_head > 0 } else { outlived > 0 && outlived_at_head == 0 }, "{found:?}");
    }
}

#[test]
fn a_new_limit_ends_a_deadlock_that_is_already_there() {
    for (at_head, in_switch) in [(10, 20), (20, 10)] {
        let mut desk = Desk::new(&ring());
        limit(&mut desk, 20, 20);
        let lab = send_into_loop(desk);
        let discarded = |lab: &Lab| lab.world.counters().iter().map(|port| port.port_xmit_discards).sum::<u64>();
        assert_eq!(discarded(&lab), 0);
        let mut desk = Desk::over(lab.world);
        limit(&mut desk, at_head, in_switch);
        let mut lab = Lab::over(desk.world);
        let end = lab.world.now() + SimDuration::from_micros(50_000);
        while discarded(&lab) == 0 && lab.world.now() < end && lab.step() {}
        assert!(discarded(&lab) > 0, "the packets of the loop wait on");
    }
}
