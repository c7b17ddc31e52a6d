//! Posts through `ibv_wr_*`. Programs build requests field by field between `wr_start` and
//! `wr_complete`, which posts all of them. After an error in any request, it posts none.

use crate::ah;
use crate::builder::Pending;
use crate::guard::{guarded, not_null};
use crate::post::{bind_info, charge_list, check_opcode, check_send_state, may_be_inline, submit_send};
use crate::qp::{self, QpInner};
use crate::unsupported::refuse;
use libc::{c_int, c_void};
use softband_abi::verbs::*;
use softband_client::Errno;
use softband_ipc::post::{PostRecord, kind};
use std::sync::atomic::Ordering;

/// Runs `body` with our part of the queue pair.
///
/// # Safety
/// `abi_qp` is a queue pair of ours.
unsafe fn with(abi_qp: *mut ibv_qp_ex, body: impl FnOnce(&QpInner)) {
    // SAFETY: the queue pair outlives the call of the function that its own table names.
    guarded((), || unsafe { with_it(abi_qp, body) });
}

/// As [`with`], for code that cannot panic. The frequent plain requests use it.
///
/// # Safety
/// `abi_qp` is a queue pair of ours.
#[inline(always)]
unsafe fn with_it(abi_qp: *mut ibv_qp_ex, body: impl FnOnce(&QpInner)) {
    // SAFETY: an extended queue pair of ours begins with the plain queue pair.
    if let Ok(qp) = unsafe { qp::inner(abi_qp.cast()) } {
        body(qp);
    }
}

/// Starts a request with the program's `wr_id` and `wr_flags`.
///
/// # Safety
/// `abi_qp` is a queue pair of ours.
#[inline(always)]
unsafe fn begin(abi_qp: *mut ibv_qp_ex, opcode: u32, fill: impl FnOnce(&mut PostRecord)) {
    // SAFETY: the program sets `wr_id` and `wr_flags` of its queue pair before it calls this.
    unsafe {
        with_it(abi_qp, |qp| {
            let (wr_id, flags) = ((*abi_qp).wr_id, (*abi_qp).wr_flags);
            let allowed = check_send_state(qp.state.load(Ordering::Acquire)).and_then(|()| check_opcode(qp.qp_type, opcode));
            let Some(pending) = qp.builder.begin(allowed) else { return };
            pending.record = PostRecord {
                kind: kind::SEND,
                flags: flags & (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED),
                hca: qp.hca,
                object: qp.qpn,
                wr_id,
                opcode,
                ..bytemuck::Zeroable::zeroed()
            };
            fill(&mut pending.record);
        });
    }
}

/// Entries that start a request: `name(arguments) = opcode, |record| code for further fields`.
macro_rules! operations {
    ($($name:ident($($argument:ident: $ty:ty),*) = $opcode:ident, |$record:ident| $fill:block)*) => {
        $(unsafe extern "C" fn $name(abi_qp: *mut ibv_qp_ex $(, $argument: $ty)*) {
            // SAFETY: the header's inline function passes the queue pair whose table names this
            // function.
            unsafe { begin(abi_qp, $opcode, |$record| $fill) }
        })*
    };
}

operations! {
    wr_send() = IBV_WR_SEND, |_record| {}
    wr_send_imm(immediate: u32) = IBV_WR_SEND_WITH_IMM, |record| { record.immediate = u32::from_be(immediate); }
    wr_send_inv(rkey: u32) = IBV_WR_SEND_WITH_INV, |record| { record.rkey = rkey; }
    wr_local_inv(rkey: u32) = IBV_WR_LOCAL_INV, |record| { record.rkey = rkey; }
    wr_rdma_write(rkey: u32, address: u64) = IBV_WR_RDMA_WRITE, |record| {
        (record.rkey, record.remote_address) = (rkey, address);
    }
    wr_rdma_write_imm(rkey: u32, address: u64, immediate: u32) = IBV_WR_RDMA_WRITE_WITH_IMM, |record| {
        (record.rkey, record.remote_address, record.immediate) = (rkey, address, u32::from_be(immediate));
    }
    wr_rdma_read(rkey: u32, address: u64) = IBV_WR_RDMA_READ, |record| {
        (record.rkey, record.remote_address) = (rkey, address);
    }
    wr_atomic_cmp_swp(rkey: u32, address: u64, compare: u64, swap: u64) = IBV_WR_ATOMIC_CMP_AND_SWP, |record| {
        (record.rkey, record.remote_address, record.compare_or_add, record.swap) = (rkey, address, compare, swap);
    }
    wr_atomic_fetch_add(rkey: u32, address: u64, add: u64) = IBV_WR_ATOMIC_FETCH_AND_ADD, |record| {
        (record.rkey, record.remote_address, record.compare_or_add) = (rkey, address, add);
    }
}

