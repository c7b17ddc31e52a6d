//! `cargo xtask simulate`: random fabrics, programs and faults under an oracle.

use anyhow::{Context, Result, bail};
use softband_catalog::Catalog;
use softband_simulate::Campaign;
use std::time::{Duration, Instant};

/// Runs `cargo xtask simulate SEED` or `cargo xtask simulate --minutes M [--from SEED]`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (mut seeds, mut minutes, mut from) = (Vec::new(), None, 0);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--minutes" => minutes = Some(number::<f64>(rest.next(), "--minutes")?),
            "--from" => from = number(rest.next(), "--from")?,
            seed => seeds.push(number::<u64>(Some(&seed.to_owned()), "SEED")?),
        }
    }
    let folder = crate::link::root().join("catalog");
    let catalog = Catalog::load(&folder).map_err(|error| anyhow::anyhow!("{error}"))?;
    // A panic of the model is a result, which the report contains.
    std::panic::set_hook(Box::new(|_| {}));
    match (minutes, seeds.is_empty()) {
        (Some(minutes), true) => campaign(&catalog, minutes, from),
        (None, false) => seeds.into_iter().try_for_each(|seed| one(&catalog, seed)),
        _ => bail!("name a seed, or the minutes of a campaign: cargo xtask simulate SEED, or --minutes 10 [--from SEED]"),
    }
}

fn number<T: std::str::FromStr>(text: Option<&String>, name: &str) -> Result<T> {
    let text = text.with_context(|| format!("{name} needs a number"))?;
    text.parse().ok().with_context(|| format!("{name} needs a number, not `{text}`"))
}

fn one(catalog: &Catalog, seed: u64) -> Result<()> {
    let mut campaign = Campaign::default();
    let report = campaign.run(seed, catalog).or_else(|failure| {
        println!("{failure}");
        bail!("seed {seed} violates an invariant")
    })?;
    println!("{campaign}");
    println!("seed {seed}: every invariant holds; {} ns of simulated time, digest {}", report.ended.as_nanos(), report.digest);
    Ok(())
}

fn campaign(catalog: &Catalog, minutes: f64, from: u64) -> Result<()> {
    let (began, length) = (Instant::now(), Duration::from_secs_f64(minutes * 60.0));
    let mut campaign = Campaign::default();
    let mut seed = from;
    while began.elapsed() < length {
        if let Err(failure) = campaign.run(seed, catalog) {
            println!("{campaign}\n{failure}");
            bail!("seed {seed} violates an invariant");
        }
        seed += 1;
    }
    println!("{campaign}");
    println!("every invariant holds for the seeds {from} to {}", seed.saturating_sub(1));
    Ok(())
}
