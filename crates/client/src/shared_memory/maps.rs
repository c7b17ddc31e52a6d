//! The mappings of this process, from `/proc/self/maps`.

use rustix::fs::{Mode, OFlags, open};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Longest wait for a thread that blocks SIGSEGV. The C library blocks all signals while it creates
/// a thread or process, and while a thread begins or ends. Memory registered meanwhile stays in
/// place.
const PATIENCE: Duration = Duration::from_millis(100);
/// Longest wait for a moment in which none of several threads blocks it.
const PATIENCE_IN_ALL: Duration = Duration::from_secs(1);
/// Least number of checks before giving up: this thread may have had no processor meanwhile.
const LOOKS_MIN: u32 = 30;
const NEXT_LOOK: Duration = Duration::from_micros(20);
/// Threads for which an earlier wait failed. No second wait follows while they block SIGSEGV.
static LASTING: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// Largest guard area below a thread stack. Reservations above the heaps of arenas are larger.
const GUARD_BYTES_MAX: usize = 1 << 20;

/// Kind of a span of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Private memory of the program that can move into a file unnoticed.
    Plain,
    /// Already in the file, at its own place.
    Shared,
    /// Stacks, mapped files, and memory without write permission.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: Kind,
}

/// Returns the mappings that overlap `start..end`, in order, or `None` if they do not cover it.
pub(super) fn covering(start: usize, end: usize, file_name: &str) -> Option<Vec<Mapping>> {
    let here = 0u8;
    covering_in(&read_all("/proc/self/maps")?, start, end, file_name, (&raw const here) as usize)
}

/// As [`covering`]. `stack` is an address of the caller's stack, whose mapping must not move.
fn covering_in(text: &str, start: usize, end: usize, file_name: &str, stack: usize) -> Option<Vec<Mapping>> {
    let mut found = Vec::new();
    let mut covered = start;
    let mut before: Option<(usize, bool)> = None;
    for line in text.lines() {
        let Some((mapping, guards)) = parse(line, before, file_name) else { continue };
        before = Some((mapping.end, guards));
        if mapping.end <= covered {
            continue;
        }
        if mapping.start > covered {
            return None;
        }
        let kind = if (mapping.start..mapping.end).contains(&stack) { Kind::Other } else { mapping.kind };
        found.push(Mapping { start: covered, end: mapping.end.min(end), kind });
        covered = mapping.end;
        if covered >= end {
            return Some(found);
        }
    }
    None
}

/// Returns the mapping of a line, and whether the next adjacent mapping may be a thread stack.
fn parse(line: &str, before: Option<(usize, bool)>, file_name: &str) -> Option<(Mapping, bool)> {
    let mut fields = line.split_ascii_whitespace();
    let (from, to) = fields.next()?.split_once('-')?;
    let (start, end) = (usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?);
    let rights = fields.next()?;
    let offset = usize::from_str_radix(fields.next()?, 16).ok()?;
    let (_device, inode) = (fields.next()?, fields.next()?);
    let name = fields.next().unwrap_or("");
    let is_plain = rights == "rw-p" && inode == "0" && (name.is_empty() || name == "[heap]" || name.starts_with("[anon"));
    let may_be_stack = before == Some((start, true));
    let kind = if rights == "rw-s" && offset == start && name == file_name {
        Kind::Shared
    } else if is_plain && !may_be_stack {
        Kind::Plain
    } else {
        Kind::Other
    };
    Some((Mapping { start, end, kind }, rights == "---p" && end - start <= GUARD_BYTES_MAX))
}

/// Other threads or the kernel that could write while a page moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    None,
    /// Threads that can wait.
    Waiting,
    /// A thread that blocks SIGSEGV: a fault would end the program. Or the kernel, which has pinned
    /// pages (buffers of io_uring). The new pages would miss its writes to the pinned ones, and no
    /// interface lists those.
    Unable,
}

/// Checks the process and its threads until none of them blocks SIGSEGV, or one blocks it for long.
pub(super) fn other_writers() -> Others {
    let mut lasting = super::lock(&LASTING);
    let (begun, mut pause, mut all_the_time) = (Instant::now(), NEXT_LOOK, None);
    for looks in 1.. {
        let Some((count, blocking)) = look_at_threads() else { return Others::Unable };
        lasting.retain(|thread| blocking.contains(thread));
        let all_the_time = all_the_time.get_or_insert_with(|| blocking.clone());
        all_the_time.retain(|thread| blocking.contains(thread));
        if read_all("/proc/self/status").is_none_or(|status| has_pinned(&status)) {
            return Others::Unable;
        }
        if blocking.is_empty() {
            return if count > 0 { Others::Waiting } else { Others::None };
        }
        if !lasting.is_empty() {
            return Others::Unable;
        }
        let patience = if all_the_time.is_empty() { PATIENCE_IN_ALL } else { PATIENCE };
        if begun.elapsed() > patience && looks > LOOKS_MIN {
            lasting.clone_from(all_the_time);
            return Others::Unable;
        }
        sleep(pause);
        pause = (pause * 2).min(PATIENCE / 100);
    }
    Others::Unable
}

/// Sleeps without the C library, whose sleep is a cancellation point.
fn sleep(pause: Duration) {
    let pause = rustix::thread::Timespec { tv_sec: 0, tv_nsec: i64::from(pause.subsec_nanos()) };
    let _ = rustix::thread::nanosleep(&pause);
}

