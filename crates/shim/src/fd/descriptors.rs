//! Descriptors: ownership by the engine, close, copy, and wait.

use crate::clib::args::Out;
use crate::clib::real;
use crate::fd::{management, own_values, terminal};
use crate::process::pid::{group_or_process, known_number};
use crate::runtime::world::{active, deadline_after, errno, fail, set_errno, timeval_picos};
use crate::signal::actions::at_one_moment;
use crate::socket::open::socket_option;
use crate::socket::{interfaces, linger, netlink};
use crate::time::pace::{Patience, empty_poll, found_news, look_in_vain};
use libc::{c_int, c_long, c_uint, c_ulong, pollfd};
use softband_client::fds::{Entry, Kind};
use softband_client::{self as client, Errno, fds};
use softband_ipc::calls::{Object, SocketReceive, WaitEntry, WaitRequest, op, reason};

const F_SETOWN_EX: c_int = 15;

/// Returns the engine's object behind `fd`, if the calling thread may use it.
#[inline]
pub fn ours(fd: c_int) -> Option<Entry> {
    fds::lookup(fd).filter(|_| active())
}

/// Returns whether calls on `fd` must not wait. The placeholder keeps the flag. The question is this
/// library's own call, which a program's filter permits (`process::seccomp`).
pub fn is_nonblocking(fd: c_int) -> bool {
    // SAFETY: F_GETFL has no argument.
    let flags = unsafe { kernel!(libc::SYS_fcntl, fd, libc::F_GETFL) };
    flags >= 0 && flags & c_long::from(libc::O_NONBLOCK) != 0
}

/// Sets whether calls on a descriptor of the kernel may wait.
pub fn set_nonblocking(fd: c_int, on: bool) {
    // SAFETY: F_GETFL has no argument.
    let flags = unsafe { kernel!(libc::SYS_fcntl, fd, libc::F_GETFL) };
    let wanted = if on { flags | c_long::from(libc::O_NONBLOCK) } else { flags & !c_long::from(libc::O_NONBLOCK) };
    if flags >= 0 {
        // SAFETY: F_SETFL takes a number.
        unsafe { kernel!(libc::SYS_fcntl, fd, libc::F_SETFL, wanted) };
    }
}

/// Waits until `object` is ready. Fails with `EAGAIN` at the deadline, and with `EINTR` after a
/// signal that interrupts.
pub fn wait_object(object: u32, interest: u32, deadline_ps: u64) -> Result<(), Errno> {
    let entry = WaitEntry { object, interest, ready: 0, seen: 0 };
    let request = WaitRequest { deadline_ps, count: 1, reason: reason::NONE };
    loop {
        let raised = crate::signal::actions::raised();
        let (reply, _) = client::call_with_tail::<op::Wait>(&request, &[entry], &mut [])?;
        if reply.interrupted != 0 || crate::signal::actions::raised() != raised {
            if crate::signal::actions::restarts() {
                continue;
            }
            return Err(Errno(libc::EINTR));
        }
        return if reply.ready_count == 0 { Err(Errno(libc::EAGAIN)) } else { Ok(()) };
    }
}

/// Handles a call that found nothing: fails with `EAGAIN` on a nonblocking descriptor, otherwise
/// waits.
pub fn wait_or_again(fd: c_int, object: u32, interest: u32, deadline_ps: u64) -> Result<(), Errno> {
    if is_nonblocking(fd) {
        empty_poll();
        return Err(Errno(libc::EAGAIN));
    }
    wait_object(object, interest, deadline_ps)
}

/// Asks the kernel about descriptors, for at most `millis`; -1 means without a limit.
pub fn poll_natively(set: &mut [pollfd], millis: c_int) -> c_int {
    if millis == 0 {
        // SAFETY: a slice has its own length of elements.
        return unsafe { kernel!(libc::SYS_poll, set.as_mut_ptr(), set.len(), 0) as c_int };
    }
    // SAFETY: the pointer and the count are those of a slice.
    unsafe { real::poll(set.as_mut_ptr(), set.len() as libc::nfds_t, millis) }
}

/// Waits at most `millis` of wall-clock time for news that belong to the present moment of simulated
/// time.
pub fn await_natively(set: &mut [pollfd], millis: c_int) {
    at_one_moment(|| poll_natively(set, millis));
}

/// Returns whether the kernel has something for these events now.
pub fn is_ready_natively(fd: c_int, events: i16) -> bool {
    poll_natively(&mut [pollfd { fd, events, revents: 0 }], 0) != 0
}

