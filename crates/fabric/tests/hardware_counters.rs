//! Counters of queue pairs at their ports: what they refuse, repeat, and serve.

use crate::common::*;
use softband_fabric::HardwareCounters;
use softband_model::verbs::api::*;
use softband_types::*;

const SEND: SendOperation = SendOperation::Send { immediate: None };

fn lab() -> Lab {
    Lab::new(&back_to_back(LinkSpeed::Sdr, 10, 5, host_part(600, 300)))
}

fn counters(lab: &Lab, who: usize) -> HardwareCounters {
    lab.world.hardware_counters(lab.programs[who].hca, PortNumber(1)).expect("a port")
}

#[test]
fn datagrams_without_a_receive_request_count_at_their_receiver() {
    let mut lab = lab();
    let (a, b) = lab.connect(0, 1, QpType::Ud);
    let program = lab.programs[0];
    let vector = AddressVector { dlid: lab.programs[1].lid, port: PortNumber(1), ..Default::default() };
    let ah = lab.world.create_ah(program.process, program.pd, vector).expect("an address");
    lab.receive(1, b, 1, 0, 1_000);
    for number in 0..3 {
        let datagram = Some(DatagramDestination { ah, remote_qpn: b, remote_qkey: QKey(0x1111) });
        let request = SendRequest { datagram, ..lab.request(0, number, SEND, 0, 100) };
        lab.send(0, a, request);
    }
    lab.run();
    assert_eq!(counters(&lab, 1), HardwareCounters { out_of_buffer: 2, ..Default::default() });
    assert_eq!(counters(&lab, 0), HardwareCounters::default());
}

#[test]
fn each_rnr_nak_counts_at_both_ends() {
    let mut lab = lab();
    let (a, _) = lab.connect_with(0, 1, QpType::Rc, |m: &mut QpModification| m.rnr_retry = m.rnr_retry.map(|_| 2));
    let request = lab.request(0, 1, SEND, 0, 100);
    lab.send(0, a, request);
    lab.run();
    assert_eq!(lab.statuses(0), [(1, WcStatus::RnrRetryExceeded)]);
    assert_eq!(counters(&lab, 0), HardwareCounters { rnr_nak_retry_err: 3, req_cqe_error: 1, ..Default::default() });
    assert_eq!(counters(&lab, 1), HardwareCounters { out_of_buffer: 3, ..Default::default() });
}

#[test]
fn requests_and_refusals_count_where_they_arrive() {
    let mut lab = lab();
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    lab.receive(1, b, 1, 0, 100);
    let rkey = lab.programs[1].rkey;
    let add = |rkey| SendOperation::FetchAdd { remote_address: BASE, rkey, add: 1 };
    let operations = [(lab.write_to(1, 0), 9_000), (lab.read_from(1, 0), 9_000), (add(rkey), 8), (add(RKey(0x7777)), 8), (SEND, 8)];
    for (number, (operation, len)) in (0..).zip(operations) {
        let request = lab.request(0, number, operation, 0, len);
        lab.send(0, a, request);
    }
    lab.run();
    let sender = HardwareCounters { req_cqe_error: 2, req_cqe_flush_error: 1, req_remote_access_errors: 1, ..Default::default() };
    assert_eq!(counters(&lab, 0), sender);
    let receiver = counters(&lab, 1);
    assert_eq!((receiver.rx_write_requests, receiver.rx_read_requests), (1, 1));
    assert_eq!((receiver.resp_remote_access_errors, receiver.resp_cqe_error, receiver.resp_cqe_flush_error), (1, 1, 1));
}

#[test]
fn requests_that_the_responder_does_not_accept_are_no_requests() {
    let mut lab = lab();
    let (a, _) = lab.connect_with(0, 1, QpType::Rc, |m: &mut QpModification| m.rnr_retry = m.rnr_retry.map(|_| 2));
    // Reads behind a SEND that has to wait are dropped, and come again with it.
    let operations = [SEND, lab.read_from(1, 0), lab.read_from(1, 0)];
    for (number, operation) in (0..).zip(operations) {
        let request = lab.request(0, number, operation, 0, 100);
        lab.send(0, a, request);
    }
    lab.run();
    assert_eq!(counters(&lab, 1), HardwareCounters { out_of_buffer: 3, ..Default::default() });
    // UC drops a write without a right to the memory.
    let (a, _) = lab.connect(0, 1, QpType::Uc);
    for (number, rkey) in [(0, RKey(0x7777)), (1, lab.programs[1].rkey)] {
        let write = SendOperation::RdmaWrite { remote_address: BASE, rkey, immediate: None };
        let request = lab.request(0, number, write, 0, 100);
        lab.send(0, a, request);
    }
    lab.run();
    assert_eq!(counters(&lab, 1), HardwareCounters { out_of_buffer: 3, rx_write_requests: 1, ..Default::default() });
}
