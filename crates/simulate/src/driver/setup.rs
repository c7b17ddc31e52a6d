//! Objects and connections of the programs, made before the first event.

use super::{Driver, Objects, Timer};
use crate::Digest;
use crate::memory::{Memory, REGION_BYTES, address_of};
use crate::oracle::{Oracle, ProcessRecord, Rule, Violation, first_psn};
use crate::plan::{ConnectionPlan, End, Plan, REGIONS};
use crate::sabotage::{Sabotage, Saboteur};
use softband_catalog::Catalog;
use softband_fabric::World;
use softband_model::verbs::XrcdOpen;
use softband_model::verbs::api::{AddressVector, GlobalRoute, MrInit, QpCapabilities, QpInit, QpModification, SrqInit, SrqOfXrc, VerbsError};
use softband_sim::SimTime;
use softband_spec::FabricSpec;
use softband_spec::faults::{BitErrorRate, FaultKind, FaultSpec};
use softband_types::{Access, Lid, LinkLayer, Mtu, PortNumber, ProcessId, Psn, QKey, QpState, QpType, ServiceLevel};
use std::collections::{BTreeMap, VecDeque};

const PORT: PortNumber = PortNumber(1);
const ALL_RIGHTS: Access = Access { local_write: true, remote_write: true, remote_read: true, remote_atomic: true, mw_bind: true };
/// Key of all datagram queue pairs.
pub(super) const QKEY: QKey = QKey(0x1111);
/// Receive requests of a shared queue.
const SHARED_DEPTH: u32 = 256;
const PIECES_MAX: u32 = 3;

fn refused(error: VerbsError) -> Violation {
    Violation::new(Rule::Outcome, format!("a verb was refused: {error}"))
}

impl<'a> Driver<'a> {
    pub(super) fn new(plan: &'a Plan, catalog: &Catalog, sabotage: Option<Sabotage>) -> Result<Self, Violation> {
        let mut spec = plan.fabric.build(catalog).map_err(|error| Violation::new(Rule::Fabric, error))?;
        spec.faults = faults_with_end(plan, &spec);
        let mut world = World::new(&spec, plan.seed);
        world.set_packet_loss(plan.loss_ppm);
        let mut driver = Self {
            plan,
            spec,
            world,
            memory: Memory::new(plan.processes.len(), Saboteur::new(sabotage)),
            oracle: Oracle::new(plan),
            objects: Vec::new(),
            address_handles: BTreeMap::new(),
            backlog: BTreeMap::new(),
            timers: Vec::new(),
            handles: Vec::new(),
            next_tag: 1,
            digest: Digest::default(),
            events: 0,
            deadlocks: 0,
            is_stuck: false,
        };
        (0..plan.processes.len()).try_for_each(|process| driver.create_objects(process)).map_err(refused)?;
        let ends = (0..plan.connections.len()).flat_map(|connection| [0, 1].map(|side| End { connection, side }));
        ends.clone().try_for_each(|end| driver.create_queue_pair(end)).map_err(refused)?;
        ends.clone().try_for_each(|end| driver.bring_up(end)).map_err(refused)?;
        driver.schedule(ends.collect());
        Ok(driver)
    }

