//! Records of nodes, ports and tables (IBTA 15.2.5.2 to 15.2.5.14), from the agents' attributes.

use super::paths::Paths;
use super::{Contents, RECORDS_MAX, parsed};
use softband_types::{Lid, PortNumber};
use softband_wire::mad::{
    AttributeId, ComponentMask, GuidInfoRecord, Layout, LinearForwardingTableRecord, LinkRecord, MulticastForwardingTableRecord, NodeInfo,
    NodeRecord, PKeyTableRecord, PortInfoRecord, SMP_DATA_BYTES, SlToVlMappingTableRecord, SmInfoRecord, Status, SwitchInfo, SwitchInfoRecord,
    VlArbitrationTableRecord,
};

/// LIDs of a block of a linear forwarding table.
const LINEAR_BLOCK: u16 = 64;
/// Blocks and ports of a multicast forwarding table.
const MULTICAST_BLOCKS: u16 = 128;
const MULTICAST_PORTS: u8 = 16;
/// Blocks of an arbitration table.
const ARBITRATION_BLOCKS: std::ops::RangeInclusive<u8> = 1..=4;
/// Modifier of a request for ports that have at least the named capabilities (IBTA 15.2.5.3).
const AT_LEAST_CAPABILITIES: u32 = 1 << 31;

/// A node of a subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Number of the node.
    pub number: u32,
    /// Whether the node is a switch.
    pub is_switch: bool,
    /// Number of external ports.
    pub ports: u8,
    /// Ports that have LIDs. Port 0 stands for a switch.
    pub lids: Vec<(PortNumber, Lid)>,
}

/// Knows the nodes of a subnet, and their attributes.
pub trait Inventory: Paths {
    /// Returns all nodes.
    fn nodes(&self) -> Vec<Node>;
    /// Returns an attribute of subnet management as a node's agent states it at a port; `None` if the
    /// agent refuses the request.
    fn attribute(&mut self, node: u32, port: PortNumber, attribute: AttributeId, modifier: u32) -> Option<[u8; SMP_DATA_BYTES]>;
    /// Returns the LID and the port at the other end of a port's cable.
    fn neighbour(&self, node: u32, port: PortNumber) -> Option<(Lid, PortNumber)>;
}

/// A port with its LID.
#[derive(Clone, Copy)]
struct End {
    node: u32,
    port: PortNumber,
    lid: Lid,
    is_switch: bool,
    /// Number of external ports of the node.
    ports: u8,
}

/// The records found so far, at most [`RECORDS_MAX`].
struct Found<R>(Vec<R>);

impl<R> Found<R> {
    fn add(&mut self, record: R) -> Result<(), Status> {
        if self.0.len() >= RECORDS_MAX {
            return Err(Status::SA_NO_RESOURCES);
        }
        self.0.push(record);
        Ok(())
    }
}

/// A query for records: the attribute and its modifier, the wanted record, and its components.
pub(super) struct Query<'a> {
    pub(super) attribute: AttributeId,
    pub(super) modifier: u32,
    pub(super) data: &'a [u8],
    pub(super) mask: ComponentMask,
    /// Whether the answer has room for several records.
    pub(super) is_table: bool,
}

