//! Files by which a program would change the machine, which all hosts of a fabric share: settings of the
//! kernel (`/proc/sys`, `/sys`), file systems of the kernel's interfaces, and devices. The check
//! looks at the open file, so every path to it counts.

use crate::clib::args::Text;
use crate::clib::real;
use crate::fd::{counter_files, files, own_values, random_files};
use crate::process::outsiders;
use crate::runtime::attach::attached;
use crate::runtime::world::{errno, fail, keeping_errno};
use libc::{FILE, c_int, c_long};
use softband_client::warn;

/// File systems of the kernel's interfaces (linux/magic.h): debugfs, tracefs, securityfs, bpf, cgroup
/// of both versions, efivarfs, binfmt_misc, configfs, selinuxfs, smackfs, pstore and resctrl.
const INTERFACES: [c_long; 13] = [
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0xcafe_4a11,
    0x0027_e0eb,
    0x6367_7270,
    0xde5e_81e4,
    0x4249_4e4d,
    0x6265_6570,
    0xf97c_ff8c,
    0x4341_5d53,
    0x6165_676c,
    0x0765_5821,
];
const PROC: c_long = 0x9fa0;
const SYSFS: c_long = 0x6265_6572;

/// Character devices that act on the machine, by major number and minor numbers: memory, ports and the
/// kernel's log; clocks, watchdogs, network tunnels, loop devices; registers of processors.
const DEVICES: [(u32, &[u32]); 7] =
    [(1, &[1, 2, 4, 11]), (10, &[130, 131, 135, 144, 200, 237]), (202, &[]), (203, &[]), (248, &[]), (252, &[]), (254, &[])];

/// Settings that act at once or that the fabric file decides about. A host does not keep them.
const ACTIONS: [&[u8]; 4] =
    [b"/proc/sys/vm/drop_caches", b"/proc/sys/vm/compact_memory", b"/proc/sys/kernel/ns_last_pid", b"/proc/sys/net/ipv4/ip_forward"];
const ACTION_NAMES: [&[u8]; 6] = [b"/forwarding", b"/mc_forwarding", b"/disable_ipv6", b"/proxy_arp", b"/proxy_ndp", b"/bc_forwarding"];

/// Beginnings of files of `/sys` whose values a host keeps: huge pages, and the clocks of processors.
const KEPT: [&[u8]; 2] = [b"/sys/kernel/mm/hugepages/", b"/sys/kernel/mm/transparent_hugepage/"];
const KEPT_PARTS: [&[u8]; 3] = [b"/cpufreq/", b"/cpuidle/", b"/hugepages/"];

fn writes(flags: c_int) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// Checks a file that the program has opened. Returns its descriptor, or -1 if the program would change
/// the machine by it.
pub(super) fn opened(path: Text, flags: c_int, fd: c_int) -> c_int {
    let may_matter = |path: &[u8]| writes(flags) || path.starts_with(b"/proc/sys/") || path.starts_with(b"/sys/") || !path.starts_with(b"/");
    let fd = if fd < 0 && errno() == libc::EROFS && writes(flags) { to_read(path, fd) } else { fd };
    if fd < 0 || flags & libc::O_PATH != 0 || !path.bytes().is_some_and(may_matter) || !attached() {
        return fd;
    }
    checked(fd, flags)
}

/// Opens a setting in a container whose kernel's files are read-only. The host's own value is not.
fn to_read(path: Text, fd: c_int) -> c_int {
    let is_setting = path.bytes().is_some_and(|path| [&b"/proc/sys/"[..], b"/sys/"].iter().any(|start| path.starts_with(start)));
    if !is_setting || !attached() || !rustix::process::geteuid().is_root() {
        return fd;
    }
    // SAFETY: the path is the caller's string.
    unsafe { kernel!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) as c_int }
}

