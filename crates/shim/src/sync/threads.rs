//! Threads. Each thread has a slot of the engine, from before its first instruction until after its
//! last destructor.

use crate::clib::args::{In, InOut, Managed, Out, Zeroed};
use crate::clib::real;
use crate::own_calls;
use crate::process::processor_set::without_set;
use crate::runtime::world::{active, return_if_away, set_parked, walled};
use crate::signal::actions::at_one_moment;
use crate::sync::doorbell::{self, Place};
use crate::time::clock::from_clock;
use crate::time::pace::empty_poll;
use libc::{c_int, c_void, pthread_attr_t, pthread_key_t, pthread_t, timespec};
use softband_client::{self as client, Errno, warn};
use softband_ipc::calls::{ThreadReply, op};
use softband_ipc::layout::THREADS_MAX;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};

unsafe extern "C" {
    safe fn pthread_attr_getdetachstate(attributes: Managed<pthread_attr_t>, state: Out<c_int>) -> c_int;
}

/// Rounds in which glibc runs destructors of thread-specific data.
const DESTRUCTOR_ROUNDS: u32 = 4;

/// Longest wait, in seconds of wall-clock time, for the system to end a thread.
const END_SECONDS: i64 = 1;

const FREE: u8 = 0;
const RUNNING: u8 = 1;
const FINISHED: u8 = 2;

/// A joinable thread.
struct Record {
    state: AtomicU8,
    thread: AtomicUsize,
}

const RECORDS_MAX: usize = 1024;
static RECORDS: [Record; RECORDS_MAX] = [const { Record { state: AtomicU8::new(FREE), thread: AtomicUsize::new(0) } }; RECORDS_MAX];

/// Set once the process has created a thread.
static HAS_CREATED: AtomicBool = AtomicBool::new(false);
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

thread_local! {
    static ROUND: Cell<u32> = const { Cell::new(0) };
}

type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// Start function, argument and slot of a new thread.
struct Beginning {
    start: Start,
    argument: *mut c_void,
    slot: u32,
}

/// Creates the key whose destructor detects the ends of threads, before the program creates any
/// key. Destructors run in the order of their keys.
pub fn install() {
    let mut key: pthread_key_t = 0;
    // SAFETY: the destructor ignores the value, so any value is good.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(on_thread_end)) } == 0 {
        KEY.store(key, Ordering::Release);
        notice_end(); // the first thread may end by pthread_exit
    }
}

/// Lets [`on_thread_end`] run at the end of the calling thread, or in the next round of destructors.
fn notice_end() {
    // SAFETY: nothing dereferences the value. The call refuses a key that does not exist.
    unsafe { libc::pthread_setspecific(KEY.load(Ordering::Acquire), std::ptr::without_provenance(1)) };
}

/// Clears the records in a forked child, in which only the forking thread remains.
pub fn forget_all() {
    HAS_CREATED.store(false, Ordering::Relaxed);
    for record in &RECORDS {
        record.state.store(FREE, Ordering::Relaxed);
    }
}

fn record_of(thread: pthread_t) -> Option<&'static Record> {
    RECORDS.iter().find(|record| record.state.load(Ordering::Acquire) != FREE && record.thread.load(Ordering::Relaxed) == thread as usize)
}

fn add_record(thread: pthread_t) {
    if let Some(stale) = record_of(thread) {
        stale.state.store(RUNNING, Ordering::Release);
        return;
    }
    for record in &RECORDS {
        if record.state.compare_exchange(FREE, RUNNING, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            record.thread.store(thread as usize, Ordering::Release);
            return;
        }
    }
}

/// Reports the end of a thread in the last round, after the program's own destructors.
extern "C" fn on_thread_end(_value: *mut c_void) {
    let round = ROUND.get() + 1;
    ROUND.set(round);
    return_if_away();
    if round < DESTRUCTOR_ROUNDS {
        notice_end();
        return;
    }
    own_calls::thread_ends();
    end_own();
}

/// Reports the end of the calling thread. Any later code of it runs outside simulated time.
pub fn end_own() {
    if !active() {
        return;
    }
    if let Some(record) = record_of(own_thread()) {
        record.state.store(FINISHED, Ordering::Release);
        doorbell::wake(std::ptr::from_ref(record) as usize, usize::MAX);
    }
    client::tell_last::<op::ThreadExit>(&());
    client::forget_thread();
}

/// Returns whether the process may have other threads.
pub fn has_created() -> bool {
    HAS_CREATED.load(Ordering::Relaxed)
}

