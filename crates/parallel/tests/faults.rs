//! Faults affect the same packets on any number of threads.

#[path = "../../fabric/tests/common/mod.rs"]
mod common;

use common::{host_part, through_switch};
use softband_parallel::ParallelRunner;
use softband_sim::{SimDuration, SimTime};
use softband_spec::faults::{BitErrorRate, FaultKind, FaultSpec, PacketClass};
use softband_spec::{CableSpec, FabricSpec, PortRef, SwitchSpec};
use softband_types::{Guid, LinkSpeed, PortNumber};
use softband_workload::{Measurements, Pattern, RunError, Settings, build};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Four leaves with four hosts each, whose cables come first, and two spines. Cable 16 + 2 x leaf +
/// spine joins a leaf to a spine.
fn two_levels(faults: &[FaultSpec]) -> FabricSpec {
    let mut spec = through_switch(LinkSpeed::Ddr, &[5; 16], 1, host_part(600, 300));
    let part = spec.switches[0].part.clone();
    let switch = |number: u8| SwitchSpec { name: format!("s{number}"), part: part.clone(), node_guid: Guid(0x100 + u64::from(number)) };
    spec.switches = (0..6).map(switch).collect();
    for (host, cable) in spec.cables.iter_mut().enumerate() {
        cable.ends[1] = PortRef::Switch { switch: host / 4, port: PortNumber(host as u8 % 4 + 1) };
    }
    let template = spec.cables[0].clone();
    for (leaf, spine) in (0..4).flat_map(|leaf| (0..2).map(move |spine| (leaf, spine))) {
        let up = PortRef::Switch { switch: leaf, port: PortNumber(5 + spine) };
        let down = PortRef::Switch { switch: 4 + usize::from(spine), port: PortNumber(leaf as u8 + 1) };
        spec.cables.push(CableSpec { ends: [up, down], ..template.clone() });
    }
    FabricSpec { faults: faults.to_vec(), ..spec }
}

fn fault(micros: u64, kind: FaultKind) -> FaultSpec {
    FaultSpec { at: SimTime::ZERO + SimDuration::from_micros(micros), kind }
}

/// Runs a workload. Returns all its results as text, and its outcome.
fn run(spec: &FabricSpec, threads: u8) -> (String, Result<(), RunError>) {
    let settings = Settings { bytes: Some(20_000), messages: Some(1), seed: 3, ..Settings::default() };
    let schedule = Arc::new(build(Pattern::AllToAll, 16, &settings).unwrap());
    let mut runner = ParallelRunner::new(spec, 1, &schedule, (1, threads)).unwrap();
    let outcome = runner.run(&mut |_| ControlFlow::Continue(()));
    // The number of vain attempts to send depends on the threads.
    let measured = Measurements { events: 0, ..runner.measurements() };
    (format!("{measured:?}\n{:?}\n{:?}", runner.port_reports(), runner.warnings().collect::<Vec<_>>()), outcome)
}

#[test]
fn what_links_lose_does_not_depend_on_threads() {
    let rate = BitErrorRate::new(2e-6).unwrap();
    let spec = two_levels(&[
        fault(200, FaultKind::LinkDown { cable: 3 }),
        fault(200, FaultKind::LinkDown { cable: 16 }),
        fault(205, FaultKind::LinkUp { cable: 16 }),
        fault(390, FaultKind::LinkUp { cable: 3 }),
        fault(400, FaultKind::LinkRecovers { cable: 20, lasts: SimDuration::from_micros(7) }),
        fault(0, FaultKind::BitErrors { cable: 21, rate }),
        fault(50, FaultKind::BitErrors { cable: 5, rate }),
        fault(0, FaultKind::Drop { port: PortRef::Switch { switch: 4, port: PortNumber(2) }, packet: PacketClass::Any, number: 17 }),
    ]);
    let (alone, outcome) = run(&spec, 1);
    assert_eq!(outcome, Ok(()));
    let untroubled = run(&two_levels(&[]), 1).0;
    assert!(alone != untroubled && alone.contains("link_downed: 1") && alone.contains("link_error_recovery: 1"));
    let corrupted = alone.matches("port_rcv_errors: ").count() - alone.matches("port_rcv_errors: 0").count();
    assert!(corrupted >= 4, "{corrupted} ports have received packets with bad CRCs");
    for threads in [2, 4] {
        assert!(run(&spec, threads) == (alone.clone(), Ok(())), "{threads} threads");
    }
}

#[test]
fn a_dead_host_ends_a_workload_the_same_way_on_any_number_of_threads() {
    for kind in [FaultKind::HostDies { host: 6 }, FaultKind::SwitchDies { switch: 1 }] {
        let spec = two_levels(&[fault(100, kind)]);
        let (alone, outcome) = run(&spec, 1);
        let Err(RunError::Failed { status, .. }) = &outcome else { panic!("{outcome:?}") };
        assert_eq!(status, "RetryExceeded");
        for threads in [2, 4] {
            let (left, others) = run(&spec, threads);
            assert_eq!(others, outcome, "{threads} threads");
            assert!(left == alone, "{threads} threads");
        }
    }
}
