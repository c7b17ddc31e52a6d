//! Requests under way: a window, retries, and the answers that belong to them.

use crate::management::ManagementPacket;
use softband_sim::{SimDuration, SimTime};
use softband_types::{Lid, PKey, QKey, Qpn, ServiceLevel};
use softband_wire::mad::{AttributeId, DirectedSmp, Header, Layout, ManagementClass, Method, SMP_DATA_BYTES, Status};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Most links of a directed route (IBTA 14.2.1.2).
const HOPS_MAX: usize = 63;

/// First transaction of a manager. Requests of other programs at its port have small numbers.
const TRANSACTIONS: u64 = 0x534D_0000_0000_0000;

/// Directed route from a port of the manager: the output ports on the way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Route {
    /// Index of the manager's port.
    pub(super) root: usize,
    ports: Arc<[u8]>,
}

impl Route {
    /// Returns the route that ends at a port of the manager itself.
    pub(super) fn start(root: usize) -> Self {
        Self { root, ports: Arc::new([]) }
    }

    /// Returns the route that leaves the end of this route by a port. Returns `None` beyond 63 hops.
    pub(super) fn then(&self, port: u8) -> Option<Self> {
        let ports = self.ports.iter().copied().chain([port]).collect();
        (self.ports.len() < HOPS_MAX).then_some(Self { root: self.root, ports })
    }
}

/// Data of a subnet management packet.
pub(super) type Data = [u8; SMP_DATA_BYTES];

/// A request to the node at the end of a route. `purpose` says why the manager asks.
#[derive(Clone, Debug)]
pub(super) struct Request<P> {
    pub(super) route: Route,
    /// Data to write; `None` to read.
    pub(super) data: Option<Box<Data>>,
    pub(super) attribute: AttributeId,
    pub(super) modifier: u32,
    pub(super) purpose: P,
}

/// A request that has left and has no answer yet.
struct Pending<P> {
    request: Request<P>,
    due: SimTime,
    retries_left: u8,
}

/// The answer to a request.
pub(super) struct Answer<P> {
    pub(super) request: Request<P>,
    pub(super) status: Status,
    pub(super) data: Data,
}

/// Requests that wait, those under way, and packets to send.
pub(super) struct Requests<P> {
    waiting: VecDeque<Request<P>>,
    /// Requests under way by transaction.
    pending: BTreeMap<u32, Pending<P>>,
    outbox: VecDeque<(usize, Box<ManagementPacket>)>,
    transaction: u32,
    window: usize,
    timeout: SimDuration,
    retries: u8,
    m_key: u64,
    /// Number of requests sent, with those sent again.
    pub(super) sent: u64,
    /// Number of requests sent again.
    pub(super) sent_again: u64,
}

impl<P> Requests<P> {
    pub(super) fn new(configuration: &super::Configuration) -> Self {
        Self {
            waiting: VecDeque::new(),
            pending: BTreeMap::new(),
            outbox: VecDeque::new(),
            transaction: 0,
            window: configuration.window.max(1),
            timeout: configuration.timeout,
            retries: configuration.retries,
            m_key: configuration.m_key,
            sent: 0,
            sent_again: 0,
        }
    }

    pub(super) fn add(&mut self, request: Request<P>) {
        self.waiting.push_back(request);
    }

    /// Adds a packet that answers another.
    pub(super) fn reply(&mut self, root: usize, packet: Box<ManagementPacket>) {
        self.outbox.push_back((root, packet));
    }

    /// Sends waiting requests while the window has room.
    pub(super) fn fill(&mut self, now: SimTime) {
        while self.pending.len() < self.window
            && let Some(request) = self.waiting.pop_front()
        {
            self.transaction = self.transaction.wrapping_add(1);
            self.send(self.transaction, &request);
            self.pending.insert(self.transaction, Pending { request, due: now + self.timeout, retries_left: self.retries });
        }
    }

