//! Tries system calls in children, which a filter may kill.

use std::io::Error;

/// Outcome of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Works,
    /// The call returned this errno.
    Errno(i32),
    /// This signal ended the child.
    Killed(i32),
}

impl Outcome {
    pub(super) fn describe(self) -> String {
        match self {
            Self::Works => "works".into(),
            Self::Errno(errno) => Error::from_raw_os_error(errno).to_string(),
            Self::Killed(signal) => format!("signal {signal} ended the trial"),
        }
    }
}

/// Returns the present errno if a call failed.
pub(super) fn status(has_failed: bool) -> i32 {
    if has_failed { Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) } else { 0 }
}

/// Runs `body` in a child. `body` returns 0 or an errno, and makes system calls only.
pub(super) fn in_child(body: impl Fn() -> i32) -> Outcome {
    // SAFETY: `body` makes system calls only, which a child of any process may do.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Outcome::Errno(status(true)),
        // SAFETY: the child ends here, without the exit handlers of its parent.
        0 => unsafe { libc::_exit(body()) },
        child => wait_for(child),
    }
}

fn wait_for(child: libc::pid_t) -> Outcome {
    let mut state = 0;
    // SAFETY: the kernel writes the state into the given place.
    while unsafe { libc::waitpid(child, &raw mut state, 0) } < 0 {
        if status(true) != libc::EINTR {
            return Outcome::Errno(status(true));
        }
    }
    match state {
        state if libc::WIFSIGNALED(state) => Outcome::Killed(libc::WTERMSIG(state)),
        state if libc::WEXITSTATUS(state) != 0 => Outcome::Errno(libc::WEXITSTATUS(state)),
        _ => Outcome::Works,
    }
}

/// A child that waits for its end. Dropping it ends it.
pub(super) struct Sleeper(libc::pid_t);

impl Sleeper {
    /// Starts a child that runs `body` and then sleeps. Returns after `body`.
    pub(super) fn start(body: impl Fn()) -> Option<Self> {
        let (ready, tell) = rustix::pipe::pipe().ok()?;
        // SAFETY: `body` makes system calls only, which a child of any process may do.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // A parent that is killed must leave no sleeper.
            // SAFETY: the call concerns this process only.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            body();
            let _ = rustix::io::write(&tell, b"r");
            loop {
                // SAFETY: `pause` only waits for a signal.
                unsafe { libc::pause() };
            }
        }
        drop(tell);
        let sleeper = (child > 0).then_some(Self(child))?;
        let mut byte = [0];
        rustix::io::read(&ready, &mut byte).ok().filter(|count| *count == 1).map(|_| sleeper)
    }

    pub(super) fn pid(&self) -> libc::pid_t {
        self.0
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        // SAFETY: the signal goes to our own child, which nobody else has waited for.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        wait_for(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, in_child};

    #[test]
    fn a_child_tells_its_errno_or_the_signal_that_ended_it() {
        assert_eq!(in_child(|| 0), Outcome::Works);
        assert_eq!(in_child(|| libc::EPERM), Outcome::Errno(libc::EPERM));
        // SAFETY: the child only sends a signal to itself.
        assert_eq!(in_child(|| unsafe { libc::raise(libc::SIGKILL) }), Outcome::Killed(libc::SIGKILL));
    }
}
