//! The transports as programs see them: data, completions, and errors on the right side.

use crate::common::*;
use softband_fabric::notice::Notice;
use softband_model::verbs::api::*;
use softband_spec::FabricSpec;
use softband_types::*;

const SEND: SendOperation = SendOperation::Send { immediate: None };

fn pair() -> FabricSpec {
    back_to_back(LinkSpeed::Sdr, 10, 5, host_part(600, 300))
}

fn only(lab: &Lab, who: usize) -> Completion {
    let completions = lab.completions(who);
    assert_eq!(completions.len(), 1, "{completions:?}");
    completions[0].clone()
}

#[test]
fn a_send_of_several_packets_arrives_whole_with_its_immediate() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let mut lab = Lab::new(&pair());
        let (a, b) = lab.connect(0, 1, qp_type);
        lab.fill(0, 100, 200_000, 5);
        lab.receive(1, b, 77, 50, 300_000);
        let request = lab.request(0, 7, SendOperation::Send { immediate: Some(0xABCD) }, 100, 200_000);
        lab.send(0, a, request);
        lab.run();
        assert_eq!(lab.memory.blocks[0][100..200_100], lab.memory.blocks[1][50..200_050]);
        let received = only(&lab, 1);
        assert_eq!((received.wr_id, received.status, received.byte_len), (77, WcStatus::Success, 200_000));
        assert_eq!((received.opcode, received.immediate, received.qpn), (WcOpcode::Receive, Some(0xABCD), b));
        let sent = only(&lab, 0);
        assert_eq!((sent.wr_id, sent.status, sent.opcode, sent.send_retired), (7, WcStatus::Success, WcOpcode::Send, 1));
        assert_eq!(lab.world.packets_under_way(), 0);
    }
}

#[test]
fn scattered_memory_is_gathered_and_scattered_across_packet_bounds() {
    let mut lab = Lab::new(&pair());
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    lab.fill(0, 0, 10_000, 1);
    let entry = |who: &Program, offset: u64, len_bytes| ScatterGatherEntry { address: BASE + offset, len_bytes, lkey: who.lkey };
    let (from, to) = (lab.programs[0], lab.programs[1]);
    let entries = vec![entry(&to, 0, 3_000), entry(&to, 50_000, 1), entry(&to, 60_000, 6_999)];
    let now = lab.world.now();
    lab.world.post_receive(now, to.process, to.hca, b, ReceiveRequest { wr_id: 1, entries, srq: None });
    let mut request = lab.request(0, 1, SEND, 0, 0);
    request.entries = vec![entry(&from, 0, 1), entry(&from, 1, 4_999), entry(&from, 5_000, 5_000)];
    lab.send(0, a, request);
    lab.run();
    let (source, target) = (&lab.memory.blocks[0], &lab.memory.blocks[1]);
    assert_eq!(source[..3_000], target[..3_000]);
    assert_eq!(source[3_000], target[50_000]);
    assert_eq!(source[3_001..10_000], target[60_000..66_999]);
}

#[test]
fn a_write_with_immediate_takes_a_receive_and_one_without_takes_none() {
    let mut lab = Lab::new(&pair());
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    lab.fill(0, 0, 5_000, 2);
    lab.receive(1, b, 5, 0, 0);
    let plain = lab.request(0, 1, lab.write_to(1, 9_000), 0, 5_000);
    lab.send(0, a, plain);
    let rkey = lab.programs[1].rkey;
    let operation = SendOperation::RdmaWrite { remote_address: BASE + 20_000, rkey, immediate: Some(9) };
    let with_immediate = lab.request(0, 2, operation, 0, 5_000);
    lab.send(0, a, with_immediate);
    lab.run();
    assert_eq!(lab.memory.blocks[1][9_000..14_000], lab.memory.blocks[0][..5_000]);
    assert_eq!(lab.memory.blocks[1][20_000..25_000], lab.memory.blocks[0][..5_000]);
    let received = only(&lab, 1);
    assert_eq!((received.opcode, received.byte_len, received.immediate), (WcOpcode::ReceiveRdmaWithImmediate, 5_000, Some(9)));
    assert_eq!(lab.statuses(0), [(1, WcStatus::Success), (2, WcStatus::Success)]);
}

