//! The time that a fabric spends on transfers, and the queue pairs that had to resend.

use crate::common::*;
use softband_model::verbs::api::*;
use softband_sim::SimTime;
use softband_spec::FabricSpec;
use softband_types::*;

const SEND: SendOperation = SendOperation::Send { immediate: None };

fn pair() -> FabricSpec {
    back_to_back(LinkSpeed::Sdr, 1, 5, host_part(600, 300))
}

fn idle_until(lab: &mut Lab, at: SimTime) {
    let hca = lab.programs[0].hca;
    lab.world.wake_at(hca, at, 0);
    lab.run();
    assert_eq!(lab.world.now(), at);
}

#[test]
fn time_counts_while_a_request_is_under_way_and_no_longer() {
    let mut lab = Lab::new(&pair());
    let (a, _) = lab.connect(0, 1, QpType::Rc);
    lab.run();
    assert_eq!((lab.world.transfer_picos(), lab.world.has_transfers()), (0, false));
    // Two simultaneous requests count once.
    for number in 0..2 {
        let request = lab.request(0, number, lab.write_to(1, 0), 0, 65_536);
        lab.send(0, a, request);
    }
    let begun = lab.world.now();
    lab.run();
    let ended = lab.timed_completions(0).last().unwrap().0;
    let spent = lab.world.transfer_picos();
    // From the doorbell to the outcome: the program's post and the completion's write do not count.
    let part = lab.world.hca_part(HcaId(0));
    let whole = ended.saturating_since(begun + part.doorbell + part.completion_write);
    assert_eq!(spent, whole.as_picos());
    idle_until(&mut lab, ended + nanos(1_000_000));
    assert_eq!((lab.world.transfer_picos(), lab.world.has_transfers()), (spent, false));
    let request = lab.request(0, 3, lab.write_to(1, 0), 0, 8);
    lab.send(0, a, request);
    lab.run();
    assert!(lab.world.transfer_picos() > spent && lab.world.transfer_picos() < spent + 20_000_000);
}

#[test]
fn a_reset_or_destroyed_queue_pair_ends_its_requests() {
    let mut lab = Lab::new(&pair());
    for destroys in [false, true] {
        let (a, _) = lab.connect(0, 1, QpType::Rc);
        let request = lab.request(0, 1, SEND, 0, 100);
        lab.send(0, a, request);
        while !lab.world.has_transfers() {
            assert!(lab.step());
        }
        if destroys {
            let (now, program) = (lab.world.now(), lab.programs[0]);
            lab.world.destroy_qp(now, program.process, program.hca, a).unwrap();
        } else {
            let reset = QpModification { state: Some(QpState::Reset), ..Default::default() };
            lab.modify(0, a, reset).unwrap();
        }
        assert!(!lab.world.has_transfers());
        lab.run();
    }
}

#[test]
fn requests_that_are_flushed_end_as_well() {
    let mut lab = Lab::new(&pair());
    let (a, _) = lab.connect_with(0, 1, QpType::Rc, |m| m.rnr_retry = m.rnr_retry.map(|_| 2));
    for number in 0..3 {
        let request = lab.request(0, number, SEND, 0, 100);
        lab.send(0, a, request);
    }
    lab.run();
    assert_eq!(lab.statuses(0).len(), 3);
    assert!(!lab.world.has_transfers());
    // The queue pair is in error, so this request is flushed at once.
    let spent = lab.world.transfer_picos();
    let request = lab.request(0, 9, SEND, 0, 100);
    lab.send(0, a, request);
    lab.run();
    assert_eq!((lab.world.transfer_picos(), lab.world.has_transfers()), (spent, false));
}

#[test]
fn waits_for_a_receiver_are_counted_by_queue_pair_also_when_it_is_gone() {
    let mut lab = Lab::new(&pair());
    let (idle, _) = lab.connect(0, 1, QpType::Rc);
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    assert_ne!(idle, a);
    let request = lab.request(0, 1, SEND, 0, 9_000);
    lab.send(0, a, request);
    for _ in 0..200 {
        lab.step();
    }
    lab.receive(1, b, 2, 0, 9_000);
    lab.run();
    let repeats = lab.world.repeats();
    assert_eq!(repeats.len(), 1);
    assert_eq!((repeats[0].node.as_str(), repeats[0].qpn), ("a/test0", a));
    let counted = repeats[0].repeats;
    assert!(counted.rnr_naks > 0 && counted.retransmissions == 0 && counted.timeouts == 0);
    let share = counted.rnr_waits.as_picos() * 100 / lab.world.transfer_picos();
    assert!((50..=100).contains(&share), "{share} %");
    let (now, program) = (lab.world.now(), lab.programs[0]);
    lab.world.destroy_qp(now, program.process, program.hca, a).unwrap();
    assert_eq!(lab.world.repeats(), repeats);
}

#[test]
fn timeouts_are_counted_with_the_time_that_they_took() {
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
    let counted = lab.world.repeats()[0].repeats;
    // The first transmission and three retries, a timeout of 4.096 us x 2^8 each.
    assert_eq!((counted.timeouts, counted.retransmissions), (4, 3));
    assert_eq!(counted.timeout_waits, nanos(4 * 1_048_576));
    assert!(counted.timeout_waits.as_picos() <= lab.world.transfer_picos());
}
