//! Virtual lanes with weights: flows of several service levels that share a link.

use crate::common::*;
use softband_model::link::{ArbitrationTables, Sl2Vl, WeightedLane};
use softband_model::switch::{LifetimeCode, PacketLifetimes};
use softband_model::verbs::api::QpModification;
use softband_sim::SimTime;
use softband_spec::{CableSpec, FabricSpec, PortClasses, PortRef, QualityOfService, SwitchSpec};
use softband_types::*;

const MESSAGE: u32 = 16_384;

fn tables(high: &[(u8, u8)], low: &[(u8, u8)], high_limit: u8) -> ArbitrationTables {
    let lines = |text: &[(u8, u8)]| text.iter().map(|(lane, weight)| WeightedLane { lane: VirtualLane(*lane), weight: *weight }).collect();
    ArbitrationTables { high: lines(high), low: lines(low), high_limit }
}

/// Gives all ports the same tables.
fn everywhere(tables: &ArbitrationTables, sl2vl: Sl2Vl) -> Option<QualityOfService> {
    let classes = PortClasses { tables: tables.clone(), sl2vl };
    Some(QualityOfService { hca: classes.clone(), switch: classes })
}

fn by_weights(low: &[(u8, u8)]) -> Option<QualityOfService> {
    everywhere(&tables(&[], low, 0), Sl2Vl::OPENSM)
}

/// Hosts 0 and 1 on a switch, 2 and 3 on another, and one cable between the switches: 984 MB/s for
/// both flows together.
fn one_cable_for_two(qos: Option<QualityOfService>) -> FabricSpec {
    let mut spec = through_switch(LinkSpeed::Sdr, &[1; 4], 3, host_part(600, 300));
    spec.subnet.qos = qos;
    spec.switches.push(SwitchSpec { name: "other".into(), part: switch_part(), node_guid: Guid(0x6) });
    let port = |switch, port| PortRef::Switch { switch, port: PortNumber(port) };
    spec.cables[2].ends[1] = port(1, 1);
    spec.cables[3].ends[1] = port(1, 2);
    spec.cables.push(CableSpec { part: cable(1), ends: [port(0, 24), port(1, 24)], rate: rate(LinkSpeed::Sdr) });
    spec
}

fn on_level(modification: &mut QpModification, level: u8) {
    if let Some(vector) = &mut modification.address_vector {
        vector.service_level = ServiceLevel(level);
    }
}

/// Writer, target, and service level.
type Flow = (usize, usize, u8);

/// Runs all flows for 22 ms. Returns the megabytes per second of each over the last 20 ms.
fn rates(spec: &FabricSpec, flows: &[Flow]) -> Vec<f64> {
    let mut lab = Lab::new(spec);
    lab.memory.discard = true;
    let mut qpns = Vec::new();
    for &(from, to, level) in flows {
        let (qpn, _) = lab.connect_with(from, to, QpType::Rc, |m| {
            m.local_ack_timeout = m.local_ack_timeout.map(|_| 14);
            on_level(m, level);
        });
        for number in 0..1_500 {
            let request = lab.request(from, number, lab.write_to(to, 0), 0, MESSAGE);
            lab.send(from, qpn, request);
        }
        qpns.push((from, qpn));
    }
    let millis = |millis: u64| SimTime::from_picos(millis * 1_000_000_000);
    while lab.world.now() < millis(22) {
        assert!(lab.step(), "there is enough to send");
    }
    let rate = |(who, qpn): (usize, Qpn)| {
        let done = lab.timed_completions(who).into_iter().filter(|(at, done)| done.qpn == qpn && *at >= millis(2)).count();
        done as f64 * f64::from(MESSAGE) / 0.02 / 1e6
    };
    qpns.into_iter().map(rate).collect()
}

/// Asserts that the second rate over the first is `wanted`, within 2 %, and that the link is full.
fn assert_ratio(rates: &[f64], wanted: f64) {
    let ratio = rates[1] / rates[0];
    assert!((ratio / wanted - 1.0).abs() < 0.02, "{ratio:.3} instead of {wanted}: {rates:.0?} MB/s");
    assert!(rates.iter().sum::<f64>() > 950.0, "{rates:.0?} MB/s");
}

#[test]
fn flows_of_two_levels_share_a_cable_between_switches_by_weight() {
    let flows = [(0, 2, 0), (1, 3, 1)];
    assert_ratio(&rates(&one_cable_for_two(None), &flows), 1.0);
    for weights in [[33, 99], [99, 33], [33, 231]] {
        let qos = by_weights(&[(0, weights[0]), (1, weights[1])]);
        assert_ratio(&rates(&one_cable_for_two(qos), &flows), f64::from(weights[1]) / f64::from(weights[0]));
    }
}

