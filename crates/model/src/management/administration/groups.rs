//! Multicast groups and their members (IBTA 15.2.5.17).

use super::paths::{PathEnd, Paths, rate_code};
use softband_types::{Gid, Lid};
use softband_wire::mad::{ComponentMask, JoinState, McMemberRecord, MtuCode, RateCode, Selector, Status, TrapNumber};
use std::collections::{BTreeMap, BTreeSet};

/// First multicast LID, and the number of those that forwarding tables of switches have.
const MLID_FIRST: u16 = 0xC000;
const MLIDS: u16 = 0x1000;
/// Life of a packet in a group: 4.096 us * 2^18, OpenSM's default.
const PACKET_LIFE_TIME: u8 = 18;
/// Scope of a group without one: the subnet (IBTA 4.1.1).
const SCOPE_LINK_LOCAL: u8 = 2;
/// Bytes of a GID that only subnet administration gives to groups (IBTA 15.2.5.17.1).
const OWN_SIGNATURE: [u8; 2] = [0xA0, 0x1B];

/// Components of each join and each leave.
const JOIN: ComponentMask =
    ComponentMask(ComponentMask::MC_MEMBER_MGID.0 | ComponentMask::MC_MEMBER_PORT_GID.0 | ComponentMask::MC_MEMBER_JOIN_STATE.0);
/// Components of the join that creates a group (IBTA o15-0.2.3).
const CREATE: ComponentMask = ComponentMask(
    JOIN.0
        | ComponentMask::MC_MEMBER_Q_KEY.0
        | ComponentMask::MC_MEMBER_P_KEY.0
        | ComponentMask::MC_MEMBER_SL.0
        | ComponentMask::MC_MEMBER_FLOW_LABEL.0
        | ComponentMask::MC_MEMBER_TCLASS.0,
);
/// Kinds of membership, and those of them that keep a group alive.
const STATES: u8 = 0xF;
const FULL: u8 = JoinState::FULL_MEMBER.0 | JoinState::SEND_ONLY_FULL_MEMBER.0;
/// Kinds of membership that receive.
const RECEIVING: u8 = JoinState::FULL_MEMBER.0 | JoinState::NON_MEMBER.0;

/// A group: the record that all members share, and the state of each member.
#[derive(Debug)]
struct Group {
    record: McMemberRecord,
    members: BTreeMap<Gid, JoinState>,
}

/// The groups of a subnet.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: BTreeMap<Gid, Group>,
    by_mlid: BTreeMap<Lid, Gid>,
    /// LIDs of groups whose members have changed.
    changed: BTreeSet<Lid>,
    /// Groups that have begun or ended.
    events: Vec<(TrapNumber, Gid)>,
    /// Number of the last group whose GID subnet administration has chosen.
    last_own: u32,
}

impl Groups {
    /// Lets a port join a group. The first full member creates it.
    ///
    /// # Errors
    /// The status of a request that lacks components, contradicts the group, or names no port.
    pub(super) fn join(&mut self, wanted: &McMemberRecord, mask: ComponentMask, paths: &dyn Paths) -> Result<McMemberRecord, Status> {
        if !mask.contains(JOIN) {
            return Err(Status::SA_INSUFFICIENT_COMPONENTS);
        }
        let port = paths.with_gid(wanted.port_gid).ok_or(Status::SA_INVALID_GID)?;
        if wanted.join_state.0 & STATES == 0 {
            return Err(Status::SA_REQUEST_INVALID);
        }
        let mgid = if self.groups.contains_key(&wanted.mgid) { wanted.mgid } else { self.create(wanted, mask, port, paths)? };
        let group = self.groups.get_mut(&mgid).ok_or(Status::SA_REQUEST_INVALID)?;
        if mgid == wanted.mgid && !(agrees(&group.record, wanted, mask) && carries(&group.record, port, paths)) {
            return Err(Status::SA_REQUEST_INVALID);
        }
        let state = group.members.entry(wanted.port_gid).or_default();
        *state = *state | wanted.join_state;
        self.changed.insert(group.record.mlid);
        Ok(McMemberRecord { port_gid: wanted.port_gid, join_state: *state, ..group.record })
    }

