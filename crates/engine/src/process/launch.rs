//! Starts programs on hosts, and ends all processes that were started.

use crate::control::socket::{ControlEvent, Mailbox};
use crate::linker::{joined, preload_list};
use crate::process::outputs::Outputs;
use rustix::thread::CpuSet;
use softband_ipc::environment;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Destination of a program's standard output or standard error.
pub type ProgramOutput = Box<dyn Write + Send>;

/// A program to run on a host.
pub struct Program {
    /// Index of the host in the fabric.
    pub host: usize,
    /// Command as the user wrote it.
    pub command: String,
    /// Words to execute. The PATH locates the first.
    pub arguments: Vec<String>,
    /// Environment variables beside those of the caller. Libraries of its `LD_PRELOAD` come before ours.
    pub environment: Vec<(String, String)>,
    pub stdout: Option<ProgramOutput>,
    pub stderr: Option<ProgramOutput>,
}

/// The libraries that programs load.
#[derive(Clone, Debug)]
pub(crate) struct Libraries {
    pub(crate) preload: PathBuf,
    pub(crate) directory: PathBuf,
    pub(crate) by_preload: bool,
}

/// A started program.
pub(crate) struct Started {
    pub(crate) pid: i32,
}

/// Number, ticket and engine name by which a program and its engine find each other.
pub(crate) struct Identity<'a> {
    pub(crate) number: usize,
    pub(crate) ticket: u64,
    pub(crate) engine: &'a str,
}

/// Starts `program` and later puts its end into the mailbox. In simulated time, the program may run
/// only on `processors`.
pub(crate) fn start(
    program: &mut Program,
    identity: &Identity<'_>,
    (libraries, processors): (&Libraries, Option<CpuSet>),
    mailbox: &Arc<Mailbox>,
    outputs: &mut Outputs,
) -> std::io::Result<Started> {
    let mut command = Command::new(&program.arguments[0]);
    command.args(&program.arguments[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A run is no fabric that other commands know by a name.
    command.env_remove(environment::FABRIC);
    command.envs(program.environment.iter().map(|(name, value)| (name, value)));
    command.env(environment::ENGINE, identity.engine).env(environment::TICKET, environment::ticket_text(identity.ticket));
    if libraries.by_preload {
        let given = program.environment.iter().find(|(name, _)| name == "LD_PRELOAD").map(|(_, others)| others.clone());
        let others = given.or_else(|| std::env::var("LD_PRELOAD").ok());
        command.env("LD_PRELOAD", preload_list(others.as_deref(), &libraries.preload));
    }
    command.env(environment::LIBRARIES, &libraries.directory);
    command.env("LD_LIBRARY_PATH", joined(&libraries.directory, "LD_LIBRARY_PATH", ':'));
    // SAFETY: `before_exec` makes only async-signal-safe system calls between fork and exec.
    unsafe { command.pre_exec(move || before_exec(processors.as_ref())) };
    let child = command.spawn()?;
    let started = Started { pid: child.id() as i32 };
    follow(child, program, identity.number, mailbox, outputs).inspect_err(|_| {
        started.signal(libc::SIGKILL);
        let _ = rustix::process::Pid::from_raw(started.pid).map(|pid| rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()));
    })?;
    Ok(started)
}

/// Passes on the output of a program, and reports its end to the mailbox.
fn follow(mut child: Child, program: &mut Program, number: usize, mailbox: &Arc<Mailbox>, outputs: &mut Outputs) -> std::io::Result<()> {
    if let (Some(from), Some(to)) = (child.stdout.take(), program.stdout.take()) {
        outputs.add(from.into(), to)?;
    }
    if let (Some(from), Some(to)) = (child.stderr.take(), program.stderr.take()) {
        outputs.add(from.into(), to)?;
    }
    let mailbox = mailbox.clone();
    std::thread::Builder::new().name("wait".into()).spawn(move || {
        let status = child.wait().map_or(1, |status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
        mailbox.put(ControlEvent::Exited { program: number, status });
    })?;
    Ok(())
}

/// Gives the process its own process group, so that the engine can end the group. The kernel ends
/// the process when the engine ends.
fn before_exec(processors: Option<&CpuSet>) -> std::io::Result<()> {
    // SAFETY: both are plain system calls on this process only.
    unsafe {
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
    if let Some(processors) = processors {
        let _ = rustix::thread::sched_setaffinity(None, processors);
        // SAFETY: `personality` gets and sets a number of this process only. Programs print
        // addresses, so addresses must not be random.
        unsafe {
            let persona = libc::personality(0xFFFF_FFFF);
            if persona >= 0 {
                libc::personality((persona | libc::ADDR_NO_RANDOMIZE) as u64);
            }
        }
    }
    Ok(())
}

impl Started {
    /// Sends a signal to the process group of the program.
    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: sends a signal to a process group that this engine created.
        unsafe { libc::kill(-self.pid, signal) };
    }
}

/// Splits a command into words as a shell does. For a command that needs a shell, returns a call of
/// `/bin/sh`.
///
/// # Errors
/// If the command is empty or a quote is not closed.
pub fn arguments_of(command: &str) -> Result<Vec<String>, String> {
    if command.trim().is_empty() {
        return Err("the command is empty".into());
    }
    let words = words_of(command)?;
    // Only a shell understands a leading NAME=VALUE, which is an assignment.
    let assignment = words.first().is_some_and(|word| word.split('/').next().is_some_and(|head| head.contains('=')));
    if assignment || needs_shell(command) {
        return Ok(vec!["/bin/sh".into(), "-c".into(), command.into()]);
    }
    Ok(words)
}

/// Returns whether a shell would see more than words: operators, expansions, globs outside single
/// quotes.
fn needs_shell(command: &str) -> bool {
    let mut single = false;
    let mut double = false;
    let mut escaped = false;
    for letter in command.chars() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if !single => escaped = true,
            '\'' if !double => single = !single,
            '"' if !single => double = !double,
            '$' | '`' if !single => return true,
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '*' | '?' | '[' | '~' | '\n' | '#' if !single && !double => return true,
            _ => {}
        }
    }
    false
}

fn words_of(command: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = command.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\\' => word.get_or_insert_default().push(letters.next().ok_or("a backslash ends the command")?),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next().ok_or_else(|| format!("the quote {letter} is not closed"))? {
                        end if end == letter => break,
                        '\\' if letter == '"' => word.push(letters.next().ok_or("the quote \" is not closed")?),
                        other => word.push(other),
                    }
                }
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_commands_become_words_and_others_get_a_shell() {
        assert_eq!(arguments_of("ib_send_bw -a 'x y' \"z\\\"\"").unwrap(), ["ib_send_bw", "-a", "x y", "z\""]);
        assert_eq!(arguments_of("a | b").unwrap()[0], "/bin/sh");
        assert_eq!(arguments_of("X=1 prog").unwrap()[0], "/bin/sh");
        assert_eq!(arguments_of("echo 'a|b'").unwrap(), ["echo", "a|b"]);
        assert!(arguments_of("echo 'a").is_err());
        assert!(arguments_of("  ").is_err());
    }
}
