//! Connected mode (RFC 4755): a reliable connection to each neighbour, for unicast packets.
//!
//! As in Linux, a connection carries packets in one direction, its receiving ends share a queue of
//! receive requests, and nothing is repeated: a packet that is lost, or finds no receive request,
//! ends the connection. The next packet begins another one.

use super::address::parse;
use super::{Common, IpoibLink, SEND_RING_PACKETS};
use crate::host::kernel::agenda::Due;
use crate::host::kernel::store::{Slot, StoredPacket};
use softband_fabric::World;
use softband_model::verbs::api::{AddressVector, QpCapabilities, QpInit, QpModification, ReceiveRequest, ScatterGatherEntry, SrqInit, VerbsError};
use softband_net::LinkAddress;
use softband_sim::{SimDuration, SimTime};
use softband_types::{Access, CqHandle, Lid, Psn, QpState, QpType, Qpn, SrqHandle};
use std::collections::BTreeMap;

/// Mark of receive requests of the shared queue among the numbers of work requests.
pub(super) const SHARED: u64 = 1 << 33;
/// Local ACK timeout of 4.3 s, twice the life of packets: 4.096 us x 2^20.
const ACK_TIMEOUT: u8 = 20;
/// Time after which the requests of a failed queue pair have been flushed.
const DRAIN: SimDuration = SimDuration::from_micros(100_000);
/// Bytes of a shared receive buffer, for the longest packet of any neighbour (`IPOIB_CM_BUF_SIZE`).
const BUFFER_BYTES: u32 = 65_520 + super::frames::HEADER_BYTES as u32;
/// Most connections of an interface in each direction.
const CONNECTIONS_MAX: usize = 1_024;

/// Connection to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// The other end is asked for.
    Requested,
    /// Packets go by this queue pair of the interface.
    Ready(Qpn),
}

/// Connections of an interface.
#[derive(Debug)]
pub(super) struct Connections {
    srq: SrqHandle,
    cq: CqHandle,
    /// Receive requests of datagrams, and also those of the shared queue.
    receives: u32,
    to: BTreeMap<LinkAddress, Connection>,
    /// Receiving ends by the queue pair and the link address of the sender.
    from: BTreeMap<(LinkAddress, Qpn), Qpn>,
}

/// The sending end of a new connection.
#[derive(Clone, Copy, Debug)]
pub(in crate::host::kernel) struct Request {
    pub(in crate::host::kernel) from: LinkAddress,
    pub(in crate::host::kernel) qpn: Qpn,
    lid: Lid,
}

impl Connections {
    pub(super) fn new(link: &IpoibLink, cq: CqHandle, receives: u32, world: &mut World) -> Result<Self, VerbsError> {
        let super::Place { owner, hca, .. } = link.place;
        let init = SrqInit { pd: link.pd, max_wr: receives, max_sge: 1, xrc: None };
        let srq = world.create_srq(owner, hca, init)?;
        Ok(Self { srq, cq, receives, to: BTreeMap::new(), from: BTreeMap::new() })
    }

    /// Returns the connection to a neighbour.
    pub(super) fn to(&self, address: &LinkAddress) -> Option<Connection> {
        self.to.get(address).copied()
    }
}

impl IpoibLink {
    /// Posts a buffer for packets of connections. Their numbers follow those of datagrams.
    pub(super) fn post_shared_receive(&mut self, world: &mut World, now: SimTime, number: u32) {
        let Some(connections) = &self.connections else { return };
        let slot = Slot::to_receive(self.area, connections.receives + number);
        let entry = ScatterGatherEntry { address: slot.address(), len_bytes: BUFFER_BYTES, lkey: self.lkey };
        let request = ReceiveRequest::new(SHARED | super::RECEIVE | u64::from(number), vec![entry]);
        world.post_srq_receive(now, self.place.owner, connections.srq, request);
    }

