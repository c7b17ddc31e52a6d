//! Objects that queue pairs share: shared receive queues, XRC domains, multicast groups.

use crate::host::objects::About;
use crate::protocol::Caller;
use crate::protocol::convert;
use crate::realtime::direct::named_peer;
use crate::realtime::receive_queues::QueueName;
use crate::rpc::room::Verbs;
use softband_fabric::World;
use softband_ipc::calls::{self, Count, DatagramReceiver, GroupMembers, Handle, Multicast, SrqFields, WithTail};
use softband_model::verbs::api::{SrqInit, SrqOfXrc, VerbsError};
use softband_model::verbs::{SharedReceiveQueue, XrcdOpen};
use softband_types::{CqHandle, Gid, HcaId, Lid, PdHandle, ProcessId, Qpn, SrqHandle, XrcdHandle};

/// Bits of `enum ibv_srq_attr_mask`.
const MAX_WR: u32 = 1;
const LIMIT: u32 = 2;
/// Most members of a group in an answer.
const GROUP_RECEIVERS_MAX: usize = 1024;

/// A queue pair joins or leaves a multicast group.
type GroupChange = fn(&mut World, ProcessId, HcaId, Qpn, Gid, Lid) -> Result<(), VerbsError>;
/// Returns whether a [`GroupChange`] would change the members.
type GroupCheck = fn(&World, ProcessId, HcaId, Qpn, Gid, Lid) -> bool;

