//! Limits the open connections of each process to the engine, and of each user of a shared fabric.
//! Each connection takes a descriptor, and new programs need descriptors too.

use rustix::process::{Resource, getrlimit};
use softband_ipc::layout::THREADS_MAX;
use std::collections::BTreeMap;

/// Far more than a program needs: one for its turns, and briefly one in each thread that requests a
/// peer's memory.
const CONNECTIONS_MAX: u64 = 2 * THREADS_MAX as u64 + 64;
/// No process gets more than 1/`PART` of the engine's descriptors.
const PART: u64 = 8;
/// No user of a shared fabric gets connections for more than 1/`PART_OF_USER` of them. An attached
/// process takes about eight descriptors.
const PART_OF_USER: u64 = 16;

/// Open connections of each holder: a process id from the kernel, or a user of a shared fabric.
#[derive(Debug)]
pub(crate) struct Quota {
    open: BTreeMap<u32, u64>,
    most: u64,
}

impl Quota {
    /// Derives the quota from the limit on the engine's open files (`ulimit -n`).
    pub(crate) fn by_limit(is_shared: bool) -> Self {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let most = if is_shared { files / PART_OF_USER } else { CONNECTIONS_MAX.min(files / PART) };
        Self { open: BTreeMap::new(), most: most.max(1) }
    }

    /// Counts a new connection of a holder. Returns false if the holder has no room for it.
    pub(crate) fn take(&mut self, holder: u32) -> bool {
        let open = self.open.entry(holder).or_default();
        let has_room = *open < self.most;
        *open += u64::from(has_room);
        has_room
    }

    /// Counts the end of a connection of a holder.
    pub(crate) fn give_back(&mut self, holder: u32) {
        if let Some(open) = self.open.get_mut(&holder) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(&holder);
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
        for holder in [7, 7, 8] {
            quota.give_back(holder);
        }
        assert!(quota.open.is_empty(), "processes that are gone leave nothing");
    }

    #[test]
    fn the_quota_lets_each_thread_of_a_process_ask_and_leaves_descriptors_to_others() {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let most = Quota::by_limit(false).most;
        assert!((1..=CONNECTIONS_MAX).contains(&most) && most <= files / PART);
        assert!(Quota::by_limit(true).most <= files / PART_OF_USER);
    }
}
