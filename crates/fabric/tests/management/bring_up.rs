//! A manager as a program: lost packets, data after it, and links that go down and come up.

use crate::common::*;
use crate::snapshot::{Snapshot, snapshot};
use crate::sweeper::Sweeper;
use softband_fabric::World;
use softband_model::management::manager::Configuration;
use softband_sim::{SimDuration, SimTime};
use softband_spec::faults::{FaultKind, FaultSpec};
use softband_spec::{CableSpec, FabricSpec, PortRef, SwitchSpec};
use softband_types::*;

/// Three switches in a ring, each with a host at port 1. Cable 3 joins the first two switches.
pub(crate) fn ring() -> FabricSpec {
    let mut spec = through_switch(LinkSpeed::Sdr, &[1, 1, 1], 4, host_part(600, 300));
    let switch = |number: usize| SwitchSpec { name: format!("s{number}"), part: switch_part(), node_guid: Guid(0x50 + number as u64) };
    spec.switches = (0..3).map(switch).collect();
    let port = |switch, port| PortRef::Switch { switch, port: PortNumber(port) };
    for (host, cable) in spec.cables.iter_mut().enumerate() {
        cable.ends[1] = port(host, 1);
    }
    let around = |number: usize| CableSpec { ends: [port(number, 2), port((number + 1) % 3, 3)], ..spec.cables[0].clone() };
    let cables: Vec<CableSpec> = (0..3).map(around).collect();
    spec.cables.extend(cables);
    spec
}

#[test]
fn lost_packets_change_nothing() {
    let spec = ring();
    let mut built = World::new(&spec, 1);
    let whole = snapshot(&spec, &mut built, 0);
    let mut sweeper = Sweeper::with(&spec, |configuration| Configuration { retries: 30, ..configuration });
    sweeper.world.set_packet_loss(50_000);
    sweeper.sweep();
    sweeper.world.set_packet_loss(0);
    assert_eq!(sweeper.manager.problems(), []);
    assert!(sweeper.manager.tally().sent_again > 0);
    assert!(snapshot(&spec, &mut sweeper.world, 0) == whole);
}

#[test]
fn data_passes_after_the_sweep_and_not_before() {
    let spec = ring();
    let mut sweeper = Sweeper::new(&spec);
    let time = sweeper.sweep();
    assert!(time > SimDuration::ZERO && time < SimDuration::from_micros(10_000), "{time:?}");
    let mut lab = Lab::over(sweeper.world);
    let (a, _) = lab.connect(0, 2, QpType::Rc);
    for number in 0..20 {
        let request = lab.request(0, number, lab.write_to(2, 0), 0, 16_384);
        lab.send(0, a, request);
    }
    lab.run();
    assert_eq!(lab.completions(0).iter().filter(|completion| completion.status == WcStatus::Success).count(), 20);
    lab.world.audit().unwrap();
}

/// Returns the forwarding tables of all switches. Reads do not pass the cable that fails.
pub(crate) fn tables(spec: &FabricSpec, world: &mut World) -> Snapshot {
    let mut spec = spec.clone();
    spec.cables.remove(3);
    snapshot(&spec, world, 0).into_iter().filter(|(place, _)| place.contains("LFT")).collect()
}

#[test]
fn a_link_that_goes_down_leads_to_new_tables_and_back() {
    let at = |micros| SimTime::ZERO + SimDuration::from_micros(micros);
    let mut spec = ring();
    spec.faults = vec![
        FaultSpec { at: at(50_000), kind: FaultKind::LinkDown { cable: 3 } },
        FaultSpec { at: at(100_000), kind: FaultKind::LinkUp { cable: 3 } },
    ];
    let mut sweeper = Sweeper::new(&spec);
    sweeper.sweep();
    let whole = tables(&spec, &mut sweeper.world);
    sweeper.run_until(at(90_000));
    assert!(sweeper.manager.tally().sweeps >= 2, "a trap leads to a sweep");
    assert_eq!(sweeper.manager.problems(), []);
    assert_ne!(tables(&spec, &mut sweeper.world), whole, "the way round leads over the third switch");
    sweeper.run_until(at(200_000));
    assert_eq!(sweeper.manager.problems(), []);
    assert_eq!(tables(&spec, &mut sweeper.world), whole);
}
