use super::*;

const PATH: Path = Path { latency: SimDuration::from_micros(20), bytes_per_second: 100_000_000 };

fn at(micros: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_micros(micros)
}

fn to(host: usize, port: u16) -> To {
    To { address: (host_address(host), port), is_v6: false }
}

/// Returns a table with socket 1 at port 99 of host 0, and with socket 2 on host 1.
fn table() -> DatagramTable {
    let mut table = DatagramTable::new(2);
    table.open(1, 0);
    assert_eq!(table.bind(1, To { address: (0, 99), is_v6: false }, at(0)), Ok(99));
    table.open(2, 1);
    table
}

fn send(table: &mut DatagramTable, bytes: &[u8], to: Option<To>, now: SimTime) -> Result<(), i32> {
    table.send(2, bytes, to, now, |_, _| PATH, &mut Wakeups::new())
}

#[test]
fn a_datagram_arrives_after_transfer_and_latency() {
    let mut table = table();
    send(&mut table, &[7; 1000], Some(to(0, 99)), at(100)).unwrap();
    send(&mut table, &[8; 1000], Some(to(0, 99)), at(100)).unwrap();
    assert_eq!(table.take_due(), [at(130), at(140)]);
    assert_eq!(table.receive(1, false, at(129)), Err(libc::EAGAIN));
    let first = table.receive(1, false, at(150)).unwrap();
    assert_eq!((first.from, first.bytes), ((host_address(1), 32_768), vec![7; 1000]));
    assert_eq!(table.receive(1, true, at(150)).unwrap().bytes, [8; 1000]);
    assert_eq!(table.receive(1, false, at(150)).unwrap().bytes, [8; 1000]);
    assert_eq!(table.receive(1, false, at(150)), Err(libc::EAGAIN));
}

#[test]
fn a_full_socket_drops_by_the_room_at_the_time_of_arrival() {
    let mut table = table();
    table.option(1, socket_option::RECEIVE_BUFFER, Some(1)).unwrap();
    for number in 0..5 {
        send(&mut table, &[number], Some(to(0, 99)), at(100)).unwrap();
    }
    assert_eq!(table.arrive(at(200)), BTreeSet::from([1]));
    send(&mut table, &[5], Some(to(0, 99)), at(200)).unwrap();
    // The reader makes room before the last datagram arrives.
    assert_eq!(table.receive(1, false, at(210)).unwrap().bytes, [0]);
    let rest: Vec<Vec<u8>> = std::iter::from_fn(|| table.receive(1, false, at(300)).ok()).map(|datagram| datagram.bytes).collect();
    assert_eq!(rest, [[1], [2], [5]]);
}

#[test]
fn a_connected_socket_learns_of_a_refusal_once_and_others_never() {
    let mut table = table();
    send(&mut table, &[1], Some(to(0, 98)), at(0)).unwrap();
    assert!(table.arrive(at(100)).is_empty());
    table.connect(2, Some(to(0, 98)), at(100)).unwrap();
    send(&mut table, &[1], None, at(100)).unwrap();
    table.arrive(at(121));
    assert_eq!(table.take_due().last(), Some(&(at(140) + SimDuration::of_bytes(1, PATH.bytes_per_second))));
    assert_eq!(table.arrive(at(141)), BTreeSet::from([2]));
    assert_eq!(table.receive(2, false, at(141)), Err(libc::ECONNREFUSED));
    assert_eq!(table.receive(2, false, at(141)), Err(libc::EAGAIN));
}

#[test]
fn a_full_send_buffer_has_room_when_a_datagram_leaves() {
    let mut table = table();
    table.option(2, socket_option::SEND_BUFFER, Some(0)).unwrap();
    let mut wakeups = Wakeups::new();
    table.send(2, &[0; 10_000], Some(to(0, 99)), at(0), |_, _| PATH, &mut wakeups).unwrap();
    assert_eq!(wakeups, [(at(100), 2, readiness::WRITABLE)]);
    assert_eq!(send(&mut table, &[1], Some(to(0, 99)), at(99)), Err(libc::EAGAIN));
    assert_eq!(send(&mut table, &[1], Some(to(0, 99)), at(100)), Ok(()));
}

#[test]
fn destinations_that_do_not_exist_are_refused() {
    let mut table = table();
    let outside = To { address: (0x0808_0808, 53), is_v6: false };
    assert_eq!(send(&mut table, &[1], Some(outside), at(0)), Err(libc::ENETUNREACH));
    assert_eq!(send(&mut table, &[1], Some(To { address: (BROADCAST, 53), is_v6: false }), at(0)), Err(libc::EACCES));
    assert_eq!(send(&mut table, &[1], Some(to(0, 0)), at(0)), Err(libc::EINVAL));
    assert_eq!(send(&mut table, &[1], None, at(0)), Err(libc::EDESTADDRREQ));
    assert_eq!(send(&mut table, &vec![1; DATAGRAM_MAX + 1], Some(to(0, 99)), at(0)), Err(libc::EMSGSIZE));
    // A program learns its own address by a peer outside.
    assert_eq!(table.connect(2, Some(outside), at(0)), Ok(()));
    assert_eq!(table.get(2).unwrap().local.0, host_address(1));
}
