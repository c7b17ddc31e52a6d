//! Originals of the interposed functions. Each is looked up once in the C library itself.
//!
//! RTLD_NEXT is unsuitable: our own `libibverbs.so.1` may follow this library, and its jumps lead
//! back here.

use crate::clib::args::{In, InOut, Managed, Out, Text, Texts};
use crate::runtime::world::fail;
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
        std::process::abort();
    }
    cell.store(found, Ordering::Relaxed);
    found
}

macro_rules! originals {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;)*) => {
        $(
            /// Calls the C library's function of this name.
            ///
            /// # Safety
            /// The arguments are those that its manual page requires.
            #[inline]
            #[allow(clippy::too_many_arguments)] // as many as in the C library
            pub unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
                static CELL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
                let found = find(&CELL, concat!(stringify!($name), "\0"));
                // SAFETY: the C library's function with this name has this type.
                let function: unsafe extern "C" fn($($ty),*) $(-> $ret)? = unsafe { std::mem::transmute(found) };
                // SAFETY: the caller passes the arguments that the manual page requires.
                unsafe { function($($arg),*) }
            }
        )*
    };
}

/// Declares originals that are safe to call: they take numbers, which may have any value, and
/// pointers in the types of [`crate::clib::args`], which carry their own promise.
macro_rules! safe_originals {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;)*) => {
        $(
            #[inline]
            #[allow(clippy::too_many_arguments)] // as many as in the C library
            pub fn $name($($arg: $ty),*) $(-> $ret)? {
                static CELL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
                let found = find(&CELL, concat!(stringify!($name), "\0"));
                // SAFETY: the C library's function with this name has this type, in which the
                // pointers are transparent. It checks its numbers itself.
                let function: extern "C" fn($($ty),*) $(-> $ret)? = unsafe { std::mem::transmute(found) };
                function($($arg),*)
            }
        )*
    };
}

type Start = extern "C" fn(*mut c_void) -> *mut c_void;

