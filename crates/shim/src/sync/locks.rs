//! Mutexes, conditions, read-write locks, spin locks, barriers. A thread that finds a lock taken
//! gives the token away, so that the holder can run. Threads poll locks shared between processes,
//! in simulated time.

use crate::clib::args::{In, Managed};
use crate::clib::real;
use crate::runtime::world::{active, is_valid, keeping_errno};
use crate::shared::{guard, ranges};
use crate::sync::doorbell::{self, Place};
use crate::sync::threads::pthread_testcancel;
use crate::time::clock::from_clock;
use crate::time::pace::Patience;
use libc::{
    c_int, c_uint, clockid_t, pthread_barrier_t, pthread_barrierattr_t, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, pthread_spinlock_t,
    timespec,
};
use softband_client as client;
use softband_ipc::calls::reason;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Layout of glibc's `pthread_mutex_t` on x86-64: lock, count, owner, users, kind, each four bytes.
const MUTEX_OWNER: usize = 8;
const MUTEX_KIND: usize = 16;
const KIND_MASK: c_int = 3;
const KIND_ERRORCHECK: c_int = 2;
const KIND_ROBUST: c_int = 16;
const KIND_SHARED: c_int = 128;
/// `__wrefs` of a condition: bit 0 means shared between processes, bit 1 selects the clock.
const COND_WREFS: usize = 36;
const COND_SHARED: c_uint = 1;
const COND_MONOTONIC: c_uint = 2;

/// A word of a shared condition that the C library uses in functions of its own alone. In simulated
/// time none of them runs, and the word counts the signals.
const COND_SIGNALS: usize = 40;
/// Layout of glibc's `pthread_rwlock_t`: the flag of a lock that processes share.
const RWLOCK_SHARED: usize = 28;
/// Layout of glibc's `pthread_barrier_t`: threads in this round, number of the round, threads of
/// each round, flag of a barrier that processes share.
const BARRIER_IN: usize = 0;
const BARRIER_ROUND: usize = 4;
const BARRIER_COUNT: usize = 8;
const BARRIER_SHARED: usize = 12;

/// Repeats `attempt` until it succeeds or the deadline comes. `shared`: the holder may be in
/// another process and rings no bell here.
fn acquire(address: usize, shared: bool, deadline: u64, mut attempt: impl FnMut() -> c_int) -> c_int {
    keeping_errno(|| {
        let patience = Patience::of(reason::LOCK);
        loop {
            let status = attempt();
            if status != libc::EBUSY {
                return status;
            }
            if deadline <= client::now_ps() {
                return libc::ETIMEDOUT;
            }
            match if shared { None } else { Place::take(address) } {
                Some(place) => {
                    place.wait(deadline);
                }
                None => {
                    let _ = patience.step(deadline);
                }
            }
        }
    })
}

fn lock_mutex(mutex: Managed<pthread_mutex_t>, deadline: u64) -> c_int {
    let status = pthread_mutex_trylock(mutex);
    if status != libc::EBUSY {
        return status;
    }
    let kind = mutex.field(MUTEX_KIND);
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    if kind & KIND_MASK == KIND_ERRORCHECK && mutex.field(MUTEX_OWNER) == own {
        return libc::EDEADLK;
    }
    acquire(mutex.address(), kind & KIND_SHARED != 0, deadline, || real::pthread_mutex_trylock(mutex))
}

