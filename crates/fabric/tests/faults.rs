//! Faults: the effect of failed links, hosts and switches on packets, queue pairs, counters and
//! programs.

use crate::common::*;
use softband_fabric::PortCounters;
use softband_fabric::faults::FaultCounters;
use softband_fabric::notice::Notice;
use softband_model::verbs::api::{AddressVector, DatagramDestination, SendOperation};
use softband_sim::{RandomStream, SimDuration, SimTime};
use softband_spec::faults::{BitErrorRate, FaultKind, FaultSpec, PacketClass};
use softband_spec::{FabricSpec, PortRef};
use softband_types::*;

const PORT_ACTIVE: u32 = 9;
const PORT_ERR: u32 = 10;

fn at(micros: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_micros(micros)
}

fn fault(micros: u64, kind: FaultKind) -> FaultSpec {
    FaultSpec { at: at(micros), kind }
}

fn down(micros: u64, cable: usize) -> FaultSpec {
    fault(micros, FaultKind::LinkDown { cable })
}

fn up(micros: u64, cable: usize) -> FaultSpec {
    fault(micros, FaultKind::LinkUp { cable })
}

fn port(host: usize) -> PortRef {
    PortRef::Hca { host, hca: 0, port: PortNumber(1) }
}

/// Two hosts on a switch: cable 0 is host 0's, cable 1 is host 1's.
fn through(faults: &[FaultSpec]) -> FabricSpec {
    FabricSpec { faults: faults.to_vec(), ..through_switch(LinkSpeed::Ddr, &[5, 5], 4, host_part(600, 300)) }
}

fn direct(faults: &[FaultSpec]) -> FabricSpec {
    FabricSpec { faults: faults.to_vec(), ..back_to_back(LinkSpeed::Sdr, 10, 4, host_part(600, 300)) }
}

/// Sends `count` messages of `len` bytes from host 0 to host 1, and runs until nothing is in
/// flight.
fn sent(spec: &FabricSpec, qp_type: QpType, count: u64, len: u32) -> Lab {
    let mut lab = Lab::new(spec);
    let (a, b) = lab.connect(0, 1, qp_type);
    lab.fill(0, 0, len as usize, 3);
    for number in 0..count {
        lab.receive(1, b, number, 0, len);
        let request = lab.request(0, number, SendOperation::Send { immediate: None }, 0, len);
        lab.send(0, a, request);
    }
    lab.run();
    assert_eq!(lab.world.packets_under_way(), 0);
    lab.world.assert_credits_are_back();
    lab
}

fn all_succeeded(count: u64) -> Vec<(u64, WcStatus)> {
    (0..count).map(|number| (number, WcStatus::Success)).collect()
}

fn counters(lab: &Lab, node: &str, port: u8) -> PortCounters {
    lab.world.counters().into_iter().find(|of| of.node == node && of.port == PortNumber(port)).unwrap()
}

fn of_faults(lab: &Lab, node: &str, port: u8) -> FaultCounters {
    counters(lab, node, port).faults.unwrap()
}

fn port_events(lab: &Lab) -> Vec<(SimTime, HcaId, u32)> {
    let of = |(at, notice): &(SimTime, Notice)| match notice {
        Notice::PortEvent { hca, event, .. } => Some((*at, *hca, *event)),
        _ => None,
    };
    lab.notices.iter().filter_map(of).collect()
}

