//! Many seeds: runs one after another, counts what they covered, and shrinks a failure.

use crate::oracle::{Rule, Violation};
use crate::plan::{Plan, Step};
use crate::shrink::{Shrunk, shrink};
use crate::{Report, plan_of, try_one_by_one, try_plan};
use softband_catalog::Catalog;
use std::collections::BTreeMap;
use std::fmt;

/// Trials of a shrink.
const TRIALS_MAX: u32 = 600;
/// Seeds that run once for each that runs twice, to compare both runs.
const TWICE_EVERY: u64 = 16;
/// Seeds for each that also runs without trains, to compare both runs.
const ONE_BY_ONE_EVERY: u64 = 2;

/// A failing seed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    pub violation: Violation,
    pub shrunk: Shrunk,
    /// Violation of the shrunk plan.
    pub remaining: Violation,
}

/// Counts of the seeds so far.
#[derive(Clone, Debug, Default)]
pub struct Campaign {
    pub seeds: u64,
    pub events: u64,
    pub packets: u64,
    /// Passages of packets through switches in trains.
    pub passages: u64,
    /// Seeds by feature.
    pub features: BTreeMap<String, u64>,
    /// Requests that succeeded, by operation, and those that failed, by status.
    pub successes: BTreeMap<&'static str, u64>,
    pub failures: BTreeMap<&'static str, u64>,
}

impl Campaign {
    /// Runs one seed.
    ///
    /// # Errors
    /// The shrunk failure.
    pub fn run(&mut self, seed: u64, catalog: &Catalog) -> Result<Report, Box<Failure>> {
        let plan = plan_of(seed, catalog);
        let report = try_plan(&plan, catalog);
        if let Some(violation) = report.violation {
            return Err(Box::new(failure(plan, violation, catalog)));
        }
        if seed.is_multiple_of(TWICE_EVERY) {
            let again = try_plan(&plan, catalog);
            if again.digest != report.digest {
                let detail = format!("digests {} and {}", report.digest, again.digest);
                let violation = Violation::new(Rule::Determinism, detail);
                return Err(Box::new(failure(plan, violation, catalog)));
            }
        }
        if seed.is_multiple_of(ONE_BY_ONE_EVERY) {
            let one_by_one = try_one_by_one(&plan, catalog);
            if one_by_one.digest != report.digest {
                let detail = format!("digests {} in trains and {} one by one", report.digest, one_by_one.digest);
                return Err(Box::new(failure(plan, Violation::new(Rule::Trains, detail), catalog)));
            }
        }
        self.count(&plan, &report);
        Ok(report)
    }

    fn count(&mut self, plan: &Plan, report: &Report) {
        self.seeds += 1;
        self.events += report.events;
        self.packets += report.packets;
        self.passages += report.passages;
        for feature in features_of(plan, report) {
            *self.features.entry(feature).or_default() += 1;
        }
        for (total, of_run) in [(&mut self.successes, &report.successes), (&mut self.failures, &report.failures)] {
            of_run.iter().for_each(|(name, count)| *total.entry(name).or_default() += count);
        }
    }
}

fn failure(plan: Plan, violation: Violation, catalog: &Catalog) -> Failure {
    let fails = |plan: &Plan| match violation.rule {
        Rule::Determinism => try_plan(plan, catalog).digest != try_plan(plan, catalog).digest,
        Rule::Trains => try_plan(plan, catalog).digest != try_one_by_one(plan, catalog).digest,
        // A panic elsewhere is another failure.
        Rule::Panic => try_plan(plan, catalog).violation.is_some_and(|found| words_of(&found) == words_of(&violation)),
        rule => try_plan(plan, catalog).violation.is_some_and(|found| found.rule == rule),
    };
    let shrunk = shrink(&plan, TRIALS_MAX, fails);
    let remaining = try_plan(&shrunk.plan, catalog).violation.unwrap_or_else(|| violation.clone());
    Failure { seed: plan.seed, violation, shrunk, remaining }
}

/// Returns rule and message of a violation without the numbers in it.
fn words_of(violation: &Violation) -> String {
    violation.to_string().chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

/// Returns the features that a run had.
fn features_of(plan: &Plan, report: &Report) -> Vec<String> {
    let fabric = &plan.fabric;
    let shape = format!("{:?}", fabric.shape);
    let mut features = vec![shape.split(' ').next().unwrap_or_default().to_lowercase()];
    let mut add = |is_on: bool, name: &str| features.extend(is_on.then(|| name.to_owned()));
    add(fabric.ethernet.is_some(), "ethernet");
    add(!fabric.weights.is_empty(), "qos");
    add(fabric.congestion_control, "congestion control");
    add(fabric.tweaks != crate::plan::Tweaks::default(), "tight parts");
    add(plan.loss_ppm > 0, "packet loss");
    add(plan.is_calm(), "calm");
    add(report.deadlocks > 0, "deadlock");
    add(plan.processes.iter().any(|process| process.shares_receives), "shared receive queue");
    for (step, name) in [
        ("Reconnect", "reconnect"),
        ("Kill", "dead process"),
        ("Deregister", "deregistration"),
        ("Break", "broken"),
        ("Drain", "drained"),
        ("Destroy", "destroyed"),
    ] {
        add(plan.actions.iter().any(|action| name_of(&action.step) == step), name);
    }
    let transports = plan.connections.iter().map(|connection| format!("{:?}", connection.transport));
    let faults = plan.faults.iter().map(|fault| fault.kind.name().replace('_', " "));
    features.extend(transports.chain(faults));
    features.sort();
    features.dedup();
    features
}

fn name_of(step: &Step) -> &'static str {
    match step {
        Step::Post { .. } => "Post",
        Step::Deregister { .. } => "Deregister",
        Step::Reconnect { .. } => "Reconnect",
        Step::Drain { .. } => "Drain",
        Step::Resume { .. } => "Resume",
        Step::Break { .. } => "Break",
        Step::Destroy { .. } => "Destroy",
        Step::Kill { .. } => "Kill",
    }
}

fn list<K: fmt::Display>(counts: &BTreeMap<K, u64>) -> String {
    let words: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    words.join(", ")
}

impl fmt::Display for Campaign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} seeds, {} events, {} packets, {} passages in trains", self.seeds, self.events, self.packets, self.passages)?;
        writeln!(f, "features by seeds: {}", list(&self.features))?;
        writeln!(f, "requests that succeeded: {}", list(&self.successes))?;
        write!(f, "requests that failed: {}", list(&self.failures))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.violation)?;
        writeln!(f, "the smallest plan that fails, after {} trials:\n", self.shrunk.trials)?;
        writeln!(f, "{}", self.shrunk.plan)?;
        writeln!(f, "it fails with: {}", self.remaining)?;
        write!(f, "repeat it: cargo xtask simulate {}", self.seed)
    }
}
