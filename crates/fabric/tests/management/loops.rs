//! Forwarding tables that lead packets in circles, and packets without an address.

use crate::bring_up::ring;
use crate::common::*;
use crate::desk::*;
use softband_fabric::notice::Notice;
use softband_model::management::ManagementPacket;
use softband_types::*;
use softband_wire::mad::*;

/// Writes the output of a switch for a LID.
pub(crate) fn route(desk: &mut Desk, path: &[u8], lid: Lid, output: u8) {
    let mut block: LinearForwardingTable = desk.get(path, AttributeId::LINEAR_FORWARDING_TABLE, 0);
    block.ports[usize::from(lid.0)] = PortNumber(output);
    desk.ask(path, Method::SET, AttributeId::LINEAR_FORWARDING_TABLE, 0, block.to_bytes()).expect("an answer");
}

/// Writes from host 0 to host `to`. Returns the outcome.
pub(crate) fn write(desk: Desk, to: usize, messages: u64) -> (Lab, Vec<WcStatus>) {
    let mut lab = Lab::over(desk.world);
    let (a, _) = lab.connect_with(0, to, QpType::Rc, |m| m.retry_count = m.retry_count.map(|_| 1));
    for number in 0..messages {
        let request = lab.request(0, number, lab.write_to(to, 0), 0, 65_536);
        lab.send(0, a, request);
    }
    lab.run();
    let statuses = lab.statuses(0).into_iter().map(|(_, status)| status).collect();
    (lab, statuses)
}

fn counters(lab: Lab, switch: Lid, port: u8) -> PortCounters {
    let mut desk = Desk::over(lab.world);
    let select = PortCounters { port_select: PortNumber(port), ..PortCounters::default() }.to_bytes();
    let mad = desk.performance(switch, Method::GET, AttributeId::PORT_COUNTERS, &select).expect("an answer");
    PortCounters::parse(&mad[PERFORMANCE_DATA_OFFSET..]).unwrap()
}

#[test]
fn a_packet_does_not_leave_by_the_port_by_which_it_came() {
    let mut desk = Desk::of_three();
    let (lid, switch) = (desk.lid(2), desk.get::<PortInfo>(&[1], AttributeId::PORT_INFO, 0).lid);
    route(&mut desk, &[1], lid, 1);
    let (lab, statuses) = write(desk, 2, 1);
    assert_eq!(statuses, [WcStatus::RetryExceeded]);
    lab.world.assert_credits_are_back();
    let counters = counters(lab, switch, 1);
    assert!(counters.port_rcv_switch_relay_errors > 0, "{counters:?}");
    assert_eq!(counters.port_xmit_discards, 0);
}

#[test]
fn a_packet_without_a_table_entry_is_counted_where_it_came() {
    let mut desk = Desk::of_three();
    let (lid, switch) = (desk.lid(2), desk.get::<PortInfo>(&[1], AttributeId::PORT_INFO, 0).lid);
    route(&mut desk, &[1], lid, 255);
    let (lab, statuses) = write(desk, 2, 1);
    assert_eq!(statuses, [WcStatus::RetryExceeded]);
    assert!(counters(lab, switch, 1).port_rcv_switch_relay_errors > 0);
}

/// Packets in a loop have no end of their own (InfiniBand has no hop limit within a subnet). They fill
/// the buffers of the ring, and leave it once a table is right again.
#[test]
fn a_loop_through_a_ring_is_named_as_a_deadlock_and_costs_the_sender_its_retries() {
    let mut desk = Desk::new(&ring());
    let lid = desk.lid(1);
    // Port 2 of each switch leads to the next.
    let ways = [&[1][..], &[1, 2], &[1, 2, 2]];
    for path in ways {
        route(&mut desk, path, lid, 2);
    }
    let mut lab = Lab::over(desk.world);
    let (a, _) = lab.connect_with(0, 1, QpType::Rc, |m| m.retry_count = m.retry_count.map(|_| 1));
    for number in 0..8 {
        let request = lab.request(0, number, lab.write_to(1, 0), 0, 65_536);
        lab.send(0, a, request);
    }
    while lab.completions(0).is_empty() && lab.step() {}
    assert_eq!(lab.completions(0)[0].status, WcStatus::RetryExceeded);
    let waits = lab.notices.iter().find_map(|(_, notice)| match notice {
        Notice::Deadlock { waits, .. } => Some(waits.clone()),
        _ => None,
    });
    let waits = waits.expect("a deadlock");
    assert!(["s0", "s1", "s2"].iter().all(|switch| waits.contains(switch)), "{waits}");
    let mut desk = Desk::over(lab.world);
    // The second switch has the host at port 1.
    route(&mut desk, &[1, 2], lid, 1);
    let mut lab = Lab::over(desk.world);
    lab.run();
    lab.world.assert_credits_are_back();
    assert_eq!(lab.world.packets_under_way(), 0);
}

#[test]
fn nobody_has_lid_0() {
    let mut desk = Desk::of_three();
    let mut info: PortInfo = desk.get(&[1, 2], AttributeId::PORT_INFO, 1);
    (info.lid, info.port_state) = (Lid::NONE, PortState::NO_CHANGE);
    let (_, refused) = desk.ask(&[1, 2], Method::SET, AttributeId::PORT_INFO, 1, info.to_bytes()).expect("an answer");
    assert_eq!(DirectedSmp::view(&refused).status(), Status::INVALID_FIELD.0);
    assert_eq!(desk.lid(1), Lid(2));
    // A table has no entry for it.
    let mut block: LinearForwardingTable = desk.get(&[1], AttributeId::LINEAR_FORWARDING_TABLE, 0);
    block.ports[0] = PortNumber(2);
    desk.ask(&[1], Method::SET, AttributeId::LINEAR_FORWARDING_TABLE, 0, block.to_bytes()).expect("an answer");
    assert_eq!(desk.get::<LinearForwardingTable>(&[1], AttributeId::LINEAR_FORWARDING_TABLE, 0).ports[0], PortNumber(255));
    for qpn in [Qpn(0), Qpn(1)] {
        let class = if qpn == Qpn(0) { ManagementClass::SUBNET_LID_ROUTED } else { ManagementClass::PERFORMANCE };
        let header = desk.header(class, Method::GET, AttributeId::NODE_INFO, 0);
        let mut mad = Box::new([0; 256]);
        header.emit(&mut mad[..]);
        let packet = ManagementPacket { source: qpn, destination: qpn, ..subnet_packet(Lid::NONE, mad) };
        assert_eq!(desk.exchange(packet), None);
    }
    desk.world.audit().unwrap();
}
