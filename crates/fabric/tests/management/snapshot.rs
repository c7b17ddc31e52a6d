//! All that a subnet manager has written into a fabric, as the agents state it. The ways to the
//! nodes come from the description, not from a manager.

use crate::desk::subnet_packet;
use crate::sweeper::{NoMemory, hca_ports, roots};
use softband_fabric::World;
use softband_fabric::notice::Notice;
use softband_sim::SimDuration;
use softband_spec::{FabricSpec, PortRef};
use softband_types::*;
use softband_wire::mad::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Attributes by their place, in words.
pub(crate) type Snapshot = BTreeMap<String, Vec<u8>>;

/// A port of an HCA, or a switch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Port(PortRef),
    Switch(usize),
}

struct Reader<'a> {
    world: &'a mut World,
    transaction: u64,
}

impl Reader<'_> {
    /// Returns an attribute of the node at the end of a route.
    fn get(&mut self, (from, path): &(PortRef, Vec<u8>), attribute: AttributeId, modifier: u32) -> [u8; 64] {
        let PortRef::Hca { host, hca, port } = *from else { unreachable!("a route begins at a host") };
        self.transaction += 1;
        let mut initial_path = [0; 64];
        initial_path[1..=path.len()].copy_from_slice(path);
        let smp = DirectedSmp {
            base_version: 1,
            mgmt_class: ManagementClass::SUBNET_DIRECTED_ROUTE,
            class_version: 1,
            method: Method::GET,
            hop_count: path.len() as u8,
            transaction_id: self.transaction,
            attribute_id: attribute,
            attribute_modifier: modifier,
            dr_slid: Lid::PERMISSIVE,
            dr_dlid: Lid::PERMISSIVE,
            initial_path,
            ..DirectedSmp::default()
        };
        let hca = self.world.hca_id(host, hca);
        let at = self.world.now() + SimDuration::from_nanos(1_000);
        self.world.send_management(hca, port, Box::new(subnet_packet(Lid::PERMISSIVE, Box::new(smp.to_bytes()))), at);
        let mut notices = Vec::new();
        while self.world.next_event_time().is_some() {
            self.world.step(&mut NoMemory, &mut notices);
            for notice in notices.drain(..) {
                if let Notice::ManagementArrived { packet, .. } = notice {
                    let answer = DirectedSmp::view(&packet.mad[..]);
                    if answer.transaction_id() == self.transaction {
                        assert_eq!((answer.method(), answer.status()), (Method::GET_RESP, 0), "attribute {attribute:?}, {modifier:#x}");
                        return answer.data();
                    }
                }
            }
        }
        panic!("no answer about attribute {attribute:?}");
    }
}

/// Returns the route from a root to each port of an HCA and to each switch.
fn ways(spec: &FabricSpec) -> Vec<(Node, (PortRef, Vec<u8>))> {
    let mut far = BTreeMap::new();
    for cable in &spec.cables {
        far.extend([(cable.ends[0], cable.ends[1]), (cable.ends[1], cable.ends[0])]);
    }
    let node_of = |end| if let PortRef::Switch { switch, .. } = end { Node::Switch(switch) } else { Node::Port(end) };
    let mut found = BTreeMap::new();
    for root in roots(spec) {
        let mut at = VecDeque::from([(Node::Port(root), Vec::new())]);
        while let Some((node, path)) = at.pop_front() {
            if found.contains_key(&node) {
                continue;
            }
            found.insert(node, (root, path.clone()));
            let ports: Vec<PortRef> = match node {
                Node::Port(end) => {
                    if path.is_empty() {
                        vec![end]
                    } else {
                        vec![]
                    }
                }
                Node::Switch(switch) => {
                    (1..=spec.switches[switch].part.ports).map(|port| PortRef::Switch { switch, port: PortNumber(port) }).collect()
                }
            };
            for port in ports {
                let (PortRef::Hca { port: number, .. } | PortRef::Switch { port: number, .. }) = port;
                if let Some(end) = far.get(&port) {
                    at.push_back((node_of(*end), path.iter().copied().chain([number.0]).collect()));
                }
            }
        }
    }
    found.into_iter().collect()
}

