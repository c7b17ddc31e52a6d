//! Settings of trained links: MTU, lanes, buffers.

use crate::{CableSpec, EthernetFlowControl, FabricSpec, PortRef};
use softband_model::link::{ArbitrationTables, CreditLedger, FlowControl, Framing, PauseLoop, ReceiveBuffer, blocks_per_lane};
use softband_model::management::{LinkSettings, PortCapabilities, link_settings};
use softband_model::parts::EthernetPorts;
use softband_model::switch::LifetimeCode;
use softband_sim::SimDuration;
use softband_types::{CreditBlocks, LinkLayer, Mtu};
use softband_wire::ethernet::mtu_of_port;

/// Returns the settings at which a link operates: lanes (on Ethernet: priorities) and MTU.
pub fn settings_of(spec: &FabricSpec, cable: &CableSpec) -> LinkSettings {
    if spec.link_layer(cable.ends[0]) == LinkLayer::Infiniband {
        return link_settings(cable.ends.map(|end| capabilities(spec, end)), spec.subnet.max_op_vls, spec.subnet.mtu_max);
    }
    let longest = cable.ends.map(|end| capabilities(spec, end).mtu_max);
    let mtu = mtu_of_port(spec.ethernet.mtu_bytes).unwrap_or(Mtu::B256);
    LinkSettings { vls: spec.ethernet.priorities, mtu: mtu.min(longest[0]).min(longest[1]) }
}

/// Returns the capabilities of the port at one end of a cable.
pub fn capabilities(spec: &FabricSpec, end: PortRef) -> PortCapabilities {
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

/// Returns the Ethernet properties of the part at one end of a link.
///
/// # Panics
/// If the part has no Ethernet ports, which a checked fabric excludes.
pub fn ethernet_part(spec: &FabricSpec, end: PortRef) -> &EthernetPorts {
    let part = match end {
        PortRef::Hca { host, hca, .. } => &spec.hosts[host].hcas[hca].part.ethernet,
        PortRef::Switch { switch, .. } => &spec.switches[switch].part.ethernet,
    };
    part.as_ref().expect("a checked fabric has Ethernet ports only where parts can")
}

/// Upper bound for headers: LRH, GRH, BTH, the largest extended headers, and both CRCs.
const HEADER_BYTES_MAX: u32 = 256;

/// Returns the blocks of the largest packet of a link.
pub fn largest_packet(mtu: Mtu) -> CreditBlocks {
    CreditBlocks::for_packet(mtu.bytes() + HEADER_BYTES_MAX)
}

/// Flow control at one end of a link.
pub struct EndSettings {
    /// Flow control of the end as a sender.
    pub flow_control: FlowControl,
    /// Maximum wait for credits at the head of a lane.
    pub head_lifetime: LifetimeCode,
    /// `Some` if the end decides over each arriving frame: its buffer, and the delay between the
    /// arrival of a pause frame and the stop of its priority.
    pub arrivals: Option<(ReceiveBuffer, SimDuration)>,
}

/// Returns the flow control at one end of a link with these operating settings.
pub fn end_settings(spec: &FabricSpec, cable: &CableSpec, side: usize, settings: LinkSettings) -> EndSettings {
    match spec.link_layer(cable.ends[0]) {
        LinkLayer::Infiniband => credits_of(spec, cable.ends[side], cable.ends[1 - side], settings),
        LinkLayer::Ethernet => pauses_of(spec, cable, side),
    }
}

fn credits_of(spec: &FabricSpec, end: PortRef, peer: PortRef, settings: LinkSettings) -> EndSettings {
    let head_lifetime = match (end, peer) {
        (PortRef::Hca { .. }, _) => LifetimeCode::INFINITE,
        (_, PortRef::Hca { .. }) => spec.subnet.lifetimes.leaf_head_of_queue_lifetime,
        (_, PortRef::Switch { .. }) => spec.subnet.lifetimes.head_of_queue_lifetime,
    };
    let per_lane = blocks_per_lane(capabilities(spec, peer).port_buffer_bytes, settings.vls);
    let ledger = CreditLedger::new(per_lane, largest_packet(settings.mtu));
    EndSettings { flow_control: FlowControl::credits(ledger), head_lifetime, arrivals: None }
}

fn pauses_of(spec: &FabricSpec, cable: &CableSpec, side: usize) -> EndSettings {
    let (lane, pause_loop) = lane_and_loop(spec, cable, side);
    let thresholds = match spec.ethernet.flow_control {
        EthernetFlowControl::Pfc => Some(pause_loop.thresholds(lane)),
        EthernetFlowControl::None => None,
    };
    let pause_response = ethernet_part(spec, cable.ends[side]).pause_response;
    EndSettings {
        flow_control: FlowControl::pauses(),
        head_lifetime: LifetimeCode::INFINITE,
        arrivals: Some((ReceiveBuffer::new(lane, thresholds), pause_response)),
    }
}

/// Returns the framing of a port's packets.
pub fn framing_of(spec: &FabricSpec, port: PortRef) -> Framing {
    spec.framing(spec.link_layer(port))
}

/// Returns the arbitration tables of a port; `None` if its lanes take turns.
pub fn weights_of(spec: &FabricSpec, port: PortRef) -> Option<&ArbitrationTables> {
    let qos = spec.subnet.qos.as_ref()?;
    (spec.link_layer(port) == LinkLayer::Infiniband).then(|| &qos.of(port).tables)
}

/// Returns the lane buffer at one end of an Ethernet link, and the data in flight until the other
/// end stops.
pub fn lane_and_loop(spec: &FabricSpec, cable: &CableSpec, side: usize) -> (CreditBlocks, PauseLoop) {
    let framing = spec.framing(LinkLayer::Ethernet);
    let pause_loop = PauseLoop {
        rate: cable.rate,
        framing,
        cable_delay: cable.part.delay(cable.rate),
        response: ethernet_part(spec, cable.ends[1 - side]).pause_response,
        frame_bytes_max: framing.frame_bytes(spec.ethernet.mtu_bytes),
    };
    (blocks_per_lane(ethernet_part(spec, cable.ends[side]).buffer_bytes, spec.ethernet.priorities), pause_loop)
}

/// Returns the ends of Ethernet links whose buffers are smaller than their headroom requires. Each
/// entry gives the bytes per priority and the bytes needed, which include two full frames. These
/// ends lose packets despite pauses.
pub fn lossy_ends(spec: &FabricSpec) -> Vec<(PortRef, u32, u32)> {
    if spec.ethernet.flow_control == EthernetFlowControl::None {
        return Vec::new();
    }
    let sides = spec.cables.iter().filter(|cable| spec.link_layer(cable.ends[0]) == LinkLayer::Ethernet).flat_map(|cable| [(cable, 0), (cable, 1)]);
    let bytes = |blocks: CreditBlocks| blocks.0 * CreditBlocks::BLOCK_BYTES;
    sides
        .map(|(cable, side)| {
            let (lane, pause_loop) = lane_and_loop(spec, cable, side);
            let frames = CreditBlocks(2 * CreditBlocks::for_packet(pause_loop.frame_bytes_max).0);
            (cable.ends[side], bytes(lane), bytes(pause_loop.headroom() + frames))
        })
        .filter(|(_, has, needs)| has < needs)
        .collect()
}
