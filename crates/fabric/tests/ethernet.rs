//! Ethernet links: their traffic, the pauses that keep buffers from overflowing, and the losses
//! without pauses.

use crate::common::*;
use softband_fabric::EthernetCounters;
use softband_fabric::notice::Notice;
use softband_model::parts::{EthernetCable, EthernetPorts};
use softband_model::verbs::api::*;
use softband_sim::{SimDuration, SimTime};
use softband_spec::faults::{BitErrorRate, FaultKind, FaultSpec};
use softband_spec::{CableSpec, EthernetFlowControl, FabricSpec, PortRef, SwitchSpec};
use softband_spec::{credit_loops, lossy_ends};
use softband_types::*;

/// Converts a fabric to Ethernet of this rate, with an MTU for packets of 4 KiB.
fn on_ethernet(mut spec: FabricSpec, rate: EthernetRate) -> FabricSpec {
    let ports = EthernetPorts { rates: vec![rate], buffer_bytes: 262_144, pause_response: nanos(600) };
    for hca in spec.hosts.iter_mut().flat_map(|host| &mut host.hcas) {
        (hca.link_layer, hca.part.ethernet, hca.part.mtu_max) = (LinkLayer::Ethernet, Some(ports.clone()), Mtu::B4096);
    }
    for switch in &mut spec.switches {
        switch.part.ethernet = Some(ports.clone());
        switch.part.mtu_max = Mtu::B4096;
        switch.part.forward_latency = vec![(rate.link_rate().speed, nanos(300))];
    }
    for cable in &mut spec.cables {
        cable.rate = rate.link_rate();
        cable.part.ethernet = Some(EthernetCable { rate_max: rate, fec_latency: Vec::new() });
    }
    spec.ethernet.mtu_bytes = 4_200;
    spec
}

/// Hosts on a switch.
fn star(hosts: usize, rate: EthernetRate) -> FabricSpec {
    on_ethernet(through_switch(LinkSpeed::Sdr, &vec![1; hosts], 1, host_part(600, 300)), rate)
}

/// Selects IPv4 addresses and full packets.
fn by_ipv4(modification: &mut QpModification) {
    let Some(vector) = &mut modification.address_vector else { return };
    let [high, low] = vector.dlid.0.to_be_bytes();
    let dgid = Gid::of_ipv4([10, 77, high, low]);
    vector.grh = Some(GlobalRoute { dgid, sgid_index: 1, hop_limit: 64, ..GlobalRoute::default() });
    vector.dlid = Lid::NONE;
    modification.path_mtu = modification.path_mtu.map(|_| Mtu::B4096);
}

fn total(lab: &Lab) -> EthernetCounters {
    let of_ports = lab.world.counters().into_iter().filter_map(|port| port.ethernet);
    of_ports.fold(EthernetCounters::default(), |sum, port| EthernetCounters {
        xmit_pauses: sum.xmit_pauses + port.xmit_pauses,
        rcv_pauses: sum.rcv_pauses + port.rcv_pauses,
        rcv_discards: sum.rcv_discards + port.rcv_discards,
    })
}

/// Makes all other hosts write to host 0 at once, `messages` of 64 KiB each.
fn incast(spec: &FabricSpec, messages: u64) -> Lab {
    let mut lab = Lab::new(spec);
    let patient = |m: &mut QpModification| {
        by_ipv4(m);
        m.local_ack_timeout = m.local_ack_timeout.map(|_| 14);
        m.retry_count = m.retry_count.map(|_| 7);
    };
    for who in 1..spec.hosts.len() {
        lab.fill(who, 0, 65_536, who as u8);
        let qpn = lab.connect_with(who, 0, QpType::Rc, patient).0;
        for number in 0..messages {
            let request = lab.request(who, number, lab.write_to(0, 65_536 * who as u64), 0, 65_536);
            lab.send(who, qpn, request);
        }
    }
    lab.run();
    for who in 1..spec.hosts.len() {
        let done = lab.completions(who);
        assert_eq!(done.iter().filter(|done| done.status == WcStatus::Success).count(), messages as usize, "{done:?}");
        let written = &lab.memory.blocks[0][65_536 * who..65_536 * (who + 1)];
        assert!(written == &lab.memory.blocks[who][..65_536], "the bytes of host {who}");
    }
    lab.world.assert_credits_are_back();
    assert_eq!(lab.world.packets_under_way(), 0);
    lab
}

