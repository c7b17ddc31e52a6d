//! Processes of the host, by process ids that the host reuses.

use crate::control::admission::start_of;
use crate::procfs::{end_hidden, is_hidden, stat, thread_stat};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::time::{Duration, Instant};

/// Flag of a process that has begun to end (Linux, include/linux/sched.h).
const PF_EXITING: u32 = 0x4;

/// Sends a signal to process `pid` if it started at `since` (kernel ticks since boot). Without
/// `since` it checks only the id. Returns whether it sent the signal. A hidden process gets SIGKILL
/// alone.
pub(crate) fn send_signal(pid: i32, since: Option<u64>, signal: i32) -> bool {
    if is_hidden(pid) {
        return signal == libc::SIGKILL && end_hidden(pid);
    }
    // Zero and negative values would name process groups.
    let Some(known) = Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw) else { return false };
    // The descriptor stays with the process that has the id now, even if another process gets the
    // id.
    let held = pidfd_open(known, PidfdFlags::empty());
    if held.as_ref().is_err_and(|error| *error == rustix::io::Errno::SRCH) || since.is_some_and(|since| start_of(pid) != Some(since)) {
        return false;
    }
    match (held, Signal::from_named_raw(signal)) {
        (Ok(process), Some(signal)) => pidfd_send_signal(process, signal).is_ok(),
        // The kernel has no such descriptors, the engine has none left, or this is a real-time
        // signal.
        // SAFETY: sends a signal to the process that the checks above identified.
        _ => unsafe { libc::kill(pid, signal) == 0 },
    }
}

/// Returns whether a process has this id, even a zombie.
pub(crate) fn exists(pid: i32) -> bool {
    pid > 0 && start_of(pid).is_some()
}

/// Returns the state of a process or thread by a line of proc_pid_stat(5): `S` if it sleeps. A name
/// cannot look like a state.
fn state_in(stat: &str) -> Option<char> {
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
}

/// Returns whether a signal or a debugger has stopped a process.
pub(crate) fn is_stopped(pid: i32) -> bool {
    matches!(state_in(&stat(pid)), Some('T' | 't'))
}

/// Returns whether a process has ended, even if nobody has waited for it.
pub(crate) fn is_zombie(pid: i32) -> bool {
    matches!(state_in(&stat(pid)), None | Some('Z' | 'X'))
}

/// Returns whether a process is a zombie, is gone, or is on its way there.
pub(crate) fn is_ending(pid: i32) -> bool {
    let stat = stat(pid);
    matches!(state_in(&stat), None | Some('Z' | 'X')) || flags_in(&stat).is_some_and(|flags| flags & PF_EXITING != 0)
}

/// Returns the flags of a process by a line of proc_pid_stat(5).
fn flags_in(stat: &str) -> Option<u32> {
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(6)?.parse().ok())
}

/// Returns whether a process waits for a processor or for the disk, or runs.
pub(crate) fn wants_to_run(pid: i32) -> bool {
    matches!(state_in(&stat(pid)), Some('R' | 'D'))
}

/// Returns whether a process is ending, or a signal that it has not seen yet will end it. The kernel
/// then has SIGKILL pend in each of its threads.
pub(crate) fn is_doomed(pid: i32) -> bool {
    let status = std::fs::read_to_string(crate::procfs::path(pid, "status")).unwrap_or_default();
    let pending = |name: &str| status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix(name)?.trim(), 16).ok());
    let is_killed = |name: &str| pending(name).is_some_and(|signals| signals & 1 << (libc::SIGKILL - 1) != 0);
    is_killed("SigPnd:") || is_killed("ShdPnd:") || is_ending(pid)
}

/// Returns whether a process sleeps or is stopped, and no signal is about to end it.
pub(crate) fn is_quiet(pid: i32) -> bool {
    matches!(state_in(&stat(pid)), Some('S' | 'T' | 't')) && !is_doomed(pid)
}

/// Returns the CPU time of a process of this machine, with all its threads.
pub(crate) fn cpu_time_of(pid: i32) -> Option<Duration> {
    // The clock of a process has its id in the upper bits, inverted (`clock_getcpuclockid(3)`).
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both functions write to the given places only.
    let is_read = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) == 0 && libc::clock_gettime(clock, &raw mut time) == 0 };
    is_read.then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// The patience with a process that is about to end. A busy machine may let it wait for a processor,
/// and somebody may have stopped it. A process that sleeps, or computes, goes on instead.
pub(crate) struct Ending {
    started: Instant,
    used: Duration,
    asleep_since: Option<Instant>,
}

impl Ending {
    /// Longest wait, in wall-clock time.
    const PATIENCE: Duration = Duration::from_secs(60);
    /// Longest sleep, and most CPU time, of a process that is about to end.
    const GRACE: Duration = Duration::from_secs(1);

