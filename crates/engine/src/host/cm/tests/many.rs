//! Many identifiers of a host.

use super::*;

#[test]
fn ten_thousand_connections_come_and_go() {
    const CONNECTIONS: u64 = 10_000;
    let mut desk = Desk::new();
    let listener = desk.create(SERVER, 100, TCP);
    desk.act(SERVER, &Command::Bind { id: listener, to: Address::v4(0, 7471) }).unwrap();
    desk.act(SERVER, &Command::Listen { id: listener, backlog: 0 }).unwrap();
    let mut numbers = Vec::new();
    for _ in 0..CONNECTIONS {
        let (id, request) = desk.connected();
        numbers.extend([id, request]);
    }
    numbers.sort_unstable();
    assert!((1..).zip(&numbers).all(|(expected, number)| expected == *number), "numbers are the lowest");
    desk.act(CLIENT, &Command::Destroy { id: 7 }).unwrap();
    assert_eq!(desk.create(CLIENT, 9, TCP), 7, "the lowest free number");
    desk.table.close(CLIENT, desk.now);
    desk.deliver();
    desk.table.close(SERVER, desk.now);
    desk.deliver();
    assert!(desk.table.ids.is_empty() && desk.table.by_comm_id.is_empty() && desk.table.deadlines.is_empty());
    assert_eq!(desk.table.ports.users(0, TCP, 7471).count(), 0);
}
