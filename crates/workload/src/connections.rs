//! Queue pairs between ranks. Their creation takes no simulated time.

use crate::protocol::PortView;
use softband_fabric::{QPN_FIRST, World};
use softband_model::verbs::api::{
    AddressVector, GlobalRoute, MrInit, QpCapabilities, QpInit, QpModification, ReceiveRequest, ScatterGatherEntry, VerbsError,
};
use softband_types::{
    Access, CqHandle, HcaId, LKey, Lid, LinkLayer, Mtu, PdHandle, PortNumber, ProcessId, Psn, QpState, QpType, Qpn, RKey, ServiceLevel,
};
use std::collections::BTreeMap;

/// Start address of the memory of every rank. This memory stores nothing.
pub(crate) const BASE: u64 = 0x1_0000;
/// Room for the largest message, in bytes.
const MEMORY_BYTES: u64 = 1 << 32;
const MESSAGE_BYTES_MAX: u32 = 1 << 31;
/// perftest's defaults: timeout code, retry count and RNR timer code.
const ACK_TIMEOUT: u8 = 14;
const RETRIES: u8 = 7;
const RNR_TIMER: u8 = 12;

/// Verbs objects of a rank: its HCA with one memory region and one CQ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint {
    pub process: ProcessId,
    pub hca: HcaId,
    pub port: PortNumber,
    pub lkey: LKey,
    pub rkey: RKey,
    pd: PdHandle,
    cq: CqHandle,
    depth_max: u32,
}

/// Reason why a verbs object could not be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoPort,
    /// The path MTU between two ranks is below the requested MTU of all connections.
    PathMtu {
        ranks: [u32; 2],
        wanted: Mtu,
        carried: Mtu,
    },
    Verbs(VerbsError),
}

impl From<VerbsError> for Refusal {
    fn from(error: VerbsError) -> Self {
        Self::Verbs(error)
    }
}

/// Returns the first cabled port of a host's HCAs.
fn port_of(world: &World, host: usize) -> Option<(HcaId, PortNumber)> {
    world.spec().hosts[host].verbs_devices().find_map(|(index, _)| {
        let hca = world.hca_id(host, index);
        let number = (1..=world.hca_part(hca).ports).map(PortNumber);
        number.into_iter().find(|number| world.port(hca, *number).is_some_and(|port| port.active)).map(|number| (hca, number))
    })
}

/// Creates the endpoint of a rank. A rank that takes no part needs no cable, because nothing uses
/// its endpoint.
pub(crate) fn endpoint(world: &mut World, rank: u32, host: usize, (takes_part, reads): (bool, bool)) -> Result<Endpoint, Refusal> {
    let first = world.spec().hosts[host].verbs_devices().next().filter(|_| !takes_part);
    let idle = first.map(|(index, _)| (world.hca_id(host, index), PortNumber(1)));
    let (hca, port) = port_of(world, host).or(idle).ok_or(Refusal::NoPort)?;
    let process = ProcessId(rank);
    let pd = world.alloc_pd(process, hca)?;
    let depth_max = world.hca_part(hca).max_qp_wr;
    let cqe_max = world.hca_part(hca).max_cqe;
    let cq = world.create_cq(process, hca, cqe_max)?;
    let access = Access { local_write: true, remote_write: true, remote_read: reads, ..Access::default() };
    let init = MrInit { owner: process, pd, address: BASE, len_bytes: MEMORY_BYTES, iova: BASE, access };
    let (_, lkey, rkey) = world.register_mr(hca, init)?;
    Ok(Endpoint { process, hca, port, lkey, rkey, pd, cq, depth_max })
}

/// One side of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    /// Queue pair that this side sends by.
    pub qpn: Qpn,
    /// Capacity of its send queue, in work requests.
    pub depth: u32,
}

