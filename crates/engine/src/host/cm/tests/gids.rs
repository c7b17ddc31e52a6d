//! Addresses of `AF_IB`.

use super::*;
use softband_types::{Gid, Guid, PKey};

const IB: u16 = 0x13F;
const SERVICE: u64 = (IB as u64) << 16 | 7471;

fn gid(number: u64) -> Gid {
    Gid::new(Gid::DEFAULT_PREFIX, Guid(number))
}

fn at(number: u64, service_id: u64) -> Address {
    Address::ib(gid(number), PKey(0xFFFF), service_id)
}

/// Returns an address without a GID, as librdmacm binds it to learn whether the kernel knows the family.
fn any() -> Address {
    Address::parse(&[27u16.to_ne_bytes().as_slice(), &[0; 46]].concat()).unwrap()
}

fn create(desk: &mut Desk, channel: u32, uid: u64, space: u16) -> u32 {
    Fields(&desk.act(channel, &Command::Create { uid, space, qp_type: RC }).unwrap()).u32(0)
}

fn resolve(desk: &mut Desk, id: u32, destination: Address) -> Result<Vec<u8>, i32> {
    desk.act(CLIENT, &Command::ResolveAddress { id, source: None, destination, millis: 1_000 })
}

#[test]
fn an_identifier_without_a_gid_names_no_device() {
    let mut desk = Desk::new();
    let id = create(&mut desk, CLIENT, 1, IB);
    desk.act(CLIENT, &Command::Bind { id, to: any() }).unwrap();
    for option in [0, 2] {
        let answer = desk.act(CLIENT, &Command::Query { id, option }).unwrap();
        assert_eq!((Fields(&answer).u64(0), Fields(&answer).u16(16)), (0, 27));
    }
}

#[test]
fn a_gid_of_another_host_or_of_no_port_cannot_be_bound() {
    let mut desk = Desk::new();
    let mut bind = |to| {
        let id = create(&mut desk, CLIENT, 1, IB);
        desk.act(CLIENT, &Command::Bind { id, to }).err()
    };
    assert_eq!(bind(at(0x10, SERVICE)), Some(libc::ENODEV));
    assert_eq!(bind(at(0x11, SERVICE)), None);
    assert_eq!(bind(at(0x11, SERVICE)), Some(libc::EADDRINUSE));
    assert_eq!(bind(at(0x11, 1 << 40)), Some(libc::EPROTONOSUPPORT));
}

#[test]
fn gids_connect_without_a_header_in_the_private_data() {
    let mut desk = Desk::new();
    let listener = create(&mut desk, SERVER, 100, IB);
    desk.act(SERVER, &Command::Bind { id: listener, to: at(0x10, SERVICE) }).unwrap();
    desk.act(SERVER, &Command::Listen { id: listener, backlog: 2 }).unwrap();
    let id = create(&mut desk, CLIENT, 200, IB);
    resolve(&mut desk, id, at(0x10, SERVICE)).unwrap();
    assert_eq!(desk.event(CLIENT), Some((200, id, 0, 0)));
    desk.act(CLIENT, &Command::ResolveRoute { id }).unwrap();
    assert_eq!(desk.event(CLIENT), Some((200, id, 2, 0)));
    // Of an address with an IP header the program has 56 bytes.
    desk.act(CLIENT, &Command::Connect { id, parameters: parameters(0x405, &[7; 92]) }).unwrap();
    let bytes = desk.event_bytes(SERVER).unwrap();
    let request = Fields(&bytes).u32(8);
    assert_eq!((Fields(&bytes).u32(12), Fields(&bytes).u8(284), &bytes[28..120]), (4, 92, &[7; 92][..]));
    // Each side's GID and service ID.
    let addresses = desk.act(SERVER, &Command::Query { id: request, option: 0 }).unwrap();
    assert_eq!((addresses[24 + 15], addresses[152 + 15], &addresses[40..48]), (0x10, 0x11, &SERVICE.to_be_bytes()[..]));
}

#[test]
fn a_gid_that_nobody_has_resolves_and_has_no_route() {
    let mut desk = Desk::new();
    let id = create(&mut desk, CLIENT, 200, TCP);
    resolve(&mut desk, id, at(0x99, 0x0106_1D2F)).unwrap();
    assert_eq!(desk.event(CLIENT), Some((200, id, 0, 0)));
    desk.act(CLIENT, &Command::ResolveRoute { id }).unwrap();
    assert_eq!(desk.event(CLIENT), Some((200, id, 3, -libc::EINVAL)));
    let id = create(&mut desk, CLIENT, 201, TCP);
    let foreign = Address::ib(Gid([1; 16]), PKey(0xFFFF), 0x0106_1D2F);
    assert_eq!(resolve(&mut desk, id, foreign), Err(libc::ENODEV), "no port has its prefix");
    let id = create(&mut desk, CLIENT, 202, TCP);
    let other_partition = Address::ib(gid(0x10), PKey(0x8001), 0x0106_1D2F);
    assert_eq!(resolve(&mut desk, id, other_partition), Err(libc::ENODEV));
    let id = create(&mut desk, CLIENT, 203, TCP);
    let own_of_other = Address::ib(gid(0x11), PKey(0x8001), 0x0106_1D2F);
    assert_eq!(resolve(&mut desk, id, own_of_other), Err(libc::ENODEV), "the port's own GID does not help");
}

#[test]
fn a_connection_is_of_the_partition_that_the_address_names() {
    let mut desk = Desk::new();
    let listener = create(&mut desk, SERVER, 100, IB);
    desk.act(SERVER, &Command::Bind { id: listener, to: at(0x10, SERVICE) }).unwrap();
    desk.act(SERVER, &Command::Listen { id: listener, backlog: 2 }).unwrap();
    let id = create(&mut desk, CLIENT, 200, IB);
    resolve(&mut desk, id, Address::ib(gid(0x10), PKey(0x8005), SERVICE)).unwrap();
    desk.act(CLIENT, &Command::ResolveRoute { id }).unwrap();
    desk.act(CLIENT, &Command::Connect { id, parameters: parameters(0x405, b"") }).unwrap();
    let request = Fields(&desk.event_bytes(SERVER).unwrap()).u32(8);
    for (channel, id) in [(CLIENT, id), (SERVER, request)] {
        let attributes = desk.act(channel, &Command::InitQpAttributes { id, state: 1 }).unwrap();
        assert_eq!(Fields(&attributes).u16(124), 1, "index of the second key");
    }
}

#[test]
fn a_service_of_datagrams_has_more_room_for_private_data() {
    let mut desk = Desk::new();
    let service = 0x0111_1D2F;
    let listener = create(&mut desk, SERVER, 100, UDP);
    desk.act(SERVER, &Command::Bind { id: listener, to: at(0x10, service) }).unwrap();
    desk.act(SERVER, &Command::Listen { id: listener, backlog: 2 }).unwrap();
    let id = create(&mut desk, CLIENT, 200, UDP);
    resolve(&mut desk, id, at(0x10, service)).unwrap();
    desk.act(CLIENT, &Command::ResolveRoute { id }).unwrap();
    desk.act(CLIENT, &Command::Connect { id, parameters: parameters(0, &[7; 216]) }).unwrap();
    let bytes = desk.event_bytes(SERVER).unwrap();
    assert_eq!((Fields(&bytes).u32(12), Fields(&bytes).u8(316), &bytes[60..276]), (4, 216, &[7; 216][..]));
}