    /// Creates a group for its first member. Returns its GID.
    fn create(&mut self, wanted: &McMemberRecord, mask: ComponentMask, port: PathEnd, paths: &dyn Paths) -> Result<Gid, Status> {
        // IBTA o15-0.2.4: other members need a group that exists.
        if !wanted.join_state.contains(JoinState::FULL_MEMBER) {
            return Err(Status::SA_REQUEST_INVALID);
        }
        if !mask.contains(CREATE) {
            return Err(Status::SA_INSUFFICIENT_COMPONENTS);
        }
        let (mtu_least, rate_least) = paths.least().ok_or(Status::SA_NO_RESOURCES)?;
        let own = paths.path(port, port).ok_or(Status::SA_INVALID_GID)?;
        let mtus = (1..=MtuCode::from(own.mtu).0).map(MtuCode).rev();
        let mtu_selector = selector(mask, (ComponentMask::MC_MEMBER_MTU_SELECTOR, ComponentMask::MC_MEMBER_MTU), wanted.mtu_selector);
        let mtu = match mtu_selector {
            None => Some(MtuCode::from(mtu_least)),
            Some(selector) => mtus.into_iter().find(|mtu| selector.accepts(mtu.0, wanted.mtu.0)),
        };
        let most = rate_code(own.rate).tenths().unwrap_or_default();
        let rate_selector = selector(mask, (ComponentMask::MC_MEMBER_RATE_SELECTOR, ComponentMask::MC_MEMBER_RATE), wanted.rate_selector);
        let rate = match rate_selector {
            None => Some(rate_code(rate_least)),
            Some(selector) => fastest(most, |rate| Some(selector.accepts(rate, wanted.rate.tenths()?))),
        };
        let (Some(mtu), Some(rate)) = (mtu, rate) else { return Err(Status::SA_REQUEST_INVALID) };
        let of_mask = |bit, value, otherwise| if mask.contains(bit) { value } else { otherwise };
        let scope = of_mask(ComponentMask::MC_MEMBER_SCOPE, wanted.scope, SCOPE_LINK_LOCAL) & 0xF;
        let mgid = self.name(wanted.mgid, scope)?;
        let mlid = (MLID_FIRST..MLID_FIRST + MLIDS).map(Lid).find(|mlid| !self.by_mlid.contains_key(mlid)).ok_or(Status::SA_NO_RESOURCES)?;
        let record = McMemberRecord {
            mgid,
            q_key: wanted.q_key,
            mlid,
            mtu_selector: Selector::EXACTLY,
            mtu,
            tclass: wanted.tclass,
            p_key: wanted.p_key,
            rate_selector: Selector::EXACTLY,
            rate,
            packet_life_time_selector: Selector::EXACTLY,
            packet_life_time: PACKET_LIFE_TIME,
            sl: wanted.sl,
            flow_label: wanted.flow_label,
            hop_limit: of_mask(ComponentMask::MC_MEMBER_HOP_LIMIT, wanted.hop_limit, 0),
            scope: mgid.0[1] & 0xF,
            ..McMemberRecord::default()
        };
        self.by_mlid.insert(mlid, mgid);
        self.events.push((TrapNumber::MULTICAST_GROUP_CREATED, mgid));
        self.groups.insert(mgid, Group { record, members: BTreeMap::new() });
        Ok(mgid)
    }

