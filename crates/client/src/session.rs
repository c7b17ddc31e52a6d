//! The process's connection to its engine, and their shared memory.

use crate::connection::{connect, own_view, send_with};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};
use softband_ipc::attach::{Hello, Welcome, Word};
use softband_ipc::layout::{
    HEADER_OFFSET, MAGIC, SHARED_BYTES, SLOTS_OFFSET, SPIN_SIGNAL, SharedHeader, THREADS_MAX, TRAFFIC_OFFSET, TRAFFIC_ROWS, ThreadSlot, TrafficRow,
    pace,
};
use softband_ipc::{VERSION, environment};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

static BASE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static CONTROL_FD: AtomicI32 = AtomicI32::new(-1);
static IS_WALL: AtomicBool = AtomicBool::new(false);
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Secret that the engine gave this process or the process that forked it.
static SECRET: AtomicU64 = AtomicU64::new(0);
/// The engine's name at attach: a program may clear its environment and fork afterwards.
static ENGINE: OnceLock<String> = OnceLock::new();

thread_local! {
    static SLOT: Cell<*const ThreadSlot> = const { Cell::new(std::ptr::null()) };
}

/// Reason why a program could not attach to the engine that its environment names.
#[derive(Debug)]
pub struct AttachError(pub String);

/// Checks whether this process is attached to an engine.
pub fn is_attached() -> bool {
    !BASE.load(Ordering::Acquire).is_null()
}

/// Returns the start of the memory shared with the engine.
///
/// # Panics
/// Panics if the process is not attached: callers check [`is_attached`] first.
pub fn shared_base() -> *mut u8 {
    let base = BASE.load(Ordering::Acquire);
    assert!(!base.is_null(), "softband: not attached to an engine");
    base
}

/// Returns the engine's description of this process.
pub fn header() -> &'static SharedHeader {
    // SAFETY: the mapping is never undone, the header is initialised before attach returns, and only its atomics change later.
    unsafe { &*shared_base().add(HEADER_OFFSET).cast::<SharedHeader>() }
}

/// Returns the counters of traffic that this process carries itself.
#[inline]
pub fn traffic() -> &'static [TrafficRow] {
    // SAFETY: the mapping is never undone and has room for the rows, which consist of atomics.
    unsafe { std::slice::from_raw_parts(shared_base().add(TRAFFIC_OFFSET).cast::<TrafficRow>(), TRAFFIC_ROWS) }
}

/// Returns the engine's number of this process.
pub fn process_number() -> u32 {
    PROCESS.load(Ordering::Relaxed)
}

/// Returns the name of the engine, once this process or its parent has attached.
pub(crate) fn engine() -> Option<&'static str> {
    ENGINE.get().map(String::as_str)
}

/// Returns the secret by which a process or image that the engine does not expect attaches as a child
/// of this process.
pub fn secret() -> u64 {
    SECRET.load(Ordering::Relaxed)
}

/// Thread pointer of the last thread that looked up its slot, and below, that slot. Programs read
/// clocks millions of times, and an access to thread-local storage of a shared library is a call.
static LAST_THREAD: AtomicUsize = AtomicUsize::new(0);
static LAST_SLOT: AtomicPtr<ThreadSlot> = AtomicPtr::new(std::ptr::null_mut());

/// Returns the address of the thread's control block, which is unique in a process (System V ABI,
/// x86-64).
#[inline]
pub fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the first word of the control block is its own address, and the read changes nothing.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly)) };
    pointer
}

/// Checks whether the fabric runs at wall pace. Then the host provides clocks, threads and waits.
#[inline]
pub fn is_wall() -> bool {
    IS_WALL.load(Ordering::Relaxed)
}

