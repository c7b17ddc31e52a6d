//! Multicast groups of identifiers: JOIN_IP_MCAST, JOIN_MCAST and LEAVE_MCAST.

use super::CmTable;
use super::address::Address;
use super::events::{Event, Kind, Parameters};
use super::identifier::{SPACE_IPOIB, SPACE_UDP, Stage};
use super::memberships::{Memberships, Wish};
use super::path::{HOP_LIMIT, LocalPort, Port, Subnet};
use softband_model::management::ManagementPacket;
use softband_sim::SimTime;
use softband_types::{Gid, Lid, PKey, QKey};
use softband_wire::mad::{ComponentMask, JoinState, McMemberRecord, MtuCode, RateCode, Selector};
use std::collections::{BTreeMap, BTreeSet};

/// Values of IPoIB's broadcast group as OpenSM creates it. The kernel takes those of the group that
/// its IPoIB interface has joined.
const BROADCAST_MTU: MtuCode = MtuCode::B2048;
const BROADCAST_RATE: RateCode = RateCode::G10;
const SCOPE_LINK_LOCAL: u8 = 2;
/// Queue pair of a multicast group (IBTA 9.6.1.2).
const GROUP_QPN: u32 = 0xFF_FFFF;
/// Most groups of an identifier. The kernel has no limit.
const GROUPS_MAX: usize = 4_096;

/// Components of a join, and more for the port space of IPoIB (`cma_join_ib_multicast` of the kernel).
const COMPONENTS: ComponentMask = ComponentMask(
    ComponentMask::MC_MEMBER_MGID.0
        | ComponentMask::MC_MEMBER_PORT_GID.0
        | ComponentMask::MC_MEMBER_P_KEY.0
        | ComponentMask::MC_MEMBER_JOIN_STATE.0
        | ComponentMask::MC_MEMBER_Q_KEY.0
        | ComponentMask::MC_MEMBER_SL.0
        | ComponentMask::MC_MEMBER_FLOW_LABEL.0
        | ComponentMask::MC_MEMBER_TCLASS.0,
);
const COMPONENTS_OF_IPOIB: ComponentMask = ComponentMask(
    ComponentMask::MC_MEMBER_RATE.0
        | ComponentMask::MC_MEMBER_RATE_SELECTOR.0
        | ComponentMask::MC_MEMBER_MTU.0
        | ComponentMask::MC_MEMBER_MTU_SELECTOR.0
        | ComponentMask::MC_MEMBER_HOP_LIMIT.0,
);

/// A group of an identifier (`struct ucma_multicast` of the kernel).
#[derive(Debug)]
struct Multicast {
    /// The identifier.
    id: u32,
    /// Number by which the program knows it.
    uid: u64,
    events_reported: u32,
}

/// The groups of all identifiers.
#[derive(Debug, Default)]
pub(super) struct Groups {
    multicasts: BTreeMap<u32, Multicast>,
    /// Numbers below the largest that nobody uses.
    free: BTreeSet<u32>,
    memberships: Memberships,
}

impl Groups {
    pub(super) fn next_deadline(&self) -> Option<SimTime> {
        self.memberships.next_deadline()
    }

    pub(super) fn count_event(&mut self, multicast: u32) {
        if let Some(multicast) = self.multicasts.get_mut(&multicast) {
            multicast.events_reported += 1;
        }
    }

    /// Adds a group of an identifier. Returns its number.
    fn add(&mut self, id: u32, uid: u64) -> u32 {
        let number = self.free.pop_first().unwrap_or(self.multicasts.len() as u32);
        self.multicasts.insert(number, Multicast { id, uid, events_reported: 0 });
        number
    }

    fn remove(&mut self, number: u32, now: SimTime) -> Option<Multicast> {
        let multicast = self.multicasts.remove(&number)?;
        self.free.insert(number);
        self.memberships.leave(number, now);
        Some(multicast)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.multicasts.is_empty() && self.memberships.is_empty()
    }
}

