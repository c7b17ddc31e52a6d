//! The end of the command after a shortage of the machine or a fault in its own code.

use std::io::Write;
use std::panic::PanicHookInfo;

/// Makes a panic of any thread end the command at once. Unwinding an engine would wait for locks
/// that the panicking thread may hold.
/// It would also leave programs running without the engine. After an abort, the kernel ends them
/// with the engine.
pub(crate) fn abort_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let mut line = Line::default();
        line.say(panic);
        // Avoids the standard stream, whose lock a thread may hold.
        let _ = rustix::io::write(rustix::stdio::stderr(), line.text());
        std::process::abort();
    }));
}

/// A line of bounded length, built without the allocator, which may be the part that failed.
struct Line {
    bytes: [u8; 1024],
    used: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { bytes: [0; 1024], used: 0 }
    }
}

impl Line {
    fn say(&mut self, panic: &PanicHookInfo<'_>) {
        let mut rest = &mut self.bytes[..];
        let room = rest.len();
        let reason = panic.payload_as_str().unwrap_or("unknown reason");
        let _ = write!(rest, "softband: internal error: {reason}");
        if let Some(place) = panic.location() {
            let _ = write!(rest, " ({place})");
        }
        let _ = writeln!(rest, "; all programs were ended. Please report this with the command and the fabric file.");
        self.used = room - rest.len();
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

/// Returns the remedy for a shortage of the machine, if that caused the error.
pub(crate) fn remedy(error: &anyhow::Error) -> Option<&'static str> {
    let errno = error.chain().find_map(|cause| {
        let by_system = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
        by_system.or_else(|| cause.downcast_ref::<rustix::io::Errno>().map(|errno| errno.raw_os_error()))
    })?;
    match errno {
        libc::EMFILE => Some("raise the limit on open files (ulimit -n); 256 are enough for small runs"),
        libc::ENFILE => Some("the machine has too many open files; end other programs"),
        libc::ENOMEM => Some("raise the limit on memory (ulimit -v), or end other programs"),
        libc::EFBIG => Some("raise the limit on file sizes (ulimit -f unlimited)"),
        libc::EAGAIN => Some("raise the limit on processes and threads (ulimit -u)"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_shortage_is_told_with_its_remedy() {
        let short = anyhow::Error::from(std::io::Error::from_raw_os_error(libc::EMFILE)).context("cannot open the control socket");
        assert!(remedy(&short).is_some_and(|remedy| remedy.contains("ulimit -n")));
        let by_errno = Err::<(), _>(rustix::io::Errno::NOMEM).context("cannot map").unwrap_err();
        assert!(remedy(&by_errno).is_some_and(|remedy| remedy.contains("ulimit -v")));
        assert!(remedy(&anyhow::anyhow!("no host 'x'")).is_none());
    }

    #[test]
    fn a_panic_of_any_thread_ends_the_process_with_one_line() {
        let own = std::env::current_exe().unwrap();
        let run =
            std::process::Command::new(own).args(["--ignored", "--exact", "failures::tests::panics_in_a_thread", "--nocapture"]).output().unwrap();
        assert_eq!(run.status.signal(), Some(libc::SIGABRT));
        let errors = String::from_utf8(run.stderr).unwrap();
        assert!(errors.contains("softband: internal error: a thread fails") && errors.contains("failures.rs:"), "{errors}");
    }

    /// Not a test: the test above runs it in a separate process.
    #[test]
    #[ignore = "ends its process"]
    fn panics_in_a_thread() {
        abort_on_panic();
        let held = std::io::stderr().lock();
        let _ = std::thread::scope(|scope| scope.spawn(|| panic!("a thread fails")).join());
        drop(held);
    }
}
