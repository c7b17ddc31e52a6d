//! `cargo xtask models`: loom runs the models of the shared-memory protocol (`crates/shm-transport`),
//! and Miri its unit tests.

use anyhow::{Context, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "softband-shm-transport";
/// Crates that the models need.
const CRATES: [&str; 3] = ["types", "ipc", "shm-transport"];

/// A line of the protocol, a wrong line in its place, and the model that must notice.
struct Mutant {
    file: &'static str,
    from: &'static str,
    to: &'static str,
    model: &'static str,
}

const fn mutant(file: &'static str, from: &'static str, to: &'static str, model: &'static str) -> Mutant {
    Mutant { file, from, to, model }
}

const MUTANTS: &[Mutant] = &[
    mutant(
        "epoch_slots.rs",
        "number.fetch_add(1, Ordering::SeqCst);",
        "number.fetch_add(1, Ordering::AcqRel);",
        "an_entry_is_not_used_after_quiescence",
    ),
    mutant(
        "epoch_slots.rs",
        "compare_exchange(seen, seen + 1, Ordering::SeqCst",
        "compare_exchange(seen, seen + 1, Ordering::AcqRel",
        "two_threads_of_a_process_have_slots_of_their_own",
    ),
    mutant(
        "epoch_slots.rs",
        "number.store(number.load(Ordering::Relaxed) + 1, Ordering::Release);",
        "number.store(number.load(Ordering::Relaxed) + 1, Ordering::Relaxed);",
        "an_entry_is_not_used_after_quiescence",
    ),
    mutant("remote_cqe_ring.rs", "        fence(Ordering::SeqCst);\n", "", "no_event_is_lost"),
    mutant("arming.rs", "Self::ANY }, Ordering::SeqCst);", "Self::ANY }, Ordering::AcqRel);", "no_event_is_lost"),
    mutant("arming.rs", "word & fitting != 0).then_some", "word != u32::MAX).then_some", "one_arming_raises_one_event"),
    mutant(
        "remote_cqe_ring.rs",
        "&(*self.entry).sequence }.store(self.counter.wrapping_add(1), Ordering::Release);",
        "&(*self.entry).sequence }.store(self.counter.wrapping_add(1), Ordering::Relaxed);",
        "an_owner_sees_all_of_a_completion_or_nothing",
    ),
    mutant("remote_cqe_ring.rs", "lock.store(0, Ordering::Release);", "lock.store(0, Ordering::Relaxed);", "one_arming_raises_one_event"),
    mutant(
        "remote_cqe_ring.rs",
        "lock.compare_exchange(holder, me, Ordering::Acquire, Ordering::Relaxed).is_ok()",
        "lock.swap(me, Ordering::Acquire) < u32::MAX",
        "one_of_two_takes_the_lock_of_a_process_that_is_gone",
    ),
    mutant("remote_cqe_ring.rs", "if former == next {", "if former == next && next == 0 {", "an_entry_that_a_process_wrote_before_its_end_stays"),
    mutant(
        "remote_cqe_ring.rs",
        "let consumed = header.consumed.0.load(Ordering::Acquire);",
        "let consumed = header.consumed.0.load(Ordering::Relaxed);",
        "a_full_ring_takes_nothing_until_its_owner_has",
    ),
    mutant("connection.rs", "version(self.source)] == self.versions", "version(self.source)].len() == 3", "a_second_producer_joins_without_loss"),
    mutant(
        "receive_queue.rs",
        "header.produced.0.store(produced.wrapping_add(1), Ordering::Release);",
        "header.produced.0.store(produced.wrapping_add(1), Ordering::Relaxed);",
        "two_posts_reach_a_sender_in_order",
    ),
    mutant(
        "receive_queue.rs",
        "self.seen_mode.load(Ordering::Relaxed) != mode.0",
        "self.seen_mode.load(Ordering::Relaxed) == u32::MAX",
        "a_sender_forgets_its_counters_with_the_epoch",
    ),
    mutant("receive_queue.rs", "mode::MOVING => return Posted::Later,", "mode::MOVING => {}", "a_return_keeps_a_request_that_comes_meanwhile"),
    mutant(
        "queues.rs",
        "self.mode.store(self.mode.load(Ordering::SeqCst) & !mode::MASK | mode, Ordering::SeqCst);",
        "self.mode.store(self.mode.load(Ordering::SeqCst) & !mode::MASK | mode, Ordering::Release);",
        "a_takeover_gets_each_request_once",
    ),
    mutant("rq_consumer_lock.rs", "let is_held = holder != 0", "let is_held = holder == 1", "two_consumers_take_different_requests"),
    mutant(
        "rq_consumer_lock.rs",
        "self.header.consumed.0.compare_exchange(self.front, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()",
        "self.header.consumed.0.swap(next, Ordering::AcqRel) < u32::MAX",
        "a_consumer_that_the_engine_gave_up_and_the_engine_never_have_the_same_request",
    ),
    mutant(
        "queue_memory.rs",
        "consumed_now.compare_exchange(consumed, produced, Ordering::SeqCst, Ordering::Relaxed).is_ok()",
        "consumed_now.swap(produced, Ordering::SeqCst) < u32::MAX",
        "a_consumer_that_the_engine_gave_up_and_the_engine_never_have_the_same_request",
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns a call of cargo for the models in `folder` whose names contain `filter`. They have a target folder of their own,
/// because loom changes the flags of all crates, and cargo confuses a copy with its original.
fn cargo(folder: &Path, target: &str, filter: &str) -> Command {
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    cargo.current_dir(folder).env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", root().join("target").join(target));
    cargo.args(["test", "--quiet", "--release", "--lib", "-p", PACKAGE, "--", filter]);
    cargo
}

pub(crate) fn run(words: &[String]) -> anyhow::Result<()> {
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => all(None),
        ["--preemptions", number] => all(Some(number)),
        ["--mutants"] => mutants(),
        ["--miri"] => miri(),
        _ => bail!("cargo xtask models [--preemptions N | --mutants | --miri]"),
    }
}

fn all(preemptions: Option<&str>) -> anyhow::Result<()> {
    let mut cargo = cargo(&root(), "models", "models::");
    cargo.envs(preemptions.map(|number| ("LOOM_MAX_PREEMPTIONS", number)));
    ensure!(cargo.status().context("cannot start cargo")?.success(), "a model of the shared-memory protocol fails");
    Ok(())
}

/// Breaks the protocol in a copy, one chosen line at a time. Each time a model must fail.
fn mutants() -> anyhow::Result<()> {
    let copy = root().join("target/mutants/copy");
    let manifest = std::fs::read_to_string(root().join("Cargo.toml"))?;
    let members = CRATES.map(|name| format!("\"crates/{name}\"")).join(", ");
    std::fs::create_dir_all(copy.join("crates"))?;
    std::fs::write(copy.join("Cargo.toml"), manifest.replace("[\"crates/*\", \"xtask\"]", &format!("[{members}]")))?;
    std::fs::copy(root().join("Cargo.lock"), copy.join("Cargo.lock"))?;
    for name in CRATES {
        let from = root().join("crates").join(name);
        let _ = std::fs::remove_dir_all(copy.join("crates").join(name));
        ensure!(Command::new("cp").arg("-rT").arg(from).arg(copy.join("crates").join(name)).status()?.success(), "cp fails");
    }
    let mut survivors = Vec::new();
    for mutant in MUTANTS {
        let file = copy.join("crates/shm-transport/src").join(mutant.file);
        let text = std::fs::read_to_string(&file)?;
        let places = text.matches(mutant.from).count();
        ensure!(places == 1, "{} contains in {places} places, not in one: {}", mutant.file, mutant.from);
        std::fs::write(&file, text.replacen(mutant.from, mutant.to, 1))?;
        let output = cargo(&copy, "mutants", mutant.model).output()?;
        std::fs::write(&file, text)?;
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let is_found = said.contains("FAILED") && said.contains(mutant.model);
        println!("{} {}: {}", if is_found { "found   " } else { "SURVIVES" }, mutant.model, mutant.to.trim());
        if !is_found {
            survivors.push(format!("{}: {}\n{said}", mutant.file, mutant.to));
        }
    }
    ensure!(survivors.is_empty(), "no model notices:\n{}", survivors.join("\n"));
    Ok(())
}

/// Runs the unit tests of the crate under Miri, if the nightly toolchain has it.
fn miri() -> anyhow::Result<()> {
    let has_miri = Command::new("cargo").args(["+nightly", "miri", "--version"]).output().is_ok_and(|output| output.status.success());
    if !has_miri {
        println!("models: skipped, because Miri is missing; install it:  rustup component add --toolchain nightly miri rust-src");
        return Ok(());
    }
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root()).env("CARGO_TARGET_DIR", root().join("target").join("miri"));
    cargo.env_remove("RUSTUP_TOOLCHAIN").env("MIRIFLAGS", "-Zmiri-disable-isolation");
    let status = cargo.args(["+nightly", "miri", "test", "--quiet", "--lib", "-p", PACKAGE]).status()?;
    ensure!(status.success(), "Miri finds undefined behaviour");
    Ok(())
}
