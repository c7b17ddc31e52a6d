//! A fabric that stays while a test runs.

use crate::command::{Folder, softband, unique};
use crate::{Error, Program};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval in which a wait looks whether its program ended.
const LOOK: Duration = Duration::from_millis(5);

/// A fabric at wall pace. Dropping it ends the fabric and all programs on it.
#[derive(Debug)]
pub struct Up {
    name: String,
    engine: Child,
    folder: Arc<Folder>,
    deadline: Instant,
    spawned: u32,
}

impl Up {
    pub(crate) fn start(fabric: &str, words: &[OsString], folder: Folder, timeout: Duration) -> Result<Self, Error> {
        let (name, errors) = (unique(), File::create(folder.path().join("up.err"))?);
        let mut command = Command::new(softband()?);
        command.args(["up", fabric, "--name", &name]).args(words);
        let mut engine = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn()?;
        let mut line = String::new();
        if let Some(out) = engine.stdout.as_mut() {
            BufReader::new(out).read_line(&mut line)?;
        }
        let mut up = Self { name, engine, folder: Arc::new(folder), deadline: Instant::now() + timeout, spawned: 0 };
        if line.is_empty() {
            up.engine.wait()?;
            return Err(Error::Refused(up.folder.text("up.err")));
        }
        Ok(up)
    }

    /// Starts a program on a host.
    ///
    /// # Errors
    /// If the command cannot start. A missing host or program is the outcome of [`Spawned::wait`].
    pub fn spawn(&mut self, host: &str, program: &[&str]) -> Result<Spawned, Error> {
        let stem = format!("{host}-{}", self.spawned);
        self.spawned += 1;
        let [output, errors] = ["out", "err"].map(|ending| File::create(self.folder.path().join(format!("{stem}.{ending}"))));
        let mut command = Command::new(softband()?);
        command.args(["exec", host, "--name", &self.name, "--"]).args(program);
        let child = command.stdin(Stdio::null()).stdout(output?).stderr(errors?).spawn()?;
        let program = Program { host: host.into(), command: program.join(" "), status: 0, output: String::new(), errors: String::new() };
        Ok(Spawned { child, program, stem, folder: self.folder.clone(), deadline: self.deadline })
    }

    /// Breaks the fabric, in the words of `softband fault`.
    ///
    /// # Errors
    /// If the fabric has no such link, host or switch.
    pub fn fault(&self, words: &[&str]) -> Result<(), Error> {
        let done = Command::new(softband()?).arg("fault").args(words).args(["--name", &self.name]).output()?;
        if done.status.success() { Ok(()) } else { Err(Error::Refused(String::from_utf8_lossy(&done.stderr).into_owned())) }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if let Ok(binary) = softband() {
            let _ = Command::new(binary).args(["down", "--name", &self.name]).output();
        }
        // The programs of a killed engine end as well.
        let _ = self.engine.kill();
        let _ = self.engine.wait();
    }
}

/// A program on a fabric that stays.
#[derive(Debug)]
pub struct Spawned {
    child: Child,
    program: Program,
    stem: String,
    folder: Arc<Folder>,
    deadline: Instant,
}

impl Spawned {
    /// Waits for the end of the program, and returns its outcome.
    ///
    /// # Errors
    /// If the program still runs at the time limit of its fabric, which then kills it.
    pub fn wait(mut self) -> Result<Program, Error> {
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() >= self.deadline {
                self.child.kill()?;
                self.child.wait()?;
                let errors = self.folder.text(&format!("{}.err", self.stem));
                return Err(Error::TimeLimit(format!("'{}' on host {}\n{errors}", self.program.command, self.program.host)));
            }
            std::thread::sleep(LOOK);
        };
        let [output, errors] = ["out", "err"].map(|ending| self.folder.text(&format!("{}.{ending}", self.stem)));
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        let status = status.code().unwrap_or_else(|| 128 + signal.unwrap_or_default());
        Ok(Program { status, output, errors, ..self.program })
    }
}
