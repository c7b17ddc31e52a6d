//! Congestion control: the effect of a hot receiver on passing flows, and the effect of marking and
//! throttling.

use crate::common::*;
use softband_fabric::PortCounters;
use softband_fabric::notice::Notice;
use softband_model::switch::MarkingSettings;
use softband_model::transport::{CctEntry, Flow, InjectionSettings};
use softband_sim::SimTime;
use softband_spec::{CableSpec, CongestionControl, FabricSpec, PortRef, SwitchSpec};
use softband_types::*;

/// Host numbers, in both fabrics: four writers to the hot host, the hot host, and the victim's
/// target.
const HOT: usize = 4;
const QUIET: usize = 5;

fn control() -> CongestionControl {
    CongestionControl {
        // Half of an input's capacity: four packets.
        marking: MarkingSettings { threshold: 8, packet_size: CreditBlocks(8), marking_rate: 0 },
        injection: InjectionSettings {
            flow: Flow::QueuePair,
            ccti_increase: 1,
            ccti_limit: 127,
            ccti_min: 0,
            ccti_timer: 150,
            cct: (0..128).map(|multiplier| CctEntry { shift: 2, multiplier }).collect(),
        },
    }
}

/// Six hosts on a switch. The victim's packets come from host 0, which also writes to the hot host.
fn one_switch(control: Option<CongestionControl>) -> FabricSpec {
    let mut spec = through_switch(LinkSpeed::Sdr, &[8; 6], 1, host_part(600, 300));
    spec.subnet.congestion_control = control;
    spec
}

/// Hosts 0 and 6 on a switch of their own: one cable leads from there to the hot host and to the
/// quiet host.
fn two_switches(control: Option<CongestionControl>) -> FabricSpec {
    let mut spec = through_switch(LinkSpeed::Sdr, &[8; 7], 1, host_part(600, 300));
    spec.subnet.congestion_control = control;
    spec.switches.push(SwitchSpec { name: "edge".into(), part: switch_part(), node_guid: Guid(0x6) });
    let port = |switch, port| PortRef::Switch { switch, port: PortNumber(port) };
    spec.cables[0].ends[1] = port(1, 1);
    spec.cables[6].ends[1] = port(1, 2);
    // Fast enough for both flows, so only the packets waiting at its end matter.
    spec.cables.push(CableSpec { part: cable(8), ends: [port(1, 3), port(0, 24)], rate: rate(LinkSpeed::Ddr) });
    spec
}

/// Connects with a timeout of 67 ms, because throttled packets delay their acknowledgements.
fn connect(lab: &mut Lab, from: usize, to: usize, qp_type: QpType) -> Qpn {
    lab.connect_with(from, to, qp_type, |m| m.local_ack_timeout = m.local_ack_timeout.map(|_| 14)).0
}

/// Runs for 20 ms: hosts 0 to 3 write to the hot host, `victim` to the quiet host. Returns the
/// megabytes per second of the victim and of the hot host over the last 15 ms.
fn incast(spec: &FabricSpec, victim: usize, qp_type: QpType) -> (Lab, f64, f64) {
    const MESSAGE: u32 = 65_536;
    let mut lab = Lab::new(spec);
    lab.memory.discard = true;
    let mut flows: Vec<(usize, usize, Qpn)> = (0..HOT).map(|who| (who, HOT, connect(&mut lab, who, HOT, qp_type))).collect();
    flows.push((victim, QUIET, connect(&mut lab, victim, QUIET, qp_type)));
    for (who, to, qpn) in &flows {
        for number in 0..400 {
            let request = lab.request(*who, number, lab.write_to(*to, 0), 0, MESSAGE);
            lab.send(*who, *qpn, request);
        }
    }
    let millis = |millis: u64| SimTime::from_picos(millis * 1_000_000_000);
    while lab.world.now() < millis(20) {
        assert!(lab.step(), "there is enough to send");
    }
    assert!((0..lab.programs.len()).all(|who| lab.completions(who).iter().all(|done| done.status == WcStatus::Success)));
    let rate_of = |who: usize, qpn: Qpn| {
        let done = lab.timed_completions(who).into_iter().filter(|(at, done)| done.qpn == qpn && *at >= millis(5)).count();
        done as f64 * f64::from(MESSAGE) / 0.015 / 1e6
    };
    let hot: f64 = flows[..HOT].iter().map(|(who, _, qpn)| rate_of(*who, *qpn)).sum();
    let quiet = rate_of(flows[HOT].0, flows[HOT].2);
    (lab, quiet, hot)
}

