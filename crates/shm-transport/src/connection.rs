//! A sender's cache of its connection, which saves reads of all table entries for each message.

use crate::platform::Platform;
use crate::queues::Parties;
use crate::sync::{AtomicU32, Ordering};
use crate::tables::{QpEntry, shared_queue_of};
use crate::tables_guard::TablesGuard;
use crate::traffic::Way;

/// A connected queue pair, its peer, and the queue that the peer receives from.
#[derive(Clone, Copy)]
pub struct Connection {
    pub own: &'static QpEntry,
    pub peer: &'static QpEntry,
    /// Owner of the receive queue: the peer itself, or its SRQ.
    pub source: &'static QpEntry,
    /// Entry that checks keys and gets completions: the peer itself, or the SRQ that a message of
    /// an XRC connection names.
    pub keeper: &'static QpEntry,
    /// Data about both sides, for completions of the peer.
    pub parties: Parties,
    /// This connection is the only producer for the peer's completions.
    pub is_sole_producer: bool,
    /// The way of packets to the peer, for counters.
    pub way: Way,
    versions: [u32; 3],
    /// PID. A child of a fork may hold its parent's queue pairs, but does not own them.
    process: u32,
}

fn version(entry: &QpEntry) -> u32 {
    entry.version.load(Ordering::SeqCst)
}

impl Connection {
    /// Returns the connection of the queue pair with this entry and number. `named` gives entry and
    /// number of the SRQ of an XRC connection. The caller checks the states of both sides.
    pub fn of<P: Platform>(guard: &TablesGuard<P>, (index, qpn): (u32, u32), named: Option<(u32, u32)>) -> Option<Self> {
        let source_of = |peer| match named {
            Some((entry, number)) => guard.queue_of_domain(entry, number, peer),
            None => guard.receives_of(peer),
        };
        // Versions first: later reads, here and by the caller, are at least as new.
        let own = guard.queue_pair(index, qpn)?;
        let of_own = version(own);
        let peer = guard.peer(own)?;
        let of_peer = version(peer);
        let source = source_of(peer)?;
        let of_source = version(source);
        let again = guard.queue_pair(index, qpn).and_then(|own| guard.peer(own)).and_then(source_of);
        let is_same = again.is_some_and(|again| std::ptr::eq(again, source));
        let of = |field: &AtomicU32| field.load(Ordering::Relaxed);
        let keeper = if named.is_some() { source } else { peer };
        let parties = Parties {
            qpn: of(&peer.qpn),
            source_qpn: of(&peer.dest_qpn),
            srq: shared_queue_of(of(&source.qpn)).unwrap_or(0),
            source_lid: 0,
            pkey_index: peer.pkey_index.load(Ordering::Relaxed),
            service_level: peer.service_level.load(Ordering::Relaxed) as u8,
            path_bits: 0,
            reserved: 0,
        };
        let is_sole_producer = of(&keeper.is_sole_producer) != 0;
        is_same.then(|| Self {
            is_sole_producer,
            way: Way(of(&own.way)),
            own,
            peer,
            source,
            keeper,
            parties,
            versions: [of_own, of_peer, of_source],
            process: P::own_number(),
        })
    }

    /// Checks whether the connection is unchanged.
    #[inline(always)]
    pub fn is_valid<P: Platform>(&self, guard: &TablesGuard<P>) -> bool {
        self.is_still_valid(guard) && self.process == P::own_number()
    }

    /// Checks the same again for a caller of [`Self::is_valid`].
    #[inline(always)]
    pub fn is_still_valid<P: Platform>(&self, _guard: &TablesGuard<P>) -> bool {
        [version(self.own), version(self.peer), version(self.source)] == self.versions
    }

    /// Checks whether the peer receives from a queue with other consumers.
    #[inline(always)]
    pub fn is_shared(&self) -> bool {
        !std::ptr::eq(self.source, self.peer)
    }
}
