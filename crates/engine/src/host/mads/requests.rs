//! MADs that await their answers, with the times at which they leave again.

use super::Port;
use super::fields::Fields;
use super::record::Header;
use softband_model::management::ManagementPacket;
use softband_sim::{SimDuration, SimTime};
use softband_types::Lid;
use std::collections::{BTreeMap, BTreeSet};

/// Most MADs of a port that await their answers.
const REQUESTS_MAX: usize = 4_096;

/// Identifies a MAD that awaits its answer. A port has at most one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Transaction {
    pub(super) port: Port,
    /// Number of the agent that sent the MAD.
    pub(super) agent: u32,
    class: u8,
    id: u64,
    /// The requester, if the MAD is a response. Requesters choose their own ids.
    requester: Option<Lid>,
}

impl Transaction {
    /// Names the transaction of a MAD that an agent sends to `to`.
    pub(super) fn of_sent(port: Port, agent: u32, mad: Fields<'_>, to: Lid) -> Self {
        Self { port, agent, class: mad.class(), id: mad.transaction_id(), requester: mad.is_response().then_some(to) }
    }

    /// Names the transaction that a response ends.
    pub(super) fn of_response(port: Port, agent: u32, mad: Fields<'_>) -> Self {
        Self { port, agent, class: mad.class(), id: mad.transaction_id(), requester: None }
    }
}

/// A MAD that awaits its answer.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// The program's header, for a report.
    pub(super) header: Header,
    pub(super) packet: Box<ManagementPacket>,
    pub(super) timeout: SimDuration,
    pub(super) retries_left: u32,
}

/// All MADs of the fabric that await their answers.
#[derive(Debug, Default)]
pub(super) struct Requests {
    all: BTreeMap<Transaction, (SimTime, Request)>,
    deadlines: BTreeSet<(SimTime, Transaction)>,
}

impl Requests {
    /// Adds a MAD that leaves at `now`.
    ///
    /// # Errors
    /// `EINVAL` if its transaction is under way. `ENOMEM` if too many of the port are.
    pub(super) fn add(&mut self, transaction: Transaction, request: Request, now: SimTime) -> Result<(), i32> {
        if self.all.contains_key(&transaction) {
            return Err(libc::EINVAL);
        }
        if self.all.keys().filter(|other| other.port == transaction.port).count() >= REQUESTS_MAX {
            return Err(libc::ENOMEM);
        }
        self.schedule(transaction, request, now);
        Ok(())
    }

    fn schedule(&mut self, transaction: Transaction, request: Request, now: SimTime) {
        let at = now.saturating_add(request.timeout);
        self.deadlines.insert((at, transaction));
        self.all.insert(transaction, (at, request));
    }

    /// Ends a transaction. Returns its request if it was under way.
    pub(super) fn remove(&mut self, transaction: &Transaction) -> Option<Request> {
        let (at, request) = self.all.remove(transaction)?;
        self.deadlines.remove(&(at, *transaction));
        Some(request)
    }

    /// Ends all transactions of an agent, without a report.
    pub(super) fn cancel(&mut self, port: Port, agent: u32) {
        let own: Vec<Transaction> = self.all.keys().filter(|key| (key.port, key.agent) == (port, agent)).copied().collect();
        for transaction in own {
            self.remove(&transaction);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<SimTime> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Handles the first deadline up to `now`: the request leaves again, or ends.
    pub(super) fn expire(&mut self, now: SimTime) -> Option<Expired> {
        let (at, transaction) = self.deadlines.first().copied().filter(|(at, _)| *at <= now)?;
        let mut request = self.remove(&transaction)?;
        if request.retries_left == 0 {
            return Some(Expired::Ended(transaction, request));
        }
        request.retries_left -= 1;
        let packet = request.packet.clone();
        self.schedule(transaction, request, at.max(now));
        Some(Expired::Repeated(transaction.port, packet))
    }
}

/// Outcome of a deadline.
pub(super) enum Expired {
    Repeated(Port, Box<ManagementPacket>),
    Ended(Transaction, Request),
}