/// The settings that docs/congestion-control.md recommends.
fn recommended() -> CongestionControl {
    let control = control();
    CongestionControl { injection: InjectionSettings { ccti_timer: 38, ..control.injection }, ..control }
}

/// Hosts 0, 1 and 6 on a switch of their own, with one cable to the others' switch.
fn two_and_two(control: Option<CongestionControl>) -> FabricSpec {
    let mut spec = two_switches(control);
    spec.cables[1].ends[1] = PortRef::Switch { switch: 1, port: PortNumber(4) };
    spec
}

/// Hosts 0 to 3 write to the hot host, `victim` to the quiet host. Returns megabytes per second of
/// each, the victim last, from 20 ms to 40 ms.
fn shares(spec: &FabricSpec, victim: usize) -> Vec<f64> {
    const MESSAGE: u32 = 65_536;
    let mut lab = Lab::new(spec);
    lab.memory.discard = true;
    let ways = (0..HOT).map(|who| (who, HOT)).chain([(victim, QUIET)]);
    let flows: Vec<(usize, Qpn)> = ways
        .map(|(who, to)| {
            let qpn = connect(&mut lab, who, to, QpType::Rc);
            for number in 0..800 {
                let request = lab.request(who, number, lab.write_to(to, 0), 0, MESSAGE);
                lab.send(who, qpn, request);
            }
            (who, qpn)
        })
        .collect();
    let millis = |millis: u64| SimTime::from_picos(millis * 1_000_000_000);
    while lab.world.now() < millis(40) {
        assert!(lab.step(), "there is enough to send");
    }
    let rate = |(who, qpn): (usize, Qpn)| {
        let done = lab.timed_completions(who).into_iter().filter(|(at, done)| done.qpn == qpn && *at >= millis(20)).count();
        done as f64 * f64::from(MESSAGE) / 0.02 / 1e6
    };
    flows.into_iter().map(rate).collect()
}

/// Returns the largest share of the hot receiver over the least, the receiver's total, and the
/// victim's rate.
fn fairness(rates: &[f64]) -> (f64, f64, f64) {
    let (hot, victim) = (&rates[..HOT], rates[HOT]);
    let [least, most] = [f64::min, f64::max].map(|pick| hot.iter().copied().reduce(pick).unwrap());
    (most / least, hot.iter().sum(), victim)
}

#[test]
fn with_the_recommended_settings_contributors_share_fairly_and_the_link_stays_busy() {
    // One lane with room for eight packets of each input, and two lanes with room for four.
    for code in [1, 2] {
        for (build, victim) in [(one_switch as fn(_) -> _, 0), (two_and_two, 6)] {
            let with = |control| {
                let mut spec: FabricSpec = build(control);
                spec.subnet.max_op_vls = vls(code);
                fairness(&shares(&spec, victim))
            };
            let (without, _, held_up) = with(None);
            let (ratio, hot, victim) = with(Some(recommended()));
            let said = format!("code {code}: {without:.2} without, {ratio:.2} with, hot {hot:.0} MB/s, victim {held_up:.0} and {victim:.0} MB/s");
            assert!(ratio < 1.2 && hot > 0.9 * 984.0 && victim > 2.0 * held_up, "{said}");
        }
    }
}

