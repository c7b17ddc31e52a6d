//! The report for people: short, with units.

use super::results::Results;
use crate::output::count;
use crate::why::Bottleneck;
use softband_parallel::Progress;
use softband_workload::Feeder;
use std::fmt::Write;

/// Most hot ports and phases in the report. The files contain all.
const SHOWN: usize = 5;
const FEEDERS_SHOWN: usize = 3;

pub(super) fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.3} s"),
        s if s >= 1e-3 => format!("{:.3} ms", s * 1e3),
        s => format!("{:.3} us", s * 1e6),
    }
}

fn rate(bytes_per_second: f64) -> String {
    match bytes_per_second {
        rate if rate >= 1e9 => format!("{:.3} GB/s", rate / 1e9),
        rate => format!("{:.1} MB/s", rate / 1e6),
    }
}

pub(super) fn progress(progress: &Progress, seconds: f64) -> String {
    let done = progress.done as f64 / progress.total.max(1) as f64;
    let left = if done > 0.001 { format!(", about {:.0} s left", seconds * (1.0 - done) / done) } else { String::new() };
    format!("{:.1} % done, {} simulated{left}", done * 100.0, time(progress.now.as_secs_f64()))
}

fn threads_in_words(threads: usize) -> String {
    count(threads as u64, "thread", "threads")
}

pub(super) fn report(results: &Results, (wall_seconds, threads): (f64, usize), peak_bytes: Option<u64>) -> String {
    let measured = &results.measured;
    let mut text = String::new();
    let mut line = |name: &str, what: String| text.push_str(&format!("  {name:<17} {what}\n"));
    line(
        "fabric",
        format!("{} ({}, {})", results.title, count(results.hosts as u64, "host", "hosts"), count(results.switches as u64, "switch", "switches")),
    );
    line("workload", format!("{}, seed {}, {}", results.workload, results.seed, count(measured.flows.len() as u64, "flow", "flows")));
    line("completion time", time(measured.completion.as_secs_f64()));
    let phases: Vec<_> = measured.phases.iter().filter(|phase| phase.begun.is_some()).collect();
    if phases.len() > 1 {
        for phase in phases.iter().take(SHOWN) {
            let begun = phase.begun.unwrap_or_default();
            line(&format!("  {}", phase.name), format!("{} to {}", time(begun.as_secs_f64()), time(phase.ended.as_secs_f64())));
        }
        if phases.len() > SHOWN {
            line("", format!("and {} more", count((phases.len() - SHOWN) as u64, "phase", "phases")));
        }
    }
    let rates = measured.rates();
    let spread = format!("min {}, median {}, max {}, mean {}", rate(rates.min), rate(rates.median), rate(rates.max), rate(rates.mean));
    line("rate of a flow", spread);
    let hops = measured.packet_hops as f64;
    let speed = hops / wall_seconds / 1e6;
    line("packet-hops", format!("{} in {wall_seconds:.2} s ({speed:.2} million/s, {})", measured.packet_hops, threads_in_words(threads)));
    let lost = results.ports.iter().map(|port| &port.counters);
    let (waited, full) = lost.fold((0, 0), |(waited, full), counters| {
        (waited + counters.port_xmit_discards, full + counters.ethernet.map_or(0, |ethernet| ethernet.rcv_discards))
    });
    if waited + full > 0 {
        line(
            "lost",
            format!(
                "{} that a buffer had no room for, {} that waited for too long",
                count(full, "frame", "frames"),
                count(waited, "packet", "packets")
            ),
        );
    }
    line("events", format!("{} ({:.1} a packet-hop)", measured.events, measured.events as f64 / hops.max(1.0)));
    if let Some(peak) = peak_bytes {
        let a_host = peak as f64 / results.hosts.max(1) as f64 / 1024.0;
        line("memory", format!("{:.1} MiB at most, {a_host:.0} KiB a host", peak as f64 / 1_048_576.0));
    }
    text.push_str(&by_level(results));
    text.push_str(&hottest(results));
    text
}

/// Returns a line for each level of the fabric, up and down: sending times of its ports, and waits
/// of packets without credits.
fn by_level(results: &Results) -> String {
    let names: Vec<String> = results.levels.iter().map(|level| format!("{} -> {}", level.from, level.to)).collect();
    let room = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let heads = ["sends, on average", "over 80 %", "without credits, most"];
    let mut text = format!("  {:<width$}  {:>6}  {:<24}  {:>9}  {}\n", "load by level", "ports", heads[0], heads[1], heads[2], width = room + 2);
    for (name, level) in names.iter().zip(&results.levels) {
        let (sends, stalled) = (bar(level.busy_mean), bar(level.stalled_most));
        let _ = writeln!(text, "    {name:<room$}  {:>6}  {sends:<24}  {:>9}  {stalled}", level.ports, level.full);
    }
    text
}

/// Returns a share as a bar: `█████▌···· 55.0 %`.
fn bar(share: f64) -> String {
    const LENGTH: usize = 16;
    let halves = (share.clamp(0.0, 1.0) * 2.0 * LENGTH as f64).round() as usize;
    let drawn = "█".repeat(halves / 2) + if halves % 2 == 1 { "▌" } else { "" };
    format!("{drawn:·<LENGTH$} {:>5.1} %", share * 100.0)
}

fn hottest(results: &Results) -> String {
    if results.hot.is_empty() {
        return String::from("  hottest ports     none is full or waits for a host's credits\n");
    }
    let mut text = String::from("  hottest ports\n");
    for port in results.hot.iter().take(SHOWN) {
        let _ = writeln!(text, "    {} -> {}: {}", port.name, port.to, load(port.utilisation, port.stalled));
        if !port.feeders.is_empty() {
            let _ = writeln!(text, "      fed by {}", feeders(&port.feeders));
        }
    }
    if results.hot.len() > SHOWN {
        let _ = writeln!(text, "    and {} more (model.json)", results.hot.len() - SHOWN);
    }
    text
}

/// Returns the largest limits of the run, in the words of `softband run`.
pub(super) fn bottlenecks(found: &[Bottleneck]) -> String {
    if found.is_empty() {
        return String::from("  bottlenecks       no part was at its limit\n");
    }
    found.iter().fold(String::from("  bottlenecks\n"), |text, found| text + &format!("    {}\n", found.text))
}

fn load(utilisation: f64, stalled: f64) -> String {
    format!("{:.1} % busy, {:.1} % without credits", utilisation * 100.0, stalled * 100.0)
}

/// Returns the ports that wait for the port's switch, on one line. `model.json` lists the ports
/// that wait for these.
fn feeders(feeders_of: &[Feeder]) -> String {
    let name = |feeder: &Feeder| format!("{} ({:.1} % without credits)", feeder.name, feeder.stalled * 100.0);
    let mut named: Vec<String> = feeders_of.iter().take(FEEDERS_SHOWN).map(name).collect();
    if feeders_of.len() > FEEDERS_SHOWN {
        named.push(format!("{} more", feeders_of.len() - FEEDERS_SHOWN));
    }
    named.join(", ")
}
