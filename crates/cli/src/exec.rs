//! `softband exec`: a program on a host of a fabric that is up, in place of this one.

use crate::programs::why_not_to_run;
use crate::record;
use clap::Args;
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

pub(crate) fn run(arguments: &ExecArguments) -> anyhow::Result<i32> {
    let record = record::wanted(&arguments.name)?;
    let Some(remote) = Remote::connect(&record.engine)? else {
        anyhow::bail!("the fabric '{}' has just ended\n  help: softband up --name {0} brings it up again", arguments.name)
    };
    let pass = remote.pass(&arguments.host)?;
    let program = &arguments.command[0];
    if let Some((why, status)) = why_not_to_run(&program.to_string_lossy()) {
        eprintln!("{}", crate::output::error_text(&why));
        return Ok(status);
    }
    let mut command = Command::new(program);
    command.args(&arguments.command[1..]).env(record::NAME_VARIABLE, &arguments.name).envs(pass.merged());
    // From here on, the program owns the terminal, signals, process number and exit status.
    let error = command.exec();
    Err(error).map_err(|error| anyhow::anyhow!("cannot run '{}': {error}", program.to_string_lossy()))
}