#[test]
fn a_link_that_is_down_for_a_while_costs_a_retransmission_and_nothing_else() {
    // The cable is long enough to carry a packet at any time.
    let long = |faults: Vec<FaultSpec>| FabricSpec { faults, ..through_switch(LinkSpeed::Ddr, &[5, 200], 4, host_part(600, 300)) };
    let whole = sent(&long(vec![]), QpType::Rc, 20, 65_536);
    let ended = |lab: &Lab| lab.timed_completions(0).last().unwrap().0;
    assert_eq!(counters(&whole, "a/test0", 1).faults, None, "a fabric without faults has no fault counters");
    // The link fails in the middle while its sender continues. The receiver rejects the first
    // packet afterwards (IBTA 9.7.5.2.8).
    let cut = sent(&long(vec![down(100, 1), up(300, 1)]), QpType::Rc, 20, 65_536);
    assert_eq!(cut.statuses(0), all_succeeded(20));
    assert_eq!(cut.statuses(1), all_succeeded(20));
    assert_eq!(cut.memory.blocks[0][..65_536], cut.memory.blocks[1][..65_536]);
    let more = ended(&cut) - ended(&whole);
    assert!(more > SimDuration::from_micros(190) && more < SimDuration::from_micros(220), "{more:?}");
    let hcas = [cut.programs[1].hca, cut.programs[1].hca];
    assert_eq!(port_events(&cut), [(at(100), hcas[0], PORT_ERR), (at(300), hcas[1], PORT_ACTIVE)]);
    let once = FaultCounters { link_downed: 1, ..FaultCounters::default() };
    assert_eq!((of_faults(&cut, "switch", 2), of_faults(&cut, "b/test0", 1)), (once, once));
    assert_eq!(of_faults(&cut, "switch", 1), FaultCounters::default());
    let discards = counters(&cut, "switch", 2).port_xmit_discards;
    assert!(discards > 0, "what comes for a link that is down is discarded");
    let (sent, came) = (counters(&cut, "switch", 2).port_xmit_pkts, counters(&cut, "b/test0", 1).port_rcv_pkts);
    assert!(came < sent && sent <= came + 3, "{came} of {sent}: those on the cable were lost");
}

#[test]
fn a_link_that_stays_down_ends_in_retry_exceeded() {
    let lab = sent(&direct(&[down(30, 0)]), QpType::Rc, 3, 65_536);
    let expected = [(0, WcStatus::RetryExceeded), (1, WcStatus::FlushError), (2, WcStatus::FlushError)];
    assert_eq!(lab.statuses(0), expected);
    assert_eq!(lab.statuses(1), [], "the receiver hears nothing");
    // The first transmission and three retries take 4.096 us x 2^8 each.
    let ended = lab.timed_completions(0)[0].0;
    let waits = SimDuration::from_nanos((4 * 4_096) << 8);
    assert!(ended > SimTime::ZERO + waits && ended < at(100) + waits, "{ended:?}");
    for program in &lab.programs {
        let port = lab.world.port(program.hca, PortNumber(1)).unwrap();
        assert!(!port.active && port.lid == program.lid, "it is Down and keeps its LID");
    }
    assert!(counters(&lab, "a/test0", 1).port_xmit_discards > 0);
    assert_eq!(port_events(&lab).iter().map(|(_, _, event)| *event).collect::<Vec<_>>(), [PORT_ERR, PORT_ERR]);
}

#[test]
fn what_waits_in_a_switch_for_a_link_that_goes_down_is_discarded_and_its_buffers_are_free() {
    // Two senders share the link to the third host, so packets wait for it.
    let faults = vec![down(150, 2), up(900, 2)];
    let mut lab = Lab::new(&FabricSpec { faults, ..through_switch(LinkSpeed::Ddr, &[5, 5, 5], 4, host_part(600, 300)) });
    for sender in 0..2 {
        let (a, b) = lab.connect(sender, 2, QpType::Rc);
        for number in 0..20 {
            lab.receive(2, b, number, 0, 32_768);
            let request = lab.request(sender, number, SendOperation::Send { immediate: None }, 0, 32_768);
            lab.send(sender, a, request);
        }
    }
    while lab.world.next_event_time().is_some_and(|time| time < at(899)) {
        lab.step();
    }
    assert_eq!(lab.world.packets_under_way(), 0, "nothing waits for a link that is down");
    lab.world.assert_credits_are_back();
    lab.run();
    assert_eq!((lab.statuses(0), lab.statuses(1)), (all_succeeded(20), all_succeeded(20)));
    assert!(counters(&lab, "switch", 3).port_xmit_discards > 1);
}

/// Returns a destination from host 0 to a queue pair of host 1.
fn datagram_to(lab: &mut Lab, remote_qpn: Qpn) -> DatagramDestination {
    let (from, dlid) = (lab.programs[0], lab.programs[1].lid);
    let vector = AddressVector { dlid, port: PortNumber(1), ..Default::default() };
    let ah = lab.world.create_ah(from.process, from.pd, vector).unwrap();
    DatagramDestination { ah, remote_qpn, remote_qkey: QKey(0x1111) }
}