/// Returns the slot of the calling thread, if the engine knows the thread.
#[inline]
pub(crate) fn thread_slot() -> Option<&'static ThreadSlot> {
    let me = thread_pointer();
    if LAST_THREAD.load(Ordering::Acquire) == me {
        let slot = LAST_SLOT.load(Ordering::Acquire);
        // Another thread may note the token during this read. The slot belongs to this thread only
        // if both checks agree.
        if LAST_THREAD.load(Ordering::Acquire) == me {
            // SAFETY: `note_token` stored both for this thread, and slots are never unmapped.
            return unsafe { slot.as_ref() };
        }
    }
    if IS_WALL.load(Ordering::Relaxed) {
        // SAFETY: slot 0 lies within the mapping, which is never undone.
        return Some(unsafe { &*shared_base().add(SLOTS_OFFSET).cast::<ThreadSlot>() });
    }
    let slot = SLOT.with(Cell::get);
    // SAFETY: a bound slot points into the mapping, which is never undone.
    (!slot.is_null()).then(|| unsafe { &*slot })
}

/// Checks whether the engine knows the calling thread.
#[inline]
pub fn has_slot() -> bool {
    thread_slot().is_some()
}

/// Caches the slot of the calling thread, which now has the token.
pub(crate) fn note_token(slot: &ThreadSlot) {
    LAST_THREAD.store(0, Ordering::Release);
    LAST_SLOT.store(std::ptr::from_ref(slot).cast_mut(), Ordering::Release);
    LAST_THREAD.store(thread_pointer(), Ordering::Release);
}

/// Returns the number of the calling thread's slot.
pub fn thread_slot_number() -> Option<u32> {
    let slot = thread_slot()?;
    let offset = std::ptr::from_ref(slot) as usize - shared_base() as usize - SLOTS_OFFSET;
    u32::try_from(offset / size_of::<ThreadSlot>()).ok()
}

/// Makes slot `number` the calling thread's.
///
/// # Panics
/// Panics if the engine names a slot that does not exist.
pub fn bind_thread(number: u32) {
    assert!((number as usize) < THREADS_MAX, "softband: the engine gave slot {number}");
    // SAFETY: the slot lies within the mapping.
    let slot = unsafe { shared_base().add(SLOTS_OFFSET).cast::<ThreadSlot>().add(number as usize) };
    // The thread may have had another slot.
    let _ = LAST_THREAD.compare_exchange(thread_pointer(), 0, Ordering::AcqRel, Ordering::Relaxed);
    SLOT.with(|cell| cell.set(slot));
    // SAFETY: the slot lies within the mapping, which is never undone, and its fields are atomics.
    unsafe { &*slot }.tid.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Ordering::Relaxed);
}

/// Removes the calling thread's slot.
pub fn forget_thread() {
    let _ = LAST_THREAD.compare_exchange(thread_pointer(), 0, Ordering::AcqRel, Ordering::Relaxed);
    SLOT.with(|cell| cell.set(std::ptr::null()));
}

/// Attaches to the engine that the environment names. Returns `Ok(false)` if it names none.
///
/// # Errors
/// The engine does not answer or refuses.
pub fn attach_from_environment() -> Result<bool, AttachError> {
    let Ok(engine) = std::env::var(environment::ENGINE) else { return Ok(false) };
    let ticket = std::env::var(environment::TICKET).ok().and_then(|text| environment::ticket_of(&text)).unwrap_or(0);
    let engine = ENGINE.get_or_init(|| engine);
    attach(engine, ticket, false)?;
    Ok(true)
}

/// Attaches the child of a fork, which still holds its parent's mapping, under its own ticket.
///
/// # Errors
/// The engine does not answer or refuses.
pub fn attach_child(ticket: u64) -> Result<(), AttachError> {
    let engine = ENGINE.get().ok_or_else(|| AttachError("the parent was not attached".into()))?;
    let old = CONTROL_FD.swap(-1, Ordering::AcqRel);
    if old >= 0 {
        // SAFETY: this process owns the descriptor, and nobody else uses it.
        drop(unsafe { OwnedFd::from_raw_fd(old) });
    }
    attach(engine, ticket, true)
}

