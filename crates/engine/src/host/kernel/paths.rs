//! Queries of interfaces to subnet administration for paths (IBTA 15.2.5.16). Pure.

use crate::host::cm::memberships::request_packet;
use crate::host::cm::path::{LocalPort, Port};
use softband_model::management::ManagementPacket;
use softband_net::InterfaceId;
use softband_sim::SimDuration;
use softband_types::{Gid, PKey};
use softband_wire::mad::{AttributeId, ComponentMask, Header, Layout, Method, PathRecord, SaMad, Status};
use std::collections::BTreeMap;

/// Wait for an answer, and repetitions: a second in all (`path_rec_start` of the kernel, `send_mad` in
/// `sa_query.c`).
pub(super) const TIMEOUT: SimDuration = SimDuration::from_micros(100_000);
const RETRIES: u8 = 10;
/// Upper half of the transaction ids, beside those of memberships.
const AGENT: u64 = (u32::MAX - 2) as u64;
/// Components that the kernel names.
const COMPONENTS: ComponentMask = ComponentMask(
    ComponentMask::PATH_DGID.0
        | ComponentMask::PATH_SGID.0
        | ComponentMask::PATH_NUMB_PATH.0
        | ComponentMask::PATH_TCLASS.0
        | ComponentMask::PATH_P_KEY.0,
);

/// A query under way: the interface that asks, and the port that it looks for.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) of: (usize, InterfaceId),
    pub(super) to: Gid,
    port: Port,
    packet: Box<ManagementPacket>,
    retries_left: u8,
}

/// Effect of a query that waited in vain.
#[derive(Debug)]
pub(super) enum Expired {
    /// The packet leaves the port again.
    Again(Port, Box<ManagementPacket>),
    /// There is no answer.
    Over(Query),
}

/// All queries by their transaction ids.
#[derive(Debug, Default)]
pub(super) struct Paths {
    queries: BTreeMap<u64, Query>,
    last: u32,
}

impl Paths {
    /// Begins a query. Returns its transaction id and its packet.
    pub(super) fn ask(&mut self, of: (usize, InterfaceId), port: &LocalPort, pkey: PKey, to: Gid) -> (u64, Box<ManagementPacket>) {
        self.last = self.last.wrapping_add(1);
        let transaction = AGENT << 32 | u64::from(self.last);
        let record = PathRecord { sgid: port.gid, dgid: to, numb_path: 1, p_key: PKey(pkey.0 | 0x8000), ..PathRecord::default() };
        let packet = request_packet(port, (AttributeId::PATH_RECORD, Method::GET), transaction, (COMPONENTS, &record));
        let query = Query { of, to, port: (port.hca, port.port), packet: packet.clone(), retries_left: RETRIES };
        self.queries.insert(transaction, query);
        (transaction, packet)
    }

    /// Takes the query that a packet answers, with the path that it names.
    pub(super) fn take_answer(&mut self, port: Port, packet: &ManagementPacket) -> Option<(Query, Option<PathRecord>)> {
        let header = Header::view(&packet.mad[..]);
        let transaction = header.transaction_id();
        let query = self.queries.get(&transaction).filter(|_| header.method().is_response())?;
        if query.port != port || query.packet.dlid != packet.slid {
            return None;
        }
        let query = self.queries.remove(&transaction)?;
        let is_good = header.status() == Status::SUCCESS && header.attribute_id() == AttributeId::PATH_RECORD;
        let record = PathRecord::parse(&SaMad::view(&packet.mad[..]).data()).ok();
        Some((query, record.filter(|_| is_good)))
    }

    /// Notes the end of a wait. Returns nothing if the answer has come.
    pub(super) fn expire(&mut self, transaction: u64) -> Option<Expired> {
        let query = self.queries.get_mut(&transaction)?;
        if query.retries_left > 0 {
            query.retries_left -= 1;
            return Some(Expired::Again(query.port, query.packet.clone()));
        }
        self.queries.remove(&transaction).map(Expired::Over)
    }
}