/// Implements `pthread_mutex_trylock`. The kernel frees the robust mutexes of a thread that ends, so
/// their memory stays writable.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_mutex_trylock(mutex: Managed<pthread_mutex_t>) -> c_int {
    let status = real::pthread_mutex_trylock(mutex);
    if ranges::any() && mutex.field(MUTEX_KIND) & KIND_ROBUST != 0 && active() {
        keeping_errno(|| guard::keep_open(mutex.address()));
    }
    status
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_mutex_lock(mutex: Managed<pthread_mutex_t>) -> c_int {
    if !active() {
        return real::pthread_mutex_lock(mutex);
    }
    lock_mutex(mutex, u64::MAX)
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_mutex_timedlock(mutex: Managed<pthread_mutex_t>, until: In<timespec>) -> c_int {
    if !active() {
        return real::pthread_mutex_timedlock(mutex, until);
    }
    let Some(until) = until.get() else { return libc::EINVAL };
    lock_mutex(mutex, from_clock(libc::CLOCK_REALTIME, &until))
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_mutex_clocklock(mutex: Managed<pthread_mutex_t>, clock: clockid_t, until: In<timespec>) -> c_int {
    if !active() {
        return real::pthread_mutex_clocklock(mutex, clock, until);
    }
    let Some(until) = until.get() else { return libc::EINVAL };
    lock_mutex(mutex, from_clock(clock, &until))
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_mutex_unlock(mutex: Managed<pthread_mutex_t>) -> c_int {
    let status = real::pthread_mutex_unlock(mutex);
    if status == 0 && doorbell::is_awaited(mutex.address()) && active() {
        keeping_errno(|| doorbell::wake(mutex.address(), 1));
    }
    status
}

fn is_shared(cond: Managed<pthread_cond_t>) -> bool {
    cond.field(COND_WREFS) as c_uint & COND_SHARED != 0
}

/// Waits for a condition that processes share. A signal wakes all waiters.
fn wait_shared_cond(cond: Managed<pthread_cond_t>, mutex: Managed<pthread_mutex_t>, deadline: u64) -> c_int {
    pthread_testcancel();
    let signals = cond.word(COND_SIGNALS);
    let known = signals.load(Ordering::Acquire);
    let status = pthread_mutex_unlock(mutex);
    if status != 0 {
        return status;
    }
    let woken = await_change(signals, known, deadline);
    let status = lock_mutex(mutex, u64::MAX);
    pthread_testcancel();
    if status == 0 && !woken { libc::ETIMEDOUT } else { status }
}

/// Waits until another process has changed a word. Returns false at the deadline.
fn await_change(word: &AtomicU32, known: u32, deadline: u64) -> bool {
    keeping_errno(|| {
        let patience = Patience::of(reason::LOCK);
        while word.load(Ordering::Acquire) == known {
            if deadline <= client::now_ps() {
                return false;
            }
            let _ = patience.step(deadline);
        }
        true
    })
}

fn wait_cond(cond: Managed<pthread_cond_t>, mutex: Managed<pthread_mutex_t>, deadline: u64) -> Option<c_int> {
    pthread_testcancel();
    let place = Place::take(cond.address())?;
    let status = pthread_mutex_unlock(mutex);
    if status != 0 {
        return Some(status);
    }
    let woken = keeping_errno(|| place.wait(deadline));
    drop(place);
    let status = lock_mutex(mutex, u64::MAX);
    // A cancelled thread ends with the mutex, which its clean-up functions expect.
    pthread_testcancel();
    Some(if status == 0 && !woken { libc::ETIMEDOUT } else { status })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_cond_wait(cond: Managed<pthread_cond_t>, mutex: Managed<pthread_mutex_t>) -> c_int {
    if !active() {
        return real::pthread_cond_wait(cond, mutex);
    }
    if is_shared(cond) {
        return wait_shared_cond(cond, mutex, u64::MAX);
    }
    wait_cond(cond, mutex, u64::MAX).unwrap_or_else(|| crate::runtime::world::away(|| real::pthread_cond_wait(cond, mutex)))
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_cond_timedwait(cond: Managed<pthread_cond_t>, mutex: Managed<pthread_mutex_t>, until: In<timespec>) -> c_int {
    if !active() {
        return real::pthread_cond_timedwait(cond, mutex, until);
    }
    let monotonic = cond.field(COND_WREFS) as c_uint & COND_MONOTONIC != 0;
    pthread_cond_clockwait(cond, mutex, if monotonic { libc::CLOCK_MONOTONIC } else { libc::CLOCK_REALTIME }, until)
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_cond_clockwait(
    cond: Managed<pthread_cond_t>,
    mutex: Managed<pthread_mutex_t>,
    clock: clockid_t,
    until: In<timespec>,
) -> c_int {
    if !active() {
        return real::pthread_cond_clockwait(cond, mutex, clock, until);
    }
    let Some(until) = until.get().filter(is_valid) else { return libc::EINVAL };
    if is_shared(cond) {
        return wait_shared_cond(cond, mutex, from_clock(clock, &until));
    }
    wait_cond(cond, mutex, from_clock(clock, &until)).unwrap_or(libc::EAGAIN)
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_cond_signal(cond: Managed<pthread_cond_t>) -> c_int {
    if active() && is_shared(cond) {
        cond.word(COND_SIGNALS).fetch_add(1, Ordering::AcqRel);
        return 0;
    }
    if doorbell::is_awaited(cond.address()) && active() && keeping_errno(|| doorbell::wake(cond.address(), 1)) > 0 {
        return 0;
    }
    real::pthread_cond_signal(cond)
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_cond_broadcast(cond: Managed<pthread_cond_t>) -> c_int {
    if active() && is_shared(cond) {
        cond.word(COND_SIGNALS).fetch_add(1, Ordering::AcqRel);
        return 0;
    }
    if doorbell::is_awaited(cond.address()) && active() {
        keeping_errno(|| doorbell::wake(cond.address(), usize::MAX));
    }
    real::pthread_cond_broadcast(cond)
}

fn is_shared_rwlock(lock: Managed<pthread_rwlock_t>) -> bool {
    lock.field(RWLOCK_SHARED) != 0
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_rwlock_rdlock(lock: Managed<pthread_rwlock_t>) -> c_int {
    if !active() {
        return real::pthread_rwlock_rdlock(lock);
    }
    acquire(lock.address(), is_shared_rwlock(lock), u64::MAX, || real::pthread_rwlock_tryrdlock(lock))
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_rwlock_wrlock(lock: Managed<pthread_rwlock_t>) -> c_int {
    if !active() {
        return real::pthread_rwlock_wrlock(lock);
    }
    acquire(lock.address(), is_shared_rwlock(lock), u64::MAX, || real::pthread_rwlock_trywrlock(lock))
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_rwlock_timedrdlock(lock: Managed<pthread_rwlock_t>, until: In<timespec>) -> c_int {
    if !active() {
        return real::pthread_rwlock_timedrdlock(lock, until);
    }
    pthread_rwlock_clockrdlock(lock, libc::CLOCK_REALTIME, until)
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_rwlock_timedwrlock(lock: Managed<pthread_rwlock_t>, until: In<timespec>) -> c_int {
    if !active() {
        return real::pthread_rwlock_timedwrlock(lock, until);
    }
    pthread_rwlock_clockwrlock(lock, libc::CLOCK_REALTIME, until)
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_rwlock_clockrdlock(lock: Managed<pthread_rwlock_t>, clock: clockid_t, until: In<timespec>) -> c_int {
    if !active() {
        return real::pthread_rwlock_clockrdlock(lock, clock, until);
    }
    let Some(until) = until.get() else { return libc::EINVAL };
    acquire(lock.address(), is_shared_rwlock(lock), from_clock(clock, &until), || real::pthread_rwlock_tryrdlock(lock))
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_rwlock_clockwrlock(lock: Managed<pthread_rwlock_t>, clock: clockid_t, until: In<timespec>) -> c_int {
    if !active() {
        return real::pthread_rwlock_clockwrlock(lock, clock, until);
    }
    let Some(until) = until.get() else { return libc::EINVAL };
    acquire(lock.address(), is_shared_rwlock(lock), from_clock(clock, &until), || real::pthread_rwlock_trywrlock(lock))
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_rwlock_unlock(lock: Managed<pthread_rwlock_t>) -> c_int {
    let status = real::pthread_rwlock_unlock(lock);
    if status == 0 && doorbell::is_awaited(lock.address()) && active() {
        // Several readers may continue at once; a writer among them waits again.
        keeping_errno(|| doorbell::wake(lock.address(), usize::MAX));
    }
    status
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_spin_lock(lock: Managed<pthread_spinlock_t>) -> c_int {
    if !active() {
        return real::pthread_spin_lock(lock);
    }
    acquire(lock.address(), true, u64::MAX, || real::pthread_spin_trylock(lock))
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_once(control: Managed<c_int>, routine: extern "C" fn()) -> c_int {
    /// Value in glibc while a thread runs the routine.
    const IN_PROGRESS: c_int = 1;
    if active() {
        let patience = Patience::of(reason::LOCK);
        while control.field(0) & 3 == IN_PROGRESS {
            let _ = keeping_errno(|| patience.step(u64::MAX));
        }
    }
    real::pthread_once(control, routine)
}

/// State of a barrier, by its address. glibc's own state is also initialised, for threads outside
/// the run.
struct Barrier {
    address: AtomicUsize,
    count: AtomicU32,
    arrived: AtomicU32,
}

const BARRIERS_MAX: usize = 256;
static BARRIERS: [Barrier; BARRIERS_MAX] =
    [const { Barrier { address: AtomicUsize::new(0), count: AtomicU32::new(0), arrived: AtomicU32::new(0) } }; BARRIERS_MAX];

fn barrier_at(address: usize) -> Option<&'static Barrier> {
    BARRIERS.iter().find(|barrier| barrier.address.load(Ordering::Acquire) == address)
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_barrier_init(barrier: Managed<pthread_barrier_t>, attributes: Managed<pthread_barrierattr_t>, count: c_uint) -> c_int {
    let status = real::pthread_barrier_init(barrier, attributes, count);
    let shared = !attributes.is_null() && attributes.field(0) == libc::PTHREAD_PROCESS_SHARED;
    if status == 0
        && !shared
        && active()
        && let Some(free) = barrier_at(barrier.address()).or_else(|| barrier_at(0))
    {
        free.count.store(count, Ordering::Relaxed);
        free.arrived.store(0, Ordering::Relaxed);
        free.address.store(barrier.address(), Ordering::Release);
    }
    status
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_barrier_destroy(barrier: Managed<pthread_barrier_t>) -> c_int {
    if let Some(known) = barrier_at(barrier.address()) {
        known.address.store(0, Ordering::Release);
    }
    real::pthread_barrier_destroy(barrier)
}

/// Waits at a barrier that processes share. In simulated time none of the C library's functions
/// changes its words.
fn wait_at_shared_barrier(barrier: Managed<pthread_barrier_t>) -> c_int {
    let round = barrier.word(BARRIER_ROUND);
    let present = round.load(Ordering::Acquire);
    if barrier.word(BARRIER_IN).fetch_add(1, Ordering::AcqRel) + 1 == barrier.word(BARRIER_COUNT).load(Ordering::Relaxed) {
        barrier.word(BARRIER_IN).store(0, Ordering::Release);
        round.fetch_add(1, Ordering::AcqRel);
        return libc::PTHREAD_BARRIER_SERIAL_THREAD;
    }
    await_change(round, present, u64::MAX);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_barrier_wait(barrier: Managed<pthread_barrier_t>) -> c_int {
    if !active() {
        return real::pthread_barrier_wait(barrier);
    }
    if barrier.field(BARRIER_SHARED) != 0 {
        return wait_at_shared_barrier(barrier);
    }
    let Some(known) = barrier_at(barrier.address()) else { return crate::runtime::world::away(|| real::pthread_barrier_wait(barrier)) };
    let Some(place) = Place::take(barrier.address()) else { return libc::EAGAIN };
    if known.arrived.fetch_add(1, Ordering::AcqRel) + 1 == known.count.load(Ordering::Relaxed) {
        known.arrived.store(0, Ordering::Release);
        drop(place);
        doorbell::wake(barrier.address(), usize::MAX);
        return libc::PTHREAD_BARRIER_SERIAL_THREAD;
    }
    place.wait(u64::MAX);
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clib::args::Zeroed;

    #[test]
    fn the_fields_of_a_mutex_and_a_condition_are_where_we_look() {
        let mut mutex = pthread_mutex_t::zeroed();
        let mut cond = pthread_cond_t::zeroed();
        // SAFETY: each attribute object is initialised before its use.
        let (mutex, cond) = unsafe {
            let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
            libc::pthread_mutexattr_init(&raw mut attributes);
            libc::pthread_mutexattr_settype(&raw mut attributes, libc::PTHREAD_MUTEX_ERRORCHECK);
            libc::pthread_mutex_init(&raw mut mutex, &raw const attributes);
            let mut cond_attributes: libc::pthread_condattr_t = std::mem::zeroed();
            libc::pthread_condattr_init(&raw mut cond_attributes);
            libc::pthread_condattr_setclock(&raw mut cond_attributes, libc::CLOCK_MONOTONIC);
            libc::pthread_condattr_setpshared(&raw mut cond_attributes, libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_cond_init(&raw mut cond, &raw const cond_attributes);
            (Managed::of(&mut mutex), Managed::of(&mut cond))
        };
        assert_eq!(pthread_mutex_lock(mutex), 0);
        assert_eq!(mutex.field(MUTEX_KIND) & KIND_MASK, KIND_ERRORCHECK);
        assert_eq!(mutex.field(MUTEX_OWNER), rustix::thread::gettid().as_raw_nonzero().get());
        assert_eq!(pthread_mutex_lock(mutex), libc::EDEADLK);
        assert_eq!(cond.field(COND_WREFS) as c_uint, COND_SHARED | COND_MONOTONIC);
    }
}
