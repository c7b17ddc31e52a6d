//! Ends all processes of an engine in wall pace. Children that never attached still have the
//! engine's name in their environment.

use softband_ipc::environment;
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(5);
/// More than an environment usually contains, in bytes.
const ENVIRONMENT_BYTES: usize = 256 << 10;
/// Consecutive checks that must find nothing while some process may be in an exec. So many take place
/// in any case: on a busy machine the patience may end with the first.
const UNCLEAR_LOOKS: u32 = 10;

/// Kills every process of this user that was started with this engine name. Waits until all are
/// gone, at most `patience` or a few looks.
pub(crate) fn end_all_of(engine: &str, patience: Duration) {
    let mark = [environment::ENGINE.as_bytes(), b"=", engine.as_bytes()].concat();
    let started = Instant::now();
    let (mut looks, mut unclear_looks) = (0, 0);
    loop {
        let (left, is_clear) = look(&mark);
        unclear_looks = if left.is_empty() { unclear_looks + 1 } else { 0 };
        if left.is_empty() && (is_clear || unclear_looks >= UNCLEAR_LOOKS) {
            return;
        }
        for pid in left {
            // SAFETY: sends a signal to a process that was started by or for this engine.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        looks += 1;
        if started.elapsed() >= patience && looks > UNCLEAR_LOOKS {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Returns the processes with this mark in their environment. The flag is true if no other process
/// can have the mark.
fn look(mark: &[u8]) -> (Vec<i32>, bool) {
    let own = std::process::id() as i32;
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|pid| *pid != own);
    let (mut found, mut is_clear) = (Vec::new(), true);
    for pid in pids {
        // This process cannot read the environment of other users' processes.
        let Ok(environment) = environment_of(pid) else { continue };
        if environment.split(|byte| *byte == 0).any(|one| one == mark) {
            found.push(pid);
        }
        // An exec writes the environment last. An ended process has neither environment nor memory.
        is_clear &= environment.ends_with(&[0]) || !has_memory(pid);
    }
    (found, is_clear)
}

/// Reads the environment, usually in one piece. An exec between two reads would remove the rest.
fn environment_of(pid: i32) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(format!("/proc/{pid}/environ"))?;
    let mut bytes = vec![0; ENVIRONMENT_BYTES];
    let len = file.read(&mut bytes)?;
    bytes.truncate(len);
    if len == ENVIRONMENT_BYTES {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn has_memory(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/statm")).is_ok_and(|sizes| sizes.first().is_some_and(|digit| *digit != b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    const PATIENCE: Duration = Duration::from_secs(2);

    /// A process that only replaces itself has no environment in some of the checks.
    #[test]
    fn a_process_in_the_midst_of_an_exec_is_ended_as_well() {
        const AGAIN: &str = "exec /bin/sh -c \"$1\" - \"$1\"";
        for round in 0..20 {
            let name = format!("sweep-test-{}-{round}", std::process::id());
            let mut child = Command::new("/bin/sh").args(["-c", AGAIN, "-", AGAIN]).env(environment::ENGINE, &name).spawn().unwrap();
            // A look at a bad moment does not see it, so the patience alone does not end the looks.
            end_all_of(&name, if round % 2 == 0 { PATIENCE } else { Duration::ZERO });
            let started = Instant::now();
            let ended = loop {
                // Its memory goes a moment before its parent can wait for it.
                let ended = child.try_wait().unwrap();
                if ended.is_some() || started.elapsed() > PATIENCE {
                    break ended;
                }
                std::thread::sleep(PAUSE);
            };
            let _ = child.kill();
            assert_eq!(ended.and_then(|status| status.signal()), Some(libc::SIGKILL), "round {round}");
        }
    }
}