    /// Takes the bytes of a packet of a connection, and posts its buffer again.
    pub(super) fn take_shared(&mut self, world: &mut World, common: &mut Common, now: SimTime, number: u32) -> StoredPacket {
        let packet = common.store.take(self.shared_slot(number));
        self.post_shared_receive(world, now, number);
        packet
    }

    /// Returns a packet of the shared queue, which stays there.
    pub(super) fn shared<'a>(&self, common: &'a Common, number: u32) -> Option<&'a StoredPacket> {
        common.store.get(self.shared_slot(number))
    }

    /// Returns the slot of a packet of the shared queue. Those of datagrams lie before.
    fn shared_slot(&self, number: u32) -> Slot {
        let receives = self.connections.as_ref().map_or(0, |connections| connections.receives);
        Slot::to_receive(self.area, receives + number)
    }

    /// Asks for a connection to a neighbour.
    pub(super) fn request_connection(&mut self, common: &mut Common, at: SimTime, to: LinkAddress) {
        if let Some(connections) = &mut self.connections {
            connections.to.insert(to, Connection::Requested);
            common.agenda.push(at, Due::Connect { host: self.place.host, interface: self.place.interface, to });
        }
    }

    /// Creates the sending end of a connection.
    pub(in crate::host::kernel) fn begin_connection(&mut self, world: &mut World, now: SimTime) -> Option<Request> {
        let from = self.address(world)?;
        let lid = world.port(self.place.hca, self.place.port)?.lid;
        let cq = self.connections.as_ref().filter(|connections| connections.to.len() <= CONNECTIONS_MAX)?.cq;
        let capabilities = QpCapabilities { max_send_wr: SEND_RING_PACKETS, max_recv_wr: 0, ..QpCapabilities::default() };
        let init = QpInit { capabilities, ..QpInit::new(QpType::Rc, self.pd, cq) };
        let qpn = self.create(world, now, init)?;
        Some(Request { from, qpn, lid })
    }

    fn create(&self, world: &mut World, now: SimTime, init: QpInit) -> Option<Qpn> {
        let super::Place { owner, hca, port, .. } = self.place;
        let qpn = world.create_qp(owner, hca, init).ok()?.qpn;
        let to_init = QpModification { pkey_index: Some(self.pkey_index), ..QpModification::to_init(port, Access::default()) };
        if world.modify_qp(now, owner, hca, qpn, &to_init).is_err() {
            self.destroy(world, now, qpn);
            return None;
        }
        Some(qpn)
    }

    /// Creates the receiving end of a connection. Returns its queue pair.
    pub(in crate::host::kernel) fn accept_connection(&mut self, world: &mut World, now: SimTime, request: &Request) -> Option<Qpn> {
        let connections = self.connections.as_ref().filter(|connections| connections.from.len() < CONNECTIONS_MAX)?;
        let (srq, cq) = (connections.srq, connections.cq);
        let capabilities = QpCapabilities { max_send_wr: 1, max_recv_wr: 0, ..QpCapabilities::default() };
        let init = QpInit { capabilities, srq: Some(srq), ..QpInit::new(QpType::Rc, self.pd, cq) };
        let qpn = self.create(world, now, init)?;
        if self.connect_ends(world, now, qpn, (request.from, request.lid, request.qpn)).is_none() {
            self.destroy(world, now, qpn);
            return None;
        }
        if let Some(connections) = &mut self.connections {
            connections.from.insert((request.from, request.qpn), qpn);
        }
        Some(qpn)
    }

    fn connect_ends(&self, world: &mut World, now: SimTime, qpn: Qpn, (peer, lid, peer_qpn): (LinkAddress, Lid, Qpn)) -> Option<()> {
        let super::Place { owner, hca, port, .. } = self.place;
        let (_, gid) = parse(&peer)?;
        let mtu = world.path_mtu((hca, port), world.port_with_gid(gid)?)?;
        let vector = world.resolve(hca, &AddressVector { dlid: lid, port, ..AddressVector::default() }).ok()?;
        let to_rtr = QpModification { address_vector: Some(vector), ..QpModification::to_rtr(port, (lid, peer_qpn), mtu, Psn::new(0)) };
        // `ipoib_cm_send_req` of the kernel: no repetitions.
        let to_rts =
            QpModification { retry_count: Some(0), rnr_retry: Some(0), local_ack_timeout: Some(ACK_TIMEOUT), ..QpModification::to_rts(Psn::new(0)) };
        for step in [to_rtr, to_rts] {
            world.modify_qp(now, owner, hca, qpn, &step).ok()?;
        }
        Some(())
    }

    /// Tells the sending end of a connection its receiving end.
    pub(in crate::host::kernel) fn complete_connection(
        &self,
        world: &mut World,
        now: SimTime,
        request: &Request,
        (to, peer): (LinkAddress, Qpn),
    ) -> Option<()> {
        let (_, gid) = parse(&to)?;
        let (hca, port) = world.port_with_gid(gid)?;
        let lid = world.port(hca, port)?.lid;
        self.connect_ends(world, now, request.qpn, (to, lid, peer))
    }

    /// Notes the sending end of a connection, or that there is none. Sends the packets that waited.
    pub(in crate::host::kernel) fn connected(&mut self, world: &mut World, common: &mut Common, now: SimTime, to: LinkAddress, ready: Option<Qpn>) {
        if let Some(connections) = &mut self.connections {
            match ready {
                Some(qpn) => connections.to.insert(to, Connection::Ready(qpn)),
                None => connections.to.remove(&to),
            };
        }
        if ready.is_none() {
            self.drop_to(common, now, to);
        }
        self.send_waiting(world, common, now);
    }

    /// Ends a connection whose packet was not delivered.
    pub(super) fn connection_failed(&mut self, common: &mut Common, now: SimTime, qpn: Qpn) {
        let Some(connections) = &mut self.connections else { return };
        let found = connections.to.iter().find(|(_, connection)| **connection == Connection::Ready(qpn)).map(|(to, _)| *to);
        if let Some(to) = found {
            connections.to.remove(&to);
            common.agenda.push(now + DRAIN, Due::Disconnect { host: self.place.host, interface: self.place.interface, to, qpn });
        }
    }

    /// Ends all connections: neighbours know the old LID of the port.
    pub(super) fn fail_connections(&mut self, world: &mut World, common: &mut Common, now: SimTime) {
        let Some(connections) = &self.connections else { return };
        let ends = connections.to.values().filter_map(|connection| match connection {
            Connection::Ready(qpn) => Some(*qpn),
            Connection::Requested => None,
        });
        for qpn in ends.collect::<Vec<_>>() {
            let to_error = QpModification { state: Some(QpState::Error), ..QpModification::default() };
            let _ = world.modify_qp(now, self.place.owner, self.place.hca, qpn, &to_error);
            self.connection_failed(common, now, qpn);
        }
    }

    /// Destroys the sending end of a connection. Its requests have been flushed.
    pub(in crate::host::kernel) fn destroy(&self, world: &mut World, now: SimTime, qpn: Qpn) {
        let _ = world.destroy_qp(now, self.place.owner, self.place.hca, qpn);
    }

    /// Destroys the receiving end of a connection.
    pub(in crate::host::kernel) fn disconnected(&mut self, world: &mut World, now: SimTime, from: LinkAddress, qpn: Qpn) {
        let end = self.connections.as_mut().and_then(|connections| connections.from.remove(&(from, qpn)));
        if let Some(end) = end {
            self.destroy(world, now, end);
        }
    }

    /// Returns the most bytes of a datagram of the interface.
    pub(super) fn datagram_bytes(&self, world: &World) -> u32 {
        world.port(self.place.hca, self.place.port).map_or(0, |port| port.mtu_active.bytes())
    }
}
