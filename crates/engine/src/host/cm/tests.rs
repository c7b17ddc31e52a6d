use super::*;
use fields::Fields;
use softband_model::management::administration::Administration;
use softband_types::{HcaId, Lid, PortNumber};
use softband_wire::mad::{CmMad, ManagementClass, McMemberRecord, MtuCode, RateCode, Rej, RejectReason, Req, SaMad};

mod ethernet;
mod gids;
mod groups;
mod many;
mod pair;
mod seek;

use pair::Pair;

/// LID of the subnet manager.
const MANAGER: Lid = Lid(1);
const BASE: u32 = 0xC612_0001;
const SERVER: u32 = 10;
const CLIENT: u32 = 11;
const TCP: u16 = 0x106;
const UDP: u16 = 0x111;
const RC: u8 = 2;

/// A fabric whose packets arrive at once, unless it loses them.
struct Desk {
    table: CmTable,
    now: SimTime,
    lossy: bool,
    /// Attributes of the packets so far.
    sent: Vec<u16>,
    /// Subnet administration, and the methods and join states of its requests so far.
    administration: Administration,
    asked: Vec<(u8, u8)>,
}

impl Desk {
    fn new() -> Self {
        let mut table = CmTable::default();
        table.open(SERVER, 0, SimDuration::from_micros(5));
        table.open(CLIENT, 1, SimDuration::from_micros(5));
        Self { table, now: SimTime::ZERO, lossy: false, sent: Vec::new(), administration: Administration::default(), asked: Vec::new() }
    }

    fn act(&mut self, channel: u32, command: &Command) -> Result<Vec<u8>, i32> {
        let outcome = self.table.command(channel, command, 512, &Pair, self.now);
        self.deliver();
        outcome
    }

    fn deliver(&mut self) {
        while self.table.has_outgoing() {
            for (from, packet) in self.table.take_outgoing() {
                if packet.mad[1] == ManagementClass::SUBNET_ADMINISTRATION.0 {
                    self.administer(from, &packet);
                    continue;
                }
                self.sent.push(u16::from_be_bytes([packet.mad[16], packet.mad[17]]));
                let to = (HcaId(u32::from(packet.dlid.0) - 1), PortNumber(1));
                if !self.lossy {
                    self.table.arrive(to, &packet, &Pair, self.now);
                }
            }
        }
        self.now += SimDuration::from_micros(10);
    }

    /// Lets subnet administration answer a request from a port.
    fn administer(&mut self, from: Port, packet: &ManagementPacket) {
        assert_eq!((packet.dlid, packet.destination.0), (MANAGER, 1));
        let record = McMemberRecord::parse(&SaMad::view(&packet.mad[..]).data()).unwrap();
        self.asked.push((packet.mad[3], record.join_state.0));
        for answer in self.administration.answer(packet.clone(), &mut Pair, self.now).iter().filter(|_| !self.lossy) {
            assert!(self.table.arrive(from, answer, &Pair, self.now));
        }
    }

    /// Passes the time up to the next deadline.
    fn expire(&mut self) {
        self.now = self.table.next_deadline().expect("a deadline").max(self.now);
        self.table.expire(self.now);
        self.deliver();
    }

    /// Lets the leaves of closed channels reach subnet administration.
    fn end_leaves(&mut self) {
        self.lossy = false;
        while self.table.groups.next_deadline().is_some() {
            self.expire();
        }
    }

    fn create(&mut self, channel: u32, uid: u64, space: u16) -> u32 {
        Fields(&self.act(channel, &Command::Create { uid, space, qp_type: 0 }).unwrap()).u32(0)
    }

    /// Takes the next event: its uid, its identifier, its number, its status.
    fn event(&mut self, channel: u32) -> Option<(u64, u32, u32, i32)> {
        self.event_bytes(channel).map(|bytes| (Fields(&bytes).u64(0), Fields(&bytes).u32(8), Fields(&bytes).u32(12), Fields(&bytes).u32(16) as i32))
    }

    fn event_bytes(&mut self, channel: u32) -> Option<Vec<u8>> {
        self.act(channel, &Command::GetEvent).ok()
    }

    fn listen(&mut self, space: u16) -> u32 {
        let id = self.create(SERVER, 100, space);
        self.act(SERVER, &Command::Bind { id, to: Address::v4(0, 7471) }).unwrap();
        self.act(SERVER, &Command::Listen { id, backlog: 2 }).unwrap();
        id
    }

