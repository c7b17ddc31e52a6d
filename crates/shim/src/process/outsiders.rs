//! Processes of the machine outside the run. A program neither signals nor changes them: on hardware
//! they are no processes of its host.

use crate::runtime::attach::attached;
use crate::runtime::world::{fail, keeping_errno};
use libc::{c_int, pid_t};
use rustix::fs::{Mode, OFlags};
use softband_client::warn;
use softband_ipc::environment::ENGINE;

/// Most generations of parents that the search follows.
const GENERATIONS_MAX: usize = 64;

fn read(path: &str) -> Option<Vec<u8>> {
    // The standard library would call this library, which translates the number.
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let (mut bytes, mut len) = (vec![0; 1 << 12], 0);
    loop {
        match rustix::io::read(&file, &mut bytes[len..]) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(_) => return None,
        }
        if len == bytes.len() {
            bytes.resize(2 * len, 0);
        }
    }
    bytes.truncate(len);
    Some(bytes)
}

/// Returns the engine that the environment of a process names.
fn engine_of(pid: pid_t) -> Option<Vec<u8>> {
    let environment = read(&format!("/proc/{pid}/environ"))?;
    let mut variables = environment.split(|byte| *byte == 0);
    variables.find_map(|variable| variable.strip_prefix(ENGINE.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec))
}

/// Returns whether a process has the library of a fabric. A daemon may have written over its
/// environment, and have no parent in the run any more.
fn has_library(pid: pid_t) -> bool {
    const NAME: &[u8] = b"/memfd:softband";
    read(&format!("/proc/{pid}/maps")).is_some_and(|maps| maps.windows(NAME.len()).any(|window| window == NAME))
}

fn parent_of(pid: pid_t) -> Option<pid_t> {
    let status = read(&format!("/proc/{pid}/stat"))?;
    let behind_name = &status[status.iter().rposition(|byte| *byte == b')')? + 1..];
    std::str::from_utf8(behind_name).ok()?.split_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 0)
}

/// Returns whether a process belongs to this run: by its environment, by that of a parent, or by the
/// library of a fabric of this user. A process that does not exist belongs to nobody, and the kernel's
/// answer about it is right.
pub fn is_of_the_run(pid: pid_t) -> bool {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let parent = rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    // The parent is another program of the run, its engine, or the launcher that waits for this program.
    // Process 1 adopts orphans, and is the machine's.
    if pid == own || pid == parent && parent > 1 || !attached() {
        return true;
    }
    keeping_errno(|| {
        let Some(engine) = engine_of(own).or_else(|| std::env::var_os(ENGINE).map(std::os::unix::ffi::OsStringExt::into_vec)) else { return true };
        let mut next = Some(pid);
        for generation in 0..GENERATIONS_MAX {
            match next {
                Some(at) if at == own || engine_of(at).as_ref() == Some(&engine) || at == pid && has_library(at) => return true,
                Some(at) => next = parent_of(at),
                None => break,
            }
            if generation == 0 && next.is_none() {
                return !is_there(pid);
            }
        }
        false
    })
}

fn is_there(pid: pid_t) -> bool {
    rustix::fs::access(format!("/proc/{pid}"), rustix::fs::Access::EXISTS).is_ok()
}

/// Refuses a change of a process outside the run. `pid` is the real number of a process, or negative
/// that of a group; 0 is the caller's own. Returns `None` if the change may go on.
pub fn refusal<R: From<i8>>(change: &str, pid: pid_t) -> Option<R> {
    if pid == 0 || pid != -1 && is_of_the_run(pid.abs()) || !attached() {
        return None;
    }
    let target = match pid {
        -1 => "all processes".to_owned(),
        ..-1 => format!("process group {}", -pid),
        _ => format!("process {pid}"),
    };
    warn::once(&format!("{change} for {target} outside this fabric fails (EPERM)"));
    Some(fail(libc::EPERM))
}

/// As [`refusal`], for a signal. Signal 0 only asks.
pub fn refused_signal<R: From<i8>>(pid: pid_t, signal: c_int) -> Option<R> {
    if signal == 0 { None } else { refusal("a signal", pid) }
}