#[test]
fn no_threshold_starves_contributors() {
    for threshold in [1, 4, 8] {
        let mut control = control();
        control.marking.threshold = threshold;
        let mut spec = one_switch(Some(control));
        spec.subnet.max_op_vls = vls(2);
        let (ratio, hot, _) = fairness(&shares(&spec, 0));
        assert!(ratio < 1.3 && hot > 0.85 * 984.0, "threshold {threshold}: {ratio:.2}, {hot:.0} MB/s");
    }
}

fn port_of(lab: &Lab, node: &str) -> PortCounters {
    lab.world.counters().into_iter().find(|port| port.node == node).unwrap()
}

fn marks(lab: &Lab) -> u64 {
    lab.world.counters().iter().map(|port| port.port_pkt_rcv_fecn).sum()
}

#[test]
fn a_victim_behind_the_same_cable_gets_its_bandwidth_back() {
    let (lab, without, hot) = incast(&one_switch(None), 0, QpType::Rc);
    assert!((200.0..300.0).contains(&without) && hot > 950.0, "held up by its neighbours: {without:.0}, {hot:.0} MB/s");
    assert_eq!(marks(&lab), 0);
    let (lab, with, hot) = incast(&one_switch(Some(control())), 0, QpType::Rc);
    assert!(with > 2.0 * without, "{without:.0} MB/s without, {with:.0} with");
    assert!(hot > 0.7 * 984.0, "the hot receiver stays busy: {hot:.0} MB/s");
    let (source, receiver) = (port_of(&lab, "a/test0"), port_of(&lab, "e/test0"));
    assert!(source.port_pkt_rcv_becn > 0 && receiver.port_pkt_rcv_fecn > 0);
    assert_eq!(port_of(&lab, "f/test0").port_pkt_rcv_fecn, 0, "nobody marks the victim");
    assert!(lab.world.counters().iter().any(|port| port.node == "switch" && port.port_xmit_time_cong > 0));
}

#[test]
fn a_victim_that_shares_a_cable_between_switches_gets_its_bandwidth_back() {
    for flow in [Flow::QueuePair, Flow::ServiceLevel] {
        for qp_type in [QpType::Rc, QpType::Uc] {
            let (lab, without, _) = incast(&two_switches(None), 6, qp_type);
            assert!(!lab.notices.iter().any(|(_, notice)| matches!(notice, Notice::Deadlock { .. })), "slow is not stuck");
            let mut control = control();
            control.injection.flow = flow;
            let (_, with, hot) = incast(&two_switches(Some(control)), 6, qp_type);
            assert!(with > 2.0 * without && hot > 0.7 * 984.0, "{flow:?} {qp_type:?}: {without:.0} MB/s without, {with:.0} with, hot {hot:.0}");
        }
    }
}

#[test]
fn the_sooner_marks_come_the_less_the_hot_receiver_gets() {
    // From weight 15 on, any packet behind another counts as congestion, even if flows meet by
    // chance.
    let hot = [1, 8, 15].map(|threshold| {
        let mut control = control();
        control.marking.threshold = threshold;
        incast(&one_switch(Some(control)), 0, QpType::Rc).2
    });
    assert!(hot[0] > 900.0 && hot[1] > 850.0 && hot[2] < 0.8 * hot[1], "{hot:?}");
}

#[test]
fn slowing_down_a_whole_service_level_does_not_help_who_shares_it() {
    let mut control = control();
    control.injection.flow = Flow::ServiceLevel;
    let (_, by_level, _) = incast(&one_switch(Some(control)), 0, QpType::Rc);
    assert!((50.0..400.0).contains(&by_level), "{by_level:.0} MB/s");
}

