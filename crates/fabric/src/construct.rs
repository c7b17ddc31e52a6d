//! Builds a World from a fabric's specification: nodes, trained links, and the subnet manager's
//! settings.

use crate::link::counters::EthernetCounters;
use crate::link::port::{Cabling, EthernetPort, Owner, Port, Traffic};
use crate::pdes::partition::OwnPartition;
use crate::pdes::timeline::Timeline;
use crate::slab::Slab;
use crate::world::{Hca, ProcessingEngine, SwitchNode, World};
use softband_model::bus::{Bus, MemoryController, SharedBus};
use softband_model::link::{Arbiter, CreditLedger, FlowControl, Framing, ReceiveBuffer, blocks_per_lane};
use softband_model::management::{LinkSettings, Routes, Routing};
use softband_model::packet::PacketPool;
use softband_model::parts::{BusPart, HcaPart};
use softband_model::switch::Switch;
use softband_model::transport::Throttle;
use softband_model::verbs::{ChunkPool, Limits, Verbs};
use softband_sim::{RandomStream, SimDuration, SimTime};
use softband_spec::{CableSpec, EthernetFlowControl, FabricSpec, HcaSpec, PortRef, capabilities, ethernet_part, lane_and_loop, settings_of};
use softband_types::{CreditBlocks, Lid, LinkLayer, LinkRate, Mtu, PortNumber};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub(crate) fn world(spec: &FabricSpec, seed: u64) -> World {
    let (mut ports, mut buses) = (Vec::new(), Vec::new());
    let hcas = hca_nodes(spec, &mut ports, &mut buses);
    let switches = switch_nodes(spec, hcas.len() as u32, &mut ports);
    let limits = hcas.iter().map(|hca| Limits::of(&hca.part)).collect();
    let mut world = World {
        spec: spec.clone(),
        queue: Timeline::for_nodes(hcas.len() + switches.len()),
        deadlock_checks: Vec::new(),
        partition: OwnPartition::default(),
        verbs: Verbs::new(limits),
        chunks: ChunkPool::default(),
        packet_pool: PacketPool::default(),
        hcas,
        buses,
        memories: spec.hosts.iter().map(|host| MemoryController::new(&host.part.memory)).collect(),
        switches,
        kinds_of_links: Vec::new(),
        ports,
        qps: Vec::new(),
        packets: Slab::default(),
        dma_writes: Slab::default(),
        posts: Slab::default(),
        qp_refs: Slab::default(),
        completions: Slab::default(),
        reports: Slab::default(),
        copies_left: Slab::default(),
        delivered_bytes: 0,
        transfers: crate::hca::transfers::Transfers::default(),
        sm_lid: Lid::NONE,
        routes: Routes::new(Routing::MinimumHop, &[]).expect("any fabric can have it"),
        port_of_lid: Vec::new(),
        leaf_of_lid: Vec::new(),
        loss_ppm: 0,
        random: RandomStream::new(seed, 0),
        ack_wait_max: None,
        deadlocks_told: Vec::new(),
        injection: spec.subnet.congestion_control.as_ref().map(|control| control.injection.clone()),
        faults: None,
        seed,
    };
    for cable in &spec.cables {
        train(&mut world, cable);
    }
    number_networks(&mut world);
    assign_lids(&mut world);
    crate::subnet::routes::set_routes(&mut world);
    world.add_faults(&spec.faults);
    world
}

