//! Multicast in a fabric: each member gets each datagram once, wherever it is, and no other host
//! gets it.

use crate::common::*;
use softband_fabric::World;
use softband_model::verbs::api::*;
use softband_spec::{CableSpec, FabricSpec, PortRef, SwitchSpec};
use softband_types::*;

const MLID: Lid = Lid(0xC005);

fn mgid() -> Gid {
    let mut gid = Gid::default();
    (gid.0[0], gid.0[1], gid.0[15]) = (0xFF, 0x12, 7);
    gid
}

fn to_group() -> (AddressVector, Qpn) {
    let grh = Some(GlobalRoute { dgid: mgid(), hop_limit: 1, ..Default::default() });
    (AddressVector { dlid: MLID, port: PortNumber(1), grh, ..Default::default() }, Qpn(0xFF_FFFF))
}

/// Datagram queue pairs, one per named host, each ready to receive a dozen datagrams.
struct Groups {
    lab: Lab,
    qps: Vec<(usize, Qpn)>,
}

fn groups(spec: &FabricSpec, hosts: &[usize], change: impl Fn(&mut QpInit)) -> Groups {
    let mut lab = Lab::new(spec);
    let qps: Vec<_> = hosts
        .iter()
        .map(|host| {
            let qpn = lab.create_with(*host, QpType::Ud, &change);
            lab.bring_up(*host, qpn, QpType::Ud, (*host, qpn), |_| ());
            (0..12).for_each(|n| lab.receive(*host, qpn, n, 1_000 + n * 3_000, 3_000));
            (*host, qpn)
        })
        .collect();
    Groups { lab, qps }
}

impl Groups {
    fn attach(&mut self, index: usize) -> Result<(), VerbsError> {
        let (host, qpn) = self.qps[index];
        let program = self.lab.programs[host];
        self.lab.world.attach_multicast(program.process, program.hca, qpn, mgid(), MLID)
    }

    fn detach(&mut self, index: usize) -> Result<(), VerbsError> {
        let (host, qpn) = self.qps[index];
        let program = self.lab.programs[host];
        self.lab.world.detach_multicast(program.process, program.hca, qpn, mgid(), MLID)
    }

    fn post(&mut self, index: usize, (vector, remote_qpn): (AddressVector, Qpn), remote_qkey: QKey, bytes: u32) {
        let (host, qpn) = self.qps[index];
        let from = self.lab.programs[host];
        let ah = self.lab.world.create_ah(from.process, from.pd, vector).unwrap();
        let mut request = self.lab.request(host, 50, SendOperation::Send { immediate: None }, 0, bytes);
        request.datagram = Some(DatagramDestination { ah, remote_qpn, remote_qkey });
        self.lab.send(host, qpn, request);
    }

    /// Sends one datagram to the group from the queue pair of this index. Returns the number that
    /// each queue pair received.
    fn send(&mut self, index: usize, qkey: u32) -> Vec<usize> {
        self.lab.fill(self.qps[index].0, 0, 700, 9);
        self.lab.notices.clear();
        self.post(index, to_group(), QKey(qkey), 700);
        self.lab.run();
        assert_eq!(self.lab.world.packets_under_way(), 0);
        self.lab.world.assert_credits_are_back();
        let received = |(host, qpn): &(usize, Qpn)| {
            let mine = |c: &&Completion| c.qpn == *qpn && c.opcode == WcOpcode::Receive && c.status == WcStatus::Success;
            self.lab.completions(*host).iter().filter(mine).count()
        };
        self.qps.iter().map(received).collect()
    }
}

#[test]
fn each_member_gets_a_copy_and_who_is_none_gets_nothing() {
    let spec = through_switch(LinkSpeed::Sdr, &[1, 2, 3, 4], 5, host_part(600, 300));
    let mut g = groups(&spec, &[0, 1, 2, 2, 3], |_| ());
    for member in [1, 2, 3] {
        g.attach(member).unwrap();
    }
    assert_eq!(g.send(0, 0x1111), [0, 1, 1, 1, 0], "from outside the group");
    assert_eq!(g.send(1, 0x1111), [0, 1, 1, 1, 0], "a member hears itself");
    assert_eq!(g.send(1, 0x2222), [0; 5], "with another Q_Key");
    let (host, qpn) = g.qps[2];
    let at = g.lab.completions(host).len();
    assert_eq!(at, 0);
    g.detach(2).unwrap();
    assert_eq!(g.detach(2), Err(VerbsError::Invalid));
    assert_eq!(g.send(0, 0x1111), [0, 1, 0, 1, 0]);
    assert_eq!(g.lab.completions(2).iter().filter(|c| c.qpn == qpn).count(), 0);
}

#[test]
fn what_arrives_is_the_datagram_behind_its_grh() {
    let mut g = groups(&through_switch(LinkSpeed::Sdr, &[1, 1], 5, host_part(600, 300)), &[0, 1], |_| ());
    g.attach(1).unwrap();
    g.send(0, 0x1111);
    let received = g.lab.completions(1).pop().unwrap();
    assert!(received.has_grh && received.byte_len == 740 && received.source_qpn == g.qps[0].1);
    let memory = &g.lab.memory.blocks;
    assert_eq!(memory[1][1_000 + 24..1_000 + 40], mgid().0);
    assert_eq!(memory[1][1_040..1_740], memory[0][..700]);
}

