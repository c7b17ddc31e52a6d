//! Timers as descriptors. Each has a placeholder of the kernel and a timer of the engine.

use crate::clib::args::{In, Out};
use crate::clib::buffers::Writable;
use crate::clib::real;
use crate::runtime::world::{active, fail, timespec_picos, to_timespec};
use crate::time::alarm::due;
use libc::{c_int, itimerspec, ssize_t};
use softband_client::fds::{Entry, Kind};
use softband_client::{self as client, Errno, fds};
use softband_ipc::calls::readiness::READABLE;
use softband_ipc::calls::{Count, Object, TimerNew, TimerSet, op};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Number of descriptors, from 0, whose timer state is remembered.
const REMEMBERED: usize = 1024;
static CLOCKS: [AtomicI32; REMEMBERED] = [const { AtomicI32::new(libc::CLOCK_MONOTONIC) }; REMEMBERED];
static DUE: [AtomicU64; REMEMBERED] = [const { AtomicU64::new(0) }; REMEMBERED];
static INTERVAL: [AtomicU64; REMEMBERED] = [const { AtomicU64::new(0) }; REMEMBERED];

#[unsafe(no_mangle)]
pub extern "C" fn timerfd_create(clock: c_int, flags: c_int) -> c_int {
    let fd = real::timerfd_create(clock, flags);
    if fd < 0 || !active() {
        return fd;
    }
    match client::call::<op::TimerNew>(&TimerNew { reserved: 0 }) {
        Ok(Object { object, .. }) => {
            fds::register(fd, Entry { kind: Kind::Timer, object });
            if let Some(cell) = CLOCKS.get(fd as usize) {
                cell.store(clock, Ordering::Relaxed);
            }
            fd
        }
        Err(Errno(errno)) => {
            real::close(fd);
            fail(errno)
        }
    }
}

fn object(fd: c_int) -> Option<u32> {
    fds::lookup(fd).filter(|entry| entry.kind == Kind::Timer && active()).map(|entry| entry.object)
}

#[unsafe(no_mangle)]
pub extern "C" fn timerfd_settime(fd: c_int, flags: c_int, new: In<itimerspec>, old: Out<itimerspec>) -> c_int {
    let Some(object) = object(fd) else { return real::timerfd_settime(fd, flags, new, old) };
    let Some(new) = new.get() else { return fail(libc::EFAULT) };
    let clock = CLOCKS.get(fd as usize).map_or(libc::CLOCK_MONOTONIC, |cell| cell.load(Ordering::Relaxed));
    let at_ps = due(clock, flags & libc::TFD_TIMER_ABSTIME != 0, &new.it_value);
    let interval_ps = timespec_picos(&new.it_interval);
    let request = TimerSet { object, reserved: 0, at_ps, interval_ps };
    match client::call::<op::TimerSet>(&request) {
        Ok(_) => {
            if !old.is_null() {
                timerfd_gettime(fd, old);
            }
            if let (Some(due), Some(interval)) = (DUE.get(fd as usize), INTERVAL.get(fd as usize)) {
                due.store(at_ps, Ordering::Relaxed);
                interval.store(interval_ps, Ordering::Relaxed);
            }
            0
        }
        Err(Errno(errno)) => fail(errno),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn timerfd_gettime(fd: c_int, out: Out<itimerspec>) -> c_int {
    if object(fd).is_none() {
        return real::timerfd_gettime(fd, out);
    }
    let load = |cells: &[AtomicU64]| cells.get(fd as usize).map_or(0, |cell| cell.load(Ordering::Relaxed));
    let (at, interval, now) = (load(&DUE), load(&INTERVAL), client::now_ps());
    let left = match (at, interval) {
        (0, _) => 0,
        _ if at > now => at - now,
        (_, 0) => 0,
        _ => interval - (now - at) % interval,
    };
    out.set(itimerspec { it_value: to_timespec(left), it_interval: to_timespec(interval) });
    0
}

/// Implements `read` of a timer. Writes the number of expirations as eight bytes.
pub fn read(fd: c_int, object: u32, room: &Writable) -> ssize_t {
    if room.len() < 8 {
        return fail(libc::EINVAL);
    }
    loop {
        match client::call::<op::TimerRead>(&Object { object, reserved: 0 }) {
            Ok(Count { count }) => {
                room.put_at(0, &count.to_ne_bytes());
                return 8;
            }
            Err(Errno(libc::EAGAIN)) => {
                if let Err(Errno(errno)) = crate::fd::descriptors::wait_or_again(fd, object, READABLE, u64::MAX) {
                    return fail(errno);
                }
            }
            Err(Errno(errno)) => return fail(errno),
        }
    }
}
