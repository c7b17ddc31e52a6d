//! Implements `epoll`. This module keeps the interest in objects of the engine. For descriptors of
//! the kernel, the kernel keeps it too.
//!
//! Edge-triggered interest in reading reports as long as data is available. A program that waits
//! for edges reads until nothing is left, so the result is the same. Interest in writing reports
//! once, and again after a call found no room.

use crate::clib::args::{In, slice_mut};
use crate::clib::real;
use crate::fd::descriptors::poll_natively;
use crate::fd::interest::{self, Native};
use crate::fd::poll::{millis_deadline, with_mask};
use crate::runtime::world::{active, deadline_after, fail, keeping_errno, timespec_picos};
use crate::sync::doorbell::{self, Place};
use libc::{c_int, epoll_event, sigset_t, timespec};
use softband_client::{self as client, Errno, fds};
use softband_ipc::calls::readiness::{ERROR, HANG_UP, READABLE, WRITABLE};
use std::mem::MaybeUninit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

const EDGE: u32 = libc::EPOLLET as u32;
const ONESHOT: u32 = libc::EPOLLONESHOT as u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    epoll: c_int,
    fd: c_int,
    /// Object of the engine; `None` for a descriptor of the kernel.
    object: Option<u32>,
    events: u32,
    data: u64,
    /// Readiness bits that an edge has reported and that have not cleared since.
    told: u32,
}

/// Interest lists of all epoll descriptors of the process.
#[derive(Debug, Default)]
struct Table {
    items: Vec<Item>,
    /// Start position of the next wait. It rotates, so that no item starves if the caller's array
    /// is too short.
    turn: usize,
}

static TABLE: Mutex<Table> = Mutex::new(Table { items: Vec::new(), turn: 0 });
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn with_table<R>(body: impl FnOnce(&mut Table) -> R) -> R {
    let mut table = TABLE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let result = body(&mut table);
    COUNT.store(table.items.len(), Ordering::Release);
    result
}

impl Item {
    /// Returns the readiness bits to request from the engine.
    fn interest(&self) -> u32 {
        let mut interest = HANG_UP | ERROR;
        if self.events & libc::EPOLLIN as u32 != 0 {
            interest |= READABLE;
        }
        if self.events & libc::EPOLLOUT as u32 != 0 {
            interest |= WRITABLE;
        }
        if self.events & EDGE != 0 {
            interest &= !self.told;
        }
        interest
    }

    fn is_disabled(&self) -> bool {
        self.events & !(EDGE | ONESHOT) == 0 && self.events & ONESHOT != 0
    }

    /// Returns the events to report, and records the state of edges and single shots.
    fn tell(&mut self, ready: u32) -> u32 {
        let mut events = 0;
        for (bit, event) in [(READABLE, libc::EPOLLIN), (WRITABLE, libc::EPOLLOUT), (HANG_UP, libc::EPOLLHUP), (ERROR, libc::EPOLLERR)] {
            if ready & bit != 0 {
                events |= event as u32;
            }
        }
        if self.events & EDGE != 0 {
            self.told |= ready & (WRITABLE | HANG_UP | ERROR);
        }
        if self.events & ONESHOT != 0 {
            self.events &= EDGE | ONESHOT;
        }
        events
    }
}

impl Table {
    fn position(&self, epoll: c_int, fd: c_int) -> Option<usize> {
        self.items.iter().position(|item| item.epoll == epoll && item.fd == fd)
    }

    /// Applies an operation to the interest list. Fails with the kernel's error numbers.
    fn control(&mut self, epoll: c_int, operation: c_int, fd: c_int, object: Option<u32>, event: Option<epoll_event>) -> Result<(), c_int> {
        let position = self.position(epoll, fd);
        let item = |event: epoll_event| Item { epoll, fd, object, events: event.events, data: event.u64, told: 0 };
        match (operation, position, event) {
            (libc::EPOLL_CTL_ADD, Some(_), _) => Err(libc::EEXIST),
            (libc::EPOLL_CTL_ADD, None, Some(event)) => {
                self.items.push(item(event));
                Ok(())
            }
            (libc::EPOLL_CTL_MOD, Some(index), Some(event)) => {
                self.items[index] = item(event);
                Ok(())
            }
            (libc::EPOLL_CTL_DEL, Some(index), _) => {
                self.items.remove(index);
                Ok(())
            }
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None, _) => Err(libc::ENOENT),
            (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, _, None) => Err(libc::EFAULT),
            _ => Err(libc::EINVAL),
        }
    }

    /// Returns the engine's active items at `epoll`, starting at another item each time.
    fn watched(&mut self, epoll: c_int) -> Vec<Item> {
        let mut found: Vec<Item> =
            self.items.iter().filter(|item| item.epoll == epoll && item.object.is_some() && !item.is_disabled()).copied().collect();
        if !found.is_empty() {
            self.turn = self.turn.wrapping_add(1);
            let start = self.turn % found.len();
            found.rotate_left(start);
        }
        found
    }

    fn forget(&mut self, fd: c_int) {
        self.items.retain(|item| item.fd != fd && item.epoll != fd);
    }
}

