//! Queue pairs: creation and destruction.

use crate::builder::Builder;
use crate::context::{Context, context};
use crate::convert::{capabilities, init_fields};
use crate::cq::{self, CqInner};
use crate::direct::{self, DirectState};
use crate::event_count::EventCount;
use crate::guard::{not_null, object, status};
use crate::qp_ex;
use crate::query::device_of;
use crate::unsupported::refuse;
use crate::work_queue::WorkQueue;
use crate::{events, poll, srq, xrc};
use libc::c_int;
use softband_abi::verbs::*;
use softband_client::{Errno, call, header};
use softband_ipc::calls::{OpenQp, QpFields, QpName, op};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A queue pair: the header's structure, and our part. The plain structure is the head of the
/// extended one.
#[repr(C)]
pub(crate) struct Qp {
    pub(crate) abi: ibv_qp_ex,
    pub(crate) inner: QpInner,
}

/// Our part of a queue pair. References to it may be shared.
pub(crate) struct QpInner {
    pub(crate) hca: u32,
    pub(crate) qpn: u32,
    /// Handle of its protection domain, or 0.
    pub(crate) pd: u32,
    pub(crate) qp_type: u32,
    pub(crate) cap: ibv_qp_cap,
    /// The program may use `ibv_wr_*`.
    pub(crate) is_extended: bool,
    /// Receives are posted to it, and not to an SRQ.
    pub(crate) has_receive_queue: bool,
    /// State at the program's last modification or query.
    pub(crate) state: AtomicU32,
    /// Time of the last reset, in picoseconds. Earlier completions are void.
    pub(crate) reset_at_ps: AtomicU64,
    pub(crate) send: WorkQueue,
    pub(crate) send_costs: SendCosts,
    pub(crate) receive: WorkQueue,
    pub(crate) async_events: EventCount,
    pub(crate) builder: Builder,
    /// At wall pace: its entry in the table of queue pairs plus one, or 0.
    pub(crate) direct_entry: u32,
    pub(crate) signals_all: bool,
    pub(crate) send_cq: CqOfQp,
    pub(crate) recv_cq: CqOfQp,
    pub(crate) direct: DirectState,
}

/// CPU time of posts to a send queue, in picoseconds.
pub(crate) struct SendCosts {
    /// For each list of requests.
    pub(crate) list_ps: u64,
    /// For each request.
    pub(crate) request_ps: u64,
}

impl SendCosts {
    fn of(qp_type: u32, doorbell_carries_wqe: bool) -> Self {
        let costs = header();
        let address_ps = if qp_type == IBV_QPT_UD { costs.cost_post_address } else { 0 };
        let list_ps = if doorbell_carries_wqe { costs.cost_write_combining_flush } else { 0 };
        Self { list_ps, request_ps: costs.cost_post_send + address_ps }
    }
}

/// Destination of completions; NULL if the queue pair sends or receives nothing.
pub(crate) struct CqOfQp(*const CqInner);
// SAFETY: all threads may use CQs, which outlive the queue pairs that name them.
unsafe impl Send for CqOfQp {}
// SAFETY: `CqInner` keeps its shared state in atomics and behind locks.
unsafe impl Sync for CqOfQp {}

impl CqOfQp {
    pub(crate) fn get(&self) -> Option<&CqInner> {
        // SAFETY: the pointer is NULL or names a CQ, which exists while queue pairs use it.
        unsafe { self.0.as_ref() }
    }

    /// # Safety
    /// `abi_cq` is NULL or a CQ of ours.
    unsafe fn of(abi_cq: *mut ibv_cq) -> Self {
        // SAFETY: the caller promises NULL or a CQ of ours.
        Self(unsafe { cq::inner(abi_cq) }.map_or(std::ptr::null(), std::ptr::from_ref))
    }
}

impl QpInner {
    pub(crate) fn name(&self) -> QpName {
        QpName { hca: self.hca, qpn: self.qpn }
    }

    /// Checks whether its completions go to this CQ.
    pub(crate) fn completes_to(&self, cq: &CqInner) -> bool {
        [&self.send_cq, &self.recv_cq].iter().any(|own| std::ptr::eq(own.0, cq))
    }

