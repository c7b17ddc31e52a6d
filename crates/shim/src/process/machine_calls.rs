//! System calls that change the machine, which all hosts of a fabric share: mounts, modules, clocks,
//! swap, reboots. A privileged program gets EPERM, and a line says so.

use crate::fd::files;
use crate::runtime::attach::attached;
use crate::runtime::world::{fail, keeping_errno};
use libc::{c_int, c_long};
use softband_client::warn;

/// System calls that always change the machine, with the names of their functions.
const CHANGES: [(c_long, &str); 29] = [
    (libc::SYS_mount, "mount"),
    (libc::SYS_umount2, "umount"),
    (libc::SYS_pivot_root, "pivot_root"),
    (libc::SYS_move_mount, "move_mount"),
    (libc::SYS_fsopen, "fsopen"),
    (libc::SYS_fspick, "fspick"),
    (libc::SYS_fsmount, "fsmount"),
    (libc::SYS_open_tree, "open_tree"),
    (libc::SYS_mount_setattr, "mount_setattr"),
    (libc::SYS_swapon, "swapon"),
    (libc::SYS_swapoff, "swapoff"),
    (libc::SYS_reboot, "reboot"),
    (libc::SYS_init_module, "init_module"),
    (libc::SYS_finit_module, "finit_module"),
    (libc::SYS_delete_module, "delete_module"),
    (libc::SYS_kexec_load, "kexec_load"),
    (libc::SYS_kexec_file_load, "kexec_file_load"),
    (libc::SYS_settimeofday, "settimeofday"),
    (libc::SYS_clock_settime, "clock_settime"),
    (libc::SYS_acct, "acct"),
    (libc::SYS_quotactl, "quotactl"),
    (libc::SYS_quotactl_fd, "quotactl_fd"),
    (libc::SYS_iopl, "iopl"),
    (libc::SYS_ioperm, "ioperm"),
    (libc::SYS_bpf, "bpf"),
    (libc::SYS_vhangup, "vhangup"),
    (libc::SYS_add_key, "add_key"),
    (libc::SYS_nfsservctl, "nfsservctl"),
    (libc::SYS__sysctl, "_sysctl"),
];

/// Actions of `syslog` that read the kernel's messages or their number (syslog(2)).
const SYSLOG_READS: [c_long; 5] = [0, 1, 3, 9, 10];

/// Calls that change the mounts of the caller's namespace.
const MOUNTS: [c_long; 9] = [
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_fsmount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
];

/// Returns whether the process has mounts of its own (`unshare -m`), which no other program sees. The
/// engine has noted its own namespace in the host's folder.
fn has_own_mounts() -> bool {
    keeping_errno(|| {
        let own = rustix::fs::readlink("/proc/self/ns/mnt", Vec::new()).ok()?;
        let place = [files::folder()?, b"/mount-namespace"].concat();
        let engines = rustix::fs::readlink(place, Vec::new()).ok()?;
        Some(own != engines)
    })
    .unwrap_or(false)
}

/// Returns whether this module looks at a system call.
pub fn answers(number: c_long) -> bool {
    changing_arguments(number) || CHANGES.iter().any(|(known, _)| *known == number)
}

fn changing_arguments(number: c_long) -> bool {
    [libc::SYS_adjtimex, libc::SYS_clock_adjtime, libc::SYS_syslog].contains(&number)
}

/// Refuses a system call that would change the machine. Returns `None` for all others.
///
/// # Safety
/// The arguments are those of the system call.
pub unsafe fn refusal(number: c_long, [a, b, _]: [c_long; 3]) -> Option<c_long> {
    if MOUNTS.contains(&number) && has_own_mounts() {
        return None;
    }
    let name = match number {
        // SAFETY: the first number of the structure names the values to set.
        libc::SYS_adjtimex => unsafe { sets_clock(a) }.then_some("adjtimex")?,
        // SAFETY: the second argument is that of `adjtimex`.
        libc::SYS_clock_adjtime => unsafe { sets_clock(b) }.then_some("clock_adjtime")?,
        libc::SYS_syslog => (!SYSLOG_READS.contains(&a)).then_some("syslog")?,
        _ => CHANGES.iter().find(|(known, _)| *known == number)?.1,
    };
    attached().then(|| refuse(name))
}

