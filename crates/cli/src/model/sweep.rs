//! `--sweep`: many runs form a campaign, which the lab executes.

use super::ModelArguments;
use crate::external;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command};
use std::ffi::OsString;

#[derive(Args)]
pub(super) struct SweepArguments {
    /// Run once for each value. Repeat the option for all combinations. KEY is an option of the workload (bytes, senders, ...),
    /// vls, rate, cable-length, or the path of a key in the fabric file (subnet.max_op_vls)
    #[arg(long, value_name = "KEY=V1,V2,...")]
    sweep: Vec<String>,
    /// Place of a sweep's runs: a Dask scheduler (tcp://HOST:PORT), or slurm (default: this machine)
    #[arg(long, value_name = "CLUSTER", requires = "sweep")]
    cluster: Option<String>,
    /// Number of simultaneous runs of a sweep (default: one per core)
    #[arg(long, value_name = "N", requires = "sweep")]
    jobs: Option<u32>,
}

impl SweepArguments {
    pub(super) fn is_asked_for(&self) -> bool {
        !self.sweep.is_empty()
    }
}

/// Options that the lab's program reads itself. All others go to the runs.
const OF_THE_CAMPAIGN: [&str; 5] = ["sweep", "cluster", "jobs", "out", "check"];

pub(super) fn hand_over(matches: &ArgMatches) -> anyhow::Result<i32> {
    external::run(&words(matches))
}

/// Builds `model-sweep --sweep KEY=... --out DIR -- FABRIC WORKLOAD --option value ...`.
fn words(matches: &ArgMatches) -> Vec<OsString> {
    let (mut own, mut places, mut others) = (vec![OsString::from("model-sweep")], vec![OsString::from("--")], Vec::new());
    let command = ModelArguments::augment_args(Command::new("model"));
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        let values = matches.get_raw(id).into_iter().flatten().map(OsString::from);
        let Some(name) = argument.get_long() else {
            places.extend(values);
            continue;
        };
        let words = if OF_THE_CAMPAIGN.contains(&name) { &mut own } else { &mut others };
        let name = OsString::from(format!("--{name}"));
        if argument.get_action().takes_values() {
            words.extend(values.flat_map(|value| [name.clone(), value]));
        } else {
            words.push(name);
        }
    }
    [own, places, others].concat()
}

#[cfg(test)]
mod tests {
    use super::{ModelArguments, words};
    use clap::{Args, Command};

    #[test]
    fn the_runs_get_every_option_but_those_of_the_campaign() {
        let typed = "model --bytes 1MiB --sweep senders=1,2 fabric --allow-out-of-spec incast --out there --sweep vls=1,8 --jobs 3 --check --root a";
        let matches = ModelArguments::augment_args(Command::new("model")).get_matches_from(typed.split(' '));
        let words: Vec<String> = words(&matches).into_iter().map(|word| word.into_string().unwrap()).collect();
        let (own, runs) = words.split_at(words.iter().position(|word| word == "--").unwrap());
        assert_eq!(own[0], "model-sweep");
        for pair in [["--sweep", "senders=1,2"], ["--sweep", "vls=1,8"], ["--out", "there"], ["--jobs", "3"]] {
            assert!(own.windows(2).any(|words| words == pair), "{own:?}");
        }
        assert!(own.contains(&"--check".to_owned()));
        assert_eq!(own.len(), 10);
        assert_eq!(runs[..3], ["--", "fabric", "incast"]);
        for option in ["--bytes", "1MiB", "--root", "a", "--allow-out-of-spec"] {
            assert!(runs[3..].contains(&option.to_owned()), "{runs:?}");
        }
        assert_eq!(runs.len(), 8);
    }
}