/// Returns the number of other threads, and those of them that block SIGSEGV.
fn look_at_threads() -> Option<(usize, Vec<i32>)> {
    let folder = open("/proc/self/task", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let threads = rustix::fs::Dir::read_from(folder.ok()?).ok()?;
    let me = rustix::thread::gettid().as_raw_nonzero().get();
    let numbers = threads.flatten().filter_map(|thread| thread.file_name().to_str().ok()?.parse().ok());
    let others: Vec<i32> = numbers.filter(|number| *number != me).collect();
    // A thread that has ended has no file.
    let blocks = |number: &i32| read_all(&format!("/proc/self/task/{number}/status")).is_some_and(|status| blocks_faults(&status));
    Some((others.len(), others.into_iter().filter(blocks).collect()))
}

/// Checks whether a thread that runs code of the program blocks SIGSEGV. Ended threads do not
/// count. Nor do kernel threads, which serve io_uring and get EFAULT.
fn blocks_faults(status: &str) -> bool {
    let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let runs_nothing =
        value("State:").is_some_and(|state| state.starts_with(['Z', 'X'])) || value("Name:").is_some_and(|name| name.starts_with("iou-"));
    let mask = value("SigBlk:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    !runs_nothing && mask.is_none_or(|mask| mask & 1 << (libc::SIGSEGV - 1) != 0)
}

fn has_pinned(status: &str) -> bool {
    status.lines().find_map(|line| line.strip_prefix("VmPin:")).is_some_and(|pinned| pinned.trim() != "0 kB")
}

fn read_all(path: &str) -> Option<String> {
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    // On the heap: a thread's stack may have only 16 KiB.
    let mut bytes = Vec::with_capacity(64 << 10);
    loop {
        bytes.reserve(16 << 10);
        if rustix::io::read(&file, rustix::buffer::spare_capacity(&mut bytes)).ok()? == 0 {
            // Mapped files may have any name.
            return Some(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
1000-3000 rw-p 00000000 00:00 0 [heap]
3000-4000 rw-s 00003000 00:01 77 /memfd:ours (deleted)
4000-5000 rw-s 00009000 00:01 77 /memfd:ours (deleted)
8000-9000 ---p 00000000 00:00 0
9000-a000 rw-p 00000000 00:00 0
b000-c000 rw-p 00000000 08:01 5 /lib/x.so
d000-e000 rw-p 00000000 00:00 0 [stack]
100000-8000000 ---p 00000000 00:00 0
8000000-8001000 rw-p 00000000 00:00 0
8001000-8002000 rw-p 00000000 00:00 0
";

    fn kinds(start: usize, end: usize) -> Option<Vec<Kind>> {
        Some(covering_in(TEXT, start, end, "/memfd:ours", 0x8000800)?.iter().map(|mapping| mapping.kind).collect())
    }

    #[test]
    fn only_memory_that_nobody_else_has_a_say_in_is_plain() {
        assert_eq!(kinds(0x1000, 0x4000), Some(vec![Kind::Plain, Kind::Shared]));
        assert_eq!(kinds(0x4000, 0x5000), Some(vec![Kind::Other]), "another part of the file");
        assert_eq!(kinds(0x9000, 0xa000), Some(vec![Kind::Other]), "above a guard area: perhaps a stack");
        assert_eq!(kinds(0xb000, 0xc000), Some(vec![Kind::Other]));
        assert_eq!(kinds(0xd000, 0xe000), Some(vec![Kind::Other]));
        assert_eq!(kinds(0x8001000, 0x8002000), Some(vec![Kind::Plain]), "above a large reservation: an arena's heap");
        assert_eq!(kinds(0x8000000, 0x8001000), Some(vec![Kind::Other]), "the caller stands on it");
        assert_eq!(kinds(0x4000, 0x9000), None, "a gap");
    }

    #[test]
    fn a_thread_that_blocks_faults_is_seen() {
        assert!(blocks_faults("Name: x\nSigBlk:\t0000000000000400\n"));
        assert!(!blocks_faults("SigBlk:\t0000000000000000\n"));
        assert!(blocks_faults("Name: x\n"), "nothing said: nothing is sure");
        assert!(!blocks_faults("Name:\tx\nState:\tZ (zombie)\nSigBlk:\t0000000000000400\n"));
        assert!(!blocks_faults("Name:\tiou-sqp-77\nState:\tS (sleeping)\nSigBlk:\tfffffffffffbfeff\n"));
    }

    #[test]
    fn pages_that_the_kernel_has_pinned_are_seen() {
        assert!(has_pinned("VmLck:\t       0 kB\nVmPin:\t       4 kB\n"));
        assert!(!has_pinned("VmLck:\t       4 kB\nVmPin:\t       0 kB\n"));
    }

    #[test]
    fn the_parts_are_cut_to_what_was_asked_for() {
        let found = covering_in(TEXT, 0x2000, 0x3800, "/memfd:ours", 0).unwrap();
        assert_eq!(found[0], Mapping { start: 0x2000, end: 0x3000, kind: Kind::Plain });
        assert_eq!(found[1], Mapping { start: 0x3000, end: 0x3800, kind: Kind::Shared });
    }
}
