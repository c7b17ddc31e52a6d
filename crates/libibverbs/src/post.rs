//! Posts of work requests by `ibv_post_send` and `ibv_post_recv`.

use crate::ah;
use crate::direct::{self, OwnQueue};
use crate::guard::{guarded, not_null};
use crate::qp::{self, QpInner};
use crate::unsupported::refuse;
use crate::work_queue::WorkQueue;
use libc::c_int;
use softband_abi::verbs::*;
use softband_client::{Errno, header, is_wall};
use softband_ipc::post::{BindInfo, PostRecord, PostSge, kind, opcode};
use std::mem::offset_of;
use std::sync::atomic::Ordering;

pub(crate) unsafe extern "C" fn post_send(abi_qp: *mut ibv_qp, first: *mut ibv_send_wr, bad: *mut *mut ibv_send_wr) -> c_int {
    guarded(libc::EIO, || {
        let mut at = first;
        // SAFETY: the caller names a queue pair of ours and a list of requests.
        let outcome = unsafe { qp::inner(abi_qp) }.and_then(|qp| {
            while !at.is_null() {
                // SAFETY: `at` is not NULL, so it is a request of the caller's list.
                unsafe {
                    send_one(qp, &*at)?;
                    at = (*at).next;
                }
            }
            charge_list(qp);
            Ok(())
        });
        // SAFETY: the caller gives `bad` writable, or NULL.
        unsafe { report(outcome, at, bad) }
    })
}

pub(crate) unsafe extern "C" fn post_recv(abi_qp: *mut ibv_qp, first: *mut ibv_recv_wr, bad: *mut *mut ibv_recv_wr) -> c_int {
    guarded(libc::EIO, || {
        let mut at = first;
        // SAFETY: the caller names a queue pair of ours and a list of requests.
        let outcome = unsafe { qp::inner(abi_qp) }.and_then(|qp| {
            while !at.is_null() {
                // SAFETY: `at` is not NULL, so it is a request of the caller's list.
                unsafe {
                    receive_one(qp, &*at)?;
                    at = (*at).next;
                }
            }
            Ok(())
        });
        // SAFETY: the caller gives `bad` writable, or NULL.
        unsafe { report(outcome, at, bad) }
    })
}

/// # Safety
/// `bad` is NULL or may be written.
pub(crate) unsafe fn report<T>(outcome: Result<(), Errno>, at: *mut T, bad: *mut *mut T) -> c_int {
    let Err(Errno(errno)) = outcome else { return 0 };
    if !bad.is_null() {
        // SAFETY: the caller promises a writable `bad`, unless it is NULL.
        unsafe { bad.write(at) };
    }
    errno
}

/// Checks whether the state allows a send request. In the error states, requests are accepted and
/// come back flushed.
pub(crate) fn check_send_state(state: u32) -> Result<(), Errno> {
    if [IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE, IBV_QPS_ERR].contains(&state) { Ok(()) } else { Err(Errno(libc::EINVAL)) }
}

/// Checks whether this queue pair type has this operation (IBTA 9.4, table of operations by
/// service).
pub(crate) fn check_opcode(qp_type: u32, wanted: u32) -> Result<(), Errno> {
    if wanted == IBV_WR_TSO {
        return Err(refuse("segmentation by the HCA (ibv_post_send, IBV_WR_TSO)"));
    }
    let reliable = qp_type == IBV_QPT_RC || qp_type == IBV_QPT_XRC_SEND;
    let offered = match wanted {
        _ if qp_type == IBV_QPT_XRC_RECV => false,
        opcode::SEND | opcode::SEND_WITH_IMM => true,
        opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM | opcode::BIND_MW | opcode::LOCAL_INV => qp_type != IBV_QPT_UD,
        opcode::RDMA_READ | opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD | opcode::ATOMIC_WRITE | opcode::SEND_WITH_INV => reliable,
        _ => false,
    };
    if offered { Ok(()) } else { Err(Errno(libc::EINVAL)) }
}

/// Checks whether an operation's payload may be copied at the post.
pub(crate) fn may_be_inline(wanted: u32) -> bool {
    matches!(
        wanted,
        opcode::SEND | opcode::SEND_WITH_IMM | opcode::SEND_WITH_INV | opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM | opcode::ATOMIC_WRITE
    )
}

