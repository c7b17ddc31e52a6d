//! The `softband` command.

#![deny(clippy::print_stdout)] // it panics where standard output is full: `output::say`
#![allow(clippy::disallowed_methods)] // the command line is the product's reader of the environment and of signals

mod counters;
mod exec;
mod external;
mod fabric;
mod fabric_loops;
mod generate;
mod home;
mod model;
mod output;
mod own_parts;
mod parts;
mod programs;
mod record;
mod run;
mod signals;
mod status;
mod up;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What a large fabric holds lies all over its memory: with pages of 2 MiB the processor finds most of it without walking its tables.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static ALLOCATOR_SETTINGS: &[u8; 30] = b"thp:always,metadata_thp:auto\0\0";

/// InfiniBand in software: run unmodified RDMA programs on a fabric that a file describes.
#[derive(Parser)]
#[command(name = "softband", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Arguments {
    /// A folder with parts of your own, as catalog/ beside a fabric file is one, and those that SOFTBAND_CATALOG names
    #[arg(long, global = true, value_name = "DIR")]
    catalog: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  softband run fabrics/ddr-through-switch.toml --on a 'ib_send_bw -a' --on b 'ib_send_bw -a a'
  softband run -n 2 --pace wall -- ./program
  softband up --detach; softband exec a -- ibv_devinfo; softband down
  softband fabric show fabrics/cables/ddr-switch-cx4-100m.toml
  softband model default incast --bytes 1MiB
  softband model default incast --sweep bytes=4KiB,64KiB,1MiB --sweep vls=1,8
  softband study cables --quick
  softband what-if --cable-length 1m..300m --vls 1,2,4,8

Any other command NAME runs softband-NAME from the same folder or from the PATH.";

#[derive(Subcommand)]
enum Command {
    /// Run programs on the hosts of a fabric, in virtual time or (--pace wall) at full speed
    Run(run::RunArguments),
    /// Bring a fabric up that stays, for programs from any terminal
    Up(up::UpArguments),
    /// Run a program on a host of a fabric that is up
    Exec(exec::ExecArguments),
    /// Show which fabrics are up, their hosts and the programs on them
    Status(status::StatusArguments),
    /// End a fabric that is up, and all programs on it
    Down(status::DownArguments),
    /// Drive a fabric by a workload or a trace instead of programs
    Model(model::ModelArguments),
    /// Check, show or generate a fabric file
    #[command(subcommand)]
    Fabric(fabric::FabricCommand),
    /// List the catalogue of parts, or show one with units and sources
    #[command(subcommand)]
    Parts(parts::PartsCommand),
    #[command(external_subcommand)]
    External(Vec<OsString>),
}

fn main() -> ExitCode {
    // A closed pipe (`softband ... | head`) ends the command quietly, as every other tool.
    signals::default_broken_pipe();
    let version: &'static str = Box::leak(own_parts::version().into_boxed_str());
    let matches = Arguments::command().version(version).get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    own_parts::name(arguments.catalog);
    let outcome = match arguments.command {
        Command::Run(run) => run::check_pace(&run, matches.subcommand_matches("run")).and_then(|()| run::run(&run)),
        Command::Up(up) => up::run(&up),
        Command::Exec(exec) => exec::run(&exec),
        Command::Status(arguments) => status::status(&arguments),
        Command::Down(arguments) => status::down(&arguments),
        Command::Model(arguments) => model::run(&arguments, matches.subcommand_matches("model")),
        Command::Fabric(command) => fabric::run(&command),
        Command::Parts(command) => parts::run(&command),
        Command::External(words) => external::run(&words),
    };
    match outcome {
        Ok(status) => ExitCode::from(u8::try_from(status.clamp(0, 255)).unwrap_or(1)),
        Err(error) => {
            eprintln!("softband: {error:#}");
            ExitCode::from(2)
        }
    }
}