#[test]
fn unreliable_messages_are_lost_and_their_senders_hear_nothing_of_it() {
    for qp_type in [QpType::Uc, QpType::Ud] {
        let mut lab = Lab::new(&through(&[down(100, 0), up(200, 0)]));
        let (a, b) = lab.connect(0, 1, qp_type);
        for number in 0..30 {
            lab.receive(1, b, number, 0, 4_096);
            let mut request = lab.request(0, number, SendOperation::Send { immediate: None }, 0, 1_024);
            if qp_type == QpType::Ud {
                request.datagram = Some(datagram_to(&mut lab, b));
            }
            while lab.world.next_event_time().is_some_and(|time| time < at(10 * number)) {
                lab.step();
            }
            let program = lab.programs[0];
            lab.world.post_send(at(10 * number), program.process, program.hca, a, request);
        }
        lab.run();
        assert_eq!(lab.statuses(0), all_succeeded(30), "{qp_type:?}");
        let received = lab.completions(1).len();
        assert!((18..=21).contains(&received), "{qp_type:?}: {received}");
        lab.world.assert_credits_are_back();
    }
}

#[test]
fn bit_errors_cost_packets_by_their_crc_and_are_counted() {
    let rate = BitErrorRate::new(2e-6).unwrap();
    let noisy = || sent(&direct(&[fault(0, FaultKind::BitErrors { cable: 0, rate })]), QpType::Rc, 60, 65_536);
    let lab = noisy();
    assert_eq!(lab.statuses(0), all_succeeded(60));
    assert_eq!(lab.memory.blocks[0][..65_536], lab.memory.blocks[1][..65_536]);
    let (seen, came) = (of_faults(&lab, "b/test0", 1), counters(&lab, "b/test0", 1));
    // 2,078 bytes are corrupted with a probability of 3.3 %.
    let expected = came.port_rcv_pkts as f64 * 0.0327;
    assert!((seen.port_rcv_errors as f64 - expected).abs() < expected / 2.0, "{seen:?} of {}", came.port_rcv_pkts);
    assert!(seen.symbol_error >= seen.port_rcv_errors && seen.symbol_error < seen.port_rcv_errors * 2);
    assert_eq!(came.port_rcv_pkts, counters(&lab, "a/test0", 1).port_xmit_pkts, "what has a bad CRC has come in all the same");
    let again = noisy();
    assert_eq!((lab.world.counters(), lab.world.now()), (again.world.counters(), again.world.now()));
    // A new rate replaces the old rate at its own time.
    let faults = [fault(0, FaultKind::BitErrors { cable: 0, rate }), fault(1, FaultKind::BitErrors { cable: 0, rate: BitErrorRate::NONE })];
    assert_eq!(of_faults(&sent(&direct(&faults), QpType::Rc, 60, 65_536), "b/test0", 1), FaultCounters::default());
}

#[test]
fn the_nth_packet_of_a_kind_is_lost_and_no_other() {
    let lose = |host: usize, packet, number| {
        let lab = sent(&direct(&[fault(0, FaultKind::Drop { port: port(host), packet, number })]), QpType::Rc, 4, 8_192);
        assert_eq!((lab.statuses(0), lab.statuses(1)), (all_succeeded(4), all_succeeded(4)));
        let errors = ["a/test0", "b/test0"].map(|node| of_faults(&lab, node, 1).port_rcv_errors);
        (errors, counters(&lab, "a/test0", 1).port_xmit_pkts)
    };
    // The receiver rejects the rest of the third message, and the sender resends from there.
    assert_eq!(lose(0, PacketClass::Send, 3).0, [0, 1]);
    assert!(lose(0, PacketClass::Send, 3).1 > 16);
    assert_eq!(lose(0, PacketClass::Any, 16).0, [0, 1]);
    // A later acknowledgement covers the lost acknowledgement.
    assert_eq!(lose(1, PacketClass::Ack, 1), ([1, 0], 16));
    assert_eq!(lose(0, PacketClass::Ack, 1), ([0, 0], 16), "host 0 sends none");
    assert_eq!(lose(0, PacketClass::Write, 1), ([0, 0], 16));
}

