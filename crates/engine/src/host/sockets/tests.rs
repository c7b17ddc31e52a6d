use super::*;

const PATH: Path = Path { latency: SimDuration::from_micros(20), bytes_per_second: 100_000_000 };

fn at(micros: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_micros(micros)
}

fn connected() -> (SocketTable, u32, u32) {
    let mut table = SocketTable::new(2);
    let mut wakeups = Wakeups::new();
    table.open(1, 0);
    table.bind(1, 0, 18_515, false).unwrap();
    assert!(table.listen(1).unwrap().is_empty());
    table.open(2, 1);
    assert!(table.connect(2, host_address(0), 18_515, false).unwrap());
    table.complete(2, 3, at(0), PATH, &mut wakeups).unwrap();
    assert_eq!(wakeups, vec![(at(20), 1, READABLE), (at(40), 2, ANY)]);
    assert_eq!(table.accept(1, at(19)), Err(libc::EAGAIN));
    assert_eq!(table.accept(1, at(20)).unwrap().0, 3);
    assert_eq!(table.outcome(2, at(39)), Err(libc::EINPROGRESS));
    assert_eq!(table.outcome(2, at(40)), Ok(()));
    (table, 2, 3)
}

#[test]
fn bytes_become_visible_after_latency_and_transfer() {
    let (mut table, client, server) = connected();
    let mut wakeups = Wakeups::new();
    assert_eq!(table.send(client, &[7; 1000], at(100), PATH, &mut wakeups), Ok(1000));
    assert_eq!(wakeups, vec![(at(130), server, READABLE)]);
    assert_eq!(table.receive(server, 4096, false, at(129), PATH, &mut wakeups), Err(libc::EAGAIN));
    assert_eq!(table.receive(server, 600, false, at(130), PATH, &mut wakeups).unwrap().len(), 600);
    assert_eq!(table.receive(server, 600, true, at(130), PATH, &mut wakeups).unwrap().len(), 400);
    assert_eq!(table.receive(server, 600, false, at(130), PATH, &mut wakeups).unwrap().len(), 400);
}

#[test]
fn a_closed_peer_ends_the_stream_behind_its_last_byte() {
    let (mut table, client, server) = connected();
    let mut wakeups = Wakeups::new();
    table.send(client, &[1], at(100), PATH, &mut wakeups).unwrap();
    table.close(client, at(100), PATH, &mut wakeups);
    assert_eq!(table.receive(server, 9, false, at(500), PATH, &mut wakeups).unwrap(), [1]);
    assert_eq!(table.receive(server, 9, false, at(500), PATH, &mut wakeups).unwrap(), [0u8; 0]);
    assert_eq!(table.send(server, &[1], at(500), PATH, &mut wakeups), Ok(1), "the first bytes find out");
    assert_eq!(table.send(server, &[1], at(540), PATH, &mut wakeups), Err(libc::EPIPE));
}

#[test]
fn the_same_port_on_two_hosts_is_two_ports_and_twice_on_one_is_refused() {
    let mut table = SocketTable::new(2);
    for (object, host) in [(1, 0), (2, 1), (3, 0)] {
        table.open(object, host);
    }
    assert_eq!(table.bind(1, 0, 80, false), Ok(80));
    assert_eq!(table.bind(2, 0, 80, false), Ok(80));
    assert_eq!(table.bind(3, 0, 80, false), Err(libc::EADDRINUSE));
    assert_eq!(table.bind(3, host_address(1), 81, false), Err(libc::EADDRNOTAVAIL));
}

#[test]
fn a_seeker_is_told_to_whoever_starts_listening() {
    let mut table = SocketTable::new(2);
    table.open(1, 1);
    assert!(!table.connect(1, host_address(0), 99, false).unwrap());
    table.open(2, 0);
    table.bind(2, 0, 99, false).unwrap();
    assert_eq!(table.listen(2).unwrap(), vec![1]);
}

#[test]
fn room_is_an_edge_after_a_lack_of_it() {
    let (mut table, client, server) = connected();
    let mut wakeups = Wakeups::new();
    assert_eq!(table.room(client, at(100)), Ok(WINDOW_BYTES as u32));
    table.send(client, &[0; 1000], at(100), PATH, &mut wakeups).unwrap();
    assert_eq!(table.room(client, at(100)), Ok(WINDOW_BYTES as u32 - 1000));
    assert!(!table.ends_lack_of_room(client));
    assert_eq!(table.send(client, &[0; WINDOW_BYTES], at(100), PATH, &mut wakeups), Ok(WINDOW_BYTES - 1000));
    assert!(!table.ends_lack_of_room(client), "there is no room yet");
    table.receive(server, 4096, false, at(1_000_000), PATH, &mut wakeups).unwrap();
    assert!(table.ends_lack_of_room(client));
    table.send(client, &[0; 4096], at(1_000_000), PATH, &mut wakeups).unwrap();
    assert_eq!(table.room(client, at(1_000_000)), Ok(0));
    table.receive(server, 4096, false, at(1_000_000), PATH, &mut wakeups).unwrap();
    assert!(table.ends_lack_of_room(client));
    assert!(!table.ends_lack_of_room(client), "the program has not looked since");
}

#[test]
fn a_socket_without_both_directions_hangs_up() {
    let (mut table, client, server) = connected();
    let mut wakeups = Wakeups::new();
    table.shutdown(client, libc::SHUT_WR as u32, at(100), PATH, &mut wakeups).unwrap();
    assert_eq!(table.readiness(server, at(1_000)) & (READABLE | PEER_ENDED | HANG_UP), READABLE | PEER_ENDED);
    assert_eq!(table.readiness(client, at(1_000)) & (PEER_ENDED | HANG_UP), 0);
    table.shutdown(client, libc::SHUT_RD as u32, at(1_000), PATH, &mut wakeups).unwrap();
    assert_eq!(table.readiness(client, at(1_000)) & (PEER_ENDED | HANG_UP), PEER_ENDED | HANG_UP);
    assert_eq!(table.room(client, at(1_000)), Err(libc::EPIPE));
}
