//! Posting work through `ibv_wr_*`: requests are built field by field between `wr_start` and `wr_complete`, which posts all of
//! them or, after an error in any, none.

use crate::ah;
use crate::guard::{guarded, lock, not_null};
use crate::post::{Data, bind_info, check_opcode, check_send_state, may_be_inline, submit_send};
use crate::qp::{self, QpInner};
use crate::unsupported::refuse;
use libc::{c_int, c_void};
use softband_abi::verbs::*;
use softband_client::Errno;
use softband_ipc::post::{PostRecord, kind};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// A request that is being built.
struct Pending {
    record: PostRecord,
    entries: Vec<ibv_sge>,
    inline: Vec<u8>,
}

#[derive(Default)]
struct Batch {
    /// Those of this batch first; behind them are such as may be used again, with the memory of their lists.
    requests: Vec<Pending>,
    begun: usize,
    error: Option<Errno>,
}

/// Who waits looks again after this at the latest: whoever ends may not see at once that somebody has begun to wait, for to be sure of
/// that it would have to wait for all that it has just written.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The requests under construction of one queue pair.
#[derive(Default)]
pub(crate) struct Builder {
    /// The thread that is between `wr_start` and `wr_complete` or `wr_abort`, or 0.
    owner: AtomicU64,
    /// That thread's.
    batch: UnsafeCell<Batch>,
    /// Threads that wait for it to end.
    waiting: AtomicU32,
    /// Held by whoever goes to sleep, and by whoever wakes those.
    sleeping: Mutex<()>,
    closed: Condvar,
}
// SAFETY: the batch is reached by its owner only.
unsafe impl Sync for Builder {}