/// Unsupported entries: `wr_complete` returns `EOPNOTSUPP`.
macro_rules! refused_operations {
    ($($name:ident($($argument:ident: $ty:ty),*) = $what:literal;)*) => {
        $(unsafe extern "C" fn $name(abi_qp: *mut ibv_qp_ex $(, $argument: $ty)*) {
            // SAFETY: the header's inline function passes the queue pair whose table names this
            // function.
            unsafe { with(abi_qp, |qp| qp.builder.fail(refuse($what))) }
        })*
    };
}

refused_operations! {
    wr_send_tso(_header: *mut c_void, _header_bytes: u16, _mss: u16) = "ibv_wr_send_tso";
}

unsafe extern "C" fn wr_bind_mw(abi_qp: *mut ibv_qp_ex, mw: *mut ibv_mw, rkey: u32, info: *const ibv_mw_bind_info) {
    // SAFETY: the header's inline function passes a queue pair of ours; the caller names a window
    // of ours and a readable binding.
    unsafe {
        begin(abi_qp, IBV_WR_BIND_MW, |record| record.rkey = rkey);
        with(abi_qp, |qp| {
            qp.builder.amend(|request| {
                let info = bind_info(mw, &*not_null(info.cast_mut())?)?;
                request.inline.extend_from_slice(bytemuck::bytes_of(&info));
                Ok(())
            });
        });
    }
}

unsafe extern "C" fn wr_atomic_write(abi_qp: *mut ibv_qp_ex, rkey: u32, address: u64, value: *const c_void) {
    // SAFETY: the header's inline function passes a queue pair of ours; the caller gives eight
    // readable bytes.
    unsafe {
        begin(abi_qp, IBV_WR_ATOMIC_WRITE, |record| (record.rkey, record.remote_address) = (rkey, address));
        with(abi_qp, |qp| {
            qp.builder.amend(|request| {
                let value = *not_null(value.cast_mut())?.cast::<[u8; 8]>();
                request.record.flags |= IBV_SEND_INLINE;
                request.inline.extend_from_slice(&value);
                Ok(())
            });
        });
    }
}

unsafe extern "C" fn wr_set_xrc_srqn(abi_qp: *mut ibv_qp_ex, number: u32) {
    // SAFETY: the header's inline function passes the queue pair whose table names this function.
    unsafe {
        with(abi_qp, |qp| {
            qp.builder.amend(|request| {
                request.record.xrc_srq = number;
                Ok(())
            });
        });
    }
}

unsafe extern "C" fn wr_set_ud_addr(abi_qp: *mut ibv_qp_ex, handle: *mut ibv_ah, remote_qpn: u32, remote_qkey: u32) {
    // SAFETY: the header's inline function passes a queue pair of ours; the caller names an address
    // handle of ours.
    unsafe {
        with(abi_qp, |qp| {
            qp.builder.amend(|request| {
                ah::address(&mut request.record, handle, qp.pd)?;
                (request.record.remote_qpn, request.record.remote_qkey) = (remote_qpn, remote_qkey);
                Ok(())
            });
        });
    }
}

/// Sets the entries of the last request.
fn set_entries(qp: &QpInner, list: &[ibv_sge]) {
    qp.builder.amend(|request| {
        if list.len() > qp.cap.max_send_sge as usize {
            return Err(Errno(libc::EINVAL));
        }
        request.set_entries(list);
        Ok(())
    });
}

unsafe extern "C" fn wr_set_sge(abi_qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    let set = |qp: &QpInner| {
        let has_room = qp.cap.max_send_sge > 0;
        qp.builder.amend(|request| {
            request.set_entry(ibv_sge { addr, length, lkey });
            if has_room { Ok(()) } else { Err(Errno(libc::EINVAL)) }
        });
    };
    // SAFETY: the header's inline function passes the queue pair whose table names this function.
    unsafe { with_it(abi_qp, set) }
}

unsafe extern "C" fn wr_set_sge_list(abi_qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    // SAFETY: the header's inline function passes a queue pair of ours; the list has `count`
    // entries.
    unsafe {
        with(abi_qp, |qp| match count {
            0 => set_entries(qp, &[]),
            _ if list.is_null() => qp.builder.fail(Errno(libc::EINVAL)),
            _ => set_entries(qp, std::slice::from_raw_parts(list, count)),
        });
    }
}