/// Returns the answer to a query for records of the inventory.
///
/// # Errors
/// `METHOD_ATTRIBUTE_NOT_SUPPORTED` for another record, and as [`Contents::of_query`].
pub(super) fn query(of: &Query<'_>, subnet: &mut dyn Inventory) -> Result<Contents, Status> {
    let (data, mask, is_table) = (of.data, of.mask, of.is_table);
    match of.attribute {
        AttributeId::NODE_RECORD => Contents::of_query(&nodes(&parsed(data)?, mask, subnet)?, is_table),
        AttributeId::PORT_INFO_RECORD => Contents::of_query(&ports(&parsed(data)?, mask, of.modifier, subnet)?, is_table),
        AttributeId::SWITCH_INFO_RECORD => Contents::of_query(&switches(&parsed(data)?, mask, subnet)?, is_table),
        AttributeId::LINEAR_FORWARDING_TABLE_RECORD => Contents::of_query(&linear_tables(&parsed(data)?, mask, subnet)?, is_table),
        AttributeId::MULTICAST_FORWARDING_TABLE_RECORD => Contents::of_query(&multicast_tables(&parsed(data)?, mask, subnet)?, is_table),
        AttributeId::SL_TO_VL_MAPPING_TABLE_RECORD => Contents::of_query(&maps(&parsed(data)?, mask, subnet)?, is_table),
        AttributeId::VL_ARBITRATION_TABLE_RECORD => Contents::of_query(&arbitration(&parsed(data)?, mask, subnet)?, is_table),
        AttributeId::P_KEY_TABLE_RECORD => Contents::of_query(&partitions(&parsed(data)?, mask, subnet)?, is_table),
        AttributeId::GUID_INFO_RECORD => Contents::of_query(&guids(&parsed(data)?, mask, subnet)?, is_table),
        AttributeId::SM_INFO_RECORD => Contents::of_query(&managers(&parsed(data)?, mask, subnet)?, is_table),
        AttributeId::LINK_RECORD => Contents::of_query(&links(&parsed(data)?, mask, subnet)?, is_table),
        _ => Err(Status::METHOD_ATTRIBUTE_NOT_SUPPORTED),
    }
}

/// Returns the ports with LIDs, or the port with this LID. Records state the first LID of a port.
fn ends(subnet: &dyn Inventory, lid: Option<Lid>) -> Vec<End> {
    let first_of = |lid: Lid| subnet.with_lid(lid).map_or(lid, |end| subnet.lids_of(end).base);
    let lid = lid.map(first_of);
    let of_node = |node: Node| {
        let (number, is_switch, ports) = (node.number, node.is_switch, node.ports);
        node.lids.into_iter().map(move |(port, lid)| End { node: number, port, lid, is_switch, ports })
    };
    subnet.nodes().into_iter().flat_map(of_node).filter(|end| lid.is_none_or(|lid| lid == end.lid)).collect()
}

/// Returns a field of a request, if the request names it.
fn named<T>(mask: ComponentMask, bit: ComponentMask, value: T) -> Option<T> {
    mask.contains(bit).then_some(value)
}

/// Checks each value that the request names against the record's.
fn agrees(mask: ComponentMask, equal: &[(ComponentMask, bool)]) -> bool {
    equal.iter().all(|(bit, is_equal)| *is_equal || !mask.contains(*bit))
}

/// Reads an attribute of a port.
fn read<A: Layout>(subnet: &mut dyn Inventory, end: End, attribute: AttributeId, modifier: u32) -> Option<A> {
    A::parse(&subnet.attribute(end.node, end.port, attribute, modifier)?).ok()
}

fn nodes(wanted: &NodeRecord, mask: ComponentMask, subnet: &mut dyn Inventory) -> Result<Vec<NodeRecord>, Status> {
    let mut found = Found(Vec::new());
    for end in ends(subnet, named(mask, ComponentMask::NODE_LID, wanted.lid)) {
        let info: Option<NodeInfo> = read(subnet, end, AttributeId::NODE_INFO, 0);
        let Some((info, node_description)) = info.zip(read(subnet, end, AttributeId::NODE_DESCRIPTION, 0)) else { continue };
        let of = &wanted.node_info;
        let is_wanted = agrees(
            mask,
            &[
                (ComponentMask::NODE_BASE_VERSION, info.base_version == of.base_version),
                (ComponentMask::NODE_CLASS_VERSION, info.class_version == of.class_version),
                (ComponentMask::NODE_NODE_TYPE, info.node_type == of.node_type),
                (ComponentMask::NODE_NUM_PORTS, info.num_ports == of.num_ports),
                (ComponentMask::NODE_SYSTEM_IMAGE_GUID, info.system_image_guid == of.system_image_guid),
                (ComponentMask::NODE_NODE_GUID, info.node_guid == of.node_guid),
                (ComponentMask::NODE_PORT_GUID, info.port_guid == of.port_guid),
                (ComponentMask::NODE_PARTITION_CAP, info.partition_cap == of.partition_cap),
                (ComponentMask::NODE_DEVICE_ID, info.device_id == of.device_id),
                (ComponentMask::NODE_REVISION, info.revision == of.revision),
                (ComponentMask::NODE_LOCAL_PORT_NUM, info.local_port_num == of.local_port_num),
                (ComponentMask::NODE_VENDOR_ID, info.vendor_id == of.vendor_id),
                (ComponentMask::NODE_NODE_DESCRIPTION, node_description == wanted.node_description),
            ],
        );
        if is_wanted {
            found.add(NodeRecord { lid: end.lid, node_info: info, node_description })?;
        }
    }
    Ok(found.0)
}

