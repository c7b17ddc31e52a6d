//! A trial of a plan: panics of the model count as violations.

use crate::driver::{self, Packets, Report};
use crate::oracle::{Rule, Violation};
use crate::plan::Plan;
use crate::sabotage::Sabotage;
use softband_catalog::Catalog;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a plan and judges it.
pub fn try_plan(plan: &Plan, catalog: &Catalog) -> Report {
    try_with(plan, catalog, None)
}

/// Runs a plan without trains, hop by hop, and judges it.
pub fn try_one_by_one(plan: &Plan, catalog: &Catalog) -> Report {
    try_as(plan, catalog, Packets::OneByOne, None)
}

/// Runs a plan with a deliberate error in the tester.
pub fn try_with(plan: &Plan, catalog: &Catalog, sabotage: Option<Sabotage>) -> Report {
    try_as(plan, catalog, Packets::InTrains, sabotage)
}

fn try_as(plan: &Plan, catalog: &Catalog, packets: Packets, sabotage: Option<Sabotage>) -> Report {
    // A panic leaves the World behind, and nothing else shares state with it.
    let run = catch_unwind(AssertUnwindSafe(|| driver::run(plan, catalog, packets, sabotage)));
    run.unwrap_or_else(|panic| Report::of_violation(Violation::new(Rule::Panic, message_of(panic.as_ref()))))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}