#[test]
fn a_read_sees_what_was_written_before_it() {
    let mut lab = Lab::new(&pair());
    let (a, _) = lab.connect(0, 1, QpType::Rc);
    lab.fill(0, 0, 150_000, 3);
    let write = lab.request(0, 1, lab.write_to(1, 0), 0, 150_000);
    let read = lab.request(0, 2, lab.read_from(1, 0), 500_000, 150_000);
    lab.send(0, a, write);
    lab.send(0, a, read);
    lab.run();
    assert_eq!(lab.memory.blocks[0][..150_000], lab.memory.blocks[0][500_000..650_000]);
    assert_eq!(lab.completions(0)[1].byte_len, 150_000);
    assert!(lab.completions(1).is_empty());
}

#[test]
fn more_reads_than_allowed_wait_their_turn_and_a_fence_waits_for_all() {
    let mut lab = Lab::new(&pair());
    let (a, _) = lab.connect(0, 1, QpType::Rc);
    lab.fill(1, 0, 40_000, 4);
    for number in 0..10 {
        let read = lab.request(0, number, lab.read_from(1, number * 4_000), 100_000 + number * 4_000, 4_000);
        lab.send(0, a, read);
    }
    // Without the fence this request would send data that the reads have not fetched yet.
    let mut back = lab.request(0, 10, lab.write_to(1, 200_000), 100_000, 40_000);
    back.fence = true;
    lab.send(0, a, back);
    lab.run();
    assert_eq!(lab.memory.blocks[1][..40_000], lab.memory.blocks[1][200_000..240_000]);
    let ids: Vec<u64> = lab.statuses(0).iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, (0..=10).collect::<Vec<_>>());
}

#[test]
fn atomics_change_memory_once_and_bring_the_old_value() {
    let mut lab = Lab::new(&pair());
    let (a, _) = lab.connect(0, 1, QpType::Rc);
    lab.memory.blocks[1][64..72].copy_from_slice(&40_u64.to_ne_bytes());
    let (remote_address, rkey) = (BASE + 64, lab.programs[1].rkey);
    let add = lab.request(0, 1, SendOperation::FetchAdd { remote_address, rkey, add: 2 }, 0, 8);
    let swap = lab.request(0, 2, SendOperation::CompareSwap { remote_address, rkey, compare: 42, swap: 7 }, 8, 8);
    let no_swap = lab.request(0, 3, SendOperation::CompareSwap { remote_address, rkey, compare: 42, swap: 9 }, 16, 8);
    for request in [add, swap, no_swap] {
        lab.send(0, a, request);
    }
    lab.run();
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
    let old: Vec<u64> = lab.memory.blocks[0][..24].chunks(8).map(word).collect();
    assert_eq!((old.as_slice(), word(&lab.memory.blocks[1][64..72])), ([40, 42, 7].as_slice(), 7));
    let opcodes: Vec<_> = lab.completions(0).iter().map(|completion| completion.opcode).collect();
    assert_eq!(opcodes, [WcOpcode::FetchAdd, WcOpcode::CompareSwap, WcOpcode::CompareSwap]);
}

#[test]
fn an_unaligned_atomic_is_an_invalid_request() {
    let mut lab = Lab::new(&pair());
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    let rkey = lab.programs[1].rkey;
    let request = lab.request(0, 1, SendOperation::FetchAdd { remote_address: BASE + 4, rkey, add: 1 }, 0, 8);
    lab.send(0, a, request);
    lab.run();
    assert_eq!(lab.statuses(0), [(1, WcStatus::RemoteInvalidRequestError)]);
    assert_eq!((lab.state(0, a), lab.state(1, b)), (QpState::Error, QpState::Error));
}

#[test]
fn a_send_waits_for_a_late_receive_by_rnr_retries() {
    let mut lab = Lab::new(&pair());
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    lab.fill(0, 0, 9_000, 6);
    let request = lab.request(0, 1, SEND, 0, 9_000);
    lab.send(0, a, request);
    for _ in 0..200 {
        lab.step();
    }
    lab.receive(1, b, 2, 0, 9_000);
    lab.run();
    assert_eq!(lab.memory.blocks[0][..9_000], lab.memory.blocks[1][..9_000]);
    assert_eq!((only(&lab, 0).status, only(&lab, 1).byte_len), (WcStatus::Success, 9_000));
}

