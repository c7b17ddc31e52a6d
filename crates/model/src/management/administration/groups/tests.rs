use super::super::Path;
use super::*;
use softband_types::{Guid, LinkRate, LinkSpeed, LinkWidth, Mtu, PKey, QKey, ServiceLevel};

/// A subnet of three ports. The third is slower and has smaller packets.
struct Three;

const MGID: Gid = Gid([0xFF, 0x12, 0x40, 1, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0x0F, 0, 0, 1]);
const SLOWER: u16 = 3;

fn gid(lid: u16) -> Gid {
    Gid::new(Gid::DEFAULT_PREFIX, Guid(lid.into()))
}

impl Paths for Three {
    fn ends(&self) -> Vec<PathEnd> {
        (1..=3).map(|lid| PathEnd { lid: Lid(lid), gid: gid(lid) }).collect()
    }
    fn with_gid(&self, gid: Gid) -> Option<PathEnd> {
        self.ends().into_iter().find(|end| end.gid == gid)
    }
    fn with_lid(&self, lid: Lid) -> Option<PathEnd> {
        self.ends().into_iter().find(|end| end.lid == lid)
    }
    fn path(&self, from: PathEnd, to: PathEnd) -> Option<Path> {
        let is_slow = [from, to].iter().any(|end| end.lid == Lid(SLOWER));
        let rate = LinkRate { width: LinkWidth::X4, speed: if is_slow { LinkSpeed::Sdr } else { LinkSpeed::Qdr } };
        Some(Path { mtu: if is_slow { Mtu::B1024 } else { Mtu::B4096 }, rate, service_level: ServiceLevel(0) })
    }
    fn least(&self) -> Option<(Mtu, LinkRate)> {
        let end = self.ends()[2];
        self.path(end, end).map(|path| (path.mtu, path.rate))
    }
}

fn request(lid: u16, state: JoinState) -> McMemberRecord {
    let (q_key, p_key) = (QKey(0x0123_4567), PKey::DEFAULT_FULL);
    McMemberRecord { mgid: MGID, port_gid: gid(lid), q_key, p_key, join_state: state, ..McMemberRecord::default() }
}

const SEND_ONLY: JoinState = JoinState::SEND_ONLY_NON_MEMBER;

fn join(groups: &mut Groups, lid: u16, state: JoinState) -> Result<McMemberRecord, Status> {
    groups.join(&request(lid, state), CREATE, &Three)
}

#[test]
fn the_first_full_member_creates_a_group_and_the_last_ends_it() {
    let mut groups = Groups::default();
    assert_eq!(join(&mut groups, 2, SEND_ONLY), Err(Status::SA_REQUEST_INVALID), "no group exists");
    let first = join(&mut groups, 1, JoinState::FULL_MEMBER).unwrap();
    assert_eq!((first.mlid, first.mgid, first.port_gid, first.join_state), (Lid(0xC000), MGID, gid(1), JoinState::FULL_MEMBER));
    assert_eq!((first.mtu, first.rate, first.scope), (MtuCode::B1024, RateCode::G10, 2), "all ports can carry it");
    assert_eq!(groups.receivers(first.mlid), [gid(1)]);
    assert_eq!(groups.take_changed().into_iter().collect::<Vec<_>>(), [first.mlid]);
    join(&mut groups, 2, SEND_ONLY).unwrap();
    assert_eq!(groups.receivers(first.mlid), [gid(1)], "the second only sends");
    assert_eq!(join(&mut groups, 2, JoinState::NON_MEMBER).unwrap().join_state, SEND_ONLY | JoinState::NON_MEMBER);
    assert_eq!(groups.receivers(first.mlid), [gid(1), gid(2)]);
    assert_eq!(groups.leave(&request(2, JoinState::FULL_MEMBER), JOIN), Err(Status::SA_REQUEST_INVALID), "it never was");
    assert_eq!(groups.leave(&request(2, SEND_ONLY), JOIN).unwrap().join_state, JoinState::NON_MEMBER);
    groups.leave(&request(1, JoinState::FULL_MEMBER), JOIN).unwrap();
    assert!(groups.groups.is_empty() && groups.by_mlid.is_empty() && groups.receivers(first.mlid).is_empty());
    assert_eq!(groups.leave(&request(1, JoinState::FULL_MEMBER), JOIN), Err(Status::SA_REQUEST_INVALID));
    assert_eq!(join(&mut groups, 3, JoinState::FULL_MEMBER).unwrap().mlid, first.mlid, "the LID is free again");
}

#[test]
fn requests_need_their_components() {
    let mut groups = Groups::default();
    let full = request(1, JoinState::FULL_MEMBER);
    for bit in (0..18).map(|bit| ComponentMask(1 << bit)).filter(|bit| CREATE.contains(*bit)) {
        let mask = ComponentMask(CREATE.0 & !bit.0);
        assert_eq!(groups.join(&full, mask, &Three), Err(Status::SA_INSUFFICIENT_COMPONENTS), "{bit:?}");
    }
    assert_eq!(groups.join(&McMemberRecord { port_gid: gid(9), ..full }, CREATE, &Three), Err(Status::SA_INVALID_GID));
    assert_eq!(groups.join(&McMemberRecord { join_state: JoinState(0), ..full }, CREATE, &Three), Err(Status::SA_REQUEST_INVALID));
    assert_eq!(groups.join(&McMemberRecord { mgid: gid(1), ..full }, CREATE, &Three), Err(Status::SA_REQUEST_INVALID), "a port's GID");
    groups.join(&full, CREATE, &Three).unwrap();
    groups.join(&request(2, JoinState::FULL_MEMBER), JOIN, &Three).unwrap();
    assert_eq!(groups.leave(&full, ComponentMask::MC_MEMBER_MGID), Err(Status::SA_INSUFFICIENT_COMPONENTS));
}

