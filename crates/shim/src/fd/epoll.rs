//! Implements `epoll`. This module keeps the interest in objects of the engine. For descriptors of
//! the kernel, the kernel keeps it too.
//!
//! The engine numbers the edges of an object: arrivals, new room, changes of state. Each interest
//! remembers the last edge that it has reported. As in Linux, a new or modified interest first reports
//! the present state.

mod nested;

use crate::clib::args::{In, slice_mut};
use crate::clib::real;
use crate::fd::descriptors::poll_natively;
use crate::fd::interest::{self, Native};
use crate::fd::poll::{millis_deadline, with_mask};
use crate::fd::terminal::{self, Watched};
use crate::runtime::world::{active, deadline_after, errno, fail, keeping_errno, timespec_picos};
use crate::sync::doorbell::{self, Place};
use libc::{c_int, epoll_event, sigset_t, timespec};
use softband_client::{self as client, Errno, fds};
use softband_ipc::calls::WaitEntry;
use softband_ipc::calls::readiness::{self, ERROR, HANG_UP, PEER_ENDED, READABLE, URGENT, WRITABLE};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

const EDGE: u32 = libc::EPOLLET as u32;
const ONESHOT: u32 = libc::EPOLLONESHOT as u32;
const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;

/// Events that a program always gets.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
/// What an exclusive interest may ask for (`EPOLLEXCLUSIVE_OK_BITS`).
const EXCLUSIVE_MAY: u32 = ALWAYS | (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLWAKEUP) as u32 | EDGE | EXCLUSIVE;
/// Most epoll descriptors between another and a descriptor that it watches (`EP_MAX_NESTS`).
const NESTS_MAX: u32 = 4;
/// Readiness bits and their events.
const EVENTS: [(u32, u32); 6] = [
    (READABLE, (libc::EPOLLIN | libc::EPOLLRDNORM) as u32),
    (WRITABLE, (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32),
    (URGENT, libc::EPOLLPRI as u32),
    (PEER_ENDED, libc::EPOLLRDHUP as u32),
    (HANG_UP, libc::EPOLLHUP as u32),
    (ERROR, libc::EPOLLERR as u32),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    epoll: c_int,
    fd: c_int,
    /// Object of the engine; `None` for a descriptor of the kernel.
    object: Option<u32>,
    events: u32,
    data: u64,
    /// Number of the last edge that was reported.
    seen: Option<u32>,
    /// Set after a single shot.
    is_spent: bool,
    /// Whether the kernel may bring news of the descriptor late ([`terminal`]).
    is_terminal: bool,
    /// Number of the change that made the item. A modified item differs from the former one, also if
    /// all else is the same.
    version: u64,
}

/// Interest lists of all epoll descriptors of the process.
#[derive(Debug, Default)]
struct Table {
    items: Vec<Item>,
    /// Start position of the next wait. It rotates, so that no item starves if the caller's array
    /// is too short.
    turn: usize,
    /// Number of changes so far.
    version: u64,
    /// Epoll descriptors with an interest in a closed descriptor of the kernel. The kernel keeps it
    /// while a copy of the descriptor is open, in any process.
    with_closed: BTreeSet<c_int>,
    /// Last edge of an object that an interest in an inner epoll descriptor has reported with EPOLLET,
    /// by the item's version.
    reported: BTreeMap<(u64, u32), u32>,
}

static TABLE: Mutex<Table> = Mutex::new(Table { items: Vec::new(), turn: 0, version: 0, with_closed: BTreeSet::new(), reported: BTreeMap::new() });
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn with_table<R>(body: impl FnOnce(&mut Table) -> R) -> R {
    let mut table = TABLE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let before = (table.version, table.items.len());
    let result = body(&mut table);
    if before != (table.version, table.items.len()) {
        table.prune_reports();
    }
    COUNT.store(table.items.len() + table.with_closed.len(), Ordering::Release);
    result
}

impl Item {
    /// Returns the question to the engine.
    fn entry(&self, object: u32) -> WaitEntry {
        let wanted = EVENTS.iter().filter(|(_, events)| self.events & events != 0).map(|(bit, _)| bit);
        let mut interest = wanted.fold(HANG_UP | ERROR, |interest, bit| interest | bit);
        if self.events & EXCLUSIVE != 0 {
            interest |= readiness::EXCLUSIVE;
        }
        if self.events & EDGE != 0 && self.seen.is_some() {
            interest |= readiness::EDGE;
        }
        WaitEntry { seen: self.seen.unwrap_or(0), ..interest::entry(object, interest) }
    }

    /// Returns the events to report by an answer of the engine, and records it. Returns `None` if
    /// another thread has reported them.
    fn tell(&mut self, asked: &Self, answer: &WaitEntry) -> Option<u32> {
        if self != asked || self.is_spent {
            return None;
        }
        let ready = EVENTS.iter().filter(|(bit, _)| answer.ready & bit != 0);
        let events = ready.fold(0, |all, (_, events)| all | events) & (self.events | ALWAYS);
        if self.events & EDGE != 0 {
            self.seen = Some(answer.seen);
        }
        self.is_spent = self.events & ONESHOT != 0;
        (events != 0).then_some(events)
    }
}

impl Table {
    fn position(&self, epoll: c_int, fd: c_int, object: Option<u32>) -> Option<usize> {
        self.items.iter().position(|item| (item.epoll, item.fd, item.object) == (epoll, fd, object))
    }

    /// Applies an operation to the interest list. Fails with the kernel's error numbers.
    fn control(&mut self, epoll: c_int, operation: c_int, fd: c_int, object: Option<u32>, event: Option<epoll_event>) -> Result<(), c_int> {
        let position = self.position(epoll, fd, object);
        self.version += 1;
        let version = self.version;
        let is_exclusive = |events: u32| events & EXCLUSIVE != 0;
        let is_terminal = object.is_none() && terminal::may_be(fd);
        HAS_TERMINALS.fetch_or(is_terminal, Ordering::AcqRel);
        let item =
            |event: epoll_event| Item { epoll, fd, object, events: event.events, data: event.u64, seen: None, is_spent: false, is_terminal, version };
        match (operation, position, event) {
            (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, _, None) => Err(libc::EFAULT),
            (libc::EPOLL_CTL_ADD, _, Some(event)) if is_exclusive(event.events) && event.events & !EXCLUSIVE_MAY != 0 => Err(libc::EINVAL),
            (libc::EPOLL_CTL_MOD, _, Some(event)) if is_exclusive(event.events) => Err(libc::EINVAL),
            (libc::EPOLL_CTL_ADD, Some(_), _) => Err(libc::EEXIST),
            (libc::EPOLL_CTL_ADD, None, Some(event)) => {
                self.items.push(item(event));
                Ok(())
            }
            (libc::EPOLL_CTL_MOD, Some(index), _) if is_exclusive(self.items[index].events) => Err(libc::EINVAL),
            (libc::EPOLL_CTL_MOD, Some(index), Some(event)) => {
                self.items[index] = item(event);
                Ok(())
            }
            (libc::EPOLL_CTL_DEL, Some(index), _) => {
                self.items.remove(index);
                Ok(())
            }
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None, _) => Err(libc::ENOENT),
            _ => Err(libc::EINVAL),
        }
    }

    /// Returns the engine's active items at `epoll`, starting at another item each time.
    fn watched(&mut self, epoll: c_int) -> Vec<Item> {
        let mut found: Vec<Item> = self.items.iter().filter(|item| item.epoll == epoll && item.object.is_some() && !item.is_spent).copied().collect();
        if !found.is_empty() {
            self.turn = self.turn.wrapping_add(1);
            let start = self.turn % found.len();
            found.rotate_left(start);
        }
        found
    }

    /// Forgets a closed descriptor. As in Linux, the interest in an object stays if a copy of the
    /// descriptor is open.
    fn forget(&mut self, fd: c_int, has_copy: bool) {
        let of_kernel = self.items.iter().filter(|item| item.fd == fd && item.object.is_none());
        self.with_closed.extend(of_kernel.map(|item| item.epoll));
        self.with_closed.remove(&fd);
        self.items.retain(|item| item.epoll != fd && (item.fd != fd || has_copy && item.object.is_some()));
    }

    /// Returns the terminals that epoll descriptors among `fds` watch, themselves or by others.
    fn terminals(&self, fds: impl Iterator<Item = c_int>) -> Vec<Watched> {
        let lists: BTreeSet<_> = self.items.iter().map(|item| item.epoll).collect();
        let mut asked: BTreeSet<_> = fds.filter(|fd| lists.contains(fd)).collect();
        for _ in 0..NESTS_MAX {
            let inner: Vec<_> =
                self.items.iter().filter(|item| asked.contains(&item.epoll) && lists.contains(&item.fd)).map(|item| item.fd).collect();
            asked.extend(inner);
        }
        let watched = |item: &Item| Watched { epoll: item.epoll, fd: item.fd, event: epoll_event { events: item.events, u64: item.data } };
        self.items.iter().filter(|item| item.is_terminal && asked.contains(&item.epoll)).map(watched).collect()
    }

    /// Returns whether `epoll` has an interest in an open descriptor of the kernel, and whether it had
    /// any in a closed one.
    fn of_kernel(&self, epoll: c_int) -> (bool, bool) {
        let has_open = self.items.iter().any(|item| item.epoll == epoll && item.object.is_none());
        (has_open, self.with_closed.contains(&epoll))
    }

    /// Forgets the interest in an object whose last descriptor has closed.
    fn forget_object(&mut self, object: u32) {
        self.items.retain(|item| item.object != Some(object));
    }
}

