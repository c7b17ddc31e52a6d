//! Opened devices, and the tables through which the header's inline functions call us.

use crate::device;
use crate::guard::{lock, minus_one, not_null, object};
use crate::qp::Qp;
use crate::{channel, cq, cq_ex, mr, mw, pd, poll, post, qp, query, srq, unsupported, xrc};
use libc::c_int;
use rustix::fd::{FromRawFd, IntoRawFd, OwnedFd};
use softband_abi::verbs::*;
use softband_client::fds::{self, Entry, Kind};
use softband_client::{Errno, call, is_wall};
use softband_ipc::calls::{Hca, Object, op};
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

/// An opened device. Programs hold a pointer to `abi.context`.
#[repr(C)]
struct OpenDevice {
    abi: verbs_context,
    context: Context,
}

/// Our part of an opened device. References to it may be shared, because locks protect its mutable
/// state.
pub(crate) struct Context {
    pub(crate) hca: u32,
    /// Object of the asynchronous events.
    pub(crate) async_object: u32,
    queue_pairs: RwLock<BTreeMap<u32, QpPointer>>,
    completion_queues: Mutex<BTreeMap<u32, CqPointer>>,
    shared_queues: Mutex<BTreeMap<u32, SrqPointer>>,
}

/// A queue pair in the table, valid while it is there.
#[derive(Clone, Copy)]
pub(crate) struct QpPointer(pub(crate) *mut Qp);
/// A CQ in the table, valid while it is there.
#[derive(Clone, Copy)]
pub(crate) struct CqPointer(pub(crate) *mut cq::Cq);
/// An SRQ in the table, valid while it is there.
#[derive(Clone, Copy)]
pub(crate) struct SrqPointer(pub(crate) *mut srq::Srq);

// SAFETY: `QpInner` keeps its shared state in atomics and behind locks.
unsafe impl Send for QpPointer {}
// SAFETY: `QpInner` keeps its shared state in atomics and behind locks.
unsafe impl Sync for QpPointer {}
// SAFETY: `CqInner` keeps its shared state in atomics and behind locks.
unsafe impl Send for CqPointer {}
// SAFETY: `SrqInner` keeps its shared state in atomics and behind locks.
unsafe impl Send for SrqPointer {}

impl Context {
    /// Returns the queue pairs by number. Callers must not hold the lock over a call to the engine.
    pub(crate) fn queue_pairs(&self) -> RwLockReadGuard<'_, BTreeMap<u32, QpPointer>> {
        self.queue_pairs.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a queue pair. A second open of a queue pair keeps the first entry.
    pub(crate) fn add_queue_pair(&self, qpn: u32, qp: *mut Qp) {
        self.queue_pairs.write().unwrap_or_else(PoisonError::into_inner).entry(qpn).or_insert(QpPointer(qp));
    }

    pub(crate) fn remove_queue_pair(&self, qpn: u32, qp: *mut Qp) {
        let mut queue_pairs = self.queue_pairs.write().unwrap_or_else(PoisonError::into_inner);
        if queue_pairs.get(&qpn).is_some_and(|known| known.0 == qp) {
            queue_pairs.remove(&qpn);
        }
    }