#[test]
fn rnr_retries_end_and_flush_what_follows() {
    let mut lab = Lab::new(&pair());
    let change = |m: &mut QpModification| m.rnr_retry = m.rnr_retry.map(|_| 2);
    let (a, _) = lab.connect_with(0, 1, QpType::Rc, change);
    for number in 0..3 {
        let request = lab.request(0, number, SEND, 0, 100);
        lab.send(0, a, request);
    }
    lab.receive(0, a, 10, 0, 100);
    lab.run();
    let flushed = WcStatus::FlushError;
    assert_eq!(lab.statuses(0), [(0, WcStatus::RnrRetryExceeded), (1, flushed), (2, flushed), (10, flushed)]);
}

#[test]
fn a_dead_peer_is_found_out_by_retries() {
    let mut lab = Lab::new(&pair());
    let (a, _) = lab.connect(0, 1, QpType::Rc);
    let request = lab.request(0, 1, lab.write_to(1, 0), 0, 1_000_000);
    lab.send(0, a, request);
    for _ in 0..200 {
        lab.step();
    }
    let now = lab.world.now();
    lab.world.remove_process(now, ProcessId(1));
    lab.run();
    assert_eq!(lab.statuses(0), [(1, WcStatus::RetryExceeded)]);
    // The first transmission and three retries, a timeout of 4.096 us x 2^8 each.
    assert!(lab.world.now().saturating_since(now) >= nanos(4 * 1_048_576));
    assert_eq!(lab.world.packets_under_way(), 0);
}

#[test]
fn no_byte_moves_without_key_bounds_and_right() {
    type Change = fn(&mut Lab) -> SendOperation;
    let wrong_key: Change = |_| SendOperation::RdmaWrite { remote_address: BASE, rkey: RKey(0x7777), immediate: None };
    let out_of_bounds: Change = |lab| lab.write_to(1, MEMORY_BYTES as u64 - 4_999);
    let no_right: Change = |lab| {
        let program = lab.programs[1];
        let access = Access { local_write: true, ..Access::default() };
        let (owner, pd) = (program.process, program.pd);
        let init = MrInit { owner, pd, address: BASE, len_bytes: 10_000, iova: BASE, access };
        let (_, _, rkey) = lab.world.register_mr(program.hca, init).unwrap();
        SendOperation::RdmaWrite { remote_address: BASE, rkey, immediate: None }
    };
    let other_domain: Change = |lab| {
        let program = lab.programs[1];
        let pd = lab.world.alloc_pd(program.process, program.hca).unwrap();
        let init = MrInit { owner: program.process, pd, address: BASE, len_bytes: 10_000, iova: BASE, access: ALL_RIGHTS };
        let (_, _, rkey) = lab.world.register_mr(program.hca, init).unwrap();
        SendOperation::RdmaWrite { remote_address: BASE, rkey, immediate: None }
    };
    for change in [wrong_key, out_of_bounds, no_right, other_domain] {
        let mut lab = Lab::new(&pair());
        let (a, b) = lab.connect(0, 1, QpType::Rc);
        lab.fill(0, 0, 5_000, 9);
        let operation = change(&mut lab);
        let request = lab.request(0, 1, operation, 0, 5_000);
        lab.send(0, a, request);
        lab.run();
        assert_eq!(lab.statuses(0), [(1, WcStatus::RemoteAccessError)]);
        assert!(lab.memory.blocks[1].iter().all(|byte| *byte == 0));
        assert_eq!((lab.state(0, a), lab.state(1, b)), (QpState::Error, QpState::Error));
        let raised = lab.notices.iter().any(|(_, notice)| matches!(notice, Notice::QpEvent { event: 3, .. }));
        assert!(raised, "the responder's program is told of the access error");
    }
}

#[test]
fn a_receive_too_small_fails_on_both_sides() {
    let mut lab = Lab::new(&pair());
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    lab.receive(1, b, 5, 0, 2_100);
    lab.receive(1, b, 6, 0, 2_100);
    let request = lab.request(0, 1, SEND, 0, 5_000);
    lab.send(0, a, request);
    lab.run();
    assert_eq!(lab.statuses(0), [(1, WcStatus::RemoteInvalidRequestError)]);
    assert_eq!(lab.statuses(1), [(5, WcStatus::LocalLengthError), (6, WcStatus::FlushError)]);
}

