//! Requests to the built-in manager's subnet administration: groups, and records of nodes and tables.

use crate::desk::*;
use softband_catalog::{Catalog, LoadOptions, parse_fabric};
use softband_types::*;
use softband_wire::mad::*;
use std::path::Path;

impl Desk {
    /// Sends a request for a record, and returns the status and the first record of the answer.
    pub(crate) fn administer<R: Layout>(&mut self, method: Method, attribute: AttributeId, mask: ComponentMask, wanted: &R) -> (Status, R) {
        let header = self.header(ManagementClass::SUBNET_ADMINISTRATION, method, attribute, self.modifier);
        let mut mad = Box::new([0; 256]);
        let mut data = [0; SA_DATA_BYTES];
        wanted.emit(&mut data);
        SaMad::view_mut(&mut mad[..]).header(header).component_mask(mask).data(data);
        let own = self.lid(0);
        let packet = softband_model::management::ManagementPacket { destination: Qpn(1), source: Qpn(1), slid: own, ..subnet_packet(own, mad) };
        let (_, answer) = self.exchange(packet).expect("an answer");
        let answer = SaMad::view(&answer.mad[..]);
        (answer.header().status, R::parse(&answer.data()).unwrap())
    }

    /// Sends a request for a table, and returns its records.
    pub(crate) fn table<R: Layout>(&mut self, attribute: AttributeId, mask: ComponentMask, wanted: &impl Layout, method: Method) -> Vec<R> {
        let header = self.header(ManagementClass::SUBNET_ADMINISTRATION, method, attribute, 0);
        let (mut mad, mut data) = (Box::new([0; 256]), [0; SA_DATA_BYTES]);
        wanted.emit(&mut data);
        SaMad::view_mut(&mut mad[..]).header(header).component_mask(mask).data(data);
        let own = self.lid(0);
        let request = softband_model::management::ManagementPacket { destination: Qpn(1), source: Qpn(1), slid: own, ..subnet_packet(own, mad) };
        let (mut packets, mut bytes) = (self.exchange_all(request.clone()), Vec::new());
        while let Some(packet) = packets.first() {
            let sa = SaMad::view(&packet.mad[..]);
            assert_eq!(sa.header().status, Status::SUCCESS);
            let (rmpp, last) = (sa.rmpp(), sa.rmpp().flags.contains(RmppFlags::LAST));
            let len = if last { rmpp.payload_length as usize - 20 } else { SA_DATA_BYTES };
            bytes.extend_from_slice(&sa.data()[..len]);
            let number = rmpp.segment_number;
            let rmpp = RmppHeader { rmpp_type: RmppType::ACK, payload_length: number + 1, flags: RmppFlags::ACTIVE, ..rmpp };
            let mut acknowledgement = request.clone();
            SaMad::view_mut(&mut acknowledgement.mad[..]).rmpp(rmpp);
            packets = self.exchange_all(acknowledgement);
            assert_eq!(packets.is_empty(), last);
        }
        bytes.chunks_exact(room_of_record::<R>()).map(|record| R::parse(record).unwrap()).collect()
    }

