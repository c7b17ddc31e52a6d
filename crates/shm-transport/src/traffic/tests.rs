//! Tests of the counters of traffic.

use super::*;

const OWN: u32 = 7;
const MTU: u32 = 2048;

fn rows(count: usize) -> &'static [TrafficRow] {
    Vec::leak((0..count).map(|_| TrafficRow::default()).collect())
}

fn way(lid: u16) -> Way {
    Way::new(1, lid, MTU, RouteHeader::None)
}

fn send(len_bytes: u64) -> Exchange {
    Exchange::of(Service::Reliable, opcode::SEND, len_bytes, way(2))
}

#[test]
fn a_way_keeps_its_parts() {
    let of_datagrams = Way::new(3, 0, 4096, RouteHeader::None);
    let present = of_datagrams.to(0xC001, RouteHeader::Ipv4);
    assert_eq!((present.port(), present.lid(), present.header(), present.packets_of(4097)), (3, 0xC001, RouteHeader::Ipv4, 2));
    assert_eq!(present.to(9, RouteHeader::Global), Way::new(3, 9, 4096, RouteHeader::Global));
    assert!(present.exists() && !Way(0).exists());
}

#[test]
fn messages_have_the_packets_of_the_model() {
    let of = |service, operation, len| Exchange::of(service, operation, len, way(2));
    let volume = |bytes, packets| Volume { bytes, packets };
    assert_eq!(of(Service::Reliable, opcode::SEND, 0), Exchange { sent: volume(16, 1), returned: volume(20, 1), requests: Requests::default() });
    assert_eq!(of(Service::Reliable, opcode::SEND_WITH_IMM, 5).sent, volume(16 + 8 + 4, 1));
    assert_eq!(of(Service::Reliable, opcode::RDMA_WRITE, 4097).sent, volume(3 * 16 + 4100 + 16, 3));
    assert_eq!(of(Service::Extended, opcode::SEND, 4096).sent, volume(2 * 20 + 4096, 2));
    assert_eq!(of(Service::Unreliable, opcode::RDMA_WRITE_WITH_IMM, 8).returned, volume(0, 0));
    assert_eq!(
        of(Service::Datagram, opcode::SEND, 4000),
        Exchange { sent: volume(24 + 4000, 1), returned: volume(0, 0), requests: Requests::default() }
    );
    let one_read = Requests { reads: 1, ..Requests::default() };
    let read = Exchange { sent: volume(32, 1), returned: volume(3 * 16 + 5000 + 2 * 4, 3), requests: one_read };
    assert_eq!(of(Service::Reliable, opcode::RDMA_READ, 5000), read);
    assert_eq!(of(Service::Reliable, opcode::RDMA_READ, 1).returned, volume(16 + 4 + 4, 1));
    let atomic = Requests { atomics: 1, ..Requests::default() };
    assert_eq!(of(Service::Reliable, opcode::RDMA_WRITE, 0).requests, Requests { writes: 1, ..Requests::default() });
    assert_eq!(of(Service::Reliable, opcode::ATOMIC_FETCH_AND_ADD, 8), Exchange { sent: volume(44, 1), returned: volume(28, 1), requests: atomic });
    assert_eq!(of(Service::Reliable, opcode::ATOMIC_WRITE, 0), Exchange { sent: volume(40, 1), returned: volume(28, 1), requests: atomic });
    // A long message asks for an acknowledgement every 128 packets.
    assert_eq!(of(Service::Reliable, opcode::SEND, 129 * 2048).returned, volume(40, 2));
}

#[test]
fn each_sender_has_its_own_row_and_leaves_its_numbers_behind() {
    let table = rows(4);
    let (mut first, mut second) = (Lane::default(), Lane::default());
    first.count((table, OWN), (5, way(2)), send(10));
    second.count((table, OWN), (5, way(2)), send(10));
    first.count((table, OWN), (5, way(2)), send(10));
    assert_eq!([0, 1, 2].map(|row| table[row].sent_packets.load(Ordering::Relaxed)), [2, 1, 0]);
    first.release(OWN);
    // The next sender of this way continues the row; another way begins a new one.
    let mut third = Lane::default();
    third.count((table, OWN), (5, way(2)), send(10));
    third.count((table, OWN), (5, way(3)), send(10));
    assert_eq!([0, 1, 2].map(|row| table[row].sent_packets.load(Ordering::Relaxed)), [3, 1, 1]);
}