#[test]
fn a_full_packet_takes_82_bytes_more_than_its_payload() {
    // A middle packet of a write: 14 + 20 + 8 + 12 + 4 + 4 bytes of headers, 20 of spacing. 10 GbE
    // is slower than the hosts.
    let mut lab = Lab::new(&star(2, EthernetRate::G10));
    let (qpn, _) = lab.connect_with(0, 1, QpType::Rc, by_ipv4);
    for number in 0..100 {
        let request = lab.request(0, number, lab.write_to(1, 0), 0, 65_536);
        lab.send(0, qpn, request);
    }
    lab.run();
    let done = lab.timed_completions(0);
    assert_eq!(done.len(), 100);
    let nanos = (done[99].0 - done[9].0).as_nanos() as f64;
    let rate = 90.0 * 65_536.0 / nanos * 1_000.0;
    let expected = 1_250.0 * 65_536.0 / (16.0 * (4_096.0 + 82.0) + 16.0);
    assert!((rate - expected).abs() < expected * 0.002, "{rate:.1} MB/s, {expected:.1} expected");
    assert_eq!(total(&lab), EthernetCounters::default(), "nobody had to wait");
}

#[test]
fn with_pauses_nothing_is_lost_though_all_send_to_one() {
    let lab = incast(&star(5, EthernetRate::G10), 40);
    let counted = total(&lab);
    assert!(counted.xmit_pauses > 0, "{counted:?}");
    // The last pause frame of each of the five ports may still be in flight.
    let under_way = counted.xmit_pauses.checked_sub(counted.rcv_pauses);
    assert!(counted.rcv_discards == 0 && counted.rcv_pauses > 0 && under_way.is_some_and(|frames| frames <= 5), "{counted:?}");
    assert!(lab.world.counters().iter().any(|port| port.port_xmit_wait > 0), "somebody stood still meanwhile");
}

/// Asserts that five hosts lose nothing when they write to the sixth on all priorities, with the
/// smallest buffers that their headroom allows.
fn assert_headroom_is_enough(mtu_bytes: u32, priorities: OperationalVls, path_mtu: Mtu) {
    use EthernetRate::{G10, G40};
    // Messages of one byte are too rare to fill a faster link.
    for (rate, messages, payload) in [(G10, 400, 1_u32), (G40, 200, 1_100), (G40, 60, 4_096)] {
        let lanes = u32::from(priorities.data_lanes());
        let mut spec = star(6, rate);
        (spec.ethernet.mtu_bytes, spec.ethernet.priorities) = (mtu_bytes, priorities);
        let needs = |spec: &FabricSpec| lossy_ends(spec).first().map(|(_, _, needs)| *needs);
        let shrink = |spec: &mut FabricSpec, bytes: u32| spec.switches[0].part.ethernet.as_mut().unwrap().buffer_bytes = bytes;
        shrink(&mut spec, 64 * lanes);
        let least = needs(&spec).unwrap();
        shrink(&mut spec, least * lanes);
        assert_eq!(lossy_ends(&spec), []);
        let mut lab = Lab::new(&spec);
        for (who, level) in (1..6).flat_map(|who| (0..lanes as u8).map(move |level| (who, level))) {
            let on_level = |m: &mut QpModification| {
                by_ipv4(m);
                m.path_mtu = m.path_mtu.map(|_| path_mtu);
                m.address_vector = m.address_vector.map(|vector| AddressVector { service_level: ServiceLevel(level), ..vector });
            };
            let qpn = lab.connect_with(who, 0, QpType::Uc, on_level).0;
            for number in 0..messages {
                let request = lab.request(who, number, lab.write_to(0, 0), 0, payload);
                lab.send(who, qpn, request);
            }
        }
        lab.run();
        let counted = total(&lab);
        assert_eq!(counted.rcv_discards, 0, "{payload} B");
        assert!(counted.xmit_pauses > 0, "{payload} B: {counted:?}");
        lab.world.assert_credits_are_back();
    }
}

#[test]
fn headroom_is_enough_however_small_the_buffer_and_the_messages() {
    assert_headroom_is_enough(4_200, OperationalVls::from_code(1).unwrap(), Mtu::B4096);
}

#[test]
fn headroom_is_enough_for_eight_priorities_at_once() {
    assert_headroom_is_enough(1_500, OperationalVls::from_code(4).unwrap(), Mtu::B1024);
}

#[test]
fn without_flow_control_full_buffers_drop_and_the_transport_repeats() {
    let mut spec = star(5, EthernetRate::G10);
    spec.ethernet.flow_control = EthernetFlowControl::None;
    let counted = total(&incast(&spec, 10));
    assert!(counted.rcv_discards > 0, "{counted:?}");
    assert_eq!(counted.xmit_pauses, 0);
}

