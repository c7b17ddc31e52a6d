//! The command line for clap: commands, options, help. Completions and man pages derive from it.

use crate::{capture, completions, doctor, exec, external, fabric, fault, init, model, mpirun, own_parts, parts, recording, run, status, up};
use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// InfiniBand in software: run unmodified RDMA programs on a fabric that a file describes.
#[derive(Parser)]
#[command(name = "softband", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Folder with your own parts, besides catalog/ beside the fabric file and the folders in SOFTBAND_CATALOG
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) catalog: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "Examples:
  softband run fabrics/ddr-through-switch.toml --on a 'ib_send_bw -a' --on b 'ib_send_bw -a a'
  softband run -n 2 --pace wall -- ./program
  softband mpirun -n 4 ./mpi-program
  softband up --detach; softband exec a -- ibv_devinfo; softband down
  softband fabric show fabrics/cables/ddr-switch-cx4-100m.toml
  softband model default incast --bytes 1MiB
  softband model default incast --sweep bytes=4KiB,64KiB,1MiB --sweep vls=1,8
  softband study cables --quick
  softband what-if --cable-length 1m..300m --vls 1,2,4,8

`softband COMMAND --help` lists the options of a command. Any other command NAME runs softband-NAME from the same folder or from the PATH.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run programs on the hosts of a fabric, in simulated time or at full speed (--pace wall)
    Run(run::RunArguments),
    /// Run an MPI program on the hosts of a fabric (MPICH, Open MPI), in simulated time or at full speed (--pace wall)
    Mpirun(mpirun::MpirunArguments),
    /// Bring up a fabric that stays, for programs from any terminal
    Up(up::UpArguments),
    /// Run a program on a host of a running fabric
    Exec(exec::ExecArguments),
    /// Show the running fabrics, their hosts and programs
    Status(status::StatusArguments),
    /// Inject a fault into a running fabric: links, hosts, switches, packets
    Fault(fault::FaultArguments),
    /// Write the packets of a running fabric to a pcap file
    Capture(capture::live::LiveArguments),
    /// End a running fabric and all programs on it
    Down(status::DownArguments),
    /// Run a workload or a trace on a fabric, without programs
    Model(model::ModelArguments),
    /// Record the computation and the calls of an MPI program, and make traces of them
    #[command(subcommand)]
    Record(recording::RecordCommand),
    /// Name the limits of this machine that Softband feels, with their remedies
    Doctor(doctor::DoctorArguments),
    /// Ask four questions, and write a first fabric file
    Init(init::InitArguments),
    /// List, check, format, show, generate, import or export fabric files
    #[command(subcommand)]
    Fabric(fabric::FabricCommand),
    /// List the catalogue of parts, or show a part with units and sources
    #[command(subcommand)]
    Parts(parts::PartsCommand),
    /// Print shell completions, or write the man pages
    Completions(completions::CompletionsArguments),
    #[command(external_subcommand)]
    External(Vec<OsString>),
}

/// Returns the definition with every command, including commands that are programs of their own.
pub(crate) fn complete() -> clap::Command {
    let companion = |(name, about): (String, String)| {
        let more = format!("{about}.\n\n`softband {name}` is a separate program: `softband {name} --help` lists its options.");
        // clap keeps names for the life of the process.
        let name: &'static str = name.leak();
        let words = clap::Arg::new("arguments").num_args(0..).trailing_var_arg(true).allow_hyphen_values(true);
        clap::Command::new(name).about(about).long_about(more).arg(words.value_name("ARGUMENTS").help("Its own options and arguments"))
    };
    definition().subcommands(external::companions().into_iter().map(companion))
}

fn definition() -> clap::Command {
    let version: &'static str = Box::leak(own_parts::version().into_boxed_str());
    with_negative_numbers(Arguments::command().version(version))
}

/// Makes clap treat a value such as -3 as a wrong value, not as an unknown option.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let takes = |argument: &clap::Arg| argument.get_action().takes_values() && !argument.is_positional();
    command
        .mut_args(|argument| if takes(&argument) { argument.allow_negative_numbers(true) } else { argument })
        .mut_subcommands(with_negative_numbers)
}

/// Parses the command line. Help, the version and mistakes end the command here.
pub(crate) fn matches() -> ArgMatches {
    definition().try_get_matches().unwrap_or_else(|error| match error.kind() {
        ErrorKind::DisplayVersion => error.exit(),
        // Only the help knows the commands that are other programs. They get their words unchanged.
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => complete().get_matches(),
        _ => refuse(&error),
    })
}

