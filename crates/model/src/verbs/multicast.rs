//! Members of multicast groups: queue pairs of an HCA (IBTA 10.5).

use super::api::VerbsError;
use super::objects::Verbs;
use softband_types::{Gid, HcaId, Lid, Qpn};
use std::collections::BTreeMap;

/// Multicast group as an HCA knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// HCA of the members.
    pub hca: HcaId,
    /// Multicast LID of the group.
    pub mlid: Lid,
    /// Multicast GID of the group.
    pub mgid: Gid,
}

/// Members of all groups, in the order in which they were attached.
#[derive(Debug, Default)]
pub struct Multicast {
    groups: BTreeMap<Group, Vec<Qpn>>,
}

impl Multicast {
    /// Returns the queue pairs that get packets for a group.
    pub fn members(&self, group: Group) -> &[Qpn] {
        self.groups.get(&group).map_or(&[], Vec::as_slice)
    }

    /// Returns the HCAs with members of any group behind this LID.
    pub fn hcas(&self, mlid: Lid) -> impl Iterator<Item = HcaId> {
        self.groups.keys().filter(move |group| group.mlid == mlid).map(|group| group.hca)
    }

    /// Checks whether a QP is a member of any group.
    pub fn is_attached(&self, hca: HcaId, qpn: Qpn) -> bool {
        self.groups.iter().any(|(group, members)| group.hca == hca && members.contains(&qpn))
    }

    /// Returns the members of all groups.
    pub fn all_members(&self) -> impl Iterator<Item = (HcaId, Qpn)> {
        self.groups.iter().flat_map(|(group, members)| members.iter().map(|qpn| (group.hca, *qpn)))
    }

    /// Takes a queue pair out of all groups. Returns the LIDs of those groups.
    pub fn detach_all(&mut self, hca: HcaId, qpn: Qpn) -> Vec<Lid> {
        let mut left = Vec::new();
        for (group, members) in self.groups.iter_mut().filter(|(group, _)| group.hca == hca) {
            if let Some(at) = members.iter().position(|member| *member == qpn) {
                members.remove(at);
                left.push(group.mlid);
            }
        }
        self.groups.retain(|_, members| !members.is_empty());
        left
    }
}

impl Verbs {
    /// Checks whether a queue pair may become a member. Changes nothing.
    ///
    /// # Errors
    /// `Unsupported` on an HCA without multicast, `Invalid` for an address that is not a group's,
    /// `NoMemory` beyond its limits.
    pub fn check_attach(&self, group: Group, qpn: Qpn) -> Result<(), VerbsError> {
        let limits = &self.limits[self.hca_index(group.hca)?].optional;
        let (groups_max, members_max) = (limits.max_multicast_groups as usize, limits.max_multicast_members as usize);
        if groups_max == 0 {
            return Err(VerbsError::Unsupported);
        }
        if !group.mgid.is_multicast() || !group.mlid.is_multicast() {
            return Err(VerbsError::Invalid);
        }
        let groups = &self.multicast.groups;
        let of_hca = groups.keys().filter(|known| known.hca == group.hca).count();
        if !groups.contains_key(&group) && of_hca >= groups_max {
            return Err(VerbsError::NoMemory);
        }
        let members = self.multicast.members(group);
        if members.len() >= members_max && !members.contains(&qpn) {
            return Err(VerbsError::NoMemory);
        }
        Ok(())
    }

    /// Attaches a queue pair; a second time changes nothing.
    ///
    /// # Errors
    /// As [`Self::check_attach`].
    pub fn attach_multicast(&mut self, group: Group, qpn: Qpn) -> Result<(), VerbsError> {
        self.check_attach(group, qpn)?;
        let members = self.multicast.groups.entry(group).or_default();
        if !members.contains(&qpn) {
            members.push(qpn);
        }
        Ok(())
    }

    /// Detaches a QP from a group.
    ///
    /// # Errors
    /// `Invalid` if the QP is not attached.
    pub fn detach_multicast(&mut self, group: Group, qpn: Qpn) -> Result<(), VerbsError> {
        let members = self.multicast.groups.get_mut(&group).ok_or(VerbsError::Invalid)?;
        let at = members.iter().position(|member| *member == qpn).ok_or(VerbsError::Invalid)?;
        members.remove(at);
        if members.is_empty() {
            self.multicast.groups.remove(&group);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::objects::Limits;
    use super::*;
    use crate::parts::OptionalVerbs;

    fn group(mlid: u16, last: u8) -> Group {
        let mut mgid = Gid::default();
        (mgid.0[0], mgid.0[15]) = (0xFF, last);
        Group { hca: HcaId(0), mlid: Lid(mlid), mgid }
    }

    #[test]
    fn members_are_kept_once_in_their_order_and_within_limits() {
        let optional = OptionalVerbs { max_multicast_groups: 2, max_multicast_members: 2, ..OptionalVerbs::default() };
        let mut verbs = Verbs::new(vec![Limits { pds: 1, cqs: 1, cqes: 1, mrs: 1, ahs: 1, optional }]);
        let first = group(0xC001, 1);
        for qpn in [5, 4, 5] {
            assert_eq!(verbs.attach_multicast(first, Qpn(qpn)), Ok(()));
        }
        assert_eq!(verbs.multicast.members(first), [Qpn(5), Qpn(4)]);
        assert_eq!(verbs.attach_multicast(first, Qpn(6)), Err(VerbsError::NoMemory));
        assert_eq!([5, 6].map(|qpn| verbs.check_attach(first, Qpn(qpn))), [Ok(()), Err(VerbsError::NoMemory)]);
        assert_eq!(verbs.attach_multicast(group(0xC002, 2), Qpn(5)), Ok(()));
        assert_eq!(verbs.attach_multicast(group(0xC003, 3), Qpn(5)), Err(VerbsError::NoMemory));
        assert_eq!(verbs.attach_multicast(group(7, 3), Qpn(5)), Err(VerbsError::Invalid), "a port's LID");
        assert_eq!(verbs.attach_multicast(Group { mgid: Gid::default(), ..first }, Qpn(5)), Err(VerbsError::Invalid));
        assert_eq!(verbs.detach_multicast(first, Qpn(9)), Err(VerbsError::Invalid));
        assert_eq!(verbs.multicast.detach_all(HcaId(0), Qpn(5)), [Lid(0xC001), Lid(0xC002)]);
        assert!(!verbs.multicast.is_attached(HcaId(0), Qpn(5)) && verbs.multicast.is_attached(HcaId(0), Qpn(4)));
        assert_eq!(verbs.multicast.hcas(Lid(0xC002)).count(), 0);
    }
}
