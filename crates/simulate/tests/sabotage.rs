//! Each check can fail: a deliberate error between the World and the oracle is found.

use softband_catalog::Catalog;
use softband_simulate::{Plan, Rule, Sabotage, plan_of, shrink, try_with};
use std::path::Path;

/// Numbers at which an error is tried, because an error may hit an event that it cannot spoil.
const PLACES: [u64; 6] = [0, 3, 7, 12, 20, 33];
const SEEDS: u64 = 80;
/// Longer plans only take longer.
const ACTIONS_MAX: usize = 60;

fn catalog() -> Catalog {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog");
    Catalog::load(&folder).expect("the repository's catalogue")
}

/// Returns a plan in which the oracle finds the `wanted` rule broken by an error.
fn found(sabotage: impl Fn(u64) -> Sabotage, wanted: Rule) -> Option<Plan> {
    let catalog = catalog();
    for seed in 0..SEEDS {
        let plan = plan_of(seed, &catalog);
        if plan.actions.len() > ACTIONS_MAX {
            continue;
        }
        for place in PLACES {
            let broken = try_with(&plan, &catalog, Some(sabotage(place))).violation.map(|violation| violation.rule);
            if broken == Some(wanted) {
                return Some(plan);
            }
        }
    }
    None
}

#[test]
fn a_lost_completion_is_found() {
    assert!(found(Sabotage::DropCompletion, Rule::Completions).is_some());
    assert!(found(Sabotage::DropCompletion, Rule::Progress).is_some(), "the last completion of a queue leaves no gap");
}

#[test]
fn a_second_completion_is_found() {
    assert!(found(Sabotage::DuplicateCompletion, Rule::Completions).is_some());
}

#[test]
fn completions_out_of_order_are_found() {
    assert!(found(Sabotage::SwapCompletions, Rule::Completions).is_some());
}

#[test]
fn a_completion_of_another_length_is_found() {
    assert!(found(Sabotage::StretchCompletion, Rule::Completions).is_some());
}

#[test]
fn a_failure_without_a_reason_is_found() {
    assert!(found(Sabotage::FailCompletion, Rule::Outcome).is_some());
}

#[test]
fn a_wrong_byte_is_found() {
    assert!(found(Sabotage::CorruptByte, Rule::Content).is_some());
}

#[test]
fn lost_bytes_are_found() {
    assert!(found(Sabotage::DropWrite, Rule::Content).is_some());
    assert!(found(Sabotage::DropWrite, Rule::Order).is_some());
}

#[test]
fn bytes_that_arrive_twice_are_found() {
    assert!(found(Sabotage::RepeatWrite, Rule::Order).is_some());
}

#[test]
fn an_atomic_that_returns_another_value_is_found() {
    assert!(found(Sabotage::MisreportAtomic, Rule::Atomics).is_some());
}

#[test]
fn credits_that_disappear_are_found() {
    assert!(found(|place| Sabotage::SwallowCredit(place + 1), Rule::Credits).is_some());
}

#[test]
fn a_skipped_psn_is_found() {
    assert!(found(Sabotage::SkipPsn, Rule::PsnOrder).is_some());
}

#[test]
fn time_that_goes_back_is_found() {
    assert!(found(|place| Sabotage::TurnBackTime(place + 20), Rule::Time).is_some());
}

#[test]
fn a_deadlock_without_a_loop_is_found() {
    assert!(found(|place| Sabotage::InventDeadlock(place + 1), Rule::Deadlock).is_some());
}

#[test]
fn a_write_to_a_deregistered_region_is_found() {
    assert!(found(|_| Sabotage::KeepRegion, Rule::StaleMemory).is_some());
}

#[test]
fn a_failing_plan_shrinks_to_a_few_actions() {
    let catalog = catalog();
    let sabotage = Sabotage::CorruptByte(0);
    let fails = |plan: &Plan| try_with(plan, &catalog, Some(sabotage)).violation.is_some_and(|violation| violation.rule == Rule::Content);
    let plan = found(Sabotage::CorruptByte, Rule::Content).filter(|plan| fails(plan)).expect("a seed whose first byte matters");
    assert!(plan.actions.len() > 4, "there is something to drop");
    let shrunk = shrink(&plan, 400, fails);
    assert!(fails(&shrunk.plan));
    assert!(shrunk.plan.actions.len() <= 2 && shrunk.plan.connections.len() == 1, "{}", shrunk.plan);
    assert!(shrunk.plan.to_string().contains("posts a"), "{}", shrunk.plan);
}
