use super::*;
use softband_types::{QKey, ServiceLevel};

const PORT: Port = (HcaId(3), PortNumber(1));
const PKEYS: [PKey; 2] = [PKey(0xffff), PKey(0x8001)];
const FACTS: PortFacts<'_> = PortFacts { lid: Lid(7), pkeys: &PKEYS };
const FILE: u32 = 11;
const OTHER: u32 = 12;
const GET: u8 = 1;
const GET_RESPONSE: u8 = 0x81;

fn millis(count: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_micros(count * 1_000)
}

fn at(count: u64) -> Times {
    Times { now: millis(count), visible: millis(count) }
}

/// An agent for the performance class that takes Get.
const PERFORMANCE: Registration =
    Registration { qpn: 1, class: 4, class_version: 1, methods: 1 << GET, oui: 0, rmpp_version: 0, has_own_rmpp: false };
/// An agent that only asks.
const CLIENT: Registration = Registration { methods: 0, class: 0, ..PERFORMANCE };

fn table() -> MadTable {
    let mut table = MadTable::default();
    for object in [FILE, OTHER] {
        table.open(object, PORT).expect("room");
        table.enable_pkey_index(object).expect("no agent yet");
    }
    table
}

fn mad(class: u8, method: u8, transaction: u64) -> [u8; MAD_BYTES] {
    let mut mad = [0; MAD_BYTES];
    mad[..4].copy_from_slice(&[1, class, 1, method]);
    mad[8..16].copy_from_slice(&transaction.to_be_bytes());
    mad
}

/// A record to LID 9 for agent 0.
fn record(timeout: u32, retries: u32, mad: &[u8]) -> Vec<u8> {
    let mut head = [0; 64];
    head[8..12].copy_from_slice(&timeout.to_ne_bytes());
    head[12..16].copy_from_slice(&retries.to_ne_bytes());
    head[20..24].copy_from_slice(&1u32.to_be_bytes());
    head[24..28].copy_from_slice(&0x8001_0000u32.to_be_bytes());
    head[28..30].copy_from_slice(&9u16.to_be_bytes());
    head[56..58].copy_from_slice(&1u16.to_ne_bytes());
    [&head[..], mad].concat()
}

fn packet(mad: [u8; MAD_BYTES]) -> ManagementPacket {
    ManagementPacket {
        slid: Lid(9),
        dlid: Lid(7),
        service_level: ServiceLevel(0),
        source: Qpn(1),
        destination: Qpn(1),
        qkey: QKey(0x8001_0000),
        pkey: PKEYS[1],
        mad: Box::new(mad),
    }
}

/// Returns the MAD that an agent of the table has just sent.
fn sent(table: &mut MadTable) -> ManagementPacket {
    let mut outgoing = table.take_outgoing();
    assert_eq!(outgoing.len(), 1);
    let (port, packet) = outgoing.remove(0);
    assert_eq!(port, PORT);
    *packet
}

/// Returns the response to a MAD.
fn response(request: &ManagementPacket) -> ManagementPacket {
    let mut mad = *request.mad;
    mad[3] = GET_RESPONSE;
    packet(mad)
}

#[test]
fn a_request_gets_the_agent_s_half_of_its_id_and_its_answer_comes_back() {
    let mut table = table();
    table.register(FILE, CLIENT, false).expect("an agent");
    table.send(FILE, &record(100, 0, &mad(4, GET, 0xdead_beef_0000_0042)), FACTS, millis(1)).expect("sent");
    let request = sent(&mut table);
    assert_eq!((request.slid, request.dlid, request.source, request.destination), (Lid(7), Lid(9), Qpn(1), Qpn(1)));
    assert_eq!((request.qkey, request.pkey), (QKey(0x8001_0000), PKEYS[1]));
    assert_eq!(request.mad[8..16], [0, 0, 0, 1, 0, 0, 0, 0x42]);

    assert_eq!(table.arrive(PORT, &response(&request), FACTS, at(3)), Some(FILE));
    assert_eq!(table.readiness(FILE, millis(2)), WRITABLE);
    assert_eq!(table.readiness(FILE, millis(3)), READABLE | WRITABLE);
    let taken = table.receive(FILE, 320, millis(3)).expect("the answer").bytes;
    assert_eq!((taken.len(), &taken[64..], taken[28..30].to_vec(), taken[56]), (320, &response(&request).mad[..], vec![0, 9], 1));
    assert_eq!(table.next_deadline(), None);
    assert_eq!(table.arrive(PORT, &response(&request), FACTS, at(4)), None, "a late response is dropped");
}