#[test]
fn ports_count_multicast_packets_apart() {
    let mut g = groups(&through_switch(LinkSpeed::Sdr, &[1, 1, 1], 5, host_part(600, 300)), &[0, 1, 2], |_| ());
    (1..3).for_each(|member| g.attach(member).unwrap());
    g.send(0, 0x1111);
    let dlid = g.lab.world.port(g.lab.programs[1].hca, PortNumber(1)).unwrap().lid;
    let to_one = (AddressVector { dlid, port: PortNumber(1), ..Default::default() }, g.qps[1].1);
    g.post(0, to_one, QKey(0x1111), 10);
    g.lab.run();
    let world = &mut g.lab.world;
    // Unicast and multicast packets sent, then received.
    let hosts = [[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]];
    let expected = [hosts, hosts.map(|[unicast, multicast, unicast_in, multicast_in]| [unicast_in, multicast_in, unicast, multicast])].concat();
    let counts: Vec<_> =
        (world.counters().iter()).map(|p| [p.unicast_xmit_pkts, p.multicast_xmit_pkts, p.unicast_rcv_pkts, p.multicast_rcv_pkts]).collect();
    assert_eq!(counts, expected);
    let answers: Vec<_> = (world.statistics().iter().filter(|port| port.state.is_some()).map(|port| port.extended))
        .map(|p| [p.port_unicast_xmit_pkts, p.port_multicast_xmit_pkts, p.port_unicast_rcv_pkts, p.port_multicast_rcv_pkts])
        .collect();
    assert_eq!(answers, expected, "as performance management answers");
}

#[test]
fn datagrams_of_a_queue_pair_keep_their_order_whether_they_are_for_a_group_or_for_one() {
    let mut g = groups(&through_switch(LinkSpeed::Sdr, &[1, 1], 5, host_part(5_000, 300)), &[0, 1], |_| ());
    g.attach(1).unwrap();
    let (host, qpn) = g.qps[1];
    let dlid = g.lab.world.port(g.lab.programs[host].hca, PortNumber(1)).unwrap().lid;
    let to_one = (AddressVector { dlid, port: PortNumber(1), ..Default::default() }, qpn);
    // A datagram without payload fetches nothing, so it is ready as soon as its predecessor.
    for bytes in [700, 0, 650, 0] {
        g.post(0, if bytes > 0 { to_group() } else { to_one }, QKey(0x1111), bytes);
    }
    g.lab.run();
    let lengths: Vec<u32> = g.lab.completions(1).iter().map(|received| received.byte_len).collect();
    assert_eq!(lengths, [740, 40, 690, 40]);
}

#[test]
fn a_member_may_be_deaf_to_itself_only() {
    let spec = back_to_back(LinkSpeed::Sdr, 10, 5, host_part(600, 300));
    let mut g = groups(&spec, &[0, 0, 1], |init| init.block_own_multicast = true);
    (0..3).for_each(|member| g.attach(member).unwrap());
    assert_eq!(g.send(0, 0x1111), [0, 1, 1]);
}

#[test]
fn an_attached_queue_pair_stays_and_only_datagrams_are_for_groups() {
    let mut g = groups(&back_to_back(LinkSpeed::Sdr, 10, 5, host_part(600, 300)), &[0], |_| ());
    let program = g.lab.programs[0];
    let (now, qpn) = (g.lab.world.now(), g.qps[0].1);
    let checks = |g: &Groups| {
        let world = &g.lab.world;
        let [attaches, detaches] =
            [World::would_attach, World::would_detach].map(|would| would(world, program.process, program.hca, qpn, mgid(), MLID));
        (attaches, detaches, world.has_member(program.process))
    };
    assert_eq!(checks(&g), (true, false, false));
    g.attach(0).unwrap();
    assert_eq!(checks(&g), (false, true, true));
    assert_eq!(g.lab.world.destroy_qp(now, program.process, program.hca, qpn), Err(VerbsError::Busy));
    g.detach(0).unwrap();
    assert_eq!(g.lab.world.destroy_qp(now, program.process, program.hca, qpn), Ok(()));
    let rc = g.lab.create(0, QpType::Rc);
    assert!(!g.lab.world.would_attach(program.process, program.hca, rc, mgid(), MLID));
    assert_eq!(g.lab.world.attach_multicast(program.process, program.hca, rc, mgid(), MLID), Err(VerbsError::Invalid));
}

/// Three switches in a triangle, each with a host.
fn triangle() -> FabricSpec {
    let mut spec = through_switch(LinkSpeed::Sdr, &[1, 1, 1], 5, host_part(600, 300));
    let switch = |switch: usize, port: u8| PortRef::Switch { switch, port: PortNumber(port) };
    let first = spec.switches[0].clone();
    for (index, name) in [(1_u64, "second"), (2, "third")] {
        spec.switches.push(SwitchSpec { name: name.into(), node_guid: Guid(0x50 + index), ..first.clone() });
    }
    let pattern = spec.cables[0].clone();
    for (host, cable) in spec.cables.iter_mut().enumerate() {
        cable.ends[1] = switch(host, 1);
    }
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        spec.cables.push(CableSpec { ends: [switch(from, 2), switch(to, 3)], ..pattern.clone() });
    }
    spec
}

#[test]
fn a_ring_of_switches_makes_no_copy_go_round() {
    let mut g = groups(&triangle(), &[0, 1, 2], |_| ());
    (0..3).for_each(|member| g.attach(member).unwrap());
    for sender in 0..3 {
        assert_eq!(g.send(sender, 0x1111), [1; 3], "from {sender}");
    }
    g.detach(0).unwrap();
    for sender in 0..3 {
        assert_eq!(g.send(sender, 0x1111), [0, 1, 1], "from {sender}");
    }
    g.detach(1).unwrap();
    for sender in 0..3 {
        assert_eq!(g.send(sender, 0x1111), [0, 0, 1], "from {sender}");
    }
}
