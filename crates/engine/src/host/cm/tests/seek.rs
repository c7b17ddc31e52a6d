//! Requests that wait for a listener.

use super::*;

#[test]
fn nobody_listens() {
    let mut desk = Desk::new();
    let id = desk.routed(200, TCP);
    desk.connect(id);
    let datagrams = desk.routed(201, UDP);
    desk.connect(datagrams);
    assert_eq!(desk.event(CLIENT), None, "a program may yet listen");
    let begun = desk.now;
    while desk.event(CLIENT).is_none() {
        desk.expire();
    }
    // The requests came 4.096 s + 2 x 1.024 s later a second time, and have waited no longer for it.
    assert_eq!(desk.now.saturating_since(begun).as_picos() / 1_000_000_000_000, 9);
    assert_eq!(desk.sent.iter().filter(|attribute| **attribute == 0x12).count(), 1);
}

#[test]
fn requests_to_a_host_whose_programs_have_ended_fail() {
    let mut desk = Desk::new();
    let id = desk.routed(200, TCP);
    desk.connect(id);
    let datagrams = desk.routed(201, UDP);
    desk.connect(datagrams);
    desk.table.refuse_seekers_of(1);
    desk.deliver();
    assert_eq!(desk.event(CLIENT), None);
    desk.table.refuse_seekers_of(0);
    desk.deliver();
    assert_eq!(desk.event(CLIENT), Some((200, id, 8, 8)));
    assert_eq!(desk.event(CLIENT), Some((201, datagrams, 7, 1)), "the status of the SIDR_REP");
}

#[test]
fn a_request_waits_for_its_listener() {
    let mut desk = Desk::new();
    let [id, second] = [200, 201].map(|uid| {
        let id = desk.routed(uid, TCP);
        desk.connect(id);
        id
    });
    let datagrams = desk.routed(202, UDP);
    desk.connect(datagrams);
    desk.act(CLIENT, &Command::Destroy { id: second }).unwrap();
    desk.listen(TCP);
    let (.., request, kind, _) = desk.event(SERVER).unwrap();
    assert_eq!(kind, 4);
    assert_eq!(desk.event(SERVER), None, "the second client has given up, and the third wants another service");
    desk.act(SERVER, &Command::Accept { id: request, uid: 300, parameters: Some(parameters(1, b"")) }).unwrap();
    assert_eq!(desk.event(CLIENT), Some((200, id, 5, 0)));
    desk.listen(UDP);
    assert!(desk.event(SERVER).is_some_and(|(.., kind, _)| kind == 4));
}

#[test]
fn a_sender_with_too_many_requests_is_refused() {
    let mut desk = Desk::new();
    for uid in 0..1_024 {
        let id = desk.routed(1_000 + uid, TCP);
        desk.connect(id);
        assert_eq!(desk.event(CLIENT), None);
    }
    let id = desk.routed(5_000, TCP);
    desk.connect(id);
    assert_eq!(desk.event(CLIENT), Some((5_000, id, 8, 8)));
}