    fn send(&mut self, transaction: u32, request: &Request<P>) {
        self.sent += 1;
        let packet = packet_of(transaction, self.m_key, request);
        self.outbox.push_back((request.route.root, packet));
    }

    /// Returns the request that a packet answers; `None` for any other packet.
    pub(super) fn take_answer(&mut self, packet: &ManagementPacket) -> Option<Answer<P>> {
        let smp = DirectedSmp::view(&packet.mad[..]);
        let is_answer = smp.method() == Method::GET_RESP && smp.mgmt_class() == ManagementClass::SUBNET_DIRECTED_ROUTE;
        let transaction = smp.transaction_id().checked_sub(TRANSACTIONS).and_then(|number| u32::try_from(number).ok())?;
        let pending = self.pending.get(&transaction).filter(|_| is_answer && packet.is_subnet_management())?;
        if (pending.request.attribute, pending.request.modifier) != (smp.attribute_id(), smp.attribute_modifier()) {
            return None;
        }
        let Pending { request, .. } = self.pending.remove(&transaction)?;
        Some(Answer { request, status: Status(smp.status()), data: smp.data() })
    }

    /// Sends requests again whose time is over. Returns those that have no retries left.
    pub(super) fn expire(&mut self, now: SimTime) -> Vec<Request<P>> {
        let due: Vec<u32> = self.pending.iter().filter(|(_, pending)| pending.due <= now).map(|(transaction, _)| *transaction).collect();
        let mut given_up = Vec::new();
        for transaction in due {
            let Some(mut pending) = self.pending.remove(&transaction) else { continue };
            if pending.retries_left == 0 {
                given_up.push(pending.request);
                continue;
            }
            (pending.retries_left, pending.due) = (pending.retries_left - 1, now + self.timeout);
            self.sent_again += 1;
            self.send(transaction, &pending.request);
            self.pending.insert(transaction, pending);
        }
        given_up
    }

    /// Drops all requests whose purpose meets a condition.
    pub(super) fn drop_where(&mut self, condition: impl Fn(&P) -> bool) {
        self.waiting.retain(|request| !condition(&request.purpose));
        self.pending.retain(|_, pending| !condition(&pending.request.purpose));
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.pending.is_empty()
    }

    pub(super) fn deadline(&self) -> Option<SimTime> {
        self.pending.values().map(|pending| pending.due).min()
    }

    pub(super) fn take_packet(&mut self) -> Option<(usize, Box<ManagementPacket>)> {
        self.outbox.pop_front()
    }
}

fn packet_of<P>(transaction: u32, m_key: u64, request: &Request<P>) -> Box<ManagementPacket> {
    let ports = &request.route.ports;
    let mut initial_path = [0; 64];
    initial_path[1..=ports.len()].copy_from_slice(ports);
    let smp = DirectedSmp {
        base_version: Header::BASE_VERSION,
        mgmt_class: ManagementClass::SUBNET_DIRECTED_ROUTE,
        class_version: 1,
        method: if request.data.is_some() { Method::SET } else { Method::GET },
        hop_count: ports.len() as u8,
        transaction_id: TRANSACTIONS + u64::from(transaction),
        attribute_id: request.attribute,
        attribute_modifier: request.modifier,
        m_key,
        dr_slid: Lid::PERMISSIVE,
        dr_dlid: Lid::PERMISSIVE,
        data: request.data.as_deref().copied().unwrap_or([0; SMP_DATA_BYTES]),
        initial_path,
        ..DirectedSmp::default()
    };
    Box::new(ManagementPacket {
        slid: Lid::PERMISSIVE,
        dlid: Lid::PERMISSIVE,
        service_level: ServiceLevel(0),
        source: Qpn(0),
        destination: Qpn(0),
        qkey: QKey(0),
        pkey: PKey::DEFAULT_FULL,
        mad: Box::new(smp.to_bytes()),
    })
}