#[test]
fn flows_of_one_hca_share_its_link_by_weight() {
    let flows = [(0, 2, 0), (0, 3, 1)];
    assert_ratio(&rates(&one_cable_for_two(None), &flows), 1.0);
    assert_ratio(&rates(&one_cable_for_two(by_weights(&[(0, 33), (1, 132)])), &flows), 4.0);
}

#[test]
fn hcas_and_switches_have_tables_of_their_own() {
    let mut qos = by_weights(&[(0, 33), (1, 99)]).unwrap();
    qos.hca.tables = tables(&[], &[(0, 99), (1, 33)], 0);
    // The switch arbitrates between two hosts, the HCA between the flows of one host.
    let spec = one_cable_for_two(Some(qos));
    assert_ratio(&rates(&spec, &[(0, 2, 0), (1, 3, 1)]), 3.0);
    assert_ratio(&rates(&spec, &[(0, 2, 0), (0, 3, 1)]), 1.0 / 3.0);
}

#[test]
fn a_service_level_has_the_lane_that_the_map_says() {
    let mut lanes = [0; 16];
    (lanes[4], lanes[9]) = (1, 3);
    let qos = everywhere(&tables(&[], &[(0, 33), (1, 33), (3, 66)], 0), Sl2Vl::new(lanes).unwrap());
    let spec = one_cable_for_two(qos);
    assert_ratio(&rates(&spec, &[(0, 2, 4), (1, 3, 9)]), 2.0);
    assert_ratio(&rates(&spec, &[(0, 2, 5), (1, 3, 6)]), 1.0);
}

#[test]
fn the_high_table_takes_what_its_limit_leaves_the_low_one() {
    let flows = [(0, 2, 0), (1, 3, 1)];
    let with = |limit| rates(&one_cable_for_two(everywhere(&tables(&[(1, 33)], &[(0, 33)], limit), Sl2Vl::OPENSM)), &flows);
    assert_ratio(&with(0), 1.0);
    // 4 KiB are 64 blocks, and two packets of 33 are the first to reach them.
    assert_ratio(&with(1), 2.0);
    assert_ratio(&with(3), 6.0);
    let unlimited = with(255);
    assert!(unlimited[0] < 10.0 && unlimited[1] > 950.0, "{unlimited:.0?} MB/s");
}

#[test]
fn a_lane_alone_has_the_whole_link() {
    let spec = one_cable_for_two(by_weights(&[(0, 33), (1, 231)]));
    assert!(rates(&spec, &[(0, 2, 0)])[0] > 950.0);
}

#[test]
fn an_hca_discards_packets_of_a_lane_that_no_table_lists() {
    let mut lab = Lab::new(&one_cable_for_two(by_weights(&[(0, 33), (1, 33)])));
    let (unlisted, _) = lab.connect_with(1, 3, QpType::Rc, |m| on_level(m, 2));
    let request = lab.request(1, 1, lab.write_to(3, 0), 0, 65_536);
    lab.send(1, unlisted, request);
    lab.run();
    assert_eq!(lab.statuses(1), [(1, WcStatus::RetryExceeded)]);
    let port = lab.world.counters().into_iter().find(|port| port.node == "b/test0").unwrap();
    assert!(port.port_xmit_discards > 0 && port.port_xmit_pkts == 0, "{port:?}");
    lab.world.assert_credits_are_back();
}

#[test]
fn packets_of_a_lane_that_no_table_lists_end_with_their_lifetime() {
    let mut qos = by_weights(&[(0, 33), (1, 33)]).unwrap();
    // The HCAs permit this lane; only the switch's port never sends on it.
    qos.hca.tables.low.push(WeightedLane { lane: VirtualLane(2), weight: 33 });
    let mut spec = one_cable_for_two(Some(qos));
    let soon = LifetimeCode::new(8).unwrap();
    spec.subnet.lifetimes = PacketLifetimes { packet_life_time: soon, head_of_queue_lifetime: soon, leaf_head_of_queue_lifetime: soon };
    let mut lab = Lab::new(&spec);
    let (listed, _) = lab.connect(0, 2, QpType::Rc);
    let (unlisted, _) = lab.connect_with(1, 3, QpType::Rc, |m| on_level(m, 2));
    for (from, to, qpn) in [(0, 2, listed), (1, 3, unlisted)] {
        let request = lab.request(from, 1, lab.write_to(to, 0), 0, 8_192);
        lab.send(from, qpn, request);
    }
    lab.run();
    assert_eq!(lab.statuses(0), [(1, WcStatus::Success)]);
    assert_eq!(lab.statuses(1), [(1, WcStatus::RetryExceeded)]);
    assert!(lab.world.counters().iter().any(|port| port.node == "switch" && port.port_xmit_discards > 0));
    lab.world.assert_credits_are_back();
}

#[test]
fn a_weighted_run_is_the_same_in_every_run() {
    let run = || {
        let spec = one_cable_for_two(by_weights(&[(0, 33), (1, 99)]));
        rates(&spec, &[(0, 2, 0), (1, 3, 1)]).into_iter().map(f64::to_bits).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}