    /// Empties both queues. The engine then counts from zero.
    pub(crate) fn reset(&self, since_ps: [u32; 2]) {
        // Both locks keep other threads from taking places.
        let (mut sending, _receiving) = (self.direct.sending.lock(), self.direct.receives.hold());
        self.direct.reset(&mut sending);
        let (sends, receives) = (self.send_cq.get(), self.recv_cq.get());
        // Locked in the order of addresses, so two threads in this code cannot deadlock. Nobody
        // counts completions meanwhile.
        let (first, second) = if self.send_cq.0 <= self.recv_cq.0 { (sends, receives) } else { (receives, sends) };
        let _first = first.map(|cq| cq.queue.lock());
        let _second = second.filter(|_| self.send_cq.0 != self.recv_cq.0).map(|cq| cq.queue.lock());
        self.reset_at_ps.store(since(since_ps), Ordering::Relaxed);
        self.send.reset();
        self.receive.reset();
    }
}

/// Returns the time from which completions are valid: the engine's value, or else the time of its
/// reply.
fn since([low, high]: [u32; 2]) -> u64 {
    let since_ps = u64::from(high) << 32 | u64::from(low);
    if since_ps == 0 { softband_client::last_answer_ps() } else { since_ps }
}

/// Returns our part of the queue pair that `abi_qp` points to.
///
/// # Safety
/// This library created `abi_qp`, and it is not destroyed.
pub(crate) unsafe fn inner<'a>(abi_qp: *mut ibv_qp) -> Result<&'a QpInner, Errno> {
    let qp = not_null(abi_qp)?.cast::<Qp>();
    // SAFETY: the caller promises a queue pair of ours, and programs keep the pointer to the whole
    // box.
    Ok(unsafe { &(*qp).inner })
}

/// Bytes of a scatter/gather entry in a work queue. Inline data may take the room of the entries, so
/// drivers (mlx4, mlx5, rxe) offer at least that much.
const SGE_BYTES: u32 = 16;

/// Creation data of a queue pair beside its plain attributes.
struct Base {
    context: *mut ibv_context,
    /// The PD that the program sees. The receiving side of an XRC connection needs none.
    pd: *mut ibv_pd,
    xrcd: u32,
    create_flags: u32,
    is_extended: bool,
}

/// Creates a queue pair and writes its queue sizes to `init`.
///
/// # Safety
/// All named objects are ours, and `init` is writable.
unsafe fn create(base: &Base, init: *mut ibv_qp_init_attr) -> Result<*mut ibv_qp, Errno> {
    // SAFETY: the caller promises objects of ours and a writable `init`.
    let (wanted, ours) = unsafe { (*not_null(init)?, context(base.context)?) };
    if ![IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV].contains(&wanted.qp_type) {
        return Err(refuse("a raw packet queue pair, or one of a driver's own type (ibv_create_qp, qp_type)"));
    }
    let (sends, receives) = directions(wanted.qp_type);
    // SAFETY: the type decides which of PD and CQs the caller names, and only those are read.
    let mut fields = unsafe {
        let pd = if sends { (*not_null(base.pd)?).handle } else { 0 };
        let send_cq = if sends { cq::inner(wanted.send_cq)?.handle } else { 0 };
        let recv_cq = if receives { cq::inner(wanted.recv_cq)?.handle } else { 0 };
        init_fields(&wanted, ours.hca, pd, send_cq, recv_cq)
    };
    fields.xrcd = base.xrcd;
    fields.block_own_multicast = u32::from(base.create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB != 0);
    if !wanted.srq.is_null() {
        // SAFETY: a shared receive queue that is not NULL is ours.
        fields.srq = unsafe { srq::inner(wanted.srq) }?.handle;
    }
    let has_receive_queue = receives && wanted.srq.is_null();
    if !has_receive_queue {
        // Sizes of an absent queue do not count (manual page of ibv_create_qp).
        (fields.max_recv_wr, fields.max_recv_sge) = (0, 0);
    }
    if sends {
        // SAFETY: the caller promises an open context.
        let most = unsafe { device_of(base.context) }?.max_inline;
        fields.max_inline = fields.max_inline.max(most.min(fields.max_send_sge.saturating_mul(SGE_BYTES)));
    } else {
        (fields.max_send_wr, fields.max_send_sge, fields.max_inline) = (0, 0, 0);
    }
    let made = call::<op::CreateQp>(&fields)?;
    // SAFETY: the program waits for the sizes, so `init` is still writable.
    unsafe { (*init).cap = capabilities(&made) };
    Ok(show(base, ours, &wanted, &made))
}

/// Returns whether a queue pair of this type sends, and whether it receives into a CQ of its own.
fn directions(qp_type: u32) -> (bool, bool) {
    (qp_type != IBV_QPT_XRC_RECV, ![IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV].contains(&qp_type))
}

