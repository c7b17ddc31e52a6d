//! Shared receive queues in a fabric: their users, the order of their requests, and their events.

use crate::common::*;
use softband_model::verbs::api::*;
use softband_types::*;

const SEND: SendOperation = SendOperation::Send { immediate: None };
const LAST_WQE_REACHED: u32 = 16;
const LIMIT_REACHED: u32 = 15;

/// Two hosts. On the second, two queue pairs of `qp_type` share one queue; each has its peer on the
/// first.
struct Shared {
    lab: Lab,
    srq: SrqHandle,
    pairs: [(Qpn, Qpn); 2],
}

fn shared(qp_type: QpType) -> Shared {
    let mut lab = Lab::new(&back_to_back(LinkSpeed::Sdr, 10, 5, host_part(600, 300)));
    let to = lab.programs[1];
    let srq = lab.world.create_srq(to.process, to.hca, SrqInit { pd: to.pd, max_wr: 16, max_sge: 2, xrc: None }).unwrap();
    let pairs = [(); 2].map(|()| {
        let (a, b) = (lab.create(0, qp_type), lab.create_with(1, qp_type, |init| init.srq = Some(srq)));
        lab.bring_up(0, a, qp_type, (1, b), |_| ());
        lab.bring_up(1, b, qp_type, (0, a), |_| ());
        (a, b)
    });
    Shared { lab, srq, pairs }
}

impl Shared {
    fn receive(&mut self, wr_id: u64, offset: u64, len_bytes: u32) {
        let to = self.lab.programs[1];
        let entries = vec![ScatterGatherEntry { address: BASE + offset, len_bytes, lkey: to.lkey }];
        let now = self.lab.world.now();
        self.lab.world.post_srq_receive(now, to.process, self.srq, ReceiveRequest { wr_id, entries, srq: None });
    }

    fn send(&mut self, pair: usize, wr_id: u64, len_bytes: u32) {
        let request = self.lab.request(0, wr_id, SEND, 0, len_bytes);
        self.lab.send(0, self.pairs[pair].0, request);
    }

    fn limit(&mut self, limit: u32) {
        let to = self.lab.programs[1];
        self.lab.world.modify_srq(to.process, self.srq, None, Some(limit)).unwrap();
    }
}

#[test]
fn queue_pairs_take_from_one_queue_in_the_order_of_their_messages() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let mut s = shared(qp_type);
        s.lab.fill(0, 0, 5_000, 3);
        (0..3).for_each(|n| s.receive(n, n * 10_000, 10_000));
        for (n, pair) in [0, 1, 0].into_iter().enumerate() {
            s.send(pair, n as u64, 5_000);
            s.lab.run();
        }
        let received: Vec<_> = s.lab.completions(1).iter().map(|c| (c.wr_id, c.qpn, c.srq, c.status)).collect();
        let by = |n: u64, pair: usize| (n, s.pairs[pair].1, Some(s.srq), WcStatus::Success);
        assert_eq!(received, [by(0, 0), by(1, 1), by(2, 0)]);
        for n in 0..3 {
            assert_eq!(s.lab.memory.blocks[0][..5_000], s.lab.memory.blocks[1][n * 10_000..n * 10_000 + 5_000]);
        }
    }
}

#[test]
fn an_empty_shared_queue_makes_reliable_senders_wait() {
    let mut s = shared(QpType::Rc);
    s.send(0, 1, 100);
    s.send(1, 2, 100);
    while s.lab.world.now().as_picos() < 1_000_000_000 {
        s.lab.step();
    }
    assert!(s.lab.completions(0).is_empty());
    s.receive(5, 0, 100);
    s.receive(6, 0, 100);
    s.lab.run();
    assert_eq!(s.lab.completions(0).len(), 2);
    assert_eq!(s.lab.statuses(1), [(5, WcStatus::Success), (6, WcStatus::Success)]);
}

#[test]
fn the_limit_is_told_once_when_fewer_are_left() {
    let mut s = shared(QpType::Rc);
    (0..4).for_each(|n| s.receive(n, 0, 100));
    s.limit(3);
    for n in 0..4 {
        s.send(0, n, 10);
    }
    s.lab.run();
    assert_eq!(s.lab.async_events(1), [LIMIT_REACHED]);
}