    pub(crate) fn gid(&self, host: usize) -> Gid {
        self.world.port(self.world.hca_id(host, 0), PORT_1).unwrap().gids[0].unwrap()
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
    // The manager is at the host of the test: its requests come to the switch by the same port.
    assert_eq!(desk.query(AttributeId::PORT_INFO_RECORD, by_port, &port).port_info, info);
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

#[test]
fn paths_between_groups_of_ports_come_in_one_answer() {
    let mut desk = Desk::of_three();
    let mut wanted = MultiPathRecord { numb_path: 9, sgid_count: 2, dgid_count: 2, ..MultiPathRecord::default() };
    wanted.gids[..4].copy_from_slice(&[desk.gid(0), desk.gid(1), desk.gid(1), desk.gid(2)]);
    let lists = ComponentMask::MULTI_PATH_SGID_COUNT | ComponentMask::MULTI_PATH_DGID_COUNT;
    let mut between = |wanted: &MultiPathRecord| {
        let found: Vec<PathRecord> =
            desk.table(AttributeId::MULTI_PATH_RECORD, lists | ComponentMask::MULTI_PATH_NUMB_PATH, wanted, Method::GET_MULTI);
        found.into_iter().map(|path| (path.slid.0, path.dlid.0)).collect::<Vec<_>>()
    };
    assert_eq!(between(&wanted), [(1, 2), (1, 3), (2, 2), (2, 3)]);
    assert_eq!(between(&MultiPathRecord { numb_path: 3, ..wanted }), [(1, 2), (1, 3), (2, 2)]);
    let mut refused = |wanted: &MultiPathRecord, mask| desk.administer(Method::GET_MULTI, AttributeId::MULTI_PATH_RECORD, mask, wanted).0;
    assert_eq!(refused(&wanted, ComponentMask::MULTI_PATH_SGID_COUNT), Status::SA_INSUFFICIENT_COMPONENTS);
    for (sgid_count, dgid_count) in [(0, 1), (1, 0), (6, 6), (255, 255)] {
        assert_eq!(refused(&MultiPathRecord { sgid_count, dgid_count, ..wanted }, lists), Status::SA_REQUEST_INVALID);
    }
    wanted.gids[3] = Gid([7; 16]);
    assert_eq!(refused(&wanted, lists), Status::SA_INVALID_GID);
}

#[test]
fn a_request_of_one_segment_is_acknowledged_first() {
    let mut desk = Desk::of_three();
    let header = desk.header(ManagementClass::SUBNET_ADMINISTRATION, Method::GET_MULTI, AttributeId::MULTI_PATH_RECORD, 0);
    let mut wanted = MultiPathRecord { sgid_count: 1, dgid_count: 1, ..MultiPathRecord::default() };
    wanted.gids[..2].copy_from_slice(&[desk.gid(0), desk.gid(1)]);
    let flags = RmppFlags::ACTIVE | RmppFlags::FIRST | RmppFlags::LAST;
    let rmpp = RmppHeader { version: 1, rmpp_type: RmppType::DATA, flags, segment_number: 1, payload_length: 220, ..RmppHeader::default() };
    let mut mad = Box::new([0; 256]);
    let lists = ComponentMask::MULTI_PATH_SGID_COUNT | ComponentMask::MULTI_PATH_DGID_COUNT;
    SaMad::view_mut(&mut mad[..]).header(header).rmpp(rmpp).component_mask(lists).data(wanted.to_bytes());
    let own = desk.lid(0);
    let arrived = desk.exchange_all(softband_model::management::ManagementPacket { destination: Qpn(1), source: Qpn(1), ..subnet_packet(own, mad) });
    let kinds: Vec<RmppType> = arrived.iter().map(|packet| SaMad::view(&packet.mad[..]).rmpp().rmpp_type).collect();
    assert_eq!(kinds, [RmppType::ACK, RmppType::DATA]);
}

#[test]
fn subscribers_learn_of_groups_and_of_traps() {
    let mut desk = Desk::of_three();
    let all = InformInfo {
        lid_range_begin: Lid::PERMISSIVE,
        is_generic: 1,
        subscribe: 1,
        notice_type: 0xFFFF,
        trap_number: TrapNumber(0xFFFF),
        qpn: Qpn(1),
        producer_type: 0xFF_FFFF,
        ..InformInfo::default()
    };
    let (status, answer) = desk.administer(Method::SET, AttributeId::INFORM_INFO, ComponentMask(0), &all);
    assert_eq!((status, answer), (Status::SUCCESS, all));
    let record = desk.query(AttributeId::INFORM_INFO_RECORD, ComponentMask(0), &InformInfoRecord::default());
    assert_eq!((record.subscriber_gid, record.inform_info_enum, record.inform_info), (desk.gid(0), 0, all));
    desk.member(Method::SET, 1, JoinState::FULL_MEMBER);
    desk.member(Method::DELETE, 1, JoinState::FULL_MEMBER);
    // A wrong M_Key leads to a trap, which the manager forwards.
    let mut info: PortInfo = desk.get(&[1, 2], AttributeId::PORT_INFO, 1);
    (info.m_key, info.m_key_protect_bits, info.port_state) = (7, MKeyProtection::HIDE_KEY, PortState::NO_CHANGE);
    assert!(desk.ask(&[1, 2], Method::SET, AttributeId::PORT_INFO, 1, info.to_bytes()).is_some());
    assert_eq!(desk.ask(&[1, 2], Method::SET, AttributeId::PORT_INFO, 1, info.to_bytes()), None);
    let reports: Vec<GmpNotice> = desk.traps.iter().map(|packet| GmpNotice::parse(&SaMad::view(&packet.mad[..]).data()).unwrap()).collect();
    let expected = [(TrapNumber::MULTICAST_GROUP_CREATED, 0), (TrapNumber::MULTICAST_GROUP_DELETED, 0), (TrapNumber::BAD_M_KEY, 1)];
    for (report, (number, issuer)) in reports.iter().zip(expected) {
        assert_eq!((report.notice.trap_number, report.issuer_gid), (number, desk.gid(issuer)));
    }
    assert_eq!(reports.len(), 3);
    let end = InformInfo { subscribe: 0, ..all };
    assert_eq!(desk.administer(Method::SET, AttributeId::INFORM_INFO, ComponentMask(0), &end).0, Status::SUCCESS);
    desk.member(Method::SET, 1, JoinState::FULL_MEMBER);
    assert_eq!(desk.traps.len(), 3);
}

#[test]
fn a_large_fabric_has_paths_from_each_port_and_tables_up_to_a_limit() {
    let catalog = Catalog::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalog")).unwrap_or_else(|error| panic!("{}", error.to_text()));
    let text = "[generate]\nhost = \"qdr-host\"\nhca = \"connectx2-qdr\"\nhost_cable = \"copper-4x\"\nhost_cable_length = \"1 m\"\n\
                switch = \"infiniscale-iv\"\nkind = \"fat-tree\"\nhosts = 1008\nports = 36\nlevels = 3\n";
    let mut spec = parse_fabric("large.toml", text, &catalog, &LoadOptions::default()).unwrap_or_else(|error| panic!("{}", error.to_text())).spec;
    let mut desk = Desk::new(&spec);
    let own = PathRecord { slid: desk.lid(0), ..PathRecord::default() };
    let paths: Vec<PathRecord> = desk.table(AttributeId::PATH_RECORD, ComponentMask::PATH_SLID, &own, Method::GET_TABLE);
    assert_eq!(paths.len(), spec.hosts.len() + spec.switches.len());
    for host in [1, 500, 1_007] {
        let (dgid, sgid) = (desk.gid(host), desk.gid(0));
        let by_gids = PathRecord { dgid, sgid, ..PathRecord::default() };
        let path = desk.query(AttributeId::PATH_RECORD, ComponentMask::PATH_DGID | ComponentMask::PATH_SGID, &by_gids);
        assert_eq!((path.slid, path.dlid), (desk.lid(0), desk.lid(host)));
    }
    let all = |desk: &mut Desk| desk.administer(Method::GET_TABLE, AttributeId::PATH_RECORD, ComponentMask(0), &PathRecord::default());
    let (status, first) = all(&mut desk);
    assert_eq!((status, first.slid, first.dlid), (Status::SUCCESS, Lid(1), Lid(1)));
    // With two LIDs for each host, more than 2,097,152 paths would come.
    spec.subnet.lmc = Lmc::new(1).unwrap();
    assert_eq!(all(&mut Desk::new(&spec)).0, Status::SA_NO_RESOURCES);
}

/// Subnet administration survives any request, and answers each.
#[test]
fn any_request_gets_an_answer() {
    let mut desk = Desk::of_three();
    let attributes = [0x03, 0x3A, 0x11, 0x12, 0x13, 0x14, 0x15, 0x17, 0x18, 0x20, 0x30, 0x31, 0x33, 0x35, 0x36, 0x38, 0xF3];
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

#[test]
fn a_path_has_the_rate_of_its_slowest_link() {
    let mut spec = crate::common::through_switch(LinkSpeed::Ddr, &[1, 1], 4, crate::common::host_part(600, 300));
    let second = softband_spec::SwitchSpec { name: "second".into(), node_guid: Guid(6), ..spec.switches[0].clone() };
    spec.switches.push(second);
    let port = |switch, port| softband_spec::PortRef::Switch { switch, port: PortNumber(port) };
    spec.cables[1].ends[1] = port(1, 1);
    let between = softband_spec::CableSpec { ends: [port(0, 5), port(1, 5)], rate: crate::common::rate(LinkSpeed::Sdr), ..spec.cables[0].clone() };
    spec.cables.push(between);
    let mut desk = Desk::new(&spec);
    let both = ComponentMask::PATH_SLID | ComponentMask::PATH_DLID;
    let mut rate_between =
        |from, to| desk.query(AttributeId::PATH_RECORD, both, &PathRecord { slid: Lid(from), dlid: Lid(to), ..PathRecord::default() }).rate;
    // Hosts have LIDs 1 and 2, switches 3 and 4. Switches send records of their own links.
    // 10 and 20 Gb/s (IBTA 15.2.5.16).
    let [slow, fast] = [3, 6].map(RateCode);
    assert_eq!([(1, 2), (1, 1), (1, 3), (1, 4), (3, 1), (3, 4)].map(|(from, to)| rate_between(from, to)), [slow, fast, fast, slow, fast, slow]);
}