/// Removes all interest in a closed descriptor, and all interest that it held.
pub fn forget(fd: c_int) {
    if COUNT.load(Ordering::Acquire) != 0 {
        with_table(|table| table.forget(fd));
    }
}

/// Returns the objects that make the epoll descriptor `fd` readable, with the readiness bits to
/// wait for.
pub fn objects_of(fd: c_int) -> Vec<(u32, u32)> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return Vec::new();
    }
    with_table(|table| table.watched(fd)).iter().filter_map(|item| Some((item.object?, item.interest()))).collect()
}

/// Records that a call on `fd` found no room. A thread that waits for the edge then learns of new
/// room.
pub fn found_full(fd: c_int) {
    if COUNT.load(Ordering::Acquire) != 0 {
        with_table(|table| table.items.iter_mut().filter(|item| item.fd == fd).for_each(|item| item.told &= !WRITABLE));
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: In<epoll_event>) -> c_int {
    if !active() {
        return real::epoll_ctl(epoll, operation, fd, event);
    }
    let given = event.get();
    if let Some(entry) = fds::lookup(fd) {
        return match with_table(|table| table.control(epoll, operation, fd, Some(entry.object), given)) {
            Ok(()) => {
                note_change(epoll);
                0
            }
            Err(errno) => fail(errno),
        };
    }
    let status = real::epoll_ctl(epoll, operation, fd, event);
    if status == 0 {
        let _ = with_table(|table| table.control(epoll, operation, fd, None, given));
    }
    status
}

/// Number of changes of interest lists.
static CHANGES: AtomicUsize = AtomicUsize::new(0);
/// Threads that block in the kernel on an epoll descriptor without objects of the engine.
static BLOCKED: AtomicUsize = AtomicUsize::new(0);
/// A descriptor that is always readable, or -1. It ends the wait of a blocked thread.
static KICK: AtomicI32 = AtomicI32::new(-1);

/// Address at which the threads wait that wait for this epoll descriptor.
fn place_of(epoll: c_int) -> usize {
    static PLACES: u8 = 0;
    (&raw const PLACES as usize).wrapping_add(epoll.cast_unsigned() as usize * size_of::<u64>())
}

/// Lets other threads that wait for this epoll descriptor look at its new interest list.
fn note_change(epoll: c_int) {
    CHANGES.fetch_add(1, Ordering::AcqRel);
    let place = place_of(epoll);
    if doorbell::is_awaited(place) {
        keeping_errno(|| doorbell::wake(place, usize::MAX));
    }
    if BLOCKED.load(Ordering::Acquire) != 0 {
        let readable = epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        keeping_errno(|| real::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, kick(), In::of(&readable)));
    }
}

