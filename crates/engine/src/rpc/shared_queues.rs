//! Objects that queue pairs share: shared receive queues, XRC domains, multicast groups.

use crate::engine::{Engine, Pace};
use crate::host::objects::About;
use crate::realtime::receive_queues::QueueName;
use crate::rpc::calls::{Answer, reply};
use crate::rpc::convert;
use softband_ipc::calls::{self, Op, SrqFields};
use softband_model::verbs::api::{SrqInit, SrqOfXrc};
use softband_model::verbs::{SharedReceiveQueue, XrcdOpen};
use softband_types::{CqHandle, Gid, Lid, PdHandle, Qpn, SrqHandle, XrcdHandle};

/// Bits of `enum ibv_srq_attr_mask`.
const MAX_WR: u32 = 1;
const LIMIT: u32 = 2;
/// Most members of a group in an answer.
const HEARERS_MAX: usize = 1024;

impl Engine {
    pub(crate) fn create_srq(&mut self, process: usize, fields: &SrqFields) -> Answer {
        let hca = self.own_hca(process, fields.hca)?;
        let owner = self.processes[process].number;
        let xrc = (fields.xrcd != 0).then_some(SrqOfXrc { xrcd: XrcdHandle(fields.xrcd), cq: CqHandle(fields.cq) });
        let init = SrqInit { pd: PdHandle(fields.pd), max_wr: fields.max_wr, max_sge: fields.max_sge, xrc };
        let srq = self.world.create_srq(owner, hca, init).map_err(convert::errno_of)?;
        let most = self.world.hca_part(hca).optional.max_srq_wr;
        self.make_shared_queue(process, hca, srq, &init, most);
        self.query_srq(process, srq)
    }

    pub(crate) fn destroy_srq(&mut self, process: usize, srq: SrqHandle) -> Answer {
        let owner = self.processes[process].number;
        let hca = self.world.query_srq(owner, srq).map_err(convert::errno_of)?.hca;
        self.world.destroy_srq(owner, srq).map_err(convert::errno_of)?;
        self.drop_shared_queue(srq);
        Ok(self.drop_async_events(owner, hca, About::SharedQueue, srq.0))
    }

    pub(crate) fn modify_srq(&mut self, process: usize, fields: &SrqFields) -> Answer {
        if fields.mask & !(MAX_WR | LIMIT) != 0 {
            return Err(libc::EINVAL);
        }
        let owner = self.processes[process].number;
        let srq = SrqHandle(fields.handle);
        let max_wr = (fields.mask & MAX_WR != 0).then_some(fields.max_wr);
        let limit = (fields.mask & LIMIT != 0).then_some(fields.limit);
        if self.world.query_srq(owner, srq).is_ok() {
            self.take_over_queue_of_many(QueueName::Shared(srq)); // both depend on the number of waiting requests
        }
        self.world.modify_srq(owner, srq, max_wr, limit).map_err(convert::errno_of)?;
        if let Some(max_wr) = max_wr {
            self.resize_shared_queue(srq, max_wr);
        }
        self.query_srq(process, srq)
    }

    pub(crate) fn query_srq(&mut self, process: usize, srq: SrqHandle) -> Answer {
        self.look_at_limit(srq);
        let found = self.world.query_srq(self.processes[process].number, srq).map_err(convert::errno_of)?;
        let SrqInit { pd, max_wr, max_sge, xrc } = found.init;
        Ok(reply(&SrqFields {
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
            direct: self.direct.shared_entry_of(srq),
        }))
    }

    pub(crate) fn open_xrcd(&mut self, process: usize, open: &calls::OpenXrcd) -> Answer {
        let hca = self.own_hca(process, open.hca)?;
        let owner = self.processes[process].number;
        let key = (open.has_file != 0).then_some((open.device, open.inode));
        let open = XrcdOpen { key, create: open.create != 0, exclusive: open.exclusive != 0 };
        let xrcd = self.world.open_xrcd(owner, hca, open).map_err(convert::errno_of)?;
        Ok(reply(&calls::Handle { handle: xrcd.0, reserved: 0 }))
    }

    /// Returns the table entry of the queue that XRC messages name.
    pub(crate) fn find_xrc_queue(&self, process: usize, of: &calls::XrcQueue) -> Answer {
        let hca = self.own_hca(process, of.hca)?;
        let qp = self.world.query_qp(self.processes[process].number, hca, Qpn(of.qpn)).map_err(convert::errno_of)?;
        let target = self.named_peer(hca, &qp).and_then(|(hca, qpn)| self.world.find_qp(hca, qpn));
        let queue = target.and_then(|(_, target)| self.world.queue_of_domain(target.init.xrcd?, of.number));
        Ok(reply(&calls::Handle { handle: queue.map_or(0, |(srq, _)| self.direct.shared_entry_of(srq)), reserved: 0 }))
    }

    pub(crate) fn multicast(&mut self, process: usize, op: Op, wanted: &calls::Multicast) -> Answer {
        let hca = self.own_hca(process, wanted.hca)?;
        let owner = self.processes[process].number;
        let mlid = Lid(u16::try_from(wanted.mlid).map_err(|_| libc::EINVAL)?);
        let (qpn, mgid) = (Qpn(wanted.qpn), Gid(wanted.mgid));
        let done = match op {
            Op::AttachMulticast => self.world.attach_multicast(owner, hca, qpn, mgid, mlid),
            _ => self.world.detach_multicast(owner, hca, qpn, mgid, mlid),
        };
        if done.is_ok() {
            self.note_groups_changed();
        }
        done.map(|()| Vec::new()).map_err(convert::errno_of)
    }

    /// Publishes a change of group members. When this returns, no program sends to the former
    /// members.
    pub(crate) fn note_groups_changed(&self) {
        if self.pace != Pace::Wall {
            return;
        }
        self.direct.note_groups_changed();
        self.await_quiescence();
    }

    /// Lists the queue pairs that receive messages of a queue pair to a group. Lists at most as
    /// many as a program accepts.
    pub(crate) fn find_group(&self, process: usize, of: &calls::Multicast) -> Answer {
        let hca = self.own_hca(process, of.hca)?;
        let mlid = Lid(u16::try_from(of.mlid).map_err(|_| libc::EINVAL)?);
        let hearers = self.world.hearers((hca, Qpn(of.qpn)), mlid, Gid(of.mgid));
        let mut answer = reply(&calls::GroupMembers { version: self.direct.groups_version(), count: hearers.len() as u32 });
        answer.extend(hearers.iter().take(HEARERS_MAX).flat_map(|(lid, qpn)| reply(&calls::DatagramReceiver { lid: u32::from(lid.0), qpn: qpn.0 })));
        Ok(answer)
    }

    pub(crate) fn open_qp(&mut self, process: usize, open: &calls::OpenQp) -> Answer {
        let owner = self.processes[process].number;
        let qp = self.world.open_qp(owner, XrcdHandle(open.xrcd), Qpn(open.qpn)).map_err(convert::errno_of)?;
        Ok(reply(&convert::qp_fields(0, &qp)))
    }
}
