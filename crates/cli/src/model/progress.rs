//! Progress of a run on standard error: a changing line on a terminal, otherwise a plain line from
//! time to time.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Variable with the seconds between plain lines; 0 for none.
const VARIABLE: &str = "SOFTBAND_PROGRESS";
const ON_TERMINAL: Duration = Duration::from_millis(500);
const ELSEWHERE: Duration = Duration::from_secs(10);

pub(super) struct Shown {
    begun: Instant,
    last: Instant,
    /// `None` for no progress.
    every: Option<Duration>,
    on_terminal: bool,
}

impl Shown {
    pub(super) fn new(begun: Instant) -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        let elsewhere = std::env::var_os(VARIABLE).map_or(ELSEWHERE, |text| seconds(&text.to_string_lossy()));
        let every = if on_terminal { Some(ON_TERMINAL) } else { Some(elsewhere).filter(|every| !every.is_zero()) };
        Self { begun, last: begun, every, on_terminal }
    }

    /// Shows `text` if an update is due. `text` gets the seconds since the beginning.
    pub(super) fn update(&mut self, text: impl FnOnce(f64) -> String) {
        if self.every.is_none_or(|every| self.last.elapsed() < every) {
            return;
        }
        self.last = Instant::now();
        let text = text(self.begun.elapsed().as_secs_f64());
        let line = if self.on_terminal { format!("\r\x1b[K{text}") } else { format!("softband: {text}\n") };
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }

    /// Clears the progress line of a terminal.
    pub(super) fn clear(&self) {
        if self.on_terminal && self.last != self.begun {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

/// Parses the variable. Warns of a value that is not a number of seconds, and ignores it.
fn seconds(text: &str) -> Duration {
    match text.parse::<f64>().ok().filter(|seconds| (0.0..1e6).contains(seconds)) {
        Some(seconds) => Duration::from_secs_f64(seconds),
        None => {
            eprintln!(
                "softband: warning: {VARIABLE} = {text} is not a number of seconds\n  help: write the seconds between lines of progress, 0 for no lines"
            );
            ELSEWHERE
        }
    }
}
