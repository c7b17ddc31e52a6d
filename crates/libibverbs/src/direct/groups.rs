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

/// Members of each group, by LID and GID, with the version of all groups.
#[derive(Default)]
pub(crate) struct Groups(BTreeMap<(u16, [u8; 16]), (u32, Vec<DatagramReceiver>)>);

impl Groups {
    /// Returns the members that receive this queue pair's datagrams. Callers hold no guard, because
    /// this may call the engine.
    fn members(&mut self, qp: &QpInner, (mlid, mgid): (u16, [u8; 16])) -> Option<(u32, &[DatagramReceiver])> {
        let version = guard_tables()?.groups_version();
        if self.0.get(&(mlid, mgid)).is_none_or(|(of, _)| *of != version) {
            if self.0.len() > GROUPS_MAX {
                self.0.clear();
            }
            self.0.insert((mlid, mgid), ask(qp, (mlid, mgid))?);
        }
        self.0.get(&(mlid, mgid)).map(|(version, members)| (*version, members.as_slice()))
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
pub(super) fn deliver(
    at: (&QpInner, u32),
    (receivers, groups, lane): (&mut Receivers, &mut Groups, &mut Lane),
    record: &PostRecord,
    data: &Data<'_>,
) -> Direct<u64> {
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
    {
        lane.count_datagram((at.0, Way(own.way.load(Ordering::Relaxed))), record, len_bytes);
    }
    Ok(len_bytes)
}