/// Reads everything that a manager writes: PortInfo, SwitchInfo, and all tables, with the multicast
/// tables from the first group to the last.
pub(crate) fn snapshot(spec: &FabricSpec, world: &mut World, groups: u16) -> Snapshot {
    let cabled: BTreeSet<PortRef> = spec.cables.iter().flat_map(|cable| cable.ends).collect();
    let lids = hca_ports(spec).len() + spec.switches.len();
    let mut reader = Reader { world, transaction: 0 };
    let mut all = Snapshot::new();
    for (node, way) in ways(spec) {
        match node {
            Node::Port(end) => read_port(&mut reader, &way, &spec.port_name(end), end, &mut all),
            Node::Switch(switch) => read_switch(&mut reader, &way, (spec, switch, &cabled), (lids, groups), &mut all),
        }
    }
    all
}

fn read_port(reader: &mut Reader<'_>, way: &(PortRef, Vec<u8>), name: &str, end: PortRef, all: &mut Snapshot) {
    let PortRef::Hca { port, .. } = end else { return };
    let info = reader.get(way, AttributeId::PORT_INFO, u32::from(port.0));
    all.insert(format!("{name} PortInfo"), without_manager_flag(info));
    for block in 0..4 {
        all.insert(format!("{name} P_Keys {block}"), reader.get(way, AttributeId::P_KEY_TABLE, block).to_vec());
    }
    all.insert(format!("{name} SL2VL"), reader.get(way, AttributeId::SL_TO_VL_MAPPING_TABLE, 0).to_vec());
    read_weights(reader, way, name, port.0, all);
}

fn read_weights(reader: &mut Reader<'_>, way: &(PortRef, Vec<u8>), name: &str, port: u8, all: &mut Snapshot) {
    for half in 1..=4 {
        let table = reader.get(way, AttributeId::VL_ARBITRATION_TABLE, half << 16 | u32::from(port));
        all.insert(format!("{name} VLArb {half}"), table.to_vec());
    }
}

fn read_switch(
    reader: &mut Reader<'_>,
    way: &(PortRef, Vec<u8>),
    (spec, switch, cabled): (&FabricSpec, usize, &BTreeSet<PortRef>),
    (lids, groups): (usize, u16),
    all: &mut Snapshot,
) {
    let name = &spec.switches[switch].name;
    let ports = spec.switches[switch].part.ports;
    all.insert(format!("{name} SwitchInfo"), reader.get(way, AttributeId::SWITCH_INFO, 0).to_vec());
    let is_cabled = |port: &u8| cabled.contains(&PortRef::Switch { switch, port: PortNumber(*port) });
    for port in 0..=ports {
        let info = reader.get(way, AttributeId::PORT_INFO, u32::from(port));
        // A manager leaves ports without a link.
        let info = if port == 0 || is_cabled(&port) { without_manager_flag(info) } else { vec![PortInfo::view(&info).port_state().0] };
        all.insert(format!("{name}/{port} PortInfo"), info);
    }
    for port in (1..=ports).filter(is_cabled) {
        read_weights(reader, way, &format!("{name}/{port}"), port, all);
        for input in (1..=ports).filter(is_cabled) {
            let lanes = reader.get(way, AttributeId::SL_TO_VL_MAPPING_TABLE, u32::from(input) << 8 | u32::from(port));
            all.insert(format!("{name} SL2VL {input} to {port}"), lanes.to_vec());
        }
    }
    for block in 0..=(lids / 64) as u32 + 1 {
        all.insert(format!("{name} LFT {block}"), reader.get(way, AttributeId::LINEAR_FORWARDING_TABLE, block).to_vec());
    }
    for block in 0..u32::from(groups.div_ceil(32)) {
        for position in 0..=u32::from(ports / 16) {
            let masks = reader.get(way, AttributeId::MULTICAST_FORWARDING_TABLE, position << 28 | block);
            all.insert(format!("{name} MFT {block} ports {}", 16 * position), masks.to_vec());
        }
    }
}

/// Returns PortInfo without the flag of the manager's own port. Programs set it, not the manager.
fn without_manager_flag(mut info: [u8; 64]) -> Vec<u8> {
    let mask = PortInfo::view(&info).capability_mask();
    PortInfo::view_mut(&mut info).capability_mask(CapabilityMask(mask.0 & !CapabilityMask::IS_SM.0));
    info.to_vec()
}