/// Returns the ports of a node behind a LID: all of a switch with its own, or the port of an HCA.
fn ports_of(end: End) -> impl Iterator<Item = PortNumber> {
    let range = if end.is_switch { 0..=end.ports } else { end.port.0..=end.port.0 };
    range.map(PortNumber)
}

fn ports(wanted: &PortInfoRecord, mask: ComponentMask, modifier: u32, subnet: &mut dyn Inventory) -> Result<Vec<PortInfoRecord>, Status> {
    let mut found = Found(Vec::new());
    for end in ends(subnet, named(mask, ComponentMask::PORT_END_PORT_LID, wanted.end_port_lid)) {
        for port_num in ports_of(end).filter(|port| named(mask, ComponentMask::PORT_PORT_NUM, wanted.port_num).is_none_or(|wanted| wanted == *port)) {
            let Some(port_info) = read::<softband_wire::mad::PortInfo>(subnet, end, AttributeId::PORT_INFO, port_num.0.into()) else { continue };
            let of = &wanted.port_info;
            let own = port_info.capability_mask;
            let capabilities = if modifier & AT_LEAST_CAPABILITIES != 0 { own.contains(of.capability_mask) } else { own == of.capability_mask };
            let is_wanted = agrees(
                mask,
                &[
                    (ComponentMask::PORT_GID_PREFIX, port_info.gid_prefix == of.gid_prefix),
                    (ComponentMask::PORT_LID, port_info.lid == of.lid),
                    (ComponentMask::PORT_MASTER_SM_LID, port_info.master_sm_lid == of.master_sm_lid),
                    (ComponentMask::PORT_CAPABILITY_MASK, capabilities),
                    (ComponentMask::PORT_PORT_STATE, port_info.port_state == of.port_state),
                ],
            );
            if is_wanted {
                // The key is for managers only (IBTA 15.4.1.2).
                let port_info = softband_wire::mad::PortInfo { m_key: 0, ..port_info };
                found.add(PortInfoRecord { end_port_lid: end.lid, port_num, options: 0, port_info })?;
            }
        }
    }
    Ok(found.0)
}

/// Returns the switches with LIDs, or the switch with this LID.
fn switch_ends(subnet: &dyn Inventory, lid: Option<Lid>) -> Vec<End> {
    ends(subnet, lid).into_iter().filter(|end| end.is_switch).collect()
}

fn switches(wanted: &SwitchInfoRecord, mask: ComponentMask, subnet: &mut dyn Inventory) -> Result<Vec<SwitchInfoRecord>, Status> {
    let mut found = Found(Vec::new());
    for end in switch_ends(subnet, named(mask, ComponentMask::SWITCH_LID, wanted.lid)) {
        if let Some(switch_info) = read(subnet, end, AttributeId::SWITCH_INFO, 0) {
            found.add(SwitchInfoRecord { lid: end.lid, switch_info })?;
        }
    }
    Ok(found.0)
}

fn linear_tables(
    wanted: &LinearForwardingTableRecord,
    mask: ComponentMask,
    subnet: &mut dyn Inventory,
) -> Result<Vec<LinearForwardingTableRecord>, Status> {
    let mut found = Found(Vec::new());
    for end in switch_ends(subnet, named(mask, ComponentMask::LINEAR_LID, wanted.lid)) {
        let Some(info) = read::<SwitchInfo>(subnet, end, AttributeId::SWITCH_INFO, 0) else { continue };
        let all = 0..=info.linear_fdb_top / LINEAR_BLOCK;
        for block_num in all.filter(|block| named(mask, ComponentMask::LINEAR_BLOCK_NUM, wanted.block_num).is_none_or(|wanted| wanted == *block)) {
            if let Some(linear_forwarding_table) = read(subnet, end, AttributeId::LINEAR_FORWARDING_TABLE, block_num.into()) {
                found.add(LinearForwardingTableRecord { lid: end.lid, block_num, linear_forwarding_table })?;
            }
        }
    }
    Ok(found.0)
}