#[test]
fn a_join_must_agree_with_the_group() {
    let mut groups = Groups::default();
    let full = request(1, JoinState::FULL_MEMBER);
    let large = McMemberRecord { mtu_selector: Selector::EXACTLY, mtu: MtuCode::B4096, ..full };
    let of_mtu = ComponentMask::MC_MEMBER_MTU | ComponentMask::MC_MEMBER_MTU_SELECTOR;
    let too_large = McMemberRecord { mtu: MtuCode(6), ..large };
    assert_eq!(groups.join(&too_large, CREATE | of_mtu, &Three), Err(Status::SA_REQUEST_INVALID));
    assert_eq!(groups.join(&large, CREATE | of_mtu, &Three).unwrap().mtu, MtuCode::B4096);
    assert_eq!(join(&mut groups, SLOWER, JoinState::FULL_MEMBER), Err(Status::SA_REQUEST_INVALID), "its packets are smaller");
    let other = request(2, JoinState::FULL_MEMBER);
    for wrong in [
        McMemberRecord { q_key: QKey(1), ..other },
        McMemberRecord { sl: ServiceLevel(1), ..other },
        McMemberRecord { tclass: 1, ..other },
        McMemberRecord { flow_label: 1, ..other },
        McMemberRecord { p_key: PKey(0x8001), ..other },
    ] {
        assert_eq!(groups.join(&wrong, CREATE, &Three), Err(Status::SA_REQUEST_INVALID), "{wrong:?}");
    }
    let smaller = McMemberRecord { mtu_selector: Selector::LESS_THAN, mtu: MtuCode::B4096, ..other };
    assert_eq!(groups.join(&smaller, CREATE | of_mtu, &Three), Err(Status::SA_REQUEST_INVALID));
    let larger = McMemberRecord { mtu_selector: Selector::GREATER_THAN, mtu: MtuCode::B2048, p_key: PKey(0x7FFF), ..other };
    assert!(groups.join(&larger, CREATE | of_mtu, &Three).is_ok(), "a limited member of the partition");
}

#[test]
fn a_group_without_a_name_gets_one() {
    let mut groups = Groups::default();
    let nameless = McMemberRecord { mgid: Gid::default(), ..request(1, JoinState::FULL_MEMBER) };
    let [first, second] = [0; 2].map(|_| groups.join(&nameless, CREATE, &Three).unwrap());
    assert_eq!((&first.mgid.0[..4], first.mlid, second.mlid), (&[0xFF, 0x12, 0xA0, 0x1B][..], Lid(0xC000), Lid(0xC001)));
    assert_ne!(first.mgid, second.mgid);
    let again = McMemberRecord { mgid: first.mgid, ..request(2, JoinState::FULL_MEMBER) };
    assert_eq!(groups.join(&again, JOIN, &Three).unwrap().mlid, first.mlid);
    let mut foreign = again;
    foreign.mgid.0[15] = 77;
    assert_eq!(groups.join(&foreign, CREATE, &Three), Err(Status::SA_REQUEST_INVALID), "nobody else gives these names");
}

#[test]
fn strangers_see_groups_and_the_manager_sees_members() {
    let mut groups = Groups::default();
    for (lid, state) in [(1, JoinState::FULL_MEMBER), (2, SEND_ONLY)] {
        join(&mut groups, lid, state).unwrap();
    }
    let second = McMemberRecord { mgid: Gid([0xFF; 16]), ..request(1, JoinState::FULL_MEMBER) };
    groups.join(&second, CREATE, &Three).unwrap();
    let find = |wanted: &McMemberRecord, mask, is_trusted| groups.matching(wanted, mask, is_trusted).len();
    let nothing = McMemberRecord::default();
    assert_eq!((find(&nothing, ComponentMask(0), false), find(&nothing, ComponentMask(0), true)), (2, 3));
    assert_eq!(groups.matching(&nothing, ComponentMask(0), false)[0].port_gid, Gid::default());
    assert_eq!(find(&request(2, SEND_ONLY), JOIN, false), 1);
    assert_eq!(find(&request(2, JoinState::FULL_MEMBER), JOIN, false), 0);
    assert_eq!(find(&McMemberRecord { mlid: Lid(0xC001), ..nothing }, ComponentMask::MC_MEMBER_MLID, false), 1);
}

#[test]
fn all_multicast_lids_of_switches_are_in_use_at_most_once() {
    let mut groups = Groups::default();
    let nameless = McMemberRecord { mgid: Gid::default(), ..request(1, JoinState::FULL_MEMBER) };
    let all: Vec<_> = (0..MLIDS).map(|_| groups.join(&nameless, CREATE, &Three).unwrap()).collect();
    assert_eq!(groups.join(&nameless, CREATE, &Three), Err(Status::SA_NO_RESOURCES));
    groups.leave(&McMemberRecord { join_state: JoinState::FULL_MEMBER, ..all[7] }, JOIN).unwrap();
    assert_eq!(groups.join(&nameless, CREATE, &Three).unwrap().mlid, Lid(0xC007));
}
