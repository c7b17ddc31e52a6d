//! Datagrams to multicast groups. The sending thread copies them to each member, as switches and
//! HCAs would.
//!
//! If the engine must deliver to any member, it delivers to all of them, and this code to none.

use super::Direct;
use super::counting::Lane;
use super::datagram::{self, Receivers};
use crate::post::Data;
use crate::qp::QpInner;
use softband_client::call_with_tail;
use softband_client::direct::guard_tables;
use softband_ipc::calls::{DatagramReceiver, Multicast, op};
use softband_ipc::post::{HAS_ROUTE, ON_ETHERNET, PostRecord, path, split_path};
use softband_shm_transport::fallback::FallbackReason;
use softband_shm_transport::traffic::Way;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Most members of a group that this code serves. The engine serves larger groups.
const MEMBERS_MAX: usize = 256;
/// Most known groups. The library forgets all of them above this number.
const GROUPS_MAX: usize = 256;

/// The known groups, by LID and GID.
#[derive(Default)]
pub(crate) struct Groups(BTreeMap<(u16, [u8; 16]), Group>);

/// A group as of a version of all groups.
#[derive(Default)]
struct Group {
    version: u32,
    members: Vec<DatagramReceiver>,
    /// Counters of the datagrams to the group.
    lane: Lane,
}

impl Groups {
    /// Returns the members that receive this queue pair's datagrams. Callers hold no guard, because
    /// this may call the engine.
    fn members(&mut self, qp: &QpInner, (mlid, mgid): (u16, [u8; 16])) -> Option<(u32, &[DatagramReceiver])> {
        let version = guard_tables()?.groups_version();
        if self.0.get(&(mlid, mgid)).is_none_or(|group| group.version != version) {
            let (version, members) = ask(qp, (mlid, mgid))?;
            if self.0.len() > GROUPS_MAX {
                self.0.clear();
            }
            let group = self.0.entry((mlid, mgid)).or_default();
            (group.version, group.members) = (version, members);
        }
        self.0.get(&(mlid, mgid)).map(|group| (group.version, group.members.as_slice()))
    }
}

#[cold]
fn ask(qp: &QpInner, (mlid, mgid): (u16, [u8; 16])) -> Option<(u32, Vec<DatagramReceiver>)> {
    let of = Multicast { hca: qp.hca, qpn: qp.qpn, mlid: u32::from(mlid), reserved: 0, mgid };
    let mut members = [DatagramReceiver { lid: 0, qpn: 0 }; MEMBERS_MAX];
    let (found, _) = call_with_tail::<op::FindGroup>(&of, &[], &mut members).ok()?;
    // A group that is too large has no known members here, so the engine gets all its datagrams.
    Some((found.version, members.get(..found.count as usize).unwrap_or_default().to_vec()))
}

/// Sends a datagram to a group. Returns its length in bytes, or the reason why the engine must
/// handle it.
pub(super) fn deliver(at: (&QpInner, u32), (receivers, groups): (&mut Receivers, &mut Groups), record: &PostRecord, data: &Data<'_>) -> Direct<u64> {
    let (mlid, service_level) = split_path(record.path);
    let group = (mlid, record.route().dgid);
    let (mut version, members) = groups.members(at.0, group).ok_or(FallbackReason::UnknownDestination)?;
    let members = members.to_vec(); // the members at the time of sending
    let to = |member: &DatagramReceiver| PostRecord {
        path: path(member.lid as u16, service_level) | record.path & (HAS_ROUTE | ON_ETHERNET),
        remote_qpn: member.qpn,
        ..*record
    };
    if !members.iter().all(|member| datagram::is_within_reach(at, receivers, &to(member))) {
        return Err(FallbackReason::ReceiverRefuses);
    }
    let (first, others) = members.split_first().ok_or(FallbackReason::UnknownDestination)?;
    let len_bytes = datagram::deliver(at, receivers, (Some(version), true), &to(first), data)?;
    // After one vain wait, no other member gets a wait. A member that a datagram does not reach
    // loses it alone.
    let mut may_wait = true;
    for member in others {
        while datagram::deliver(at, receivers, (Some(version), may_wait), &to(member), data).is_err() {
            let Some((present, members)) = groups.members(at.0, group) else { break };
            if present == version || !members.iter().any(|present| (present.lid, present.qpn) == (member.lid, member.qpn)) {
                may_wait = false;
                break;
            }
            version = present; // another member has joined or left
        }
    }
    if let Some(guard) = guard_tables()
        && let Some(own) = guard.queue_pair(at.1, at.0.qpn)
        && let Some(known) = groups.0.get_mut(&group)
    {
        known.lane.count_datagram((at.0, Way(own.way.load(Ordering::Relaxed))), record, len_bytes);
    }
    Ok(len_bytes)
}
