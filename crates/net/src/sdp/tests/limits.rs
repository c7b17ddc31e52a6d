//! Limits of time, memory and credits, and peers that lie.

use super::*;
use crate::sdp::SOURCE_TIMEOUT;
use crate::sdp::headers::Base;

/// Lets a side send small messages until it has one credit left.
fn spend_credits(wire: &mut Wire, side: usize) {
    while wire.ends[side].connection.info(0).window > 1 {
        wire.copy(side, b"x").expect("room");
        wire.run();
    }
}

#[test]
fn the_end_leaves_the_last_credit() {
    let mut wire = Wire::new();
    wire.run();
    spend_credits(&mut wire, 0);
    wire.step(0, Connection::shut_send);
    wire.run();
    assert_eq!(wire.count(0, |message| *message == Message::Disconnect), 0);
    drain(&mut wire, 1, 100);
    assert_eq!(wire.count(0, |message| *message == Message::Disconnect), 1);
}

#[test]
fn an_answer_with_credits_may_take_the_last_one() {
    let mut wire = Wire::new();
    wire.run();
    spend_credits(&mut wire, 0);
    let data = bytes(90_000, 4);
    wire.send(1, &data, IN_PLACE).expect("room");
    wire.run();
    assert!(drain(&mut wire, 0, 90_000) == data);
    assert!(!wire.ends[1].connection.awaits_peer(), "the writer waits for no credit");
}

#[test]
fn a_call_that_ends_halfway_leaves_the_socket_to_others() {
    let mut wire = Wire::new();
    wire.run();
    let data = bytes(50_000, 6);
    assert_eq!(wire.send(0, &data, Part { urgent: false, more: true, rest: Some(150_000) }), Ok(Taken::Pinned(50_000)));
    assert_eq!(wire.copy(0, b"x"), Err(NetError::WouldBlock));
    wire.now = wire.ends[0].connection.deadline().expect("a limit of the wait");
    assert_eq!(wire.now, SimTime::ZERO + SOURCE_TIMEOUT);
    wire.ends[0].events = Events::NONE;
    wire.step(0, Connection::timer);
    wire.run();
    assert!(wire.ends[0].events.intersects(Events::WRITABLE));
    assert!(drain(&mut wire, 1, 90_000) == data);
    assert_eq!(wire.copy(0, b"x"), Ok(Taken::Copied(1)));
}

#[test]
fn small_parts_of_a_call_share_buffers() {
    let mut wire = Wire::new();
    wire.run();
    let data = bytes(80_000, 7);
    for (index, byte) in data.iter().enumerate() {
        let rest = (data.len() - 1 - index) as u32;
        assert_eq!(wire.send(0, &[*byte], Part { urgent: false, more: rest > 0, rest: Some(rest) }), Ok(Taken::Pinned(1)));
    }
    let source = wire.ends[0].sources.values().next().expect("a source");
    assert!(source.to_vec() == data && source.slices().len() < 50, "{} slices", source.slices().len());
}

#[test]
fn the_queue_of_a_source_has_its_bytes_alone() {
    let mut wire = Wire::new();
    wire.run();
    let data = bytes(70_000, 1);
    wire.send(0, &data, IN_PLACE).expect("room");
    wire.run();
    let info = wire.ends[0].connection.info(0);
    assert_eq!((info.unacknowledged_bytes, info.room), (70_000, 0));
    drain(&mut wire, 1, 70_000);
    let info = wire.ends[0].connection.info(0);
    assert_eq!((info.unacknowledged_bytes, info.room), (0, BUFFER));
}

#[test]
fn a_source_beyond_all_addresses_ends_the_connection() {
    let mut wire = Wire::new();
    wire.run();
    let lie = Message::Source { bytes: 100_000, rkey: 7, address: u64::MAX - 70_000 };
    wire.ends[0].inbox.push_back(lie.encode(Base { number: 9, ..Base::default() }));
    wire.ends[0].free_buffers -= 1;
    wire.run();
    assert_eq!(wire.read(0, 90_000), Ok(Vec::new()));
    assert!(wire.ends[0].is_closed && wire.ends[1].is_closed);
}

#[test]
fn a_hello_without_an_answer_times_out_as_a_syn_does() {
    let (kernel, own) = (KernelPart::linux_6_1(), options());
    let at = |text: &str| text.parse().expect("an address");
    let mut cx = Context::new(SimTime::ZERO, &own, &kernel, 7);
    let mut client = Connection::connect((at("10.0.0.1:4000"), at("10.0.0.2:5000")), InterfaceId(1), (BUFFER, 1), &mut cx);
    let deadline = client.deadline().expect("a limit of the wait");
    assert_eq!(deadline, SimTime::ZERO + kernel.rto_initial * 127);
    let mut cx = Context::new(deadline, &own, &kernel, 7);
    client.timer(&mut cx);
    assert!(client.is_closed() && matches!(cx.orders[..], [Order::Close]));
    assert_eq!(client.take_error(), Err(NetError::TimedOut));
}

#[test]
fn an_abort_that_the_hca_holds_needs_no_timer() {
    let mut wire = Wire::new();
    wire.run();
    assert_eq!(wire.ends[0].connection.deadline(), None, "the answer ended the wait");
    wire.step(0, Connection::close);
    wire.run();
    wire.now = wire.ends[0].connection.deadline().expect("a wait for the peer");
    wire.step(0, Connection::timer);
    assert_eq!((wire.ends[0].is_closed, wire.ends[0].connection.deadline()), (false, None));
    wire.run();
    assert!(wire.ends[0].is_closed);
}