/// Runs a new thread. `pthread_exit` unwinds through this function, so nothing may need a drop
/// while `start` runs.
extern "C-unwind" fn begin(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `pthread_create` below passed a box, and gave up its ownership.
    let Beginning { start, argument, slot } = unsafe { *Box::from_raw(argument.cast::<Beginning>()) };
    set_parked(true);
    client::bind_thread(slot);
    client::await_token();
    notice_end();
    start(argument)
}

/// Implements `pthread_create`.
///
/// # Safety
/// `start` may run with `argument` in another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: InOut<pthread_t>,
    attributes: Managed<pthread_attr_t>,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    own_calls::look_at_objects();
    if !active() {
        // SAFETY: the program answers for its start function and the argument of it.
        return unsafe { create_outside_time(thread, attributes, start, argument) };
    }
    HAS_CREATED.store(true, Ordering::Relaxed);
    let slot = match client::call::<op::ThreadNew>(&()) {
        Ok(ThreadReply { slot, .. }) => slot,
        Err(Errno(errno)) => {
            // A thread outside simulated time would stop the run if it held a lock that other
            // threads wait for.
            warn::once(&format!("pthread_create: EAGAIN, because a process in simulated time has at most {THREADS_MAX} threads at a time"));
            return errno;
        }
    };
    // SAFETY: the two types differ only in that the function may unwind.
    let start = unsafe { std::mem::transmute::<extern "C" fn(*mut c_void) -> *mut c_void, Start>(start) };
    let beginning = Box::into_raw(Box::new(Beginning { start, argument, slot }));
    // SAFETY: the C library lets `pthread_exit` unwind through start functions.
    let begin = unsafe { std::mem::transmute::<Start, extern "C" fn(*mut c_void) -> *mut c_void>(begin) };
    // SAFETY: `begin` takes ownership of the box that is its argument.
    let status = without_set(attributes, || unsafe { real::pthread_create(thread, attributes, begin, beginning.cast()) });
    if status != 0 {
        // SAFETY: no thread started, so the box is still ours.
        drop(unsafe { Box::from_raw(beginning) });
        end_unborn(slot);
    } else if !is_detached(attributes) {
        thread.get().into_iter().for_each(add_record);
    }
    status
}

/// Creates a thread of wall pace. Only a thread in a process with own system calls needs to be prepared.
///
/// # Safety
/// `start` may run with `argument` in another thread.
unsafe fn create_outside_time(
    thread: InOut<pthread_t>,
    attributes: Managed<pthread_attr_t>,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    extern "C-unwind" fn begin_prepared(argument: *mut c_void) -> *mut c_void {
        // SAFETY: the creator passed a box, and gave up its ownership.
        let Beginning { start, argument, .. } = unsafe { *Box::from_raw(argument.cast::<Beginning>()) };
        own_calls::prepare_thread();
        notice_end();
        start(argument)
    }
    if !own_calls::are_stopped() || !walled() {
        // SAFETY: the caller answers for the thread.
        return unsafe { real::pthread_create(thread, attributes, start, argument) };
    }
    // SAFETY: the two types differ only in that the function may unwind.
    let start = unsafe { std::mem::transmute::<extern "C" fn(*mut c_void) -> *mut c_void, Start>(start) };
    let beginning = Box::into_raw(Box::new(Beginning { start, argument, slot: 0 }));
    // SAFETY: the C library lets `pthread_exit` unwind through start functions.
    let begin = unsafe { std::mem::transmute::<Start, extern "C" fn(*mut c_void) -> *mut c_void>(begin_prepared) };
    // SAFETY: the new thread takes ownership of the box that is its argument.
    let status = unsafe { real::pthread_create(thread, attributes, begin, beginning.cast()) };
    if status != 0 {
        // SAFETY: no thread started, so the box is still ours.
        drop(unsafe { Box::from_raw(beginning) });
    }
    status
}

fn is_detached(attributes: Managed<pthread_attr_t>) -> bool {
    let mut state = libc::PTHREAD_CREATE_JOINABLE;
    !attributes.is_null() && pthread_attr_getdetachstate(attributes, Out::of(&mut state)) == 0 && state == libc::PTHREAD_CREATE_DETACHED
}

/// Reports the end of a thread that was never created. The calling thread takes the first turn of
/// `slot` in its place.
fn end_unborn(slot: u32) {
    let Some(own) = client::thread_slot_number() else { return };
    client::away(|| {
        client::bind_thread(slot);
        client::await_token();
        client::tell_last::<op::ThreadExit>(&());
        client::bind_thread(own);
    });
}

