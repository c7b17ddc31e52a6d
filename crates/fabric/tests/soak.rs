//! Random traffic over small buffers and many lanes: nothing is lost, doubled, reordered or left behind.

use crate::common::*;
use softband_fabric::notice::Notice;
use softband_model::verbs::api::*;
use softband_sim::{RandomStream, SimTime};
use softband_types::*;

struct Connection {
    ends: [(usize, Qpn); 2],
    posted: [Vec<u64>; 2],
}

fn spec(random: &mut RandomStream) -> softband_spec::FabricSpec {
    let lengths: Vec<u64> = (0..4).map(|_| random.next_u64() % 120).collect();
    let code = (random.next_u64() % 5 + 1) as u8;
    let mut spec = through_switch(LinkSpeed::Ddr, &lengths, code, host_part(600, 300));
    spec.switches[0].part.vl_cap = vls(5);
    spec.switches[0].part.port_buffer_bytes = 33 * 64 * 15;
    for host in &mut spec.hosts {
        host.hcas[0].part.vl_cap = vls(5);
        host.hcas[0].part.port_buffer_bytes = 64 * (500 + (random.next_u64() % 500) as u32);
    }
    for cable in &mut spec.cables {
        let speed = if random.next_u64().is_multiple_of(2) { LinkSpeed::Sdr } else { LinkSpeed::Ddr };
        cable.rate = rate(speed);
    }
    spec
}

fn connect(lab: &mut Lab, random: &mut RandomStream) -> Connection {
    let (a, b) = ((random.next_u64() % 4) as usize, (random.next_u64() % 4) as usize);
    let service_level = ServiceLevel((random.next_u64() % 16) as u8);
    let mtu = Mtu::ALL[(random.next_u64() % 4) as usize].min(lab.world.port(lab.programs[a].hca, PortNumber(1)).unwrap().mtu_active);
    let mtu = mtu.min(lab.world.port(lab.programs[b].hca, PortNumber(1)).unwrap().mtu_active);
    let (first, second) = lab.connect_with(a, b, QpType::Rc, |m| {
        if let Some(vector) = &mut m.address_vector {
            vector.service_level = service_level;
        }
        m.path_mtu = m.path_mtu.map(|_| mtu);
        // A crowded switch must not look like a loss.
        m.local_ack_timeout = m.local_ack_timeout.map(|_| 14);
    });
    Connection { ends: [(a, first), (b, second)], posted: [vec![], vec![]] }
}

fn post(lab: &mut Lab, connection: &mut Connection, side: usize, number: u64, random: &mut RandomStream) {
    let ((who, qpn), (peer, peer_qpn)) = (connection.ends[side], connection.ends[1 - side]);
    let len = (random.next_u64() % 20_000) as u32;
    let (from, to) = (random.next_u64() % 1_000_000, random.next_u64() % 1_000_000);
    let (rkey, remote_address) = (lab.programs[peer].rkey, BASE + 2_000_000 + to / 8 * 8);
    let (operation, len) = match random.next_u64() % 6 {
        0 | 1 => {
            lab.receive(peer, peer_qpn, number | 1 << 63, 1_000_000 + to, 20_000);
            (SendOperation::Send { immediate: None }, len)
        }
        2 => (lab.write_to(peer, 2_000_000 + to), len),
        3 => (lab.read_from(peer, to), len),
        4 => (SendOperation::FetchAdd { remote_address, rkey, add: 1 }, 8),
        _ => (SendOperation::CompareSwap { remote_address, rkey, compare: 0, swap: 1 }, 8),
    };
    let mut request = lab.request(who, number, operation, 3_000_000 + from, len);
    request.fence = random.next_u64().is_multiple_of(8);
    request.signaled = !random.next_u64().is_multiple_of(3);
    if request.signaled {
        connection.posted[side].push(number);
    }
    lab.send(who, qpn, request);
}

/// Runs random traffic; with `victim`, that process dies in the middle.
fn soak(seed: u64, victim: Option<usize>) -> Lab {
    let mut random = RandomStream::new(seed, 0);
    let mut lab = Lab::new(&spec(&mut random));
    let mut connections: Vec<Connection> = (0..8).map(|_| connect(&mut lab, &mut random)).collect();
    for round in 0..400 {
        let connection = (random.next_u64() % 8) as usize;
        let side = (random.next_u64() % 2) as usize;
        if victim.is_none() || round < 200 {
            post(&mut lab, &mut connections[connection], side, round, &mut random);
        }
        for _ in 0..random.next_u64() % 60 {
            lab.step();
        }
        if round == 200
            && let Some(victim) = victim
        {
            lab.world.remove_process(lab.world.now(), ProcessId(victim as u32));
        }
    }
    lab.run();
    assert_eq!(lab.world.packets_under_way(), 0, "seed {seed}");
    lab.world.assert_credits_are_back();
    check(&lab, &connections, victim, seed);
    lab
}