/// Checks the file of a stream, as [`opened`] does. Returns null if the program would change the machine.
pub(super) fn opened_stream(path: Text, mode: Text, stream: *mut FILE) -> *mut FILE {
    if stream.is_null() {
        return stream;
    }
    let mode = mode.bytes().unwrap_or_default();
    let flags = match (mode.contains(&b'+'), mode.first()) {
        (true, _) => libc::O_RDWR,
        (false, Some(b'r')) => libc::O_RDONLY,
        (false, _) => libc::O_WRONLY,
    };
    // SAFETY: the stream is open.
    let fd = unsafe { libc::fileno(stream) };
    if opened(path, flags, fd) >= 0 {
        return stream;
    }
    // The check has closed the descriptor. The stream closes the number of a copy.
    // SAFETY: the call takes numbers.
    keeping_errno(|| unsafe {
        let any = kernel!(libc::SYS_openat, libc::AT_FDCWD, c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) as c_int;
        if any >= 0 && any != fd {
            kernel!(libc::SYS_dup3, any, fd, libc::O_CLOEXEC);
            real::close(any);
        }
        libc::fclose(stream);
    });
    std::ptr::null_mut()
}

fn checked(fd: c_int, flags: c_int) -> c_int {
    let name = || keeping_errno(|| counter_files::target_of(&random_files::path_of(fd))).unwrap_or_default();
    match file_system(fd) {
        PROC => match name() {
            name if name.starts_with(b"/proc/sys/") && is_file(fd) => setting(fd, &name, flags),
            name if writes(flags) && !is_of_process(&name) => refuse(fd, &name),
            _ => fd,
        },
        SYSFS => match name() {
            name if is_kept(&name) && is_file(fd) => own_values::put_behind(fd, &name, flags),
            name if writes(flags) => refuse(fd, &name),
            _ => fd,
        },
        kind if writes(flags) && INTERFACES.contains(&kind) => refuse(fd, &name()),
        _ if writes(flags) => match name() {
            name if acts_on_machine(fd) => refuse(fd, &name),
            name => match files::name_for_program(&name) {
                Some(own) if [&b"/sys/"[..], b"/etc/"].iter().any(|start| own.as_bytes().starts_with(start)) => fixed(fd, own.as_bytes()),
                _ => fd,
            },
        },
        _ => fd,
    }
}

fn file_system(fd: c_int) -> c_long {
    // SAFETY: the program keeps the descriptor during the call.
    let borrowed = unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) };
    rustix::fs::fstatfs(borrowed).map_or(0, |about| about.f_type as c_long)
}

fn status(fd: c_int) -> Option<rustix::fs::Stat> {
    // SAFETY: the program keeps the descriptor during the call.
    rustix::fs::fstat(unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) }).ok()
}

fn is_file(fd: c_int) -> bool {
    status(fd).is_some_and(|about| about.st_mode & libc::S_IFMT == libc::S_IFREG)
}

fn acts_on_machine(fd: c_int) -> bool {
    let Some(about) = status(fd) else { return false };
    let (major, minor) = (libc::major(about.st_rdev), libc::minor(about.st_rdev));
    match about.st_mode & libc::S_IFMT {
        libc::S_IFBLK => true,
        libc::S_IFCHR => DEVICES.iter().any(|(known, minors)| *known == major && (minors.is_empty() || minors.contains(&minor))),
        _ => false,
    }
}

fn is_kept(name: &[u8]) -> bool {
    KEPT.iter().any(|start| name.starts_with(start))
        || name.starts_with(b"/sys/devices/system/") && KEPT_PARTS.iter().any(|part| name.windows(part.len()).any(|window| window == *part))
}

fn setting(fd: c_int, name: &[u8], flags: c_int) -> c_int {
    let acts = ACTIONS.contains(&name) || ACTION_NAMES.iter().any(|end| name.ends_with(end));
    if acts && writes(flags) { refuse(fd, name) } else { own_values::put_behind(fd, name, flags) }
}

/// Returns whether a file below `/proc` belongs to a process of the run.
fn is_of_process(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(b"/proc/") else { return false };
    let first = rest.split(|byte| *byte == b'/').next().unwrap_or_default();
    std::str::from_utf8(first).ok().and_then(|first| first.parse().ok()).is_some_and(outsiders::is_of_the_run)
}

fn refuse(fd: c_int, name: &[u8]) -> c_int {
    warn::once(&format!("no program of a fabric changes the machine by {} (EPERM)", String::from_utf8_lossy(name)));
    real::close(fd);
    fail(libc::EPERM)
}

/// Refuses a file of the host whose value the fabric file decides.
fn fixed(fd: c_int, name: &[u8]) -> c_int {
    warn::once(&format!("the fabric file decides about {}, and programs cannot change it (EPERM)", String::from_utf8_lossy(name)));
    real::close(fd);
    fail(libc::EPERM)
}
