//! Extended CQs: programs read one completion at a time, field by field.

use crate::convert::{immediate_or_key, wc_flags};
use crate::cq::{self, Cq, CqInit};
use crate::guard::{guarded, lock, not_null, object};
use crate::poll;
use crate::unsupported::refuse;
use libc::c_int;
use softband_abi::verbs::*;
use softband_client::{Errno, header};
use softband_ipc::ring::Cqe;
use std::ptr::null_mut;
use std::sync::{Condvar, Mutex, PoisonError};

/// Current completion of the readers. One thread owns it from a successful `start_poll` to
/// `end_poll`.
#[derive(Default)]
pub(crate) struct ExtendedPoll {
    state: Mutex<PollState>,
    freed: Condvar,
}

#[derive(Default)]
struct PollState {
    current: Option<Cqe>,
    is_held: bool,
}

/// Fields that programs can read.
const WC_FLAGS_OFFERED: u64 =
    IBV_WC_STANDARD_FLAGS as u64 | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP as u64 | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK as u64;

impl ExtendedPoll {
    /// Waits until no other thread polls. The engine does not wait for this thread meanwhile.
    fn hold(&self) {
        let mut state = lock(&self.state);
        if !state.is_held {
            state.is_held = true;
            return;
        }
        drop(state);
        softband_client::away(|| {
            let mut state = lock(&self.state);
            while state.is_held {
                state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.is_held = true;
        });
    }

    fn release(&self) {
        lock(&self.state).is_held = false;
        self.freed.notify_one();
    }
}

pub(crate) unsafe extern "C" fn create_cq_ex(abi_context: *mut ibv_context, init: *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex {
    object(|| {
        // SAFETY: the caller names readable attributes.
        let init = unsafe { &*not_null(init)? };
        if init.comp_mask & !(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        if init.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD != 0 {
            not_null(init.parent_domain)?;
        }
        let has_flags = init.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0;
        // Several threads may always poll. No CQ overruns silently.
        if has_flags && init.flags & !IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0 {
            return Err(refuse("a completion queue that may overrun (ibv_create_cq_ex, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)"));
        }
        if init.wc_flags & !WC_FLAGS_OFFERED != 0 {
            return Err(refuse("a completion with VLAN, flow tag or tag matching fields (ibv_create_cq_ex, wc_flags)"));
        }
        let has_stamps = init.wc_flags & u64::from(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) != 0;
        let plain = CqInit { entries: init.cqe, cookie: init.cq_context, channel: init.channel, vector: init.comp_vector, has_stamps };
        // SAFETY: the caller names an open context, and NULL or a channel of it.
        Ok(unsafe { cq::create(abi_context, &plain) }?.cast())
    })
}

unsafe extern "C" fn start_poll(abi_cq: *mut ibv_cq_ex, attributes: *mut ibv_poll_cq_attr) -> c_int {
    guarded(libc::EIO, || {
        // SAFETY: the pointer is NULL or readable.
        if unsafe { attributes.as_ref() }.is_some_and(|attributes| attributes.comp_mask != 0) {
            return libc::EINVAL;
        }
        // SAFETY: the caller names an extended CQ of ours.
        let Ok((ours, cq)) = (unsafe { poll::split(abi_cq.cast()) }) else { return libc::EINVAL };
        cq.extended.hold();
        let mut current = None;
        let polled = poll::poll(ours, cq, 1, |cqe| current = Some(*cqe));
        // SAFETY: this thread holds the poll.
        let outcome = polled.map_or_else(|Errno(errno)| errno, |_| unsafe { show(abi_cq, current) });
        if outcome == 0 {
            let mut queue = cq.queue.lock();
            queue.own_left = Some(queue.own.len());
        } else {
            cq.extended.release();
        }
        outcome
    })
}

unsafe extern "C" fn next_poll(abi_cq: *mut ibv_cq_ex) -> c_int {
    guarded(libc::EIO, || {
        // SAFETY: the caller names an extended CQ of ours, between `start_poll` and `end_poll`.
        let Ok((ours, cq)) = (unsafe { poll::split(abi_cq.cast()) }) else { return libc::EINVAL };
        let mut current = None;
        poll::take(ours, cq, 1, &mut |cqe: &Cqe| current = Some(*cqe));
        // SAFETY: this thread holds the poll.
        unsafe { show(abi_cq, current) }
    })
}

unsafe extern "C" fn end_poll(abi_cq: *mut ibv_cq_ex) {
    guarded((), || {
        // SAFETY: the caller names an extended CQ of ours.
        if let Ok(cq) = unsafe { cq::inner(abi_cq.cast()) } {
            cq.queue.lock().own_left = None;
            cq.extended.release();
            cq.note_found();
        }
    });
}

/// Sets the completion of the readers. Returns `ENOENT` for `None`.
///
/// # Safety
/// `abi_cq` is an extended CQ of ours and this thread holds its poll.
unsafe fn show(abi_cq: *mut ibv_cq_ex, current: Option<Cqe>) -> c_int {
    let Some(cqe) = current else { return libc::ENOENT };
    // SAFETY: the caller promises that this thread holds the poll, so nobody else writes these
    // fields.
    unsafe {
        (*abi_cq).status = cqe.status;
        (*abi_cq).wr_id = cqe.wr_id;
        lock(&(*abi_cq.cast::<Cq>()).inner.extended.state).current = Some(cqe);
    }
    0
}

/// Reads the completion that `start_poll` or `next_poll` found.
///
/// # Safety
/// `abi_cq` is an extended CQ of ours.
unsafe fn read<R: Default>(abi_cq: *mut ibv_cq_ex, field: impl FnOnce(&Cqe) -> R) -> R {
    guarded(R::default(), || {
        // SAFETY: an extended CQ of ours begins with the plain CQ.
        let current = unsafe { cq::inner(abi_cq.cast()) }.ok().and_then(|cq| lock(&cq.extended.state).current);
        current.as_ref().map_or_else(R::default, field)
    })
}

/// Returns the completion time in simulated nanoseconds since 1970.
fn wallclock_ns(cqe: &Cqe) -> u64 {
    header().epoch_seconds * 1_000_000_000 + cqe.time_ps / 1000
}

macro_rules! reader_functions {
    ($($name:ident: $ty:ty = |$cqe:ident| $value:expr;)*) => {
        $(unsafe extern "C" fn $name(abi_cq: *mut ibv_cq_ex) -> $ty {
            // SAFETY: the header's inline function passes the CQ whose table names this function.
            unsafe { read(abi_cq, |$cqe| $value) }
        })*
    };
}

reader_functions! {
    read_opcode: u32 = |cqe| cqe.opcode;
    read_vendor_err: u32 = |cqe| cqe.vendor_error;
    read_byte_len: u32 = |cqe| cqe.byte_len;
    read_imm_data: u32 = |cqe| immediate_or_key(cqe);
    read_qp_num: u32 = |cqe| cqe.qpn;
    read_src_qp: u32 = |cqe| cqe.source_qpn;
    read_wc_flags: u32 = |cqe| wc_flags(cqe);
    read_slid: u32 = |cqe| u32::from(cqe.source_lid);
    read_sl: u8 = |cqe| cqe.service_level;
    read_dlid_path_bits: u8 = |cqe| cqe.path_bits;
    read_completion_ts: u64 = |cqe| cqe.time_ps / 1000;
    read_cvlan: u16 = |_cqe| 0;
    read_flow_tag: u32 = |_cqe| 0;
    read_completion_wallclock_ns: u64 = |cqe| wallclock_ns(cqe);
}

unsafe extern "C" fn read_tm_info(_abi_cq: *mut ibv_cq_ex, info: *mut ibv_wc_tm_info) {
    if !info.is_null() {
        // SAFETY: the pointer is not NULL, and the caller gives it writable.
        unsafe { info.write(ibv_wc_tm_info { tag: 0, r#priv: 0 }) };
    }
}

/// Returns the function table of an extended CQ. The caller fills in all other fields.
pub(crate) fn readers() -> ibv_cq_ex {
    ibv_cq_ex {
        context: null_mut(),
        channel: null_mut(),
        cq_context: null_mut(),
        handle: 0,
        cqe: 0,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        comp_events_completed: 0,
        async_events_completed: 0,
        comp_mask: 0,
        status: 0,
        wr_id: 0,
        start_poll: Some(start_poll),
        next_poll: Some(next_poll),
        end_poll: Some(end_poll),
        read_opcode: Some(read_opcode),
        read_vendor_err: Some(read_vendor_err),
        read_byte_len: Some(read_byte_len),
        read_imm_data: Some(read_imm_data),
        read_qp_num: Some(read_qp_num),
        read_src_qp: Some(read_src_qp),
        read_wc_flags: Some(read_wc_flags),
        read_slid: Some(read_slid),
        read_sl: Some(read_sl),
        read_dlid_path_bits: Some(read_dlid_path_bits),
        read_completion_ts: Some(read_completion_ts),
        read_cvlan: Some(read_cvlan),
        read_flow_tag: Some(read_flow_tag),
        read_tm_info: Some(read_tm_info),
        read_completion_wallclock_ns: Some(read_completion_wallclock_ns),
    }
}
