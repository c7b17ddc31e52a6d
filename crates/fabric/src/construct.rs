//! A World from a fabric's specification: nodes, trained links, and the subnet manager's settings.

use crate::port::{Cabling, Owner, Port};
use crate::slab::Slab;
use crate::spec::{CableSpec, FabricSpec, HcaSpec, PortRef};
use crate::world::{Hca, ProcessingEngine, SwitchNode, World};
use softband_model::bus::{Bus, MemoryController, SharedBus};
use softband_model::link::{Arbiter, CreditLedger, blocks_per_lane};
use softband_model::management::{Neighbour, PortCapabilities, forwarding_entries, link_settings};
use softband_model::parts::{BusPart, HcaPart};
use softband_model::switch::Switch;
use softband_model::transport::Throttle;
use softband_model::verbs::{ChunkPool, Limits, Verbs};
use softband_sim::{EventQueue, RandomStream};
use softband_types::{Lid, PortNumber};
use std::collections::{BTreeMap, VecDeque};

pub(crate) fn world(spec: &FabricSpec, seed: u64) -> World {
    let (mut ports, mut buses) = (Vec::new(), Vec::new());
    let hcas = hca_nodes(spec, &mut ports, &mut buses);
    let switches = switch_nodes(spec, hcas.len() as u32, &mut ports);
    let limits = hcas.iter().map(|hca| Limits::of(&hca.part)).collect();
    let mut world = World {
        spec: spec.clone(),
        queue: EventQueue::default(),
        verbs: Verbs::new(limits),
        chunks: ChunkPool::default(),
        hcas,
        buses,
        memories: spec.hosts.iter().map(|host| MemoryController::new(&host.part.memory)).collect(),
        switches,
        ports,
        qps: Vec::new(),
        packets: Slab::default(),
        deliveries: Slab::default(),
        posts: Slab::default(),
        completions: Slab::default(),
        reports: Slab::default(),
        copies_left: Slab::default(),
        sm_lid: Lid::NONE,
        loss_ppm: 0,
        random: RandomStream::new(seed, 0),
        ack_wait_max: None,
        deadlocks_told: Vec::new(),
        injection: spec.subnet.congestion_control.as_ref().map(|control| control.injection.clone()),
    };
    for cable in &spec.cables {
        train(&mut world, cable);
    }
    assign_lids(&mut world);
    set_routes(&mut world);
    world
}

fn hca_nodes(spec: &FabricSpec, ports: &mut Vec<Port>, buses: &mut Vec<SharedBus>) -> Vec<Hca> {
    let mut hcas = Vec::new();
    for (host_index, host) in spec.hosts.iter().enumerate() {
        let mut known = BTreeMap::new();
        for (index, hca) in host.hcas.iter().enumerate() {
            let node = hcas.len() as u32;
            let first_port = ports.len() as u32;
            for port in 0..hca.part.ports {
                let owner = Owner::Hca { hca: node, index: port };
                ports.push(Port::new(node, owner, PortNumber(port + 1), hca.part.credit_return));
            }
            let request = if hca.tune_pci { hca.part.tuned_read_request_bytes } else { host.part.read_request_bytes };
            hcas.push(Hca {
                place: (host_index, index),
                part: behind_bridge(&hca.part, &hca.bus),
                node_guid: hca.node_guid,
                first_port,
                bus: Bus::new(&hca.bus, request, hca.part.outstanding_reads),
                shared_bus: bus_of(hca, &mut known, buses),
                qp_of_qpn: Vec::new(),
                qp_count: 0,
                engines: vec![ProcessingEngine::default(); hca.part.processing_engines.max(1) as usize],
                ready: VecDeque::new(),
            });
        }
    }
    hcas
}

/// The bus that an HCA is on: the one of its name if its host has it already, else another one.
fn bus_of<'a>(hca: &'a HcaSpec, known: &mut BTreeMap<&'a str, u32>, buses: &mut Vec<SharedBus>) -> u32 {
    let next = buses.len() as u32;
    let index = hca.shared_bus.as_deref().map_or(next, |name| *known.entry(name).or_insert(next));
    if index == next {
        buses.push(SharedBus::new(&hca.bus));
    }
    index
}

/// An HCA's times are those in a slot of the host bridge's own. A bridge between is passed by doorbells and completions once, by what
/// the HCA fetches to work with twice; its payload is the bus's own affair.
fn behind_bridge(part: &HcaPart, bus: &BusPart) -> HcaPart {
    let mut part = part.clone();
    if let Some(bridge) = bus.bridge {
        let (once, twice) = (bridge.delay, bridge.delay * 2);
        part.doorbell += once;
        part.send_wqe_fetch += twice;
        part.receive_wqe_fetch += twice;
        part.completion_write += once;
        part.atomic_execution += twice;
    }
    part
}

fn switch_nodes(spec: &FabricSpec, first_node: u32, ports: &mut Vec<Port>) -> Vec<SwitchNode> {
    let mut nodes = Vec::new();
    for (index, switch) in spec.switches.iter().enumerate() {
        let first_port = ports.len() as u32;
        for port in 0..switch.part.ports {
            let owner = Owner::Switch { switch: index as u32, index: port };
            ports.push(Port::new(first_node + index as u32, owner, PortNumber(port + 1), switch.part.credit_return));
        }
        nodes.push(SwitchNode { switch: Switch::new(&switch.part), first_port, buffer_hold: switch.part.buffer_hold });
    }
    nodes
}

