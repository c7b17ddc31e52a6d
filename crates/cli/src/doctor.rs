//! `softband doctor`: limits of this machine that Softband feels, with their remedies.
//!
//! Each check tries the operation itself where that is possible: files of `/proc` and `/sys` only
//! say why it fails.

mod control_groups;
mod finding;
mod folders;
mod kernel;
mod limits;
mod machine;
mod memory_access;
mod probe;
mod programs;
mod trial_run;

use crate::output;
use clap::Args;
use finding::{Finding, Health};
use serde_json::json;

/// Exit status if something is broken.
const EXIT_BROKEN: i32 = 1;

#[derive(Args)]
pub(crate) struct DoctorArguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &DoctorArguments) -> anyhow::Result<i32> {
    let findings = all();
    let count = |health| findings.iter().filter(|finding| finding.health == health).count();
    let [fine, limited, broken] = [Health::Ok, Health::Limited, Health::Broken].map(count);
    if arguments.json {
        let checks: Vec<_> = findings.iter().map(Finding::to_json).collect();
        output::say(format_args!("{:#}\n", json!({ "ok": fine, "limited": limited, "broken": broken, "checks": checks })))?;
    } else {
        let width = findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
        let lines: String = findings.iter().map(|finding| finding.to_text(width)).collect();
        output::say(format_args!("{lines}{fine} ok, {limited} limited, {broken} broken\n"))?;
    }
    Ok(if broken > 0 { EXIT_BROKEN } else { 0 })
}

/// Makes all checks. The order is that of causes: a kernel without a call makes the trial run fail.
fn all() -> Vec<Finding> {
    let mut findings = kernel::findings();
    findings.push(memory_access::finding());
    findings.extend(machine::findings());
    findings.extend(limits::findings());
    findings.extend(folders::findings());
    findings.extend(programs::findings());
    findings.extend(trial_run::findings());
    findings
}
