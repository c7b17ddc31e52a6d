//! Originals of the interposed functions. Each is looked up once in the C library itself.
//!
//! RTLD_NEXT is unsuitable: our own `libibverbs.so.1` may follow this library, and its jumps lead
//! back here.

use libc::*;
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

fn find(cell: &AtomicPtr<c_void>, name: &'static str) -> *mut c_void {
    let known = cell.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: every name below ends with a NUL.
    let found = crate::clib::symbols::find(unsafe { CStr::from_bytes_with_nul_unchecked(name.as_bytes()) });
    if found.is_null() {
        softband_client::warn::always(&format!("the C library has no {}", name.trim_end_matches('\0')));
        // SAFETY: abort runs no code of this library.
        unsafe { abort() }
    }
    cell.store(found, Ordering::Relaxed);
    found
}

macro_rules! originals {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;)*) => {
        $(
            #[inline]
            #[allow(clippy::too_many_arguments)] // as many as in the C library
            pub unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
                static CELL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
                let found = find(&CELL, concat!(stringify!($name), "\0"));
                // SAFETY: the C library's function with this name has this type.
                let function: unsafe extern "C" fn($($ty),*) $(-> $ret)? = std::mem::transmute(found);
                function($($arg),*)
            }
        )*
    };
}

type Start = extern "C" fn(*mut c_void) -> *mut c_void;