/// Checks for exactly one completion per signaled request, in order; all succeed unless a peer
/// died.
fn check(lab: &Lab, connections: &[Connection], victim: Option<usize>, seed: u64) {
    for connection in connections {
        for side in 0..2 {
            let (who, qpn) = connection.ends[side];
            if Some(who) == victim {
                continue;
            }
            let sent: Vec<_> = (lab.completions(who).into_iter()).filter(|completion| completion.qpn == qpn && completion.wr_id >> 63 == 0).collect();
            let order: Vec<u64> = sent.iter().map(|completion| completion.wr_id).collect();
            assert!(order.windows(2).all(|two| two[0] < two[1]), "seed {seed}: {order:?}");
            let peer_died = Some(connection.ends[1 - side].0) == victim;
            if peer_died {
                assert!(connection.posted[side].iter().all(|posted| order.contains(posted)), "seed {seed}");
            } else {
                assert_eq!(order, connection.posted[side], "seed {seed}");
                let bad = sent.iter().find(|completion| completion.status != WcStatus::Success);
                assert_eq!(bad, None, "seed {seed}");
            }
        }
    }
}

#[test]
fn random_traffic_completes_exactly_once_and_in_order() {
    for seed in 0..40 {
        soak(seed, None);
    }
}

#[test]
fn a_death_in_the_middle_hurts_only_the_dead_ones_peers() {
    for seed in 100..130 {
        soak(seed, Some((seed % 4) as usize));
    }
}

#[test]
fn one_seed_gives_one_history() {
    let history = |seed| -> Vec<(SimTime, Notice)> { soak(seed, None).notices };
    assert_eq!(history(7), history(7));
    assert_ne!(history(7), history(8));
}

#[test]
fn lost_packets_are_sent_again_and_nothing_is_executed_twice() {
    let packets = |loss_ppm| -> u64 { (0..200).map(|seed| mixed_stream(seed, loss_ppm)).sum() };
    let (lossy, clean) = (packets(50_000), packets(0));
    assert!(lossy > clean * 5 / 4, "{lossy} packets instead of {clean}");
}

/// Runs mixed requests from a to b with this loss. Returns the number of packets that a sent.
fn mixed_stream(seed: u64, loss_ppm: u32) -> u64 {
    let mut random = RandomStream::new(seed, 1);
    let mut lab = Lab::new(&through_switch(LinkSpeed::Sdr, &[100, 100], 4, host_part(600, 300)));
    let (a, b) = lab.connect_with(0, 1, QpType::Rc, |m| {
        m.local_ack_timeout = m.local_ack_timeout.map(|_| 5);
        m.retry_count = m.retry_count.map(|_| 7);
    });
    lab.world.set_packet_loss(loss_ppm);
    lab.fill(0, 0, 100_000, 1);
    let (rkey, remote_address) = (lab.programs[1].rkey, BASE + 1_000_000);
    let (mut adds, mut sends) = (0, 0);
    for number in 0..60 {
        let len = (random.next_u64() % 9_000) as u32;
        let (operation, len) = match random.next_u64() % 4 {
            0 => {
                lab.receive(1, b, number, 200_000, 9_000);
                sends += 1;
                (SendOperation::Send { immediate: None }, len)
            }
            1 => (lab.write_to(1, 0), len),
            2 => (lab.read_from(1, 0), len),
            _ => {
                adds += 1;
                (SendOperation::FetchAdd { remote_address, rkey, add: 1 }, 8)
            }
        };
        let request = lab.request(0, number, operation, 0, len);
        lab.send(0, a, request);
    }
    lab.run();
    let sent = lab.statuses(0);
    assert_eq!(sent.iter().map(|(id, _)| *id).collect::<Vec<_>>(), (0..60).collect::<Vec<_>>(), "seed {seed}");
    let added = u64::from_ne_bytes(lab.memory.blocks[1][1_000_000..1_000_008].try_into().unwrap());
    let received = lab.completions(1).len();
    assert!(sent.iter().all(|(_, status)| *status == WcStatus::Success), "seed {seed}: {sent:?}");
    assert_eq!((added, received), (adds, sends), "seed {seed}");
    assert_eq!(lab.world.packets_under_way(), 0);
    lab.world.assert_credits_are_back();
    lab.world.counters()[0].port_xmit_pkts
}

#[test]
fn an_unreliable_message_arrives_whole_or_not_at_all() {
    let mut lab = Lab::new(&back_to_back(LinkSpeed::Sdr, 10, 5, host_part(600, 300)));
    let (a, b) = lab.connect(0, 1, QpType::Uc);
    lab.world.set_packet_loss(50_000);
    for number in 0..200_u64 {
        lab.memory.blocks[0][number as usize * 8_000..][..8_000].fill(number as u8 + 1);
        lab.receive(1, b, number, number * 8_000, 8_000);
        let request = lab.request(0, number, SendOperation::Send { immediate: Some(number as u32) }, number * 8_000, 8_000);
        lab.send(0, a, request);
    }
    lab.run();
    assert!(lab.statuses(0).iter().all(|(_, status)| *status == WcStatus::Success));
    let received = lab.completions(1);
    assert!((120..195).contains(&received.len()), "{}", received.len());
    for completion in received {
        let place = &lab.memory.blocks[1][completion.wr_id as usize * 8_000..][..8_000];
        assert!(place.iter().all(|byte| u32::from(*byte) == completion.immediate.unwrap() + 1), "{completion:?}");
    }
}