/// Runs `call`, which may block in the kernel on `fd`. Data may come from another program of the
/// run, so the thread polls for it in simulated time. After long patience, or at a terminal, the
/// thread asks the engine not to wait for it.
pub fn blocking_natively<R: From<i8>>(fd: c_int, events: i16, call: impl FnOnce() -> R) -> R {
    if !active() {
        return call();
    }
    if is_ready_natively(fd, events) {
        found_news();
        return call();
    }
    if is_nonblocking(fd) {
        client::ask_kernel();
        look_in_vain();
        return call();
    }
    let patience = Patience::of(reason::DESCRIPTOR);
    let deadline = wait_limit(fd, events).map_or(u64::MAX, deadline_after);
    while !is_outside(fd) && (deadline != u64::MAX || !patience.is_over()) {
        if let Err(Errno(error)) = client::awaiting_kernel(|| patience.step(deadline))
            && !(error == libc::EINTR && crate::signal::actions::restarts())
        {
            return fail(error);
        }
        if is_ready_natively(fd, events) {
            return call();
        }
        if deadline <= client::now_ps() {
            return fail(libc::EAGAIN);
        }
    }
    if events & libc::POLLIN != 0 && crate::shared::ranges::any() {
        return after_native_wait(fd, events, call);
    }
    crate::runtime::world::away(call)
}

/// Waits in the kernel for data on `fd` while the engine does not wait for this thread. Then runs
/// `call` with the token. In its own turns, another thread of the process closes shared memory, to
/// which the kernel could not write.
fn after_native_wait<R: From<i8>>(fd: c_int, events: i16, call: impl FnOnce() -> R) -> R {
    loop {
        let (count, error) = crate::runtime::world::away(|| (poll_natively(&mut [pollfd { fd, events, revents: 0 }], -1), errno()));
        if count < 0 && !(error == libc::EINTR && crate::signal::actions::restarts()) {
            return fail(error);
        }
        // Another thread may have taken the data before this one got the token back.
        if is_ready_natively(fd, events) {
            return call();
        }
    }
}

/// Returns the time limit of a socket's calls for these events, in picoseconds, if the program has set
/// one.
fn wait_limit(fd: c_int, events: i16) -> Option<u64> {
    let option = if events & libc::POLLIN != 0 { libc::SO_RCVTIMEO } else { libc::SO_SNDTIMEO };
    socket_option::<libc::timeval>(fd, option).map(|limit| timeval_picos(&limit)).filter(|limit| *limit > 0)
}

/// Returns whether `fd` cannot lead to another program of the run: a terminal or another device.
fn is_outside(fd: c_int) -> bool {
    kind_of(fd) == libc::S_IFCHR
}

/// Returns the file type (`S_IFMT`), or 0 for an unused number.
pub fn kind_of(fd: c_int) -> libc::mode_t {
    // SAFETY: the number is not -1. `fstat` fails if it is unused.
    let borrowed = unsafe { rustix::fd::BorrowedFd::borrow_raw(fd.max(0)) };
    rustix::fs::fstat(borrowed).map_or(0, |stat| stat.st_mode & libc::S_IFMT)
}

/// Closes the object behind `fd` before another use of the number.
pub fn forget(fd: c_int) {
    crate::fd::epoll::forget(fd);
    own_values::before_close(fd);
    netlink::forget(fd);
    if fds::lookup(fd).is_none() || !client::has_slot() {
        return;
    }
    let saved = errno();
    if let Some(entry) = ours(fd) {
        linger::wait(fd, entry);
    }
    if let Some(entry) = fds::remove(fd) {
        management::note_close(entry);
        let _ = client::call::<op::ObjectClose>(&Object { object: entry.object, reserved: 0 });
        set_errno(saved);
    }
}

/// Makes `copy` stand for the same object as `fd`.
fn also(fd: c_int, copy: c_int) -> c_int {
    netlink::also(fd, copy);
    if copy >= 0
        && let Some(entry) = ours(fd).or_else(|| management::entry(fd))
        && fds::register(copy, entry)
    {
        let _ = client::call::<op::ObjectRetain>(&Object { object: entry.object, reserved: 0 });
    }
    copy
}

/// Returns whether this library needs the descriptor for itself.
fn is_reserved(fd: c_int) -> bool {
    fd >= 0
        && crate::runtime::attach::attached()
        && (fd == client::control_fd() || client::shared_memory::is_kept(fd) || crate::process::children::is_lifeline(fd))
}

#[unsafe(no_mangle)]
pub extern "C" fn close(fd: c_int) -> c_int {
    if is_reserved(fd) {
        return fail(libc::EBADF);
    }
    forget(fd);
    real::close(fd)
}

#[unsafe(no_mangle)]
pub extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    const CLOSE_RANGE_CLOEXEC: c_int = 4;
    if !crate::runtime::attach::attached() || flags & CLOSE_RANGE_CLOEXEC != 0 {
        return close_range_natively(first, last, flags);
    }
    if first > last {
        return fail(libc::EINVAL);
    }
    let last_fd = c_int::try_from(last).unwrap_or(c_int::MAX);
    let ours: Vec<c_int> = fds::all().map(|(fd, _)| fd).filter(|fd| (first as c_int..=last_fd).contains(fd)).collect();
    ours.into_iter().for_each(forget);
    // Close all descriptors except those that this library needs.
    let mut start = first;
    for kept in crate::process::children::reserved_descriptors().into_iter().map(|fd| fd as c_uint).filter(|fd| (first..=last).contains(fd)) {
        if kept > start {
            close_range_natively(start, kept - 1, flags);
        }
        start = kept + 1;
    }
    if start <= last { close_range_natively(start, last, flags) } else { 0 }
}

