//! Processors, memory and the clock.

use super::control_groups;
use super::finding::Finding;

/// Memory that a run of a few programs leaves free.
const MEMORY_ENOUGH: u64 = 256 << 20;
/// Clock sources that each program reads by a system call, because the C library cannot read them.
const SLOW_CLOCKS: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

pub(super) fn findings() -> Vec<Finding> {
    let allowed = rustix::thread::sched_getaffinity(None).map_or(1, |own| own.count());
    let available = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource").unwrap_or_default();
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    vec![
        processors(allowed, control_groups::processors()),
        memory(available, control_groups::memory()),
        clock(source.trim(), has_flag(&flags, "constant_tsc")),
    ]
}

fn processors(allowed: u32, quota: Option<f64>) -> Finding {
    const NAME: &str = "processors";
    let value = format!("{allowed}{}", quota.map_or(String::new(), |quota| format!(", cgroup quota {quota:.1}")));
    let effect = "engine and programs share a processor, so simulated runs take longer and wall pace is slower; simulated results stay";
    match quota {
        Some(quota) if quota < 2.0 && allowed > 1 => Finding::limited(NAME, value, effect, "docker run --cpus 2, or a larger cpu.max of the cgroup"),
        _ if allowed < 2 => Finding::limited(NAME, value, effect, "give this shell two processors, for example with `taskset -c 0,1`"),
        _ => Finding::ok(NAME, value),
    }
}

/// Returns `MemAvailable` of `/proc/meminfo`, in bytes.
fn available(text: &str) -> Option<u64> {
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    kilobytes.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn memory(available: Option<u64>, group: Option<u64>) -> Finding {
    const NAME: &str = "memory";
    let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
    let value = [available.map(|bytes| format!("{} available", mebibytes(bytes))), group.map(|bytes| format!("cgroup limit {}", mebibytes(bytes)))];
    let value = value.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let least = available.into_iter().chain(group).min();
    let effect = "the kernel may kill a run: registered memory and shared memory of programs count as theirs";
    match least {
        Some(bytes) if bytes < MEMORY_ENOUGH && group == least => {
            Finding::limited(NAME, value, effect, "docker run --memory 1g, or a larger memory.max")
        }
        Some(bytes) if bytes < MEMORY_ENOUGH => Finding::limited(NAME, value, effect, "end other programs"),
        Some(_) => Finding::ok(NAME, value),
        None => Finding::ok(NAME, "unknown: /proc/meminfo has no MemAvailable"),
    }
}

/// Returns whether the first processor has a flag.
fn has_flag(cpuinfo: &str, flag: &str) -> Option<bool> {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"))?.split_once(':')?.1;
    Some(flags.split_whitespace().any(|name| name == flag))
}

fn clock(source: &str, is_constant: Option<bool>) -> Finding {
    const NAME: &str = "clock";
    let rate = match is_constant {
        Some(true) => ", constant_tsc",
        Some(false) => ", no constant_tsc",
        None => "",
    };
    let value = format!("{}{rate}", if source.is_empty() { "unknown" } else { source });
    if SLOW_CLOCKS.contains(&source) {
        let effect = "at wall pace each look at the clock is a system call; simulated time is not concerned";
        return Finding::limited(NAME, value, effect, "boot with the kernel parameter clocksource=tsc, if the time stamp counter is stable");
    }
    if is_constant == Some(false) {
        let effect = "at wall pace, programs that count cycles (perftest) print wrong times when the frequency changes";
        return Finding::limited(NAME, value, effect, "use simulated time, or fix the frequency: sudo cpupower frequency-set -g performance");
    }
    Finding::ok(NAME, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Health;

    #[test]
    fn two_processors_are_enough_unless_a_quota_takes_them() {
        assert_eq!(processors(2, None).health, Health::Ok);
        assert_eq!(processors(8, Some(2.0)).health, Health::Ok);
        assert_eq!(processors(1, None).health, Health::Limited);
        let quota = processors(8, Some(0.5));
        assert_eq!((quota.health, quota.value.as_str()), (Health::Limited, "8, cgroup quota 0.5"));
        assert!(quota.remedy.contains("--cpus"));
    }

    #[test]
    fn the_lesser_of_free_memory_and_the_limit_counts() {
        assert_eq!(available("MemTotal:  100 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(available("MemTotal:  100 kB\n"), None);
        assert_eq!(memory(Some(1 << 30), Some(1 << 30)).health, Health::Ok);
        assert!(memory(Some(1 << 30), Some(1 << 20)).remedy.contains("docker"));
        assert_eq!(memory(Some(1 << 20), None).remedy, "end other programs");
        assert_eq!(memory(None, None).health, Health::Ok);
    }

    #[test]
    fn slow_and_unsteady_clocks_are_named() {
        let flags = "processor\t: 0\nflags\t\t: fpu tsc constant_tsc rep_good\n";
        assert_eq!((has_flag(flags, "constant_tsc"), has_flag(flags, "const")), (Some(true), Some(false)));
        assert_eq!(has_flag("", "tsc"), None);
        assert_eq!(clock("tsc", Some(true)).health, Health::Ok);
        assert_eq!(clock("kvm-clock", None).health, Health::Ok);
        assert_eq!(clock("hpet", Some(true)).health, Health::Limited);
        assert_eq!(clock("tsc", Some(false)).value, "tsc, no constant_tsc");
    }
}