#[test]
fn local_faults_fail_locally_and_in_order() {
    let mut lab = Lab::new(&pair());
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    lab.receive(1, b, 5, 0, 2_100);
    let good = lab.request(0, 1, SEND, 0, 500);
    let mut bad_key = lab.request(0, 2, SEND, 0, 500);
    bad_key.entries[0].lkey = LKey(3);
    lab.send(0, a, good);
    lab.send(0, a, bad_key);
    lab.run();
    assert_eq!(lab.statuses(0), [(1, WcStatus::Success), (2, WcStatus::LocalProtectionError)]);
    assert_eq!(lab.statuses(1), [(5, WcStatus::Success)]);

    let mut lab = Lab::new(&pair());
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    let mut too_long = lab.request(0, 2, SEND, 0, u32::MAX);
    too_long.entries.push(too_long.entries[0]);
    lab.send(0, a, too_long);
    lab.run();
    assert_eq!(lab.statuses(0), [(2, WcStatus::LocalLengthError)]);
    assert_eq!(lab.state(1, b), QpState::Rts);
}

#[test]
fn a_receiver_without_its_memory_fails_the_requester_with_an_operation_error() {
    let mut lab = Lab::new(&pair());
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    lab.receive(1, b, 5, 0, 10_000);
    lab.run();
    lab.memory.blocks[1].clear();
    let request = lab.request(0, 1, SEND, 0, 5_000);
    lab.send(0, a, request);
    lab.run();
    assert_eq!(lab.statuses(0), [(1, WcStatus::RemoteOperationError)]);
    assert_eq!(lab.state(1, b), QpState::Error);
}

#[test]
fn unsignalled_requests_complete_only_when_they_fail_and_still_count() {
    let mut lab = Lab::new(&pair());
    let (a, _) = lab.connect(0, 1, QpType::Rc);
    for number in 0..10 {
        let mut request = lab.request(0, number, lab.write_to(1, 0), 0, 10);
        request.signaled = number == 9;
        lab.send(0, a, request);
    }
    lab.run();
    assert_eq!((only(&lab, 0).wr_id, only(&lab, 0).send_retired), (9, 10));
}

fn datagram_request(lab: &mut Lab, to: (usize, Qpn), len: u32, grh: Option<GlobalRoute>, qkey: u32) -> SendRequest {
    let program = lab.programs[0];
    let vector = AddressVector { dlid: lab.programs[to.0].lid, port: PortNumber(1), grh, ..Default::default() };
    let ah = lab.world.create_ah(program.process, program.pd, vector).unwrap();
    let mut request = lab.request(0, 1, SEND, 0, len);
    request.datagram = Some(DatagramDestination { ah, remote_qpn: to.1, remote_qkey: QKey(qkey) });
    request
}

#[test]
fn a_datagram_leaves_room_for_a_grh_and_fills_it_when_there_is_one() {
    for with_grh in [false, true] {
        let mut lab = Lab::new(&pair());
        let (a, b) = lab.connect(0, 1, QpType::Ud);
        lab.fill(0, 0, 2_048, 8);
        lab.receive(1, b, 5, 0, 2_088);
        let dgid = lab.world.port(lab.programs[1].hca, PortNumber(1)).unwrap().gids[0].unwrap();
        let sgid = lab.world.port(lab.programs[0].hca, PortNumber(1)).unwrap().gids[0].unwrap();
        let route = GlobalRoute { dgid, hop_limit: 64, ..Default::default() };
        let request = datagram_request(&mut lab, (1, b), 2_048, with_grh.then_some(route), 0x1111);
        lab.send(0, a, request);
        lab.run();
        let received = only(&lab, 1);
        assert_eq!((received.byte_len, received.has_grh, received.source_qpn), (2_088, with_grh, a));
        assert_eq!((received.source_lid, only(&lab, 0).status), (lab.programs[0].lid, WcStatus::Success));
        let target = &lab.memory.blocks[1];
        assert_eq!(target[40..2_088], lab.memory.blocks[0][..2_048]);
        if with_grh {
            assert_eq!((target[0] >> 4, target[6], target[7]), (6, 0x1B, 64));
            assert_eq!((&target[8..24], &target[24..40]), (&sgid.0[..], &dgid.0[..]));
            // BTH, DETH, payload and invariant CRC.
            assert_eq!(u16::from_be_bytes([target[4], target[5]]), 12 + 8 + 2_048 + 4);
        } else {
            assert!(target[..40].iter().all(|byte| *byte == 0));
        }
    }
}

