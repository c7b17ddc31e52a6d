//! `cargo xtask simulate`: random fabrics, programs and faults under an oracle.

use anyhow::{Context, Result, bail};
use softband_catalog::Catalog;
use softband_simulate::{Campaign, Failure, Report};
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

/// Runs `cargo xtask simulate SEED` or `cargo xtask simulate --minutes M [--from SEED]`. Without
/// `--from`, each campaign begins at another seed.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (mut seeds, mut minutes, mut from) = (Vec::new(), None, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--minutes" => minutes = Some(number::<f64>(rest.next(), "--minutes")?),
            "--from" => from = Some(number(rest.next(), "--from")?),
            seed => seeds.push(number::<u64>(Some(&seed.to_owned()), "SEED")?),
        }
    }
    let folder = crate::link::root().join("catalog");
    let catalog = Catalog::load(&folder).map_err(|error| anyhow::anyhow!("{error}"))?;
    // A panic of the model is a result, and a shrink repeats it.
    let told = Mutex::new(BTreeSet::new());
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        if told.lock().is_ok_and(|mut told| told.insert(place)) {
            eprintln!("{panic}");
        }
    }));
    match (minutes, seeds.is_empty()) {
        (Some(minutes), true) => campaign(&catalog, minutes, from.unwrap_or_else(seed_of_now)),
        (None, false) => seeds.into_iter().try_for_each(|seed| one(&catalog, seed)),
        _ => bail!("name a seed, or the minutes of a campaign: cargo xtask simulate SEED, or --minutes 10 [--from SEED]"),
    }
}

/// Returns a seed from the clock: the seconds since 1970, times a thousand.
fn seed_of_now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() * 1_000)
}

fn number<T: std::str::FromStr>(text: Option<&String>, name: &str) -> Result<T> {
    let text = text.with_context(|| format!("{name} needs a number"))?;
    text.parse().ok().with_context(|| format!("{name} needs a number, not `{text}`"))
}

fn one(catalog: &Catalog, seed: u64) -> Result<()> {
    let mut campaign = Campaign::default();
    let report = run_seed(&mut campaign, seed, catalog)?.or_else(|failure| {
        println!("{failure}");
        bail!("seed {seed} violates an invariant")
    })?;
    println!("{campaign}");
    println!("seed {seed}: every invariant holds; {} ns of simulated time, digest {}", report.ended.as_nanos(), report.digest);
    Ok(())
}

/// Runs one seed.
///
/// # Errors
/// If the tester itself panics.
fn run_seed(campaign: &mut Campaign, seed: u64, catalog: &Catalog) -> Result<Result<Report, Box<Failure>>> {
    let run = AssertUnwindSafe(|| campaign.run(seed, catalog));
    std::panic::catch_unwind(run).map_err(|_| anyhow::anyhow!("the tester itself panics with seed {seed}"))
}

fn campaign(catalog: &Catalog, minutes: f64, from: u64) -> Result<()> {
    let (began, length) = (Instant::now(), Duration::from_secs_f64(minutes * 60.0));
    let mut campaign = Campaign::default();
    let mut seed = from;
    println!("seeds from {from} on");
    while began.elapsed() < length {
        if let Err(failure) = run_seed(&mut campaign, seed, catalog)? {
            println!("{campaign}\n{failure}");
            bail!("seed {seed} violates an invariant");
        }
        seed += 1;
    }
    println!("{campaign}");
    println!("every invariant holds for the seeds {from} to {}", seed.saturating_sub(1));
    Ok(())
}
