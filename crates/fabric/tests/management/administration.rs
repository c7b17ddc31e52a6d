//! Requests to the built-in manager's subnet administration: groups, and records of nodes and tables.

use crate::desk::*;
use softband_types::*;
use softband_wire::mad::*;

impl Desk {
    /// Sends a request for a record, and returns the status and the first record of the answer.
    fn administer<R: Layout>(&mut self, method: Method, attribute: AttributeId, mask: ComponentMask, wanted: &R) -> (Status, R) {
        let header = self.header(ManagementClass::SUBNET_ADMINISTRATION, method, attribute, self.modifier);
        let mut mad = Box::new([0; 256]);
        let mut data = [0; SA_DATA_BYTES];
        wanted.emit(&mut data);
        SaMad::view_mut(&mut mad[..]).header(header).component_mask(mask).data(data);
        let own = self.lid(0);
        let packet = softband_model::management::ManagementPacket { destination: Qpn(1), source: Qpn(1), ..subnet_packet(own, mad) };
        let (_, answer) = self.exchange(packet).expect("an answer");
        let answer = SaMad::view(&answer.mad[..]);
        (answer.header().status, R::parse(&answer.data()).unwrap())
    }

    fn query<R: Layout>(&mut self, attribute: AttributeId, mask: ComponentMask, wanted: &R) -> R {
        let (status, record) = self.administer(Method::GET, attribute, mask, wanted);
        assert_eq!(status, Status::SUCCESS, "{attribute:?}");
        record
    }

    /// Joins or leaves a group for the port of a host.
    fn member(&mut self, method: Method, host: usize, state: JoinState) -> (Status, McMemberRecord) {
        let hca = self.world.hca_id(host, 0);
        let port_gid = self.world.port(hca, PORT_1).unwrap().gids[0].unwrap();
        let mgid = Gid([0xFF, 0x12, 0x40, 1, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0x0F, 0, 0, 1]);
        let record = McMemberRecord { mgid, port_gid, p_key: PKey::DEFAULT_FULL, join_state: state, ..McMemberRecord::default() };
        let all = (0..18).filter(|bit| ![3, 4, 5, 8, 9, 10, 11, 15, 17].contains(bit)).fold(0, |mask, bit| mask | 1 << bit);
        self.administer(method, AttributeId::MC_MEMBER_RECORD, ComponentMask(all), &record)
    }

    /// Returns the outputs of the switch for the first group, a bit for each port.
    fn outputs(&mut self) -> u16 {
        let block: MulticastForwardingTable = self.get(&[1], AttributeId::MULTICAST_FORWARDING_TABLE, 0);
        block.port_masks[0]
    }
}

#[test]
fn members_of_a_group_are_in_the_tables_of_switches() {
    let mut desk = Desk::of_three();
    let (status, first) = desk.member(Method::SET, 0, JoinState::FULL_MEMBER);
    assert_eq!((status, first.mlid, first.mtu), (Status::SUCCESS, Lid(0xC000), MtuCode::B2048));
    let (status, other) = desk.member(Method::SET, 2, JoinState::FULL_MEMBER);
    assert_eq!((status, other.mlid), (Status::SUCCESS, first.mlid));
    assert_eq!(desk.outputs(), 0b1010, "ports 1 and 3");
    assert_eq!(desk.member(Method::SET, 1, JoinState::SEND_ONLY_NON_MEMBER).0, Status::SUCCESS);
    assert_eq!(desk.outputs(), 0b1010, "the second host only sends");
    assert_eq!(desk.member(Method::DELETE, 2, JoinState::FULL_MEMBER).0, Status::SUCCESS);
    assert_eq!(desk.outputs(), 0b0010);
    assert_eq!(desk.member(Method::DELETE, 2, JoinState::FULL_MEMBER).0, Status::SA_REQUEST_INVALID);
    let by_lid = McMemberRecord { mlid: first.mlid, ..McMemberRecord::default() };
    assert_eq!(desk.query(AttributeId::MC_MEMBER_RECORD, ComponentMask::MC_MEMBER_MLID, &by_lid).mgid, first.mgid);
}