    fn create_objects(&mut self, process: usize) -> Result<(), VerbsError> {
        let place = self.plan.processes[process];
        let (id, hca) = (ProcessId(process as u32), self.world.hca_id(place.host, place.hca));
        let pd = self.world.alloc_pd(id, hca)?;
        let entries = self.world.hca_part(hca).max_cqe;
        let record = ProcessRecord {
            send_cq: self.world.create_cq(id, hca, entries)?,
            receive_cq: self.world.create_cq(id, hca, entries)?,
            has_deregistered: false,
            shared: BTreeMap::new(),
        };
        self.oracle.processes.push(record);
        let mut regions = Vec::new();
        for region in 0..=REGIONS {
            let address = address_of(region);
            let init = MrInit { owner: id, pd, address, len_bytes: REGION_BYTES, iova: address, access: ALL_RIGHTS };
            regions.push(self.world.register_mr(hca, init)?);
        }
        let limits = &self.world.hca_part(hca).optional;
        let (max_wr, max_sge) = (SHARED_DEPTH.min(limits.max_srq_wr), PIECES_MAX.min(limits.max_srq_sge));
        let shares = place.shares_receives.then(|| self.world.create_srq(id, hca, SrqInit { pd, max_wr, max_sge, xrc: None }));
        let srq = shares.transpose()?;
        let receives = |plan: &ConnectionPlan| plan.transport == QpType::XrcSend && plan.ends[1] == process;
        let extended = if self.plan.connections.iter().any(receives) {
            let xrcd = self.world.open_xrcd(id, hca, XrcdOpen { key: None, create: true, exclusive: false })?;
            let xrc = Some(SrqOfXrc { xrcd, cq: self.oracle.processes[process].receive_cq });
            Some((xrcd, self.world.create_srq(id, hca, SrqInit { pd, max_wr, max_sge, xrc })?))
        } else {
            None
        };
        self.objects.push(Objects { id, hca, pd, srq, extended, regions });
        Ok(())
    }

    fn create_queue_pair(&mut self, end: End) -> Result<(), VerbsError> {
        let plan = &self.plan.connections[end.connection];
        let process = plan.ends[end.side];
        let Objects { id, hca, pd, srq, extended, .. } = self.objects[process];
        let qp_type = plan.type_at(end.side);
        let is_extended = plan.transport == QpType::XrcSend;
        let part = self.world.hca_part(hca);
        let pieces = PIECES_MAX.min(part.max_sge);
        let capabilities = QpCapabilities {
            max_send_wr: plan.send_depth,
            max_recv_wr: plan.receives[end.side].depth,
            max_send_sge: pieces,
            max_recv_sge: pieces,
            max_inline_bytes: part.max_inline_bytes,
        };
        let record = &self.oracle.processes[process];
        let init = QpInit {
            qp_type,
            pd,
            send_cq: record.send_cq,
            recv_cq: record.receive_cq,
            srq: srq.filter(|_| !is_extended),
            xrcd: extended.map(|(xrcd, _)| xrcd).filter(|_| qp_type == QpType::XrcRecv),
            capabilities,
            signal_all: plan.signals_all,
            block_own_multicast: false,
        };
        let qpn = self.world.create_qp(id, hca, init)?.qpn;
        self.oracle.add_end(end, (process, hca, qpn), plan, &mut self.memory);
        Ok(())
    }

    /// Moves the queue pair of an end from RESET to RTS.
    pub(super) fn bring_up(&mut self, end: End) -> Result<(), VerbsError> {
        let plan = &self.plan.connections[end.connection];
        let (own, peer) = (&self.oracle.ends[&end], &self.oracle.ends[&end.peer()]);
        let (hca, qpn, dest_qpn, generation) = (own.hca, own.qpn, peer.qpn, own.generation);
        let way = self.way_to(end, plan);
        let id = self.objects[plan.ends[end.side]].id;
        if plan.transport == QpType::Ud {
            let pd = self.objects[plan.ends[end.side]].pd;
            if let Some(former) = self.address_handles.remove(&end) {
                self.world.destroy_ah(id, former)?;
            }
            let ah = self.world.create_ah(id, pd, way)?;
            self.address_handles.insert(end, ah);
        }
        let psns = [end.side, end.peer().side].map(|side| Psn::new(first_psn(plan, generation, side)));
        for modification in modifications(plan, way, dest_qpn, psns) {
            self.world.modify_qp(self.world.now(), id, hca, qpn, &modification)?;
        }
        Ok(())
    }

