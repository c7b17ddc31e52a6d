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

    assert_eq!(table.arrive(PORT, &response(&request), FACTS, millis(3)), Some(FILE));
    assert_eq!(table.readiness(FILE, millis(2)), WRITABLE);
    assert_eq!(table.readiness(FILE, millis(3)), READABLE | WRITABLE);
    let taken = table.receive(FILE, 320, millis(3)).expect("the answer").bytes;
    assert_eq!((taken.len(), &taken[64..], taken[28..30].to_vec(), taken[56]), (320, &response(&request).mad[..], vec![0, 9], 1));
    assert_eq!(table.next_deadline(), None);
    assert_eq!(table.arrive(PORT, &response(&request), FACTS, millis(4)), None, "a late response is dropped");
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
    assert_eq!(table.arrive(PORT, &response(&first), FACTS, millis(400)), None);
}

#[test]
fn without_a_timeout_nothing_is_awaited() {
    let mut table = table();
    table.register(FILE, CLIENT, false).expect("an agent");
    table.send(FILE, &record(0, 3, &mad(4, GET, 5)), FACTS, millis(0)).expect("sent");
    let request = sent(&mut table);
    assert_eq!(table.next_deadline(), None);
    assert_eq!(table.arrive(PORT, &response(&request), FACTS, millis(1)), None);
}

#[test]
fn a_request_finds_the_agent_of_its_class_and_is_refused_without_one() {
    let mut table = table();
    table.register(FILE, CLIENT, false).expect("an agent");
    assert_eq!(table.register(OTHER, PERFORMANCE, false), Ok(0));
    assert_eq!(table.register(FILE, PERFORMANCE, false), Err(libc::EINVAL));
    assert_eq!(table.arrive(PORT, &packet(mad(4, GET, 5)), FACTS, millis(0)), Some(OTHER));
    assert_eq!(table.arrive((HcaId(3), PortNumber(2)), &packet(mad(4, 3, 5)), FACTS, millis(0)), None);
    assert!(table.take_outgoing().is_empty(), "Send asks for no answer");
    assert_eq!(table.arrive(PORT, &packet(mad(4, 2, 5)), FACTS, millis(0)), None);
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
