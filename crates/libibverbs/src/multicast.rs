//! Multicast groups. A program that attaches becomes a member without a request to the subnet
//! manager.

use crate::guard::{not_null, status};
use crate::qp;
use crate::unsupported::refuse;
use libc::c_int;
use softband_abi::verbs::*;
use softband_client::{Errno, call};
use softband_ipc::calls::{Call, Multicast, op};

/// # Safety
/// The queue pair is ours and the GID may be read.
unsafe fn ask<C: Call<Request = Multicast, Reply = ()>>(abi_qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> Result<(), Errno> {
    // SAFETY: the caller's promise; any sixteen bytes are a GID.
    let (qp, mgid) = unsafe { (qp::inner(abi_qp)?, (*not_null(gid.cast_mut())?).raw) };
    let request = Multicast { hca: qp.hca, qpn: qp.qpn, mlid: u32::from(lid), reserved: 0, mgid };
    call::<C>(&request).map_err(|errno| match errno {
        Errno(libc::EOPNOTSUPP) => refuse("multicast (ibv_attach_mcast) on this HCA"),
        other => other,
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    // SAFETY: the caller names a queue pair of ours and a readable GID.
    status(|| unsafe { ask::<op::AttachMulticast>(qp, gid, lid) })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, lid: u16) -> c_int {
    // SAFETY: the caller names a queue pair of ours and a readable GID.
    status(|| unsafe { ask::<op::DetachMulticast>(qp, gid, lid) })
}