impl Builder {
    /// Waits until no other thread builds. The engine does not wait for this one meanwhile.
    fn open(&self) {
        let me = softband_client::this_thread();
        let takes = || self.owner.compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if takes() {
            return;
        }
        softband_client::away(|| {
            let mut guard = lock(&self.sleeping);
            self.waiting.fetch_add(1, Ordering::SeqCst);
            while !takes() {
                guard = self.closed.wait_timeout(guard, LOOK_AGAIN).map_or_else(|error| error.into_inner().0, |(guard, _)| guard);
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        });
    }

    /// The batch, if the calling thread has begun one.
    #[expect(clippy::mut_from_ref, reason = "only the owner gets it, and nobody here keeps it")]
    fn own(&self) -> Option<&mut Batch> {
        // SAFETY: only the owner comes here, and the batch stays its own until it has closed it.
        (self.owner.load(Ordering::Relaxed) == softband_client::this_thread()).then(|| unsafe { &mut *self.batch.get() })
    }

    /// Ends the batch, after `post` was done with its requests; none of them when there was an error.
    fn close(&self, post: impl FnOnce(&[Pending]) -> Result<(), Errno>) -> Result<(), Errno> {
        let batch = self.own().ok_or(Errno(libc::EINVAL))?;
        let (begun, error) = (std::mem::take(&mut batch.begun), batch.error.take());
        let outcome = error.map_or_else(|| post(&batch.requests[..begun]), Err);
        self.owner.store(0, Ordering::Release);
        if self.waiting.load(Ordering::Relaxed) != 0 {
            let _guard = lock(&self.sleeping);
            self.closed.notify_one();
        }
        outcome
    }

    /// Begins a request, which is filled in where it stands; `None` when that is not allowed, or nothing is open.
    #[inline]
    fn begin(&self, allowed: Result<(), Errno>) -> Option<&mut Pending> {
        let batch = self.own()?;
        if let Err(error) = allowed {
            batch.error.get_or_insert(error);
            return None;
        }
        if batch.begun == batch.requests.len() {
            batch.requests.push(Pending { record: bytemuck::Zeroable::zeroed(), entries: Vec::new(), inline: Vec::new() });
        }
        let pending = &mut batch.requests[batch.begun];
        batch.begun += 1;
        pending.entries.clear();
        pending.inline.clear();
        Some(pending)
    }

    fn fail(&self, error: Errno) {
        self.begin(Err(error));
    }

    /// Changes the request that was begun last.
    fn amend(&self, change: impl FnOnce(&mut Pending) -> Result<(), Errno>) {
        let Some(batch) = self.own() else { return };
        let last = batch.begun.checked_sub(1).and_then(|last| batch.requests.get_mut(last));
        if let Err(error) = last.map_or(Err(Errno(libc::EINVAL)), change) {
            batch.error.get_or_insert(error);
        }
    }
}

/// Runs `body` with our part of the queue pair.
///
/// # Safety
/// `shown` is a queue pair of ours.
unsafe fn with(shown: *mut ibv_qp_ex, body: impl FnOnce(&QpInner)) {
    guarded((), || {
        // SAFETY: the caller's promise.
        if let Ok(qp) = unsafe { qp::inner(shown.cast()) } {
            body(qp);
        }
    });
}

/// Begins a request with what the program has put into `wr_id` and `wr_flags`.
///
/// # Safety
/// `shown` is a queue pair of ours.
unsafe fn begin(shown: *mut ibv_qp_ex, opcode: u32, fill: impl FnOnce(&mut PostRecord)) {
    // SAFETY: the caller's promise.
    unsafe {
        with(shown, |qp| {
            let (wr_id, flags) = ((*shown).wr_id, (*shown).wr_flags);
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

/// Entries that begin a request: `name(arguments) = opcode, |record| what else to fill in`.
macro_rules! operations {
    ($($name:ident($($argument:ident: $ty:ty),*) = $opcode:ident, |$record:ident| $fill:block)*) => {
        $(unsafe extern "C" fn $name(shown: *mut ibv_qp_ex $(, $argument: $ty)*) {
            // SAFETY: the header's inline function passes the queue pair that it found us in.
            unsafe { begin(shown, $opcode, |$record| $fill) }
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

/// Entries that are not offered: `wr_complete` answers `EOPNOTSUPP`.
macro_rules! refused_operations {
    ($($name:ident($($argument:ident: $ty:ty),*) = $what:literal;)*) => {
        $(unsafe extern "C" fn $name(shown: *mut ibv_qp_ex $(, $argument: $ty)*) {
            // SAFETY: as in `operations`.
            unsafe { with(shown, |qp| qp.builder.fail(refuse($what))) }
        })*
    };
}

refused_operations! {
    wr_send_tso(_header: *mut c_void, _header_bytes: u16, _mss: u16) = "ibv_wr_send_tso";
}

unsafe extern "C" fn wr_bind_mw(shown: *mut ibv_qp_ex, mw: *mut ibv_mw, rkey: u32, info: *const ibv_mw_bind_info) {
    // SAFETY: as in `operations`; the caller names a window of ours and gives what to bind it to.
    unsafe {
        begin(shown, IBV_WR_BIND_MW, |record| record.rkey = rkey);
        with(shown, |qp| {
            qp.builder.amend(|request| {
                let info = bind_info(mw, &*not_null(info.cast_mut())?)?;
                request.inline.extend_from_slice(bytemuck::bytes_of(&info));
                Ok(())
            });
        });
    }
}

unsafe extern "C" fn wr_atomic_write(shown: *mut ibv_qp_ex, rkey: u32, address: u64, value: *const c_void) {
    // SAFETY: as in `operations`; the caller gives eight bytes to be read.
    unsafe {
        begin(shown, IBV_WR_ATOMIC_WRITE, |record| (record.rkey, record.remote_address) = (rkey, address));
        with(shown, |qp| {
            qp.builder.amend(|request| {
                let value = *not_null(value.cast_mut())?.cast::<[u8; 8]>();
                request.record.flags |= IBV_SEND_INLINE;
                request.inline.extend_from_slice(&value);
                Ok(())
            });
        });
    }
}

unsafe extern "C" fn wr_set_xrc_srqn(shown: *mut ibv_qp_ex, number: u32) {
    // SAFETY: as in `operations`.
    unsafe {
        with(shown, |qp| {
            qp.builder.amend(|request| {
                request.record.xrc_srq = number;
                Ok(())
            });
        });
    }
}

unsafe extern "C" fn wr_set_ud_addr(shown: *mut ibv_qp_ex, handle: *mut ibv_ah, remote_qpn: u32, remote_qkey: u32) {
    // SAFETY: as in `operations`; the caller names an address handle of ours.
    unsafe {
        with(shown, |qp| {
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
        request.entries.clear();
        request.entries.extend_from_slice(list);
        Ok(())
    });
}

unsafe extern "C" fn wr_set_sge(shown: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    // SAFETY: as in `operations`.
    unsafe { with(shown, |qp| set_entries(qp, &[ibv_sge { addr, length, lkey }])) }
}

unsafe extern "C" fn wr_set_sge_list(shown: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    // SAFETY: as in `operations`; the list has `count` entries.
    unsafe {
        with(shown, |qp| match count {
            0 => set_entries(qp, &[]),
            _ if list.is_null() => qp.builder.fail(Errno(libc::EINVAL)),
            _ => set_entries(qp, std::slice::from_raw_parts(list, count)),
        });
    }
}

/// Copies the data of the last request now.
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
            // SAFETY: the caller's promise. The memory may be written by others at the same time: the bytes are only copied.
            request.inline.extend_from_slice(unsafe { std::slice::from_raw_parts(buffer.addr.cast::<u8>(), buffer.length) });
        }
        Ok(())
    });
}

unsafe extern "C" fn wr_set_inline_data(shown: *mut ibv_qp_ex, addr: *mut c_void, length: usize) {
    // SAFETY: as in `operations`; the caller names readable memory.
    unsafe { with(shown, |qp| set_inline(qp, &[ibv_data_buf { addr, length }])) }
}

unsafe extern "C" fn wr_set_inline_data_list(shown: *mut ibv_qp_ex, count: usize, list: *const ibv_data_buf) {
    // SAFETY: as in `operations`; the list has `count` buffers.
    unsafe {
        with(shown, |qp| match count {
            0 => set_inline(qp, &[]),
            _ if list.is_null() => qp.builder.fail(Errno(libc::EINVAL)),
            _ => set_inline(qp, std::slice::from_raw_parts(list, count)),
        });
    }
}

unsafe extern "C" fn wr_start(shown: *mut ibv_qp_ex) {
    // SAFETY: as in `operations`.
    unsafe { with(shown, |qp| qp.builder.open()) }
}

unsafe extern "C" fn wr_complete(shown: *mut ibv_qp_ex) -> c_int {
    guarded(libc::EIO, || {
        // SAFETY: as in `operations`.
        let posted = unsafe { qp::inner(shown.cast()) }.and_then(|qp| qp.builder.close(|requests| post_all(qp, requests)));
        posted.map_or_else(|Errno(errno)| errno, |()| 0)
    })
}

unsafe extern "C" fn wr_abort(shown: *mut ibv_qp_ex) {
    // SAFETY: as in `operations`.
    unsafe {
        with(shown, |qp| {
            let _ = qp.builder.close(|_| Ok(())); // nor is an error told
        });
    }
}

/// Posts all requests, or none when they do not all fit into the send queue.
fn post_all(qp: &QpInner, requests: &[Pending]) -> Result<(), Errno> {
    if qp.send.places_left() < requests.len() {
        return Err(Errno(libc::ENOMEM));
    }
    requests.iter().try_for_each(|request| {
        let data = if request.entries.is_empty() { Data::Copied(&request.inline) } else { Data::Registered(&request.entries) };
        submit_send(qp, &request.record, data)
    })
}

/// The table of an extended queue pair around `qp_base`.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// How much inline data the requests have that `build` makes.
    fn lengths_of_next(builder: &Builder, build: impl FnOnce(&Builder)) -> Vec<usize> {
        let mut lengths = Vec::new();
        builder.open();
        build(builder);
        let outcome = builder.close(|requests| {
            lengths.extend(requests.iter().map(|request| request.inline.len()));
            Ok(())
        });
        assert_eq!(outcome, Ok(()));
        lengths
    }

    #[test]
    fn an_error_in_one_request_drops_the_whole_batch() {
        let builder = Builder::default();
        builder.open();
        assert!(builder.begin(Ok(())).is_some());
        builder.fail(Errno(libc::EOPNOTSUPP));
        builder.amend(|_| Err(Errno(libc::EINVAL)));
        let unposted = |_: &[Pending]| panic!("none is posted");
        assert_eq!(builder.close(unposted), Err(Errno(libc::EOPNOTSUPP)), "the first error counts");
        assert_eq!(lengths_of_next(&builder, |_| ()), []);
    }

    #[test]
    fn fields_go_to_the_request_that_was_begun_last() {
        let two = |builder: &Builder| {
            assert!(builder.begin(Ok(())).is_some());
            assert!(builder.begin(Ok(())).is_some());
            builder.amend(|request| {
                request.inline.push(7);
                Ok(())
            });
        };
        let builder = Builder::default();
        assert_eq!(lengths_of_next(&builder, two), [0, 1]);
        assert_eq!(lengths_of_next(&builder, two), [0, 1], "what is used again is empty");
        assert_eq!(lengths_of_next(&builder, |builder| assert!(builder.begin(Ok(())).is_some())), [0], "nothing is left of the batch before");
    }

    #[test]
    fn one_thread_after_another_builds() {
        let (builder, inside) = (Builder::default(), AtomicU32::new(0));
        let posted = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        builder.open();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        assert!(builder.begin(Ok(())).is_some());
                        std::thread::yield_now();
                        let outcome = builder.close(|requests| {
                            posted.fetch_add(requests.len() as u32, Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                            Ok(())
                        });
                        assert_eq!(outcome, Ok(()));
                    }
                });
            }
        });
        assert_eq!(posted.load(Ordering::SeqCst), 2_000);
    }

    #[test]
    fn a_field_without_a_request_is_an_error() {
        let builder = Builder::default();
        builder.open();
        builder.amend(|_| Ok(()));
        assert_eq!(builder.close(|_| Ok(())), Err(Errno(libc::EINVAL)));
    }

    #[test]
    fn who_has_not_begun_builds_nothing() {
        let builder = Builder::default();
        assert!(builder.begin(Ok(())).is_none());
        assert_eq!(builder.close(|_| Ok(())), Err(Errno(libc::EINVAL)));
        builder.open();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                assert!(builder.begin(Ok(())).is_none());
                builder.close(|_| Ok(()))
            });
            assert_eq!(other.join().ok(), Some(Err(Errno(libc::EINVAL))));
        });
        assert_eq!(builder.close(|requests| if requests.is_empty() { Ok(()) } else { Err(Errno(libc::EIO)) }), Ok(()));
    }
}
