//! Limits of this shell (`ulimit`), as the engine and its programs inherit them.

use super::control_groups;
use super::finding::Finding;
use rustix::process::{Resource, Rlimit, getrlimit};

/// Open files below which a run of two programs fails (measured), and enough for small runs.
const FILES_LEAST: u64 = 20;
const FILES_ENOUGH: u64 = 256;
/// Processes and threads, likewise.
const TASKS_LEAST: u64 = 8;
const TASKS_ENOUGH: u64 = 64;
/// Largest file of shared memory of a process, in simulated time and at wall pace.
const FILE_SIMULATED: u64 = 1 << 30;
const FILE_WALL: u64 = (1 << 40) + (1 << 31);
/// Address space of the engine without programs, and for each program.
const ENGINE_SPACE: u64 = 400 << 20;
const PROGRAM_SPACE: u64 = 1 << 30;

pub(super) fn findings() -> Vec<Finding> {
    vec![
        locked_memory(getrlimit(Resource::Memlock).current),
        open_files(getrlimit(Resource::Nofile)),
        tasks(getrlimit(Resource::Nproc), control_groups::tasks()),
        file_size(getrlimit(Resource::Fsize)),
        address_space(getrlimit(Resource::As)),
    ]
}

/// Returns the command that raises a limit of this shell. Beyond the hard limit only root can.
fn raise(hard: Option<u64>, letter: char, name: &str, wanted: Option<u64>) -> String {
    let is_allowed = hard.is_none_or(|hard| wanted.is_some_and(|wanted| wanted <= hard));
    let wanted = named(wanted);
    if is_allowed { format!("ulimit -S{letter} {wanted}") } else { format!("sudo prlimit --pid $$ --{name}={wanted}") }
}

fn named(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string())
}

fn kibibytes(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".to_owned(), |limit| format!("{} KiB", limit >> 10))
}

/// Softband pins nothing, so registrations succeed at any limit.
fn locked_memory(limit: Option<u64>) -> Finding {
    Finding::ok("locked memory", format!("{}; registered memory needs none", kibibytes(limit)))
}

fn open_files(limit: Rlimit) -> Finding {
    const NAME: &str = "open files";
    const WANTED: Option<u64> = Some(4096);
    let (value, remedy) = (named(limit.current), raise(limit.maximum, 'n', "nofile", WANTED));
    match limit.current {
        Some(files) if files < FILES_LEAST => Finding::broken(NAME, value, "programs do not start", &remedy),
        Some(files) if files < FILES_ENOUGH => {
            Finding::limited(NAME, value, "runs with many programs or connections fail; each program needs two of the engine", &remedy)
        }
        _ => Finding::ok(NAME, value),
    }
}

fn tasks(user: Rlimit, group: Option<u64>) -> Finding {
    const NAME: &str = "processes";
    let least = user.current.into_iter().chain(group).min();
    let remedy = if group.is_some() && group == least {
        "docker run --pids-limit 4096, or a larger pids.max".to_owned()
    } else {
        raise(user.maximum, 'u', "nproc", Some(4096))
    };
    match least {
        Some(tasks) if tasks < TASKS_LEAST => Finding::broken(NAME, named(least), "programs do not start", &remedy),
        Some(tasks) if tasks < TASKS_ENOUGH => {
            Finding::limited(NAME, named(least), "runs with many programs fail; each program needs a thread of the engine", &remedy)
        }
        _ => Finding::ok(NAME, named(least)),
    }
}

fn file_size(limit: Rlimit) -> Finding {
    const NAME: &str = "file size";
    let (value, remedy) = (kibibytes(limit.current), raise(limit.maximum, 'f', "fsize", None));
    match limit.current {
        Some(bytes) if bytes < FILE_SIMULATED => {
            Finding::broken(NAME, value, "programs do not start: the shared memory of each is a file of 1 GiB", &remedy)
        }
        Some(bytes) if bytes < FILE_WALL => {
            Finding::limited(NAME, value, "at wall pace registered memory stays private, so each transfer costs a system call", &remedy)
        }
        _ => Finding::ok(NAME, value),
    }
}

fn address_space(limit: Rlimit) -> Finding {
    const NAME: &str = "address space";
    let (value, remedy) = (kibibytes(limit.current), raise(limit.maximum, 'v', "as", None));
    let Some(bytes) = limit.current else { return Finding::ok(NAME, value) };
    match bytes.saturating_sub(ENGINE_SPACE) / PROGRAM_SPACE {
        0 => Finding::broken(NAME, value, "programs do not start: each needs 1 GiB of the engine's address space", &remedy),
        programs => {
            let effect = format!("a run can have about {} at a time", softband_types::counted(programs, "program", "programs"));
            Finding::limited(NAME, value, &effect, &remedy)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Health::{Broken, Limited, Ok};

    fn of(current: Option<u64>, maximum: Option<u64>) -> Rlimit {
        Rlimit { current, maximum }
    }

    #[test]
    fn locked_memory_is_no_limit_of_softband() {
        assert_eq!(locked_memory(Some(0)).health, Ok);
        assert!(locked_memory(Some(65536)).value.starts_with("64 KiB"));
    }

    #[test]
    fn few_open_files_have_a_remedy_that_the_hard_limit_permits() {
        assert_eq!(open_files(of(Some(10), Some(10))).health, Broken);
        let few = open_files(of(Some(100), Some(8192)));
        assert_eq!((few.health, few.remedy.as_str()), (Limited, "ulimit -Sn 4096"));
        assert_eq!(open_files(of(Some(100), Some(100))).remedy, "sudo prlimit --pid $$ --nofile=4096");
        assert_eq!((open_files(of(Some(1024), None)).health, open_files(of(None, None)).health), (Ok, Ok));
    }

    #[test]
    fn the_tighter_limit_on_processes_counts() {
        assert_eq!(tasks(of(Some(4), None), None).health, Broken);
        assert!(tasks(of(Some(1000), None), Some(32)).remedy.contains("--pids-limit"));
        assert_eq!(tasks(of(Some(32), None), Some(1000)).remedy, "ulimit -Su 4096");
        assert_eq!(tasks(of(None, None), None).health, Ok);
    }

    #[test]
    fn files_and_address_space_must_hold_the_shared_memory() {
        let health = |bytes| file_size(of(bytes, bytes)).health;
        assert_eq!((health(Some(1 << 20)), health(Some(1 << 35)), health(None)), (Broken, Limited, Ok));
        assert_eq!(file_size(of(Some(1), None)).remedy, "ulimit -Sf unlimited");
        assert_eq!(address_space(of(Some(1 << 30), None)).health, Broken);
        let some = address_space(of(Some(5 << 30), Some(5 << 30)));
        assert_eq!((some.health, some.consequence.as_str()), (Limited, "a run can have about 4 programs at a time"));
        assert_eq!(some.remedy, "sudo prlimit --pid $$ --as=unlimited");
        assert_eq!(address_space(of(None, None)).health, Ok);
    }
}