/// The outcome of three messages when the network carries only the first.
const CUT_SHORT: [WcStatus; 3] = [WcStatus::Success, WcStatus::RetryExceeded, WcStatus::FlushError];

#[test]
fn of_a_host_that_dies_peers_hear_nothing_more() {
    let lab = sent(&through(&[fault(60, FaultKind::HostDies { host: 1 }), up(500, 1)]), QpType::Rc, 3, 65_536);
    assert_eq!(lab.statuses(0).iter().map(|(_, status)| *status).collect::<Vec<_>>(), CUT_SHORT, "nothing brings it back");
    assert!(lab.notices.contains(&(at(60), Notice::HostDied { host: 1 })));
    assert!(lab.world.is_host_dead(1) && !lab.world.is_host_dead(0));
    assert!(lab.world.port(lab.programs[0].hca, PortNumber(1)).unwrap().active, "its neighbours' ports do not change");
}

#[test]
fn of_a_switch_that_dies_all_links_go_down() {
    let lab = sent(&through(&[fault(60, FaultKind::SwitchDies { switch: 0 })]), QpType::Rc, 3, 65_536);
    assert_eq!(lab.statuses(0).iter().map(|(_, status)| *status).collect::<Vec<_>>(), CUT_SHORT);
    assert!(lab.programs.iter().all(|program| !lab.world.port(program.hca, PortNumber(1)).unwrap().active));
    let downed = |node, port| of_faults(&lab, node, port).link_downed;
    assert_eq!([downed("switch", 1), downed("switch", 2), downed("a/test0", 1), downed("b/test0", 1)], [1; 4]);
}

#[test]
fn a_link_that_trains_anew_loses_what_is_on_it_and_keeps_what_waits() {
    let lasts = SimDuration::from_micros(20);
    let lab = sent(&direct(&[fault(100, FaultKind::LinkRecovers { cable: 0, lasts })]), QpType::Rc, 20, 65_536);
    assert_eq!(lab.statuses(0), all_succeeded(20));
    let seen = of_faults(&lab, "b/test0", 1);
    assert_eq!((seen.link_error_recovery, seen.link_downed), (1, 0));
    assert!((1..=2).contains(&seen.port_rcv_errors), "{seen:?}");
    assert_eq!(port_events(&lab), [], "its ports stay Active");
    assert_eq!(counters(&lab, "a/test0", 1).port_xmit_discards, 0);
}

#[test]
fn faults_are_named_by_words_and_wrong_words_come_with_the_right_ones() {
    let spec = through(&[]);
    for words in [
        "link_down a/test0/1",
        "link_up b/test0/1",
        "link_recovers 1000 a/test0/1",
        "bit_errors 1e-12 b/test0/1",
        "drop ack 3 switch/2",
        "host_dies b",
        "switch_dies switch",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        assert_eq!(FaultKind::of_words(&spec, &words).unwrap().words(&spec), words);
    }
    assert_eq!(FaultKind::of_words(&spec, &["link_down", "switch/2"]), Ok(FaultKind::LinkDown { cable: 1 }), "either end names a cable");
    let wrong = |words: &str| FaultKind::of_words(&spec, &words.split(' ').collect::<Vec<_>>()).unwrap_err();
    assert_eq!(wrong("host_dies c").known, ["a", "b"]);
    assert_eq!(wrong("link_down a/test1/1").known, ["test0"]);
    assert_eq!(wrong("link_down a/test0/2").message, "no cable ends on `a/test0/2`");
    assert_eq!(wrong("link_down a/test0/3").known, ["1", "2"]);
    assert_eq!(wrong("link_down a").known, ["a/test0/1"]);
    assert_eq!(wrong("link_down c/1").known, ["a", "b", "switch"]);
    assert_eq!(wrong("drop acks 1 switch/1").what, "kinds of packets");
    assert_eq!(wrong("drop ack 0 switch/1").message, "`0` is not a number: write 1 or more");
    assert!(wrong("bit_errors 1 switch/1").message.contains("less than 1"));
    assert_eq!(wrong("link_downs switch/1").known, FaultKind::NAMES);
}

