//! MADs that await their answers, with the times at which they leave again.

use super::Port;
use super::fields::Fields;
use super::record::Header;
use super::segments::{ACKNOWLEDGEMENT_WAIT, Acknowledged, Message, Segment};
use softband_model::management::{MAD_BYTES, ManagementPacket};
use softband_sim::{SimDuration, SimTime};
use softband_types::Lid;
use std::collections::{BTreeMap, BTreeSet};

/// Most MADs of a port that await their answers.
const REQUESTS_MAX: usize = 4_096;
/// Most bytes of all messages of a port that their receivers have not acknowledged.
const MESSAGE_BYTES_SUM: usize = 16 * super::MESSAGE_BYTES_MAX;

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

    /// Names the transaction to which a MAD from `from` belongs: it is the response, or controls the
    /// transfer of the message.
    pub(super) fn of_received(port: Port, agent: u32, mad: Fields<'_>, from: Lid) -> Self {
        Self { port, agent, class: mad.class(), id: mad.transaction_id(), requester: (!mad.is_response()).then_some(from) }
    }
}

/// A MAD that awaits its answer.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// The program's header, for a report.
    pub(super) header: Header,
    /// The MAD, or the first segment.
    pub(super) packet: Box<ManagementPacket>,
    /// The wait for an answer; zero if there will be none.
    pub(super) timeout: SimDuration,
    pub(super) retries: u32,
    pub(super) retries_left: u32,
    /// A message of several segments, which the receiver acknowledges.
    pub(super) message: Option<Message>,
}

impl Request {
    /// Returns the time from now to the next deadline.
    fn wait(&self) -> SimDuration {
        match &self.message {
            Some(message) if !message.is_acknowledged() && self.timeout == SimDuration::ZERO => ACKNOWLEDGEMENT_WAIT,
            Some(message) if !message.is_acknowledged() => self.timeout.min(ACKNOWLEDGEMENT_WAIT),
            _ => self.timeout,
        }
    }

    fn message_bytes(&self) -> usize {
        self.message.as_ref().map_or(0, Message::len)
    }

    /// Returns the packets that leave when the answer is late.
    fn again(&mut self) -> Vec<ManagementPacket> {
        match &mut self.message {
            Some(message) if message.is_acknowledged() => Vec::new(),
            Some(message) => packets(&self.packet, message.again()),
            None => vec![(*self.packet).clone()],
        }
    }
}

/// Puts MADs into packets with the addresses of `packet`.
pub(super) fn packets(packet: &ManagementPacket, mads: Vec<[u8; MAD_BYTES]>) -> Vec<ManagementPacket> {
    mads.into_iter().map(|mad| ManagementPacket { mad: Box::new(mad), ..packet.clone() }).collect()
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
        let of_port = || self.all.iter().filter(|(other, _)| other.port == transaction.port).map(|(_, (_, request))| request);
        let has_room = request.message.is_none() || of_port().map(Request::message_bytes).sum::<usize>() < MESSAGE_BYTES_SUM;
        if !has_room || of_port().count() >= REQUESTS_MAX {
            return Err(libc::ENOMEM);
        }
        self.schedule(transaction, request, now);
        Ok(())
    }

    /// Adds a segment of a program that divides its messages itself. It takes the place of the one
    /// before.
    ///
    /// # Errors
    /// `ENOMEM` if too many of the port are under way.
    pub(super) fn replace(&mut self, transaction: Transaction, request: Request, now: SimTime) -> Result<(), i32> {
        self.remove(&transaction);
        self.add(transaction, request, now)
    }

    fn schedule(&mut self, transaction: Transaction, request: Request, now: SimTime) {
        let at = now.saturating_add(request.wait());
        // At the end of time a deadline would come again and again.
        if at > now {
            self.deadlines.insert((at, transaction));
        }
        self.all.insert(transaction, (at, request));
    }

    /// Ends a transaction. Returns its request if it was under way.
    pub(super) fn remove(&mut self, transaction: &Transaction) -> Option<Request> {
        let (at, request) = self.all.remove(transaction)?;
        self.deadlines.remove(&(at, *transaction));
        Some(request)
    }

    /// Returns whether a transaction is under way.
    pub(super) fn contains(&self, transaction: &Transaction) -> bool {
        self.all.contains_key(transaction)
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
        let packets = request.again();
        self.schedule(transaction, request, at.max(now));
        Some(Expired::Repeated(transaction.port, packets))
    }

    /// Handles an acknowledgement of a message.
    pub(super) fn acknowledge(&mut self, transaction: &Transaction, answer: Segment, now: SimTime) -> Acknowledgement {
        let Some(mut request) = self.remove(transaction) else { return Acknowledgement::Fine(Vec::new()) };
        let Some(message) = &mut request.message else {
            self.schedule(*transaction, request, now);
            return Acknowledgement::Fine(Vec::new());
        };
        let before = message.acknowledged();
        let next = match message.acknowledge(answer) {
            Acknowledged::Broken(status) => return Acknowledgement::Broken(status),
            Acknowledged::Complete if request.timeout == SimDuration::ZERO => return Acknowledgement::Fine(Vec::new()),
            Acknowledged::Complete => Vec::new(),
            Acknowledged::GoesOn(segments) => segments,
        };
        if message.acknowledged() > before {
            request.retries_left = request.retries;
        }
        let packets = packets(&request.packet, next);
        self.schedule(*transaction, request, now);
        Acknowledgement::Fine(packets)
    }
}

/// Outcome of a deadline.
pub(super) enum Expired {
    Repeated(Port, Vec<ManagementPacket>),
    Ended(Transaction, Request),
}

/// Outcome of an acknowledgement.
pub(super) enum Acknowledgement {
    /// These packets leave.
    Fine(Vec<ManagementPacket>),
    /// The transfer has ended. The receiver gets this status.
    Broken(u8),
}
