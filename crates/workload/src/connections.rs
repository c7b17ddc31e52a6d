//! Queue pairs between ranks, made when they are first needed. Making them takes no simulated time.

use softband_fabric::World;
use softband_model::verbs::api::{AddressVector, GlobalRoute, MrInit, QpCapabilities, QpInit, QpModification, VerbsError};
use softband_types::{Access, CqHandle, HcaId, LKey, Lid, LinkLayer, Mtu, PdHandle, PortNumber, ProcessId, Psn, QpState, QpType, Qpn, RKey};
use std::collections::BTreeMap;

/// Where the memory of every rank begins: nothing is stored there.
pub(crate) const BASE: u64 = 0x1_0000;
/// As much as the largest message may have.
const MEMORY_BYTES: u64 = 1 << 32;
/// perftest's defaults: timeout, retries, pauses of a receiver that is not ready.
const ACK_TIMEOUT: u8 = 14;
const RETRIES: u8 = 7;
const RNR_TIMER: u8 = 12;

/// What a rank has of the verbs: its HCA, with one region and one completion queue.
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

/// Why something of the verbs could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoPort,
    Verbs(VerbsError),
}

impl From<VerbsError> for Refusal {
    fn from(error: VerbsError) -> Self {
        Self::Verbs(error)
    }
}

/// The first cabled port of a host.
fn port_of(world: &World, host: usize) -> Option<(HcaId, PortNumber)> {
    (0..world.spec().hosts[host].hcas.len()).find_map(|index| {
        let hca = world.hca_id(host, index);
        let number = (1..=world.hca_part(hca).ports).map(PortNumber);
        number.into_iter().find(|number| world.port(hca, *number).is_some_and(|port| port.active)).map(|number| (hca, number))
    })
}

pub(crate) fn endpoint(world: &mut World, rank: u32, host: usize) -> Result<Endpoint, Refusal> {
    let (hca, port) = port_of(world, host).ok_or(Refusal::NoPort)?;
    let process = ProcessId(rank);
    let pd = world.alloc_pd(process, hca)?;
    let depth_max = world.hca_part(hca).max_qp_wr;
    let cqe_max = world.hca_part(hca).max_cqe;
    let cq = world.create_cq(process, hca, cqe_max)?;
    let access = Access { local_write: true, remote_write: true, ..Access::default() };
    let init = MrInit { owner: process, pd, address: BASE, len_bytes: MEMORY_BYTES, iova: BASE, access };
    let (_, lkey, rkey) = world.register_mr(hca, init)?;
    Ok(Endpoint { process, hca, port, lkey, rkey, pd, cq, depth_max })
}

/// One side of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    /// What this side sends by, and its peer receives by.
    pub sender: Qpn,
    pub receiver: Qpn,
    /// Work requests that a queue holds.
    pub depth: u32,
}

/// All connections made so far, by the lower and the higher rank.
#[derive(Default)]
pub(crate) struct Connections {
    pairs: BTreeMap<(u32, u32), ([Qpn; 2], u32)>,
}

impl Connections {
    /// The way from one rank to another.
    pub(crate) fn side(&mut self, world: &mut World, from: (u32, Endpoint), to: (u32, Endpoint), depth: u32) -> Result<Side, Refusal> {
        let (low, high) = if from.0 <= to.0 { (from, to) } else { (to, from) };
        let key = (low.0, high.0);
        let (qpns, depth) = match self.pairs.get(&key) {
            Some(pair) => *pair,
            None => {
                let depth = depth.min(low.1.depth_max).min(high.1.depth_max);
                let pair = (connect(world, low.1, high.1, depth)?, depth);
                self.pairs.insert(key, pair);
                pair
            }
        };
        let [sender, receiver] = if from.0 <= to.0 { qpns } else { [qpns[1], qpns[0]] };
        Ok(Side { sender, receiver, depth })
    }

    pub(crate) fn len(&self) -> usize {
        self.pairs.len()
    }
}

fn connect(world: &mut World, a: Endpoint, b: Endpoint, depth: u32) -> Result<[Qpn; 2], Refusal> {
    let qpns = [create(world, a, depth)?, create(world, b, depth)?];
    let (mtu_a, mtu_b) = (mtu(world, a), mtu(world, b));
    for (own, peer, qpn, other) in [(a, b, qpns[0], qpns[1]), (b, a, qpns[1], qpns[0])] {
        bring_up(world, own, qpn, peer, (other, mtu_a.min(mtu_b)))?;
    }
    Ok(qpns)
}

fn mtu(world: &World, of: Endpoint) -> Mtu {
    world.port(of.hca, of.port).map_or(Mtu::B256, |port| port.mtu_active)
}

fn create(world: &mut World, of: Endpoint, depth: u32) -> Result<Qpn, Refusal> {
    let capabilities = QpCapabilities { max_send_wr: depth, max_recv_wr: depth, max_send_sge: 1, max_recv_sge: 1, max_inline_bytes: 0 };
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
    Ok(world.create_qp(of.process, of.hca, init)?.qpn)
}

/// The way to a port: by its LID, on Ethernet by its IPv4 address, the last of its GID table.
fn way_to(world: &World, own: Endpoint, peer: Endpoint) -> AddressVector {
    let port = world.port(peer.hca, peer.port).expect("it was found before");
    let ethernet = port.link_layer == LinkLayer::Ethernet;
    let route = |dgid| GlobalRoute { dgid, sgid_index: 1, hop_limit: 64, ..GlobalRoute::default() };
    let dlid = if ethernet { Lid::NONE } else { port.lid };
    AddressVector { dlid, port: own.port, grh: port.gids[1].filter(|_| ethernet).map(route), ..AddressVector::default() }
}

fn bring_up(world: &mut World, own: Endpoint, qpn: Qpn, peer: Endpoint, (other, mtu): (Qpn, Mtu)) -> Result<(), Refusal> {
    let access = Access { remote_write: true, local_write: true, ..Access::default() };
    let to = |state| QpModification { state: Some(state), ..QpModification::default() };
    let init = QpModification { pkey_index: Some(0), port: Some(own.port), access: Some(access), ..to(QpState::Init) };
    let rtr = QpModification {
        address_vector: Some(way_to(world, own, peer)),
        path_mtu: Some(mtu),
        dest_qpn: Some(other),
        receive_psn: Some(Psn::new(0)),
        max_dest_rd_atomic: Some(1),
        min_rnr_timer: Some(RNR_TIMER),
        ..to(QpState::Rtr)
    };
    let rts = QpModification {
        send_psn: Some(Psn::new(0)),
        local_ack_timeout: Some(ACK_TIMEOUT),
        retry_count: Some(RETRIES),
        rnr_retry: Some(RETRIES),
        max_rd_atomic: Some(1),
        ..to(QpState::Rts)
    };
    for modification in [init, rtr, rts] {
        let now = world.now();
        world.modify_qp(now, own.process, own.hca, qpn, &modification)?;
    }
    Ok(())
}
