//! Shared receive queues.

use crate::calls::{Answer, reply};
use crate::convert;
use crate::pace::Engine;
use softband_ipc::calls::SrqFields;
use softband_model::verbs::api::SrqInit;
use softband_types::{PdHandle, SrqHandle};

/// Bits of `enum ibv_srq_attr_mask`.
const MAX_WR: u32 = 1;
const LIMIT: u32 = 2;

impl Engine {
    pub(crate) fn create_srq(&mut self, process: usize, fields: &SrqFields) -> Answer {
        let hca = self.own_hca(process, fields.hca)?;
        let owner = self.processes[process].number;
        let init = SrqInit { pd: PdHandle(fields.pd), max_wr: fields.max_wr, max_sge: fields.max_sge };
        let srq = self.world.create_srq(owner, hca, init).map_err(convert::errno_of)?;
        self.query_srq(process, srq)
    }

    pub(crate) fn modify_srq(&mut self, process: usize, fields: &SrqFields) -> Answer {
        if fields.mask & !(MAX_WR | LIMIT) != 0 {
            return Err(libc::EINVAL);
        }
        let owner = self.processes[process].number;
        let srq = SrqHandle(fields.handle);
        let max_wr = (fields.mask & MAX_WR != 0).then_some(fields.max_wr);
        let limit = (fields.mask & LIMIT != 0).then_some(fields.limit);
        self.world.modify_srq(owner, srq, max_wr, limit).map_err(convert::errno_of)?;
        self.query_srq(process, srq)
    }

    pub(crate) fn query_srq(&self, process: usize, srq: SrqHandle) -> Answer {
        let found = self.world.query_srq(self.processes[process].number, srq).map_err(convert::errno_of)?;
        let SrqInit { pd, max_wr, max_sge } = found.init;
        Ok(reply(&SrqFields { hca: 0, handle: srq.0, pd: pd.0, mask: 0, max_wr, max_sge, limit: found.limit, reserved: 0 }))
    }
}