/// Returns the binding of a window for the engine.
///
/// # Safety
/// The window is ours, and the region is NULL or ours.
pub(crate) unsafe fn bind_info(mw: *mut ibv_mw, info: &ibv_mw_bind_info) -> Result<BindInfo, Errno> {
    let rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED;
    if info.mw_access_flags & !rights != 0 {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: the caller promises a window of ours, and a region of ours or NULL.
    let (mw, mr) = unsafe { ((*not_null(mw)?).handle, if info.mr.is_null() { 0 } else { (*info.mr).handle }) };
    Ok(BindInfo { mw, mr, address: info.addr, len_bytes: info.length, access: info.mw_access_flags, reserved: 0 })
}

/// Returns the entries of a request.
///
/// # Safety
/// `list` has `count` entries.
unsafe fn entries<'a>(list: *const ibv_sge, count: c_int, count_max: u32) -> Result<&'a [ibv_sge], Errno> {
    let count = u32::try_from(count).ok().filter(|count| *count <= count_max).ok_or(Errno(libc::EINVAL))?;
    match count {
        0 => Ok(&[]),
        _ if list.is_null() => Err(Errno(libc::EINVAL)),
        // SAFETY: the caller promises `count` entries, and the list is not NULL.
        _ => Ok(unsafe { std::slice::from_raw_parts(list, count as usize) }),
    }
}

/// Data of a send request.
#[derive(Clone, Copy)]
pub(crate) enum Data<'a> {
    /// Registered memory.
    Registered(&'a [ibv_sge]),
    /// Present contents of the program's memory, registered or not (`IBV_SEND_INLINE`).
    Here(&'a [ibv_sge]),
    /// Inline data, or the operands of an operation.
    Copied(&'a [u8]),
}

impl Data<'_> {
    pub(crate) fn len_bytes(&self) -> u64 {
        match *self {
            Self::Registered(list) | Self::Here(list) => total_bytes(list),
            Self::Copied(bytes) => bytes.len() as u64,
        }
    }
}

fn total_bytes(list: &[ibv_sge]) -> u64 {
    list.iter().map(|entry| u64::from(entry.length)).sum()
}

/// Copies the present contents of a request's memory.
///
/// # Safety
/// Each entry names readable memory of this process.
unsafe fn gather(list: &[ibv_sge]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(total_bytes(list) as usize);
    for entry in list.iter().filter(|entry| entry.length != 0) {
        // SAFETY: the caller promises readable memory. Others may write it at the same time,
        // because the bytes are only copied.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(entry.addr as *const u8, entry.length as usize) });
    }
    bytes
}

/// Returns a record without its entries.
///
/// # Safety
/// The address handle of a datagram is one of ours.
#[inline(always)]
unsafe fn send_record(qp: &QpInner, request: &ibv_send_wr) -> Result<PostRecord, Errno> {
    let mut record = PostRecord {
        kind: kind::SEND,
        flags: request.send_flags & (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE),
        hca: qp.hca,
        object: qp.qpn,
        wr_id: request.wr_id,
        opcode: request.opcode,
        // The header's `qp_type.xrc.remote_srqn`.
        xrc_srq: request.qp_type,
        immediate: u32::from_be(request.imm_data),
        ..bytemuck::Zeroable::zeroed()
    };
    // SAFETY: any bytes are valid in each view of the union, and operation and type select the
    // view. The caller promises an address handle of ours.
    unsafe {
        match request.opcode {
            _ if qp.qp_type == IBV_QPT_UD => {
                let target = request.wr.ud;
                ah::address(&mut record, target.ah, qp.pd)?;
                record.remote_qpn = target.remote_qpn;
                record.remote_qkey = target.remote_qkey;
            }
            opcode::LOCAL_INV | opcode::SEND_WITH_INV => record.rkey = request.imm_data,
            opcode::BIND_MW => record.rkey = request.bind_mw.rkey,
            opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM | opcode::RDMA_READ | opcode::ATOMIC_WRITE => {
                record.remote_address = request.wr.rdma.remote_addr;
                record.rkey = request.wr.rdma.rkey;
            }
            opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD => {
                let target = request.wr.atomic;
                record.remote_address = target.remote_addr;
                record.rkey = target.rkey;
                record.compare_or_add = target.compare_add;
                record.swap = target.swap;
            }
            _ => {}
        }
    }
    Ok(record)
}

/// # Safety
/// The request's pointers are valid for its operation.
#[inline(always)]
unsafe fn send_one(qp: &QpInner, request: &ibv_send_wr) -> Result<(), Errno> {
    check_send_state(qp.state.load(Ordering::Acquire))?;
    check_opcode(qp.qp_type, request.opcode)?;
    // SAFETY: the list has `num_sge` entries, and the operation selects which pointers of the request count.
    let (list, mut record) = unsafe { (entries(request.sg_list, request.num_sge, qp.cap.max_send_sge)?, send_record(qp, request)?) };
    let info;
    let data = if request.opcode == opcode::BIND_MW {
        record.flags &= !IBV_SEND_INLINE;
        // SAFETY: for this operation the request holds a binding, whose window and region are ours.
        info = unsafe { bind_info(request.bind_mw.mw, &request.bind_mw.bind_info) }?;
        Data::Copied(bytemuck::bytes_of(&info))
    } else if request.send_flags & IBV_SEND_INLINE == 0 {
        Data::Registered(list)
    } else if may_be_inline(request.opcode) && total_bytes(list) <= u64::from(qp.cap.max_inline_data) {
        Data::Here(list)
    } else {
        // An operation that receives data has nothing to copy.
        return Err(Errno(libc::EINVAL));
    };
    submit_send(qp, &record, data)
}

/// Charges the cost of a list of requests, beside that of each request. The requests are on their way
/// to the HCA meanwhile.
#[inline(always)]
pub(crate) fn charge_list(qp: &QpInner) {
    if !is_wall() {
        qp.send.charge(qp.send_costs.list_ps);
    }
}

/// Takes a place in the send queue and posts the request.
#[inline(always)]
pub(crate) fn submit_send(qp: &QpInner, record: &PostRecord, data: Data<'_>) -> Result<(), Errno> {
    let (mut sending, guard) = qp.direct.sending.lock_and_guard();
    if !qp.send.take_place() {
        return Err(Errno(libc::ENOMEM));
    }
    if is_wall() {
        match direct::carry_out(qp, (&mut sending, guard), record, &data) {
            Ok(()) => return Ok(()),
            Err(reason) => direct::count_fallback(reason),
        }
    }
    // Count the request first: another thread must not overtake it with its own work.
    qp.send.note_given(1);
    drop(sending);
    give_to_engine(qp, *record, data)
}

#[inline(never)]
fn give_to_engine(qp: &QpInner, record: PostRecord, data: Data<'_>) -> Result<(), Errno> {
    qp.send.charge(qp.send_costs.request_ps);
    let outcome = match data {
        Data::Registered(list) => submit(record, list, &[]),
        // SAFETY: the creator of `data` promised that the memory is valid until the post returns.
        Data::Here(list) => submit(record, &[], &unsafe { gather(list) }),
        Data::Copied(bytes) => submit(record, &[], bytes),
    };
    outcome.inspect_err(|_| {
        let _sending = qp.direct.sending.lock();
        qp.send.note_given(1u32.wrapping_neg());
        qp.send.give_back();
    })
}

/// Returns the entries of a receive request.
///
/// # Safety
/// The request's list has the stated number of entries.
pub(crate) unsafe fn receive_entries(request: &ibv_recv_wr, count_max: u32) -> Result<&[ibv_sge], Errno> {
    // SAFETY: the list has `num_sge` entries, unless that number exceeds `count_max`.
    unsafe { entries(request.sg_list, request.num_sge, count_max) }
}

/// # Safety
/// The request's list has the stated number of entries.
unsafe fn receive_one(qp: &QpInner, request: &ibv_recv_wr) -> Result<(), Errno> {
    if qp.state.load(Ordering::Acquire) == IBV_QPS_RESET || !qp.has_receive_queue {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: the queue pair sets the most entries that it accepts; the request has those it states.
    let list = unsafe { receive_entries(request, qp.cap.max_recv_sge) }?;
    let record = || PostRecord { kind: kind::RECEIVE, hca: qp.hca, object: qp.qpn, wr_id: request.wr_id, ..bytemuck::Zeroable::zeroed() };
    post_receive((&qp.direct.receives, &qp.receive), list, request.wr_id, record)
}

/// Takes a place in a receive queue and posts the request.
#[inline(always)]
pub(crate) fn post_receive(
    (own, queue): (&OwnQueue, &WorkQueue),
    list: &[ibv_sge],
    wr_id: u64,
    record: impl Fn() -> PostRecord,
) -> Result<(), Errno> {
    let mut posting = own.begin();
    if !queue.take_place() {
        return Err(Errno(libc::ENOMEM));
    }
    let entries = post_entries(list);
    if is_wall() {
        match posting.post(entries, wr_id, &record) {
            Ok(()) => return Ok(()),
            Err(reason) => direct::count_fallback(reason),
        }
    }
    drop(posting);
    queue.charge(header().cost_post_receive);
    softband_client::post::post(record(), entries, &[]).inspect_err(|_| {
        let _posting = own.hold();
        queue.give_back();
    })
}

pub(crate) fn submit(record: PostRecord, list: &[ibv_sge], inline: &[u8]) -> Result<(), Errno> {
    softband_client::post::post(record, post_entries(list), inline)
}

/// Returns a list in the engine's format.
fn post_entries(list: &[ibv_sge]) -> &[PostSge] {
    const {
        assert!(size_of::<ibv_sge>() == size_of::<PostSge>() && align_of::<ibv_sge>() == align_of::<PostSge>());
        assert!(offset_of!(ibv_sge, length) == offset_of!(PostSge, len_bytes) && offset_of!(ibv_sge, lkey) == offset_of!(PostSge, lkey));
    };
    // SAFETY: both structures consist of the same three numbers at the same offsets.
    unsafe { std::slice::from_raw_parts(list.as_ptr().cast(), list.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_its_operations() {
        assert_eq!(check_opcode(IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD), Ok(()));
        assert_eq!(check_opcode(IBV_QPT_UC, IBV_WR_BIND_MW), Ok(()));
        assert_eq!(check_opcode(IBV_QPT_UC, IBV_WR_SEND_WITH_INV), Err(Errno(libc::EINVAL)));
        assert_eq!(check_opcode(IBV_QPT_RC, 77), Err(Errno(libc::EINVAL)));
        assert_eq!(check_opcode(IBV_QPT_UC, IBV_WR_RDMA_WRITE_WITH_IMM), Ok(()));
        assert_eq!(check_opcode(IBV_QPT_UC, IBV_WR_RDMA_READ), Err(Errno(libc::EINVAL)));
        assert_eq!(check_opcode(IBV_QPT_UD, IBV_WR_SEND_WITH_IMM), Ok(()));
        assert_eq!(check_opcode(IBV_QPT_UD, IBV_WR_RDMA_WRITE), Err(Errno(libc::EINVAL)));
        assert_eq!(check_opcode(IBV_QPT_RC, IBV_WR_TSO), Err(Errno(libc::EOPNOTSUPP)));
    }

    #[test]
    fn nothing_is_sent_before_the_queue_pair_is_ready() {
        assert_eq!(check_send_state(IBV_QPS_RTR), Err(Errno(libc::EINVAL)));
        assert_eq!(check_send_state(IBV_QPS_RTS), Ok(()));
        assert_eq!(check_send_state(IBV_QPS_ERR), Ok(()), "it comes back flushed");
    }

    #[test]
    fn inline_data_are_gathered_in_order() {
        let (first, second) = (*b"soft", *b"band");
        let entry = |bytes: &[u8; 4]| ibv_sge { addr: bytes.as_ptr() as u64, length: 4, lkey: 0 };
        let list = [entry(&first), entry(&second)];
        // SAFETY: both entries name arrays that live until the end of the test.
        unsafe {
            assert_eq!(gather(&list), b"softband");
            assert_eq!(total_bytes(&list), 8);
        }
    }

    #[test]
    fn more_entries_than_the_queue_pair_takes_are_refused() {
        // SAFETY: no entry is read.
        unsafe {
            assert_eq!(entries(std::ptr::null(), 2, 1).err(), Some(Errno(libc::EINVAL)));
            assert_eq!(entries(std::ptr::null(), -1, 4).err(), Some(Errno(libc::EINVAL)));
            assert!(entries(std::ptr::null(), 0, 4).is_ok_and(<[ibv_sge]>::is_empty));
        }
    }
}