#[test]
fn silence_ends_with_a_report_after_all_retries() {
    let mut table = table();
    table.register(FILE, CLIENT, false).expect("an agent");
    table.send(FILE, &record(100, 2, &mad(4, GET, 5)), FACTS, millis(0)).expect("sent");
    let first = sent(&mut table);
    for at in [100, 200] {
        assert_eq!(table.next_deadline(), Some(millis(at)));
        assert!(table.expire(millis(at - 1), |_| millis(at)).is_empty() && table.take_outgoing().is_empty());
        assert!(table.expire(millis(at), |_| millis(at)).is_empty());
        assert_eq!(sent(&mut table), first);
    }
    assert_eq!(table.expire(millis(300), |_| millis(301)), [(millis(301), FILE)]);
    assert!(table.take_outgoing().is_empty());
    assert_eq!(table.receive(FILE, 320, millis(300)), Err(libc::EAGAIN));
    let report = table.receive(FILE, 88, millis(301)).expect("a report").bytes;
    assert_eq!(report.len(), 64 + 24);
    assert_eq!(report[4..12], [110, 0, 0, 0, 100, 0, 0, 0]);
    assert_eq!(report[64..], first.mad[..24]);
    assert_eq!(table.arrive(PORT, &response(&first), FACTS, at(400)), None);
}

#[test]
fn without_a_timeout_nothing_is_awaited() {
    let mut table = table();
    table.register(FILE, CLIENT, false).expect("an agent");
    table.send(FILE, &record(0, 3, &mad(4, GET, 5)), FACTS, millis(0)).expect("sent");
    let request = sent(&mut table);
    assert_eq!(table.next_deadline(), None);
    assert_eq!(table.arrive(PORT, &response(&request), FACTS, at(1)), None);
}

#[test]
fn a_request_finds_the_agent_of_its_class_and_is_refused_without_one() {
    let mut table = table();
    table.register(FILE, CLIENT, false).expect("an agent");
    assert_eq!(table.register(OTHER, PERFORMANCE, false), Ok(0));
    assert_eq!(table.register(FILE, PERFORMANCE, false), Err(libc::EINVAL));
    assert_eq!(table.arrive(PORT, &packet(mad(4, GET, 5)), FACTS, at(0)), Some(OTHER));
    assert_eq!(table.arrive((HcaId(3), PortNumber(2)), &packet(mad(4, 3, 5)), FACTS, at(0)), None);
    assert!(table.take_outgoing().is_empty(), "Send asks for no answer");
    assert_eq!(table.arrive(PORT, &packet(mad(4, 2, 5)), FACTS, at(0)), None);
    let refused = sent(&mut table);
    assert_eq!((refused.slid, refused.dlid, refused.destination), (Lid(7), Lid(9), Qpn(1)));
    assert_eq!((refused.mad[3], refused.mad[5]), (GET_RESPONSE, 0x0c));
}

#[test]
fn a_directed_route_keeps_its_permissive_addresses() {
    let mut table = table();
    let manager = Registration { qpn: 0, class: 0x81, ..PERFORMANCE };
    table.register(FILE, manager, false).expect("an agent");
    let mut smp = mad(0x81, GET, 1);
    smp[32..36].fill(0xff);
    let mut written = record(100, 0, &smp);
    written[20..24].fill(0);
    written[28..30].fill(0xff);
    table.send(FILE, &written, FACTS, millis(0)).expect("sent");
    let directed = sent(&mut table);
    assert_eq!((directed.slid, directed.dlid, directed.source, directed.destination), (Lid::PERMISSIVE, Lid::PERMISSIVE, Qpn(0), Qpn(0)));
    assert!(directed.is_subnet_management());
    // A directed route that begins at a LID has that LID as its source.
    written[64 + 32..64 + 34].copy_from_slice(&[0, 7]);
    written[64 + 15] = 2;
    table.send(FILE, &written, FACTS, millis(0)).expect("sent");
    assert_eq!(sent(&mut table).slid, Lid(7));
}