#[test]
fn datagrams_are_dropped_without_their_key_or_a_receive_and_refused_beyond_the_mtu() {
    let mut lab = Lab::new(&pair());
    let (a, b) = lab.connect(0, 1, QpType::Ud);
    let no_receive = datagram_request(&mut lab, (1, b), 10, None, 0x1111);
    lab.send(0, a, no_receive);
    lab.run();
    lab.receive(1, b, 5, 0, 100);
    let wrong_key = datagram_request(&mut lab, (1, b), 10, None, 0x2222);
    lab.send(0, a, wrong_key);
    lab.run();
    assert!(lab.completions(1).is_empty());
    let too_long = datagram_request(&mut lab, (1, b), 2_049, None, 0x1111);
    lab.send(0, a, too_long);
    lab.run();
    let statuses: Vec<_> = lab.statuses(0).iter().map(|(_, status)| *status).collect();
    assert_eq!(statuses, [WcStatus::Success, WcStatus::Success, WcStatus::LocalLengthError]);
    assert_eq!(lab.state(0, a), QpState::Sqe);
    lab.modify(0, a, QpModification { state: Some(QpState::Rts), ..Default::default() }).unwrap();
    let good = datagram_request(&mut lab, (1, b), 10, None, 0x1111);
    lab.send(0, a, good);
    lab.run();
    assert_eq!(only(&lab, 1).byte_len, 50);
}

#[test]
fn an_unreliable_message_without_a_receive_is_lost_and_the_next_one_is_not() {
    let mut lab = Lab::new(&pair());
    let (a, b) = lab.connect(0, 1, QpType::Uc);
    let first = lab.request(0, 1, SEND, 0, 6_000);
    lab.send(0, a, first);
    lab.run();
    lab.fill(0, 0, 6_000, 1);
    lab.receive(1, b, 5, 0, 6_000);
    let second = lab.request(0, 2, SEND, 0, 6_000);
    lab.send(0, a, second);
    lab.run();
    assert_eq!(lab.statuses(0), [(1, WcStatus::Success), (2, WcStatus::Success)]);
    assert_eq!(only(&lab, 1).byte_len, 6_000);
    assert_eq!(lab.memory.blocks[0][..6_000], lab.memory.blocks[1][..6_000]);
}

#[test]
fn queue_pairs_of_one_port_reach_each_other_without_the_link() {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let mut lab = Lab::new(&pair());
        let (a, b) = lab.connect(0, 0, qp_type);
        lab.fill(0, 0, 2_000, 4);
        lab.receive(0, b, 5, 100_000, 4_000);
        let request = match qp_type {
            QpType::Ud => datagram_request(&mut lab, (0, b), 2_000, None, 0x1111),
            _ => lab.request(0, 1, SEND, 0, 2_000),
        };
        lab.send(0, a, request);
        lab.run();
        assert_eq!(lab.completions(0).len(), 2);
        let start = if qp_type == QpType::Ud { 100_040 } else { 100_000 };
        assert_eq!(lab.memory.blocks[0][..2_000], lab.memory.blocks[0][start..start + 2_000]);
        assert_eq!(lab.world.counters()[0].port_xmit_pkts, 0);
    }
    let mut lab = Lab::new(&pair());
    let own = lab.create(0, QpType::Rc);
    lab.bring_up(0, own, QpType::Rc, (0, own), |_| ());
    lab.fill(0, 0, 100_000, 4);
    let request = lab.request(0, 1, lab.write_to(0, 200_000), 0, 100_000);
    lab.send(0, own, request);
    lab.run();
    assert_eq!(lab.memory.blocks[0][..100_000], lab.memory.blocks[0][200_000..300_000]);
}

