//! A manager as a program: lost packets, data after it, and links that go down and come up.

use crate::common::*;
use crate::snapshot::{Snapshot, snapshot};
use crate::sweeper::{NoMemory, Sweeper};
use softband_fabric::World;
use softband_fabric::notice::Notice;
use softband_model::management::manager::Configuration;
use softband_sim::{SimDuration, SimTime};
use softband_spec::faults::{FaultKind, FaultSpec};
use softband_spec::{CableSpec, FabricSpec, PortRef, SubnetManager, SwitchSpec};
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

/// The manager inside the fabric: `manager = "builtin-by-packets"`.
fn inside(mut spec: FabricSpec) -> FabricSpec {
    spec.subnet.manager = SubnetManager::BuiltinByPackets;
    spec
}

/// Runs a World up to a time. Returns the events of ports.
fn port_events(world: &mut World, end: SimTime) -> Vec<(HcaId, u32)> {
    let mut notices = Vec::new();
    let mut events = Vec::new();
    while world.next_event_time().is_some_and(|next| next <= end) {
        world.step(&mut NoMemory, &mut notices);
        events.extend(notices.drain(..).filter_map(|notice| match notice {
            Notice::PortEvent { hca, event, .. } => Some((hca, event)),
            _ => None,
        }));
    }
    events
}

#[test]
fn the_manager_inside_the_fabric_leaves_the_same_subnet() {
    let spec = ring();
    let mut built = World::new(&spec, 1);
    let mut world = World::new(&inside(spec.clone()), 1);
    assert_eq!(world.port(world.hca_id(1, 0), PortNumber(1)).unwrap().lid, Lid::NONE);
    let events = port_events(&mut world, SimTime::ZERO + SimDuration::from_micros(10_000));
    // LID_CHANGE, SM_CHANGE and PORT_ACTIVE of `ibv_event_type`.
    for host in 0..3 {
        let of_host: Vec<u32> = events.iter().filter(|(hca, _)| *hca == world.hca_id(host, 0)).map(|(_, event)| *event).collect();
        assert_eq!(of_host, [11, 13, 9]);
    }
    assert!(snapshot(&spec, &mut built, 0) == snapshot(&spec, &mut world, 0));
    let lids = |world: &World| (0..3).map(|host| world.port(world.hca_id(host, 0), PortNumber(1)).unwrap().sm_lid).collect::<Vec<_>>();
    assert_eq!(lids(&world), [Lid(1); 3]);
}

#[test]
fn the_manager_inside_the_fabric_reacts_to_links() {
    let at = |micros| SimTime::ZERO + SimDuration::from_micros(micros);
    let mut spec = inside(ring());
    spec.faults = vec![
        FaultSpec { at: at(50_000), kind: FaultKind::LinkDown { cable: 3 } },
        FaultSpec { at: at(60_000), kind: FaultKind::LinkDown { cable: 0 } },
        FaultSpec { at: at(80_000), kind: FaultKind::LinkUp { cable: 0 } },
        FaultSpec { at: at(100_000), kind: FaultKind::LinkUp { cable: 3 } },
    ];
    let mut world = World::new(&spec, 1);
    port_events(&mut world, at(40_000));
    let whole = tables(&spec, &mut world);
    port_events(&mut world, at(58_000));
    assert_ne!(tables(&spec, &mut world), whole);
    // The manager's own link: its port comes back with its LID.
    let events = port_events(&mut world, at(95_000));
    let own = world.hca_id(0, 0);
    assert!(events.contains(&(own, 10)) && events.contains(&(own, 9)), "{events:?}");
    port_events(&mut world, at(150_000));
    assert_eq!(tables(&spec, &mut world), whole);
    let mut lab = Lab::over(world);
    let (a, _) = lab.connect(0, 1, QpType::Rc);
    let request = lab.request(0, 1, lab.write_to(1, 0), 0, 4_096);
    lab.send(0, a, request);
    lab.run();
    assert_eq!(lab.statuses(0), [(1, WcStatus::Success)]);
}

#[test]
fn groups_get_their_trees_by_packets() {
    let mut world = World::new(&inside(ring()), 1);
    let mlid = Lid(0xC005);
    port_events(&mut world, SimTime::ZERO + SimDuration::from_micros(10_000));
    let mut lab = Lab::over(world);
    let mgid = Gid::new(0xFF12_0000_0000_0000, Guid(5));
    for host in [0, 2] {
        let qpn = lab.create(host, QpType::Ud);
        lab.world.attach_multicast(ProcessId(host as u32), lab.world.hca_id(host, 0), qpn, mgid, mlid).unwrap();
    }
    lab.run();
    let tables = snapshot(&ring(), &mut lab.world, 32);
    let mask = |switch: &str| {
        let block = &tables[&format!("{switch} MFT 0 ports 0")];
        u16::from_be_bytes([block[10], block[11]])
    };
    assert_eq!((mask("s0"), mask("s1"), mask("s2")), (1 << 1 | 1 << 3, 0, 1 << 1 | 1 << 2));
}
