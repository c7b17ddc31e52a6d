//! Modification and queries of queue pairs.

use crate::context::context;
use crate::convert::{capabilities, qp_attributes, qp_fields};
use crate::guard::{not_null, status};
use crate::unsupported::refuse;
use crate::{poll, qp};
use libc::c_int;
use softband_abi::verbs::*;
use softband_client::{Errno, call};
use softband_ipc::calls::{Ece, ModifyQp, QpFields, SetEce, op};
use std::sync::atomic::Ordering;

/// Attributes that the engine knows.
const KNOWN: u32 = IBV_QP_STATE
    | IBV_QP_CUR_STATE
    | IBV_QP_EN_SQD_ASYNC_NOTIFY
    | IBV_QP_ACCESS_FLAGS
    | IBV_QP_PKEY_INDEX
    | IBV_QP_PORT
    | IBV_QP_QKEY
    | IBV_QP_AV
    | IBV_QP_PATH_MTU
    | IBV_QP_TIMEOUT
    | IBV_QP_RETRY_CNT
    | IBV_QP_RNR_RETRY
    | IBV_QP_RQ_PSN
    | IBV_QP_MAX_QP_RD_ATOMIC
    | IBV_QP_MIN_RNR_TIMER
    | IBV_QP_SQ_PSN
    | IBV_QP_MAX_DEST_RD_ATOMIC
    | IBV_QP_DEST_QPN;

/// Returns the part of a mask for the engine. Drops requests that change nothing. Refuses other
/// unsupported requests.
fn mask_for_engine(attributes: &ibv_qp_attr, mask: u32) -> Result<u32, Errno> {
    let asks_for_migration = mask & IBV_QP_PATH_MIG_STATE != 0 && attributes.path_mig_state != IBV_MIG_MIGRATED;
    if mask & IBV_QP_ALT_PATH != 0 || asks_for_migration {
        return Err(refuse("path migration (ibv_modify_qp, IBV_QP_ALT_PATH)"));
    }
    if mask & IBV_QP_CAP != 0 {
        return Err(refuse("resizing a queue pair (ibv_modify_qp, IBV_QP_CAP)"));
    }
    if mask & IBV_QP_RATE_LIMIT != 0 && attributes.rate_limit != 0 {
        return Err(refuse("a rate limit (ibv_modify_qp, IBV_QP_RATE_LIMIT)"));
    }
    let harmless = IBV_QP_PATH_MIG_STATE | IBV_QP_RATE_LIMIT;
    if mask & !(KNOWN | harmless) != 0 { Err(Errno(libc::EINVAL)) } else { Ok(mask & KNOWN) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_modify_qp(abi_qp: *mut ibv_qp, attributes: *mut ibv_qp_attr, mask: c_int) -> c_int {
    status(|| {
        // SAFETY: the caller names a queue pair of ours and readable attributes. Attributes outside
        // the mask may be uninitialised in C; they are plain numbers and only copied.
        let (qp, attributes) = unsafe { (qp::inner(abi_qp)?, *not_null(attributes)?) };
        let mask = mask_for_engine(&attributes, mask as u32)?;
        let fields = QpFields { hca: qp.hca, qpn: qp.qpn, ..qp_fields(&attributes) };
        let made = call::<op::ModifyQp>(&ModifyQp { mask, reserved: 0, fields })?;
        if mask & IBV_QP_STATE != 0 {
            qp.state.store(attributes.qp_state, Ordering::Release);
            // SAFETY: the caller names a queue pair of ours. The program can read the state, and only this library writes it.
            unsafe { (*abi_qp).state = attributes.qp_state };
            if attributes.qp_state == IBV_QPS_RESET {
                qp.reset(made.since_ps);
                // SAFETY: a queue pair of ours names the context that created it, which outlives
                // it.
                poll::forget(unsafe { context((*abi_qp).context) }?, qp, qp.reset_at_ps.load(Ordering::Relaxed));
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_qp(abi_qp: *mut ibv_qp, attributes: *mut ibv_qp_attr, _mask: c_int, init: *mut ibv_qp_init_attr) -> c_int {
    status(|| {
        // SAFETY: the caller names a queue pair of ours.
        let qp = unsafe { qp::inner(abi_qp) }?;
        let fields = call::<op::QueryQp>(&qp.name())?;
        qp.state.store(fields.state, Ordering::Release);
        // SAFETY: the caller names a queue pair of ours and gives both results writable.
        unsafe {
            (*abi_qp).state = fields.state;
            not_null(attributes)?.write(ibv_qp_attr { cur_qp_state: fields.state, ..qp_attributes(&fields) });
            not_null(init)?.write(ibv_qp_init_attr {
                qp_context: (*abi_qp).qp_context,
                send_cq: (*abi_qp).send_cq,
                recv_cq: (*abi_qp).recv_cq,
                srq: (*abi_qp).srq,
                cap: capabilities(&fields),
                qp_type: (*abi_qp).qp_type,
                sq_sig_all: c_int::from(fields.signal_all != 0),
            });
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_ece(abi_qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    status(|| {
        // SAFETY: the caller names a queue pair of ours.
        let qp = unsafe { qp::inner(abi_qp) }?;
        let Ece { vendor_id, options, comp_mask, .. } = call::<op::QueryEce>(&qp.name())?;
        // SAFETY: the caller gives the result writable.
        unsafe { not_null(ece)?.write(ibv_ece { vendor_id, options, comp_mask }) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_set_ece(abi_qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    status(|| {
        // SAFETY: the caller names a queue pair of ours and readable options.
        let (qp, ibv_ece { vendor_id, options, comp_mask }) = unsafe { (qp::inner(abi_qp)?, *not_null(ece)?) };
        call::<op::SetEce>(&SetEce { qp: qp.name(), ece: Ece { vendor_id, options, comp_mask, reserved: 0 } })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    #[test]
    fn a_mask_keeps_what_the_engine_knows() {
        let mut attributes = qp_attributes(&QpFields::zeroed());
        let mask = IBV_QP_STATE | IBV_QP_PATH_MIG_STATE | IBV_QP_AV;
        assert_eq!(mask_for_engine(&attributes, mask), Ok(IBV_QP_STATE | IBV_QP_AV));
        attributes.path_mig_state = IBV_MIG_REARM;
        assert_eq!(mask_for_engine(&attributes, mask), Err(Errno(libc::EOPNOTSUPP)));
        assert_eq!(mask_for_engine(&attributes, 1 << 30), Err(Errno(libc::EINVAL)));
    }
}