fn port_of(world: &World, end: PortRef) -> u32 {
    match end {
        PortRef::Hca { host, hca, port } => {
            let id = world.hca_id(host, hca);
            world.port_index(id, port).expect("a checked fabric cables only ports that exist")
        }
        PortRef::Switch { switch, port } => world.switches[switch].first_port + u32::from(port.0) - 1,
    }
}

pub(crate) fn capabilities(spec: &FabricSpec, end: PortRef) -> PortCapabilities {
    match end {
        PortRef::Hca { host, hca, .. } => {
            let part = &spec.hosts[host].hcas[hca].part;
            PortCapabilities { vl_cap: part.vl_cap, mtu_max: part.mtu_max, port_buffer_bytes: part.port_buffer_bytes }
        }
        PortRef::Switch { switch, .. } => {
            let part = &spec.switches[switch].part;
            PortCapabilities { vl_cap: part.vl_cap, mtu_max: part.mtu_max, port_buffer_bytes: part.port_buffer_bytes }
        }
    }
}

/// Brings a link up: both ports learn rate, lanes, MTU and each other's buffer.
fn train(world: &mut World, cable: &CableSpec) {
    let subnet = &world.spec.subnet;
    let ends = cable.ends.map(|end| capabilities(&world.spec, end));
    let settings = link_settings(ends, subnet.max_op_vls, subnet.mtu_max);
    let indices = cable.ends.map(|end| port_of(world, end));
    for side in 0..2 {
        let inputs = match cable.ends[side] {
            PortRef::Hca { .. } => 1,
            PortRef::Switch { switch, .. } => usize::from(world.spec.switches[switch].part.ports),
        };
        let port = &mut world.ports[indices[side] as usize];
        assert!(port.cabling.is_none(), "a checked fabric cables no port twice");
        port.cabling = Some(Cabling {
            peer: indices[1 - side],
            rate: cable.rate,
            delay: cable.part.delay(cable.rate.speed),
            vls: settings.vls,
            mtu: settings.mtu,
        });
        port.arbiter = Arbiter::new(settings.vls.data_lanes(), inputs);
        port.head_lifetime = match cable.ends[1 - side] {
            PortRef::Hca { .. } => subnet.lifetimes.leaf_head_of_queue_lifetime,
            PortRef::Switch { .. } => subnet.lifetimes.head_of_queue_lifetime,
        };
        set_congestion_control(port, &world.spec, cable, side);
        port.credits = CreditLedger::new(blocks_per_lane(ends[1 - side].port_buffer_bytes, settings.vls));
    }
}

/// A switch's port learns what congestion is, an HCA's has its flows to slow down.
///
/// Ports to HCAs detect congestion though they wait for credits, as with the annex's Victim_Mask set for them: behind them there is no
/// other switch that could.
fn set_congestion_control(port: &mut Port, spec: &FabricSpec, cable: &CableSpec, side: usize) {
    let (Some(control), Some(cabling)) = (&spec.subnet.congestion_control, port.cabling) else { return };
    match cable.ends[side] {
        PortRef::Switch { switch, .. } => {
            let part = &spec.switches[switch].part;
            let above = control.marking.congested_above(blocks_per_lane(part.port_buffer_bytes, cabling.vls));
            if let Some(above) = above.filter(|_| part.congestion_control) {
                port.arbiter.detect_congestion(above, matches!(cable.ends[1 - side], PortRef::Hca { .. }));
            }
        }
        PortRef::Hca { .. } => {
            port.throttles = vec![Throttle::default(); 16];
            port.held_back = vec![VecDeque::new(); 16];
        }
    }
}

/// LIDs from 1 on: the HCAs' cabled ports in the order of the file, then the switches.
fn assign_lids(world: &mut World) {
    let mut next = 1;
    for port in &mut world.ports {
        if matches!(port.owner, Owner::Hca { .. }) && port.cabling.is_some() {
            port.lid = Lid(next);
            next += 1;
        }
    }
    for switch in &world.switches {
        world.ports[switch.first_port as usize].lid = Lid(next);
        next += 1;
    }
    world.sm_lid = Lid(1);
}

fn set_routes(world: &mut World) {
    let neighbour = |port: &Port| match port.cabling.map(|cabling| &world.ports[cabling.peer as usize]) {
        None => Neighbour::None,
        Some(peer) => match peer.owner {
            Owner::Hca { .. } => Neighbour::End(peer.lid),
            Owner::Switch { switch, .. } => Neighbour::Switch(switch as usize),
        },
    };
    let swept: Vec<Vec<Neighbour>> = (world.switches.iter().zip(&world.spec.switches))
        .map(|(node, spec)| {
            let first = node.first_port as usize;
            world.ports[first..first + usize::from(spec.part.ports)].iter().map(neighbour).collect()
        })
        .collect();
    for (switch, lid, output) in forwarding_entries(&swept) {
        world.switches[switch].switch.set_route(lid, output);
    }
}
