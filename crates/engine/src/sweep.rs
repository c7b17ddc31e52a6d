//! Ends what belongs to an engine in wall pace: children that never attached have it in their environment all the same.

use softband_ipc::environment;
use std::time::{Duration, Instant};

/// The kernel needs a moment to end what was killed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Kills every process of this user that was started with the engine of this name, and waits until none is left.
pub(crate) fn end_all_of(engine: &str) {
    let started = Instant::now();
    loop {
        let left = processes_of(engine);
        if left.is_empty() || started.elapsed() > PATIENCE {
            return;
        }
        for pid in left {
            // SAFETY: a signal to a process that was started by or for this engine.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn processes_of(engine: &str) -> Vec<i32> {
    let mark = [environment::ENGINE.as_bytes(), b"=", engine.as_bytes()].concat();
    let own = std::process::id() as i32;
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|pid| *pid != own);
    // Those of others cannot be read; one that has ended has no environment.
    pids.filter(|pid| std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == mark))).collect()
}