/// Waits in simulated time for the end of a thread. The rest of the native join takes only a
/// moment.
fn await_end(thread: pthread_t, deadline: u64) -> Result<(), Errno> {
    loop {
        let Some(record) = record_of(thread) else { return Err(Errno(libc::ESRCH)) };
        if record.state.load(Ordering::Acquire) == FINISHED {
            return Ok(());
        }
        if deadline <= client::now_ps() {
            return Err(Errno(libc::ETIMEDOUT));
        }
        let Some(place) = Place::take(std::ptr::from_ref(record) as usize) else { return Err(Errno(libc::ESRCH)) };
        place.wait(deadline);
    }
}

fn forget_record(thread: pthread_t) {
    if let Some(record) = record_of(thread) {
        record.state.store(FREE, Ordering::Release);
    }
}

fn own_thread() -> pthread_t {
    // SAFETY: `pthread_self` always succeeds (pthread_self(3)).
    unsafe { libc::pthread_self() }
}

unsafe extern "C-unwind" {
    /// Ends the calling thread if the program has cancelled it. Unwinds its stack.
    pub safe fn pthread_testcancel();
}

/// Implements `pthread_cancel`. A thread that waits in simulated time wakes, and ends if its wait is
/// a cancellation point.
///
/// # Safety
/// The thread is joinable or still runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cancel(thread: pthread_t) -> c_int {
    // SAFETY: the thread exists, as the caller promises.
    let status = unsafe { real::pthread_cancel(thread) };
    if status == 0 && active() && thread != own_thread() {
        doorbell::wake_thread(thread as usize);
    }
    status
}

/// Joins a thread that has reported its end. The system ends it at the present moment of simulated time,
/// unless it waits for another thread of the run.
fn join_ended(thread: pthread_t, result: Out<*mut c_void>) -> c_int {
    let mut limit = timespec::zeroed();
    real::kernel_clock_gettime(libc::CLOCK_REALTIME, Out::of(&mut limit));
    limit.tv_sec += END_SECONDS;
    // SAFETY: the thread is joinable, and its record stays with the caller until it is joined.
    match at_one_moment(|| unsafe { real::pthread_timedjoin_np(thread, result, In::of(&limit)) }) {
        // SAFETY: the thread is not joined yet.
        libc::ETIMEDOUT => unsafe { real::pthread_join(thread, result) },
        status => status,
    }
}

/// Implements `pthread_join`.
///
/// # Safety
/// The thread is joinable, and no other call joins it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_join(thread: pthread_t, result: Out<*mut c_void>) -> c_int {
    // SAFETY: this is the one call that joins the thread.
    let join = || unsafe { real::pthread_join(thread, result) };
    if !active() || thread == own_thread() {
        return join();
    }
    if await_end(thread, u64::MAX).is_err() {
        return crate::runtime::world::away(join); // not created by this library
    }
    let status = join_ended(thread, result);
    forget_record(thread);
    status
}

/// Implements `pthread_tryjoin_np`.
///
/// # Safety
/// The thread is joinable, and no other call joins it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_tryjoin_np(thread: pthread_t, result: Out<*mut c_void>) -> c_int {
    let known = if active() { record_of(thread) } else { None };
    match known.map(|record| record.state.load(Ordering::Acquire)) {
        // SAFETY: a finished thread with a record is still to be joined, by the caller alone.
        Some(FINISHED) => unsafe { pthread_join(thread, result) },
        Some(_) => {
            empty_poll();
            client::sync();
            libc::EBUSY
        }
        // SAFETY: the caller promises that the thread is joinable.
        None => unsafe { real::pthread_tryjoin_np(thread, result) },
    }
}

/// Implements `pthread_timedjoin_np`.
///
/// # Safety
/// The thread is joinable, and no other call joins it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_timedjoin_np(thread: pthread_t, result: Out<*mut c_void>, until: In<timespec>) -> c_int {
    let limit = until.get().filter(|_| active() && record_of(thread).is_some());
    let Some(limit) = limit else {
        // SAFETY: the caller promises that the thread is joinable; the C library waits for it.
        return unsafe { real::pthread_timedjoin_np(thread, result, until) };
    };
    match await_end(thread, from_clock(libc::CLOCK_REALTIME, &limit)) {
        // SAFETY: the thread has ended and is not joined yet, since it has a record.
        Ok(()) => unsafe { pthread_join(thread, result) },
        Err(Errno(errno)) => errno,
    }
}

/// Implements `pthread_detach`.
///
/// # Safety
/// The thread is joinable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_detach(thread: pthread_t) -> c_int {
    // SAFETY: nobody has joined or detached the thread, as the caller promises.
    let status = unsafe { real::pthread_detach(thread) };
    if status == 0 {
        forget_record(thread);
    }
    status
}