#[test]
fn a_queue_pair_in_error_tells_that_it_takes_no_more_and_leaves_the_rest_to_others() {
    let mut s = shared(QpType::Rc);
    (0..3).for_each(|n| s.receive(n, 0, 10_000));
    s.send(0, 1, 10_000);
    // In the middle of the message: its request is flushed, the others stay.
    while s.lab.world.packets_under_way() < 3 {
        s.lab.step();
    }
    for _ in 0..20 {
        s.lab.step();
    }
    s.lab.modify(1, s.pairs[0].1, QpModification { state: Some(QpState::Error), ..Default::default() }).unwrap();
    s.send(1, 2, 100);
    s.lab.run();
    assert_eq!(s.lab.async_events(1), [LAST_WQE_REACHED]);
    let statuses = s.lab.statuses(1);
    assert!(statuses.contains(&(0, WcStatus::FlushError)) || statuses.first() == Some(&(0, WcStatus::Success)), "{statuses:?}");
    assert_eq!(s.lab.completions(1).last().map(|c| (c.qpn, c.status)), Some((s.pairs[1].1, WcStatus::Success)));
}

#[test]
fn a_request_of_a_queue_pair_that_is_gone_serves_the_next_message() {
    let mut s = shared(QpType::Rc);
    s.receive(7, 0, 200_000);
    s.send(0, 1, 200_000);
    let to = s.lab.programs[1];
    while s.lab.world.query_srq(to.process, s.srq).is_ok() && s.lab.world.packets_under_way() < 3 {
        s.lab.step();
    }
    for _ in 0..60 {
        s.lab.step();
    }
    let now = s.lab.world.now();
    s.lab.world.destroy_qp(now, to.process, to.hca, s.pairs[0].1).unwrap();
    s.send(1, 2, 100);
    s.lab.run();
    assert_eq!(s.lab.statuses(1), [(7, WcStatus::Success)], "by the other queue pair");
    assert_eq!(s.lab.statuses(0).iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn receive_buffers_are_checked_against_the_domain_of_the_queue() {
    let mut s = shared(QpType::Rc);
    let to = s.lab.programs[1];
    let other = s.lab.world.alloc_pd(to.process, to.hca).unwrap();
    let srq = s.lab.world.create_srq(to.process, to.hca, SrqInit { pd: other, max_wr: 4, max_sge: 1, xrc: None }).unwrap();
    let (a, b) = (s.lab.create(0, QpType::Rc), s.lab.create_with(1, QpType::Rc, |init| init.srq = Some(srq)));
    s.lab.bring_up(0, a, QpType::Rc, (1, b), |_| ());
    s.lab.bring_up(1, b, QpType::Rc, (0, a), |_| ());
    (s.srq, s.pairs[0]) = (srq, (a, b));
    s.receive(1, 0, 100);
    s.lab.fill(0, 0, 100, 9);
    s.send(0, 2, 100);
    s.lab.run();
    assert_eq!(s.lab.statuses(1), [(1, WcStatus::LocalProtectionError)]);
    assert_eq!(s.lab.statuses(0), [(2, WcStatus::RemoteOperationError)]);
    assert!(s.lab.memory.blocks[1][..100].iter().all(|byte| *byte == 0), "no byte has moved");
}

#[test]
fn datagrams_take_from_a_shared_queue_too() {
    let mut s = shared(QpType::Ud);
    s.receive(1, 0, 1_000);
    let (from, to) = (s.lab.programs[0], s.lab.programs[1]);
    let vector = AddressVector { dlid: to.lid, port: PortNumber(1), ..Default::default() };
    let ah = s.lab.world.create_ah(from.process, from.pd, vector).unwrap();
    let mut request = s.lab.request(0, 3, SEND, 0, 100);
    request.datagram = Some(DatagramDestination { ah, remote_qpn: s.pairs[1].1, remote_qkey: QKey(0x1111) });
    let qpn = s.pairs[0].0;
    s.lab.send(0, qpn, request);
    s.lab.run();
    let received = s.lab.completions(1);
    assert_eq!(received.iter().map(|c| (c.wr_id, c.byte_len, c.srq)).collect::<Vec<_>>(), [(1, 140, Some(s.srq))]);
}