#[test]
fn nonsense_is_refused() {
    let mut table = table();
    let good = record(100, 0, &mad(4, GET, 5));
    assert_eq!(table.send(FILE, &good, FACTS, millis(0)), Err(libc::EIO), "no agent");
    table.register(FILE, CLIENT, false).expect("an agent");
    let changed = |at: usize, value: u8| {
        let mut record = good.clone();
        record[at] = value;
        record
    };
    let long = record(100, 0, &[0; MAD_BYTES + 1]);
    for (bad, errno) in [
        (&good[..99], libc::EINVAL),
        (&good[..0], libc::EINVAL),
        (&long, libc::EINVAL),
        (&changed(0, 32), libc::EINVAL),
        (&changed(0, 31), libc::EIO),
        (&changed(56, 2), libc::EINVAL),
    ] {
        assert_eq!(table.send(FILE, bad, FACTS, millis(0)), Err(errno));
    }
    assert_eq!(table.send(FILE, &good[..100], FACTS, millis(0)), Ok(()), "the rest of a MAD is zero");
    assert_eq!(table.send(FILE, &good, FACTS, millis(0)), Err(libc::EINVAL), "the same transaction");
    assert_eq!(table.send(OTHER + 1, &good, FACTS, millis(0)), Err(libc::EBADF));
    assert_eq!(table.unregister(FILE, 1), Err(libc::EINVAL));
    assert_eq!(table.unregister(FILE, 32), Err(libc::EINVAL));
    assert_eq!(table.enable_pkey_index(FILE), Err(libc::EINVAL));
}

#[test]
fn a_file_has_32_agents_and_takes_them_along() {
    let mut table = table();
    for id in 0..32 {
        assert_eq!(table.register(FILE, CLIENT, false), Ok(id));
    }
    assert_eq!(table.register(FILE, CLIENT, false), Err(libc::ENOMEM));
    assert_eq!(table.unregister(FILE, 5), Ok(()));
    assert_eq!(table.register(FILE, PERFORMANCE, false), Ok(5));
    assert_eq!(table.register(OTHER, PERFORMANCE, false), Err(libc::EINVAL));
    table.send(FILE, &record(100, 0, &mad(4, GET, 5)), FACTS, millis(0)).expect("sent");
    table.close(FILE);
    assert_eq!((table.next_deadline(), table.readiness(FILE, millis(0))), (None, ERROR | HANG_UP));
    assert_eq!(table.register(OTHER, PERFORMANCE, false), Ok(0));
}

#[test]
fn a_port_has_one_manager_at_a_time() {
    let mut table = table();
    assert_eq!(table.open_manager(20, PORT), Ok(()));
    assert_eq!(table.open_manager(21, PORT), Err(libc::EBUSY));
    assert_eq!(table.open_manager(21, (HcaId(3), PortNumber(2))), Ok(()));
    assert_eq!(table.ports_with_sm().collect::<Vec<_>>(), [PORT, (HcaId(3), PortNumber(2))]);
    table.close(20);
    assert_eq!(table.open_manager(22, PORT), Ok(()));
}

#[test]
fn an_open_has_a_limit() {
    let mut table = MadTable::default();
    for object in 0..FILES_MAX as u32 {
        table.open(object, PORT).expect("room");
    }
    assert_eq!(table.open(u32::MAX, PORT), Err(libc::EMFILE));
    assert_eq!(table.open(u32::MAX, (HcaId(4), PortNumber(1))), Ok(()));
}

