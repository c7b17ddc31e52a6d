//! Limits the open connections of each process to the engine. Each connection takes a descriptor,
//! and new programs need descriptors too.

use rustix::process::{Resource, getrlimit};
use softband_ipc::layout::THREADS_MAX;
use std::collections::BTreeMap;

/// Far more than a program needs: one for its turns, and briefly one in each thread that requests a
/// peer's memory.
const CONNECTIONS_MAX: u64 = 2 * THREADS_MAX as u64 + 64;
/// No process gets more than 1/`PART` of the engine's descriptors.
const PART: u64 = 8;

/// Open connections of each process, by the process id from the kernel.
#[derive(Debug)]
pub(crate) struct Quota {
    open: BTreeMap<i32, u64>,
    most: u64,
}

impl Quota {
    /// Derives the quota from the limit on the engine's open files (`ulimit -n`).
    pub(crate) fn by_limit() -> Self {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Self { open: BTreeMap::new(), most: CONNECTIONS_MAX.min(files / PART).max(1) }
    }

    /// Counts a new connection of process `pid`. Returns false if the process has no room for it.
    pub(crate) fn take(&mut self, pid: i32) -> bool {
        let open = self.open.entry(pid).or_default();
        let has_room = *open < self.most;
        *open += u64::from(has_room);
        has_room
    }

    /// Counts the end of a connection of process `pid`.
    pub(crate) fn give_back(&mut self, pid: i32) {
        if let Some(open) = self.open.get_mut(&pid) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(&pid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_a_quota_of_its_own_and_gets_it_back() {
        let mut quota = Quota { open: BTreeMap::new(), most: 2 };
        assert!(quota.take(7) && quota.take(7) && !quota.take(7));
        assert!(quota.take(8));
        quota.give_back(7);
        assert!(quota.take(7) && !quota.take(7));
        for pid in [7, 7, 8] {
            quota.give_back(pid);
        }
        assert!(quota.open.is_empty(), "processes that are gone leave nothing");
    }

    #[test]
    fn the_quota_lets_each_thread_of_a_process_ask_and_leaves_descriptors_to_others() {
        let most = Quota::by_limit().most;
        assert!((1..=CONNECTIONS_MAX).contains(&most));
        assert!(most <= getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / PART);
    }
}