    /// Returns an identifier with a route to the server.
    fn routed(&mut self, uid: u64, space: u16) -> u32 {
        let id = self.create(CLIENT, uid, space);
        let destination = Address::v4(BASE, 7471);
        self.act(CLIENT, &Command::ResolveAddress { id, source: None, destination, millis: 2_000 }).unwrap();
        assert_eq!(self.event(CLIENT), Some((uid, id, 0, 0)));
        self.act(CLIENT, &Command::ResolveRoute { id }).unwrap();
        assert_eq!(self.event(CLIENT), Some((uid, id, 2, 0)));
        id
    }

    fn connect(&mut self, id: u32) {
        self.act(CLIENT, &Command::Connect { id, parameters: parameters(0x405, b"hello") }).unwrap();
    }

    /// Connects a client, and returns both identifiers.
    fn connected(&mut self) -> (u32, u32) {
        let id = self.routed(200, TCP);
        self.connect(id);
        let (.., request, _, _) = self.event(SERVER).unwrap();
        self.act(SERVER, &Command::Accept { id: request, uid: 300, parameters: Some(parameters(0x404, b"welcome")) }).unwrap();
        assert_eq!(self.event(CLIENT), Some((200, id, 5, 0)));
        self.act(CLIENT, &Command::Accept { id, uid: 0, parameters: None }).unwrap();
        assert_eq!(self.event(SERVER), Some((300, request, 9, 0)));
        (id, request)
    }
}

fn parameters(qpn: u32, private_data: &[u8]) -> commands::Parameters {
    let private_data = private_data.to_vec();
    commands::Parameters { qpn, private_data, responder_resources: 1, initiator_depth: 3, retry_count: 9, rnr_retry_count: 7, ..Default::default() }
}

#[test]
fn a_connection_is_made_and_ended() {
    let mut desk = Desk::new();
    let listener = desk.listen(TCP);
    let id = desk.routed(200, TCP);
    desk.connect(id);
    let bytes = desk.event_bytes(SERVER).unwrap();
    let event = Fields(&bytes);
    let request = event.u32(8);
    assert_eq!((event.u64(0), event.u32(12), bytes.len()), (100, 4, 336), "the listener's uid");
    assert_eq!((event.u32(20), &bytes[28..33], event.u8(284)), (0x405, &b"hello"[..], 56));
    assert_eq!(bytes[285..291], [0, 3, 1, 0, 7, 7], "the sides of reads change places");
    desk.act(SERVER, &Command::Accept { id: request, uid: 300, parameters: Some(parameters(0x404, b"welcome")) }).unwrap();
    let bytes = desk.event_bytes(CLIENT).unwrap();
    assert_eq!((Fields(&bytes).u32(12), Fields(&bytes).u8(284), &bytes[28..35]), (5, 196, &b"welcome"[..]));
    desk.act(CLIENT, &Command::Accept { id, uid: 0, parameters: None }).unwrap();
    assert_eq!(desk.event(SERVER), Some((300, request, 9, 0)));

    desk.act(CLIENT, &Command::Disconnect { id }).unwrap();
    assert_eq!(desk.event(SERVER), Some((300, request, 10, 0)));
    assert_eq!(desk.event(CLIENT), None, "the peer has not answered");
    desk.act(SERVER, &Command::Disconnect { id: request }).unwrap();
    assert_eq!(desk.event(CLIENT), Some((200, id, 10, 0)));
    desk.expire();
    assert_eq!(desk.event(CLIENT), Some((200, id, 15, 0)));
    assert_eq!(desk.event(SERVER), Some((300, request, 15, 0)));
    assert_eq!(desk.sent, [0x10, 0x13, 0x14, 0x15, 0x16]);
    for (channel, id, events) in [(SERVER, listener, 1), (SERVER, request, 3), (CLIENT, id, 5)] {
        assert_eq!(desk.act(channel, &Command::Destroy { id }), Ok(number(events)));
    }
    assert_eq!(desk.table.next_deadline(), None);
}

