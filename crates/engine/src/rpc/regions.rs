//! Registered memory.

use crate::protocol::Caller;
use crate::protocol::convert;
use crate::rpc::room::Verbs;
use softband_ipc::calls::{self, Handle, RegisterMrReply};
use softband_model::verbs::WindowType;
use softband_model::verbs::api::{MrChange, MrInit, MrRange};
use softband_types::{MrHandle, MwHandle, PdHandle, ProcessId};

/// Bits of `enum ibv_rereg_mr_flags`.
const CHANGE_TRANSLATION: u32 = 1;
const CHANGE_PD: u32 = 2;
const CHANGE_ACCESS: u32 = 4;

impl Verbs<'_> {
    pub(crate) fn register_mr(&mut self, caller: Caller, mr: &calls::RegisterMr) -> Result<RegisterMrReply, i32> {
        let hca = self.own_hca(caller, mr.hca)?;
        let access = convert::access(mr.access)?;
        // On-demand pages need not exist yet.
        let pinned = mr.access & calls::RegisterMr::ACCESS_ON_DEMAND == 0;
        if pinned && !self.memory.can_be_pinned(caller.owner, (mr.address, mr.len_bytes), access.local_write, mr.shared == 0) {
            return Err(libc::EFAULT);
        }
        let init = MrInit { owner: caller.owner, pd: PdHandle(mr.pd), address: mr.address, len_bytes: mr.len_bytes, iova: mr.iova, access };
        let (handle, lkey, rkey) = self.world.register_mr(hca, init).map_err(convert::errno_of)?;
        self.processes[caller.process].note_region(access.remote_write || access.remote_atomic);
        self.plane().publish_region(handle, mr.shared != 0);
        Ok(RegisterMrReply { handle: handle.0, lkey: lkey.0, rkey: rkey.0, reserved: 0 })
    }

    pub(crate) fn reregister_mr(&mut self, caller: Caller, mr: &calls::ReregisterMr) -> Result<RegisterMrReply, i32> {
        if mr.change == 0 || mr.change & !(CHANGE_TRANSLATION | CHANGE_PD | CHANGE_ACCESS) != 0 {
            return Err(libc::EINVAL);
        }
        let owner = caller.owner;
        let access = (mr.change & CHANGE_ACCESS != 0).then(|| convert::access(mr.access)).transpose()?;
        let change = MrChange {
            pd: (mr.change & CHANGE_PD != 0).then_some(PdHandle(mr.pd)),
            range: (mr.change & CHANGE_TRANSLATION != 0).then_some(MrRange { address: mr.address, len_bytes: mr.len_bytes, iova: mr.iova }),
            access,
        };
        let former = self.world.region(MrHandle(mr.mr)).map(|(_, init)| init.access);
        let is_written = access.or(former).is_some_and(|access| access.local_write);
        if let Some(range) = change.range
            && !self.memory.can_be_pinned(owner, (range.address, range.len_bytes), is_written, true)
        {
            return Err(libc::EFAULT);
        }
        // As for deregistration: the program may unmap the former place after this call.
        self.memory.flush(owner);
        self.withdraw_own_region(owner, MrHandle(mr.mr));
        let (lkey, rkey) = self.world.reregister_mr(owner, MrHandle(mr.mr), &change).map_err(convert::errno_of)?;
        self.processes[caller.process].note_region(access.is_some_and(|access| access.remote_write || access.remote_atomic));
        self.plane().publish_region(MrHandle(lkey.0), false);
        Ok(RegisterMrReply { handle: mr.mr, lkey: lkey.0, rkey: rkey.0, reserved: 0 })
    }

    pub(crate) fn alloc_mw(&mut self, caller: Caller, mw: &calls::AllocMw) -> Result<RegisterMrReply, i32> {
        let window_type = match mw.window_type {
            1 => WindowType::One,
            2 => WindowType::Two,
            _ => return Err(libc::EINVAL),
        };
        let (mw, rkey) = self.world.alloc_mw(caller.owner, PdHandle(mw.pd), window_type).map_err(convert::errno_of)?;
        Ok(RegisterMrReply { handle: mw.0, lkey: 0, rkey: rkey.0, reserved: 0 })
    }

    pub(crate) fn dealloc_mw(&mut self, caller: Caller, mw: &Handle) -> Result<(), i32> {
        self.world.dealloc_mw(caller.owner, MwHandle(mw.handle)).map_err(convert::errno_of)
    }

    /// Removes a region from the table, if `owner` owns it.
    fn withdraw_own_region(&mut self, owner: ProcessId, mr: MrHandle) {
        if self.world.region(mr).is_some_and(|(_, init)| init.owner == owner) {
            self.plane().withdraw_region(mr);
        }
    }

    pub(crate) fn deregister_mr(&mut self, caller: Caller, mr: &Handle) -> Result<(), i32> {
        let (owner, mr) = (caller.owner, MrHandle(mr.handle));
        // The engine must write accepted bytes before the program may unmap their place.
        self.memory.flush(owner);
        self.withdraw_own_region(owner, mr);
        self.world.deregister_mr(owner, mr).map_err(convert::errno_of)
    }
}