/// Attaches a child at wall pace, with its parent's secret, as a process of its own.
pub(crate) fn attach_again() -> Result<(), AttachError> {
    let engine = ENGINE.get().ok_or_else(|| AttachError("the parent was not attached".into()))?;
    attach(engine, SECRET.load(Ordering::Relaxed), true)?;
    // SAFETY: the call touches no memory. A child does not inherit the permission for others to
    // access its memory.
    unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
    Ok(())
}

/// Closes the child's copy of the control socket and replaces the shared file by private memory, at
/// wall pace.
pub(crate) fn forget_parent() {
    let control = CONTROL_FD.swap(-1, Ordering::AcqRel);
    if control >= 0 {
        // SAFETY: the descriptor is this process's copy, and nobody else uses it.
        drop(unsafe { OwnedFd::from_raw_fd(control) });
    }
    let base = BASE.load(Ordering::Acquire);
    if base.is_null() {
        return;
    }
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    // SAFETY: the header is plain data, and others write only its atomics. The new mapping replaces
    // the former one at the same address with the same size.
    unsafe {
        let mut header = base.cast::<SharedHeader>().read();
        // Requests that were posted but not taken yet belong to the parent.
        header.ring_consumed = AtomicU64::new(header.ring_produced.load(Ordering::Relaxed));
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        if mmap_anonymous(base.cast(), SHARED_BYTES, ProtFlags::READ | ProtFlags::WRITE, flags).is_ok() {
            base.cast::<SharedHeader>().write(header);
        }
    }
}

fn attach(engine: &str, ticket: u64, forked: bool) -> Result<(), AttachError> {
    let failed = |what: &str, error: rustix::io::Errno| AttachError(format!("{what}: {error}"));
    let socket = connect(engine).map_err(|error| failed("the engine does not answer", error))?;
    let hello = Hello {
        version: VERSION,
        pid: rustix::process::getpid().as_raw_nonzero().get() as u32,
        ticket,
        forked: u32::from(forked),
        tid: rustix::thread::gettid().as_raw_nonzero().get() as u32,
    };
    let shown = if environment::is_of_shared_fabric(engine) { own_view() } else { Vec::new() };
    // An engine that refuses a connection may have answered and hung up by now.
    match send_with(&socket, bytemuck::bytes_of(&hello), &shown) {
        Ok(_) | Err(rustix::io::Errno::PIPE) => {}
        Err(error) => return Err(failed("the engine hung up", error)),
    }
    let (welcome, [memory, wake_words, tables], memory_file) = receive_welcome(&socket)?;
    map_shared(&memory)?;
    crate::wake_word::map(&wake_words).map_err(|error| failed("cannot map the wake words", error))?;
    crate::direct::map(&tables).map_err(|error| failed("cannot map the tables", error))?;
    PROCESS.store(welcome.process, Ordering::Relaxed);
    crate::fork::note_table_number(welcome.table_number);
    SECRET.store(welcome.secret, Ordering::Relaxed);
    hand_down(welcome.secret);
    crate::fork::note_owner();
    if is_wall() {
        crate::single_threaded::begin();
        crate::shared_memory::keep_own(memory_file);
    }
    // High numbers stay out of the way of programs that expect their first file to be 3.
    let high = rustix::io::fcntl_dupfd_cloexec(&socket, 900).map_or(socket, |high| high);
    end_with_engine(&high)?;
    CONTROL_FD.store(high.into_raw_fd(), Ordering::Release);
    bind_thread(welcome.slot);
    crate::execution_token::await_token();
    Ok(())
}