    fn way_to(&self, end: End, plan: &ConnectionPlan) -> AddressVector {
        let peer = self.oracle.ends[&end.peer()].hca;
        let port = self.world.port(peer, PORT).expect("every HCA has a first port");
        let ethernet = port.link_layer == LinkLayer::Ethernet;
        let route = |dgid| GlobalRoute { dgid, sgid_index: 1, hop_limit: 64, ..GlobalRoute::default() };
        AddressVector {
            dlid: if ethernet { Lid::NONE } else { port.lid },
            service_level: ServiceLevel(plan.service_level),
            port: PORT,
            grh: port.gids[1].filter(|_| ethernet).map(route),
            ..AddressVector::default()
        }
    }

    fn schedule(&mut self, ends: Vec<End>) {
        let first = self.objects[0].hca;
        for (index, action) in self.plan.actions.iter().enumerate() {
            self.wake_at(first, SimTime::from_picos(action.at_nanos * 1_000), Timer::Action(index));
        }
        for end in ends {
            self.fill_receives(end);
            self.backlog.insert(end, VecDeque::new());
        }
        self.wake_at(first, self.plan.calm_from(), Timer::Calm);
    }

    /// Schedules the first receive requests of a generation.
    pub(super) fn fill_receives(&mut self, end: End) {
        let plan = &self.plan.connections[end.connection];
        let receives = plan.receives[end.side];
        let (hca, generation) = (self.oracle.ends[&end].hca, self.oracle.ends[&end].generation);
        let at = SimTime::from_picos(receives.from_nanos * 1_000).max(self.world.now());
        let timer = Timer::Receive { end, generation, count: receives.depth };
        self.wake_at(hca, at, timer);
    }
}

/// Returns the planned faults, and the end of those that would last.
fn faults_with_end(plan: &Plan, spec: &FabricSpec) -> Vec<FaultSpec> {
    let mut faults = plan.faults.clone();
    let at = plan.calm_from();
    for cable in 0..spec.cables.len() {
        if faults.iter().any(|fault| fault.kind == FaultKind::LinkDown { cable }) {
            faults.push(FaultSpec { at, kind: FaultKind::LinkUp { cable } });
        }
        if faults.iter().any(|fault| matches!(fault.kind, FaultKind::BitErrors { cable: of, .. } if of == cable)) {
            faults.push(FaultSpec { at, kind: FaultKind::BitErrors { cable, rate: BitErrorRate::NONE } });
        }
    }
    faults
}

/// Returns the steps to RTS. `psns` are the first PSNs of this side and of the peer.
fn modifications(plan: &ConnectionPlan, way: AddressVector, dest_qpn: softband_types::Qpn, psns: [Psn; 2]) -> [QpModification; 3] {
    let to = |state| QpModification { state: Some(state), ..QpModification::default() };
    let (ud, reliable) = (plan.transport == QpType::Ud, plan.transport.is_reliable());
    let init =
        QpModification { pkey_index: Some(0), port: Some(PORT), access: (!ud).then_some(ALL_RIGHTS), qkey: ud.then_some(QKEY), ..to(QpState::Init) };
    let rtr = QpModification {
        address_vector: (!ud).then_some(way),
        path_mtu: Mtu::from_bytes(plan.mtu_bytes).filter(|_| !ud),
        dest_qpn: (!ud).then_some(dest_qpn),
        receive_psn: (!ud).then_some(psns[1]),
        max_dest_rd_atomic: reliable.then_some(plan.rd_atomic),
        min_rnr_timer: reliable.then_some(plan.rnr_timer),
        ..to(QpState::Rtr)
    };
    let rts = QpModification {
        send_psn: Some(psns[0]),
        local_ack_timeout: reliable.then_some(plan.ack_timeout),
        retry_count: reliable.then_some(plan.retry_count),
        rnr_retry: reliable.then_some(plan.rnr_retry),
        max_rd_atomic: reliable.then_some(plan.rd_atomic),
        ..to(QpState::Rts)
    };
    [init, rtr, rts]
}