#[test]
fn a_paused_priority_does_not_hold_up_another() {
    let mut spec = star(4, EthernetRate::G10);
    spec.ethernet.priorities = OperationalVls::from_code(2).unwrap();
    let mut lab = Lab::new(&spec);
    let on_level = |level: u8| {
        move |m: &mut QpModification| {
            by_ipv4(m);
            m.address_vector = m.address_vector.map(|vector| AddressVector { service_level: ServiceLevel(level), ..vector });
            m.local_ack_timeout = m.local_ack_timeout.map(|_| 14);
        }
    };
    // Hosts 1 and 2 fill the path to host 0; host 1 has a message on the other priority for host 3.
    for who in [1, 2] {
        let qpn = lab.connect_with(who, 0, QpType::Rc, on_level(0)).0;
        for number in 0..60 {
            let request = lab.request(who, number, lab.write_to(0, 0), 0, 65_536);
            lab.send(who, qpn, request);
        }
    }
    let victim = lab.connect_with(1, 3, QpType::Rc, on_level(3)).0;
    for number in 100..110 {
        let request = lab.request(1, number, lab.write_to(3, 0), 0, 65_536);
        lab.send(1, victim, request);
    }
    lab.run();
    let done = lab.timed_completions(1);
    let last = |of: &dyn Fn(u64) -> bool| done.iter().filter(|(_, done)| of(done.wr_id)).map(|(at, _)| *at).max().unwrap();
    assert!(total(&lab).xmit_pauses > 0);
    assert!(last(&|number| number >= 100).as_nanos() * 2 < last(&|number| number < 100).as_nanos());
}

#[test]
fn address_vectors_need_a_route_and_go_where_their_gid_leads() {
    let lab = Lab::new(&star(2, EthernetRate::G100));
    let hca = lab.programs[0].hca;
    let gids = lab.world.port(lab.programs[1].hca, PortNumber(1)).unwrap().gids.map(Option::unwrap);
    assert!(gids[0].is_link_local() && gids[1].ipv4() == Some([10, 77, 0, 2]));
    let to = |dgid, sgid_index| {
        let grh = Some(GlobalRoute { dgid, sgid_index, ..GlobalRoute::default() });
        lab.world.resolve(hca, &AddressVector { port: PortNumber(1), grh, ..AddressVector::default() }).map(|vector| vector.dlid)
    };
    assert_eq!((to(gids[0], 0), to(gids[1], 1)), (Ok(Lid(2)), Ok(Lid(2))));
    assert_eq!((to(gids[0], 1), to(gids[1], 0), to(gids[1], 2)), (Err(VerbsError::Invalid), Err(VerbsError::Invalid), Err(VerbsError::Invalid)));
    assert_eq!(to(Gid::of_ipv4([10, 77, 9, 9]), 1), Err(VerbsError::Unresolved));
    assert_eq!(to(Gid::of_ipv4([10, 77, 0, 3]), 1), Err(VerbsError::Unresolved), "the LID of the switch is no address");
    assert_eq!(to(Gid::new(Gid::DEFAULT_PREFIX, Guid(9)), 0), Ok(Lid::NONE), "nobody asks the network");
    assert!(to(Gid::of_ipv4([239, 1, 2, 3]), 1).is_ok_and(Lid::is_multicast));
    let plain = AddressVector { dlid: Lid(2), port: PortNumber(1), ..AddressVector::default() };
    assert_eq!(lab.world.resolve(hca, &plain), Err(VerbsError::Invalid));
}

/// Two networks, each a switch with two hosts: 0 and 1 here, 2 and 3 there.
fn two_networks() -> FabricSpec {
    let mut spec = through_switch(LinkSpeed::Sdr, &[1; 4], 1, host_part(600, 300));
    spec.switches.push(SwitchSpec { name: "there".into(), part: switch_part(), node_guid: Guid(0x200) });
    for (index, cable) in spec.cables.iter_mut().enumerate().skip(2) {
        cable.ends[1] = PortRef::Switch { switch: 1, port: PortNumber(index as u8) };
    }
    spec
}

