//! Shared receive queues.

use crate::context::{SrqPointer, context};
use crate::direct::OwnQueue;
use crate::event_count::EventCount;
use crate::guard::{guarded, not_null, object, status};
use crate::post::{post_receive, receive_entries, report};
use crate::unsupported::refuse;
use crate::work_queue::WorkQueue;
use crate::{cq, events, xrc};
use libc::{c_int, c_void};
use softband_abi::verbs::*;
use softband_client::{Errno, call};
use softband_ipc::calls::{Handle, SrqFields, op};
use softband_ipc::post::{PostRecord, kind};
use softband_shm_transport::tables::of_shared_queue;

/// An SRQ: the header's structure, and our part.
#[repr(C)]
pub(crate) struct Srq {
    pub(crate) abi: ibv_srq,
    pub(crate) inner: SrqInner,
}

/// Our part of an SRQ. References to it may be shared.
pub(crate) struct SrqInner {
    hca: u32,
    pub(crate) handle: u32,
    max_sge: u32,
    number: u32,
    /// Queue pairs of other processes may deliver to it.
    pub(crate) is_xrc: bool,
    pub(crate) receive: WorkQueue,
    direct: OwnQueue,
    pub(crate) async_events: EventCount,
}

/// Returns our part of the SRQ that `abi_srq` points to.
///
/// # Safety
/// This library created `abi_srq`, and it is not destroyed.
pub(crate) unsafe fn inner<'a>(abi_srq: *mut ibv_srq) -> Result<&'a SrqInner, Errno> {
    let srq = not_null(abi_srq)?.cast::<Srq>();
    // SAFETY: the caller promises an SRQ of ours, and programs keep the pointer to the whole box.
    Ok(unsafe { &(*srq).inner })
}

/// Handles of domain and CQ of an XRC SRQ; zeros for other SRQs.
#[derive(Clone, Copy, Default)]
struct OfXrc {
    xrcd: u32,
    cq: u32,
}

/// Creates an SRQ and writes its size to `attr`.
///
/// # Safety
/// The PD is ours.
unsafe fn create(pd: *mut ibv_pd, srq_context: *mut c_void, attr: &mut ibv_srq_attr, xrc: OfXrc) -> Result<*mut ibv_srq, Errno> {
    // SAFETY: the caller promises a PD of ours, and so an open context.
    let (abi_context, pd_handle, ours) = unsafe { ((*not_null(pd)?).context, (*pd).handle, context((*pd).context)?) };
    let OfXrc { xrcd, cq } = xrc;
    let wanted = SrqFields { hca: ours.hca, pd: pd_handle, max_wr: attr.max_wr, max_sge: attr.max_sge, xrcd, cq, ..bytemuck::Zeroable::zeroed() };
    let made = call::<op::CreateSrq>(&wanted).map_err(say_unsupported)?;
    (attr.max_wr, attr.max_sge) = (made.max_wr, made.max_sge);
    let srq = Box::into_raw(Box::new(Srq {
        abi: ibv_srq {
            context: abi_context,
            srq_context,
            pd,
            handle: made.handle,
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            cond: libc::PTHREAD_COND_INITIALIZER,
            events_completed: 0,
        },
        inner: SrqInner {
            hca: ours.hca,
            handle: made.handle,
            max_sge: made.max_sge,
            number: made.number,
            is_xrc: xrcd != 0,
            receive: WorkQueue::new(made.max_wr),
            direct: OwnQueue::new(made.direct, of_shared_queue(made.handle)),
            async_events: EventCount::default(),
        },
    }));
    ours.shared_queues().insert(made.handle, SrqPointer(srq));
    Ok(srq.cast())
}

