//! The table of all identifiers, with maps to them by host, channel and peer. No operation looks at
//! all identifiers: a host may have 65,536.

use super::identifier::Id;
use softband_types::{Guid, Lid};
use std::collections::{BTreeMap, BTreeSet};

/// Most identifiers of a host.
const IDS_MAX: usize = 65_536;

/// The peer of an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peer {
    /// Host, and GUID and communication ID of the peer of a connection.
    Connection(usize, Guid, u32),
    /// Host, and LID and request ID of the peer that asks for a datagram service.
    Service(usize, Lid, u32),
}

/// All identifiers by number.
#[derive(Debug, Default)]
pub(super) struct Ids {
    all: BTreeMap<u32, Id>,
    /// Numbers below the number of identifiers ever in use at a time that nobody uses now.
    free: BTreeSet<u32>,
    of_host: BTreeMap<usize, usize>,
    of_channel: BTreeSet<(u32, u32)>,
    /// Identifiers by peer. Forged messages can give several the same peer.
    peers: BTreeSet<(Peer, u32)>,
}

impl Ids {
    /// Adds an identifier. Returns its number: the kernel gives out the lowest free one.
    ///
    /// # Errors
    /// `ENOMEM` if the host has too many.
    pub(super) fn add(&mut self, id: Id) -> Result<u32, i32> {
        let of_host = self.of_host.entry(id.host).or_default();
        if *of_host >= IDS_MAX {
            return Err(libc::ENOMEM);
        }
        *of_host += 1;
        let number = self.free.pop_first().unwrap_or(self.all.len() as u32);
        self.of_channel.insert((id.channel, number));
        self.all.insert(number, id);
        Ok(number)
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<Id> {
        let id = self.all.remove(&number)?;
        self.free.insert(number);
        self.of_channel.remove(&(id.channel, number));
        if let Some(of_host) = self.of_host.get_mut(&id.host) {
            *of_host -= 1;
        }
        if let Some(peer) = id.known_peer {
            self.peers.remove(&(peer, number));
        }
        Some(id)
    }

    pub(super) fn get(&self, number: &u32) -> Option<&Id> {
        self.all.get(number)
    }

    pub(super) fn get_mut(&mut self, number: &u32) -> Option<&mut Id> {
        self.all.get_mut(number)
    }

    /// Moves an identifier to another channel.
    pub(super) fn migrate(&mut self, number: u32, to: u32) {
        if let Some(id) = self.all.get_mut(&number) {
            self.of_channel.remove(&(id.channel, number));
            self.of_channel.insert((to, number));
            id.channel = to;
        }
    }

    /// Records the peer of an identifier.
    pub(super) fn set_peer(&mut self, number: u32, peer: Peer) {
        let Some(id) = self.all.get_mut(&number) else { return };
        if let Some(former) = id.known_peer.replace(peer) {
            self.peers.remove(&(former, number));
        }
        self.peers.insert((peer, number));
    }

    /// Returns the identifiers with this peer.
    pub(super) fn with_peer(&self, peer: Peer) -> impl Iterator<Item = (u32, &Id)> {
        let numbers = self.peers.range((peer, 0)..=(peer, u32::MAX));
        numbers.filter_map(|(_, number)| Some((*number, self.all.get(number)?)))
    }

    /// Returns the identifiers of a channel.
    pub(super) fn of_channel(&self, channel: u32) -> Vec<u32> {
        self.of_channel.range((channel, 0)..=(channel, u32::MAX)).map(|(_, number)| *number).collect()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.of_channel.is_empty() && self.peers.is_empty() && self.of_host.values().all(|count| *count == 0)
    }
}