#[test]
fn addresses_of_another_network_lead_nowhere() {
    let lab = Lab::new(&on_ethernet(two_networks(), EthernetRate::G10));
    let of = |who: usize| lab.programs[who].hca;
    let reached = |lab: &Lab, from: usize, to: usize| {
        let lid = lab.world.port(of(to), PortNumber(1)).unwrap().lid;
        lab.world.hca_reached((of(from), PortNumber(1)), lid) == Some(of(to))
    };
    let resolves = |from: usize, to: usize| {
        let dgid = lab.world.port(of(to), PortNumber(1)).unwrap().gids[1].unwrap();
        let grh = Some(GlobalRoute { dgid, sgid_index: 1, ..GlobalRoute::default() });
        lab.world.resolve(of(from), &AddressVector { port: PortNumber(1), grh, ..AddressVector::default() }).is_ok()
    };
    let infiniband = Lab::new(&two_networks());
    for from in 0..4 {
        for to in 0..4 {
            let is_there = from / 2 == to / 2;
            assert_eq!(
                (reached(&lab, from, to), resolves(from, to), reached(&infiniband, from, to)),
                (is_there, is_there, is_there),
                "{from} to {to}"
            );
        }
    }
}

/// Seven switches in a ring, each with a host that writes to the host three switches further on.
#[test]
fn a_cycle_of_pauses_is_told_of_before_and_found_in_a_run() {
    const SWITCHES: usize = 7;
    let mut spec = through_switch(LinkSpeed::Sdr, &[1; SWITCHES], 1, host_part(600, 300));
    let port = |switch: usize, port| PortRef::Switch { switch, port: PortNumber(port) };
    let switch = |index| SwitchSpec { name: format!("s{}", index + 1), part: switch_part(), node_guid: Guid(0x100 + index as u64) };
    spec.switches = (0..SWITCHES).map(switch).collect();
    for (index, cable) in spec.cables.iter_mut().enumerate() {
        cable.ends[1] = port(index, 1);
    }
    let around = |index| CableSpec { part: cable(1), ends: [port(index, 2), port((index + 1) % SWITCHES, 3)], rate: rate(LinkSpeed::Sdr) };
    spec.cables.extend((0..SWITCHES).map(around));
    let mut spec = on_ethernet(spec, EthernetRate::G10);
    assert_eq!(credit_loops(&spec)[0].describe(&spec), "s1/2 -> s2/2 -> s3/2 -> s4/2 -> s5/2 -> s6/2 -> s7/2 -> s1/2 (priority 0)");
    let mut lab = Lab::new(&spec);
    for who in 0..SWITCHES {
        let to = (who + 3) % SWITCHES;
        let qpn = lab.connect_with(who, to, QpType::Uc, by_ipv4).0;
        for number in 0..60 {
            let request = lab.request(who, number, lab.write_to(to, 0), 0, 65_536);
            lab.send(who, qpn, request);
        }
    }
    while lab.world.now().as_nanos() < 20_000_000 && lab.step() {}
    let found = lab
        .notices
        .iter()
        .find_map(|(_, notice)| if let Notice::Deadlock { waits, is_broken_up } = notice { Some((waits, is_broken_up)) } else { None });
    let (waits, is_broken_up) = found.expect("they wait for each other");
    assert!(waits.starts_with("s1/2 is paused by s2/3 (priority 0), ") && !is_broken_up, "{waits}");
    spec.ethernet.flow_control = EthernetFlowControl::None;
    assert_eq!(credit_loops(&spec), []);
}

#[test]
fn a_link_that_fails_amid_pauses_leaves_no_buffer_held_and_nobody_paused() {
    let at = |micros: u64| SimTime::ZERO + SimDuration::from_micros(micros);
    let fault = |micros: u64, kind| FaultSpec { at: at(micros), kind };
    let rate = BitErrorRate::new(1e-7).unwrap();
    let mut spec = star(5, EthernetRate::G25);
    spec.faults = vec![
        fault(40, FaultKind::LinkDown { cable: 0 }),
        fault(90, FaultKind::LinkUp { cable: 0 }),
        fault(150, FaultKind::LinkDown { cable: 2 }),
        fault(200, FaultKind::LinkUp { cable: 2 }),
        fault(0, FaultKind::BitErrors { cable: 3, rate }),
    ];
    // `incast` asserts that every message arrives, and that no credits or places are missing.
    let lab = incast(&spec, 20);
    assert!(total(&lab).xmit_pauses > 0);
    let faults = |node: &str| lab.world.counters().into_iter().find(|port| port.node == node).unwrap().faults.unwrap();
    assert_eq!((faults("a/test0").link_downed, faults("c/test0").link_downed), (1, 1));
    let corrupted = lab.world.counters().iter().map(|port| port.faults.unwrap().port_rcv_errors).sum::<u64>();
    assert!(corrupted > 0);
}