/// Returns whether the kernel may report something at `epoll`.
fn concerns_kernel(epoll: c_int) -> bool {
    let (has_open, had_closed) = with_table(|table| table.of_kernel(epoll));
    if has_open || !had_closed {
        return has_open;
    }
    // The look closes a descriptor, and each close takes the table.
    let lasts = kernel_keeps_any(epoll);
    if !lasts {
        with_table(|table| table.with_closed.remove(&epoll));
    }
    lasts
}

/// Returns whether the kernel's own interest list of `epoll` has an entry (proc_pid_fdinfo(5)).
fn kernel_keeps_any(epoll: c_int) -> bool {
    let Ok(list) = keeping_errno(|| std::fs::read_to_string(format!("/proc/self/fdinfo/{epoll}"))) else { return true };
    lists_any(&list, KICK.load(Ordering::Acquire))
}

/// Returns whether an interest list of the kernel has an entry beside `kick`.
fn lists_any(list: &str, kick: c_int) -> bool {
    let mut watched = list.lines().filter_map(|line| line.strip_prefix("tfd:")?.split_whitespace().next()?.parse().ok());
    watched.any(|fd: c_int| fd != kick)
}

/// Checks that `epoll` is an epoll descriptor. The kernel knows no interest in the placeholder `fd`
/// of an object, so the removal of it only fails.
fn check_epoll(epoll: c_int, fd: c_int) -> Result<(), c_int> {
    keeping_errno(|| match (real::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, In::NULL), errno()) {
        (-1, errno @ (libc::EBADF | libc::EINVAL)) => Err(errno),
        _ => Ok(()),
    })
}