safe_originals! {
    fn fsync(fd: c_int) -> c_int;
    fn fdatasync(fd: c_int) -> c_int;
    fn pthread_once(control: Managed<c_int>, routine: extern "C" fn()) -> c_int;
    fn clock() -> clock_t;
    fn sysconf(name: c_int) -> c_long;
    fn usleep(micros: useconds_t) -> c_int;
    fn sleep(seconds: c_uint) -> c_uint;
    fn sched_yield() -> c_int;
    fn getpriority(which: c_uint, who: id_t) -> c_int;
    fn setpriority(which: c_uint, who: id_t, priority: c_int) -> c_int;
    fn alarm(seconds: c_uint) -> c_uint;
    fn timerfd_create(clock: c_int, flags: c_int) -> c_int;
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn listen(fd: c_int, backlog: c_int) -> c_int;
    fn shutdown(fd: c_int, how: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn dup(fd: c_int) -> c_int;
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
    fn getpid() -> pid_t;
    fn getppid() -> pid_t;
    fn kill(pid: pid_t, signal: c_int) -> c_int;
    fn setpgid(pid: pid_t, group: pid_t) -> c_int;
    fn getpgid(pid: pid_t) -> pid_t;
    fn getsid(pid: pid_t) -> pid_t;
    fn sched_getscheduler(pid: pid_t) -> c_int;
    fn pause() -> c_int;
    fn clock_getres(clock: clockid_t, out: Out<timespec>) -> c_int;
    fn getrusage(who: c_int, out: Out<rusage>) -> c_int;
    fn times(out: Out<tms>) -> clock_t;
    fn clock_nanosleep(clock: clockid_t, flags: c_int, request: In<timespec>, remain: Out<timespec>) -> c_int;
    fn nanosleep(request: In<timespec>, remain: Out<timespec>) -> c_int;
    fn setitimer(which: c_int, new: In<itimerval>, old: Out<itimerval>) -> c_int;
    fn getitimer(which: c_int, current: Out<itimerval>) -> c_int;
    fn timerfd_settime(fd: c_int, flags: c_int, new: In<itimerspec>, old: Out<itimerspec>) -> c_int;
    fn timerfd_gettime(fd: c_int, current: Out<itimerspec>) -> c_int;
    fn clock_gettime(clock: clockid_t, out: Out<timespec>) -> c_int;
    fn sigsuspend(mask: In<sigset_t>) -> c_int;
    fn timer_create(clock: clockid_t, event: In<sigevent>, timer: Out<timer_t>) -> c_int;
    fn pthread_sigmask(how: c_int, set: In<sigset_t>, old: Out<sigset_t>) -> c_int;
    fn sigprocmask(how: c_int, set: In<sigset_t>, old: Out<sigset_t>) -> c_int;
    fn sigtimedwait(set: In<sigset_t>, info: Out<siginfo_t>, timeout: In<timespec>) -> c_int;
    fn sigwait(set: In<sigset_t>, signal: Out<c_int>) -> c_int;
    fn pthread_mutex_lock(mutex: Managed<pthread_mutex_t>) -> c_int;
    fn pthread_mutex_trylock(mutex: Managed<pthread_mutex_t>) -> c_int;
    fn pthread_mutex_timedlock(mutex: Managed<pthread_mutex_t>, deadline: In<timespec>) -> c_int;
    fn pthread_mutex_clocklock(mutex: Managed<pthread_mutex_t>, clock: clockid_t, until: In<timespec>) -> c_int;
    fn pthread_mutex_unlock(mutex: Managed<pthread_mutex_t>) -> c_int;
    fn pthread_spin_lock(lock: Managed<pthread_spinlock_t>) -> c_int;
    fn pthread_spin_trylock(lock: Managed<pthread_spinlock_t>) -> c_int;
    fn pthread_rwlock_rdlock(lock: Managed<pthread_rwlock_t>) -> c_int;
    fn pthread_rwlock_tryrdlock(lock: Managed<pthread_rwlock_t>) -> c_int;
    fn pthread_rwlock_wrlock(lock: Managed<pthread_rwlock_t>) -> c_int;
    fn pthread_rwlock_trywrlock(lock: Managed<pthread_rwlock_t>) -> c_int;
    fn pthread_rwlock_unlock(lock: Managed<pthread_rwlock_t>) -> c_int;
    fn pthread_rwlock_timedrdlock(lock: Managed<pthread_rwlock_t>, until: In<timespec>) -> c_int;
    fn pthread_rwlock_timedwrlock(lock: Managed<pthread_rwlock_t>, until: In<timespec>) -> c_int;
    fn pthread_rwlock_clockrdlock(lock: Managed<pthread_rwlock_t>, clock: clockid_t, until: In<timespec>) -> c_int;
    fn pthread_rwlock_clockwrlock(lock: Managed<pthread_rwlock_t>, clock: clockid_t, until: In<timespec>) -> c_int;
    fn pthread_cond_wait(cond: Managed<pthread_cond_t>, mutex: Managed<pthread_mutex_t>) -> c_int;
    fn pthread_cond_timedwait(cond: Managed<pthread_cond_t>, mutex: Managed<pthread_mutex_t>, deadline: In<timespec>) -> c_int;
    fn pthread_cond_clockwait(cond: Managed<pthread_cond_t>, mutex: Managed<pthread_mutex_t>, clock: clockid_t, deadline: In<timespec>) -> c_int;
    fn pthread_cond_signal(cond: Managed<pthread_cond_t>) -> c_int;
    fn pthread_cond_broadcast(cond: Managed<pthread_cond_t>) -> c_int;
    fn pthread_barrier_init(barrier: Managed<pthread_barrier_t>, attributes: Managed<pthread_barrierattr_t>, count: c_uint) -> c_int;
    fn pthread_barrier_destroy(barrier: Managed<pthread_barrier_t>) -> c_int;
    fn pthread_barrier_wait(barrier: Managed<pthread_barrier_t>) -> c_int;
    fn sem_wait(semaphore: Managed<sem_t>) -> c_int;
    fn sem_trywait(semaphore: Managed<sem_t>) -> c_int;
    fn sem_timedwait(semaphore: Managed<sem_t>, deadline: In<timespec>) -> c_int;
    fn sem_post(semaphore: Managed<sem_t>) -> c_int;
    fn execve(path: Text, argv: Texts, envp: Texts) -> c_int;
    fn execvpe(path: Text, argv: Texts, envp: Texts) -> c_int;
    fn fexecve(fd: c_int, argv: Texts, envp: Texts) -> c_int;
    fn posix_spawn(pid: Out<pid_t>, path: Text, actions: Managed<posix_spawn_file_actions_t>, attributes: Managed<posix_spawnattr_t>, argv: Texts, envp: Texts) -> c_int;
    fn posix_spawnp(pid: Out<pid_t>, path: Text, actions: Managed<posix_spawn_file_actions_t>, attributes: Managed<posix_spawnattr_t>, argv: Texts, envp: Texts) -> c_int;
    fn system(command: Text) -> c_int;
    fn popen(command: Text, mode: Text) -> *mut FILE;
    fn wait4(pid: pid_t, status: InOut<c_int>, options: c_int, usage: Out<rusage>) -> pid_t;
    fn waitid(kind: idtype_t, id: id_t, info: Out<siginfo_t>, options: c_int) -> c_int;
    fn sched_getparam(pid: pid_t, parameters: Out<sched_param>) -> c_int;
    fn sched_setparam(pid: pid_t, parameters: In<sched_param>) -> c_int;
    fn sched_setscheduler(pid: pid_t, policy: c_int, parameters: In<sched_param>) -> c_int;
    fn prlimit(pid: pid_t, resource: c_int, new: In<rlimit>, old: Out<rlimit>) -> c_int;
    fn sigqueue(pid: pid_t, signal: c_int, value: sigval) -> c_int;
    fn getpgrp() -> pid_t;
    fn open(path: Text, flags: c_int, mode: mode_t) -> c_int;
    fn open64(path: Text, flags: c_int, mode: mode_t) -> c_int;
    fn openat(folder: c_int, path: Text, flags: c_int, mode: mode_t) -> c_int;
    fn openat64(folder: c_int, path: Text, flags: c_int, mode: mode_t) -> c_int;
    fn __open_2(path: Text, flags: c_int) -> c_int;
    fn __open64_2(path: Text, flags: c_int) -> c_int;
    fn __openat_2(folder: c_int, path: Text, flags: c_int) -> c_int;
    fn __openat64_2(folder: c_int, path: Text, flags: c_int) -> c_int;
    fn fopen(path: Text, mode: Text) -> *mut FILE;
    fn freopen(path: Text, mode: Text, stream: *mut FILE) -> *mut FILE;
    fn fopen64(path: Text, mode: Text) -> *mut FILE;
    fn opendir(path: Text) -> *mut DIR;
    fn chdir(path: Text) -> c_int;
    fn get_current_dir_name() -> *mut c_char;
    fn statx(folder: c_int, path: Text, flags: c_int, mask: c_uint, out: Out<statx>) -> c_int;
    fn access(path: Text, mode: c_int) -> c_int;
    fn faccessat(folder: c_int, path: Text, mode: c_int, flags: c_int) -> c_int;
    fn fchmodat(folder: c_int, path: Text, mode: mode_t, flags: c_int) -> c_int;
    fn euidaccess(path: Text, mode: c_int) -> c_int;
    fn inotify_add_watch(fd: c_int, path: Text, mask: u32) -> c_int;
    fn statfs(path: Text, out: Out<statfs>) -> c_int;
    fn statvfs(path: Text, out: Out<statvfs>) -> c_int;
    fn shmget(key: key_t, size: size_t, flags: c_int) -> c_int;
    fn memfd_create(name: Text, flags: c_uint) -> c_int;
    fn canonicalize_file_name(path: Text) -> *mut c_char;
    fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: In<epoll_event>) -> c_int;
    fn gethostbyname(name: Text) -> *mut hostent;
    fn gethostbyname2(name: Text, family: c_int) -> *mut hostent;
    fn uname(out: InOut<utsname>) -> c_int;
    fn getifaddrs(out: Out<*mut ifaddrs>) -> c_int;
    fn if_nametoindex(name: Text) -> c_uint;
    fn if_nameindex() -> *mut if_nameindex;
    fn getaddrinfo(node: Text, service: Text, hints: In<addrinfo>, out: InOut<*mut addrinfo>) -> c_int;
}