/// Makes the kernel end this process when the engine closes the control socket: no time remains in
/// which the process could continue. The kernel also raises the signal for messages, even a moment
/// after their receipt. So this waits until the engine has finished its welcome, after which it
/// sends nothing.
fn end_with_engine(control: &OwnedFd) -> Result<(), AttachError> {
    while header().is_welcomed.load(Ordering::Acquire) == 0 {
        if has_hung_up(control, WELCOME_PAUSE) {
            return Err(AttachError("the engine hung up".into()));
        }
    }
    let fd = control.as_raw_fd();
    // SAFETY: plain descriptor operations on this process's own socket.
    unsafe {
        libc::syscall(libc::SYS_fcntl, fd, libc::F_SETOWN, rustix::process::getpid().as_raw_nonzero().get());
        libc::syscall(libc::SYS_fcntl, fd, F_SETSIG, if is_init() { SPIN_SIGNAL } else { libc::SIGKILL });
        let flags = libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL);
        libc::syscall(libc::SYS_fcntl, fd, libc::F_SETFL, flags | i64::from(libc::O_ASYNC));
    }
    // A hang-up before this point raised no signal.
    if has_hung_up(control, Timespec::default()) { Err(AttachError("the engine hung up".into())) } else { Ok(()) }
}

/// Checks whether this is the first process of its namespace, as in a container. The kernel ignores
/// SIGKILL there, and the handler of the engine's signal ends the process
/// ([`leave_without_engine`]).
pub fn is_init() -> bool {
    rustix::process::getpid().is_init()
}

/// Ends the first process of a namespace if the engine has closed the control socket.
pub fn leave_without_engine() {
    let fd = CONTROL_FD.load(Ordering::Acquire);
    if fd < 0 || !is_init() {
        return;
    }
    // SAFETY: the descriptor stays open as long as the process is attached.
    let control = unsafe { BorrowedFd::borrow_raw(fd) };
    let mut set = [PollFd::new(&control, PollFlags::empty())];
    if rustix::event::poll(&mut set, Some(&Timespec::default())).is_ok_and(|_| set[0].revents().contains(PollFlags::HUP)) {
        // SAFETY: the call ends the process, so it leaves nothing in a bad state.
        unsafe { libc::syscall(libc::SYS_exit_group, 128 + libc::SIGKILL) };
    }
}

/// Checks whether the other end is closed, or closes within `limit`.
fn has_hung_up(control: &OwnedFd, limit: Timespec) -> bool {
    let mut set = [PollFd::new(control, PollFlags::empty())];
    rustix::event::poll(&mut set, Some(&limit)).is_ok_and(|_| set[0].revents().contains(PollFlags::HUP))
}

/// Pause between two checks for the end of the engine's welcome, which usually follows within a
/// moment.
const WELCOME_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000 };

/// `F_SETSIG` of Linux.
const F_SETSIG: libc::c_int = 10;

/// Replaces the used ticket in the environment by the secret. Processes that this process starts
/// without the library's help attach with it.
fn hand_down(secret: u64) {
    let Ok(name) = std::ffi::CString::new(environment::TICKET) else { return };
    let text = environment::ticket_text(secret);
    // SAFETY: the place holds a string of the same length, which only this library writes.
    unsafe {
        let place = libc::getenv(name.as_ptr());
        if !place.is_null() && libc::strlen(place) == text.len() {
            std::ptr::copy_nonoverlapping(text.as_ptr(), place.cast(), text.len());
        }
    }
}

fn receive_welcome(socket: &OwnedFd) -> Result<(Welcome, [OwnedFd; 3], Option<OwnedFd>), AttachError> {
    let mut welcome: Welcome = bytemuck::Zeroable::zeroed();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [std::io::IoSliceMut::new(bytemuck::bytes_of_mut(&mut welcome))];
    let received = rustix::net::recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        .map_err(|error| AttachError(format!("the engine hung up: {error}")))?;
    if received.bytes == 0 {
        return Err(AttachError(
            "the engine has closed the connection: it may have too many open files (ulimit -n), or belong to another user".into(),
        ));
    }
    if received.bytes < size_of::<Welcome>() || welcome.version != VERSION {
        return Err(AttachError(format!(
            "the engine speaks version {} of the protocol, this library version {VERSION}: install both from the same build",
            welcome.version
        )));
    }
    if welcome.status != 0 {
        return Err(AttachError(refusal(welcome.status)));
    }
    let files = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => Some(([fds.next()?, fds.next()?, fds.next()?], fds.next())),
        _ => None,
    });
    files.map(|(files, memory)| (welcome, files, memory)).ok_or_else(|| AttachError("the engine gave no shared memory".into()))
}

