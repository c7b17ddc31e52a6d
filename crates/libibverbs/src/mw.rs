//! Memory windows.

use crate::context::context;
use crate::guard::{not_null, object, status};
use crate::post::{Data, bind_info, charge_list, submit_send};
use crate::qp;
use crate::unsupported::refuse;
use libc::c_int;
use softband_abi::verbs::*;
use softband_client::{Errno, call};
use softband_ipc::calls::{AllocMw, Handle, RegisterMrReply, op};
use softband_ipc::post::{PostRecord, kind, opcode};

pub(crate) unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, window_type: u32) -> *mut ibv_mw {
    object(|| {
        // SAFETY: the caller names a PD of ours, and so an open context.
        let (abi_context, pd_handle, hca) = unsafe { ((*not_null(pd)?).context, (*pd).handle, context((*pd).context)?.hca) };
        if ![IBV_MW_TYPE_1, IBV_MW_TYPE_2].contains(&window_type) {
            return Err(Errno(libc::EINVAL));
        }
        let reply = call::<op::AllocMw>(&AllocMw { hca, pd: pd_handle, window_type, reserved: 0 });
        let RegisterMrReply { handle, rkey, .. } = reply.map_err(|errno| match errno {
            Errno(libc::EOPNOTSUPP) => refuse("a memory window (ibv_alloc_mw) on this HCA"),
            other => other,
        })?;
        Ok(Box::into_raw(Box::new(ibv_mw { context: abi_context, pd, rkey, handle, r#type: window_type })))
    })
}

pub(crate) unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    status(|| {
        // SAFETY: the caller names a window of ours.
        let handle = unsafe { (*not_null(mw)?).handle };
        call::<op::DeallocMw>(&Handle { handle, reserved: 0 })?;
        // SAFETY: `alloc_mw` boxed it, and nobody uses it any more.
        drop(unsafe { Box::from_raw(mw) });
        Ok(())
    })
}

/// Binds a window of type 1. The header's inline function has checked the type and the domains.
pub(crate) unsafe extern "C" fn bind_mw(abi_qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> c_int {
    status(|| {
        // SAFETY: the caller names a queue pair and a window of ours and gives a readable
        // description of the binding.
        unsafe {
            let (qp, bind, window) = (qp::inner(abi_qp)?, *not_null(bind)?, &mut *not_null(mw)?);
            // A new key for each binding, as `ibv_inc_rkey` computes it.
            let rkey = window.rkey & !0xFF | window.rkey.wrapping_add(1) & 0xFF;
            let record = PostRecord {
                kind: kind::SEND,
                flags: bind.send_flags & (IBV_SEND_FENCE | IBV_SEND_SIGNALED),
                hca: qp.hca,
                object: qp.qpn,
                wr_id: bind.wr_id,
                opcode: opcode::BIND_MW,
                rkey,
                ..bytemuck::Zeroable::zeroed()
            };
            submit_send(qp, &record, Data::Copied(bytemuck::bytes_of(&bind_info(mw, &bind.bind_info)?)))?;
            charge_list(qp);
            window.rkey = rkey;
        }
        Ok(())
    })
}
