//! Asynchronous events, and waits on channels of both kinds.

use crate::context::{Context, context};
use crate::guard::{guarded, minus_one, not_null};
use crate::{cq, qp, srq};
use bytemuck::Pod;
use libc::{c_int, c_void};
use softband_abi::verbs::*;
use softband_client::{Errno, call, call_with_tail, is_wall};
use softband_ipc::calls::{AsyncEvent, Call, Count, Object, WaitEntry, WaitRequest, op, readiness, reason};
use std::ptr::{null_mut, without_provenance_mut};

/// A read of a channel.
pub(crate) struct Reading {
    pub(crate) object: u32,
    /// The object's descriptor, whose flags decide whether to wait.
    pub(crate) fd: c_int,
}

/// Waits for data to read, at wall pace, as a cancellation point (pthreads(7)). Returns true after
/// an interrupt by a signal, with `errno` set. A cancelled thread ends here, so its caller must
/// have nothing to clean up.
///
/// # Safety
/// `fd` is any number.
#[inline(always)]
pub(crate) unsafe fn is_interrupted(fd: c_int) -> bool {
    let mut byte = 0u8;
    // SAFETY: the byte has room for the read, and a number that is not open gives an error.
    is_wall() && unsafe { libc::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_PEEK) < 0 && *libc::__errno_location() == libc::EINTR }
}

/// Reads an event with the call `Read`. Waits for it unless the descriptor is non-blocking.
pub(crate) fn read_or_wait<Read: Call<Request = Object, Reply: Pod>>(reading: &Reading) -> Result<Read::Reply, Errno> {
    let object = Object { object: reading.object, reserved: 0 };
    if is_wall() {
        return read_told::<Read>(reading, &object);
    }
    loop {
        match call::<Read>(&object) {
            Err(Errno(libc::EAGAIN)) if !is_nonblocking(reading.fd) => wait_readable(reading.object)?,
            outcome => return outcome,
        }
    }
}

/// Reads an event at wall pace: each event comes with a byte on the descriptor, and the kernel does
/// the waiting.
fn read_told<Read: Call<Request = Object, Reply: Pod>>(reading: &Reading, object: &Object) -> Result<Read::Reply, Errno> {
    // SAFETY: the descriptor is only borrowed for this call; a number that is not open gives an
    // error.
    let fd = unsafe { rustix::fd::BorrowedFd::borrow_raw(reading.fd) };
    loop {
        let mut byte = [0u8; 1];
        rustix::net::recv(fd, &mut byte[..], rustix::net::RecvFlags::empty()).map_err(|error| Errno(error.raw_os_error()))?;
        match call::<Read>(object) {
            Err(Errno(libc::EAGAIN)) => {} // a byte of somebody else
            outcome => return outcome,
        }
    }
}

/// Discards unread events of a destroyed object. At wall pace, their bytes are still on the
/// descriptor.
pub(crate) fn forget_unread(abi_context: *mut ibv_context, Count { count }: Count) {
    if !is_wall() {
        return;
    }
    // SAFETY: the caller has an open context, and its descriptor is only borrowed here.
    let fd = unsafe { rustix::fd::BorrowedFd::borrow_raw((*abi_context).async_fd) };
    let take = |_: &u64| rustix::net::recv(fd, &mut [0u8; 1][..], rustix::net::RecvFlags::DONTWAIT).is_ok();
    let _taken = (0..count).take_while(take).count();
}

fn is_nonblocking(fd: c_int) -> bool {
    // SAFETY: the descriptor is only borrowed for this call; a number that is not open gives an
    // error.
    let fd = unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) };
    rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(rustix::fs::OFlags::NONBLOCK))
}

fn wait_readable(object: u32) -> Result<(), Errno> {
    let request = WaitRequest { deadline_ps: u64::MAX, count: 1, reason: reason::NONE };
    let entry = WaitEntry { object, interest: readiness::READABLE, ready: 0, seen: 0 };
    let (reply, _) = call_with_tail::<op::Wait>(&request, &[entry], &mut [])?;
    if reply.interrupted != 0 && !signals_restart() { Err(Errno(libc::EINTR)) } else { Ok(()) }
}

