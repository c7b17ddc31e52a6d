//! `softband exec`: a program on a host of a fabric, in place of this one. The fabric is up, or the
//! caller is a program of it.

use crate::programs::why_not_to_run;
use crate::{inside, record};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use softband_engine::Remote;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

#[derive(Args)]
pub(crate) struct ExecArguments {
    /// Host on which the program runs
    host: String,
    /// The program with its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// The fabric
    #[arg(long, env = record::NAME_VARIABLE, default_value = record::NAME_DEFAULT)]
    name: String,
}

/// `matches` knows whether the user has named a fabric.
pub(crate) fn run(arguments: &ExecArguments, matches: Option<&ArgMatches>) -> anyhow::Result<i32> {
    let is_named = matches.and_then(|matches| matches.value_source("name")).is_some_and(|source| source != ValueSource::DefaultValue);
    let own = inside::engine();
    let is_own = own.is_some() && (!is_named || record::wanted(&arguments.name).is_ok_and(|record| Some(record.engine) == own));
    if is_own {
        if let Some(status) = refused(arguments) {
            return Ok(status);
        }
        inside::move_to(&arguments.host)?;
        return become_program(arguments, Command::new(&arguments.command[0]));
    }
    inside::leave();
    let record = record::wanted(&arguments.name)?;
    let Some(remote) = Remote::connect(&record.engine)? else {
        anyhow::bail!("the fabric '{}' has just ended\n  help: softband up --name {0} brings it up again", arguments.name)
    };
    let pass = remote.pass(&arguments.host)?;
    if let Some(status) = refused(arguments) {
        return Ok(status);
    }
    crate::programs::warn_if_outside(&arguments.command[0].to_string_lossy());
    let name = record::full_name(&arguments.name)?;
    // The engine of a shared fabric may have another root folder, and be another user's.
    let pass = if record::shared_folder(&name).is_some() { pass.with_libraries(&crate::home::libraries()?)? } else { pass };
    let mut command = Command::new(&arguments.command[0]);
    command.env(record::NAME_VARIABLE, name).envs(pass.merged());
    become_program(arguments, command)
}

/// Prints why the program cannot run, and returns the exit status for that.
fn refused(arguments: &ExecArguments) -> Option<i32> {
    let (why, status) = why_not_to_run(&arguments.command[0].to_string_lossy())?;
    eprintln!("{}", crate::output::error_text(&why));
    Some(status)
}

/// Becomes the program, which then owns the terminal, signals, process number and exit status.
fn become_program(arguments: &ExecArguments, mut command: Command) -> anyhow::Result<i32> {
    let program = &arguments.command[0];
    let error = command.args(&arguments.command[1..]).exec();
    Err(error).map_err(|error| anyhow::anyhow!("cannot run '{}': {error}", program.to_string_lossy()))
}