impl Verbs<'_> {
    pub(crate) fn create_srq(&mut self, caller: Caller, fields: &SrqFields) -> Result<SrqFields, i32> {
        let hca = self.own_hca(caller, fields.hca)?;
        let xrc = (fields.xrcd != 0).then_some(SrqOfXrc { xrcd: XrcdHandle(fields.xrcd), cq: CqHandle(fields.cq) });
        let init = SrqInit { pd: PdHandle(fields.pd), max_wr: fields.max_wr, max_sge: fields.max_sge, xrc };
        let srq = self.world.create_srq(caller.owner, hca, init).map_err(convert::errno_of)?;
        let most = self.world.hca_part(hca).optional.max_srq_wr;
        self.plane().make_shared_queue(caller.process, hca, srq, &init, most);
        self.srq_fields(caller.owner, srq)
    }

    pub(crate) fn destroy_srq(&mut self, caller: Caller, srq: &Handle) -> Result<Count, i32> {
        let (owner, srq) = (caller.owner, SrqHandle(srq.handle));
        let hca = self.world.query_srq(owner, srq).map_err(convert::errno_of)?.hca;
        self.world.destroy_srq(owner, srq).map_err(convert::errno_of)?;
        self.plane().drop_shared_queue(srq);
        Ok(self.drop_async_events(owner, hca, About::SharedQueue, srq.0))
    }

    pub(crate) fn modify_srq(&mut self, caller: Caller, fields: &SrqFields) -> Result<SrqFields, i32> {
        if fields.mask & !(MAX_WR | LIMIT) != 0 {
            return Err(libc::EINVAL);
        }
        let (owner, srq) = (caller.owner, SrqHandle(fields.handle));
        let max_wr = (fields.mask & MAX_WR != 0).then_some(fields.max_wr);
        let limit = (fields.mask & LIMIT != 0).then_some(fields.limit);
        if self.world.query_srq(owner, srq).is_ok() {
            self.plane().take_over_queue_of_many(QueueName::Shared(srq)); // both depend on the number of waiting requests
        }
        self.world.modify_srq(owner, srq, max_wr, limit).map_err(convert::errno_of)?;
        if let Some(max_wr) = max_wr {
            self.plane().resize_shared_queue(srq, max_wr);
        }
        self.srq_fields(owner, srq)
    }

    pub(crate) fn query_srq(&mut self, caller: Caller, srq: &Handle) -> Result<SrqFields, i32> {
        self.srq_fields(caller.owner, SrqHandle(srq.handle))
    }

    fn srq_fields(&mut self, owner: ProcessId, srq: SrqHandle) -> Result<SrqFields, i32> {
        self.plane().look_at_limit(srq);
        let found = self.world.query_srq(owner, srq).map_err(convert::errno_of)?;
        let SrqInit { pd, max_wr, max_sge, xrc } = found.init;
        Ok(SrqFields {
            hca: 0,
            handle: srq.0,
            pd: pd.0,
            mask: 0,
            max_wr,
            max_sge,
            limit: found.limit,
            number: SharedReceiveQueue::number_of(srq),
            xrcd: xrc.map_or(0, |xrc| xrc.xrcd.0),
            cq: xrc.map_or(0, |xrc| xrc.cq.0),
            direct: self.realtime.shared_entry_of(srq),
        })
    }

    pub(crate) fn open_xrcd(&mut self, caller: Caller, open: &calls::OpenXrcd) -> Result<Handle, i32> {
        let hca = self.own_hca(caller, open.hca)?;
        let key = (open.has_file != 0).then_some((open.device, open.inode));
        let open = XrcdOpen { key, create: open.create != 0, exclusive: open.exclusive != 0 };
        let xrcd = self.world.open_xrcd(caller.owner, hca, open).map_err(convert::errno_of)?;
        Ok(Handle { handle: xrcd.0, reserved: 0 })
    }

    pub(crate) fn close_xrcd(&mut self, caller: Caller, xrcd: &Handle) -> Result<(), i32> {
        self.world.close_xrcd(caller.owner, XrcdHandle(xrcd.handle)).map_err(convert::errno_of)
    }

    /// Returns the table entry of the queue that XRC messages name.
    pub(crate) fn find_xrc_queue(&mut self, caller: Caller, of: &calls::XrcQueue) -> Result<Handle, i32> {
        let hca = self.own_hca(caller, of.hca)?;
        let qp = self.world.query_qp(caller.owner, hca, Qpn(of.qpn)).map_err(convert::errno_of)?;
        let target = named_peer(self.world, hca, &qp).and_then(|(hca, qpn)| self.world.find_qp(hca, qpn));
        let queue = target.and_then(|(_, target)| self.world.queue_of_domain(target.init.xrcd?, of.number));
        Ok(Handle { handle: queue.map_or(0, |(srq, _)| self.realtime.shared_entry_of(srq)), reserved: 0 })
    }

    pub(crate) fn attach_multicast(&mut self, caller: Caller, of: &Multicast) -> Result<(), i32> {
        self.change_group(caller, of, (World::would_attach, World::attach_multicast))
    }

    pub(crate) fn detach_multicast(&mut self, caller: Caller, of: &Multicast) -> Result<(), i32> {
        self.change_group(caller, of, (World::would_detach, World::detach_multicast))
    }

    fn change_group(&mut self, caller: Caller, of: &Multicast, (changes, change): (GroupCheck, GroupChange)) -> Result<(), i32> {
        let hca = self.own_hca(caller, of.hca)?;
        let mlid = Lid(u16::try_from(of.mlid).map_err(|_| libc::EINVAL)?);
        let (qpn, mgid) = (Qpn(of.qpn), Gid(of.mgid));
        // A look holds the engine up, so a program gets none for a vain request.
        if changes(self.world, caller.owner, hca, qpn, mgid, mlid) {
            self.plane().count_all_direct_traffic();
        }
        change(self.world, caller.owner, hca, qpn, mgid, mlid).map_err(convert::errno_of)?;
        self.note_groups_changed();
        Ok(())
    }

    /// Publishes a change of group members. When this returns, no program sends to the former
    /// members.
    pub(crate) fn note_groups_changed(&self) {
        if self.scheduler.is_wall() {
            self.realtime.note_groups_changed(self.processes);
        }
    }

    /// Lists the queue pairs that receive messages of a queue pair to a group. Lists at most as
    /// many as a program accepts.
    pub(crate) fn find_group(&mut self, caller: Caller, of: &Multicast) -> Result<WithTail<GroupMembers, DatagramReceiver>, i32> {
        let hca = self.own_hca(caller, of.hca)?;
        let mlid = Lid(u16::try_from(of.mlid).map_err(|_| libc::EINVAL)?);
        let group_receivers = self.world.group_receivers((hca, Qpn(of.qpn)), mlid, Gid(of.mgid));
        let head = GroupMembers { version: self.realtime.groups_version(), count: group_receivers.len() as u32 };
        let receiver = |(lid, qpn): &(Lid, Qpn)| DatagramReceiver { lid: u32::from(lid.0), qpn: qpn.0 };
        Ok(WithTail { head, tail: group_receivers.iter().take(GROUP_RECEIVERS_MAX).map(receiver).collect() })
    }
}
