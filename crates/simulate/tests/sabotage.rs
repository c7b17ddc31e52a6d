//! Checks can fail: the oracle finds a deliberate error between the World and the oracle. The checks
//! of the fabric file and of two equal runs have no deliberate error.

use softband_catalog::Catalog;
use softband_simulate::plan::{Action, ConnectionPlan, End, Flaw, Message, Operation, ReceivePlan, Shape, Step};
use softband_simulate::{Plan, Rule, Sabotage, plan_of, shrink, try_with};
use softband_types::QpType;
use std::path::Path;
use std::sync::OnceLock;

/// Events of a kind at which an error is tried; some events cannot show it.
const PLACES: std::ops::Range<u64> = 0..200;

fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog");
        Catalog::load(&folder).expect("the repository's catalogue")
    })
}

/// Returns a plan of two processes on two hosts, whose HCAs have windows, with these actions.
fn plan(actions: Vec<Action>) -> Plan {
    let binds = |action: &Action| matches!(action.step, Step::Post { message: Message { operation: Operation::Bind { .. }, .. }, .. });
    // New parts of the catalogue change the plan of each seed.
    let is_patient = |plan: &Plan| plan.fabric.lifetime.is_none_or(|code| code >= 16);
    let is_plain =
        |plan: &Plan| plan.fabric.ethernet.is_none() && is_patient(plan) && matches!(plan.fabric.shape, Shape::Pair { .. } | Shape::Star { .. });
    let drawn = (0..).map(|seed| plan_of(seed, catalog())).find(|plan| is_plain(plan) && plan.actions.iter().any(binds));
    let mut plan = drawn.expect("the search has no end");
    plan.processes.truncate(2);
    plan.processes.iter_mut().for_each(|process| process.shares_receives = false);
    let receives = ReceivePlan { depth: 32, from_nanos: 0, lag_nanos: 100, len_bytes: 4_096, pieces: 1 };
    let connection = ConnectionPlan {
        transport: QpType::Rc,
        ends: [0, 1],
        receives: [receives; 2],
        service_level: 0,
        mtu_bytes: 256,
        ack_timeout: 17,
        retry_count: 7,
        rnr_retry: 7,
        rnr_timer: 1,
        rd_atomic: 1,
        send_depth: 64,
        signals_all: false,
        first_psn: 0xFF_FFF0,
    };
    Plan { connections: vec![connection], actions, faults: Vec::new(), loss_ppm: 0, ..plan }
}

fn post(at_nanos: u64, side: usize, operation: Operation, len_bytes: u32, signaled: bool) -> Action {
    let end = End { connection: 0, side };
    let message =
        Message { operation, len_bytes, pieces: 1, signaled, solicited: false, fence: false, inline: false, immediate: false, flaw: Flaw::None };
    Action { at_nanos, step: Step::Post { end, message } }
}

/// Returns a plan in which every request succeeds.
fn calm() -> Plan {
    // The second side follows the first. Completions of both would alternate on equal hosts.
    let at = |number: u64, side: usize| 1_000 + 1_500 * number + 100_000 * side as u64;
    let of_side = |number: u64, side: usize| {
        let at = at(number, side);
        [
            post(at, side, Operation::Send, 300, true),
            post(at, side, Operation::Write { region: 1 }, 700, number.is_multiple_of(2)),
            post(at, side, Operation::Send, 8, false),
            post(at, side, Operation::Read, 600, true),
            post(at, side, Operation::FetchAdd, 8, true),
            post(at, side, Operation::CompareSwap, 8, true),
        ]
    };
    let plan = plan((0..5).flat_map(|number| [0, 1].map(|side| of_side(number, side))).flatten().collect());
    assert!(plan.fabric.lifetime.is_none_or(|code| code >= 16) && plan.is_calm());
    assert_eq!(try_with(&plan, catalog(), None).violation, None);
    plan
}

/// Returns whether the oracle finds the `wanted` rule broken by an error in some place.
fn is_found(plan: &Plan, sabotage: impl Fn(u64) -> Sabotage, wanted: Rule) -> bool {
    let broken = |place| try_with(plan, catalog(), Some(sabotage(place))).violation.map(|violation| violation.rule);
    PLACES.map(broken).any(|rule| rule == Some(wanted))
}

#[test]
fn a_lost_completion_is_found() {
    let plan = calm();
    assert!(is_found(&plan, Sabotage::DropCompletion, Rule::Completions));
    assert!(is_found(&plan, Sabotage::DropCompletion, Rule::Progress), "the last completion of a queue leaves no gap");
}