#[test]
fn a_fault_that_comes_as_a_command_joins_the_plan() {
    let mut lab = Lab::new(&through(&[up(5_000, 0)]));
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    lab.receive(1, b, 0, 0, 1 << 20);
    let request = lab.request(0, 0, SendOperation::Send { immediate: None }, 0, 1 << 20);
    lab.send(0, a, request);
    while lab.world.next_event_time().is_some_and(|time| time < at(200)) {
        lab.step();
    }
    let way = (lab.programs[0].hca, PortNumber(1));
    assert!(!lab.world.is_way_affected(way, lab.programs[1].lid, at(200)));
    lab.world.add_faults(&[down(200, 1)]);
    assert!(lab.world.is_way_affected(way, lab.programs[1].lid, at(200)));
    while lab.world.next_event_time().is_some_and(|time| time < at(900)) {
        lab.step();
    }
    assert!(!lab.world.port(lab.programs[1].hca, PortNumber(1)).unwrap().active);
    lab.world.add_faults(&[up(900, 1)]);
    lab.run();
    assert!(!lab.world.is_way_affected(way, lab.programs[1].lid, lab.world.now()));
    assert_eq!((lab.statuses(0), lab.statuses(1)), (all_succeeded(1), all_succeeded(1)));
    assert_eq!(of_faults(&lab, "b/test0", 1).link_downed, 1);
    lab.world.assert_credits_are_back();
}

/// Returns a fault somewhere in a fabric of four hosts on a switch, within the first two
/// milliseconds.
fn random_fault(random: &mut RandomStream) -> FaultSpec {
    let mut draw = |below: u64| random.next_u64() % below;
    let cable = draw(4) as usize;
    let kind = match draw(8) {
        0 | 1 => FaultKind::LinkDown { cable },
        2..=4 => FaultKind::LinkUp { cable },
        5 => FaultKind::LinkRecovers { cable, lasts: SimDuration::from_micros(1 + draw(50)) },
        6 => FaultKind::BitErrors { cable, rate: BitErrorRate::new([0.0, 1e-9, 1e-6][draw(3) as usize]).unwrap() },
        _ => FaultKind::Drop { port: port(cable), packet: PacketClass::ALL[draw(11) as usize], number: 1 + draw(20) },
    };
    FaultSpec { at: SimTime::from_picos(draw(2_000_000_000)), kind }
}

#[test]
fn whatever_fails_every_request_ends_once_and_every_buffer_is_free() {
    for seed in 0..60 {
        let mut random = RandomStream::new(seed, 9);
        let faults: Vec<FaultSpec> = (0..1 + random.next_u64() % 12).map(|_| random_fault(&mut random)).collect();
        let (planned, commanded) = faults.split_at(random.next_u64() as usize % (faults.len() + 1));
        let spec =
            FabricSpec { faults: planned.to_vec(), ..through_switch(LinkSpeed::Ddr, &[5, 50, 1, 200], 1 + (seed % 3) as u8, host_part(600, 300)) };
        let mut lab = Lab::new(&spec);
        let mut commanded = commanded.to_vec();
        commanded.sort_by_key(|fault| std::cmp::Reverse(fault.at));
        for (from, to) in [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)] {
            let (a, b) = lab.connect(from, to, QpType::Rc);
            for number in 0..15 {
                lab.receive(to, b, number, 0, 20_000);
                let operation = match number % 3 {
                    0 => SendOperation::Send { immediate: None },
                    1 => lab.write_to(to, 0),
                    _ => lab.read_from(to, 0),
                };
                let request = lab.request(from, 100 + number, operation, 40_000, 20_000);
                lab.send(from, a, request);
            }
        }
        loop {
            let next = lab.world.next_event_time();
            match commanded.last() {
                Some(fault) if next.is_none_or(|time| time >= fault.at) => {
                    lab.world.add_faults(std::slice::from_ref(fault));
                    commanded.pop();
                }
                _ if !lab.step() => break,
                _ => {}
            }
        }
        assert_eq!(lab.world.packets_under_way(), 0, "seed {seed}");
        lab.world.assert_credits_are_back();
        for (who, requests) in [(0, 30), (1, 15), (2, 15), (3, 15)] {
            let ended = lab.statuses(who).into_iter().filter(|(id, _)| *id >= 100).count();
            assert_eq!(ended, requests, "seed {seed}, host {who}");
        }
    }
}