    pub(crate) fn of(pid: i32) -> Self {
        Self { started: Instant::now(), used: cpu_time_of(pid).unwrap_or_default(), asleep_since: None }
    }

    /// Returns whether the process may still end soon.
    pub(crate) fn is_awaited(&mut self, pid: i32) -> bool {
        if self.started.elapsed() > Self::PATIENCE {
            return false;
        }
        if is_ending(pid) {
            return true;
        }
        if state_in(&stat(pid)) == Some('S') {
            return self.asleep_since.get_or_insert_with(Instant::now).elapsed() < Self::GRACE;
        }
        self.asleep_since = None;
        cpu_time_of(pid).is_none_or(|used| used.saturating_sub(self.used) < Self::GRACE)
    }
}

/// A thread that is where the engine does not see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outside {
    /// It waits in the kernel.
    Asleep,
    /// It runs, or waits for a processor or the disk.
    Awake,
    /// A signal or a debugger has stopped it.
    Stopped,
    /// The system has ended it.
    Gone,
}

impl Outside {
    pub(crate) fn of(pid: i32, tid: i32) -> Self {
        match state_in(&thread_stat(pid, tid)) {
            Some('S') => Self::Asleep,
            Some('T' | 't') => Self::Stopped,
            None | Some('Z' | 'X') => Self::Gone,
            _ => Self::Awake,
        }
    }
}

/// Returns whether a thread sleeps in the kernel for any length of time.
pub(crate) fn is_asleep(pid: i32, tid: i32) -> bool {
    state_in(&thread_stat(pid, tid)) == Some('S')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    #[test]
    fn a_name_cannot_look_like_a_state() {
        assert_eq!(state_in("17 (a program) T 1 17 17"), Some('T'));
        assert_eq!(state_in("17 (a) T 1) S 1 17 17"), Some('S'));
        assert_eq!(state_in(""), None);
    }

    #[test]
    fn a_zombie_and_a_process_that_is_gone_are_ending() {
        let (mut child, pid, _) = sleeper();
        assert!(!is_ending(pid));
        child.kill().unwrap();
        while !is_zombie(pid) {
            std::thread::yield_now();
        }
        assert!(is_ending(pid));
        child.wait().unwrap();
        assert!(is_ending(pid));
    }

    #[test]
    fn the_flags_follow_the_terminal() {
        let exiting = "17 (a) b) R 1 17 17 0 -1 4194564 12 0 0 0";
        assert_eq!(flags_in(exiting), Some(4_194_564));
        assert_eq!(flags_in("17 (a) R 1 17"), None);
    }

    fn sleeper() -> (Child, i32, Option<u64>) {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id() as i32;
        (child, pid, start_of(pid))
    }

    #[test]
    fn a_sleeper_wants_no_processor_and_a_loop_does() {
        let (mut child, pid, _) = sleeper();
        while !is_asleep(pid, pid) {
            std::thread::yield_now();
        }
        assert!(!wants_to_run(pid));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut looping = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let pid = looping.id() as i32;
        while !wants_to_run(pid) {
            std::thread::yield_now();
        }
        looping.kill().unwrap();
        looping.wait().unwrap();
        assert!(!wants_to_run(pid));
    }

    #[test]
    fn a_signal_reaches_the_process_that_was_meant() {
        for signal in [libc::SIGTERM, libc::SIGRTMIN()] {
            let (mut child, pid, since) = sleeper();
            assert!(exists(pid) && since.is_some());
            assert!(send_signal(pid, since, signal));
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(signal));
            assert!(!exists(pid));
            assert!(!send_signal(pid, since, signal));
        }
    }

    #[test]
    fn another_process_that_has_the_number_now_is_left_alone() {
        let (mut child, pid, since) = sleeper();
        let of_a_former_one = since.map(|ticks| ticks - 1);
        assert!(!send_signal(pid, of_a_former_one, libc::SIGKILL));
        assert!(child.try_wait().unwrap().is_none(), "it goes on");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn groups_of_processes_are_never_meant() {
        assert!(!send_signal(0, None, libc::SIGKILL));
        assert!(!send_signal(-1, None, libc::SIGKILL));
    }

    #[test]
    fn the_own_cpu_time_grows_with_work() {
        let pid = std::process::id() as i32;
        let before = cpu_time_of(pid).expect("a process knows its own time");
        while cpu_time_of(pid).expect("a process knows its own time") < before + Duration::from_millis(2) {}
        let no_process = (1 << 22) + 1; // more than Linux's largest process id
        assert_eq!(cpu_time_of(no_process), None);
    }
}