/// # Safety
/// The address is null or that of a `timex`.
unsafe fn sets_clock(timex: c_long) -> bool {
    // SAFETY: the structure begins with the modes, a number.
    timex != 0 && unsafe { (timex as *const u32).read_unaligned() } != 0
}

fn refuse<R: From<i8>>(name: &str) -> R {
    warn::once(&format!("no program of a fabric changes the machine by {name} (EPERM)"));
    fail(libc::EPERM)
}

/// Defines functions of the C library that change the machine. They take up to five numbers and
/// pointers, which travel in registers whether present or not (System V ABI).
macro_rules! changing {
    ($($name:ident = $number:expr;)*) => {
        $(
            /// Implements the function of this name.
            ///
            /// # Safety
            /// The arguments are those of the manual page.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(a: c_long, b: c_long, c: c_long, d: c_long, e: c_long) -> c_int {
                // SAFETY: the arguments are those of the system call.
                let refused = unsafe { refusal($number, [a, b, c]) };
                // SAFETY: the kernel takes what the function takes.
                refused.unwrap_or_else(|| unsafe { kernel!($number, a, b, c, d, e) }) as c_int
            }
        )*
    };
}

changing! {
    mount = libc::SYS_mount;
    umount2 = libc::SYS_umount2;
    move_mount = libc::SYS_move_mount;
    fsopen = libc::SYS_fsopen;
    fspick = libc::SYS_fspick;
    fsmount = libc::SYS_fsmount;
    open_tree = libc::SYS_open_tree;
    mount_setattr = libc::SYS_mount_setattr;
    swapon = libc::SYS_swapon;
    swapoff = libc::SYS_swapoff;
    init_module = libc::SYS_init_module;
    delete_module = libc::SYS_delete_module;
    settimeofday = libc::SYS_settimeofday;
    clock_settime = libc::SYS_clock_settime;
    acct = libc::SYS_acct;
    quotactl = libc::SYS_quotactl;
    iopl = libc::SYS_iopl;
    ioperm = libc::SYS_ioperm;
    adjtimex = libc::SYS_adjtimex;
    ntp_adjtime = libc::SYS_adjtimex;
    clock_adjtime = libc::SYS_clock_adjtime;
    klogctl = libc::SYS_syslog;
    vhangup = libc::SYS_vhangup;
}

/// Implements `umount`, which has no flags.
///
/// # Safety
/// `target` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umount(target: c_long) -> c_int {
    // SAFETY: the argument is that of `umount2`.
    unsafe { umount2(target, 0, 0, 0, 0) }
}

/// Implements `reboot`, which leaves out the call's two magic numbers.
#[unsafe(no_mangle)]
pub extern "C" fn reboot(command: c_int) -> c_int {
    const MAGIC: [c_long; 2] = [0xfee1_dead, 672_274_793];
    if attached() {
        return refuse("reboot");
    }
    // SAFETY: the call takes numbers. A command that restarts the machine by a text has another function.
    unsafe { kernel!(libc::SYS_reboot, MAGIC[0], MAGIC[1], command, 0) as c_int }
}

/// Implements `adjtime`. Without a new correction, the kernel tells the present one.
///
/// # Safety
/// Both arguments are null or lead to a `timeval`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adjtime(new: *const libc::timeval, old: *mut libc::timeval) -> c_int {
    if !new.is_null() && attached() {
        return refuse("adjtime");
    }
    // SAFETY: the arguments are the caller's.
    unsafe { crate::clib::real::adjtime(new, old) }
}
