//! The command line as clap has it: commands, options, help.

use crate::{exec, fabric, model, parts, run, status, up};
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// InfiniBand in software: run unmodified RDMA programs on a fabric that a file describes.
#[derive(Parser)]
#[command(name = "softband", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A folder with parts of your own, as catalog/ beside a fabric file is one, and those that SOFTBAND_CATALOG names
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) catalog: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
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
pub(crate) enum Command {
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