/// Checks whether the program restarts reads after an alarm (`SA_RESTART`), the only signal that
/// the engine raises.
fn signals_restart() -> bool {
    // SAFETY: all zeros is a valid action, and the call only writes it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGALRM, std::ptr::null(), &raw mut action) == 0 && action.sa_flags & libc::SA_RESTART != 0
    }
}

/// Kind of an event's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    CompletionQueue,
    QueuePair,
    SharedQueue,
    Port,
}

fn element_of(event: u32) -> Element {
    match event {
        IBV_EVENT_CQ_ERR => Element::CompletionQueue,
        IBV_EVENT_QP_FATAL
        | IBV_EVENT_QP_REQ_ERR
        | IBV_EVENT_QP_ACCESS_ERR
        | IBV_EVENT_COMM_EST
        | IBV_EVENT_SQ_DRAINED
        | IBV_EVENT_PATH_MIG
        | IBV_EVENT_PATH_MIG_ERR
        | IBV_EVENT_QP_LAST_WQE_REACHED => Element::QueuePair,
        IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => Element::SharedQueue,
        _ => Element::Port,
    }
}

/// Returns the object of an event and counts the event as taken. Returns NULL if the object is
/// gone.
fn take_element(ours: &Context, event: &AsyncEvent) -> *mut c_void {
    match element_of(event.event) {
        Element::Port => without_provenance_mut(event.element as usize),
        Element::CompletionQueue => ours.completion_queues().get(&event.element).map_or(null_mut(), |pointer| {
            // SAFETY: the queue is in the table, so it is not destroyed.
            unsafe { (*pointer.0).inner.async_events.take() };
            pointer.0.cast()
        }),
        Element::QueuePair => ours.queue_pairs().get(&event.element).map_or(null_mut(), |pointer| {
            // SAFETY: the queue pair is in the table, so it is not destroyed.
            unsafe { (*pointer.0).inner.async_events.take() };
            pointer.0.cast()
        }),
        Element::SharedQueue => ours.shared_queues().get(&event.element).map_or(null_mut(), |pointer| {
            // SAFETY: the shared queue is in the table, so it is not destroyed.
            unsafe { (*pointer.0).inner.async_events.take() };
            pointer.0.cast()
        }),
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_get_async_event(abi_context: *mut ibv_context, event: *mut ibv_async_event) -> c_int {
    // SAFETY: the caller names an open context, or NULL.
    let is_over = !abi_context.is_null() && unsafe { is_interrupted((*abi_context).async_fd) };
    // SAFETY: the caller promises an open context and a writable event.
    if is_over { -1 } else { unsafe { get_event(abi_context, event) } }
}

#[inline(never)] // its caller has nothing to tidy up
unsafe extern "C" fn get_event(abi_context: *mut ibv_context, event: *mut ibv_async_event) -> c_int {
    minus_one(|| {
        // SAFETY: the caller names an open context.
        let (ours, fd) = unsafe { (context(abi_context)?, (*abi_context).async_fd) };
        loop {
            let read = read_or_wait::<op::AsyncRead>(&Reading { object: ours.async_object, fd })?;
            let element = take_element(ours, &read);
            if element.is_null() && element_of(read.event) != Element::Port {
                continue; // the object of this event was destroyed
            }
            // SAFETY: the caller gives a writable event.
            unsafe { not_null(event)?.write(ibv_async_event { element, event_type: read.event }) };
            return Ok(0);
        }
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    guarded((), || {
        if event.is_null() {
            return;
        }
        // SAFETY: the caller passes an event of `ibv_get_async_event`, and the destruction of its
        // object waits for this.
        unsafe {
            let ibv_async_event { element, event_type } = *event;
            match element_of(event_type) {
                Element::Port => {}
                Element::CompletionQueue => {
                    let _ = cq::inner(element.cast()).map(|cq| cq.async_events.acknowledge(1));
                }
                Element::SharedQueue => {
                    let _ = srq::inner(element.cast()).map(|srq| srq.async_events.acknowledge(1));
                }
                Element::QueuePair => {
                    let _ = qp::inner(element.cast()).map(|qp| qp.async_events.acknowledge(1));
                }
            }
        }
    });
}
