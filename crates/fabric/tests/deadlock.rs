//! Credit loops before a run, and their effect in a run.

use crate::common::*;
use softband_fabric::notice::Notice;
use softband_model::management::Routing;
use softband_model::switch::{LifetimeCode, PacketLifetimes};
use softband_sim::SimTime;
use softband_spec::credit_loops;
use softband_spec::{CableSpec, FabricSpec, PortRef, SwitchSpec};
use softband_types::*;

const SWITCHES: usize = 5;

/// Switches in a ring, a host on port 1 of each; port 2 leads to port 3 of the next switch.
fn ring(switches: usize, vls: u8, lifetimes: PacketLifetimes) -> FabricSpec {
    let hosts = vec![8; switches];
    let mut spec = through_switch(LinkSpeed::Sdr, &hosts, vls, host_part(600, 300));
    spec.subnet.lifetimes = lifetimes;
    let port = |switch: usize, port| PortRef::Switch { switch, port: PortNumber(port) };
    spec.switches = (0..switches)
        .map(|index| SwitchSpec { name: format!("s{}", index + 1), part: switch_part(), node_guid: Guid(0x100 + index as u64) })
        .collect();
    for (index, cable) in spec.cables.iter_mut().enumerate() {
        cable.ends[1] = port(index, 1);
    }
    let around = |index: usize| CableSpec { part: cable(8), ends: [port(index, 2), port((index + 1) % switches, 3)], rate: rate(LinkSpeed::Sdr) };
    spec.cables.extend((0..switches).map(around));
    spec
}

/// Every host writes to the host two switches further on; all begin at once.
fn two_hops_each(spec: &FabricSpec, messages: u64, retries: u8) -> Lab {
    let mut lab = Lab::new(spec);
    let senders: Vec<Qpn> = (0..SWITCHES)
        .map(|who| lab.connect_with(who, (who + 2) % SWITCHES, QpType::Rc, |m| m.retry_count = m.retry_count.map(|_| retries)).0)
        .collect();
    for (who, qpn) in senders.into_iter().enumerate() {
        for number in 0..messages {
            let request = lab.request(who, number, lab.write_to((who + 2) % SWITCHES, 0), 0, 65_536);
            lab.send(who, qpn, request);
        }
    }
    lab
}

fn deadlocks(lab: &Lab) -> Vec<(SimTime, String, bool)> {
    let found = lab.notices.iter().filter_map(|(at, notice)| match notice {
        Notice::Deadlock { waits, is_broken_up } => Some((*at, waits.clone(), *is_broken_up)),
        _ => None,
    });
    found.collect()
}

fn discards(lab: &Lab) -> u64 {
    lab.world.counters().iter().map(|port| port.port_xmit_discards).sum()
}

#[test]
fn a_ring_is_told_of_before_anything_moves() {
    let spec = ring(SWITCHES, 1, PacketLifetimes::default());
    let told: Vec<_> = credit_loops(&spec).iter().map(|found| found.describe(&spec)).collect();
    assert_eq!(told, ["s1/2 -> s2/2 -> s3/2 -> s4/2 -> s5/2 -> s1/2 (VL0)", "s1/3 -> s5/3 -> s4/3 -> s3/3 -> s2/3 -> s1/3 (VL0)"]);
    let spec = ring(SWITCHES, 5, PacketLifetimes::default());
    assert!(credit_loops(&spec)[0].describe(&spec).ends_with(" -> s1/2 (VL0-7)"));
    assert_eq!(credit_loops(&ring(3, 5, PacketLifetimes::default())), []);
    assert_eq!(credit_loops(&through_switch(LinkSpeed::Sdr, &[8, 8], 5, host_part(600, 300))), []);
}

