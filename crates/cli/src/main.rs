//! The `softband` command.

#![deny(clippy::print_stdout)] // it panics where standard output is full: `output::say`
#![allow(clippy::disallowed_methods)] // the command line is the product's reader of the environment and of signals

mod capture;
mod completions;
mod counter_table;
mod counters;
mod definition;
mod doctor;
mod exec;
mod external;
mod fabric;
mod fabric_format;
mod fabric_list;
mod fabric_loops;
mod failures;
mod fault;
mod fault_plan;
mod files;
mod generate;
mod home;
mod init;
mod inside;
mod limits;
mod metrics;
mod model;
mod mpirun;
mod output;
mod own_parts;
mod parts;
mod programs;
mod record;
mod recording;
mod run;
mod run_folder;
mod scratch;
mod search_path;
mod signals;
mod status;
mod topology;
mod up;
mod why;

use clap::FromArgMatches;
use definition::{Arguments, Command};
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    search_path::append_administrators_folders();
    // A closed pipe (`softband ... | head`) ends the command quietly, as in other tools.
    signals::default_broken_pipe();
    signals::take_file_limit_as_error();
    failures::abort_on_panic();
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(outcome) = mpirun::server::run_part_of_job(&words) {
        return end(outcome);
    }
    if let Some(words) = external::help_wanted(&words) {
        return end(external::run(&words));
    }
    let matches = definition::matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| definition::refuse(&error));
    own_parts::name(arguments.catalog);
    if !matches!(arguments.command, Command::Exec(_)) {
        inside::leave();
    }
    let outcome = match arguments.command {
        Command::Run(run) => run::check_pace(&run, matches.subcommand_matches("run")).and_then(|()| run::run(&run)),
        Command::Mpirun(arguments) => mpirun::run(&arguments),
        Command::Record(command) => recording::run(&command),
        Command::Up(up) => up::run(&up),
        Command::Exec(exec) => exec::run(&exec, matches.subcommand_matches("exec")),
        Command::Status(arguments) => status::status(&arguments),
        Command::Fault(arguments) => fault::run(&arguments),
        Command::Capture(arguments) => capture::live::run(&arguments),
        Command::Down(arguments) => status::down(&arguments),
        Command::Model(arguments) => model::run(&arguments, matches.subcommand_matches("model")),
        Command::Fabric(command) => fabric::run(&command),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Init(arguments) => init::run(&arguments),
        Command::Parts(command) => parts::run(&command),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::External(words) => external::run(&words),
    };
    end(outcome)
}

/// Prints an error, if there is one, and returns the exit status.
fn end(outcome: anyhow::Result<i32>) -> ExitCode {
    match outcome {
        Ok(status) => ExitCode::from(u8::try_from(status.clamp(0, 255)).unwrap_or(1)),
        Err(error) => {
            let remedy = failures::remedy(&error).map(|remedy| format!("\n  help: {remedy}")).unwrap_or_default();
            eprintln!("{}", output::error_text(&format!("{error:#}{remedy}")));
            ExitCode::from(2)
        }
    }
}
