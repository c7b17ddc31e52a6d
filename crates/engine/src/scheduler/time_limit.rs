//! The limit of a run in wall-clock time, and the guard of its end.
//!
//! An interrupted run ends in order: it names who waits for what, ends its programs, and writes its
//! report. Something may hold it up: a terminal that takes no output, a disk, a fault of the engine.
//! The guard then ends the programs and this process.

use crate::host::files;
use crate::options::Interrupt;
use crate::process::programs::Groups;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Interval of the guard's looks.
const LOOK: Duration = Duration::from_millis(20);
/// Time that an interrupted run has for its end.
const PATIENCE: Duration = Duration::from_millis(1_400);
/// Longest wait for the end of the run's files.
const FILES_PATIENCE: Duration = Duration::from_millis(500);
/// Exit statuses of runs that their limit ends, and that a signal ends.
const STATUS_TIMED_OUT: i32 = 124;
const STATUS_INTERRUPTED: i32 = 130;

/// Watches a run, and then its last output and the removal of its files, until this value is dropped.
pub(crate) struct Guard(Arc<State>);

#[derive(Default)]
struct State {
    /// The run has ended, so that its limit is kept.
    has_run: AtomicBool,
    is_over: AtomicBool,
}

impl Guard {
    /// Starts the guard of a run of the engine with this name. It lets `interrupt` expire `limit` after
    /// `begun`.
    pub(crate) fn start((begun, limit): (Instant, Option<Duration>), interrupt: Interrupt, groups: Groups, engine: String) -> std::io::Result<Self> {
        let state = Arc::new(State::default());
        let watched = state.clone();
        let watch = move || {
            // The run and its report each have the whole time.
            let (mut urgent_since, mut is_late, mut had_run) = (None, false, false);
            while !watched.is_over.load(Ordering::SeqCst) {
                std::thread::sleep(LOOK);
                let has_run = watched.has_run.load(Ordering::SeqCst);
                if has_run && !std::mem::replace(&mut had_run, true) {
                    urgent_since = None;
                }
                is_late |= !has_run && limit.is_some_and(|limit| begun.elapsed() >= limit);
                if is_late && !has_run {
                    interrupt.expire();
                }
                // The launcher of a job may have interrupted it before, at its regular end.
                let is_urgent = is_late || interrupt.is_urgent();
                let since = if is_urgent { *urgent_since.get_or_insert_with(Instant::now) } else { continue };
                if since.elapsed() > PATIENCE && !watched.is_over.load(Ordering::SeqCst) {
                    end_by_force(limit.filter(|_| is_late), &groups, &engine);
                }
            }
        };
        std::thread::Builder::new().name("guard".into()).spawn(watch)?;
        Ok(Self(state))
    }

    /// Notes that the run has ended. From now on, only a user's interrupt limits the time.
    pub(crate) fn run_has_ended(&self) {
        self.0.has_run.store(true, Ordering::SeqCst);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}

/// Ends the programs and this process, which may hold any lock.
fn end_by_force(limit: Option<Duration>, groups: &Groups, engine: &str) -> ! {
    let groups = groups.try_lock().map(|groups| groups.clone()).unwrap_or_default();
    for group in groups {
        // SAFETY: sends a signal to a process group that this engine created.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
    crate::process::sweep::end_all_of(engine, Duration::ZERO);
    remove_files(engine);
    let text = match limit {
        Some(limit) => format!("softband: the run was ended after {} s of wall-clock time; it did not end in order\n", limit.as_secs_f64()),
        None => "softband: interrupted; the run did not end in order, and every program was ended\n".to_owned(),
    };
    let mut polled = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: the structure and the text live during the calls. The write follows only if the kernel
    // takes it at once. The last call ends the process.
    unsafe {
        if libc::poll(&raw mut polled, 1, 0) == 1 && polled.revents & libc::POLLOUT != 0 {
            libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
        }
        libc::_exit(if limit.is_some() { STATUS_TIMED_OUT } else { STATUS_INTERRUPTED })
    }
}

/// Removes the files of the engine with this name. A disk that does not answer holds nothing up.
fn remove_files(engine: &str) {
    let (done, is_done) = mpsc::channel();
    let engine = engine.to_owned();
    let remove = move || {
        files::remove_all_of(&engine);
        let _ = done.send(());
    };
    if std::thread::Builder::new().spawn(remove).is_ok() {
        let _ = is_done.recv_timeout(FILES_PATIENCE);
    }
}
