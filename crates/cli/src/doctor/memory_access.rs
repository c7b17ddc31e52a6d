//! Access to the memory of other programs, by which all RDMA data move.

use super::finding::Finding;
use super::probe::{Outcome, Sleeper, in_child, status};
use std::sync::atomic::{AtomicU64, Ordering};

/// Word that one child changes and another reads and writes.
static WORD: AtomicU64 = AtomicU64::new(0);
const CHANGED: u64 = 0x5eed;

pub(super) fn finding() -> Finding {
    const NAME: &str = "memory access";
    let yama = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok().and_then(|text| text.trim().parse().ok());
    let named = yama.map_or(String::new(), |scope: u8| format!(", kernel.yama.ptrace_scope {scope}"));
    match between_siblings() {
        Outcome::Works => Finding::ok(NAME, format!("process_vm_readv and process_vm_writev work{named}")),
        outcome => {
            let filter = std::fs::read_to_string("/proc/self/status").ok().and_then(|text| seccomp_mode(&text));
            let selinux = std::fs::read_to_string("/sys/fs/selinux/booleans/deny_ptrace").is_ok_and(|text| text.starts_with('1'));
            let why = Why { yama: yama.unwrap_or(0), has_filter: filter == Some(2), selinux };
            let value = format!("process_vm_readv: {}{named}", outcome.describe());
            Finding::broken(NAME, value, "no program can send or receive data by verbs, in either pace", &why.remedy())
        }
    }
}

/// Lets one child read and write the memory of another. Programs of a fabric allow this by
/// `PR_SET_PTRACER`, so Yama's scope 1 permits it.
fn between_siblings() -> Outcome {
    let sleeper = Sleeper::start(|| {
        WORD.store(CHANGED, Ordering::SeqCst);
        // SAFETY: touches no memory. A kernel without Yama returns EINVAL.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
    });
    let Some(sleeper) = sleeper else { return Outcome::Errno(libc::EAGAIN) };
    in_child(|| access(sleeper.pid()))
}

/// Reads the word of process `pid`, and writes it back.
fn access(pid: libc::pid_t) -> i32 {
    let mut seen = 0u64;
    let here = libc::iovec { iov_base: (&raw mut seen).cast(), iov_len: size_of::<u64>() };
    // A child has this word at the same address.
    let there = libc::iovec { iov_base: WORD.as_ptr().cast(), iov_len: size_of::<u64>() };
    // SAFETY: `here` names a local word. The kernel checks the other address.
    let read = unsafe { libc::process_vm_readv(pid, &raw const here, 1, &raw const there, 1, 0) };
    if read < 0 {
        return status(true);
    }
    if seen != CHANGED {
        return libc::EIO;
    }
    // SAFETY: the kernel only reads the local word, and checks the other address.
    let written = unsafe { libc::process_vm_writev(pid, &raw const here, 1, &raw const there, 1, 0) };
    status(written < 0)
}

/// Returns the mode of a process's filter of system calls, from `/proc/PID/status`.
fn seccomp_mode(text: &str) -> Option<u8> {
    text.lines().find_map(|line| line.strip_prefix("Seccomp:"))?.trim().parse().ok()
}

/// Possible reasons for a denial.
struct Why {
    yama: u8,
    has_filter: bool,
    selinux: bool,
}

impl Why {
    fn remedy(&self) -> String {
        match self {
            Self { yama: 3.., .. } => "set kernel.yama.ptrace_scope = 1 in /etc/sysctl.d, and boot again: scope 3 lasts until then".into(),
            Self { yama: 2, .. } => "sudo sysctl kernel.yama.ptrace_scope=1".into(),
            Self { selinux: true, .. } => "sudo setsebool deny_ptrace off".into(),
            Self { has_filter: true, .. } => {
                "docker run --cap-add SYS_PTRACE (podman alike), or a seccomp profile with process_vm_readv and process_vm_writev".into()
            }
            _ => "allow ptrace in the profile of AppArmor, SELinux or the sandbox that confines this shell".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_of_a_filter_comes_from_the_status() {
        assert_eq!(seccomp_mode("Name:\tcat\nNoNewPrivs:\t0\nSeccomp:\t2\nSeccomp_filters:\t1\n"), Some(2));
        assert_eq!(seccomp_mode("Name:\tcat\n"), None);
    }

    #[test]
    fn the_remedy_follows_from_the_reason() {
        let of = |yama, has_filter, selinux| Why { yama, has_filter, selinux }.remedy();
        assert!(of(3, true, true).contains("boot again"));
        assert_eq!(of(2, true, true), "sudo sysctl kernel.yama.ptrace_scope=1");
        assert!(of(1, true, true).contains("setsebool"));
        assert!(of(1, true, false).contains("SYS_PTRACE"));
        assert!(of(0, false, false).contains("AppArmor"));
    }

    #[test]
    fn one_child_reaches_the_memory_of_another_here() {
        assert_eq!(between_siblings(), Outcome::Works);
    }
}