#[test]
fn both_sides_get_attributes_that_fit() {
    let mut desk = Desk::new();
    desk.listen(TCP);
    let (id, request) = desk.connected();
    let mut of = |channel, id, state| desk.act(channel, &Command::InitQpAttributes { id, state }).unwrap();
    let (client, server) = ([1, 2, 3].map(|state| of(CLIENT, id, state)), [1, 2, 3].map(|state| of(SERVER, request, state)));
    let masks = |all: &[Vec<u8>; 3]| [0, 1, 2].map(|index| Fields(&all[index]).u32(0));
    assert_eq!(masks(&client), [0x39, 0x12_9181, 0x1_2E01]);
    assert_eq!(masks(&client), masks(&server));
    assert_eq!((client[0].len(), Fields(&client[0]).u32(36), client[0][133]), (144, 2 | 4 | 8, 1));
    // MTU, queue pair and LID of the peer.
    assert_eq!((Fields(&client[1]).u32(12), Fields(&client[1]).u32(32), Fields(&client[1]).u16(64)), (4, 0x404, 1));
    assert_eq!((Fields(&server[1]).u32(32), Fields(&server[1]).u16(64)), (0x405, 2));
    // Each side's first packet has the PSN that the other expects.
    assert_eq!(Fields(&client[1]).u32(24), Fields(&server[2]).u32(28));
    assert_eq!(Fields(&server[1]).u32(24), Fields(&client[2]).u32(28));
    assert_eq!((client[1][131], client[2][130], client[2][135], client[2][136]), (3, 1, 7, 7));
    assert!(client[2][134] >= 19 && server[2][134] >= 19);
}

#[test]
fn addresses_and_paths_are_told() {
    let mut desk = Desk::new();
    let listener = desk.listen(TCP);
    let id = desk.routed(200, TCP);
    let any = desk.act(SERVER, &Command::Query { id: listener, option: 0 }).unwrap();
    assert_eq!((Fields(&any).u64(0), any.len()), (0, 280), "librdmacm would look for a device");
    let bytes = desk.act(CLIENT, &Command::Query { id, option: 0 }).unwrap();
    assert_eq!(bytes[..8], 0x11u64.to_be_bytes());
    assert_eq!((bytes[8], bytes[10], Fields(&bytes).u16(12), Fields(&bytes).u16(14)), (1, 0xFF, 16, 16));
    assert_eq!((&bytes[16..24], &bytes[144..152]), (&[2, 0, 0x80, 0, 198, 18, 0, 2][..], &[2, 0, 0x1D, 0x2F, 198, 18, 0, 1][..]));
    let paths = desk.act(CLIENT, &Command::Query { id, option: 1 }).unwrap();
    assert_eq!((Fields(&paths).u32(0), paths.len()), (1, 80));
    let gids = desk.act(CLIENT, &Command::Query { id, option: 2 }).unwrap();
    assert_eq!((gids[24 + 15], gids[152 + 15], gids[168 + 7]), (0x11, 0x10, 0x2F));
    let route = desk.act(CLIENT, &Command::QueryRoute { id }).unwrap();
    assert_eq!((Fields(&route).u32(192), route[196], route.len()), (1, 1, 208));
    assert_eq!(desk.act(CLIENT, &Command::Query { id, option: 3 }), Err(libc::ENOSYS));
}

#[test]
fn a_program_rejects_with_data() {
    let mut desk = Desk::new();
    desk.listen(TCP);
    let id = desk.routed(200, TCP);
    desk.connect(id);
    let (.., request, _, _) = desk.event(SERVER).unwrap();
    let refusal = |reason| Command::Reject { id: request, reason, private_data: b"no".to_vec() };
    assert_eq!(desk.act(SERVER, &refusal(1)), Err(libc::EINVAL));
    desk.act(SERVER, &refusal(0)).unwrap();
    let bytes = desk.event_bytes(CLIENT).unwrap();
    assert_eq!((Fields(&bytes).u32(12), Fields(&bytes).u32(16), Fields(&bytes).u8(284), &bytes[28..30]), (8, 28, 148, &b"no"[..]));
}

#[test]
fn silence_ends_after_sixteen_messages() {
    let mut desk = Desk::new();
    let id = desk.routed(200, TCP);
    desk.lossy = true;
    let begun = desk.now;
    desk.connect(id);
    for _ in 0..16 {
        assert_eq!(desk.event(CLIENT), None);
        desk.expire();
    }
    assert_eq!(desk.event(CLIENT), Some((200, id, 7, -libc::ETIMEDOUT)));
    assert_eq!(desk.sent, [0x10; 16]);
    // 16 x (4.096 s + 2 x 1.024 s).
    assert_eq!(desk.now.saturating_since(begun).as_picos() / 1_000_000_000, 98_304);
}

