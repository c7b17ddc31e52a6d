//! Multicast groups.

use super::*;

const GROUP: u32 = 0xEF00_0001;
const SET: u8 = 2;
const DELETE: u8 = 0x15;

impl Desk {
    /// Returns a datagram identifier that is bound to its host's port.
    fn bound(&mut self, channel: u32, uid: u64) -> u32 {
        let id = self.create(channel, uid, UDP);
        let host = u32::from(channel == CLIENT);
        self.act(channel, &Command::Bind { id, to: Address::v4(BASE + host, 0) }).unwrap();
        id
    }

    fn join(&mut self, channel: u32, id: u32, uid: u64) -> Result<u32, i32> {
        let join = Command::Join { id, uid, to: Address::v4(GROUP, 0), send_only: false };
        self.act(channel, &join).map(|bytes| Fields(&bytes).u32(0))
    }

    fn leave(&mut self, channel: u32, multicast: u32) -> Result<u32, i32> {
        self.act(channel, &Command::Leave { multicast }).map(|bytes| Fields(&bytes).u32(0))
    }
}

#[test]
fn a_join_states_the_address_of_its_group() {
    let mut desk = Desk::new();
    let (first, second) = (desk.bound(SERVER, 100), desk.bound(CLIENT, 200));
    let multicast = desk.join(SERVER, first, 7).unwrap();
    let bytes = desk.event_bytes(SERVER).unwrap();
    let event = Fields(&bytes);
    assert_eq!((event.u64(0), event.u32(8), event.u32(12), event.u32(16)), (7, multicast, 12, 0));
    assert_eq!((event.u32(20), event.u32(24)), (0xFF_FFFF, 0x0123_4567));
    assert_eq!(bytes[28..44], [0xFF, 0x12, 0x40, 1, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0x0F, 0, 0, 1]);
    // LID, rate, global route and port.
    assert_eq!((event.u16(52), event.u8(56), event.u8(57), event.u8(58)), (0xC000, RateCode::G100.0, 1, 1));
    let other = desk.join(CLIENT, second, 8).unwrap();
    assert_eq!(desk.event(CLIENT), Some((8, other, 12, 0)));
    assert_eq!(desk.asked, [(SET, 1), (SET, 1)]);
    assert_eq!(desk.leave(SERVER, multicast), Ok(1), "the program has got an event");
    assert_eq!(desk.leave(SERVER, multicast), Err(libc::ENOENT));
    assert_eq!(desk.act(SERVER, &Command::Destroy { id: first }), Ok(number(1)));
    assert_eq!(desk.leave(SERVER, other), Err(libc::EINVAL), "it is another channel's");
    desk.table.close(CLIENT, desk.now);
    desk.deliver();
    assert_eq!(desk.asked[2..], [(DELETE, 1), (DELETE, 1)]);
    assert!(desk.table.groups.is_empty());
}

#[test]
fn identifiers_of_a_port_share_its_membership() {
    let mut desk = Desk::new();
    let ids = [100, 101].map(|uid| desk.bound(SERVER, uid));
    let [first, second] = ids.map(|id| desk.join(SERVER, id, 7).unwrap());
    assert_eq!([desk.event(SERVER), desk.event(SERVER)].map(|event| event.map(|event| event.1)), [Some(first), Some(second)]);
    let join = Command::Join { id: ids[1], uid: 9, to: Address::v4(GROUP, 0), send_only: true };
    desk.act(SERVER, &join).unwrap();
    assert_eq!(desk.asked, [(SET, 1), (SET, 8)], "the second needed no request");
    desk.leave(SERVER, first).unwrap();
    assert_eq!(desk.asked.len(), 2);
    desk.leave(SERVER, second).unwrap();
    assert_eq!(desk.asked[2..], [(DELETE, 1)]);
    desk.act(SERVER, &Command::Destroy { id: ids[1] }).unwrap();
    assert_eq!(desk.asked[3..], [(DELETE, 8)]);
    assert!(desk.table.groups.is_empty());
}

#[test]
fn silence_ends_a_join_after_three_seconds() {
    let mut desk = Desk::new();
    let id = desk.bound(CLIENT, 200);
    desk.lossy = true;
    let begun = desk.now;
    let multicast = desk.join(CLIENT, id, 7).unwrap();
    for _ in 0..11 {
        assert_eq!(desk.event(CLIENT), None);
        desk.expire();
    }
    assert_eq!(desk.event(CLIENT), Some((7, multicast, 13, -libc::ETIMEDOUT)));
    assert_eq!(desk.asked, [(SET, 1); 11]);
    assert_eq!(desk.now.saturating_since(begun).as_picos() / 1_000_000_000_000, 3);
    assert_eq!(desk.leave(CLIENT, multicast), Ok(1));
    assert!(desk.table.groups.is_empty());
}

#[test]
fn a_lost_answer_leaves_no_member_behind() {
    let mut desk = Desk::new();
    let id = desk.bound(CLIENT, 200);
    desk.lossy = true;
    desk.join(CLIENT, id, 7).unwrap();
    desk.act(CLIENT, &Command::Destroy { id }).unwrap();
    desk.end_leaves();
    assert_eq!(desk.asked, [(SET, 1), (SET, 1), (DELETE, 1)]);
    assert!(desk.administration.receivers(Lid(0xC000)).is_empty());
    assert_eq!(desk.event(CLIENT), None);
}

