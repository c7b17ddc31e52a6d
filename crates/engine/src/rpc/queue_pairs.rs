//! Queue pairs.

use crate::host::objects::About;
use crate::protocol::Caller;
use crate::protocol::convert;
use crate::rpc::room::Verbs;
use softband_ipc::calls::{self, Count, Ece, QpFields, QpName};
use softband_model::verbs::api::QpSnapshot;
use softband_types::{HcaId, LinkLayer, QpState, Qpn, XrcdHandle};

impl Verbs<'_> {
    pub(crate) fn create_qp(&mut self, caller: Caller, fields: &QpFields) -> Result<QpFields, i32> {
        let hca = self.own_hca(caller, fields.hca)?;
        let init = convert::qp_init(fields)?;
        let made = self.world.create_qp(caller.owner, hca, init);
        let since_ps = self.begin_anew();
        let qp = made.map_err(convert::errno_of)?;
        self.plane().make_receive_queue(caller.process, hca, &qp);
        self.plane().note_user_of_shared_queue(hca, &qp);
        Ok(self.publish_changed(hca, &qp, since_ps))
    }

    pub(crate) fn modify_qp(&mut self, caller: Caller, modify: &calls::ModifyQp) -> Result<QpFields, i32> {
        let hca = self.own_hca(caller, modify.fields.hca)?;
        let change = convert::modification(modify.mask, &modify.fields)?;
        let qpn = Qpn(modify.fields.qpn);
        let ends = matches!(change.state, Some(QpState::Reset | QpState::Error));
        if ends && self.world.query_qp(caller.owner, hca, qpn).is_ok() {
            self.plane().take_over_receive_queue(hca, qpn);
        }
        let around = if ends { self.plane().queues_around(hca, qpn) } else { Vec::new() };
        let changed = self.world.modify_qp(self.scheduler.now(), caller.owner, hca, qpn, &change);
        let mut since_ps = 0;
        if changed.as_ref().is_ok_and(|qp| qp.state == QpState::Reset) {
            since_ps = self.begin_anew();
            self.plane().restart_receive_queue(hca, qpn);
            self.plane().raise_all_due(&around);
            self.plane().look_at_limits();
        }
        if change.state.is_some() && self.world.is_in_group(hca, qpn) {
            self.note_groups_changed(); // the queue pair may have gained or lost its port
        }
        Ok(self.publish_changed(hca, &changed.map_err(convert::errno_of)?, since_ps))
    }

    pub(crate) fn query_qp(&mut self, caller: Caller, name: &QpName) -> Result<QpFields, i32> {
        let hca = self.own_hca(caller, name.hca)?;
        let qp = self.world.query_qp(caller.owner, hca, Qpn(name.qpn)).map_err(convert::errno_of)?;
        Ok(self.reply_of(hca, &qp, 0))
    }

    pub(crate) fn destroy_qp(&mut self, caller: Caller, name: &QpName) -> Result<Count, i32> {
        let (hca, qpn) = (self.own_hca(caller, name.hca)?, Qpn(name.qpn));
        let around = self.plane().queues_around(hca, qpn);
        self.world.destroy_qp(self.scheduler.now(), caller.owner, hca, qpn).map_err(convert::errno_of)?;
        self.plane().publish_queue_pair(hca, qpn);
        self.plane().drop_receive_queue(hca, qpn);
        self.plane().raise_all_due(&around);
        self.plane().look_at_limits();
        Ok(self.drop_async_events(caller.owner, hca, About::QueuePair, qpn.0))
    }

    pub(crate) fn open_qp(&mut self, caller: Caller, open: &calls::OpenQp) -> Result<QpFields, i32> {
        let qp = self.world.open_qp(caller.owner, XrcdHandle(open.xrcd), Qpn(open.qpn)).map_err(convert::errno_of)?;
        Ok(convert::qp_fields(0, &qp))
    }

    /// Returns the connection options of a queue pair. No modelled HCA has such options.
    pub(crate) fn query_ece(&mut self, caller: Caller, name: &QpName) -> Result<Ece, i32> {
        let hca = self.own_hca(caller, name.hca)?;
        self.world.query_qp(caller.owner, hca, Qpn(name.qpn)).map_err(convert::errno_of)?;
        Ok(Ece { vendor_id: self.world.hca_part(hca).vendor_id, options: 0, comp_mask: 0, reserved: 0 })
    }

    /// Accepts the options of [`Self::query_ece`]. A peer of another vendor may have sent them, so the
    /// vendor does not matter where no option is set.
    pub(crate) fn set_ece(&mut self, caller: Caller, set: &calls::SetEce) -> Result<(), i32> {
        let had = self.query_ece(caller, &set.qp)?;
        let is_had = set.ece.options & !had.options == 0 && set.ece.comp_mask & !had.comp_mask == 0;
        if is_had { Ok(()) } else { Err(libc::EINVAL) }
    }

    /// Publishes a new or changed queue pair to other programs, and returns it for its own program.
    fn publish_changed(&mut self, hca: HcaId, qp: &QpSnapshot, since_ps: u64) -> QpFields {
        self.plane().publish_queue_pair(hca, qp.qpn);
        if since_ps != 0 {
            self.realtime.set_since(hca, qp.qpn, since_ps);
        }
        self.reply_of(hca, qp, since_ps)
    }

    fn reply_of(&self, hca: HcaId, qp: &QpSnapshot, since_ps: u64) -> QpFields {
        let direct = self.realtime.entry_of(hca, qp.qpn);
        QpFields { direct, since_ps: [since_ps as u32, (since_ps >> 32) as u32], ..self.abi_queue_pair(hca, qp) }
    }

    /// Returns a queue pair as its program sees it: on Ethernet without the LID of its peer's GID.
    pub(crate) fn abi_queue_pair(&self, hca: HcaId, qp: &QpSnapshot) -> QpFields {
        let mut fields = convert::qp_fields(hca.0, qp);
        if self.world.link_layer(hca) == LinkLayer::Ethernet {
            fields.vector.dlid = 0;
        }
        fields
    }

    /// Returns a moment after every completion so far, in wall pace. It separates completions of a
    /// new queue pair from those of a former queue pair with its number. In simulated time the time
    /// of the answer separates them.
    fn begin_anew(&mut self) -> u64 {
        if !self.scheduler.is_wall() {
            return 0;
        }
        self.scheduler.advance_to(self.world.now());
        self.scheduler.advance_by_one().as_picos()
    }
}
