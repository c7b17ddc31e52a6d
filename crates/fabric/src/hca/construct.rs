//! Builds the HCAs of a fabric.

use super::contexts::Contexts;
use super::ports::HcaPort;
use super::transfers::Transfers;
use super::{Hca, Hcas, ProcessingEngine};
use crate::numbering::{Numbering, Owner};
use crate::slab::Slab;
use softband_model::bus::{Bus, MemoryController, SharedBus};
use softband_model::link::Sl2Vl;
use softband_model::parts::{BusPart, HcaPart};
use softband_model::verbs::{ChunkPool, Limits, Verbs};
use softband_spec::{FabricSpec, HcaSpec};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

impl Hcas {
    pub(crate) fn new(spec: &FabricSpec, numbering: &Numbering) -> Self {
        let mut buses = Vec::new();
        let nodes = nodes(spec, numbering, &mut buses);
        let limits = nodes.iter().map(|hca| Limits::of(&hca.part)).collect();
        let is_throttled = spec.subnet.congestion_control.is_some();
        let sl2vl = spec.subnet.qos.as_ref().map_or(Sl2Vl::IDENTITY, |qos| qos.hca.sl2vl);
        let ports = numbering.owners().iter().filter_map(|owner| match owner {
            Owner::Hca { hca, .. } => Some(HcaPort::new(*hca, sl2vl, is_throttled)),
            Owner::Switch { .. } => None,
        });
        Self {
            nodes,
            ports: ports.collect(),
            memories: spec.hosts.iter().map(|host| MemoryController::new(&host.part.memory)).collect(),
            buses,
            verbs: Verbs::new(limits),
            chunks: ChunkPool::default(),
            qps: Vec::new(),
            dma_writes: Slab::default(),
            posts: Slab::default(),
            qp_refs: Slab::default(),
            completions: Slab::default(),
            delivered_bytes: 0,
            transfers: Transfers::default(),
            ack_wait_max: None,
            key_violations: Slab::default(),
            posted_frames: Slab::default(),
            plans: 0,
            silent: Vec::new(),
            rings: BTreeMap::new(),
            injection: spec.subnet.congestion_control.as_ref().map(|control| control.injection.clone()),
        }
    }
}

fn nodes(spec: &FabricSpec, numbering: &Numbering, buses: &mut Vec<SharedBus>) -> Vec<Hca> {
    let mut hcas: Vec<Hca> = Vec::new();
    for (host_index, host) in spec.hosts.iter().enumerate() {
        let mut known = BTreeMap::new();
        for (index, hca) in host.hcas.iter().enumerate() {
            let tuned = hca.part.tuned_read_request_bytes.filter(|_| hca.tune_pci);
            let request = tuned.unwrap_or(host.part.read_request_bytes);
            hcas.push(Hca {
                name: format!("{}/{}", host.name, hca.device),
                place: (host_index, index),
                part: shared_with(hcas.last(), behind_bridge(&hca.part, &hca.bus)),
                inline_rate: host.part.inline_bytes_per_second,
                pkeys: hca.pkeys.clone(),
                first_port: numbering.first_port_of_hca(hcas.len()),
                bus: Bus::new(&hca.bus, request, hca.part.outstanding_reads, hca.part.response_completion_bytes),
                shared_bus: bus_of(hca, &mut known, buses),
                qp_of_qpn: Vec::new(),
                qp_count: 0,
                engines: vec![ProcessingEngine::default(); hca.part.processing_engines.clamp(1, u32::from(u16::MAX)) as usize],
                ready: VecDeque::new(),
                contexts: Contexts::default(),
                plans: 0,
                plans_of_own: 0,
                rings: hca.nic.as_ref().map(|nic| (nic.transmit_ring_frames, nic.receive_ring_frames)),
            });
        }
    }
    hcas
}

/// Returns the bus of an HCA: the named bus if the host already has it, otherwise a new bus.
fn bus_of<'a>(hca: &'a HcaSpec, known: &mut BTreeMap<&'a str, u32>, buses: &mut Vec<SharedBus>) -> u32 {
    let next = buses.len() as u32;
    let index = hca.shared_bus.as_deref().map_or(next, |name| *known.entry(name).or_insert(next));
    if index == next {
        buses.push(SharedBus::new(&hca.bus));
    }
    index
}

/// Returns a shared part. HCAs with equal parts share one copy, which keeps large fabrics small.
fn shared_with(before: Option<&Hca>, part: HcaPart) -> Arc<HcaPart> {
    match before {
        Some(before) if *before.part == part => Arc::clone(&before.part),
        _ => Arc::new(part),
    }
}

/// Returns the part with bridge delays added; its own times assume a slot of the host bridge.
/// Doorbells and completions cross the bridge once, WQE fetches twice. The bus model covers the
/// payload.
fn behind_bridge(part: &HcaPart, bus: &BusPart) -> HcaPart {
    let mut part = part.clone();
    if let Some(bridge) = bus.bridge {
        let (once, twice) = (bridge.delay, bridge.delay * 2);
        part.doorbell += once;
        part.send_wqe_fetch += twice;
        part.receive_wqe_fetch += twice;
        part.completion_write += once;
    }
    part
}
