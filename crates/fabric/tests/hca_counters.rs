//! Each limit of a transfer counts its active time. A limit that was active all the time is the
//! bottleneck.

use crate::common::*;
use softband_fabric::HcaCounters;
use softband_spec::FabricSpec;
use softband_types::*;

/// Returns shares of the transfer's time: the sender's slot reads, read waits and gaps; then the
/// sender's link.
fn shares(spec: &FabricSpec, size: u32, count: u64) -> ([f64; 3], f64) {
    let mut lab = Lab::new(spec);
    let (a, _) = lab.connect(0, 1, QpType::Rc);
    for number in 0..count {
        let request = lab.request(0, number, lab.write_to(1, 0), 0, size);
        lab.send(0, a, request);
    }
    lab.run();
    let times = lab.timed_completions(0);
    assert_eq!(times.len() as u64, count);
    let picos = times.last().unwrap().0.as_picos() as f64;
    let hca: HcaCounters = lab.world.hca_counters().swap_remove(0);
    assert!(hca.node.starts_with("a/"), "{}", hca.node);
    let link = lab.world.counters().iter().find(|port| port.node == hca.node).unwrap().xmit_busy_picos;
    let own = [hca.slot_read_picos, hca.read_wait_picos, hca.message_gap_picos];
    (own.map(|limit| limit as f64 / picos), link as f64 / picos)
}

#[test]
fn the_link_is_at_work_all_the_time_at_sdr() {
    let ([slot, _, gap], link) = shares(&back_to_back(LinkSpeed::Sdr, 1, 5, host_part(600, 300)), 65_536, 200);
    assert!(link > 0.97, "{link}");
    assert!(slot < 0.75, "{slot}");
    assert!(gap < 0.1, "{gap}");
}

#[test]
fn the_slot_is_at_work_all_the_time_at_ddr_on_a_bus_of_the_first_generation() {
    let ([slot, _, _], link) = shares(&back_to_back(LinkSpeed::Ddr, 1, 5, host_part(600, 300)), 65_536, 200);
    assert!(slot > 0.97, "{slot}");
    assert!(link < 0.85, "{link}");
}

#[test]
fn reads_wait_for_memory_all_the_time_where_its_latency_is_long() {
    let ([slot, waits, _], link) = shares(&back_to_back(LinkSpeed::Sdr, 1, 5, host_part(1_955, 1_800)), 65_536, 200);
    assert!(waits > 0.95, "{waits}");
    assert!(slot < 0.9 && link < 0.95, "{slot} {link}");
}

#[test]
fn gaps_between_messages_take_all_the_time_of_small_ones() {
    let ([slot, _, gap], link) = shares(&back_to_back(LinkSpeed::Sdr, 1, 5, host_part(600, 300)), 8, 2_000);
    assert!(gap > 0.95, "{gap}");
    assert!(slot < 0.3 && link < 0.3, "{slot} {link}");
}