    /// Returns the GID of a new group: the requester's, or one of those that only subnet
    /// administration gives.
    fn name(&mut self, wanted: Gid, scope: u8) -> Result<Gid, Status> {
        if wanted != Gid::default() {
            let [first, _, signature @ ..] = wanted.0;
            let is_free = first == 0xFF && signature[..2] != OWN_SIGNATURE;
            return if is_free { Ok(wanted) } else { Err(Status::SA_REQUEST_INVALID) };
        }
        self.last_own = self.last_own.wrapping_add(1);
        let mut mgid = Gid::default();
        (mgid.0[0], mgid.0[1]) = (0xFF, 0x10 | scope);
        mgid.0[2..4].copy_from_slice(&OWN_SIGNATURE);
        mgid.0[4..12].copy_from_slice(&Gid::DEFAULT_PREFIX.to_be_bytes());
        mgid.0[12..].copy_from_slice(&self.last_own.to_be_bytes());
        Ok(mgid)
    }

    /// Takes kinds of membership from a port. A group without full members ends.
    ///
    /// # Errors
    /// `SA_REQUEST_INVALID` if the port has none of them.
    pub(super) fn leave(&mut self, wanted: &McMemberRecord, mask: ComponentMask) -> Result<McMemberRecord, Status> {
        if !mask.contains(JOIN) {
            return Err(Status::SA_INSUFFICIENT_COMPONENTS);
        }
        let group = self.groups.get_mut(&wanted.mgid).ok_or(Status::SA_REQUEST_INVALID)?;
        let state = group.members.get_mut(&wanted.port_gid).filter(|state| state.0 & wanted.join_state.0 != 0).ok_or(Status::SA_REQUEST_INVALID)?;
        *state = JoinState(state.0 & !wanted.join_state.0);
        let record = McMemberRecord { port_gid: wanted.port_gid, join_state: *state, ..group.record };
        group.members.retain(|_, state| state.0 & STATES != 0);
        if group.members.values().all(|state| state.0 & FULL == 0) {
            self.groups.remove(&wanted.mgid);
            self.by_mlid.remove(&record.mlid);
            self.events.push((TrapNumber::MULTICAST_GROUP_DELETED, wanted.mgid));
        }
        self.changed.insert(record.mlid);
        Ok(record)
    }

    /// Returns the records that a request describes. A requester with the manager's key gets a record
    /// for each member, others one for each group without its members (IBTA o15-0.2.8).
    pub(super) fn matching(&self, wanted: &McMemberRecord, mask: ComponentMask, is_trusted: bool) -> Vec<McMemberRecord> {
        let names_member = mask.contains(ComponentMask::MC_MEMBER_PORT_GID);
        let of_group = |group: &Group| -> Vec<McMemberRecord> {
            if !is_trusted && !names_member {
                return vec![group.record];
            }
            let member = |(port_gid, state): (&Gid, &JoinState)| McMemberRecord { port_gid: *port_gid, join_state: *state, ..group.record };
            group.members.iter().map(member).collect()
        };
        let is_wanted = |record: &McMemberRecord| {
            let state = !mask.contains(ComponentMask::MC_MEMBER_JOIN_STATE) || record.join_state.contains(wanted.join_state);
            agrees(record, wanted, mask) && state && (!names_member || record.port_gid == wanted.port_gid)
        };
        let groups: Box<dyn Iterator<Item = &Group>> = if mask.contains(ComponentMask::MC_MEMBER_MGID) {
            Box::new(self.groups.get(&wanted.mgid).into_iter())
        } else {
            Box::new(self.groups.values())
        };
        groups.flat_map(of_group).filter(is_wanted).collect()
    }

    /// Returns the members that receive packets with a multicast LID.
    pub(super) fn receivers(&self, mlid: Lid) -> Vec<Gid> {
        let group = self.by_mlid.get(&mlid).and_then(|mgid| self.groups.get(mgid));
        let members = group.into_iter().flat_map(|group| &group.members);
        members.filter(|(_, state)| state.0 & RECEIVING != 0).map(|(gid, _)| *gid).collect()
    }

