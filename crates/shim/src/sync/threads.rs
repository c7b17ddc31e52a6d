//! Threads. Each thread has a slot of the engine, from before its first instruction until after its
//! last destructor.

use crate::clib::real;
use crate::runtime::world::{active, set_parked};
use crate::sync::doorbell::{self, Place};
use crate::time::clock::from_clock;
use crate::time::pace::empty_poll;
use libc::{c_int, c_void, pthread_attr_t, pthread_key_t, pthread_t, timespec};
use softband_client::{self as client, Errno, warn};
use softband_ipc::calls::{ThreadReply, op};
use softband_ipc::layout::THREADS_MAX;
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

unsafe extern "C" {
    fn pthread_attr_getdetachstate(attributes: *const pthread_attr_t, state: *mut c_int) -> c_int;
}

/// Rounds in which glibc runs destructors of thread-specific data.
const DESTRUCTOR_ROUNDS: u32 = 4;

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
    // SAFETY: the key is stored before anything uses it.
    unsafe {
        if libc::pthread_key_create(&raw mut key, Some(on_thread_end)) == 0 {
            KEY.store(key, Ordering::Release);
            libc::pthread_setspecific(key, std::ptr::without_provenance(1)); // the first thread may end by pthread_exit
        }
    }
}

/// Clears the records in a forked child, in which only the forking thread remains.
pub fn forget_all() {
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
    if round < DESTRUCTOR_ROUNDS {
        // SAFETY: the key exists.
        unsafe { libc::pthread_setspecific(KEY.load(Ordering::Acquire), std::ptr::without_provenance(1)) };
        return;
    }
    if !active() {
        return;
    }
    // SAFETY: no arguments.
    let own = unsafe { libc::pthread_self() };
    if let Some(record) = record_of(own) {
        record.state.store(FINISHED, Ordering::Release);
        doorbell::wake(std::ptr::from_ref(record) as usize, usize::MAX);
    }
    client::tell_last::<op::ThreadExit>(&());
    client::forget_thread();
}

/// Runs a new thread. `pthread_exit` unwinds through this function, so nothing may need a drop
/// while `start` runs.
extern "C-unwind" fn begin(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `pthread_create` below passed a box.
    let Beginning { start, argument, slot } = unsafe { *Box::from_raw(argument.cast::<Beginning>()) };
    set_parked(true);
    client::bind_thread(slot);
    client::await_token();
    // SAFETY: the key exists.
    unsafe { libc::pthread_setspecific(KEY.load(Ordering::Acquire), std::ptr::without_provenance(1)) };
    start(argument)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    if !active() {
        return real::pthread_create(thread, attributes, start, argument);
    }
    let slot = match client::call::<op::ThreadNew>(&()) {
        Ok(ThreadReply { slot, .. }) => slot,
        Err(Errno(errno)) => {
            // A thread outside simulated time would stop the run if it held a lock that other
            // threads wait for.
            warn::once(&format!("pthread_create: EAGAIN, because a process in simulated time has at most {THREADS_MAX} threads at a time"));
            return errno;
        }
    };
    let beginning =
        Box::into_raw(Box::new(Beginning { start: std::mem::transmute::<extern "C" fn(*mut c_void) -> *mut c_void, Start>(start), argument, slot }));
    let status =
        real::pthread_create(thread, attributes, std::mem::transmute::<Start, extern "C" fn(*mut c_void) -> *mut c_void>(begin), beginning.cast());
    if status != 0 {
        drop(Box::from_raw(beginning));
        end_unborn(slot);
    } else if !is_detached(attributes) {
        add_record(*thread);
    }
    status
}

unsafe fn is_detached(attributes: *const pthread_attr_t) -> bool {
    let mut state = libc::PTHREAD_CREATE_JOINABLE;
    !attributes.is_null() && pthread_attr_getdetachstate(attributes, &raw mut state) == 0 && state == libc::PTHREAD_CREATE_DETACHED
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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_join(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    if !active() || libc::pthread_equal(thread, libc::pthread_self()) != 0 {
        return real::pthread_join(thread, result);
    }
    if await_end(thread, u64::MAX).is_err() {
        return crate::runtime::world::away(|| real::pthread_join(thread, result)); // not created by this library
    }
    let status = real::pthread_join(thread, result);
    forget_record(thread);
    status
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_tryjoin_np(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    let known = if active() { record_of(thread) } else { None };
    match known.map(|record| record.state.load(Ordering::Acquire)) {
        Some(FINISHED) => pthread_join(thread, result),
        Some(_) => {
            empty_poll();
            client::sync();
            libc::EBUSY
        }
        None => real::pthread_tryjoin_np(thread, result),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_timedjoin_np(thread: pthread_t, result: *mut *mut c_void, until: *const timespec) -> c_int {
    if !active() || until.is_null() || record_of(thread).is_none() {
        return real::pthread_timedjoin_np(thread, result, until);
    }
    match await_end(thread, from_clock(libc::CLOCK_REALTIME, &*until)) {
        Ok(()) => pthread_join(thread, result),
        Err(Errno(errno)) => errno,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_detach(thread: pthread_t) -> c_int {
    let status = real::pthread_detach(thread);
    if status == 0 {
        forget_record(thread);
    }
    status
}