/// All connections made so far.
pub(crate) struct Connections {
    depth: u32,
    /// MTU of all connections, even if their paths carry more.
    mtu: Option<Mtu>,
    service_level: ServiceLevel,
    /// Whether ranks read from each other by RDMA.
    reads: bool,
    /// For each lower rank, by higher rank: the queue pairs of the lower and of the higher rank.
    /// A pair of ranks may have several connections, its rails.
    pairs: Vec<BTreeMap<(u32, u32), [Qpn; 2]>>,
    /// Number of queue pairs created on each HCA, which determines their QPNs.
    made: BTreeMap<HcaId, u32>,
    count: usize,
    /// Least MTU of all links.
    mtu_least: Option<Mtu>,
}

impl Connections {
    pub(crate) fn new(ranks: usize, depth: u32, (mtu, service_level): (Option<Mtu>, ServiceLevel), reads: bool) -> Self {
        Self { depth, mtu, service_level, reads, pairs: vec![BTreeMap::new(); ranks], made: BTreeMap::new(), count: 0, mtu_least: None }
    }

    /// Returns the sending side of the connection from one rank to another. Creates the connection
    /// if needed.
    pub(crate) fn side(&mut self, world: &mut World, endpoints: &[Endpoint], (from, to): (u32, u32), rail: u32) -> Result<Side, Refusal> {
        let (low, high) = (from.min(to), from.max(to));
        let (a, b) = (endpoints[low as usize], endpoints[high as usize]);
        let depth = self.depth.min(a.depth_max).min(b.depth_max);
        let qpns = match self.pairs[low as usize].get(&(high, rail)) {
            Some(qpns) => *qpns,
            None => {
                let qpns = self.connect(world, a, b, depth)?;
                self.pairs[low as usize].insert((high, rail), qpns);
                self.count += 1;
                qpns
            }
        };
        Ok(Side { qpn: if from <= to { qpns[0] } else { qpns[1] }, depth })
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    fn connect(&mut self, world: &mut World, a: Endpoint, b: Endpoint, depth: u32) -> Result<[Qpn; 2], Refusal> {
        let qpns = [self.create(world, a, depth)?, self.create(world, b, depth)?];
        let carried = self.path_mtu(world, a, b);
        let mtu = self.mtu.unwrap_or(carried);
        if mtu > carried {
            return Err(Refusal::PathMtu { ranks: [a.process.0, b.process.0], wanted: mtu, carried });
        }
        let reads = if self.reads { reads_max(world, a).min(reads_max(world, b)) } else { 0 };
        for (own, peer, qpn, other) in [(a, b, qpns[0], qpns[1]), (b, a, qpns[1], qpns[0])] {
            if world.has_hca(own.hca) {
                bring_up(world, own, qpn, way_to(world, own, peer, self.service_level), (other, mtu, reads))?;
                world.receive_always(own.hca, qpn, standing_receive(own));
            }
        }
        Ok(qpns)
    }

    /// Returns the path MTU of both directions. Follows the path only if some link carries less
    /// than these ports.
    fn path_mtu(&mut self, world: &World, a: Endpoint, b: Endpoint) -> Mtu {
        let of_ports = mtu(world, a).min(mtu(world, b));
        let least = *self.mtu_least.get_or_insert_with(|| world.mtu_least().unwrap_or(of_ports));
        if of_ports <= least || a.hca == b.hca {
            return of_ports;
        }
        let paths = [(a, b), (b, a)].map(|(from, to)| world.path_mtu((from.hca, from.port), (to.hca, to.port)));
        paths.into_iter().flatten().fold(of_ports, Mtu::min)
    }

    /// Creates the next queue pair of a rank's HCA. For an HCA of another World, only counts it:
    /// that World creates the same queue pair.
    fn create(&mut self, world: &mut World, of: Endpoint, depth: u32) -> Result<Qpn, Refusal> {
        let made = self.made.entry(of.hca).or_default();
        let expected = Qpn(QPN_FIRST + *made);
        *made += 1;
        if !world.has_hca(of.hca) {
            return Ok(expected);
        }
        let capabilities = QpCapabilities { max_send_wr: depth, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline_bytes: 0 };
        let init = QpInit {
            qp_type: QpType::Rc,
            pd: of.pd,
            send_cq: of.cq,
            recv_cq: of.cq,
            srq: None,
            xrcd: None,
            capabilities,
            signal_all: false,
            block_own_multicast: false,
        };
        let qpn = world.create_qp(of.process, of.hca, init)?.qpn;
        debug_assert_eq!(qpn, expected, "nobody else makes queue pairs here");
        Ok(qpn)
    }
}

/// Returns a receive request that takes any message. Receivers are never late.
fn standing_receive(of: Endpoint) -> ReceiveRequest {
    let entry = ScatterGatherEntry { address: BASE, len_bytes: MESSAGE_BYTES_MAX, lkey: of.lkey };
    ReceiveRequest { wr_id: 0, entries: vec![entry], srq: None }
}

/// Returns the port of a rank, as its library sees it.
pub(crate) fn port_view(world: &World, of: Endpoint) -> Option<PortView> {
    let port = world.port(of.hca, of.port)?;
    let (speed, lanes) = (port.rate.speed, port.rate.width.lanes());
    let (mtu_bytes, inline_max) = (port.mtu_active.bytes(), world.hca_part(of.hca).max_inline_bytes);
    Some(PortView { speed, lanes, mtu_bytes, link_layer: port.link_layer, inline_max })
}

/// Returns the number of RDMA reads that an HCA carries out for a queue pair at a time.
fn reads_max(world: &World, of: Endpoint) -> u8 {
    world.hca_part(of.hca).max_rd_atomic.min(u32::from(u8::MAX)) as u8
}

fn mtu(world: &World, of: Endpoint) -> Mtu {
    world.port(of.hca, of.port).map_or(Mtu::B256, |port| port.mtu_active)
}

/// Returns the address of a port: its LID, or on Ethernet its IPv4 address, the last entry of its
/// GID table.
fn way_to(world: &World, own: Endpoint, peer: Endpoint, service_level: ServiceLevel) -> AddressVector {
    let port = world.port(peer.hca, peer.port).expect("it was found before");
    let ethernet = port.link_layer == LinkLayer::Ethernet;
    let route = |dgid| GlobalRoute { dgid, sgid_index: 1, hop_limit: 64, ..GlobalRoute::default() };
    let dlid = if ethernet { Lid::NONE } else { port.lid };
    AddressVector { dlid, service_level, port: own.port, grh: port.gids[1].filter(|_| ethernet).map(route), ..AddressVector::default() }
}

fn bring_up(world: &mut World, own: Endpoint, qpn: Qpn, way: AddressVector, (other, mtu, reads): (Qpn, Mtu, u8)) -> Result<(), Refusal> {
    let access = Access { remote_write: true, local_write: true, remote_read: reads > 0, ..Access::default() };
    let to = |state| QpModification { state: Some(state), ..QpModification::default() };
    let init = QpModification { pkey_index: Some(0), port: Some(own.port), access: Some(access), ..to(QpState::Init) };
    let rtr = QpModification {
        address_vector: Some(way),
        path_mtu: Some(mtu),
        dest_qpn: Some(other),
        receive_psn: Some(Psn::new(0)),
        max_dest_rd_atomic: Some(reads.max(1)),
        min_rnr_timer: Some(RNR_TIMER),
        ..to(QpState::Rtr)
    };
    let rts = QpModification {
        send_psn: Some(Psn::new(0)),
        local_ack_timeout: Some(ACK_TIMEOUT),
        retry_count: Some(RETRIES),
        rnr_retry: Some(RETRIES),
        max_rd_atomic: Some(reads.max(1)),
        ..to(QpState::Rts)
    };
    for modification in [init, rtr, rts] {
        let now = world.now();
        world.modify_qp(now, own.process, own.hca, qpn, &modification)?;
    }
    Ok(())
}