    /// Takes the groups that have begun or ended.
    pub(super) fn take_events(&mut self) -> Vec<(TrapNumber, Gid)> {
        std::mem::take(&mut self.events)
    }

    /// Takes the LIDs of groups whose members have changed.
    pub(super) fn take_changed(&mut self) -> BTreeSet<Lid> {
        std::mem::take(&mut self.changed)
    }
}

/// Returns the comparison that a request wants. A value without a comparison has no meaning (IBTA
/// 15.2.5.17, table of components).
fn selector(mask: ComponentMask, (of_selector, of_value): (ComponentMask, ComponentMask), selector: Selector) -> Option<Selector> {
    let is_best = selector == Selector::BEST && mask.contains(of_selector);
    (is_best || mask.contains(of_selector | of_value)).then_some(selector)
}

/// Returns the code of the highest acceptable rate, at most `most` tenths of a gigabit a second.
fn fastest(most: u32, is_accepted: impl Fn(u32) -> Option<bool>) -> Option<RateCode> {
    let known = (0..64).map(RateCode).filter_map(|code| Some((code.tenths()?, code)));
    known.filter(|(rate, _)| *rate <= most && is_accepted(*rate) == Some(true)).max_by_key(|(rate, _)| *rate).map(|(_, code)| code)
}

/// Checks whether a group has the properties that a request names.
fn agrees(group: &McMemberRecord, wanted: &McMemberRecord, mask: ComponentMask) -> bool {
    let equal = [
        (ComponentMask::MC_MEMBER_MGID, group.mgid == wanted.mgid),
        (ComponentMask::MC_MEMBER_Q_KEY, group.q_key == wanted.q_key),
        (ComponentMask::MC_MEMBER_MLID, group.mlid == wanted.mlid),
        (ComponentMask::MC_MEMBER_TCLASS, group.tclass == wanted.tclass),
        (ComponentMask::MC_MEMBER_P_KEY, group.p_key.partition() == wanted.p_key.partition()),
        (ComponentMask::MC_MEMBER_SL, group.sl == wanted.sl),
        (ComponentMask::MC_MEMBER_FLOW_LABEL, group.flow_label == wanted.flow_label),
        (ComponentMask::MC_MEMBER_HOP_LIMIT, group.hop_limit == wanted.hop_limit),
        (ComponentMask::MC_MEMBER_SCOPE, group.scope == wanted.scope),
    ];
    let fits = |bits, chosen: Selector, value: u32, limit: u32| selector(mask, bits, chosen).is_none_or(|selector| selector.accepts(value, limit));
    let rate = |code: RateCode| code.tenths().unwrap_or_default();
    let life = (ComponentMask::MC_MEMBER_PACKET_LIFE_TIME_SELECTOR, ComponentMask::MC_MEMBER_PACKET_LIFE_TIME);
    equal.iter().all(|(bit, is_equal)| *is_equal || !mask.contains(*bit))
        && fits((ComponentMask::MC_MEMBER_MTU_SELECTOR, ComponentMask::MC_MEMBER_MTU), wanted.mtu_selector, group.mtu.0.into(), wanted.mtu.0.into())
        && fits((ComponentMask::MC_MEMBER_RATE_SELECTOR, ComponentMask::MC_MEMBER_RATE), wanted.rate_selector, rate(group.rate), rate(wanted.rate))
        && fits(life, wanted.packet_life_time_selector, group.packet_life_time.into(), wanted.packet_life_time.into())
}

/// Checks whether a port carries packets of a group (IBTA o15-0.2.2).
fn carries(group: &McMemberRecord, port: PathEnd, paths: &dyn Paths) -> bool {
    let is_enough = |own: super::Path| MtuCode::from(own.mtu).0 >= group.mtu.0 && rate_code(own.rate).tenths() >= group.rate.tenths();
    paths.path(port, port).is_some_and(is_enough)
}

#[cfg(test)]
mod tests;