#[test]
fn a_second_completion_is_found() {
    assert!(is_found(&calm(), Sabotage::DuplicateCompletion, Rule::Completions));
}

#[test]
fn completions_out_of_order_are_found() {
    assert!(is_found(&calm(), Sabotage::SwapCompletions, Rule::Completions));
}

#[test]
fn a_completion_of_another_length_is_found() {
    assert!(is_found(&calm(), Sabotage::StretchCompletion, Rule::Completions));
}

#[test]
fn a_failure_without_a_reason_is_found() {
    assert!(is_found(&calm(), Sabotage::FailCompletion, Rule::Outcome));
}

#[test]
fn a_wrong_byte_is_found() {
    assert!(is_found(&calm(), Sabotage::CorruptByte, Rule::Content));
}

#[test]
fn lost_bytes_are_found() {
    let plan = calm();
    assert!(is_found(&plan, Sabotage::DropWrite, Rule::Content));
    assert!(is_found(&plan, Sabotage::DropWrite, Rule::Order));
}

#[test]
fn bytes_that_arrive_twice_are_found() {
    assert!(is_found(&calm(), Sabotage::RepeatWrite, Rule::Order));
}

#[test]
fn an_atomic_that_returns_another_value_is_found() {
    assert!(is_found(&calm(), Sabotage::MisreportAtomic, Rule::Atomics));
}

#[test]
fn credits_that_disappear_are_found() {
    assert!(is_found(&calm(), |place| Sabotage::SwallowCredit(place + 1), Rule::Credits));
}

#[test]
fn a_skipped_psn_is_found() {
    assert!(is_found(&calm(), Sabotage::SkipPsn, Rule::PsnOrder));
}

#[test]
fn time_that_goes_back_is_found() {
    assert!(is_found(&calm(), |place| Sabotage::TurnBackTime(place + 20), Rule::Time));
}

#[test]
fn a_deadlock_without_a_loop_is_found() {
    assert!(is_found(&calm(), |place| Sabotage::InventDeadlock(place + 1), Rule::Deadlock));
}

#[test]
fn a_write_to_a_deregistered_region_is_found() {
    let mut actions: Vec<Action> = (0..20).map(|number| post(1_000 + 1_000 * number, 0, Operation::Write { region: 1 }, 900, true)).collect();
    actions.push(Action { at_nanos: 12_000, step: Step::Deregister { process: 1, region: 1 } });
    let plan = plan(actions);
    assert_eq!(try_with(&plan, catalog(), None).violation, None);
    assert!(is_found(&plan, |_| Sabotage::KeepRegion, Rule::StaleMemory));
}

#[test]
fn a_write_through_an_invalidated_window_is_found() {
    let (bind, write) = (Operation::Bind { region: 1 }, Operation::WriteWindow);
    let plan = plan(vec![post(1_000, 1, bind, 0, true), post(200_000, 0, write, 64, true)]);
    let report = try_with(&plan, catalog(), None);
    assert_eq!((report.violation, report.successes.get("write through a window")), (None, Some(&1)));
    assert!(is_found(&plan, |_| Sabotage::CloseWindows, Rule::StaleMemory));
}

#[test]
fn a_run_without_an_end_is_found() {
    let violation = try_with(&calm(), catalog(), Some(Sabotage::GoOn)).violation.expect("it never ends");
    assert_eq!(violation.rule, Rule::End);
}

#[test]
fn a_panic_is_a_violation_and_not_the_end_of_the_tester() {
    let mut plan = calm();
    plan.connections[0].ends = [99, 99];
    let violation = try_with(&plan, catalog(), None).violation.expect("there is no such process");
    assert_eq!(violation.rule, Rule::Panic);
    assert!(violation.detail.contains("index out of bounds"), "{violation}");
}

#[test]
fn a_failing_plan_shrinks_to_a_single_action() {
    let fails = |plan: &Plan| {
        let violation = try_with(plan, catalog(), Some(Sabotage::CorruptByte(0))).violation;
        violation.is_some_and(|violation| violation.rule == Rule::Content)
    };
    let plan = calm();
    assert!(fails(&plan) && plan.actions.len() == 60);
    let shrunk = shrink(&plan, 400, fails);
    assert!(fails(&shrunk.plan));
    assert_eq!(shrunk.plan.actions.len(), 1, "{}", shrunk.plan);
    assert!(shrunk.plan.to_string().contains("posts a"), "{}", shrunk.plan);
}