fn refusal(errno: i32) -> String {
    match errno {
        libc::EACCES => "the engine does not know this program: SOFTBAND_TICKET is used up or of another fabric; \
            start the program by softband run or softband exec"
            .into(),
        libc::EMFILE | libc::ENFILE | libc::ENOMEM => {
            format!(
                "the engine has no room for another process ({}): raise its limits (ulimit -n, ulimit -v)",
                std::io::Error::from_raw_os_error(errno)
            )
        }
        libc::ENOTDIR => "this process cannot show itself to the engine of a shared fabric: mount /proc in its container, without hidepid".into(),
        libc::EUSERS => "this process has too many connections to the engine open".into(),
        libc::EBUSY => "this process takes part in the fabric already".into(),
        other => format!("the engine refuses: {}", std::io::Error::from_raw_os_error(other)),
    }
}

fn map_shared(memory: &OwnedFd) -> Result<(), AttachError> {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let old = BASE.load(Ordering::Acquire);
    // A forked child maps its own file at its parent's address, so pointers into the mapping stay
    // valid.
    let flags = if old.is_null() { MapFlags::SHARED } else { MapFlags::SHARED | MapFlags::FIXED };
    // SAFETY: either a fresh mapping at an address of the kernel's choice, or a mapping over our
    // own former one of the same size.
    let base = unsafe { mmap(old.cast(), SHARED_BYTES, ProtFlags::READ | ProtFlags::WRITE, flags, memory, 0) }
        .map_err(|error| AttachError(format!("cannot map the shared memory: {error}")))?;
    // SAFETY: the mapping is large enough, and the engine has written the header.
    let header = unsafe { &*base.cast::<SharedHeader>() };
    if header.magic != MAGIC || header.version != VERSION {
        return Err(AttachError("the shared memory is not an engine's".into()));
    }
    BASE.store(base.cast(), Ordering::Release);
    if header.pace == pace::WALL {
        crate::hosts::remember(base.cast());
        IS_WALL.store(true, Ordering::Release);
    }
    Ok(())
}

/// Sends a message about slot `slot` to the engine (`softband_ipc::attach::word`).
pub(crate) fn send_word(slot: u32, kind: u32) {
    let fd = CONTROL_FD.load(Ordering::Acquire);
    if fd >= 0 {
        // SAFETY: the descriptor stays open as long as the process is attached.
        let control = unsafe { BorrowedFd::borrow_raw(fd) };
        let sent = rustix::net::send(control, bytemuck::bytes_of(&Word { slot, kind }), SendFlags::NOSIGNAL);
        leave_if_closed(sent);
    }
}

/// Ends the process if it has closed the control socket: the engine serves it no more.
pub(crate) fn leave_without_control() {
    let fd = CONTROL_FD.load(Ordering::Acquire);
    if fd >= 0 {
        // SAFETY: the descriptor stays open as long as the process is attached.
        leave_if_closed(rustix::net::sockopt::socket_type(unsafe { BorrowedFd::borrow_raw(fd) }));
    }
}

fn leave_if_closed<T>(outcome: rustix::io::Result<T>) {
    if matches!(outcome, Err(rustix::io::Errno::BADF | rustix::io::Errno::NOTSOCK)) {
        // The C library cannot close this descriptor, so the program used a raw system call. The
        // program would wait for an answer for ever.
        crate::warn::always("this program has closed the descriptor by which it reaches the engine, and cannot go on");
        crate::execution_token::leave();
    }
}

/// Returns the control socket, which a program that closes all descriptors must not close. Returns
/// -1 without an engine.
pub fn control_fd() -> i32 {
    let fd = CONTROL_FD.load(Ordering::Acquire);
    if fd >= 0 {
        // SAFETY: the descriptor stays open as long as the process is attached.
        unsafe { BorrowedFd::borrow_raw(fd) }.as_raw_fd()
    } else {
        -1
    }
}
