//! Asks the threads of a run that ends for the MPI calls that they are in.

use crate::process::processes::Processes;
use crate::process::record::{Process, ProcessState};
use softband_ipc::layout::{CALL_NAME_BYTES, CALL_NAMES_MAX, CallName, SPIN_SIGNAL};
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Wall-clock time for all answers together. A thread that blocks the signal gives none. The end
/// of a run by its limit has 1.5 s in all (`scheduler/time_limit`).
const PATIENCE: Duration = Duration::from_millis(700);
const PAUSE: Duration = Duration::from_millis(2);

/// Names of MPI calls by process and host thread id.
#[derive(Default)]
pub(crate) struct CallNames(BTreeMap<(usize, u32), String>);

impl CallNames {
    /// Asks every thread of every attached process, and waits for the answers within
    /// [`PATIENCE`]. Threads outside MPI calls have no name.
    pub(crate) fn ask(processes: &Processes) -> Self {
        let asked: Vec<(&Process, Vec<i32>)> =
            processes.living().filter(|process| process.state() == ProcessState::Attached).map(|process| (process, ask(process))).collect();
        let start = Instant::now();
        while asked.iter().any(|(process, tids)| answers(process).len() < tids.len()) && start.elapsed() < PATIENCE {
            std::thread::sleep(PAUSE);
        }
        let named = asked.iter().flat_map(|(process, _)| answers(process).into_iter().map(|(tid, name)| ((process.index(), tid), name)));
        Self(named.filter(|(_, name)| !name.is_empty()).collect())
    }

    /// Returns the words for the call of a thread: `, in MPI_Recv`. They are empty for a thread
    /// outside MPI calls.
    pub(crate) fn in_words(&self, process: &Process, tid: u32) -> String {
        self.0.get(&(process.index(), tid)).map_or_else(String::new, |name| format!(", in {name}"))
    }
}

/// Sends the question to the threads of a process. Returns their ids.
fn ask(process: &Process) -> Vec<i32> {
    process.shared().header().call_names_wanted.store(1, Ordering::Release);
    let tasks = fs::read_dir(crate::procfs::path(process.pid(), "task")).into_iter().flatten().flatten();
    let mut tids: Vec<i32> = tasks.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    tids.sort_unstable();
    tids.truncate(CALL_NAMES_MAX);
    // SAFETY: sends a signal to a thread. The kernel checks that the thread belongs to the process.
    tids.retain(|tid| unsafe { libc::syscall(libc::SYS_tgkill, process.pid(), *tid, SPIN_SIGNAL) } == 0);
    tids
}

/// Reads the answers of a process.
fn answers(process: &Process) -> Vec<(u32, String)> {
    process.shared().header().call_names.iter().filter_map(|entry| Some((tid_of(entry)?, name_of(entry)))).collect()
}

fn tid_of(entry: &CallName) -> Option<u32> {
    Some(entry.tid.load(Ordering::Acquire)).filter(|tid| *tid != 0)
}

/// Copies a name. Drops characters that no name of a function has, because the program may lie.
fn name_of(entry: &CallName) -> String {
    let len = (entry.len.load(Ordering::Relaxed) as usize).min(CALL_NAME_BYTES);
    let bytes = entry.name[..len].iter().map(|byte| char::from(byte.load(Ordering::Relaxed)));
    bytes.filter(|character| character.is_ascii_alphanumeric() || *character == '_').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lying_answer_is_cut_to_the_characters_of_a_name() {
        let entry = CallName::default();
        for (to, from) in entry.name.iter().zip(*b"MPI_\x1b[2J\nSend") {
            to.store(from, Ordering::Relaxed);
        }
        entry.len.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(name_of(&entry), "MPI_2JSend");
        assert_eq!(tid_of(&entry), None);
    }
}
