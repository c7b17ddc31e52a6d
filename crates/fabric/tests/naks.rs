//! A request that ends the connection after others: the earlier requests keep their effect, and
//! their completions come first.

use crate::common::*;
use softband_model::verbs::api::*;
use softband_types::*;

const SEND: SendOperation = SendOperation::Send { immediate: None };

fn lab() -> (Lab, Qpn, Qpn) {
    let mut lab = Lab::new(&back_to_back(LinkSpeed::Sdr, 10, 5, host_part(600, 300)));
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    (lab, a, b)
}

fn wrong_key() -> SendOperation {
    SendOperation::FetchAdd { remote_address: BASE, rkey: RKey(0x7777), add: 1 }
}

#[test]
fn a_message_that_is_still_being_written_completes_before_what_is_flushed() {
    let (mut lab, a, b) = lab();
    for wr_id in 1..=3 {
        lab.receive(1, b, wr_id, 0, 4_096);
    }
    let message = lab.request(0, 11, SEND, 0, 1_500);
    let bad = lab.request(0, 12, wrong_key(), 0, 8);
    lab.send(0, a, message);
    lab.send(0, a, bad);
    lab.run();
    assert_eq!(lab.statuses(0), [(11, WcStatus::Success), (12, WcStatus::RemoteAccessError)]);
    assert_eq!(lab.statuses(1), [(1, WcStatus::Success), (2, WcStatus::FlushError), (3, WcStatus::FlushError)]);
}

#[test]
fn reads_and_atomics_are_answered_before_the_nak() {
    let (mut lab, a, b) = lab();
    lab.receive(1, b, 1, 0, 4_096);
    let read = lab.request(0, 11, lab.read_from(1, 0), 0, 6_000);
    let rkey = lab.programs[1].rkey;
    let add = lab.request(0, 12, SendOperation::FetchAdd { remote_address: BASE + 64, rkey, add: 1 }, 8_192, 8);
    let bad = lab.request(0, 13, wrong_key(), 8_200, 8);
    let never = lab.request(0, 14, SEND, 0, 8);
    for request in [read, add, bad, never] {
        lab.send(0, a, request);
    }
    lab.run();
    let expected = [WcStatus::Success, WcStatus::Success, WcStatus::RemoteAccessError, WcStatus::FlushError];
    assert_eq!(lab.statuses(0), std::array::from_fn::<_, 4, _>(|index| (11 + index as u64, expected[index])));
    assert_eq!(lab.statuses(1), [(1, WcStatus::FlushError)]);
    assert_eq!(lab.state(1, b), QpState::Error);
}

#[test]
fn nothing_is_written_to_a_buffer_that_has_come_back_with_an_error() {
    // The memory write takes longer than the arrival of the next packets.
    let mut lab = Lab::new(&back_to_back(LinkSpeed::Ddr, 10, 5, host_part(600, 20_000)));
    let (a, b) = lab.connect(0, 1, QpType::Rc);
    lab.fill(0, 0, 16_000, 7);
    lab.receive(1, b, 1, 0, 4_000);
    let long = lab.request(0, 11, SEND, 0, 8_000);
    lab.send(0, a, long);
    while lab.completions(1).is_empty() {
        assert!(lab.step(), "it completes");
    }
    assert_eq!(lab.statuses(1), [(1, WcStatus::LocalLengthError)]);
    let given_back = lab.memory.blocks[1].clone();
    lab.run();
    assert!(lab.memory.blocks[1] == given_back, "something was written after it came back");
}