/// Returns the blocks of multicast forwarding tables that lead to ports.
fn multicast_tables(
    wanted: &MulticastForwardingTableRecord,
    mask: ComponentMask,
    subnet: &mut dyn Inventory,
) -> Result<Vec<MulticastForwardingTableRecord>, Status> {
    let mut found = Found(Vec::new());
    for end in switch_ends(subnet, named(mask, ComponentMask::MULTICAST_LID, wanted.lid)) {
        for (position, block_num) in (0..=end.ports / MULTICAST_PORTS).flat_map(|position| (0..MULTICAST_BLOCKS).map(move |block| (position, block)))
        {
            let is_named = agrees(
                mask,
                &[
                    (ComponentMask::MULTICAST_POSITION, position == wanted.position),
                    (ComponentMask::MULTICAST_BLOCK_NUM, block_num == wanted.block_num),
                ],
            );
            let modifier = u32::from(position) << 28 | u32::from(block_num);
            let bytes = if is_named { subnet.attribute(end.node, end.port, AttributeId::MULTICAST_FORWARDING_TABLE, modifier) } else { None };
            let Some(bytes) = bytes.filter(|bytes| bytes.iter().any(|byte| *byte != 0)) else { continue };
            let Ok(multicast_forwarding_table) = Layout::parse(&bytes) else { continue };
            found.add(MulticastForwardingTableRecord { lid: end.lid, position, block_num, multicast_forwarding_table })?;
        }
    }
    Ok(found.0)
}

fn maps(wanted: &SlToVlMappingTableRecord, mask: ComponentMask, subnet: &mut dyn Inventory) -> Result<Vec<SlToVlMappingTableRecord>, Status> {
    let mut found = Found(Vec::new());
    for end in ends(subnet, named(mask, ComponentMask::SL_TO_VL_LID, wanted.lid)) {
        // An HCA has one map for each port (IBTA 15.2.5.4).
        let pairs: Vec<(u8, u8)> =
            if end.is_switch { (0..=end.ports).flat_map(|input| (1..=end.ports).map(move |output| (input, output))).collect() } else { vec![(0, 0)] };
        for (input, output) in pairs {
            // The ports of a request have no meaning for an HCA.
            let is_named = agrees(
                mask,
                &[
                    (ComponentMask::SL_TO_VL_INPUT_PORT_NUM, !end.is_switch || input == wanted.input_port_num.0),
                    (ComponentMask::SL_TO_VL_OUTPUT_PORT_NUM, !end.is_switch || output == wanted.output_port_num.0),
                ],
            );
            let modifier = u32::from(input) << 8 | u32::from(output);
            let map = if is_named { read(subnet, end, AttributeId::SL_TO_VL_MAPPING_TABLE, modifier) } else { None };
            if let Some(sl_to_vl_mapping_table) = map {
                let (input_port_num, output_port_num) = (PortNumber(input), PortNumber(output));
                found.add(SlToVlMappingTableRecord { lid: end.lid, input_port_num, output_port_num, sl_to_vl_mapping_table })?;
            }
        }
    }
    Ok(found.0)
}

