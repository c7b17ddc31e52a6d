//! Runs RDMA programs on a modelled InfiniBand fabric, in `#[test]` functions. The programs need
//! neither an HCA nor root.
//!
//! The crate starts the command `softband`: that of `SOFTBAND_BIN`, or that of `PATH`. Without the
//! command each call is an error, so no test passes without its fabric.
//!
//! # Example
//!
//! ```no_run
//! use softband_test::{Fabric, Pace};
//! use std::time::Duration;
//!
//! let fabric = Fabric::named("two-hosts").pace(Pace::Wall).timeout(Duration::from_secs(30));
//! let outcome = fabric.run(&[("a", "ibv_rc_pingpong"), ("b", "ibv_rc_pingpong a")])?;
//! assert!(outcome.assert_success().program("b").output.contains("1000 iters"));
//!
//! // A fabric that stays until `fabric` is dropped.
//! let mut fabric = Fabric::named("default").up()?;
//! let server = fabric.spawn("a", &["ib_write_bw"])?;
//! fabric.spawn("b", &["ib_write_bw", "a"])?.wait()?;
//! fabric.fault(&["link-down", "b/mlx5_0/1"])?;
//! assert_eq!(server.wait()?.status, 0);
//! # Ok::<(), softband_test::Error>(())
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![allow(clippy::disallowed_methods)] // processes, files and clocks are outside the pure model side

mod command;
mod error;
mod outcome;
mod stay;

pub use error::Error;
pub use outcome::{Outcome, Program};
pub use stay::{Spawned, Up};

use command::{Folder, softband, words_of};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Longest time of a run in seconds, unless the test sets another.
const TIMEOUT_SECONDS: u64 = 60;

/// Clock of the programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// Simulated time: each run gives the same bytes.
    #[default]
    Virtual,
    /// The machine's clock: as fast as the machine allows.
    Wall,
}

/// Fabric, faults and time limit of a test.
#[derive(Clone, Debug)]
pub struct Fabric {
    name: String,
    pace: Pace,
    timeout: Duration,
    faults: Option<String>,
}

impl Fabric {
    /// Takes an installed fabric, such as `default` with the hosts `a` and `b`, or a fabric file.
    #[must_use]
    pub fn named(name: impl AsRef<Path>) -> Self {
        let name = name.as_ref().to_string_lossy().into_owned();
        Self { name, pace: Pace::default(), timeout: Duration::from_secs(TIMEOUT_SECONDS), faults: None }
    }

    /// Sets the clock of runs. A fabric that stays always has [`Pace::Wall`].
    #[must_use]
    pub fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// Limits each run, and the life of a fabric that stays. Softband takes whole seconds, at least
    /// one; fractions count as a whole second.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Adds a fault plan: the text of `[[faults]]`, in the format of fabric files.
    #[must_use]
    pub fn faults(mut self, plan: impl Into<String>) -> Self {
        self.faults = Some(plan.into());
        self
    }

    /// Runs a command on each host, servers first. A host may occur several times.
    ///
    /// # Errors
    /// If Softband cannot start the run, or its time limit ends it. A program that fails is an
    /// [`Outcome`].
    pub fn run(&self, programs: &[(&str, &str)]) -> Result<Outcome, Error> {
        let on = programs.iter().flat_map(|(host, command)| ["--on", host, command]).map(str::to_owned).collect();
        self.start(Some(&self.name), on)
    }

    /// Runs `count` copies of a program, each on the next host. `SOFTBAND_RANK` identifies a copy.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_copies(&self, count: u32, program: &[&str]) -> Result<Outcome, Error> {
        let mut words = vec!["-n".to_owned(), count.to_string(), "--".to_owned()];
        words.extend(program.iter().map(|&word| word.to_owned()));
        // Without a name, the default fabric has as many hosts as copies.
        self.start((self.name != "default").then_some(&self.name), words)
    }

    /// Brings up a fabric that stays until the returned value is dropped.
    ///
    /// # Errors
    /// If the fabric cannot come up, for example for a mistake in its file.
    pub fn up(&self) -> Result<Up, Error> {
        let folder = Folder::make()?;
        let words = words_of(&folder, self.faults.as_deref())?;
        Up::start(&self.name, &words, folder, self.timeout)
    }

    fn start(&self, fabric: Option<&String>, programs: Vec<String>) -> Result<Outcome, Error> {
        let folder = Folder::make()?;
        let pace = if self.pace == Pace::Wall { "wall" } else { "virtual" };
        let seconds = self.timeout.as_secs() + u64::from(self.timeout.subsec_nanos() > 0);
        let mut command = Command::new(softband()?);
        command.arg("run").args(fabric).args(["--pace", pace, "--timeout", &seconds.max(1).to_string(), "--out"]).arg(folder.path());
        command.args(words_of(&folder, self.faults.as_deref())?).args(programs);
        let done = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output()?;
        let messages = String::from_utf8_lossy(&done.stderr).into_owned();
        Outcome::read(folder, messages)
    }
}