fn hca_nodes(spec: &FabricSpec, ports: &mut Vec<Port>, buses: &mut Vec<SharedBus>) -> Vec<Hca> {
    let mut hcas: Vec<Hca> = Vec::new();
    for (host_index, host) in spec.hosts.iter().enumerate() {
        let mut known = BTreeMap::new();
        for (index, hca) in host.hcas.iter().enumerate() {
            let node = hcas.len() as u32;
            let first_port = ports.len() as u32;
            for port in 0..hca.part.ports {
                let owner = Owner::Hca { hca: node, index: port };
                ports.push(new_port(spec, node, owner, PortNumber(port + 1), hca.link_layer, hca.part.credit_return));
            }
            let tuned = hca.part.tuned_read_request_bytes.filter(|_| hca.tune_pci);
            let request = tuned.unwrap_or(host.part.read_request_bytes);
            hcas.push(Hca {
                place: (host_index, index),
                part: shared_with(hcas.last(), behind_bridge(&hca.part, &hca.bus)),
                node_guid: hca.node_guid,
                first_port,
                bus: Bus::new(&hca.bus, request, hca.part.outstanding_reads),
                shared_bus: bus_of(hca, &mut known, buses),
                qp_of_qpn: Vec::new(),
                qp_count: 0,
                engines: vec![ProcessingEngine::default(); hca.part.processing_engines.clamp(1, u32::from(u16::MAX)) as usize],
                ready: VecDeque::new(),
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

fn new_port(spec: &FabricSpec, node: u32, owner: Owner, number: PortNumber, layer: LinkLayer, credit_return: SimDuration) -> Port {
    // A pause frame that resumes a priority leaves at once.
    let credit_return = if layer == LinkLayer::Ethernet { SimDuration::ZERO } else { credit_return };
    Port::new(node, owner, number, spec.framing(layer), credit_return)
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

fn switch_nodes(spec: &FabricSpec, first_node: u32, ports: &mut Vec<Port>) -> Vec<SwitchNode> {
    let mut nodes = Vec::new();
    for (index, switch) in spec.switches.iter().enumerate() {
        let first_port = ports.len() as u32;
        for port in 0..switch.part.ports {
            let owner = Owner::Switch { switch: index as u32, index: port };
            let (node, layer) = (first_node + index as u32, switch.part.link_layer());
            ports.push(new_port(spec, node, owner, PortNumber(port + 1), layer, switch.part.credit_return));
        }
        nodes.push(SwitchNode { switch: Switch::new(&switch.part), first_port, buffer_hold: switch.part.buffer_hold });
    }
    nodes
}

pub(crate) fn port_of(world: &World, end: PortRef) -> u32 {
    match end {
        PortRef::Hca { host, hca, port } => {
            let id = world.hca_id(host, hca);
            world.port_index(id, port).expect("a checked fabric cables only ports that exist")
        }
        PortRef::Switch { switch, port } => world.switches[switch].first_port + u32::from(port.0) - 1,
    }
}

/// Returns the number of the link kind with this rate and framing.
fn kind_of_link(world: &mut World, rate: LinkRate, framing: Framing) -> u16 {
    let kinds = &mut world.kinds_of_links;
    let known = kinds.iter().position(|kind| *kind == (rate, framing));
    known.unwrap_or_else(|| {
        kinds.push((rate, framing));
        kinds.len() - 1
    }) as u16
}

/// Brings a link up: both ports learn rate, lanes, MTU and each other's buffer.
fn train(world: &mut World, cable: &CableSpec) {
    let settings = settings_of(&world.spec, cable);
    let layer = world.spec.link_layer(cable.ends[0]);
    let indices = cable.ends.map(|end| port_of(world, end));
    let kind = kind_of_link(world, cable.rate, world.spec.framing(layer));
    for side in 0..2 {
        let inputs = match cable.ends[side] {
            PortRef::Hca { .. } => 1,
            PortRef::Switch { switch, .. } => usize::from(world.spec.switches[switch].part.ports),
        };
        let port = &mut world.ports[indices[side] as usize];
        assert!(port.cabling.is_none(), "a checked fabric cables no port twice");
        port.far_end = indices[1 - side];
        port.cable_delay = cable.part.delay(cable.rate);
        port.cabling = Some(Cabling {
            peer: indices[1 - side],
            rate: cable.rate,
            framing: world.spec.framing(layer),
            delay: cable.part.delay(cable.rate),
            vls: settings.vls,
            mtu: settings.mtu,
        });
        if let PortRef::Switch { switch, .. } = cable.ends[side] {
            port.onward.through = world.switches[switch].switch.forward_latency(cable.rate.speed);
        }
        (port.onward.kind, port.onward.mtu_bytes, port.onward.vls) = (kind, settings.mtu.bytes() as u16, settings.vls);
        port.arbiter = Arbiter::new(settings.vls.data_lanes(), inputs);
        set_weights(port, &world.spec, cable.ends[side]);
        set_congestion_control(port, &world.spec, cable, side);
        match layer {
            LinkLayer::Infiniband => set_infiniband_flow_control(port, &world.spec, cable, (side, settings)),
            LinkLayer::Ethernet => set_ethernet_flow_control(port, &world.spec, cable, side),
        }
    }
}

/// Upper bound for headers: LRH, GRH, BTH, the largest extended headers, and both CRCs.
const HEADER_BYTES_MAX: u32 = 256;

/// Returns the blocks of the largest packet of a link.
fn largest_packet(mtu: Mtu) -> CreditBlocks {
    CreditBlocks::for_packet(mtu.bytes() + HEADER_BYTES_MAX)
}

fn set_infiniband_flow_control(port: &mut Port, spec: &FabricSpec, cable: &CableSpec, (side, settings): (usize, LinkSettings)) {
    let peer = cable.ends[1 - side];
    port.head_lifetime = match peer {
        PortRef::Hca { .. } => spec.subnet.lifetimes.leaf_head_of_queue_lifetime,
        PortRef::Switch { .. } => spec.subnet.lifetimes.head_of_queue_lifetime,
    };
    let per_lane = blocks_per_lane(capabilities(spec, peer).port_buffer_bytes, settings.vls);
    port.flow_control = FlowControl::Credits(CreditLedger::new(per_lane, largest_packet(settings.mtu)));
}

fn set_ethernet_flow_control(port: &mut Port, spec: &FabricSpec, cable: &CableSpec, side: usize) {
    let (lane, pause_loop) = lane_and_loop(spec, cable, side);
    let thresholds = match spec.ethernet.flow_control {
        EthernetFlowControl::Pfc => Some(pause_loop.thresholds(lane)),
        EthernetFlowControl::None => None,
    };
    port.flow_control = FlowControl::Pause(Box::default());
    port.ethernet = Some(Box::new(EthernetPort {
        buffer: ReceiveBuffer::new(lane, thresholds),
        pause_response: ethernet_part(spec, cable.ends[side]).pause_response,
        pauses_until: SimTime::ZERO,
        received: Traffic::default(),
        counters: EthernetCounters::default(),
    }));
}

/// Sets the weights of a port that has arbitration tables.
fn set_weights(port: &mut Port, spec: &FabricSpec, end: PortRef) {
    let (Some(qos), Some(cabling)) = (&spec.subnet.qos, port.cabling) else { return };
    if spec.link_layer(end) == LinkLayer::Infiniband {
        port.arbiter.weigh(&qos.of(end).tables, cabling.vls);
    }
}

/// Gives a switch port its congestion threshold and an HCA port its throttled flows.
///
/// Ports to HCAs detect congestion even while they wait for credits, like ports with the annex's
/// Victim_Mask set. No other switch behind them could detect it.
///
/// A lane stays congested until its queue has fallen below the threshold by the largest packet.
/// Without this hysteresis a greedy input escapes the marks: its packets wait behind each packet of
/// another input, and fewer packets wait behind its own. Gran and others found that the hysteresis
/// must exceed one MTU ("On the Relation Between Congestion Control, Switch Arbitration and
/// Fairness", CCGrid 2011).
fn set_congestion_control(port: &mut Port, spec: &FabricSpec, cable: &CableSpec, side: usize) {
    let (Some(control), Some(cabling)) = (&spec.subnet.congestion_control, port.cabling) else { return };
    match cable.ends[side] {
        PortRef::Switch { switch, .. } => {
            let part = &spec.switches[switch].part;
            let above = control.marking.congested_above(blocks_per_lane(part.port_buffer_bytes, cabling.vls));
            if let Some(above) = above.filter(|_| part.congestion_control) {
                port.arbiter.detect_congestion(above, largest_packet(cabling.mtu), matches!(cable.ends[1 - side], PortRef::Hca { .. }));
            }
        }
        PortRef::Hca { .. } => {
            port.throttles = vec![Throttle::default(); 16];
            port.held_back = vec![VecDeque::new(); 16];
        }
    }
}

/// Numbers the networks: ports that cables and switches connect get one number.
fn number_networks(world: &mut World) {
    let mut known = vec![false; world.ports.len()];
    let mut network = 0;
    for first in 0..world.ports.len() as u32 {
        let mut reached = vec![first];
        while let Some(at) = reached.pop() {
            if std::mem::replace(&mut known[at as usize], true) {
                continue;
            }
            let port = &mut world.ports[at as usize];
            port.network = network;
            reached.extend(port.cabling.map(|cabling| cabling.peer));
            if let Owner::Switch { switch, .. } = port.owner {
                let first = world.switches[switch as usize].first_port;
                reached.extend(first..first + u32::from(world.spec.switches[switch as usize].part.ports));
            }
        }
        network += 1;
    }
}

/// Assigns LIDs from 1 on: the HCAs' cabled ports in the order of the file, then the switches. All
/// InfiniBand ports come before all Ethernet ports.
fn assign_lids(world: &mut World) {
    let mut next = 1..;
    for layer in LinkLayer::ALL {
        for port in &mut world.ports {
            if matches!(port.owner, Owner::Hca { .. }) && port.cabling.is_some() && port.framing.link_layer() == layer {
                port.lid = Lid(next.next().expect("a fabric has fewer ports"));
            }
        }
        for switch in &world.switches {
            let port = &mut world.ports[switch.first_port as usize];
            if port.framing.link_layer() == layer {
                port.lid = Lid(next.next().expect("a fabric has fewer ports"));
            }
        }
    }
    world.sm_lid = Lid(1);
}
