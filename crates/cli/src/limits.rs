//! Options that limit the duration of a run.

use anyhow::bail;
use clap::Args;
use softband_engine::{Failure, Limits};
use softband_sim::SimDuration;
use std::time::Duration;

/// Units of simulated time, in picoseconds.
const UNITS: [(&str, u64); 5] = [("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000), ("min", 60_000_000_000_000)];
/// End of simulated time for programs, after 106 days.
const PICOS_MAX: f64 = 9.0e18;
const SECONDS_MAX: f64 = 1.0e9;

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LimitArguments {
    /// End the run after this number of wall-clock seconds, list all waits, and exit with status 124
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// End the run at this simulated time ("10 ms", "2 s"), list all waits, and exit with status 124
    #[arg(long, value_name = "TIME", value_parser = simulated)]
    time_limit: Option<SimDuration>,
}

impl LimitArguments {
    /// Returns the limits of a run.
    ///
    /// # Errors
    /// If there is a limit of simulated time and the run has no simulated time.
    pub(crate) fn limits(self, has_simulated_time: bool) -> anyhow::Result<Limits> {
        if self.time_limit.is_some() && !has_simulated_time {
            bail!(
                "--time-limit is a moment of simulated time, and --pace wall has none\n  help: use --timeout SECONDS, which counts wall-clock time"
            );
        }
        Ok(Limits { wall: self.timeout, simulated: self.time_limit })
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= SECONDS_MAX => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write a number of seconds above 0, such as 30 or 2.5".into()),
    }
}

fn simulated(text: &str) -> Result<SimDuration, String> {
    let wanted = || "write a time with its unit, such as 10 ms or 2 s (units: ns, us, ms, s, min)".to_owned();
    let text = text.trim();
    let split = text.find(|letter: char| !(letter.is_ascii_digit() || letter == '.')).ok_or_else(wanted)?;
    let (number, unit) = text.split_at(split);
    let picos = UNITS.iter().find(|(name, _)| *name == unit.trim()).map(|(_, picos)| *picos as f64).ok_or_else(wanted)?;
    match number.parse::<f64>().map(|number| number * picos) {
        Ok(limit) if limit > 0.0 && limit <= PICOS_MAX => Ok(SimDuration::from_picos(limit as u64)),
        _ => Err(wanted()),
    }
}

/// Reports why a run was ended for lack of progress or time, and the waiting programs.
pub(crate) fn tell(failure: &Failure) {
    let (heading, waiting) = match failure {
        Failure::TimedOut { limit, waiting } => (format!("the run was ended after {limit}"), waiting),
        Failure::Stuck { waiting } => ("the run stands still: programs wait, and no event is left; Softband ended them".into(), waiting),
        _ => return,
    };
    let (colon, lines) = if waiting.is_empty() { ("", [].as_slice()) } else { (":", waiting.as_slice()) };
    eprintln!("softband: {heading}{colon}");
    lines.iter().for_each(|line| eprintln!("softband:   {line}"));
    if !lines.is_empty() && lines.iter().all(|line| line.contains("waits for a connection to its")) {
        eprintln!("softband:   help: each program is a server; start a client, as in --on b 'ib_write_lat a'");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers_with_their_units() {
        assert_eq!(seconds("2.5"), Ok(Duration::from_millis(2500)));
        for text in ["", "0", "-1", "2 s", "inf", "nan"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert_eq!(simulated("10 ms"), Ok(SimDuration::from_picos(10_000_000_000)));
        assert_eq!(simulated("1.5us"), Ok(SimDuration::from_picos(1_500_000)));
        for text in ["", "10", "ms", "10 weeks", "0 s", "-1 s", "1..5 s", "1e3 s", "1000000000 s"] {
            assert!(simulated(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_run_at_wall_pace_has_no_simulated_time_to_limit() {
        let arguments = LimitArguments { timeout: None, time_limit: Some(SimDuration::from_nanos(1)) };
        assert!(arguments.limits(true).is_ok());
        assert!(arguments.limits(false).is_err_and(|error| error.to_string().contains("--timeout")));
    }
}