/// Boxes a queue pair that the engine has created or opened.
fn show(base: &Base, ours: &Context, wanted: &ibv_qp_init_attr, made: &QpFields) -> *mut ibv_qp {
    let cap = capabilities(made);
    let (sends, receives) = directions(wanted.qp_type);
    let qp_base = ibv_qp {
        context: base.context,
        qp_context: wanted.qp_context,
        pd: base.pd,
        send_cq: wanted.send_cq,
        recv_cq: wanted.recv_cq,
        srq: wanted.srq,
        handle: made.qpn,
        qp_num: made.qpn,
        state: made.state,
        qp_type: wanted.qp_type,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        events_completed: 0,
    };
    // SAFETY: `create` has checked that it is NULL or a CQ of ours, unless the queue pair sends
    // nothing.
    let send_cq = if sends { unsafe { CqOfQp::of(wanted.send_cq) } } else { CqOfQp(std::ptr::null()) };
    // SAFETY: `create` has checked that it is an open context of ours.
    let device = unsafe { device_of(base.context) };
    let has_atomic_write = device.as_ref().is_ok_and(|device| device.atomic_write != 0);
    let doorbell_carries_wqe = device.is_ok_and(|device| device.doorbell_carries_wqe != 0);
    let is_direct = made.direct != 0 && send_cq.get().is_some_and(|cq| cq.takes_own);
    let offered = if is_direct { direct::operations(wanted.qp_type, has_atomic_write) } else { 0 };
    let qp = Box::into_raw(Box::new(Qp {
        abi: qp_ex::table(qp_base),
        inner: QpInner {
            hca: ours.hca,
            qpn: made.qpn,
            // SAFETY: `create` has checked that it is a PD of ours, unless the queue pair sends nothing.
            pd: unsafe { base.pd.as_ref() }.filter(|_| sends).map_or(0, |pd| pd.handle),
            qp_type: wanted.qp_type,
            cap,
            is_extended: base.is_extended,
            has_receive_queue: receives && wanted.srq.is_null(),
            state: AtomicU32::new(made.state),
            // The CQs may still hold completions of a former queue pair with the same number.
            reset_at_ps: AtomicU64::new(since(made.since_ps)),
            send: WorkQueue::new(cap.max_send_wr),
            send_costs: SendCosts::of(wanted.qp_type, doorbell_carries_wqe),
            receive: WorkQueue::new(cap.max_recv_wr),
            async_events: EventCount::default(),
            builder: Builder::default(),
            direct_entry: made.direct,
            signals_all: wanted.sq_sig_all != 0,
            direct: DirectState::new(made.direct, made.qpn, offered),
            send_cq,
            // SAFETY: `create` has checked that it is NULL or a CQ of ours, unless the queue pair
            // receives nothing.
            recv_cq: if receives { unsafe { CqOfQp::of(wanted.recv_cq) } } else { CqOfQp(std::ptr::null()) },
        },
    }));
    ours.add_queue_pair(made.qpn, qp);
    qp.cast()
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_create_qp(pd: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: the caller names a PD and CQs of ours and gives the attributes readable and writable.
    object(|| unsafe { create(&Base { context: (*not_null(pd)?).context, pd, xrcd: 0, create_flags: 0, is_extended: false }, init) })
}

/// Returns the operations that a queue pair type offers through `ibv_wr_*`.
fn operations_offered(qp_type: u32, has_atomic_write: bool) -> u64 {
    let send = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    let write = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    let read = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    let atomic_write = if has_atomic_write { IBV_QP_EX_WITH_ATOMIC_WRITE } else { 0 };
    let windows = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
    u64::from(match qp_type {
        IBV_QPT_RC | IBV_QPT_XRC_SEND => send | write | read | windows | atomic_write | IBV_QP_EX_WITH_SEND_WITH_INV,
        IBV_QPT_UC => send | write | windows,
        IBV_QPT_XRC_RECV => 0,
        _ => send,
    })
}

pub(crate) unsafe extern "C" fn create_qp_ex(context: *mut ibv_context, init: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp {
    object(|| {
        // SAFETY: the caller gives the attributes readable and writable.
        let wanted = unsafe { *not_null(init)? };
        let known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        if wanted.comp_mask & !known != 0 {
            return Err(refuse("segmentation by the HCA or an indirection table (ibv_create_qp_ex, comp_mask)"));
        }
        let is_target = wanted.qp_type == IBV_QPT_XRC_RECV;
        let needed = if is_target { IBV_QP_INIT_ATTR_XRCD } else { IBV_QP_INIT_ATTR_PD };
        if wanted.comp_mask & needed == 0 || !is_target && wanted.comp_mask & IBV_QP_INIT_ATTR_XRCD != 0 {
            return Err(Errno(libc::EINVAL));
        }
        let create_flags = if wanted.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS != 0 { wanted.create_flags } else { 0 };
        if create_flags & !IBV_QP_CREATE_BLOCK_SELF_MCAST_LB != 0 {
            return Err(refuse("a creation flag other than IBV_QP_CREATE_BLOCK_SELF_MCAST_LB (ibv_create_qp_ex, create_flags)"));
        }
        let is_extended = wanted.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0;
        // SAFETY: the caller names an open context.
        let has_atomic_write = unsafe { device_of(context) }?.atomic_write != 0;
        if is_extended && wanted.send_ops_flags & !operations_offered(wanted.qp_type, has_atomic_write) != 0 {
            return Err(refuse("an operation that this type of queue pair does not have (ibv_create_qp_ex, send_ops_flags)"));
        }
        // SAFETY: the caller names objects of ours; the plain attributes are the head of the extended ones.
        unsafe {
            let xrcd = if is_target { xrc::handle(wanted.xrcd.cast())? } else { 0 };
            let pd = if wanted.comp_mask & IBV_QP_INIT_ATTR_PD != 0 { wanted.pd } else { null_mut() };
            create(&Base { context, pd, xrcd, create_flags, is_extended }, init.cast())
        }
    })
}

/// Opens the existing receiving side of an XRC connection.
pub(crate) unsafe extern "C" fn open_qp(context: *mut ibv_context, open: *mut ibv_qp_open_attr) -> *mut ibv_qp {
    object(|| {
        // SAFETY: the caller names an open context and readable attributes.
        let (open, ours) = unsafe { (*not_null(open)?, crate::context::context(context)?) };
        let needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
        let known = needed | IBV_QP_OPEN_ATTR_CONTEXT;
        if open.comp_mask & needed != needed || open.comp_mask & !known != 0 || open.qp_type != IBV_QPT_XRC_RECV {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: the caller names a domain of ours.
        let xrcd = unsafe { xrc::handle(open.xrcd) }?;
        let made = call::<op::OpenQp>(&OpenQp { xrcd, qpn: open.qp_num })?;
        // SAFETY: all zeros is a valid structure of plain numbers and pointers.
        let mut wanted: ibv_qp_init_attr = unsafe { std::mem::zeroed() };
        wanted.qp_type = open.qp_type;
        if open.comp_mask & IBV_QP_OPEN_ATTR_CONTEXT != 0 {
            wanted.qp_context = open.qp_context;
        }
        Ok(show(&Base { context, pd: null_mut(), xrcd, create_flags: 0, is_extended: false }, ours, &wanted, &made))
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_qp_to_qp_ex(abi_qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    // SAFETY: the caller names a queue pair of ours.
    if unsafe { inner(abi_qp) }.is_ok_and(|qp| qp.is_extended) { abi_qp.cast() } else { null_mut() }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_destroy_qp(abi_qp: *mut ibv_qp) -> c_int {
    status(|| {
        // SAFETY: the caller names a queue pair of ours, and so an open context.
        let (abi_context, ours, qp) = unsafe { ((*not_null(abi_qp)?).context, context((*abi_qp).context)?, inner(abi_qp)?) };
        events::forget_unread(abi_context, call::<op::DestroyQp>(&qp.name())?);
        ours.remove_queue_pair(qp.qpn, abi_qp.cast());
        poll::forget(ours, qp, u64::MAX);
        qp.async_events.wait_until_settled();
        // SAFETY: `create` boxed it, and nobody uses it any more.
        drop(unsafe { Box::from_raw(abi_qp.cast::<Qp>()) });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_can_only_be_sent() {
        assert_eq!(operations_offered(IBV_QPT_UD, true) & u64::from(IBV_QP_EX_WITH_RDMA_WRITE), 0);
        assert_ne!(operations_offered(IBV_QPT_UC, true) & u64::from(IBV_QP_EX_WITH_RDMA_WRITE), 0);
        assert_eq!(operations_offered(IBV_QPT_UC, true) & u64::from(IBV_QP_EX_WITH_RDMA_READ), 0);
    }
}