originals! {
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn __open_2(path: *const c_char, flags: c_int) -> c_int;
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int;
    fn __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int;
    fn __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int;
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE;
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE;
    fn opendir(path: *const c_char) -> *mut DIR;
    fn scandir(path: *const c_char, list: *mut c_void, filter: *mut c_void, order: *mut c_void) -> c_int;
    fn statx(folder: c_int, path: *const c_char, flags: c_int, mask: c_uint, out: *mut statx) -> c_int;
    fn access(path: *const c_char, mode: c_int) -> c_int;
    fn faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int;
    fn euidaccess(path: *const c_char, mode: c_int) -> c_int;
    fn readlink(path: *const c_char, out: *mut c_char, len: size_t) -> ssize_t;
    fn __readlink_chk(path: *const c_char, out: *mut c_char, len: size_t, room: size_t) -> ssize_t;
    fn readlinkat(folder: c_int, path: *const c_char, out: *mut c_char, len: size_t) -> ssize_t;
    fn realpath(path: *const c_char, out: *mut c_char) -> *mut c_char;
    fn __realpath_chk(path: *const c_char, out: *mut c_char, room: size_t) -> *mut c_char;
    fn canonicalize_file_name(path: *const c_char) -> *mut c_char;
    fn clock_getres(clock: clockid_t, out: *mut timespec) -> c_int;
    fn clock() -> clock_t;
    fn sysconf(name: c_int) -> c_long;
    fn getrusage(who: c_int, out: *mut rusage) -> c_int;
    fn gethostbyaddr_r(of: *const c_void, of_len: socklen_t, family: c_int, out: *mut hostent, buffer: *mut c_char, len: size_t, result: *mut *mut hostent, error: *mut c_int) -> c_int;
    fn times(out: *mut tms) -> clock_t;
    fn clock_nanosleep(clock: clockid_t, flags: c_int, request: *const timespec, remain: *mut timespec) -> c_int;
    fn nanosleep(request: *const timespec, remain: *mut timespec) -> c_int;
    fn usleep(micros: useconds_t) -> c_int;
    fn sleep(seconds: c_uint) -> c_uint;
    fn sched_yield() -> c_int;
    fn getpgrp() -> pid_t;
    fn process_vm_readv(pid: pid_t, local: *const iovec, locals: c_ulong, remote: *const iovec, remotes: c_ulong, flags: c_ulong) -> ssize_t;
    fn process_vm_writev(pid: pid_t, local: *const iovec, locals: c_ulong, remote: *const iovec, remotes: c_ulong, flags: c_ulong) -> ssize_t;
    fn sigqueue(pid: pid_t, signal: c_int, value: sigval) -> c_int;
    fn getpriority(which: c_uint, who: id_t) -> c_int;
    fn setpriority(which: c_uint, who: id_t, priority: c_int) -> c_int;
    fn sched_getparam(pid: pid_t, parameters: *mut sched_param) -> c_int;
    fn sched_setparam(pid: pid_t, parameters: *const sched_param) -> c_int;
    fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long;
    fn pthread_mutex_clocklock(mutex: *mut pthread_mutex_t, clock: clockid_t, until: *const timespec) -> c_int;
    fn pthread_rwlock_timedrdlock(lock: *mut pthread_rwlock_t, until: *const timespec) -> c_int;
    fn pthread_rwlock_timedwrlock(lock: *mut pthread_rwlock_t, until: *const timespec) -> c_int;
    fn pthread_rwlock_clockrdlock(lock: *mut pthread_rwlock_t, clock: clockid_t, until: *const timespec) -> c_int;
    fn pthread_rwlock_clockwrlock(lock: *mut pthread_rwlock_t, clock: clockid_t, until: *const timespec) -> c_int;
    fn alarm(seconds: c_uint) -> c_uint;
    fn setitimer(which: c_int, new: *const itimerval, old: *mut itimerval) -> c_int;
    fn getitimer(which: c_int, current: *mut itimerval) -> c_int;
    fn timer_create(clock: clockid_t, event: *mut sigevent, timer: *mut timer_t) -> c_int;
    fn timer_settime(timer: timer_t, flags: c_int, new: *const itimerspec, old: *mut itimerspec) -> c_int;
    fn timer_gettime(timer: timer_t, current: *mut itimerspec) -> c_int;
    fn timer_delete(timer: timer_t) -> c_int;
    fn timer_getoverrun(timer: timer_t) -> c_int;
    fn timerfd_create(clock: c_int, flags: c_int) -> c_int;
    fn timerfd_settime(fd: c_int, flags: c_int, new: *const itimerspec, old: *mut itimerspec) -> c_int;
    fn timerfd_gettime(fd: c_int, current: *mut itimerspec) -> c_int;
    fn sigaction(signal: c_int, new: *const sigaction, old: *mut sigaction) -> c_int;
    fn sigprocmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int;
    fn pthread_sigmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int;
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    fn listen(fd: c_int, backlog: c_int) -> c_int;
    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    fn send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    fn sendto(fd: c_int, data: *const c_void, len: size_t, flags: c_int, address: *const sockaddr, address_len: socklen_t) -> ssize_t;
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    fn recv(fd: c_int, data: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    fn recvfrom(fd: c_int, data: *mut c_void, len: size_t, flags: c_int, address: *mut sockaddr, address_len: *mut socklen_t) -> ssize_t;
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    fn shutdown(fd: c_int, how: c_int) -> c_int;
    fn getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    fn getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
    fn read(fd: c_int, data: *mut c_void, len: size_t) -> ssize_t;
    fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t;
    fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    fn close(fd: c_int) -> c_int;
    fn dup(fd: c_int) -> c_int;
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int;
    fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int;
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int;
    fn pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    fn epoll_wait(epoll: c_int, events: *mut epoll_event, count: c_int, timeout: c_int) -> c_int;
    fn epoll_pwait(epoll: c_int, events: *mut epoll_event, count: c_int, timeout: c_int, mask: *const sigset_t) -> c_int;
    fn getaddrinfo(node: *const c_char, service: *const c_char, hints: *const addrinfo, out: *mut *mut addrinfo) -> c_int;
    fn getnameinfo(address: *const sockaddr, len: socklen_t, host: *mut c_char, host_len: socklen_t, service: *mut c_char, service_len: socklen_t, flags: c_int) -> c_int;
    fn gethostbyname(name: *const c_char) -> *mut hostent;
    fn gethostbyname2(name: *const c_char, family: c_int) -> *mut hostent;
    fn gethostbyname_r(name: *const c_char, out: *mut hostent, buffer: *mut c_char, len: size_t, result: *mut *mut hostent, error: *mut c_int) -> c_int;
    fn gethostbyname2_r(name: *const c_char, family: c_int, out: *mut hostent, buffer: *mut c_char, len: size_t, result: *mut *mut hostent, error: *mut c_int) -> c_int;
    fn gethostbyaddr(address: *const c_void, len: socklen_t, family: c_int) -> *mut hostent;
    fn gethostname(name: *mut c_char, len: size_t) -> c_int;
    fn uname(out: *mut utsname) -> c_int;
    fn getifaddrs(out: *mut *mut ifaddrs) -> c_int;
    fn fork() -> pid_t;
    fn execve(path: *const c_char, argv: *const *const c_char, envp: *const *const c_char) -> c_int;
    fn execvpe(path: *const c_char, argv: *const *const c_char, envp: *const *const c_char) -> c_int;
    fn fexecve(fd: c_int, argv: *const *const c_char, envp: *const *const c_char) -> c_int;
    fn posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const posix_spawnattr_t, argv: *const *mut c_char, envp: *const *mut c_char) -> c_int;
    fn posix_spawnp(pid: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const posix_spawnattr_t, argv: *const *mut c_char, envp: *const *mut c_char) -> c_int;
    fn system(command: *const c_char) -> c_int;
    fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE;
    fn pclose(stream: *mut FILE) -> c_int;
    fn wait4(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t;
    fn waitid(kind: idtype_t, id: id_t, info: *mut siginfo_t, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
    fn getpid() -> pid_t;
    fn getppid() -> pid_t;
    fn kill(pid: pid_t, signal: c_int) -> c_int;
    fn setpgid(pid: pid_t, group: pid_t) -> c_int;
    fn getpgid(pid: pid_t) -> pid_t;
    fn getsid(pid: pid_t) -> pid_t;
    fn sched_setaffinity(pid: pid_t, len: size_t, set: *const cpu_set_t) -> c_int;
    fn sched_getaffinity(pid: pid_t, len: size_t, set: *mut cpu_set_t) -> c_int;
    fn sched_setscheduler(pid: pid_t, policy: c_int, parameters: *const sched_param) -> c_int;
    fn sched_getscheduler(pid: pid_t) -> c_int;
    fn prlimit(pid: pid_t, resource: c_int, new: *const rlimit, old: *mut rlimit) -> c_int;
    fn pthread_create(thread: *mut pthread_t, attributes: *const pthread_attr_t, start: Start, argument: *mut c_void) -> c_int;
    fn pthread_join(thread: pthread_t, result: *mut *mut c_void) -> c_int;
    fn pthread_tryjoin_np(thread: pthread_t, result: *mut *mut c_void) -> c_int;
    fn pthread_timedjoin_np(thread: pthread_t, result: *mut *mut c_void, deadline: *const timespec) -> c_int;
    fn pthread_detach(thread: pthread_t) -> c_int;
    fn pthread_once(control: *mut c_int, routine: extern "C" fn()) -> c_int;
    fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int;
    fn pthread_mutex_trylock(mutex: *mut pthread_mutex_t) -> c_int;
    fn pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, deadline: *const timespec) -> c_int;
    fn pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int;
    fn pthread_spin_lock(lock: *mut pthread_spinlock_t) -> c_int;
    fn pthread_spin_trylock(lock: *mut pthread_spinlock_t) -> c_int;
    fn pthread_rwlock_rdlock(lock: *mut pthread_rwlock_t) -> c_int;
    fn pthread_rwlock_tryrdlock(lock: *mut pthread_rwlock_t) -> c_int;
    fn pthread_rwlock_wrlock(lock: *mut pthread_rwlock_t) -> c_int;
    fn pthread_rwlock_trywrlock(lock: *mut pthread_rwlock_t) -> c_int;
    fn pthread_rwlock_unlock(lock: *mut pthread_rwlock_t) -> c_int;
    fn pthread_cond_wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int;
    fn pthread_cond_timedwait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, deadline: *const timespec) -> c_int;
    fn pthread_cond_clockwait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t, deadline: *const timespec) -> c_int;
    fn pthread_cond_signal(cond: *mut pthread_cond_t) -> c_int;
    fn pthread_cond_broadcast(cond: *mut pthread_cond_t) -> c_int;
    fn pthread_barrier_init(barrier: *mut pthread_barrier_t, attributes: *const pthread_barrierattr_t, count: c_uint) -> c_int;
    fn pthread_barrier_destroy(barrier: *mut pthread_barrier_t) -> c_int;
    fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int;
    fn sem_wait(semaphore: *mut sem_t) -> c_int;
    fn sem_trywait(semaphore: *mut sem_t) -> c_int;
    fn sem_timedwait(semaphore: *mut sem_t, deadline: *const timespec) -> c_int;
    fn sem_post(semaphore: *mut sem_t) -> c_int;
    fn clock_gettime(clock: clockid_t, out: *mut timespec) -> c_int;
    fn getrandom(data: *mut c_void, len: size_t, flags: c_uint) -> ssize_t;
    fn getentropy(data: *mut c_void, len: size_t) -> c_int;
    fn pause() -> c_int;
    fn sigsuspend(mask: *const sigset_t) -> c_int;
    fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int;
    fn sigtimedwait(set: *const sigset_t, info: *mut siginfo_t, timeout: *const timespec) -> c_int;
}

/// Makes a system call that bypasses our own [`crate::clib::raw::syscall`].
macro_rules! kernel {
    ($number:expr $(, $argument:expr)*) => {
        $crate::clib::real::padded_syscall($number, &[$($argument as libc::c_long),*])
    };
}

pub unsafe fn padded_syscall(number: c_long, given: &[c_long]) -> c_long {
    let mut all = [0; 6];
    all[..given.len()].copy_from_slice(given);
    let [a, b, c, d, e, f] = all;
    syscall(number, a, b, c, d, e, f)
}

/// Reads the kernel's clock without the vDSO, which reads the time stamp counter and would trap.
pub unsafe fn kernel_clock_gettime(clock: clockid_t, out: *mut timespec) -> c_int {
    kernel!(SYS_clock_gettime, clock, out) as c_int
}
