//! Extended reliable connections: each message names the shared receive queue that it goes to (IBTA A14). A sender remembers for each
//! of them what it otherwise remembers of its peer.

use super::{PeerQueues, Sending};
use crate::qp::QpInner;
use softband_client::call;
use softband_client::connection::Connection;
use softband_ipc::calls::{Handle, Op, XrcQueue};
use std::collections::BTreeMap;

/// The library forgets all known queues when there are more.
const QUEUES_MAX: usize = 1024;

/// Which queue the sender's connection leads to at present, and what is known of others.
#[derive(Default)]
pub(super) struct Queues {
    number: u32,
    /// Its entry in the table plus one; 0 when that is not known.
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
    /// Entry and number of the queue that messages go to now.
    pub(super) fn present(&self) -> Option<(u32, u32)> {
        Some((self.entry.checked_sub(1)?, self.number))
    }
}

impl Sending {
    /// What follows goes to the queue of this number; false when the engine does not know where that is, or it is not one that others
    /// may reach. Nobody holds a guard meanwhile: the engine may have to be asked.
    pub(super) fn turn_to(&mut self, qp: &QpInner, number: u32) -> bool {
        if self.xrc.number != number {
            self.turn_away(number);
        }
        // The remembered entry holds as long as the connection does.
        if self.xrc.entry == 0 || self.connection.is_none() {
            let of = XrcQueue { hca: qp.hca, qpn: qp.qpn, number, reserved: 0 };
            self.xrc.entry = call(Op::FindXrcQueue, &of).map_or(0, |found: Handle| found.handle);
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