#[test]
fn packets_that_wait_for_each_other_for_ever_are_found_and_named() {
    let mut lab = two_hops_each(&ring(SWITCHES, 5, PacketLifetimes::INFINITE), 4, 7);
    while deadlocks(&lab).is_empty() {
        assert!(lab.step(), "the ring deadlocks");
    }
    let (at, waits, is_broken_up) = deadlocks(&lab).remove(0);
    assert_eq!(
        waits,
        "s1/2 waits for credits of s2/3 (VL0), s2/2 waits for credits of s3/3 (VL0), s3/2 waits for credits of s4/3 (VL0), \
         s4/2 waits for credits of s5/3 (VL0), s5/2 waits for credits of s1/3 (VL0)"
    );
    assert!(!is_broken_up);
    assert!(at < SimTime::from_picos(2_000_000_000), "found within two milliseconds: {at:?}");
    // The deadlock persists as long as anything happens, and the World reports it once.
    lab.run();
    assert_eq!(deadlocks(&lab).len(), 1);
    assert!((0..SWITCHES).all(|who| lab.completions(who).iter().all(|done| done.status != WcStatus::Success)));
    assert!(lab.world.packets_under_way() > 0);
    assert_eq!(discards(&lab), 0);
}

#[test]
fn lifetime_limits_discard_what_waits_and_count_it() {
    let head = LifetimeCode::new(9).unwrap(); // 2.1 ms
    let limits = PacketLifetimes { head_of_queue_lifetime: head, ..PacketLifetimes::INFINITE };
    let mut lab = two_hops_each(&ring(SWITCHES, 5, limits), 4, 7);
    lab.run();
    let (at, _, is_broken_up) = deadlocks(&lab).remove(0);
    assert!(is_broken_up && at < SimTime::from_picos(2_000_000_000), "{at:?}");
    assert!(discards(&lab) > 0);
    assert_eq!(lab.world.packets_under_way(), 0);
    lab.world.assert_credits_are_back();
}

#[test]
fn the_time_in_a_switch_has_a_limit_of_its_own() {
    let whole = LifetimeCode::new(10).unwrap(); // 4.2 ms
    let limits = PacketLifetimes { packet_life_time: whole, ..PacketLifetimes::INFINITE };
    let mut lab = two_hops_each(&ring(SWITCHES, 5, limits), 1, 3);
    lab.run();
    assert!(discards(&lab) > 0);
    assert_eq!(lab.world.packets_under_way(), 0);
    lab.world.assert_credits_are_back();
}

#[test]
fn the_same_traffic_round_a_ring_that_is_open_moves_on() {
    // Without the last cable the switches form a row, and every message arrives.
    let mut spec = ring(SWITCHES, 5, PacketLifetimes::default());
    spec.cables.pop();
    assert_eq!(credit_loops(&spec), []);
    let mut lab = two_hops_each(&spec, 8, 7);
    lab.run();
    assert_eq!((deadlocks(&lab).len(), discards(&lab)), (0, 0));
    assert!((0..SWITCHES).all(|who| lab.completions(who).iter().all(|done| done.status == WcStatus::Success)));
}

#[test]
fn a_deadlock_is_the_same_in_every_run() {
    let run = || {
        let head = LifetimeCode::new(9).unwrap();
        let mut lab = two_hops_each(&ring(SWITCHES, 3, PacketLifetimes { head_of_queue_lifetime: head, ..PacketLifetimes::default() }), 16, 7);
        lab.run();
        (lab.events, lab.world.now(), deadlocks(&lab), lab.world.counters())
    };
    assert_eq!(run(), run());
}

#[test]
fn the_same_ring_does_not_deadlock_with_a_lane_for_ways_across_its_dateline_nor_by_going_up_and_down() {
    for (routing, code) in [(Routing::Torus, 2), (Routing::Torus, 5), (Routing::UpDown, 1)] {
        let mut spec = ring(SWITCHES, code, PacketLifetimes::INFINITE);
        spec.subnet.routing = routing;
        for end in spec.cables.iter_mut().flat_map(|cable| &mut cable.ends) {
            // Torus routing needs port 1 towards the next switch and port 2 towards the previous
            // switch.
            if let PortRef::Switch { port, .. } = end {
                *port = PortNumber([3, 1, 2][usize::from(port.0) - 1]);
            }
        }
        assert_eq!(credit_loops(&spec), [], "{routing:?}");
        let mut lab = two_hops_each(&spec, 8, 7);
        lab.run();
        assert_eq!((deadlocks(&lab).len(), discards(&lab)), (0, 0), "{routing:?}");
        assert!((0..SWITCHES).all(|who| lab.completions(who).iter().all(|done| done.status == WcStatus::Success)), "{routing:?}");
        lab.world.assert_credits_are_back();
    }
}
