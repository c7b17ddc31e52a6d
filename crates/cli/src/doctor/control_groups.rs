//! Limits of control groups, versions 1 and 2 (cgroups(7)).

use std::path::{Path, PathBuf};

/// Values from here on mean no limit: version 1 rounds the largest number to pages.
const UNLIMITED: u64 = 1 << 60;
const ROOT: &str = "/sys/fs/cgroup";

/// Returns the processors that the tightest quota of this process allows.
pub(super) fn processors() -> Option<f64> {
    let new = values("", "cpu.max").into_iter().filter_map(|text| quota(&text));
    let old = folders("cpu").into_iter().filter_map(|folder| {
        let of = |name| std::fs::read_to_string(folder.join(name)).ok();
        quota(&format!("{} {}", of("cpu.cfs_quota_us")?.trim(), of("cpu.cfs_period_us")?.trim()))
    });
    new.chain(old).min_by(f64::total_cmp)
}

/// Returns the tightest limit on memory, in bytes.
pub(super) fn memory() -> Option<u64> {
    let texts = values("", "memory.max").into_iter().chain(values("memory", "memory.limit_in_bytes"));
    texts.filter_map(|text| limit(&text)).min()
}

/// Returns the tightest limit on processes and threads.
pub(super) fn tasks() -> Option<u64> {
    let texts = values("", "pids.max").into_iter().chain(values("pids", "pids.max"));
    texts.filter_map(|text| limit(&text)).min()
}

fn values(controller: &str, file: &str) -> Vec<String> {
    folders(controller).into_iter().filter_map(|folder| std::fs::read_to_string(folder.join(file)).ok()).collect()
}

/// Returns the folders of this process's group and of all groups above. An empty `controller` means
/// version 2.
fn folders(controller: &str) -> Vec<PathBuf> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(group) = group_of(&own, controller) else { return Vec::new() };
    let root = Path::new(ROOT).join(controller);
    // A container may see its own group as the root, under another path.
    Path::new(group.trim_start_matches('/')).ancestors().map(|group| root.join(group)).collect()
}

/// Returns the path of the group for a controller, by the text of `/proc/PID/cgroup`.
fn group_of<'a>(text: &'a str, controller: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        controllers.split(',').any(|name| name == controller).then_some(group)
    })
}

/// Returns processors by a quota and a period in microseconds, such as `150000 100000`.
fn quota(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period) = (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|limit| *limit < UNLIMITED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_and_limits_are_numbers_or_none() {
        assert_eq!(quota("150000 100000\n"), Some(1.5));
        for text in ["max 100000\n", "-1 100000", "100000 0", "", "x y"] {
            assert_eq!(quota(text), None, "{text}");
        }
        assert_eq!(limit("536870912\n"), Some(536_870_912));
        assert_eq!(limit("max\n"), None);
        assert_eq!(limit("9223372036854771712\n"), None);
    }

    #[test]
    fn the_group_of_a_controller_is_found_in_both_versions() {
        let old = "12:memory:/docker/3f\n4:cpu,cpuacct:/docker/3f/x:y\n1:name=systemd:/\n0::/user.slice\n";
        assert_eq!(group_of(old, "memory"), Some("/docker/3f"));
        assert_eq!(group_of(old, "cpu"), Some("/docker/3f/x:y"));
        assert_eq!(group_of(old, ""), Some("/user.slice"));
        assert_eq!(group_of(old, "pids"), None);
        assert_eq!(group_of("0::/\n", "cpu"), None);
    }
}