fn kick() -> c_int {
    let known = KICK.load(Ordering::Acquire);
    if known >= 0 {
        return known;
    }
    // SAFETY: the call takes two numbers.
    let new = unsafe { libc::eventfd(1, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    KICK.store(new, Ordering::Release);
    new
}

/// Fails a wait whose interest list has changed. No call of the kernel has this number.
const CHANGED: c_int = c_int::MAX;

/// The kernel's side of a wait.
struct Kernel<'a> {
    epoll: c_int,
    room: &'a mut [MaybeUninit<epoll_event>],
    found: usize,
    /// [`CHANGES`] at the time of the list.
    changes: usize,
}

impl Native for Kernel<'_> {
    fn poll(&mut self) -> Result<usize, Errno> {
        if CHANGES.load(Ordering::Acquire) != self.changes {
            return Err(Errno(CHANGED));
        }
        // SAFETY: the pointer and the length are those of the slice.
        let count = unsafe { real::epoll_wait(self.epoll, self.room.as_mut_ptr().cast(), self.room.len() as c_int, 0) };
        self.found = usize::try_from(count).map_err(|_| Errno(crate::runtime::world::errno()))?;
        Ok(self.found)
    }
    fn block(&mut self) {
        // This call only waits; the next poll takes the events.
        BLOCKED.fetch_add(1, Ordering::AcqRel);
        poll_natively(&mut [libc::pollfd { fd: self.epoll, events: libc::POLLIN, revents: 0 }], -1);
        BLOCKED.fetch_sub(1, Ordering::AcqRel);
        if KICK.load(Ordering::Acquire) >= 0 {
            keeping_errno(|| real::epoll_ctl(self.epoll, libc::EPOLL_CTL_DEL, kick(), In::NULL));
        }
    }
}

/// Returns the room of a caller. A count that is not positive means no room.
///
/// # Safety
/// `events` has room for `room` events.
unsafe fn room_of<'a>(events: *mut epoll_event, room: c_int) -> &'a mut [MaybeUninit<epoll_event>] {
    // SAFETY: the caller's array has this many elements, which need not be initialised.
    unsafe { slice_mut(events.cast(), usize::try_from(room).unwrap_or(0)) }
}

fn wait_for(epoll: c_int, room: &mut [MaybeUninit<epoll_event>], deadline: u64) -> c_int {
    if room.is_empty() {
        return fail(libc::EINVAL);
    }
    // Another thread may change the list meanwhile.
    let place = if client::is_single_threaded() { None } else { Place::take(place_of(epoll)) };
    loop {
        match wait_for_list(epoll, room, deadline, place.as_ref()) {
            Err(Errno(CHANGED)) => {}
            Err(Errno(errno)) => return fail(errno),
            Ok(count) => return count,
        }
    }
}

/// Waits for the present interest list. Fails with [`CHANGED`] if another thread changes it.
fn wait_for_list(epoll: c_int, room: &mut [MaybeUninit<epoll_event>], deadline: u64, place: Option<&Place>) -> Result<c_int, Errno> {
    let changes = CHANGES.load(Ordering::Acquire);
    let items = with_table(|table| table.watched(epoll));
    let only_engine = !items.is_empty() && with_table(|table| table.items.iter().all(|item| item.epoll != epoll || item.object.is_some()));
    let mut entries: Vec<_> = items.iter().filter_map(|item| Some(interest::entry(item.object?, item.interest()))).collect();
    let bell = place.filter(|_| !items.is_empty());
    entries.extend(bell.map(|place| interest::entry(place.bell(), READABLE)));
    let mut kernel = Kernel { epoll, room, found: 0, changes };
    let native: Option<&mut dyn Native> = if only_engine { None } else { Some(&mut kernel) };
    interest::wait(&mut entries, native, deadline)?;
    let mut count = kernel.found;
    let has_rung = bell.is_some() && entries.last().is_some_and(|entry| entry.ready != 0);
    if let Some(bell) = bell.filter(|_| has_rung) {
        bell.hear();
    }
    for (item, entry) in items.iter().zip(&entries).filter(|(_, entry)| entry.ready != 0) {
        if count >= kernel.room.len() {
            break;
        }
        let told = with_table(|table| table.position(epoll, item.fd).map(|index| table.items[index].tell(entry.ready)));
        if let Some(told) = told.filter(|told| *told != 0) {
            kernel.room[count].write(epoll_event { events: told, u64: item.data });
            count += 1;
        }
    }
    if has_rung && count == 0 { Err(Errno(CHANGED)) } else { Ok(count as c_int) }
}

/// Implements `epoll_wait`.
///
/// # Safety
/// `events` has room for `room` events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(epoll: c_int, events: *mut epoll_event, room: c_int, timeout: c_int) -> c_int {
    if !active() {
        // SAFETY: the kernel writes at most `room` events.
        return unsafe { real::epoll_wait(epoll, events, room, timeout) };
    }
    // SAFETY: the caller lends the array until the call returns.
    let room = unsafe { room_of(events, room) };
    wait_for(epoll, room, millis_deadline(timeout))
}

