//! Extended reliable connections: one target queue pair delivers to the queue of its domain that a
//! message names.

use crate::common::*;
use softband_fabric::notice::Notice;
use softband_model::verbs::api::*;
use softband_model::verbs::{SharedReceiveQueue, XrcdOpen};
use softband_types::*;

const SEND: SendOperation = SendOperation::Send { immediate: None };

struct Xrc {
    lab: Lab,
    xrcd: XrcdHandle,
    /// Sending side on host 0, receiving side on host 1.
    qps: (Qpn, Qpn),
}

fn xrc() -> Xrc {
    let mut lab = Lab::new(&back_to_back(LinkSpeed::Sdr, 10, 5, host_part(600, 300)));
    let to = lab.programs[1];
    let open = XrcdOpen { key: Some((1, 1)), create: true, exclusive: false };
    let xrcd = lab.world.open_xrcd(to.process, to.hca, open).unwrap();
    let qps = connect(&mut lab, xrcd);
    Xrc { lab, xrcd, qps }
}

fn connect(lab: &mut Lab, xrcd: XrcdHandle) -> (Qpn, Qpn) {
    let a = lab.create_with(0, QpType::XrcSend, |init| init.recv_cq = CqHandle(0));
    let b = lab.create_with(1, QpType::XrcRecv, |init| {
        (init.pd, init.send_cq, init.recv_cq, init.xrcd) = (PdHandle(0), CqHandle(0), CqHandle(0), Some(xrcd));
    });
    lab.bring_up(0, a, QpType::XrcSend, (1, b), |_| ());
    lab.bring_up(1, b, QpType::XrcRecv, (0, a), |_| ());
    (a, b)
}

impl Xrc {
    fn queue(&mut self, xrcd: XrcdHandle, pd: PdHandle) -> SrqHandle {
        let to = self.lab.programs[1];
        let init = SrqInit { pd, max_wr: 8, max_sge: 2, xrc: Some(SrqOfXrc { xrcd, cq: to.cq }) };
        self.lab.world.create_srq(to.process, to.hca, init).unwrap()
    }

    fn own_queue(&mut self) -> SrqHandle {
        let (xrcd, pd) = (self.xrcd, self.lab.programs[1].pd);
        self.queue(xrcd, pd)
    }

    fn receive(&mut self, srq: SrqHandle, wr_id: u64, offset: u64) {
        let to = self.lab.programs[1];
        let entries = vec![ScatterGatherEntry { address: BASE + offset, len_bytes: 10_000, lkey: to.lkey }];
        let now = self.lab.world.now();
        self.lab.world.post_srq_receive(now, to.process, srq, ReceiveRequest { wr_id, entries, srq: None });
    }

    fn post(&mut self, wr_id: u64, operation: SendOperation, len_bytes: u32, srq: SrqHandle) {
        let request = self.lab.request(0, wr_id, operation, 0, len_bytes);
        let qpn = self.qps.0;
        self.lab.send(0, qpn, SendRequest { xrc_srq: Some(SharedReceiveQueue::number_of(srq)), ..request });
    }
}

#[test]
fn each_message_goes_to_the_queue_that_it_names() {
    let mut x = xrc();
    let queues = [x.own_queue(), x.own_queue()];
    x.lab.fill(0, 0, 10_000, 4);
    x.receive(queues[0], 1, 0);
    x.receive(queues[1], 2, 50_000);
    x.post(7, SEND, 5_000, queues[1]);
    x.post(8, SEND, 6_000, queues[0]);
    x.lab.run();
    let received: Vec<_> = x.lab.completions(1).iter().map(|c| (c.wr_id, c.byte_len, c.srq, c.qpn)).collect();
    assert_eq!(received, [(2, 5_000, Some(queues[1]), x.qps.1), (1, 6_000, Some(queues[0]), x.qps.1)]);
    assert_eq!(x.lab.statuses(0), [(7, WcStatus::Success), (8, WcStatus::Success)]);
    assert_eq!(x.lab.memory.blocks[0][..5_000], x.lab.memory.blocks[1][50_000..55_000]);
}