#[test]
fn without_a_free_row_or_a_way_nothing_is_counted() {
    let table = rows(1);
    let (mut first, mut second) = (Lane::default(), Lane::default());
    first.count((table, OWN), (5, Way(0)), send(10));
    assert_eq!(table[0].way.load(Ordering::Relaxed), 0);
    first.count((table, OWN), (5, way(2)), send(10));
    second.count((table, OWN), (5, way(2)), send(10));
    assert_eq!(table[0].sent_packets.load(Ordering::Relaxed), 1);
}

#[test]
fn a_sender_with_many_ways_finds_its_rows_again() {
    let table = rows(200);
    let mut lane = Lane::default();
    for _ in 0..3 {
        (1..=200).for_each(|lid| lane.count((table, OWN + 2), (5, way(lid)), send(10)));
    }
    assert!(table.iter().all(|row| row.sent_packets.load(Ordering::Relaxed) == 3), "no way has two rows");
    lane.count((table, OWN + 2), (5, way(201)), send(10));
    assert_eq!(table.iter().filter(|row| row.writer.load(Ordering::Relaxed) != 0).count(), 0, "no row is left");
}

#[test]
fn a_child_that_attaches_begins_anew_at_the_same_address() {
    let table = rows(4);
    let mut lane = Lane::default();
    (2..5).for_each(|lid| lane.count((table, OWN + 3), (5, way(lid)), send(10)));
    // The engine's new file replaces the table.
    table.iter().for_each(|row| row.way.store(0, Ordering::Relaxed));
    let mut next = Lane::default();
    next.count((table, OWN + 3), (5, way(9)), send(10));
    assert_eq!(table[0].way.load(Ordering::Relaxed), name(5, way(9)));
}

#[test]
fn a_child_of_a_fork_takes_a_row_of_its_own() {
    let (table, of_child) = (rows(2), rows(2));
    let mut lane = Lane::default();
    lane.count((table, OWN), (5, way(2)), send(10));
    lane.count((of_child, OWN + 1), (5, way(2)), send(10));
    assert_eq!((table[0].writer.load(Ordering::Relaxed), of_child[0].writer.load(Ordering::Relaxed)), (OWN, OWN + 1));
    assert_eq!((table[0].sent_packets.load(Ordering::Relaxed), of_child[0].sent_packets.load(Ordering::Relaxed)), (1, 1));
}

#[test]
fn readings_give_each_growth_once() {
    let (table, mut readings, mut lane) = (rows(3), Readings::default(), Lane::default());
    assert_eq!(readings.growth(table).count(), 0);
    lane.count((table, OWN), (5, way(2)), send(10));
    lane.count((table, OWN), (5, way(2)), send(10));
    let twice = Volume { bytes: 2 * 28, packets: 2 };
    assert_eq!(readings.growth(table).map(|(hca, way, growth)| (hca, way, growth.sent)).collect::<Vec<_>>(), [(5, way(2), twice)]);
    assert_eq!(readings.growth(table).count(), 0);
}

#[test]
fn a_liar_gives_wrong_numbers_and_nothing_else() {
    let (table, mut readings) = (rows(2), Readings::default());
    table[0].way.store(u64::MAX, Ordering::Relaxed);
    table[0].sent_bytes.store(u64::MAX, Ordering::Relaxed);
    let claimed: Vec<_> = readings.growth(table).collect();
    assert_eq!(claimed[0].2.sent, Volume { bytes: u64::MAX, packets: 0 });
    table[0].sent_bytes.store(3, Ordering::Relaxed);
    assert_eq!(readings.growth(table).count(), 0, "numbers that fall count as no growth");
    table[0].way.store(u64::from(way(2).0), Ordering::Relaxed);
    assert_eq!(readings.growth(table).count(), 0, "a row that changes its way begins anew");
}