#[test]
fn records_state_the_attributes_of_agents() {
    let mut desk = Desk::of_three();
    let (own, other) = (desk.lid(0), desk.lid(2));
    let of_other = desk.query(AttributeId::NODE_RECORD, ComponentMask::NODE_LID, &NodeRecord { lid: other, ..NodeRecord::default() });
    let guid = desk.world.node_guid(desk.world.hca_id(2, 0));
    assert_eq!((of_other.node_info.node_guid, of_other.node_info.port_guid, of_other.node_info.local_port_num), (guid, Guid(guid.0 + 1), PORT_1));
    let mut by_guid = NodeRecord::default();
    by_guid.node_info.port_guid = Guid(guid.0 + 1);
    assert_eq!(desk.query(AttributeId::NODE_RECORD, ComponentMask::NODE_PORT_GUID, &by_guid), of_other);
    let switch: PortInfo = desk.get(&[1], AttributeId::PORT_INFO, 0);

    let mut port = PortInfoRecord { end_port_lid: switch.lid, port_num: PortNumber(3), ..PortInfoRecord::default() };
    let by_port = ComponentMask::PORT_END_PORT_LID | ComponentMask::PORT_PORT_NUM;
    let info: PortInfo = desk.get(&[1], AttributeId::PORT_INFO, 3);
    // The request of the test came to the switch by port 1.
    let expected = PortInfo { local_port_num: PortNumber(0), ..info };
    assert_eq!(desk.query(AttributeId::PORT_INFO_RECORD, by_port, &port).port_info, expected);
    port.port_info.capability_mask = CapabilityMask::IS_SM;
    let status = desk.administer(Method::GET, AttributeId::PORT_INFO_RECORD, ComponentMask::PORT_CAPABILITY_MASK, &port).0;
    assert_eq!(status, Status::SA_NO_RECORDS, "each port has more capabilities");
    desk.modifier = 1 << 31;
    assert_eq!(desk.query(AttributeId::PORT_INFO_RECORD, ComponentMask::PORT_CAPABILITY_MASK, &port).end_port_lid, own);
    desk.modifier = 0;

    let table = LinearForwardingTableRecord { lid: switch.lid, ..LinearForwardingTableRecord::default() };
    let by_block = ComponentMask::LINEAR_LID | ComponentMask::LINEAR_BLOCK_NUM;
    let block: LinearForwardingTable = desk.get(&[1], AttributeId::LINEAR_FORWARDING_TABLE, 0);
    assert_eq!(desk.query(AttributeId::LINEAR_FORWARDING_TABLE_RECORD, by_block, &table).linear_forwarding_table, block);
    let link = LinkRecord { from_lid: other, ..LinkRecord::default() };
    let link = desk.query(AttributeId::LINK_RECORD, ComponentMask::LINK_FROM_LID, &link);
    assert_eq!((link.from_port, link.to_lid, link.to_port), (PORT_1, switch.lid, PortNumber(3)));
    let manager = desk.query(AttributeId::SM_INFO_RECORD, ComponentMask(0), &SmInfoRecord::default());
    assert_eq!((manager.lid, manager.sm_info.sm_state, manager.sm_info.sm_key), (own, SmState::MASTER, 0));
    let keys = PKeyTableRecord { lid: other, ..PKeyTableRecord::default() };
    assert_eq!(desk.query(AttributeId::P_KEY_TABLE_RECORD, ComponentMask::P_KEY_TABLE_LID, &keys).p_key_table.p_keys[0], PKey::DEFAULT_FULL);
    assert_eq!(desk.query(AttributeId::SWITCH_INFO_RECORD, ComponentMask(0), &SwitchInfoRecord::default()).lid, switch.lid);
    let nothing = NodeRecord::default();
    assert_eq!(desk.administer(Method::GET, AttributeId::NODE_RECORD, ComponentMask(0), &nothing).0, Status::SA_TOO_MANY_RECORDS);
    assert_eq!(desk.administer(Method::GET, AttributeId::NODE_RECORD, ComponentMask::NODE_LID, &nothing).0, Status::SA_NO_RECORDS);
}

/// Subnet administration survives any request, and answers each.
#[test]
fn any_request_gets_an_answer() {
    let mut desk = Desk::of_three();
    let attributes = [0x11, 0x12, 0x13, 0x14, 0x15, 0x17, 0x18, 0x20, 0x30, 0x31, 0x33, 0x35, 0x36, 0x38, 0xF3];
    let mut random = 7u64;
    for round in 0..1_500 {
        let mut data = [0; SA_DATA_BYTES];
        for byte in &mut data {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (random >> 33) as u8 & [0xFF, 3][round % 2];
        }
        let method = [Method::GET, Method::SET, Method::DELETE, Method::GET_TABLE][round / 2 % 4];
        let mask = ComponentMask(if round % 3 == 0 { random >> 20 & random >> 30 } else { 0 });
        let attribute = AttributeId(attributes[round % attributes.len()]);
        desk.administer(method, attribute, mask, &McMemberRecord::parse(&data).unwrap());
    }
    desk.world.audit().unwrap();
}