    pub(crate) fn completion_queues(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, CqPointer>> {
        lock(&self.completion_queues)
    }

    pub(crate) fn shared_queues(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, SrqPointer>> {
        lock(&self.shared_queues)
    }
}

/// Returns our part of the context that `abi_context` points to.
///
/// # Safety
/// `abi_context` was returned by `ibv_open_device` and is not closed.
pub(crate) unsafe fn context<'a>(abi_context: *mut ibv_context) -> Result<&'a Context, Errno> {
    let open = open_device(not_null(abi_context)?);
    // SAFETY: the caller promises an open context, and the pointer was derived from the whole box.
    Ok(unsafe { &(*open).context })
}

fn open_device(abi_context: *mut ibv_context) -> *mut OpenDevice {
    abi_context.cast::<u8>().wrapping_sub(offset_of!(OpenDevice, abi) + offset_of!(verbs_context, context)).cast()
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    object(|| {
        // SAFETY: the caller names a device of ours.
        let hca = unsafe { device::facts(device) }?.hca;
        let events = call::<op::CreateAsyncChannel>(&Hca { hca, reserved: 0 })?;
        let cmd_fd = command_fd()?;
        let async_fd = placeholder(Kind::AsyncChannel, events.object)?;
        let context = Context {
            hca,
            async_object: events.object,
            queue_pairs: RwLock::default(),
            completion_queues: Mutex::default(),
            shared_queues: Mutex::default(),
        };
        let open = Box::into_raw(Box::new(OpenDevice { abi: abi_context(device, cmd_fd, async_fd), context }));
        // SAFETY: the box was just created, and the pointer keeps the provenance of the whole box.
        Ok(unsafe { &raw mut (*open).abi.context })
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_close_device(abi_context: *mut ibv_context) -> c_int {
    minus_one(|| {
        let open = open_device(not_null(abi_context)?);
        // SAFETY: the caller names an open context. By the manual page, nobody uses it any more.
        let open = unsafe { Box::from_raw(open) };
        close_placeholder(open.abi.context.async_fd, open.context.async_object);
        // SAFETY: `command_fd` created it, and programs that keep it have made a copy.
        drop(unsafe { OwnedFd::from_raw_fd(open.abi.context.cmd_fd) });
        Ok(0)
    })
}

/// Creates a substitute for the descriptor of the kernel's driver. Softband has no driver, but
/// programs copy and pass the descriptor.
fn command_fd() -> Result<c_int, Errno> {
    let fd = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).map_err(|error| Errno(error.raw_os_error()))?;
    Ok(fd.into_raw_fd())
}

/// Creates a descriptor for an object of the engine. The kernel owns its number; the engine defines
/// its meaning.
pub(crate) fn placeholder(kind: Kind, object: u32) -> Result<c_int, Errno> {
    if is_wall() {
        return softband_client::event_socket(object).map(OwnedFd::into_raw_fd);
    }
    let flags = rustix::event::EventfdFlags::CLOEXEC;
    let fd = rustix::event::eventfd(0, flags).map_err(|error| Errno(error.raw_os_error()))?.into_raw_fd();
    if fds::register(fd, Entry { kind, object }) {
        return Ok(fd);
    }
    // SAFETY: the descriptor was just created, and nobody else knows it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Err(Errno(libc::EMFILE))
}

/// Closes a descriptor of [`placeholder`] and drops its reference to the object.
pub(crate) fn close_placeholder(fd: c_int, object: u32) {
    if is_wall() {
        // SAFETY: `placeholder` created it; a program that closed it itself has broken the rules
        // of the verbs.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
        let _ = call::<op::ObjectClose>(&Object { object, reserved: 0 });
        return;
    }
    // The program may have closed it (wrongly), and its number may already stand for something
    // else.
    if fds::lookup(fd).is_some_and(|entry| entry.object == object) {
        fds::remove(fd);
        // SAFETY: the descriptor is ours, because its number still stands for our object.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
        let _ = call::<op::ObjectClose>(&Object { object, reserved: 0 });
    }
}

fn abi_context(device: *mut ibv_device, cmd_fd: c_int, async_fd: c_int) -> verbs_context {
    use unsupported as no;
    verbs_context {
        query_port: Some(query::query_port),
        advise_mr: Some(mr::advise_mr),
        alloc_null_mr: Some(no::alloc_null_mr),
        read_counters: Some(no::read_counters),
        attach_counters_point_flow: Some(no::attach_counters_point_flow),
        create_counters: Some(no::create_counters),
        destroy_counters: Some(no::destroy_counters),
        reg_dm_mr: Some(no::reg_dm_mr),
        alloc_dm: Some(no::alloc_dm),
        free_dm: Some(no::free_dm),
        modify_flow_action_esp: Some(no::modify_flow_action_esp),
        destroy_flow_action: Some(no::destroy_flow_action),
        create_flow_action_esp: Some(no::create_flow_action_esp),
        modify_qp_rate_limit: Some(no::modify_qp_rate_limit),
        alloc_parent_domain: Some(pd::alloc_parent_domain),
        dealloc_td: Some(pd::dealloc_td),
        alloc_td: Some(pd::alloc_td),
        modify_cq: Some(no::modify_cq),
        post_srq_ops: Some(no::post_srq_ops),
        destroy_rwq_ind_table: Some(no::destroy_rwq_ind_table),
        create_rwq_ind_table: Some(no::create_rwq_ind_table),
        destroy_wq: Some(no::destroy_wq),
        modify_wq: Some(no::modify_wq),
        create_wq: Some(no::create_wq),
        query_rt_values: Some(query::query_rt_values),
        create_cq_ex: Some(cq_ex::create_cq_ex),
        r#priv: null_mut(),
        query_device_ex: Some(query::query_device_ex),
        ibv_destroy_flow: Some(no::destroy_flow),
        ABI_placeholder2: None,
        ibv_create_flow: Some(no::create_flow),
        ABI_placeholder1: None,
        open_qp: Some(qp::open_qp),
        create_qp_ex: Some(qp::create_qp_ex),
        get_srq_num: Some(srq::get_srq_num),
        create_srq_ex: Some(srq::create_srq_ex),
        open_xrcd: Some(xrc::open_xrcd),
        close_xrcd: Some(xrc::close_xrcd),
        _ABI_placeholder3: 0,
        sz: size_of::<verbs_context>(),
        context: ibv_context {
            device,
            ops: operations(),
            cmd_fd,
            async_fd,
            num_comp_vectors: 1,
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            abi_compat: VERBS_ABI_IS_EXTENDED,
        },
    }
}

fn operations() -> ibv_context_ops {
    use unsupported as no;
    ibv_context_ops {
        _compat_query_device: Some(query::ibv_query_device),
        _compat_query_port: Some(query::ibv_query_port),
        _compat_alloc_pd: Some(no::compat_alloc_pd),
        _compat_dealloc_pd: Some(no::compat_dealloc_pd),
        _compat_reg_mr: Some(no::compat_reg_mr),
        _compat_rereg_mr: Some(no::compat_rereg_mr),
        _compat_dereg_mr: Some(no::compat_dereg_mr),
        alloc_mw: Some(mw::alloc_mw),
        bind_mw: Some(mw::bind_mw),
        dealloc_mw: Some(mw::dealloc_mw),
        _compat_create_cq: Some(no::compat_create_cq),
        poll_cq: Some(poll::poll_cq),
        req_notify_cq: Some(channel::req_notify_cq),
        _compat_cq_event: Some(no::compat_cq_event),
        _compat_resize_cq: Some(no::compat_resize_cq),
        _compat_destroy_cq: Some(no::compat_destroy_cq),
        _compat_create_srq: Some(no::compat_create_srq),
        _compat_modify_srq: Some(no::compat_modify_srq),
        _compat_query_srq: Some(no::compat_query_srq),
        _compat_destroy_srq: Some(no::compat_destroy_srq),
        post_srq_recv: Some(srq::post_srq_recv),
        _compat_create_qp: Some(no::compat_create_qp),
        _compat_query_qp: Some(no::compat_query_qp),
        _compat_modify_qp: Some(no::compat_modify_qp),
        _compat_destroy_qp: Some(no::compat_destroy_qp),
        post_send: Some(post::post_send),
        post_recv: Some(post::post_recv),
        _compat_create_ah: Some(no::compat_create_ah),
        _compat_destroy_ah: Some(no::compat_destroy_ah),
        _compat_attach_mcast: Some(no::compat_attach_mcast),
        _compat_detach_mcast: Some(no::compat_detach_mcast),
        _compat_async_event: Some(no::compat_async_event),
    }
}