/// Implements `epoll_pwait`.
///
/// # Safety
/// `events` has room for `room` events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait(epoll: c_int, events: *mut epoll_event, room: c_int, timeout: c_int, mask: In<sigset_t>) -> c_int {
    if !active() {
        // SAFETY: the C library passes the caller's room to the kernel, which respects its length.
        return unsafe { real::epoll_pwait(epoll, events, room, timeout, mask) };
    }
    // SAFETY: signal handlers that run meanwhile leave the caller's array alone.
    let room = unsafe { room_of(events, room) };
    with_mask(mask, || wait_for(epoll, room, millis_deadline(timeout)))
}

/// Implements `epoll_pwait2`.
///
/// # Safety
/// `events` has room for `room` events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait2(epoll: c_int, events: *mut epoll_event, room: c_int, timeout: In<timespec>, mask: In<sigset_t>) -> c_int {
    if !active() {
        const SIGSET_BYTES: usize = 8;
        let (timeout, mask) = (timeout.address(), mask.address());
        // SAFETY: the kernel writes at most `room` events, and reads a `timespec` and eight bytes
        // of the mask unless they are null.
        return unsafe { kernel!(libc::SYS_epoll_pwait2, epoll, events, room, timeout, mask, SIGSET_BYTES) as c_int };
    }
    let deadline = timeout.get().map_or(u64::MAX, |timeout| deadline_after(timespec_picos(&timeout)));
    // SAFETY: the array belongs to this call, which ends before the caller reads it.
    let room = unsafe { room_of(events, room) };
    with_mask(mask, || wait_for(epoll, room, deadline))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(events: u32, data: u64) -> Option<epoll_event> {
        Some(epoll_event { events, u64: data })
    }
    const IN: u32 = libc::EPOLLIN as u32;
    const OUT: u32 = libc::EPOLLOUT as u32;

    #[test]
    fn the_table_refuses_what_the_kernel_refuses() {
        let mut table = Table::default();
        assert_eq!(table.control(9, libc::EPOLL_CTL_MOD, 3, Some(1), event(IN, 0)), Err(libc::ENOENT));
        assert_eq!(table.control(9, libc::EPOLL_CTL_ADD, 3, Some(1), event(IN, 0)), Ok(()));
        assert_eq!(table.control(9, libc::EPOLL_CTL_ADD, 3, Some(1), event(IN, 0)), Err(libc::EEXIST));
        assert_eq!(table.control(9, libc::EPOLL_CTL_DEL, 3, Some(1), None), Ok(()));
        assert_eq!(table.control(9, libc::EPOLL_CTL_DEL, 3, Some(1), None), Err(libc::ENOENT));
        assert_eq!(table.control(9, 77, 3, Some(1), event(IN, 0)), Err(libc::EINVAL));
    }

    #[test]
    fn a_single_shot_is_silent_until_it_is_set_again() {
        let mut table = Table::default();
        table.control(9, libc::EPOLL_CTL_ADD, 3, Some(1), event(IN | ONESHOT, 5)).unwrap();
        assert_eq!(table.items[0].tell(READABLE), IN);
        assert!(table.watched(9).is_empty());
        table.control(9, libc::EPOLL_CTL_MOD, 3, Some(1), event(IN | ONESHOT, 5)).unwrap();
        assert_eq!(table.watched(9).len(), 1);
    }

    #[test]
    fn an_edge_of_room_is_told_once_and_data_as_long_as_it_is_there() {
        let mut table = Table::default();
        table.control(9, libc::EPOLL_CTL_ADD, 3, Some(1), event(IN | OUT | EDGE, 5)).unwrap();
        assert_eq!(table.items[0].tell(READABLE | WRITABLE), IN | OUT);
        assert_eq!(table.items[0].interest() & (READABLE | WRITABLE), READABLE);
    }

    #[test]
    fn closing_an_epoll_descriptor_ends_its_interests() {
        let mut table = Table::default();
        table.control(9, libc::EPOLL_CTL_ADD, 3, Some(1), event(IN, 5)).unwrap();
        table.control(8, libc::EPOLL_CTL_ADD, 3, Some(1), event(IN, 5)).unwrap();
        table.forget(9);
        assert_eq!(table.items.len(), 1);
    }
}
