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
        let record = record.filter(|record| is_good && record.dgid == query.to);
        Some((query, record))
    }

    /// Forgets the queries of an interface. Their answers would end later queries for the same ports.
    pub(super) fn forget(&mut self, of: (usize, InterfaceId)) {
        self.queries.retain(|_, query| query.of != of);
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

#[cfg(test)]
mod tests {
    use super::*;
    use softband_types::{Guid, HcaId, Lid, PortNumber};

    const MANAGER: Lid = Lid(1);

    fn gid(number: u64) -> Gid {
        Gid::new(Gid::DEFAULT_PREFIX, Guid(number))
    }

    fn port(lid: Lid) -> LocalPort {
        LocalPort {
            host: 0,
            hca: HcaId(0),
            port: PortNumber(1),
            lid,
            gid: gid(lid.0.into()),
            gid_index: 0,
            interface: None,
            node_guid: Guid(1),
            pkey: PKey::DEFAULT_FULL,
            pkey_index: 0,
            sm_lid: MANAGER,
        }
    }

    /// Returns the manager's answer to a query.
    fn answer(transaction: u64, dgid: Gid) -> Box<ManagementPacket> {
        let record = PathRecord { dgid, dlid: Lid(7), ..PathRecord::default() };
        request_packet(&port(MANAGER), (AttributeId::PATH_RECORD, Method::GET_RESP), transaction, (COMPONENTS, &record))
    }

    #[test]
    fn an_answer_ends_its_own_query_alone() {
        let (mut paths, own, of) = (Paths::default(), port(Lid(2)), [(0, InterfaceId(1)), (0, InterfaceId(2))]);
        let place = (own.hca, own.port);
        let [lost, other] = of.map(|of| paths.ask(of, &own, own.pkey, gid(3)).0);
        paths.forget(of[0]);
        let (again, _) = paths.ask(of[0], &own, own.pkey, gid(3));
        assert!(paths.take_answer(place, &answer(lost, gid(3))).is_none() && paths.expire(lost).is_none());
        for transaction in [again, other] {
            let (query, record) = paths.take_answer(place, &answer(transaction, gid(3))).expect("a query under way");
            assert_eq!((query.to, record.map(|record| record.dlid)), (gid(3), Some(Lid(7))));
        }
    }

    #[test]
    fn a_path_to_another_port_is_none() {
        let (mut paths, own) = (Paths::default(), port(Lid(2)));
        let (transaction, _) = paths.ask((0, InterfaceId(1)), &own, own.pkey, gid(3));
        let (_, record) = paths.take_answer((own.hca, own.port), &answer(transaction, gid(4))).expect("a query under way");
        assert!(record.is_none());
    }
}
