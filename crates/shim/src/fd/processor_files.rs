//! The processors in the system's files. A program in simulated time sees one processor
//! (`process/processor_set`), so these files show one as well. The engine writes the folders below
//! `/sys` for each host (`engine/host/processor_files`). This library makes files of `/proc` at each
//! open, because most of their lines are the kernel's.

use crate::fd::{files, random_files};
use crate::process::pid;
use crate::runtime::world::{active, keeping_errno};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::fmt::Write;

/// Folders that the engine writes.
const FOLDERS: [&[u8]; 4] = [b"/sys/devices/system/cpu", b"/sys/devices/system/node", b"/sys/bus/cpu", b"/sys/bus/node"];
/// Folder of control groups, and the files there that list processors.
const GROUPS: &[u8] = b"/sys/fs/cgroup/";
const LISTS: [&[u8]; 4] = [b"/cpuset.cpus", b"/cpuset.cpus.effective", b"/cpuset.effective_cpus", b"/cpuset.cpus.exclusive.effective"];
/// Place of the last processor among the fields of a `stat` file behind the name (proc_pid_stat(5)).
const PROCESSOR_FIELD: usize = 36;

/// Returns whether a path leads into the engine's folder of the host.
pub(super) fn leads(path: &[u8]) -> bool {
    let is_below = |folder: &&[u8]| path.strip_prefix(*folder).is_some_and(|rest| rest.is_empty() || rest[0] == b'/');
    path.starts_with(b"/sys/") && FOLDERS.iter().any(is_below) && active()
}

/// Makes the text of a file from the kernel's. The flag states that the file is this process's own.
type Change = fn(&str, bool) -> String;

/// Returns a file that replaces `path`, if it shows the machine's processors.
pub(super) fn instead_of(path: &[u8]) -> Option<OwnedFd> {
    let is_list = path.starts_with(GROUPS) && LISTS.iter().any(|list| path.ends_with(list));
    if !(is_list || path.starts_with(b"/proc/")) || !active() {
        return None;
    }
    let (change, is_own): (Change, bool) = if is_list { (|_, _| "0\n".into(), false) } else { change_of(path)? };
    keeping_errno(|| {
        let led = files::led_path(path)?;
        let text = read(&led)?;
        random_files::new_file("softband-processors", change(&text, is_own).as_bytes())
    })
}

/// Returns the change of a file below `/proc`, and whether the file is this process's own.
fn change_of(path: &[u8]) -> Option<(Change, bool)> {
    let below = path.strip_prefix(b"/proc/")?;
    if below == b"stat" {
        return Some((|text, _| one_processor(text), false));
    }
    let parts: Vec<&[u8]> = below.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    let (process, last) = match parts[..] {
        [process, last] | [process, b"task", _, last] => (process, last),
        _ => return None,
    };
    let number: Option<libc::pid_t> = std::str::from_utf8(process).ok().and_then(|number| number.parse().ok());
    let is_self = matches!(process, b"self" | b"thread-self") || number == Some(pid::own_number());
    match last {
        b"status" if is_self || number.is_some() => Some((status, is_self)),
        b"stat" if is_self || number.is_some() => Some((|text, _| without_processor(text), is_self)),
        _ => None,
    }
}

/// Reads a file of the kernel. The standard library would call this library.
pub(super) fn read(path: &std::ffi::CStr) -> Option<String> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut bytes = Vec::new();
    let mut room = [0; 4096];
    loop {
        match rustix::io::read(&file, &mut room[..]) {
            Ok(0) => return Some(String::from_utf8_lossy(&bytes).into_owned()),
            Ok(count) => bytes.extend_from_slice(&room[..count]),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// Returns the block of the first processor of `/proc/cpuinfo`, with its empty line.
pub(super) fn first_block(text: &str) -> &str {
    text.find("\n\n").map_or(text, |end| &text[..end + 2])
}

/// Returns `/proc/stat` without the lines of further processors.
fn one_processor(text: &str) -> String {
    let is_further = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ") && !line.starts_with("cpu0 ");
    text.lines().filter(|line| !is_further(line)).flat_map(|line| [line, "\n"]).collect()
}

/// Returns a `status` file with the shown set and, in a process's own file, with its numbers as the
/// program knows them.
fn status(text: &str, is_own: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for line in text.lines() {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let number = || value.trim().parse().ok();
        let known: Option<String> = match name {
            "Cpus_allowed" | "Mems_allowed" => Some("1".into()),
            "Cpus_allowed_list" | "Mems_allowed_list" => Some("0".into()),
            "Tgid" | "Pid" | "NStgid" | "NSpid" if is_own => number().map(|number| pid::known_number(number).to_string()),
            "PPid" if is_own => Some(pid::getppid().to_string()),
            _ => None,
        };
        let _ = match known {
            Some(known) => writeln!(shown, "{name}:\t{known}"),
            None => writeln!(shown, "{line}"),
        };
    }
    shown
}

/// Returns a `stat` file in which the process ran on the shown processor.
fn without_processor(text: &str) -> String {
    let Some((name, rest)) = text.rsplit_once(") ") else { return text.to_owned() };
    let fields = rest.split(' ').enumerate().map(|(place, field)| if place == PROCESSOR_FIELD { "0" } else { field });
    format!("{name}) {}", fields.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_processor_stays() {
        assert_eq!(first_block("processor\t: 0\nflags\t: a\n\nprocessor\t: 1\n\n"), "processor\t: 0\nflags\t: a\n\n");
        assert_eq!(first_block("processor\t: 0\n"), "processor\t: 0\n");
        assert_eq!(one_processor("cpu  3 4\ncpu0 1 2\ncpu1 2 2\ncpu10 2 2\nintr 7\n"), "cpu  3 4\ncpu0 1 2\nintr 7\n");
    }

    #[test]
    fn a_status_shows_one_processor() {
        let text = "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\nMems_allowed_list:\t0-1\nSeccomp:\t0\n";
        assert_eq!(status(text, false), "Name:\tx\nCpus_allowed:\t1\nCpus_allowed_list:\t0\nMems_allowed_list:\t0\nSeccomp:\t0\n");
    }

    #[test]
    fn a_stat_names_the_shown_processor() {
        let fields: Vec<String> = (3..=52).map(|number| number.to_string()).collect();
        let text = format!("17 (a) b) {}\n", fields.join(" "));
        let shown = without_processor(&text);
        assert!(shown.contains(" 38 0 40 ") && shown.starts_with("17 (a) b) 3 ") && shown.ends_with(" 52\n"));
    }

    #[test]
    fn files_of_processes_are_known_by_their_path() {
        for path in ["/proc/stat", "/proc/self/status", "/proc/thread-self/stat", "/proc/17/status", "/proc/self/task/18/status"] {
            assert!(change_of(path.as_bytes()).is_some(), "{path}");
        }
        for path in ["/proc", "/proc/self/maps", "/proc/net/stat", "/proc/self/task/18/maps", "/proc/sys/status"] {
            assert!(change_of(path.as_bytes()).is_none(), "{path}");
        }
    }
}