#[test]
fn an_armed_queue_raises_one_event_and_a_solicited_one_waits_for_its_kind() {
    let mut lab = Lab::new(&pair());
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    let target = lab.programs[1];
    for number in 0..4 {
        lab.receive(1, b, number, 0, 100);
    }
    lab.world.arm_cq(lab.world.now(), target.process, target.cq, true);
    for solicited in [false, true, true, false] {
        let mut request = lab.request(0, 1, SEND, 0, 10);
        request.solicited = solicited;
        lab.send(0, a, request);
    }
    lab.run();
    let kinds: Vec<bool> = lab
        .notices
        .iter()
        .filter_map(|(_, notice)| match notice {
            Notice::CqEvent { process: ProcessId(1), .. } => Some(true),
            Notice::Completed { process: ProcessId(1), .. } => Some(false),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, [false, false, true, false, false]);
}

#[test]
fn an_overrun_queue_takes_its_queue_pairs_to_error() {
    let mut lab = Lab::new(&pair());
    let (a, _) = lab.connect(0, 1, QpType::Rc);
    lab.world.overflow_cq(lab.world.now(), lab.programs[0].cq);
    lab.run();
    assert_eq!(lab.state(0, a), QpState::Error);
    assert!(lab.notices.iter().any(|(_, notice)| matches!(notice, Notice::CqError { process: ProcessId(0), .. })));
}

#[test]
fn objects_in_use_stay_and_another_processes_objects_are_out_of_reach() {
    let mut lab = Lab::new(&pair());
    let (a, _) = lab.connect(0, 1, QpType::Rc);
    let own = lab.programs[0];
    assert_eq!(lab.world.dealloc_pd(own.process, own.pd), Err(VerbsError::Busy));
    assert_eq!(lab.world.destroy_cq(own.process, own.cq), Err(VerbsError::Busy));
    assert_eq!(lab.world.dealloc_pd(ProcessId(1), own.pd), Err(VerbsError::Forbidden));
    assert_eq!(lab.world.query_qp(ProcessId(1), own.hca, a).unwrap_err(), VerbsError::Forbidden);
    let now = lab.world.now();
    lab.world.destroy_qp(now, own.process, own.hca, a).unwrap();
    assert_eq!(lab.world.destroy_cq(own.process, own.cq), Ok(()));
    assert_eq!(lab.world.query_qp(own.process, own.hca, a).unwrap_err(), VerbsError::Invalid);
}

#[test]
fn reset_forgets_everything_and_the_queue_pair_serves_again() {
    let mut lab = Lab::new(&pair());
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    let request = lab.request(0, 1, SEND, 0, 100);
    lab.send(0, a, request);
    for (who, qpn) in [(0, a), (1, b)] {
        let reset = QpModification { state: Some(QpState::Reset), ..Default::default() };
        assert_eq!(lab.modify(who, qpn, reset).unwrap().state, QpState::Reset);
    }
    lab.run();
    assert!(lab.completions(0).is_empty());
    lab.bring_up(0, a, QpType::Rc, (1, b), |_| ());
    lab.bring_up(1, b, QpType::Rc, (0, a), |_| ());
    lab.receive(1, b, 4, 0, 100);
    let request = lab.request(0, 2, SEND, 0, 100);
    lab.send(0, a, request);
    lab.run();
    assert_eq!((lab.statuses(0), lab.statuses(1)), (vec![(2, WcStatus::Success)], vec![(4, WcStatus::Success)]));
}

#[test]
fn a_post_ahead_of_time_does_not_hold_up_an_earlier_one() {
    let mut lab = Lab::new(&pair());
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    let (first, second) = (lab.programs[0], lab.programs[1]);
    let late = lab.world.now() + nanos(1_000_000);
    let request = lab.request(0, 1, lab.write_to(1, 0), 0, 10);
    lab.world.post_send(late, first.process, first.hca, a, request);
    let request = lab.request(1, 2, lab.write_to(0, 0), 0, 10);
    lab.world.post_send(lab.world.now(), second.process, second.hca, b, request);
    lab.run();
    assert!(lab.timed_completions(1)[0].0 < late && lab.timed_completions(0)[0].0 > late);
}