fn arbitration(wanted: &VlArbitrationTableRecord, mask: ComponentMask, subnet: &mut dyn Inventory) -> Result<Vec<VlArbitrationTableRecord>, Status> {
    let mut found = Found(Vec::new());
    for end in ends(subnet, named(mask, ComponentMask::VL_ARBITRATION_LID, wanted.lid)) {
        for (output_port_num, block_num) in ports_of(end).flat_map(|port| ARBITRATION_BLOCKS.map(move |block| (port, block))) {
            let is_named = agrees(
                mask,
                &[
                    (ComponentMask::VL_ARBITRATION_OUTPUT_PORT_NUM, output_port_num == wanted.output_port_num),
                    (ComponentMask::VL_ARBITRATION_BLOCK_NUM, block_num == wanted.block_num),
                ],
            );
            let modifier = u32::from(block_num) << 16 | u32::from(output_port_num.0);
            let table = if is_named { read(subnet, end, AttributeId::VL_ARBITRATION_TABLE, modifier) } else { None };
            if let Some(vl_arbitration_table) = table {
                found.add(VlArbitrationTableRecord { lid: end.lid, output_port_num, block_num, vl_arbitration_table })?;
            }
        }
    }
    Ok(found.0)
}

/// Returns the first blocks of tables of partition keys. Others have no keys.
fn partitions(wanted: &PKeyTableRecord, mask: ComponentMask, subnet: &mut dyn Inventory) -> Result<Vec<PKeyTableRecord>, Status> {
    let mut found = Found(Vec::new());
    for end in ends(subnet, named(mask, ComponentMask::P_KEY_TABLE_LID, wanted.lid)) {
        for port_num in ports_of(end) {
            let is_named = agrees(
                mask,
                &[(ComponentMask::P_KEY_TABLE_PORT_NUM, port_num == wanted.port_num), (ComponentMask::P_KEY_TABLE_BLOCK_NUM, wanted.block_num == 0)],
            );
            let modifier = if end.is_switch { u32::from(port_num.0) << 16 } else { 0 };
            let table = if is_named { read(subnet, end, AttributeId::P_KEY_TABLE, modifier) } else { None };
            if let Some(p_key_table) = table {
                found.add(PKeyTableRecord { lid: end.lid, block_num: 0, port_num, p_key_table })?;
            }
        }
    }
    Ok(found.0)
}

fn guids(wanted: &GuidInfoRecord, mask: ComponentMask, subnet: &mut dyn Inventory) -> Result<Vec<GuidInfoRecord>, Status> {
    let mut found = Found(Vec::new());
    for end in ends(subnet, named(mask, ComponentMask::GUID_LID, wanted.lid)) {
        let is_named = agrees(mask, &[(ComponentMask::GUID_BLOCK_NUM, wanted.block_num == 0)]);
        if let Some(guid_info) = read(subnet, end, AttributeId::GUID_INFO, 0).filter(|_| is_named) {
            found.add(GuidInfoRecord { lid: end.lid, block_num: 0, guid_info })?;
        }
    }
    Ok(found.0)
}

fn managers(wanted: &SmInfoRecord, mask: ComponentMask, subnet: &mut dyn Inventory) -> Result<Vec<SmInfoRecord>, Status> {
    let mut found = Found(Vec::new());
    for end in ends(subnet, named(mask, ComponentMask::SM_LID, wanted.lid)) {
        if let Some(sm_info) = read::<softband_wire::mad::SmInfo>(subnet, end, AttributeId::SM_INFO, 0) {
            // The key is for managers only (IBTA 15.2.5.8).
            found.add(SmInfoRecord { lid: end.lid, sm_info: softband_wire::mad::SmInfo { sm_key: 0, ..sm_info } })?;
        }
    }
    Ok(found.0)
}

fn links(wanted: &LinkRecord, mask: ComponentMask, subnet: &mut dyn Inventory) -> Result<Vec<LinkRecord>, Status> {
    let mut found = Found(Vec::new());
    for end in ends(subnet, named(mask, ComponentMask::LINK_FROM_LID, wanted.from_lid)) {
        for from_port in ports_of(end).filter(|port| port.0 > 0) {
            let Some((to_lid, to_port)) = subnet.neighbour(end.node, from_port) else { continue };
            let is_named = agrees(
                mask,
                &[
                    (ComponentMask::LINK_FROM_PORT, from_port == wanted.from_port),
                    (ComponentMask::LINK_TO_PORT, to_port == wanted.to_port),
                    (ComponentMask::LINK_TO_LID, to_lid == wanted.to_lid),
                ],
            );
            if is_named {
                found.add(LinkRecord { from_lid: end.lid, from_port, to_port, to_lid })?;
            }
        }
    }
    Ok(found.0)
}