impl CmTable {
    /// Joins a group. Returns the number of the membership; an event reports its end.
    pub(super) fn join(&mut self, number: u32, uid: u64, (to, send_only): (Address, bool), subnet: &dyn Subnet, now: SimTime) -> Result<u32, i32> {
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        let is_bound = matches!(id.stage, Stage::Bound | Stage::AddressResolved);
        let port = id.port.filter(|_| is_bound && id.is_datagram()).ok_or(libc::EINVAL)?;
        if id.multicasts.len() >= GROUPS_MAX {
            return Err(libc::ENOMEM);
        }
        if port.is_ethernet() {
            return self.join_on_ethernet(number, uid, &to, &port, now);
        }
        let port = subnet.local_port((port.hca, port.port)).filter(|port| port.sm_lid != Lid::NONE).ok_or(libc::EADDRNOTAVAIL)?;
        let record = McMemberRecord {
            mgid: mgid_of(&to, id.space, port.pkey),
            port_gid: port.gid,
            q_key: QKey(id.own_qkey()),
            p_key: port.pkey,
            mtu_selector: Selector::EXACTLY,
            mtu: BROADCAST_MTU,
            rate_selector: Selector::EXACTLY,
            rate: BROADCAST_RATE,
            scope: SCOPE_LINK_LOCAL,
            join_state: if send_only { JoinState::SEND_ONLY_FULL_MEMBER } else { JoinState::FULL_MEMBER },
            ..McMemberRecord::default()
        };
        let mask = if id.space == SPACE_IPOIB { COMPONENTS | COMPONENTS_OF_IPOIB } else { COMPONENTS };
        let multicast = self.groups.add(number, uid);
        id.multicasts.insert(multicast);
        self.groups.memberships.join(multicast, port, Wish { record, mask }, now);
        self.settle_groups(now);
        Ok(multicast)
    }

    /// Joins a group on Ethernet, where no subnet administration exists: the group is a matter of
    /// addresses (`cma_iboe_join_multicast` of the kernel).
    fn join_on_ethernet(&mut self, number: u32, uid: u64, to: &Address, port: &LocalPort, now: SimTime) -> Result<u32, i32> {
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        if to.is_any() {
            return Err(libc::EINVAL);
        }
        // RoCE v2 has groups of IPv4 only.
        let mgid = Gid::of_ipv4(to.ipv4().ok_or(libc::EOPNOTSUPP)?.to_be_bytes());
        let q_key = QKey(id.own_qkey());
        let multicast = self.groups.add(number, uid);
        id.multicasts.insert(multicast);
        let record = McMemberRecord { mgid, port_gid: port.gid, q_key, p_key: port.pkey, hop_limit: HOP_LIMIT, ..McMemberRecord::default() };
        self.report_join(multicast, Ok(record), now);
        Ok(multicast)
    }

    /// Leaves a group. Returns the number of the membership's events that the program has got.
    pub(super) fn leave(&mut self, channel: u32, number: u32, now: SimTime) -> Result<u32, i32> {
        let id = self.groups.multicasts.get(&number).ok_or(libc::ENOENT)?.id;
        self.own(channel, id)?.multicasts.remove(&number);
        let reported = self.groups.remove(number, now).map_or(0, |multicast| multicast.events_reported);
        if let Some(channel) = self.channels.get_mut(&channel) {
            let before = channel.events.len();
            channel.events.retain(|event| event.multicast != Some(number));
            self.withdrawn += (before - channel.events.len()) as u32;
        }
        self.settle_groups(now);
        Ok(reported)
    }

    /// Leaves all groups of an identifier.
    pub(super) fn leave_groups(&mut self, number: u32, now: SimTime) {
        let Some(id) = self.ids.get_mut(&number).filter(|id| !id.multicasts.is_empty()) else { return };
        for multicast in std::mem::take(&mut id.multicasts) {
            self.groups.remove(multicast, now);
        }
        self.settle_groups(now);
    }

    /// Handles an answer of subnet administration. Returns whether it is one to a request here.
    pub(super) fn group_answered(&mut self, port: Port, packet: &ManagementPacket, now: SimTime) -> bool {
        let is_answer = self.groups.memberships.arrive(port, packet, now);
        self.settle_groups(now);
        is_answer
    }

    /// Ends the memberships of a port after a change of its link, its LID or its manager. Programs
    /// get MULTICAST_ERROR, and join again if they like.
    pub(crate) fn groups_lost(&mut self, port: Port, now: SimTime) {
        self.groups.memberships.lose(port, now);
        self.settle_groups(now);
    }