#[test]
fn a_deadline_is_due_once() {
    let mut table = table();
    table.register(FILE, CLIENT, false).expect("an agent");
    for (id, timeout) in [(1, 200), (2, 100), (3, 150)] {
        table.send(FILE, &record(timeout, 0, &mad(4, GET, id)), FACTS, millis(0)).expect("sent");
    }
    assert_eq!(table.take_due(), Some(millis(100)));
    assert_eq!(table.take_due(), None);
    table.expire(millis(100), |_| millis(100));
    assert_eq!(table.take_due(), Some(millis(150)));
}

/// An agent of subnet administration that takes GetTable and divides messages.
const ADMINISTRATION: Registration = Registration { class: 3, class_version: 2, methods: 1 << 0x12, rmpp_version: 1, ..PERFORMANCE };

/// Passes packets between two tables until none is left. Returns their number.
fn exchange(left: &mut MadTable, right: &mut MadTable, now: u64) -> usize {
    let mut count = 0;
    loop {
        let (from_left, from_right) = (left.take_outgoing(), right.take_outgoing());
        if from_left.is_empty() && from_right.is_empty() {
            return count;
        }
        count += from_left.len() + from_right.len();
        for (to, packets) in [(&mut *right, from_left), (&mut *left, from_right)] {
            for (_, packet) in packets {
                to.arrive(PORT, &packet, PortFacts { lid: packet.dlid, ..FACTS }, at(now));
            }
        }
    }
}

/// Returns a table with an agent for [`ADMINISTRATION`], and the record of a long response to a
/// request of `client`.
fn server_and_response(client: &mut MadTable, len: usize) -> (MadTable, Vec<u8>) {
    let mut server = table();
    client.register(FILE, Registration { class: 0, ..ADMINISTRATION }, false).expect("an agent");
    server.register(FILE, ADMINISTRATION, false).expect("an agent");
    let mut request = mad(3, 0x12, 5);
    request[2] = 2;
    client.send(FILE, &record(1_000, 0, &request), FACTS, millis(0)).expect("sent");
    exchange(client, &mut server, 1);
    let asked = server.receive(FILE, 320, millis(1)).expect("the request").bytes;
    let mut response = record(0, 3, &asked[64..]);
    response.resize(64 + len, 7);
    response[28..30].copy_from_slice(&asked[28..30]);
    response[64 + 3] = 0x92;
    response[64 + 26] = 1;
    (server, response)
}

#[test]
fn a_long_response_is_divided_and_joined() {
    let mut client = table();
    let (mut server, response) = server_and_response(&mut client, 56 + 70 * 200);
    server.send(FILE, &response, PortFacts { lid: Lid(9), ..FACTS }, millis(2)).expect("sent");
    assert_eq!(server.next_deadline(), Some(millis(2_002)), "an acknowledgement has two seconds");
    // 70 segments, and an acknowledgement after the first, after 65 and at the end.
    assert_eq!(exchange(&mut client, &mut server, 3), 73);
    assert_eq!(server.next_deadline(), None);
    let short = client.receive(FILE, 14_119, millis(3)).expect("a part");
    assert_eq!((short.bytes.len(), short.error), (320, libc::ENOSPC));
    let taken = client.receive(FILE, 14_120, millis(3)).expect("the response");
    assert_eq!((taken.bytes.len(), taken.error), (14_120, 0));
    assert!(taken.bytes[64 + 256..].iter().all(|byte| *byte == 7));
    assert_eq!(taken.bytes[16..20], 14_120u32.to_ne_bytes());
}

#[test]
fn a_silent_receiver_of_a_message_is_reported() {
    let mut client = table();
    let (mut server, response) = server_and_response(&mut client, 2_000);
    server.send(FILE, &response, FACTS, millis(0)).expect("sent");
    assert_eq!(server.take_outgoing().len(), 1);
    for round in 1..=3 {
        assert!(server.expire(millis(2_000 * round), millis_of).is_empty());
        assert_eq!(server.take_outgoing().len(), 1, "the first segment again");
    }
    assert_eq!(server.expire(millis(8_000), millis_of), [(millis(0), FILE)]);
    assert_eq!(server.receive(FILE, 320, millis(0)).expect("a report").bytes[4], 110);
}

fn millis_of(_: HcaId) -> SimTime {
    millis(0)
}