fn close_range_natively(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // SAFETY: the call changes descriptors, and no memory.
    unsafe { kernel!(libc::SYS_close_range, first, last, flags) as c_int }
}

#[unsafe(no_mangle)]
pub extern "C" fn closefrom(first: c_int) {
    close_range(first.max(0) as c_uint, c_uint::MAX, 0);
}

#[unsafe(no_mangle)]
pub extern "C" fn dup(fd: c_int) -> c_int {
    also(fd, real::dup(fd))
}

#[unsafe(no_mangle)]
pub extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
    if is_reserved(to) {
        return fail(libc::EBADF);
    }
    if from == to {
        return real::dup2(from, to);
    }
    forget(to);
    also(from, real::dup2(from, to))
}

#[unsafe(no_mangle)]
pub extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    if is_reserved(to) {
        return fail(libc::EBADF);
    }
    if from != to {
        forget(to);
    }
    also(from, real::dup3(from, to, flags))
}

/// Takes the third argument without variadic parameters. It travels in the same register whether it
/// is a number, a pointer or absent (System V ABI).
///
/// # Safety
/// The argument is what the command takes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the argument is what `command` takes.
    let original = |command, argument| unsafe { real::fcntl(fd, command, argument) };
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => also(fd, original(command, argument)),
        libc::F_SETLKW | libc::F_OFD_SETLKW if active() => {
            // Another program of the run may hold the lock: poll it in simulated time. The polling
            // commands take the same structure.
            let once = if command == libc::F_SETLKW { libc::F_SETLK } else { libc::F_OFD_SETLK };
            let patience = Patience::of(reason::LOCK);
            while original(once, argument) != 0 {
                if !matches!(errno(), libc::EAGAIN | libc::EACCES) {
                    return -1;
                }
                if patience.is_over() {
                    return crate::runtime::world::away(|| original(command, argument));
                }
                if let Err(Errno(error)) = patience.step(u64::MAX) {
                    return fail(error);
                }
            }
            0
        }
        libc::F_SETOWN => {
            crate::socket::modelled::note_owner(fd, argument as libc::pid_t);
            original(command, group_or_process(argument as libc::pid_t) as usize)
        }
        libc::F_GETOWN => known_number(original(command, argument)),
        F_SETOWN_EX if argument != 0 => {
            // SAFETY: kind and number of the owner, four bytes each (fcntl(2)).
            let [kind, pid] = unsafe { *(argument as *const [c_int; 2]) };
            let owner = [kind, group_or_process(pid)];
            original(command, owner.as_ptr() as usize)
        }
        _ => original(command, argument),
    }
}

/// Implements the name of `fcntl` for large files.
///
/// # Safety
/// The argument is what the command takes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: all files are large on this machine, so both names have one contract.
    unsafe { fcntl(fd, command, argument) }
}

/// Implements `ioctl`, whose third argument is a number, a pointer or absent.
///
/// # Safety
/// The argument is what the request takes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
    // SAFETY: a request about bytes has the argument that it takes.
    if let Some(status) = unsafe { crate::socket::modelled::control(ours(fd), request, argument) } {
        return status;
    }
    if request == libc::FIONREAD as c_ulong
        && let Some(Entry { kind: Kind::StreamSocket, object }) = ours(fd)
    {
        let peek = SocketReceive { object, len_max: (softband_ipc::layout::PAYLOAD_BYTES - 64) as u32, peek: 1, flags: 0, rest: 0, reserved: 0 };
        let waiting = client::call_with_tail::<op::SocketReceive>(&peek, &[], &mut []).map_or(0, |(count, _)| count.count);
        // SAFETY: FIONREAD takes the address of an `int`.
        unsafe { Out::from_raw(argument as *mut c_int) }.set(waiting as c_int);
        return 0;
    }
    if let Some(entry) = management::entry(fd)
        // SAFETY: the program passes what the device's request takes.
        && let Some(status) = unsafe { management::control(entry, request, argument) }
    {
        return status;
    }
    // SAFETY: a request about interfaces has the argument that it takes.
    if let Some(status) = unsafe { interfaces::control(fd, request, argument) } {
        return status;
    }
    if request == libc::FIONREAD as c_ulong
        && let Some(Entry { kind: Kind::DatagramSocket, object }) = ours(fd)
    {
        // SAFETY: FIONREAD takes the address of an `int`.
        unsafe { Out::from_raw(argument as *mut c_int) }.set(crate::socket::datagram::next_len(object) as c_int);
        return 0;
    }
    if request == libc::FIONREAD as c_ulong && active() && terminal::may_be(fd) {
        terminal::settle(std::iter::once(fd));
    }
    // SAFETY: a driver gets the argument that the program has for it.
    unsafe { real::ioctl(fd, request, argument) }
}