/// Prints a mistake in the words, in the form of every error, and ends the command.
pub(crate) fn refuse(error: &clap::Error) -> ! {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    eprintln!("{}", in_our_form(&error.render().to_string(), &command_of(&words)));
    std::process::exit(error.exit_code())
}

/// Returns the command at the beginning of the words, such as `softband fabric show`.
fn command_of(words: &[OsString]) -> String {
    let (definition, mut path) = (definition(), String::from("softband"));
    let mut command = &definition;
    for word in words.iter().map_while(|word| word.to_str()) {
        let Some(next) = command.find_subcommand(word) else { break };
        command = next;
        path.push(' ');
        path.push_str(word);
    }
    path
}

/// Converts clap's paragraphs to the error with its details, the remedy, and the usage.
fn in_our_form(rendered: &str, command: &str) -> String {
    let (mut text, mut remedies, mut known, mut usages) = (String::new(), Vec::new(), None, String::new());
    for line in rendered.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(what) = line.strip_prefix("error: ") {
            text = format!("softband: error: {}", what.replace("invalid digit found in string", "this is not a whole number"));
        } else if let Some(tip) = line.strip_prefix("tip: ") {
            remedies.push(of_suggestion(tip).unwrap_or_else(|| tip.replace('\'', "`")));
        } else if let Some(values) = line.strip_prefix("[possible values: ") {
            known = Some(values.trim_end_matches(']'));
        } else if let Some(help) = line.strip_prefix("help: ") {
            remedies.push(help.to_owned());
        } else if let Some(usage) = line.strip_prefix("Usage: ") {
            usages = format!("\n  usage: {usage}");
        } else if !line.starts_with("For more information") {
            text.push_str(&format!("\n  {line}"));
        }
    }
    if let Some((before, range)) = text.split_once(" is not in ") {
        let range = range.replace("..=", " to ").replace("..", " to ");
        remedies.push(format!("write {range}"));
        text = format!("{before} is out of range");
    }
    if let Some(values) = known {
        remedies.push(format!("{} values are: {values}", if remedies.is_empty() { "the" } else { "The" }));
    }
    if remedies.is_empty() {
        remedies.push(format!("`{command} --help` explains this command"));
    }
    format!("{text}\n  help: {}{usages}", remedies.join(" "))
}

/// Converts `a similar argument exists: '--out'`.
fn of_suggestion(tip: &str) -> Option<String> {
    let names = tip.split_once(" exists: ").or_else(|| tip.split_once(" exist: "))?.1;
    Some(format!("did you mean {}?", names.replace('\'', "`")))
}

#[cfg(test)]
mod tests {
    use super::{command_of, complete, in_our_form};

    #[test]
    fn the_definition_has_no_mistakes() {
        complete().debug_assert();
    }

    #[test]
    fn mistakes_in_words_have_the_form_of_every_error() {
        let said = |words: &[&str]| {
            let given: Vec<std::ffi::OsString> = words[1..].iter().map(Into::into).collect();
            in_our_form(&super::definition().try_get_matches_from(words).unwrap_err().render().to_string(), &command_of(&given))
        };
        assert_eq!(
            said(&["softband", "model", "default", "incast", "--byte", "1"]),
            "softband: error: unexpected argument '--byte' found\n  help: did you mean `--bytes`?\n  usage: softband model --bytes <BYTES> <FABRIC> <WORKLOAD>"
        );
        let missing = said(&["softband", "model"]);
        assert!(
            missing.starts_with(
                "softband: error: the following required arguments were not provided:\n  <FABRIC>\n  <WORKLOAD>\n  \
                 help: `softband model --help` explains this command\n  usage: "
            ),
            "{missing}"
        );
        assert_eq!(
            said(&["softband", "model", "default", "stream", "--bytes", "-3"]),
            "softband: error: invalid value '-3' for '--bytes <BYTES>': `-3` is not a size\n  \
             help: write bytes (65536), or a number with B, KiB, MiB or GiB (64KiB)"
        );
        assert_eq!(
            said(&["softband", "model", "default", "stream", "--threads", "0"]),
            "softband: error: invalid value '0' for '--threads <N>': 0 is out of range\n  help: write 1 to 64"
        );
        assert_eq!(
            said(&["softband", "completions", "zshh"]),
            "softband: error: invalid value 'zshh' for '[SHELL]'\n  help: did you mean `zsh`? The values are: bash, elvish, fish, powershell, zsh"
        );
        assert_eq!(
            said(&["softband", "fault", "x"]),
            "softband: error: unrecognized subcommand 'x'\n  help: `softband fault --help` explains this command\n  \
             usage: softband fault [OPTIONS] <COMMAND>"
        );
    }
}