fn say_unsupported(errno: Errno) -> Errno {
    if errno == Errno(libc::EOPNOTSUPP) { refuse("a shared receive queue (ibv_create_srq) on this HCA") } else { errno }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_create_srq(pd: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    object(|| {
        // SAFETY: the caller names a PD of ours and gives the attributes readable and writable.
        unsafe {
            let init = &mut *not_null(init)?;
            create(pd, init.srq_context, &mut init.attr, OfXrc::default())
        }
    })
}

pub(crate) unsafe extern "C" fn create_srq_ex(_context: *mut ibv_context, init: *mut ibv_srq_init_attr_ex) -> *mut ibv_srq {
    object(|| {
        // SAFETY: the caller gives the attributes readable and writable.
        let init = unsafe { &mut *not_null(init)? };
        let kind = if init.comp_mask & IBV_SRQ_INIT_ATTR_TYPE == 0 { IBV_SRQT_BASIC } else { init.srq_type };
        let needed = match kind {
            IBV_SRQT_BASIC => IBV_SRQ_INIT_ATTR_PD,
            IBV_SRQT_XRC => IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
            _ => return Err(refuse("a shared receive queue with tag matching (ibv_create_srq_ex)")),
        };
        if init.comp_mask & needed != needed || init.comp_mask & !(needed | IBV_SRQ_INIT_ATTR_TYPE) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: the caller names a PD of ours, and a domain and a CQ of ours if the type requires
        // them.
        unsafe {
            let xrc = if kind == IBV_SRQT_XRC { OfXrc { xrcd: xrc::handle(init.xrcd)?, cq: cq::inner(init.cq)?.handle } } else { OfXrc::default() };
            create(init.pd, init.srq_context, &mut init.attr, xrc)
        }
    })
}

/// Returns the number by which messages of XRC connections name the SRQ.
pub(crate) unsafe extern "C" fn get_srq_num(abi_srq: *mut ibv_srq, number: *mut u32) -> c_int {
    status(|| {
        // SAFETY: the caller names an SRQ of ours.
        let srq = unsafe { inner(abi_srq) }?;
        if !srq.is_xrc {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: the caller gives a writable number.
        unsafe { not_null(number)?.write(srq.number) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_modify_srq(abi_srq: *mut ibv_srq, attributes: *mut ibv_srq_attr, mask: c_int) -> c_int {
    status(|| {
        // SAFETY: the caller names an SRQ of ours and readable attributes.
        let (srq, wanted) = unsafe { (inner(abi_srq)?, *not_null(attributes)?) };
        let mask = mask as u32;
        let request = SrqFields { handle: srq.handle, mask, max_wr: wanted.max_wr, limit: wanted.srq_limit, ..bytemuck::Zeroable::zeroed() };
        let now = call::<op::ModifySrq>(&request)?;
        srq.receive.resize(now.max_wr);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_srq(abi_srq: *mut ibv_srq, attributes: *mut ibv_srq_attr) -> c_int {
    status(|| {
        // SAFETY: the caller names an SRQ of ours.
        let srq = unsafe { inner(abi_srq) }?;
        let SrqFields { max_wr, max_sge, limit, .. } = call::<op::QuerySrq>(&Handle { handle: srq.handle, reserved: 0 })?;
        // SAFETY: the caller gives writable attributes.
        unsafe { not_null(attributes)?.write(ibv_srq_attr { max_wr, max_sge, srq_limit: limit }) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_destroy_srq(abi_srq: *mut ibv_srq) -> c_int {
    status(|| {
        // SAFETY: the caller names an SRQ of ours, and so an open context.
        let (abi_context, ours, srq) = unsafe { ((*not_null(abi_srq)?).context, context((*abi_srq).context)?, inner(abi_srq)?) };
        events::forget_unread(abi_context, call::<op::DestroySrq>(&Handle { handle: srq.handle, reserved: 0 })?);
        ours.shared_queues().remove(&srq.handle);
        srq.async_events.wait_until_settled();
        // SAFETY: `create` boxed it, and nobody uses it any more.
        drop(unsafe { Box::from_raw(abi_srq.cast::<Srq>()) });
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn post_srq_recv(abi_srq: *mut ibv_srq, first: *mut ibv_recv_wr, bad: *mut *mut ibv_recv_wr) -> c_int {
    guarded(libc::EIO, || {
        let mut at = first;
        // SAFETY: the caller names an SRQ of ours and a list of requests.
        let outcome = unsafe { inner(abi_srq) }.and_then(|srq| {
            while !at.is_null() {
                // SAFETY: `at` is not NULL, so it is a request of the caller's list.
                unsafe {
                    post_one(srq, &*at)?;
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
/// The request's list has the stated number of entries.
unsafe fn post_one(srq: &SrqInner, request: &ibv_recv_wr) -> Result<(), Errno> {
    // SAFETY: the list has the entries that the request states, if no more than `max_sge`.
    let list = unsafe { receive_entries(request, srq.max_sge) }?;
    let record = || PostRecord { kind: kind::SRQ_RECEIVE, hca: srq.hca, object: srq.handle, wr_id: request.wr_id, ..bytemuck::Zeroable::zeroed() };
    post_receive((&srq.direct, &srq.receive), list, request.wr_id, record)
}