#[test]
fn a_leave_takes_its_unread_event_along() {
    let mut desk = Desk::new();
    let id = desk.bound(CLIENT, 200);
    let multicast = desk.join(CLIENT, id, 7).unwrap();
    assert_eq!(desk.table.unread(CLIENT), 1);
    assert_eq!(desk.leave(CLIENT, multicast), Ok(0));
    assert_eq!((desk.table.withdrawn(), desk.table.unread(CLIENT)), (1, 0));
    assert_eq!(desk.act(CLIENT, &Command::Destroy { id }), Ok(number(0)));
}

#[test]
fn a_new_manager_ends_memberships_and_programs_join_again() {
    let mut desk = Desk::new();
    let ids = [100, 101].map(|uid| desk.bound(SERVER, uid));
    let [first, second] = ids.map(|id| desk.join(SERVER, id, 7).unwrap());
    let other = desk.bound(CLIENT, 200);
    let other = desk.join(CLIENT, other, 8).unwrap();
    assert_eq!([desk.event(SERVER), desk.event(SERVER), desk.event(CLIENT)].map(|event| event.map(|event| event.2)), [Some(12); 3]);
    desk.administration = Administration::default();
    let port = desk.table.ids.get(&ids[0]).and_then(|id| id.port).map(|port| (port.hca, port.port)).unwrap();
    desk.table.groups_lost(port, desk.now);
    desk.deliver();
    assert_eq!(desk.event(SERVER), Some((7, first, 13, -libc::ENETRESET)));
    assert_eq!(desk.event(SERVER), Some((7, second, 13, -libc::ENETRESET)));
    assert_eq!((desk.event(SERVER), desk.event(CLIENT)), (None, None), "the other port stays a member");
    let asked = desk.asked.len();
    assert_eq!(desk.leave(SERVER, first), Ok(2));
    assert_eq!(desk.asked.len(), asked, "the new manager knows no member");
    let again = desk.join(SERVER, ids[0], 9).unwrap();
    assert_eq!(desk.event(SERVER), Some((9, again, 12, 0)));
    assert_eq!(desk.asked[asked..], [(SET, 1)]);
    desk.leave(SERVER, second).unwrap();
    assert_eq!(desk.asked.len(), asked + 1);
    desk.table.close(SERVER, desk.now);
    desk.deliver();
    assert_eq!(desk.asked[asked + 1..], [(DELETE, 1)]);
    desk.leave(CLIENT, other).unwrap();
    assert!(desk.table.groups.is_empty());
}

#[test]
fn only_bound_datagram_identifiers_join() {
    let mut desk = Desk::new();
    let unbound = desk.create(CLIENT, 200, UDP);
    assert_eq!(desk.join(CLIENT, unbound, 7), Err(libc::EINVAL));
    let stream = desk.create(CLIENT, 201, TCP);
    desk.act(CLIENT, &Command::Bind { id: stream, to: Address::v4(BASE + 1, 0) }).unwrap();
    assert_eq!(desk.join(CLIENT, stream, 7), Err(libc::EINVAL));
    let id = desk.bound(CLIENT, 202);
    assert_eq!(desk.join(SERVER, id, 7), Err(libc::EINVAL), "another channel's");
    let nameless = Command::Join { id, uid: 7, to: Address::v4(0, 0), send_only: false };
    desk.act(CLIENT, &nameless).unwrap();
    let bytes = desk.event_bytes(CLIENT).unwrap();
    assert_eq!(bytes[28..32], [0xFF, 0x12, 0xA0, 0x1B], "subnet administration has chosen");
    let send_only = Command::Join { id, uid: 8, to: Address::v4(GROUP, 0), send_only: true };
    desk.act(CLIENT, &send_only).unwrap();
    assert!(desk.event(CLIENT).is_some_and(|(.., kind, status)| (kind, status) == (13, -libc::EINVAL)), "no group exists");
}

#[test]
fn the_space_of_ipoib_has_its_own_groups() {
    let mut desk = Desk::new();
    let id = desk.create(CLIENT, 200, identifier::SPACE_IPOIB);
    desk.act(CLIENT, &Command::Bind { id, to: Address::v4(BASE + 1, 0) }).unwrap();
    // A program makes its queue pair first.
    let attributes = desk.act(CLIENT, &Command::InitQpAttributes { id, state: 1 }).unwrap();
    desk.join(CLIENT, id, 7).unwrap();
    let bytes = desk.event_bytes(CLIENT).unwrap();
    assert_eq!((Fields(&attributes).u32(20), Fields(&bytes).u32(24), &bytes[30..32]), (0x0B1B, 0x0B1B, &[0x40, 0x1B][..]));
    // The MTU of IPoIB's broadcast group, and its rate.
    assert_eq!(Fields(&bytes).u8(56), RateCode::G10.0);
}