/// Removes all interest in a closed descriptor, and all interest that it held.
pub fn forget(fd: c_int) {
    if COUNT.load(Ordering::Acquire) != 0 {
        // Few descriptors that close are watched, so most need no search for copies.
        let is_watched = |object: &u32| with_table(|table| table.items.iter().any(|item| item.object == Some(*object)));
        let object = fds::lookup(fd).map(|entry| entry.object).filter(is_watched);
        let has_copy = object.is_some_and(|object| fds::all().any(|(other, entry)| other != fd && entry.object == object));
        with_table(|table| {
            table.forget(fd, has_copy);
            if let Some(object) = object.filter(|_| !has_copy) {
                table.forget_object(object);
            }
        });
    }
}

/// Returns the questions to the engine by which the epoll descriptor `fd` becomes readable.
pub fn entries_of(fd: c_int) -> Vec<WaitEntry> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return Vec::new();
    }
    with_table(|table| {
        // This look takes its turn, too.
        table.watched(fd);
        table.entries(fd, NESTS_MAX)
    })
}

/// Set with the first interest in a terminal. Few programs have any, and the others search for none.
static HAS_TERMINALS: AtomicBool = AtomicBool::new(false);

/// Returns the terminals that epoll descriptors among `fds` watch.
pub fn terminals_of(fds: impl Iterator<Item = c_int>) -> Vec<Watched> {
    if HAS_TERMINALS.load(Ordering::Acquire) { with_table(|table| table.terminals(fds)) } else { Vec::new() }
}