#[test]
fn a_slow_program_asks_for_time() {
    let mut desk = Desk::new();
    desk.listen(TCP);
    let id = desk.routed(200, TCP);
    desk.connect(id);
    desk.expire();
    assert_eq!(desk.sent, [0x10, 0x10, 0x11], "an MRA answers the repeated request");
    let (.., request, _, _) = desk.event(SERVER).unwrap();
    assert_eq!(desk.event(SERVER), None);
    desk.act(SERVER, &Command::Accept { id: request, uid: 300, parameters: Some(parameters(1, b"")) }).unwrap();
    assert_eq!(desk.event(CLIENT), Some((200, id, 5, 0)));
    desk.expire();
    assert_eq!(desk.sent[3..], [0x13, 0x13, 0x11], "so does the client's, which has not confirmed");
}

#[test]
fn the_end_of_a_channel_reaches_each_peer() {
    let mut desk = Desk::new();
    desk.listen(TCP);
    let (_, request) = desk.connected();
    let waiting = desk.routed(201, TCP);
    desk.connect(waiting);
    let (.., unanswered, _, _) = desk.event(SERVER).unwrap();
    desk.table.close(CLIENT, desk.now);
    desk.deliver();
    assert_eq!(desk.event(SERVER), Some((300, request, 10, 0)));
    assert_eq!(desk.event(SERVER), None, "the program has no name for {unanswered} yet");
    assert_eq!(desk.act(SERVER, &Command::Accept { id: unanswered, uid: 1, parameters: Some(parameters(1, b"")) }), Err(libc::EINVAL));
    assert_eq!(desk.table.readiness(CLIENT, desk.now), ERROR | HANG_UP);
}

#[test]
fn a_listener_takes_unread_requests_with_it() {
    let mut desk = Desk::new();
    let listener = desk.listen(TCP);
    let id = desk.routed(200, TCP);
    desk.connect(id);
    assert_eq!(desk.act(SERVER, &Command::Destroy { id: listener }), Ok(number(0)));
    assert_eq!((desk.table.withdrawn(), desk.table.unread(SERVER)), (1, 0));
    assert_eq!(desk.event(SERVER), None);
    assert_eq!(desk.event(CLIENT), Some((200, id, 8, 28)));
}

#[test]
fn a_full_backlog_loses_requests() {
    let mut desk = Desk::new();
    desk.listen(TCP);
    for uid in [200, 201, 202] {
        let id = desk.routed(uid, TCP);
        desk.connect(id);
    }
    assert!(desk.event(SERVER).is_some() && desk.event(SERVER).is_some());
    assert_eq!(desk.event(SERVER), None);
    desk.expire();
    desk.expire();
    desk.expire();
    assert!(desk.event(SERVER).is_some(), "its repetition finds room");
}

#[test]
fn a_datagram_service_names_its_queue_pair() {
    let mut desk = Desk::new();
    desk.listen(UDP);
    let id = desk.routed(200, UDP);
    desk.connect(id);
    let bytes = desk.event_bytes(SERVER).unwrap();
    let request = Fields(&bytes).u32(8);
    assert_eq!((Fields(&bytes).u32(12), &bytes[60..65], Fields(&bytes).u8(316)), (4, &b"hello"[..], 180));
    let attributes = desk.act(SERVER, &Command::InitQpAttributes { id: request, state: 1 }).unwrap();
    assert_eq!((Fields(&attributes).u32(0), Fields(&attributes).u32(20)), (0x71, 0x0123_4567));
    desk.act(SERVER, &Command::Accept { id: request, uid: 300, parameters: Some(parameters(0x404, b"")) }).unwrap();
    let bytes = desk.event_bytes(CLIENT).unwrap();
    let event = Fields(&bytes);
    assert_eq!((event.u32(12), event.u32(20), event.u32(24), event.u16(52), event.u8(58)), (9, 0x404, 0x0123_4567, 1, 1));
    assert_eq!(desk.event(SERVER), None);
    assert_eq!(desk.sent, [0x17, 0x18]);
}