    pub(super) fn groups_expire(&mut self, now: SimTime) {
        self.groups.memberships.expire(now);
        self.settle_groups(now);
    }

    /// Sends the requests and reports the ends of joins that the last operation has left.
    fn settle_groups(&mut self, now: SimTime) {
        self.outgoing.extend(self.groups.memberships.take_outgoing());
        for (number, outcome) in self.groups.memberships.take_outcomes() {
            self.report_join(number, outcome, now);
        }
    }

    /// Posts the event at the end of a join (`cma_make_mc_event` of the kernel).
    fn report_join(&mut self, number: u32, outcome: Result<McMemberRecord, i32>, now: SimTime) {
        let Some((counted_by, uid)) = self.groups.multicasts.get(&number).map(|multicast| (multicast.id, multicast.uid)) else { return };
        let Some(id) = self.ids.get_mut(&counted_by).filter(|id| id.uid != 0) else { return };
        let joined = outcome.and_then(|record| if record.q_key == QKey(id.qkey) { Ok(record) } else { Err(libc::EINVAL) });
        let port = id.port;
        let (kind, status, parameters) = match joined {
            Ok(record) => {
                let group = port.map(|port| (port, record));
                let parameters = Parameters { qpn: GROUP_QPN, qkey: record.q_key.0, group, ..Parameters::default() };
                (Kind::MulticastJoin, 0, parameters)
            }
            Err(errno) => (Kind::MulticastError, -errno, Parameters::default()),
        };
        let channel = id.channel;
        let event = Event { at: now, counted_by, multicast: Some(number), uid, id: number, kind, status, is_datagram: true, parameters };
        self.queue(channel, event);
    }
}

/// Returns the GID of a group of this address (RFC 4391 section 4; `cma_set_mgid` of the kernel).
fn mgid_of(to: &Address, space: u16, pkey: PKey) -> Gid {
    const IPV4: u8 = 0x40;
    const IPV6: u8 = 0x60;
    const OWN_OF_ADMINISTRATION: [u8; 2] = [0xA0, 0x1B];
    let ip = to.ip();
    if to.is_any() {
        return Gid::default();
    }
    let is_chosen = ip[0] == 0xFF && ip[1] >> 4 == 1 && ip[2..4] == OWN_OF_ADMINISTRATION;
    if to.is_ib() || to.is_v6() && is_chosen {
        return Gid(ip);
    }
    let mut gid = Gid::default();
    // The port space of datagrams has groups of its own.
    let signature = if space == SPACE_UDP { 0x01 } else { 0x1B };
    gid.0[..4].copy_from_slice(&[0xFF, 0x10 | SCOPE_LINK_LOCAL, if to.is_v6() { IPV6 } else { IPV4 }, signature]);
    gid.0[4..6].copy_from_slice(&pkey.0.to_be_bytes());
    if to.is_v6() {
        gid.0[6..].copy_from_slice(&ip[6..]);
    } else {
        gid.0[12..].copy_from_slice(&[ip[12] & 0xF, ip[13], ip[14], ip[15]]);
    }
    gid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_addresses_have_the_gids_of_the_kernel() {
        let of = |to, space| mgid_of(&to, space, PKey(0x8001)).0;
        let v4 = Address::v4(0xEF12_3456, 7);
        assert_eq!(of(v4, SPACE_UDP), [0xFF, 0x12, 0x40, 0x01, 0x80, 1, 0, 0, 0, 0, 0, 0, 0x0F, 0x12, 0x34, 0x56]);
        assert_eq!(of(v4, SPACE_IPOIB)[2..4], [0x40, 0x1B]);
        let v6 = std::array::from_fn(|index| if index == 0 { 0xFF } else { index as u8 });
        assert_eq!(of(Address::v6(v6, 7), SPACE_UDP), [0xFF, 0x12, 0x60, 0x01, 0x80, 1, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        let mut chosen = v6;
        chosen[1..4].copy_from_slice(&[0x12, 0xA0, 0x1B]);
        assert_eq!(of(Address::v6(chosen, 7), SPACE_UDP), chosen);
        assert_eq!(of(Address::v4(0, 7), SPACE_UDP), [0; 16], "subnet administration chooses");
    }
}