#[unsafe(no_mangle)]
pub extern "C" fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: In<epoll_event>) -> c_int {
    if !active() {
        return real::epoll_ctl(epoll, operation, fd, event);
    }
    let given = event.get();
    if let Some(entry) = fds::lookup(fd) {
        let is_known = with_table(|table| table.items.iter().any(|item| item.epoll == epoll));
        let checked = if is_known { Ok(()) } else { check_epoll(epoll, fd) };
        return match checked.and_then(|()| with_table(|table| table.control(epoll, operation, fd, Some(entry.object), given))) {
            Ok(()) => {
                note_change(epoll);
                0
            }
            Err(errno) => fail(errno),
        };
    }
    // A report of another thread may end a single shot in the kernel, too: both lists change at once.
    with_table(|table| {
        let status = real::epoll_ctl(epoll, operation, fd, event);
        if status == 0 {
            let _ = table.control(epoll, operation, fd, None, given);
        }
        status
    })
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

/// Lets other threads that wait for this epoll descriptor, or for one that watches it, look at its new
/// interest list.
fn note_change(epoll: c_int) {
    CHANGES.fetch_add(1, Ordering::AcqRel);
    for epoll in with_table(|table| table.with_outer(epoll)) {
        let place = place_of(epoll);
        if doorbell::is_awaited(place) {
            keeping_errno(|| doorbell::wake(place, usize::MAX));
        }
        if BLOCKED.load(Ordering::Acquire) != 0 {
            let readable = epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            keeping_errno(|| real::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, kick(), In::of(&readable)));
        }
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
        terminal::settle_watched(std::iter::once(self.epoll));
        // SAFETY: the pointer and the length are those of the slice.
        let count = unsafe { real::epoll_wait(self.epoll, self.room.as_mut_ptr().cast(), self.room.len() as c_int, 0) };
        self.found = usize::try_from(count).map_err(|_| Errno(errno()))?;
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
    let (items, inner) = with_table(|table| (table.watched(epoll), table.inner(epoll)));
    let only_engine = !items.is_empty() && !concerns_kernel(epoll);
    let mut entries: Vec<_> = items.iter().filter_map(|item| Some(item.entry(item.object?))).collect();
    let of_inner = entries.len();
    entries.extend(inner.iter().flat_map(|(_, entries)| entries));
    let bell = place.filter(|_| !entries.is_empty());
    entries.extend(bell.map(|place| interest::entry(place.bell(), READABLE)));
    let mut kernel = Kernel { epoll, room, found: 0, changes };
    let native: Option<&mut dyn Native> = if only_engine { None } else { Some(&mut kernel) };
    interest::wait(&mut entries, native, deadline)?;
    let mut count = kernel.found;
    let has_rung = bell.is_some() && entries.last().is_some_and(|entry| entry.ready != 0);
    if let Some(bell) = bell.filter(|_| has_rung) {
        bell.hear();
    }
    let mut is_late = false;
    for (item, entry) in items.iter().zip(&entries).filter(|(_, entry)| entry.ready != 0) {
        if count >= kernel.room.len() {
            break;
        }
        let told = with_table(|table| {
            let index = table.position(epoll, item.fd, item.object)?;
            table.items[index].tell(item, entry)
        });
        if let Some(told) = told {
            kernel.room[count].write(epoll_event { events: told, u64: item.data });
            count += 1;
        } else {
            is_late = true;
        }
    }
    let (told, is_late_too) = nested::tell(&inner, &entries[of_inner..], &mut kernel.room[..], count);
    count += told;
    is_late |= is_late_too;
    // Another thread may have reported all that ended the wait.
    if (has_rung || is_late) && count == 0 { Err(Errno(CHANGED)) } else { Ok(count as c_int) }
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
    with_mask(mask, millis_deadline(timeout), |deadline| wait_for(epoll, room, deadline))
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
    with_mask(mask, deadline, |deadline| wait_for(epoll, room, deadline))
}

#[cfg(test)]
mod tests;