#[test]
fn ports_are_taken_once() {
    let mut desk = Desk::new();
    desk.listen(TCP);
    let second = desk.create(SERVER, 101, TCP);
    let bind = |to| Command::Bind { id: second, to };
    assert_eq!(desk.act(SERVER, &bind(Address::v4(0, 7471))), Err(libc::EADDRNOTAVAIL));
    assert_eq!(desk.act(SERVER, &bind(Address::v4(BASE + 1, 1))), Err(libc::EADDRNOTAVAIL), "the address of another host");
    assert_eq!(desk.act(SERVER, &bind(Address::v4(BASE, 1))), Ok(Vec::new()));
    assert_eq!(desk.act(SERVER, &bind(Address::v4(BASE, 1))), Err(libc::EINVAL), "it is bound");
    let third = desk.create(SERVER, 102, TCP);
    assert_eq!(desk.act(SERVER, &Command::Bind { id: third, to: Address::v4(BASE, 1) }), Err(libc::EADDRINUSE));
    let other_space = desk.create(SERVER, 103, UDP);
    assert_eq!(desk.act(SERVER, &Command::Bind { id: other_space, to: Address::v4(0, 7471) }), Ok(Vec::new()));
}

#[test]
fn an_address_without_an_hca_does_not_answer() {
    let mut desk = Desk::new();
    let id = desk.create(CLIENT, 200, TCP);
    let resolve = |destination| Command::ResolveAddress { id, source: None, destination, millis: 2_000 };
    desk.act(CLIENT, &resolve(Address::v4(BASE + 2, 1))).unwrap();
    assert_eq!(desk.event(CLIENT), None);
    desk.expire();
    assert_eq!(desk.event(CLIENT), Some((200, id, 1, -libc::ETIMEDOUT)));
    desk.act(CLIENT, &resolve(Address::v4(BASE, 1))).unwrap();
    assert_eq!(desk.event(CLIENT), Some((200, id, 0, 0)), "the next try succeeds");
}

#[test]
fn an_identifier_moves_with_its_events() {
    let mut desk = Desk::new();
    desk.listen(TCP);
    let (id, request) = desk.connected();
    desk.table.open(12, 0, SimDuration::ZERO);
    desk.act(CLIENT, &Command::Disconnect { id }).unwrap();
    assert_eq!(desk.act(12, &Command::Migrate { id: request, from: CLIENT }), Err(libc::EINVAL));
    assert_eq!(desk.act(12, &Command::Migrate { id: request, from: SERVER }), Ok(number(1)));
    assert_eq!(desk.event(SERVER), None);
    assert_eq!(desk.event(12), Some((300, request, 10, 0)));
    assert_eq!(desk.act(SERVER, &Command::Disconnect { id: request }), Err(libc::EINVAL));
}

#[test]
fn commands_in_the_wrong_state_are_refused() {
    let mut desk = Desk::new();
    let id = desk.create(CLIENT, 200, TCP);
    assert_eq!(desk.act(CLIENT, &Command::ResolveRoute { id }), Err(libc::EINVAL));
    assert_eq!(desk.act(CLIENT, &Command::Connect { id, parameters: parameters(1, b"") }), Err(libc::EINVAL));
    assert_eq!(desk.act(CLIENT, &Command::Accept { id, uid: 1, parameters: None }), Err(libc::EINVAL));
    assert_eq!(desk.act(CLIENT, &Command::Disconnect { id }), Err(libc::EINVAL));
    assert_eq!(desk.act(CLIENT, &Command::InitQpAttributes { id, state: 1 }), Err(libc::EINVAL));
    assert_eq!(desk.act(CLIENT, &Command::Destroy { id: 99 }), Err(libc::ENOENT));
    assert_eq!(desk.act(SERVER, &Command::Destroy { id }), Err(libc::EINVAL));
    let id = desk.routed(201, TCP);
    assert_eq!(desk.act(CLIENT, &Command::Connect { id, parameters: parameters(1, &[0; 57]) }), Err(libc::EINVAL), "too much private data");
    desk.connect(id);
}

#[test]
fn options_are_checked() {
    let mut desk = Desk::new();
    let id = desk.create(CLIENT, 200, TCP);
    let mut set = |level, name, value: &[u8]| desk.act(CLIENT, &Command::SetOption { id, level, name, value: value.to_vec() }).err();
    assert_eq!(set(0, 0, &[1]), None);
    assert_eq!(set(0, 0, &[1, 2]), Some(libc::EINVAL));
    assert_eq!(set(0, 1, &1u32.to_ne_bytes()), None);
    assert_eq!(set(0, 2, &1u32.to_ne_bytes()), None);
    assert_eq!(set(0, 3, &[14]), None);
    assert_eq!(set(0, 4, &[1]), Some(libc::ENOSYS));
    assert_eq!(set(1, 1, &[0; 71]), Some(libc::EINVAL));
    assert_eq!(set(2, 0, &[1]), Some(libc::ENOSYS));
}

