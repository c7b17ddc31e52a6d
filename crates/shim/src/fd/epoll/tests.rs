use super::*;

fn event(events: u32, data: u64) -> Option<epoll_event> {
    Some(epoll_event { events, u64: data })
}
const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;

#[test]
fn the_table_refuses_what_the_kernel_refuses() {
    let mut table = Table::default();
    assert_eq!(table.control(9, libc::EPOLL_CTL_MOD, 3, Some(1), event(IN, 0)), Err(libc::ENOENT));
    assert_eq!(table.control(9, libc::EPOLL_CTL_ADD, 3, Some(1), event(IN, 0)), Ok(()));
    assert_eq!(table.control(9, libc::EPOLL_CTL_ADD, 3, Some(1), event(IN, 0)), Err(libc::EEXIST));
    assert_eq!(table.control(9, libc::EPOLL_CTL_DEL, 3, Some(1), None), Ok(()));
    assert_eq!(table.control(9, libc::EPOLL_CTL_DEL, 3, Some(1), None), Err(libc::ENOENT));
    assert_eq!(table.control(9, 77, 3, Some(1), event(IN, 0)), Err(libc::EINVAL));
}

fn answer(ready: u32, seen: u32) -> WaitEntry {
    WaitEntry { ready, seen, ..interest::entry(1, 0) }
}

fn told(table: &mut Table, ready: u32, seen: u32) -> Option<u32> {
    let asked = table.items[0];
    table.items[0].tell(&asked, &answer(ready, seen))
}

#[test]
fn a_single_shot_is_silent_until_it_is_set_again() {
    let mut table = Table::default();
    table.control(9, libc::EPOLL_CTL_ADD, 3, Some(1), event(IN | ONESHOT, 5)).unwrap();
    assert_eq!(told(&mut table, READABLE, 1), Some(IN));
    assert!(table.watched(9).is_empty());
    assert_eq!(told(&mut table, READABLE, 1), None);
    table.control(9, libc::EPOLL_CTL_MOD, 3, Some(1), event(IN | ONESHOT, 5)).unwrap();
    assert_eq!(table.watched(9).len(), 1);
}

#[test]
fn an_interest_in_edges_asks_for_those_behind_the_last_report() {
    let mut table = Table::default();
    table.control(9, libc::EPOLL_CTL_ADD, 3, Some(1), event(IN | OUT | EDGE, 5)).unwrap();
    assert_eq!(table.items[0].entry(1).interest & readiness::EDGE, 0, "the first report is the present state");
    let asked = table.items[0];
    assert_eq!(told(&mut table, READABLE | WRITABLE, 7), Some(IN | OUT));
    assert_eq!(table.items[0].entry(1).seen, 7);
    assert_ne!(table.items[0].entry(1).interest & readiness::EDGE, 0);
    assert_eq!(table.items[0].tell(&asked, &answer(READABLE, 7)), None, "another thread has reported it");
    table.control(9, libc::EPOLL_CTL_MOD, 3, Some(1), event(IN | EDGE, 5)).unwrap();
    assert_eq!(table.items[0].entry(1).interest & readiness::EDGE, 0);
}

#[test]
fn a_report_has_only_the_events_asked_for_and_errors() {
    let mut table = Table::default();
    table.control(9, libc::EPOLL_CTL_ADD, 3, Some(1), event(libc::EPOLLRDHUP as u32, 5)).unwrap();
    assert_eq!(table.items[0].entry(1).interest, PEER_ENDED | HANG_UP | ERROR);
    assert_eq!(told(&mut table, PEER_ENDED | HANG_UP, 0), Some((libc::EPOLLRDHUP | libc::EPOLLHUP) as u32));
}

#[test]
fn an_exclusive_interest_has_limits() {
    let mut table = Table::default();
    assert_eq!(table.control(9, libc::EPOLL_CTL_ADD, 3, Some(1), event(IN | ONESHOT | EXCLUSIVE, 0)), Err(libc::EINVAL));
    assert_eq!(table.control(9, libc::EPOLL_CTL_ADD, 3, Some(1), event(IN | EXCLUSIVE, 0)), Ok(()));
    assert_eq!(table.control(9, libc::EPOLL_CTL_MOD, 3, Some(1), event(IN, 0)), Err(libc::EINVAL));
    assert_ne!(table.items[0].entry(1).interest & readiness::EXCLUSIVE, 0);
}