/// Copies the inline data of the last request.
///
/// # Safety
/// Each buffer names readable memory of this process.
unsafe fn set_inline(qp: &QpInner, buffers: &[ibv_data_buf]) {
    let total = buffers.iter().fold(0_usize, |sum, buffer| sum.saturating_add(buffer.length));
    qp.builder.amend(|request| {
        if total > qp.cap.max_inline_data as usize || !may_be_inline(request.record.opcode) {
            return Err(Errno(libc::EINVAL));
        }
        request.record.flags |= IBV_SEND_INLINE;
        for buffer in buffers.iter().filter(|buffer| buffer.length != 0) {
            // SAFETY: the caller promises readable memory. Others may write it at the same time,
            // because the bytes are only copied.
            request.inline.extend_from_slice(unsafe { std::slice::from_raw_parts(buffer.addr.cast::<u8>(), buffer.length) });
        }
        Ok(())
    });
}

unsafe extern "C" fn wr_set_inline_data(abi_qp: *mut ibv_qp_ex, addr: *mut c_void, length: usize) {
    // SAFETY: the header's inline function passes a queue pair of ours; the caller names readable
    // memory.
    unsafe { with(abi_qp, |qp| set_inline(qp, &[ibv_data_buf { addr, length }])) }
}

unsafe extern "C" fn wr_set_inline_data_list(abi_qp: *mut ibv_qp_ex, count: usize, list: *const ibv_data_buf) {
    // SAFETY: the header's inline function passes a queue pair of ours; the list has `count`
    // buffers.
    unsafe {
        with(abi_qp, |qp| match count {
            0 => set_inline(qp, &[]),
            _ if list.is_null() => qp.builder.fail(Errno(libc::EINVAL)),
            _ => set_inline(qp, std::slice::from_raw_parts(list, count)),
        });
    }
}

unsafe extern "C" fn wr_start(abi_qp: *mut ibv_qp_ex) {
    // SAFETY: the header's inline function passes the queue pair whose table names this function.
    unsafe { with_it(abi_qp, |qp| qp.builder.open()) }
}

unsafe extern "C" fn wr_complete(abi_qp: *mut ibv_qp_ex) -> c_int {
    guarded(libc::EIO, || {
        // SAFETY: the header's inline function passes the queue pair whose table names this
        // function.
        let posted = unsafe { qp::inner(abi_qp.cast()) }.and_then(|qp| qp.builder.close(|requests| post_all(qp, requests)));
        posted.map_or_else(|Errno(errno)| errno, |()| 0)
    })
}

unsafe extern "C" fn wr_abort(abi_qp: *mut ibv_qp_ex) {
    // SAFETY: the header's inline function passes the queue pair whose table names this function.
    unsafe {
        with(abi_qp, |qp| {
            let _ = qp.builder.close(|_| Ok(())); // an abort reports no error
        });
    }
}

/// Posts all requests, or none if they do not all fit into the send queue.
fn post_all(qp: &QpInner, requests: &[Pending]) -> Result<(), Errno> {
    if requests.len() > 1 && qp.send.places_left() < requests.len() {
        return Err(Errno(libc::ENOMEM));
    }
    requests.iter().try_for_each(|request| submit_send(qp, &request.record, request.data()))?;
    if !requests.is_empty() {
        charge_list(qp);
    }
    Ok(())
}

/// Returns the table of an extended queue pair with the head `qp_base`.
pub(crate) fn table(qp_base: ibv_qp) -> ibv_qp_ex {
    ibv_qp_ex {
        qp_base,
        comp_mask: 0,
        wr_id: 0,
        wr_flags: 0,
        wr_atomic_cmp_swp: Some(wr_atomic_cmp_swp),
        wr_atomic_fetch_add: Some(wr_atomic_fetch_add),
        wr_bind_mw: Some(wr_bind_mw),
        wr_local_inv: Some(wr_local_inv),
        wr_rdma_read: Some(wr_rdma_read),
        wr_rdma_write: Some(wr_rdma_write),
        wr_rdma_write_imm: Some(wr_rdma_write_imm),
        wr_send: Some(wr_send),
        wr_send_imm: Some(wr_send_imm),
        wr_send_inv: Some(wr_send_inv),
        wr_send_tso: Some(wr_send_tso),
        wr_set_ud_addr: Some(wr_set_ud_addr),
        wr_set_xrc_srqn: Some(wr_set_xrc_srqn),
        wr_set_inline_data: Some(wr_set_inline_data),
        wr_set_inline_data_list: Some(wr_set_inline_data_list),
        wr_set_sge: Some(wr_set_sge),
        wr_set_sge_list: Some(wr_set_sge_list),
        wr_start: Some(wr_start),
        wr_complete: Some(wr_complete),
        wr_abort: Some(wr_abort),
        wr_atomic_write: Some(wr_atomic_write),
    }
}