#[test]
fn a_client_that_ends_in_the_handshake_is_told_of_by_its_guid() {
    let mut desk = Desk::new();
    desk.listen(TCP);
    let id = desk.routed(200, TCP);
    desk.connect(id);
    let (.., request, _, _) = desk.event(SERVER).unwrap();
    desk.table.command(CLIENT, &Command::Destroy { id }, 4, &Pair, desk.now).unwrap();
    let packets = desk.table.take_outgoing();
    let rejection = Rej::parse(&CmMad::parse(&packets[0].1.mad[..]).unwrap().data).unwrap();
    assert_eq!((rejection.reason, rejection.additional_info[7], rejection.remote_comm_id), (RejectReason::TIMEOUT, 0x11, 0));
    desk.table.arrive((HcaId(0), PortNumber(1)), &packets[0].1, &Pair, desk.now);
    assert_eq!(desk.act(SERVER, &Command::InitQpAttributes { id: request, state: 2 }), Err(libc::EINVAL));
}

#[test]
fn requests_have_the_fields_of_the_kernel() {
    let mut desk = Desk::new();
    let id = desk.routed(200, TCP);
    desk.table.command(CLIENT, &Command::Connect { id, parameters: parameters(0x405, b"x") }, 0, &Pair, desk.now).unwrap();
    let (port, packet) = desk.table.take_outgoing().remove(0);
    assert_eq!((port.0, packet.slid, packet.dlid, packet.mad[1], packet.mad[2], packet.mad[3]), (HcaId(1), Lid(2), Lid(1), 7, 2, 3));
    let request = Req::parse(&CmMad::parse(&packet.mad[..]).unwrap().data).unwrap();
    assert_eq!(request.service_id, 0x0106_1D2F);
    assert_eq!((request.retry_count, request.rnr_retry_count, request.max_cm_retries), (7, 7, 15));
    assert_eq!((request.path_mtu, request.primary_path.local_ack_timeout, request.primary_path.remote_lid), (MtuCode::B2048, 19, Lid(1)));
    assert_eq!(request.private_data[..4], [0, 0x40, 0x80, 0]);
    assert_eq!(request.private_data[36], b'x');
}

#[test]
fn any_commands_and_packets_leave_the_table_whole() {
    let mut desk = Desk::new();
    let mut random = 1u64;
    let mut next = move |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % limit
    };
    for _ in 0..30_000 {
        let id = next(12) as u32;
        let channel = [SERVER, CLIENT][next(2) as usize];
        let given = parameters(next(9) as u32, &vec![1; next(70) as usize]);
        let address = Address::v4([0, BASE, BASE + 1, BASE + 2, 0xE000_0001][next(5) as usize], [0, 7471, 7472][next(3) as usize]);
        let command = match next(18) {
            0 => Command::Create { uid: next(3), space: [TCP, UDP, 0x13F, 2, 9][next(5) as usize], qp_type: RC },
            1 if next(4) == 0 => Command::Destroy { id },
            2 => Command::Bind { id, to: address },
            3 | 4 => Command::ResolveAddress { id, source: None, destination: address, millis: 1 },
            5 | 6 => Command::ResolveRoute { id },
            7 | 8 => Command::Connect { id, parameters: given },
            9 => Command::Listen { id, backlog: next(4) as u32 },
            10 => Command::Accept { id, uid: next(4), parameters: Some(given).filter(|_| next(2) == 0) },
            11 => Command::Reject { id, reason: 28, private_data: vec![1; next(200) as usize] },
            12 => Command::Disconnect { id },
            13 => Command::InitQpAttributes { id, state: next(8) as u32 },
            14 => Command::Notify { id, event: 4 },
            15 => Command::Join { id, uid: 5, to: address, send_only: next(4) == 0 },
            16 => Command::Leave { multicast: id },
            _ => Command::GetEvent,
        };
        desk.lossy = next(8) == 0;
        let _ = desk.act(channel, &command);
        if next(6) == 0 && desk.table.next_deadline().is_some() {
            desk.expire();
        }
    }
    desk.table.close(SERVER, desk.now);
    desk.table.close(CLIENT, desk.now);
    desk.deliver();
    desk.end_leaves();
    assert!(desk.table.ids.is_empty() && desk.table.by_comm_id.is_empty() && desk.table.deadlines.is_empty());
    assert!(desk.table.groups.is_empty());
    assert_eq!(desk.table.ports.users(0, TCP, 7471).count(), 0);
}