#[test]
fn a_message_of_another_version_or_type_ends_at_once() {
    let mut client = table();
    let (mut server, response) = server_and_response(&mut client, 2_000);
    server.send(FILE, &response, FACTS, millis(0)).expect("sent");
    let first = sent(&mut server);
    for (at_byte, value, status) in [(24, 2, 125), (25, 9, 121), (27, 3, 124)] {
        let mut packet = first.clone();
        packet.mad[at_byte] = value;
        client.arrive(PORT, &packet, FACTS, at(1));
        let answer = sent(&mut client);
        assert_eq!((answer.mad[25], answer.mad[27]), (4, status));
        assert_eq!(client.readiness(FILE, millis(1)), WRITABLE);
    }
    // The sender forgets the message.
    let mut abort = first.clone();
    (abort.mad[3], abort.mad[25]) = (0x12, 4);
    abort.slid = first.dlid;
    server.arrive(PORT, &abort, FACTS, at(1));
    assert_eq!(server.next_deadline(), None);
}

#[test]
fn a_message_that_stops_halfway_is_ended() {
    let mut client = table();
    let (mut server, response) = server_and_response(&mut client, 2_000);
    server.send(FILE, &response, FACTS, millis(0)).expect("sent");
    client.arrive(PORT, &sent(&mut server), FACTS, at(1));
    assert_eq!(sent(&mut client).mad[25], 2);
    client.expire(millis(40_000), millis_of);
    client.take_outgoing();
    client.expire(millis(40_001), millis_of);
    let answer = sent(&mut client);
    assert_eq!((answer.mad[25], answer.mad[27]), (4, 118));
    assert_eq!(client.next_deadline(), None);
}

#[test]
fn messages_without_acknowledgements_have_an_end() {
    let mut client = table();
    let (mut server, response) = server_and_response(&mut client, MESSAGE_BYTES_MAX);
    let outcomes: Vec<_> = (0u32..20)
        .map(|requester| {
            let mut response = response.clone();
            response[28..30].copy_from_slice(&(100 + requester as u16).to_be_bytes());
            server.send(FILE, &response, FACTS, millis(0))
        })
        .collect();
    assert_eq!(outcomes.iter().position(|outcome| *outcome == Err(libc::ENOMEM)), Some(16));
    assert!(outcomes[16..].iter().all(|outcome| *outcome == Err(libc::ENOMEM)));
}

#[test]
fn posts_without_answers_have_an_end_until_the_fabric_has_taken_them() {
    let mut table = table();
    let [alone, asking] = [0, 1].map(|timeout| record(timeout, 0, &mad(1, GET, 1)));
    assert!((0..POSTS_MAX).all(|_| table.takes_post(FILE, &alone)));
    assert!(!table.takes_post(OTHER, &alone), "a file of the same port");
    assert!(table.takes_post(FILE, &asking), "the requests have a limit of their own");
    table.note_posts_carried_out();
    assert!(table.takes_post(FILE, &alone));
}

#[test]
fn only_an_awaited_answer_may_be_longer_than_the_part_of_a_port() {
    let mut client = table();
    let (mut server, response) = server_and_response(&mut client, 2_000);
    server.send(FILE, &response, FACTS, millis(0)).expect("sent");
    let mut segment = sent(&mut server);
    let mut arrive = |client: &mut MadTable, number: u32| {
        segment.mad[26] = if number == 1 { 3 } else { 1 };
        segment.mad[28..32].copy_from_slice(&number.to_be_bytes());
        client.arrive(PORT, &segment, FACTS, at(1));
    };
    let part = (2 * MESSAGE_BYTES_MAX / MAD_BYTES) as u32;
    (1..=part + 2).for_each(|number| arrive(&mut client, number));
    assert!(client.take_outgoing().iter().all(|(_, packet)| packet.mad[25] == 2), "acknowledgements");
    // The request ends, and with it the wait for the answer.
    assert_eq!(client.expire(millis(1_000), millis_of), [(millis(0), FILE)]);
    client.take_outgoing();
    arrive(&mut client, part + 3);
    let stop = sent(&mut client);
    assert_eq!((stop.mad[25], stop.mad[27]), (3, 1));
}
