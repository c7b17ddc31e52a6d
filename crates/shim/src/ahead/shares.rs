//! Memory that a process shares with others.

/// Files that this library shares with the engine alone, or that only carry wake-ups.
const OWN_FILES: &str = "/memfd:softband";

/// Returns whether the process has a shared mapping. It could meet another process there without a
/// system call. The answer is yes if the mappings cannot be read.
pub(super) fn shares_memory() -> bool {
    std::fs::read("/proc/self/maps").map_or(true, |maps| lists_shared(&String::from_utf8_lossy(&maps)))
}

/// Returns whether a list of mappings has a shared one.
fn lists_shared(maps: &str) -> bool {
    maps.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace();
        let rights = fields.nth(1).unwrap_or_default().as_bytes();
        let is_own = fields.nth(3).is_some_and(|name| name.starts_with(OWN_FILES));
        matches!(rights, [.., b's']) && !is_own
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shared_mappings_of_others_count() {
        let own =
            "7f00-7f10 rw-s 00000000 00:01 1034 /memfd:softband (deleted)\n7f10-7f20 r--s 00000000 00:01 1035 /memfd:softband-tables (deleted)\n";
        let private = "5000-6000 rw-p 00000000 fe:00 12 /usr/bin/x\n";
        assert!(!lists_shared(&format!("{own}{private}")));
        assert!(lists_shared(&format!("{private}8000-9000 rw-s 00000000 00:01 1036 /dev/shm/x\n")));
        assert!(lists_shared("8000-9000 rw-s 00000000 00:01 1036 /dev/zero (deleted)\n"));
        assert!(lists_shared("8000-9000 r--s 00000000 00:00 0\n"));
    }
}