#[test]
fn responders_of_reads_are_slowed_down_as_well() {
    let mut lab = Lab::new(&one_switch(Some(control())));
    lab.memory.discard = true;
    for from in 0..HOT {
        let reader = connect(&mut lab, HOT, from, QpType::Rc);
        for number in 0..40 {
            let request = lab.request(HOT, number, lab.read_from(from, 0), 0, 65_536);
            lab.send(HOT, reader, request);
        }
    }
    lab.run();
    assert!(lab.completions(HOT).iter().all(|done| done.status == WcStatus::Success));
    assert_eq!(lab.completions(HOT).len(), 160);
    let becns = |node: &str| port_of(&lab, node).port_pkt_rcv_becn;
    assert!(["a/test0", "b/test0", "c/test0", "d/test0"].iter().all(|node| becns(node) > 0));
    lab.world.assert_credits_are_back();
}

/// Three hosts each write one packet of 2 KiB to the hot host at the same time. Returns the number
/// of marked packets.
fn marks_of_three_packets(control: CongestionControl) -> u64 {
    let mut lab = Lab::new(&one_switch(Some(control)));
    let senders = [0, 1, 2].map(|who| (who, lab.connect(who, HOT, QpType::Rc).0));
    for (who, qpn) in senders {
        let request = lab.request(who, 0, lab.write_to(HOT, 0), 0, 2_048);
        lab.send(who, qpn, request);
    }
    lab.run();
    marks(&lab)
}

#[test]
fn packets_are_marked_only_above_the_threshold_and_from_their_size_on() {
    // The first packet goes at once, the second while one packet of 33 blocks waits, the third
    // alone. A lane holds 264 blocks.
    let with = |threshold, packet_size| {
        let marking = MarkingSettings { threshold, packet_size: CreditBlocks(packet_size), marking_rate: 0 };
        marks_of_three_packets(CongestionControl { marking, ..control() })
    };
    // Weights 13, 14 and 15 mean more than 49, 33 and 16 blocks.
    assert_eq!([0, 1, 13, 14, 15].map(|threshold| with(threshold, 0)), [0, 0, 0, 0, 1]);
    assert_eq!([33, 34].map(|size| with(15, size)), [1, 0]);
}

#[test]
fn a_single_flow_is_never_marked() {
    let mut control = control();
    control.marking.threshold = 15;
    let mut lab = Lab::new(&one_switch(Some(control)));
    let (sender, _) = lab.connect(0, HOT, QpType::Rc);
    for number in 0..50 {
        let request = lab.request(0, number, lab.write_to(HOT, 0), 0, 65_536);
        lab.send(0, sender, request);
    }
    lab.run();
    assert_eq!(marks(&lab), 0);
}

#[test]
fn a_marking_rate_lets_packets_by() {
    let count = |marking_rate| {
        let mut control = control();
        control.marking.marking_rate = marking_rate;
        // These sources do not throttle, so the same number of packets passes each time.
        control.injection.cct.fill(CctEntry { shift: 0, multiplier: 0 });
        marks(&incast(&one_switch(Some(control)), 0, QpType::Rc).0)
    };
    let (all, tenth) = (count(0), count(9));
    assert!(all > 9_000 && all.abs_diff(tenth * 10) <= 10, "{all} and {tenth}");
}

#[test]
fn parts_without_the_mechanism_take_no_part_in_it() {
    let mut spec = one_switch(Some(control()));
    spec.switches[0].part.congestion_control = false;
    assert_eq!(marks(&incast(&spec, 0, QpType::Rc).0), 0);
    let mut spec = one_switch(Some(control()));
    for host in &mut spec.hosts {
        host.hcas[0].part.congestion_control = false;
    }
    let (lab, victim, _) = incast(&spec, 0, QpType::Rc);
    assert_eq!(marks(&lab), 0, "HCAs that know nothing of it count nothing");
    assert!(victim < 300.0);
}

#[test]
fn a_controlled_run_is_the_same_in_every_run() {
    let run = || {
        let (lab, victim, hot) = incast(&one_switch(Some(control())), 0, QpType::Rc);
        (lab.events, victim.to_bits(), hot.to_bits(), lab.world.counters())
    };
    assert_eq!(run(), run());
}