#[test]
fn a_queue_of_another_domain_is_out_of_reach() {
    let mut x = xrc();
    let to = x.lab.programs[1];
    let open = XrcdOpen { key: None, create: true, exclusive: false };
    let other = x.lab.world.open_xrcd(to.process, to.hca, open).unwrap();
    let foreign = x.queue(other, to.pd);
    x.lab.fill(0, 0, 100, 4);
    x.receive(foreign, 1, 0);
    x.post(7, SEND, 100, foreign);
    x.lab.run();
    assert_eq!(x.lab.statuses(0), [(7, WcStatus::RemoteInvalidRequestError)]);
    assert!(x.lab.completions(1).is_empty() && x.lab.memory.blocks[1].iter().all(|byte| *byte == 0));
}

#[test]
fn keys_are_checked_against_the_domain_of_the_queue() {
    let mut x = xrc();
    let to = x.lab.programs[1];
    let other = x.lab.world.alloc_pd(to.process, to.hca).unwrap();
    let (xrcd, own) = (x.xrcd, x.own_queue());
    let foreign = x.queue(xrcd, other);
    x.lab.fill(0, 0, 4_000, 4);
    let write = x.lab.write_to(1, 8_000);
    x.post(1, write.clone(), 4_000, own);
    x.lab.run();
    assert_eq!(x.lab.memory.blocks[0][..4_000], x.lab.memory.blocks[1][8_000..12_000]);
    let read = x.lab.read_from(1, 8_000);
    x.post(2, read, 100, own);
    let add = SendOperation::FetchAdd { remote_address: BASE, rkey: to.rkey, add: 5 };
    x.post(3, add, 8, own);
    x.lab.run();
    assert_eq!(x.lab.statuses(0).iter().map(|(_, status)| *status).collect::<Vec<_>>(), [WcStatus::Success; 3]);
    assert_eq!(x.lab.memory.blocks[1][0], 5);
    let beyond = x.lab.write_to(1, 100_000);
    x.post(4, beyond, 4_000, foreign);
    x.lab.run();
    assert_eq!(x.lab.statuses(0).last(), Some(&(4, WcStatus::RemoteAccessError)));
    assert!(x.lab.memory.blocks[1][100_000..104_000].iter().all(|byte| *byte == 0));
}

#[test]
fn the_receiving_side_lives_as_long_as_one_process_holds_it_and_each_queue_tells_its_own() {
    let mut x = xrc();
    // A second process on the second host, with a queue of its own.
    let (to, late) = (x.lab.programs[1], ProcessId(9));
    let open = XrcdOpen { key: Some((1, 1)), create: false, exclusive: false };
    assert_eq!(x.lab.world.open_xrcd(late, to.hca, open), Ok(x.xrcd));
    let opened = x.lab.world.open_qp(late, x.xrcd, x.qps.1).unwrap();
    assert_eq!(opened.qpn, x.qps.1);
    let (pd, cq) = (x.lab.world.alloc_pd(late, to.hca).unwrap(), x.lab.world.create_cq(late, to.hca, 10).unwrap());
    let init = SrqInit { pd, max_wr: 8, max_sge: 1, xrc: Some(SrqOfXrc { xrcd: x.xrcd, cq }) };
    let srq = x.lab.world.create_srq(late, to.hca, init).unwrap();
    x.lab.world.remove_process(x.lab.world.now(), to.process);
    let now = x.lab.world.now();
    x.lab.world.post_srq_receive(now, late, srq, ReceiveRequest { wr_id: 3, entries: Vec::new(), srq: None });
    x.post(7, SEND, 0, srq);
    x.lab.run();
    assert_eq!(x.lab.statuses(0), [(7, WcStatus::Success)]);
    let told = x.lab.notices.iter().any(
        |(_, notice)| matches!(notice, Notice::Completed { process, cq: by, completion } if *process == late && *by == cq && completion.wr_id == 3),
    );
    assert!(told, "{:?}", x.lab.notices);
    let now = x.lab.world.now();
    assert_eq!(x.lab.world.destroy_qp(now, late, to.hca, x.qps.1), Ok(()));
    assert_eq!(x.lab.world.query_qp(late, to.hca, x.qps.1), Err(VerbsError::Invalid));
}