originals! {
    fn mkstemp(template: *mut c_char) -> c_int;
    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int;
    fn mkstemps(template: *mut c_char, suffix: c_int) -> c_int;
    fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int;
    fn mkdtemp(template: *mut c_char) -> *mut c_char;
    fn scandir(path: Text, list: *mut c_void, filter: *mut c_void, order: *mut c_void) -> c_int;
    fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int;
    fn getcwd(out: *mut c_char, len: size_t) -> *mut c_char;
    fn glob(pattern: Text, flags: c_int, on_error: *mut c_void, result: *mut crate::fd::walk::Glob) -> c_int;
    fn nftw(path: Text, function: crate::fd::walk::Visit, descriptors: c_int, flags: c_int) -> c_int;
    fn ftw(path: Text, function: crate::fd::walk::VisitFile, descriptors: c_int) -> c_int;
    fn fts_open(paths: Texts, options: c_int, compare: *mut c_void) -> *mut c_void;
    fn readlink(path: Text, out: *mut c_char, len: size_t) -> ssize_t;
    fn __readlink_chk(path: Text, out: *mut c_char, len: size_t, room: size_t) -> ssize_t;
    fn readlinkat(folder: c_int, path: Text, out: *mut c_char, len: size_t) -> ssize_t;
    fn realpath(path: Text, out: *mut c_char) -> *mut c_char;
    fn __realpath_chk(path: Text, out: *mut c_char, room: size_t) -> *mut c_char;
    fn gethostbyaddr_r(of: *const c_void, of_len: socklen_t, family: c_int, out: InOut<hostent>, buffer: *mut c_char, len: size_t, result: Out<*mut hostent>, error: Out<c_int>) -> c_int;
    fn process_vm_readv(pid: pid_t, local: *const iovec, locals: c_ulong, remote: *const iovec, remotes: c_ulong, flags: c_ulong) -> ssize_t;
    fn process_vm_writev(pid: pid_t, local: *const iovec, locals: c_ulong, remote: *const iovec, remotes: c_ulong, flags: c_ulong) -> ssize_t;
    fn ptrace(request: c_uint, pid: pid_t, address: *mut c_void, data: *mut c_void) -> c_long;
    fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long;
    fn timer_settime(timer: timer_t, flags: c_int, new: In<itimerspec>, old: Out<itimerspec>) -> c_int;
    fn timer_gettime(timer: timer_t, current: Out<itimerspec>) -> c_int;
    fn timer_delete(timer: timer_t) -> c_int;
    fn timer_getoverrun(timer: timer_t) -> c_int;
    fn sigaction(signal: c_int, new: In<sigaction>, old: Out<sigaction>) -> c_int;
    fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    fn accept(fd: c_int, address: *mut sockaddr, len: InOut<socklen_t>) -> c_int;
    fn accept4(fd: c_int, address: *mut sockaddr, len: InOut<socklen_t>, flags: c_int) -> c_int;
    fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    fn send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    fn sendto(fd: c_int, data: *const c_void, len: size_t, flags: c_int, address: *const sockaddr, address_len: socklen_t) -> ssize_t;
    fn sendmsg(fd: c_int, message: In<msghdr>, flags: c_int) -> ssize_t;
    fn recv(fd: c_int, data: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    fn recvfrom(fd: c_int, data: *mut c_void, len: size_t, flags: c_int, address: *mut sockaddr, address_len: InOut<socklen_t>) -> ssize_t;
    fn recvmsg(fd: c_int, message: InOut<msghdr>, flags: c_int) -> ssize_t;
    fn getsockname(fd: c_int, address: *mut sockaddr, len: InOut<socklen_t>) -> c_int;
    fn getpeername(fd: c_int, address: *mut sockaddr, len: InOut<socklen_t>) -> c_int;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: InOut<socklen_t>) -> c_int;
    fn aio_read(request: *mut aiocb) -> c_int;
    fn aio_write(request: *mut aiocb) -> c_int;
    fn aio_fsync(operation: c_int, request: *mut aiocb) -> c_int;
    fn aio_suspend(list: *const *const aiocb, count: c_int, timeout: In<timespec>) -> c_int;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: InOut<timespec>) -> c_int;
    fn read(fd: c_int, data: *mut c_void, len: size_t) -> ssize_t;
    fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t;
    fn sendfile(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    fn splice(from: c_int, offset: *mut loff_t, out: c_int, out_offset: *mut loff_t, count: size_t, flags: c_uint) -> ssize_t;
    fn tee(from: c_int, out: c_int, count: size_t, flags: c_uint) -> ssize_t;
    fn vmsplice(fd: c_int, parts: *const iovec, count: size_t, flags: c_uint) -> ssize_t;
    fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int;
    fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int;
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: In<timespec>, mask: In<sigset_t>) -> c_int;
    fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: InOut<timeval>) -> c_int;
    fn pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: In<timespec>, mask: In<sigset_t>) -> c_int;
    fn epoll_wait(epoll: c_int, events: *mut epoll_event, count: c_int, timeout: c_int) -> c_int;
    fn epoll_pwait(epoll: c_int, events: *mut epoll_event, count: c_int, timeout: c_int, mask: In<sigset_t>) -> c_int;
    fn getnameinfo(address: *const sockaddr, len: socklen_t, host: *mut c_char, host_len: socklen_t, service: *mut c_char, service_len: socklen_t, flags: c_int) -> c_int;
    fn gethostbyname_r(name: Text, out: InOut<hostent>, buffer: *mut c_char, len: size_t, result: Out<*mut hostent>, error: Out<c_int>) -> c_int;
    fn gethostbyname2_r(name: Text, family: c_int, out: InOut<hostent>, buffer: *mut c_char, len: size_t, result: Out<*mut hostent>, error: Out<c_int>) -> c_int;
    fn gethostbyaddr(address: *const c_void, len: socklen_t, family: c_int) -> *mut hostent;
    fn gethostname(name: *mut c_char, len: size_t) -> c_int;
    fn if_indextoname(index: c_uint, out: *mut c_char) -> *mut c_char;
    fn fork() -> pid_t;
    fn pclose(stream: *mut FILE) -> c_int;
    fn sched_setaffinity(pid: pid_t, len: size_t, set: *const cpu_set_t) -> c_int;
    fn sched_getaffinity(pid: pid_t, len: size_t, set: *mut cpu_set_t) -> c_int;
    fn pthread_setaffinity_np(thread: pthread_t, len: size_t, set: *const cpu_set_t) -> c_int;
    fn pthread_getaffinity_np(thread: pthread_t, len: size_t, set: *mut cpu_set_t) -> c_int;
    fn pthread_getattr_np(thread: pthread_t, attributes: Managed<pthread_attr_t>) -> c_int;
    fn pthread_attr_setaffinity_np(attributes: Managed<pthread_attr_t>, len: size_t, set: *const cpu_set_t) -> c_int;
    fn pthread_attr_getaffinity_np(attributes: Managed<pthread_attr_t>, len: size_t, set: *mut cpu_set_t) -> c_int;
    fn pthread_create(thread: InOut<pthread_t>, attributes: Managed<pthread_attr_t>, start: Start, argument: *mut c_void) -> c_int;
    fn pthread_join(thread: pthread_t, result: Out<*mut c_void>) -> c_int;
    fn pthread_tryjoin_np(thread: pthread_t, result: Out<*mut c_void>) -> c_int;
    fn pthread_timedjoin_np(thread: pthread_t, result: Out<*mut c_void>, deadline: In<timespec>) -> c_int;
    fn pthread_cancel(thread: pthread_t) -> c_int;
    fn pthread_detach(thread: pthread_t) -> c_int;
    fn mmap(address: *mut c_void, len: size_t, rights: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void;
    fn munmap(address: *mut c_void, len: size_t) -> c_int;
    fn mprotect(address: *mut c_void, len: size_t, rights: c_int) -> c_int;
    fn mremap(address: *mut c_void, old_len: size_t, len: size_t, flags: c_int, new: *mut c_void) -> *mut c_void;
    fn shmat(segment: c_int, address: *const c_void, flags: c_int) -> *mut c_void;
    fn shmdt(address: *const c_void) -> c_int;
    fn msgrcv(queue: c_int, message: *mut c_void, size: size_t, kind: c_long, flags: c_int) -> ssize_t;
    fn msgsnd(queue: c_int, message: *const c_void, size: size_t, flags: c_int) -> c_int;
    fn semop(set: c_int, operations: *mut sembuf, count: size_t) -> c_int;
    fn pread(fd: c_int, data: *mut c_void, len: size_t, offset: off_t) -> ssize_t;
    fn preadv(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t;
    fn pwrite(fd: c_int, data: *const c_void, len: size_t, offset: off_t) -> ssize_t;
    fn pwritev(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t;
    fn fread(data: *mut c_void, size: size_t, count: size_t, stream: *mut FILE) -> size_t;
    fn getrandom(data: *mut c_void, len: size_t, flags: c_uint) -> ssize_t;
    fn getentropy(data: *mut c_void, len: size_t) -> c_int;
    fn getxattr(path: Text, name: Text, value: *mut c_void, size: size_t) -> ssize_t;
    fn lgetxattr(path: Text, name: Text, value: *mut c_void, size: size_t) -> ssize_t;
    fn listxattr(path: Text, list: *mut c_char, size: size_t) -> ssize_t;
    fn llistxattr(path: Text, list: *mut c_char, size: size_t) -> ssize_t;
    fn madvise(address: *mut c_void, len: size_t, advice: c_int) -> c_int;
    fn getdomainname(out: *mut c_char, len: size_t) -> c_int;
    fn adjtime(new: *const timeval, old: *mut timeval) -> c_int;
}

/// Makes a system call by an instruction of this library. It bypasses our own
/// [`crate::clib::raw::syscall`], and a filter of the program permits it.
macro_rules! kernel {
    ($number:expr $(, $argument:expr)*) => {
        $crate::clib::real::padded_syscall($number, &[$($argument as libc::c_long),*])
    };
}

/// Results of the kernel that are errors (syscall(2)).
const ERRORS: std::ops::Range<c_long> = -4095..0;

/// Makes a system call with up to six arguments.
///
/// # Safety
/// The arguments are those of the system call.
pub unsafe fn padded_syscall(number: c_long, given: &[c_long]) -> c_long {
    let mut all = [0; 6];
    all[..given.len()].copy_from_slice(given);
    // SAFETY: the kernel ignores the arguments behind those of the call.
    let result = unsafe { kernel_call(number, &all) };
    if ERRORS.contains(&result) { fail(-result as c_int) } else { result }
}

/// Makes a system call. Returns the kernel's result.
///
/// # Safety
/// The arguments are those of the system call.
#[unsafe(naked)]
unsafe extern "C" fn kernel_call(number: c_long, given: &[c_long; 6]) -> c_long {
    std::arch::naked_asm!(
        "2:",
        "mov rax, rdi",
        "mov r11, rsi",
        "mov rdi, [r11]",
        "mov rsi, [r11 + 8]",
        "mov rdx, [r11 + 16]",
        "mov r10, [r11 + 24]",
        "mov r8, [r11 + 32]",
        "mov r9, [r11 + 40]",
        "syscall",
        "ret",
        ".skip {bytes} - (. - 2b)",
        bytes = const KERNEL_CALL_BYTES,
    )
}

const KERNEL_CALL_BYTES: usize = 64;

/// Returns whether a thread with this instruction address makes a system call for this library. A
/// signal that the call raises reaches its handler there, as in the C library's `syscall`.
pub fn is_kernel_call(instruction: usize) -> bool {
    let start = kernel_call as *const () as usize;
    (start..start + KERNEL_CALL_BYTES).contains(&instruction)
}

/// Reads the kernel's clock without the vDSO, which reads the time stamp counter and would trap.
pub fn kernel_clock_gettime(clock: clockid_t, out: Out<timespec>) -> c_int {
    // SAFETY: the kernel writes a `timespec`, for which an `Out` has room, and refuses null.
    unsafe { kernel!(SYS_clock_gettime, clock, out.address()) as c_int }
}
