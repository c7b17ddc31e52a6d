//! Ports of connection identifiers: each port space of a host has its own.

use std::collections::{BTreeMap, BTreeSet};

/// First port for identifiers that request any port.
const EPHEMERAL_FIRST: u16 = 32_768;

/// The port spaces of all hosts.
#[derive(Debug, Default)]
pub(super) struct Ports {
    /// Identifiers by host, port space and port.
    users: BTreeMap<(usize, u16, u16), BTreeSet<u32>>,
    next: BTreeMap<(usize, u16), u16>,
}

impl Ports {
    /// Returns the identifiers that use a port.
    pub(super) fn users(&self, host: usize, space: u16, port: u16) -> impl Iterator<Item = u32> + '_ {
        self.users.get(&(host, space, port)).into_iter().flatten().copied()
    }

    pub(super) fn add(&mut self, (host, space, port): (usize, u16, u16), id: u32) {
        self.users.entry((host, space, port)).or_default().insert(id);
    }

    pub(super) fn remove(&mut self, key: (usize, u16, u16), id: u32) {
        if let Some(users) = self.users.get_mut(&key) {
            users.remove(&id);
            if users.is_empty() {
                self.users.remove(&key);
            }
        }
    }

    /// Returns a port that nobody uses. `None` if all are in use.
    pub(super) fn free(&mut self, host: usize, space: u16) -> Option<u16> {
        let next = self.next.entry((host, space)).or_insert(EPHEMERAL_FIRST);
        for _ in EPHEMERAL_FIRST..=u16::MAX {
            let port = *next;
            *next = port.checked_add(1).unwrap_or(EPHEMERAL_FIRST);
            if !self.users.contains_key(&(host, space, port)) {
                return Some(port);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_spaces_of_hosts_are_apart() {
        let mut ports = Ports::default();
        assert_eq!(ports.free(0, 0x106), Some(32_768));
        ports.add((0, 0x106, 32_769), 7);
        assert_eq!(ports.free(0, 0x106), Some(32_770));
        assert_eq!(ports.free(0, 0x111), Some(32_768));
        assert_eq!(ports.free(1, 0x106), Some(32_768));
        assert_eq!(ports.users(0, 0x106, 32_769).collect::<Vec<_>>(), [7]);
        ports.remove((0, 0x106, 32_769), 7);
        assert_eq!(ports.users(0, 0x106, 32_769).count(), 0);
    }

    #[test]
    fn a_full_space_has_no_free_port() {
        let mut ports = Ports::default();
        for port in EPHEMERAL_FIRST..=u16::MAX {
            ports.add((0, 0x106, port), 1);
        }
        assert_eq!(ports.free(0, 0x106), None);
    }
}