#[test]
fn closing_an_epoll_descriptor_ends_its_interests() {
    let mut table = Table::default();
    table.control(9, libc::EPOLL_CTL_ADD, 3, Some(1), event(IN, 5)).unwrap();
    table.control(8, libc::EPOLL_CTL_ADD, 3, Some(1), event(IN, 5)).unwrap();
    table.forget(9, false);
    assert_eq!(table.items.len(), 1);
    table.forget(3, true);
    assert_eq!(table.items.len(), 1, "a copy of the descriptor is open");
    table.forget_object(1);
    assert!(table.items.is_empty());
}

#[test]
fn an_answer_to_an_interest_before_its_modification_is_stale() {
    let mut table = Table::default();
    table.control(9, libc::EPOLL_CTL_ADD, 3, Some(1), event(IN | ONESHOT, 5)).unwrap();
    let asked = table.items[0];
    assert_eq!(told(&mut table, READABLE, 1), Some(IN));
    table.control(9, libc::EPOLL_CTL_MOD, 3, Some(1), event(IN | ONESHOT, 5)).unwrap();
    assert_eq!(table.items[0].tell(&asked, &answer(READABLE, 1)), None, "another thread has taken what the answer is about");
    assert_eq!(told(&mut table, READABLE, 1), Some(IN));
}

#[test]
fn an_interest_in_a_closed_descriptor_of_the_kernel_may_last() {
    let mut table = Table::default();
    table.control(9, libc::EPOLL_CTL_ADD, 3, Some(1), event(IN, 5)).unwrap();
    assert_eq!(table.of_kernel(9), (false, false));
    table.control(9, libc::EPOLL_CTL_ADD, 4, None, event(IN, 5)).unwrap();
    assert_eq!(table.of_kernel(9), (true, false));
    table.forget(4, false);
    assert_eq!(table.of_kernel(9), (false, true), "a copy may be open");
    table.forget(9, false);
    assert_eq!(table.of_kernel(9), (false, false));
}

#[test]
fn the_kernel_s_list_has_its_descriptors() {
    let list = "pos:\t0\nflags:\t02\nmnt_id:\t16\ntfd:        4 events:       19 data:                5  pos:0 ino:1 sdev:f\n";
    assert!(lists_any(list, -1));
    assert!(!lists_any(list, 4));
    assert!(!lists_any("pos:\t0\nflags:\t02\n", -1));
}

/// Returns a table whose epoll descriptor 9 watches 8, which watches an object.
fn nested(events: u32) -> Table {
    let mut table = Table::default();
    table.control(8, libc::EPOLL_CTL_ADD, 3, Some(1), event(IN, 5)).unwrap();
    table.control(9, libc::EPOLL_CTL_ADD, 8, None, event(events, 6)).unwrap();
    table
}

#[test]
fn an_inner_descriptor_with_a_single_shot_is_silent_afterwards() {
    let mut table = nested(IN | ONESHOT);
    let (asked, entries) = table.inner(9).remove(0);
    assert_eq!(entries.len(), 1);
    assert!(table.note_report(&asked, &[answer(READABLE, 1)]));
    assert!(table.inner(9).is_empty());
    assert!(!table.note_report(&asked, &[answer(READABLE, 1)]), "another thread has made the report");
    table.control(9, libc::EPOLL_CTL_MOD, 8, None, event(IN | ONESHOT, 6)).unwrap();
    assert_eq!(table.inner(9).len(), 1);
    assert!(!table.note_report(&asked, &[answer(READABLE, 2)]), "the answer is about the former interest");
}

#[test]
fn an_inner_descriptor_with_edges_reports_each_once() {
    let mut table = nested(IN | EDGE);
    let question = |table: &Table| table.inner(9)[0].1[0];
    assert_eq!(question(&table).interest & readiness::EDGE, 0, "the first report is the present state");
    let asked = table.inner(9)[0].0;
    assert!(table.note_report(&asked, &[answer(READABLE, 7)]));
    assert!(!table.note_report(&asked, &[answer(READABLE, 7)]));
    assert_eq!((question(&table).interest & readiness::EDGE, question(&table).seen), (readiness::EDGE, 7));
    assert_eq!(table.entries(8, 0)[0].interest & readiness::EDGE, 0, "the inner descriptor itself reports states");
    table.control(9, libc::EPOLL_CTL_DEL, 8, None, None).unwrap();
    table.prune_reports();
    assert!(table.reported.is_empty());
}

#[test]
fn an_interest_in_an_inner_descriptor_that_never_comes_ends_no_wait() {
    assert!(nested(OUT).inner(9).is_empty());
}

#[test]
fn a_change_of_an_inner_list_concerns_those_that_watch_it() {
    let mut table = nested(IN);
    table.control(10, libc::EPOLL_CTL_ADD, 9, None, event(IN, 7)).unwrap();
    assert_eq!(table.with_outer(8), [8, 9, 10].into());
    assert_eq!(table.with_outer(10), [10].into());
}
