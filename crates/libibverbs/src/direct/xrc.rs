//! XRC connections: each message names its destination SRQ (IBTA A14). For each SRQ, a sender
//! caches the data that other connections cache for their peer.

use super::{PeerQueues, Sending};
use crate::qp::QpInner;
use softband_client::call;
use softband_ipc::calls::{Handle, XrcQueue, op};
use softband_shm_transport::connection::Connection;
use std::collections::BTreeMap;

/// Most known SRQs. The library forgets all of them above this number.
const QUEUES_MAX: usize = 1024;

/// The SRQ that the connection uses at present, and the known others.
#[derive(Default)]
pub(super) struct Queues {
    number: u32,
    /// Its entry in the table plus one; 0 if unknown.
    entry: u32,
    others: BTreeMap<u32, Other>,
}

#[derive(Default)]
struct Other {
    entry: u32,
    connection: Option<Connection>,
    queues: Option<PeerQueues>,
}

impl Queues {
    /// Returns entry and number of the present SRQ.
    pub(super) fn present(&self) -> Option<(u32, u32)> {
        Some((self.entry.checked_sub(1)?, self.number))
    }
}

impl Sending {
    /// Selects the SRQ for the next messages. Returns false if the engine does not know its place
    /// or forbids direct access. Callers hold no guard, because this may call the engine.
    pub(super) fn turn_to(&mut self, qp: &QpInner, number: u32) -> bool {
        if self.xrc.number != number {
            self.turn_away(number);
        }
        // The cached entry is valid as long as the connection.
        if self.xrc.entry == 0 || self.connection.is_none() {
            let of = XrcQueue { hca: qp.hca, qpn: qp.qpn, number, reserved: 0 };
            self.xrc.entry = call::<op::FindXrcQueue>(&of).map_or(0, |found: Handle| found.handle);
        }
        self.xrc.entry != 0
    }

    #[cold]
    fn turn_away(&mut self, number: u32) {
        if self.xrc.others.len() > QUEUES_MAX {
            self.xrc.others.clear();
        }
        let former = Other { entry: self.xrc.entry, connection: self.connection.take(), queues: self.queues.take() };
        self.xrc.others.insert(self.xrc.number, former);
        let Other { entry, connection, queues } = self.xrc.others.remove(&number).unwrap_or_default();
        (self.xrc.number, self.xrc.entry, self.connection, self.queues) = (number, entry, connection, queues);
    }
}
