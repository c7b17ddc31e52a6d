//! The rate of the processor in the system's files. Simulated time has one rate on every machine: that
//! of the time stamp counter (`tsc`). `/proc/cpuinfo` states it. Files with the machine's own rate do
//! not exist, as in most virtual machines.

use crate::fd::{counter_files, processor_files, random_files};
use crate::runtime::world::{active, keeping_errno};
use crate::tsc::RATE_HZ;
use libc::c_int;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};

const CPUINFO: &[u8] = b"/proc/cpuinfo";
const NAME: &[u8] = b"cpuinfo";
const PROCESSORS: &[u8] = b"/sys/devices/system/cpu/";
/// Files and folders of one processor with its rate. Google's kernels have the first.
const OF_ONE: [&[u8]; 3] = [b"tsc_freq_khz", b"cpufreq", b"acpi_cppc"];
/// Folders with rates of all processors.
const OF_ALL: [&[u8]; 3] = [b"cpufreq", b"intel_pstate", b"amd_pstate"];
/// Folder of the processors' registers (DPDK reads the rate of the counter there).
const REGISTERS: &[u8] = b"/dev/cpu/";

/// Returns a file that replaces `path`, if `path` states the rate. A relative path begins at `folder`.
pub(super) fn instead_of(folder: c_int, path: &[u8]) -> Option<OwnedFd> {
    // Nearly every path ends here.
    if !path.ends_with(NAME) || !active() {
        return None;
    }
    let is_below_proc = || path == NAME && keeping_errno(|| counter_files::folder_of(folder)).as_deref() == Some(b"/proc");
    if path != CPUINFO && !is_below_proc() {
        return None;
    }
    keeping_errno(|| random_files::new_file("softband-cpuinfo", with_rate(processor_files::first_block(&machines_text()?)).as_bytes()))
}

/// Returns the machine's `/proc/cpuinfo`. The standard library would open it by this library.
fn machines_text() -> Option<String> {
    let file = open(CPUINFO, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match rustix::io::read(&file, &mut part).ok()? {
            0 => return String::from_utf8(text).ok(),
            count => text.extend_from_slice(&part[..count]),
        }
    }
}

/// Returns a text of `/proc/cpuinfo` with the simulated rate.
pub(super) fn with_rate(text: &str) -> String {
    let megahertz = RATE_HZ as f64 / 1e6;
    let with_rate = |line: &str| match line.split_once(':') {
        Some((name, _)) if name.trim_end() == "cpu MHz" => format!("{name}: {megahertz:.3}\n"),
        // The kernel counts two loops for each tick of the counter.
        Some((name, _)) if name.trim_end() == "bogomips" => format!("{name}: {:.2}\n", 2.0 * megahertz),
        Some((name, value)) if name.trim_end() == "model name" => format!("{name}:{}\n", without_rate(value)),
        _ => format!("{line}\n"),
    };
    text.lines().map(with_rate).collect()
}

/// Returns a processor's name without the rate that Intel puts at its end (`CPU @ 2.50GHz`).
fn without_rate(name: &str) -> &str {
    name.split_once('@').map_or(name, |(name, _)| name.trim_end())
}

/// Returns whether `path` does not exist in simulated time, because it states the machine's rate.
pub(super) fn hides(path: &[u8]) -> bool {
    states_rate(path) && active()
}

fn states_rate(path: &[u8]) -> bool {
    let Some(below) = path.strip_prefix(PROCESSORS) else { return path.starts_with(REGISTERS) && path.ends_with(b"/msr") };
    let mut parts = below.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    let (first, second) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_one = first.strip_prefix(b"cpu").is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit));
    OF_ALL.contains(&first) || is_one && OF_ONE.contains(&second)
}

#[cfg(test)]
mod tests {
    use super::{states_rate, with_rate};

    #[test]
    fn each_line_about_the_rate_states_the_simulated_one() {
        let text = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) CPU E5-2680 v3 @ 2.50GHz\ncpu MHz\t\t: 2596.150\nbogomips\t: 5192.30\n\n\
                    processor\t: 1\nmodel name\t: AMD EPYC\ncpu MHz\t\t: 1500.000\n";
        let shown = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) CPU E5-2680 v3\ncpu MHz\t\t: 1000.000\nbogomips\t: 2000.00\n\n\
                     processor\t: 1\nmodel name\t: AMD EPYC\ncpu MHz\t\t: 1000.000\n";
        assert_eq!(with_rate(text), shown);
    }

    #[test]
    fn files_with_the_machines_rate_are_known_by_their_place() {
        for hidden in
            ["cpu0/tsc_freq_khz", "cpu12/cpufreq", "cpu0//cpufreq/cpuinfo_max_freq", "cpufreq/policy0/base_frequency", "intel_pstate/status"]
        {
            assert!(states_rate(format!("/sys/devices/system/cpu/{hidden}").as_bytes()), "{hidden}");
        }
        assert!(states_rate(b"/dev/cpu/0/msr"));
        for other in ["", "online", "cpu0", "cpu0/topology/core_id", "cpuidle/current_driver", "cpu/cpufreq"] {
            assert!(!states_rate(format!("/sys/devices/system/cpu/{other}").as_bytes()), "{other}");
        }
    }
}
