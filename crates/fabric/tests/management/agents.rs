//! Management packets: their ways, times, and the answers of the agents.

use crate::common::*;
use crate::desk::*;
use softband_model::management::ManagementPacket;
use softband_sim::SimTime;
use softband_types::*;
use softband_wire::mad::*;

#[test]
fn directed_routes_discover_the_fabric() {
    let mut desk = Desk::of_three();
    let own: NodeInfo = desk.get(&[], AttributeId::NODE_INFO, 0);
    assert_eq!((own.node_type, own.local_port_num), (NodeType::CHANNEL_ADAPTER, PORT_1));
    let switch: NodeInfo = desk.get(&[1], AttributeId::NODE_INFO, 0);
    assert_eq!((switch.node_type, switch.local_port_num), (NodeType::SWITCH, PORT_1));
    let other: NodeInfo = desk.get(&[1, 3], AttributeId::NODE_INFO, 0);
    assert_eq!(other.node_type, NodeType::CHANNEL_ADAPTER);
    assert_eq!(other.node_guid, desk.world.node_guid(desk.world.hca_id(2, 0)));
    let info: PortInfo = desk.get(&[1, 3], AttributeId::PORT_INFO, 1);
    assert_eq!((info.lid, info.port_state, info.master_sm_lid), (desk.lid(2), PortState::ACTIVE, Lid(1)));
    assert_eq!((info.operational_vls, info.neighbor_mtu), (OperationalVlsCode::VL0_7, MtuCode::B2048));
    let name: NodeDescription = desk.get(&[1], AttributeId::NODE_DESCRIPTION, 0);
    assert_eq!(name.as_str(), "switch");
    // Nobody is at the end of port 4.
    assert_eq!(desk.ask(&[1, 4], Method::GET, AttributeId::NODE_INFO, 0, [0; 64]), None);
    assert_eq!(desk.ask(&[2], Method::GET, AttributeId::NODE_INFO, 0, [0; 64]), None);
    assert_eq!(desk.ask(&[1, 2, 1], Method::GET, AttributeId::NODE_INFO, 0, [0; 64]), None);
}

#[test]
fn a_directed_packet_takes_the_time_of_its_links_and_agents() {
    let mut spec = through_switch(LinkSpeed::Sdr, &[1, 1], 4, host_part(600, 300));
    for host in &mut spec.hosts {
        host.hcas[0].part.management_processing = nanos(2_000);
    }
    spec.switches[0].part.management_processing = nanos(5_000);
    let mut desk = Desk::new(&spec);
    let (own, _) = desk.ask(&[], Method::GET, AttributeId::NODE_INFO, 0, [0; 64]).unwrap();
    assert_eq!(own, nanos(2_000));
    // Each link takes 290 bytes at 1 GB/s, the delay of the cable, and its share of flow control.
    let (near, _) = desk.ask(&[1], Method::GET, AttributeId::NODE_INFO, 0, [0; 64]).unwrap();
    let links = near - nanos(5_000);
    assert!((nanos(2 * 295)..nanos(2 * 310)).contains(&links), "{links:?}");
    let (far, _) = desk.ask(&[1, 2], Method::GET, AttributeId::NODE_INFO, 0, [0; 64]).unwrap();
    assert_eq!(far, nanos(5_000 + 2_000 + 5_000) + links * 2);
}

#[test]
fn lids_lead_to_switches_and_hosts() {
    let mut desk = Desk::of_three();
    let switch: PortInfo = desk.get(&[1], AttributeId::PORT_INFO, 0);
    for (to, kind) in [(desk.lid(1), NodeType::CHANNEL_ADAPTER), (switch.lid, NodeType::SWITCH), (desk.lid(0), NodeType::CHANNEL_ADAPTER)] {
        let header = desk.header(ManagementClass::SUBNET_LID_ROUTED, Method::GET, AttributeId::NODE_INFO, 0);
        let mut mad = Box::new([0; 256]);
        header.emit(&mut mad[..]);
        let (_, answer) = desk.exchange(subnet_packet(to, mad)).expect("an answer");
        assert_eq!((answer.slid, answer.dlid), (to, desk.lid(0)));
        assert_eq!(NodeInfo::view(&answer.mad[64..]).node_type(), kind);
    }
    let header = desk.header(ManagementClass::SUBNET_LID_ROUTED, Method::GET, AttributeId::NODE_INFO, 0);
    let mut mad = Box::new([0; 256]);
    header.emit(&mut mad[..]);
    assert_eq!(desk.exchange(subnet_packet(Lid(99), mad)), None, "no port has this LID");
}

#[test]
fn tables_of_a_switch_show_and_change_the_way_of_packets() {
    let mut desk = Desk::of_three();
    let block: LinearForwardingTable = desk.get(&[1], AttributeId::LINEAR_FORWARDING_TABLE, 0);
    let outputs = [0, 1, 2].map(|host| block.ports[usize::from(desk.lid(host).0)].0);
    assert_eq!((outputs, block.ports[0].0, block.ports[40].0), ([1, 2, 3], 255, 255));
    // Without an entry for host 2, packets to it are lost.
    let mut changed = block;
    changed.ports[usize::from(desk.lid(2).0)] = PortNumber(255);
    let (_, answer) = desk.ask(&[1], Method::SET, AttributeId::LINEAR_FORWARDING_TABLE, 0, changed.to_bytes()).unwrap();
    assert_eq!(LinearForwardingTable::parse(&answer[64..]).unwrap(), changed);
    let select = PortCounters { port_select: PORT_1, ..PortCounters::default() }.to_bytes();
    let to = desk.lid(2);
    assert_eq!(desk.performance(to, Method::GET, AttributeId::PORT_COUNTERS, &select), None);
    desk.ask(&[1], Method::SET, AttributeId::LINEAR_FORWARDING_TABLE, 0, block.to_bytes()).unwrap();
    assert!(desk.performance(to, Method::GET, AttributeId::PORT_COUNTERS, &select).is_some());
}

#[test]
fn counters_count_from_their_last_reset() {
    let mut desk = Desk::of_three();
    let switch: PortInfo = desk.get(&[1], AttributeId::PORT_INFO, 0);
    let select = PortCounters { port_select: PORT_1, counter_select: CounterSelect(0xFFFF), ..PortCounters::default() }.to_bytes();
    for to in [switch.lid, desk.lid(1)] {
        let read = |mad: [u8; 256]| PortCounters::parse(&mad[64..]).unwrap();
        let first = read(desk.performance(to, Method::GET, AttributeId::PORT_COUNTERS, &select).unwrap());
        let second = read(desk.performance(to, Method::GET, AttributeId::PORT_COUNTERS, &select).unwrap());
        assert_eq!(second.port_rcv_pkts, first.port_rcv_pkts + 1);
        desk.performance(to, Method::SET, AttributeId::PORT_COUNTERS, &select).unwrap();
        let after = read(desk.performance(to, Method::GET, AttributeId::PORT_COUNTERS, &select).unwrap());
        // The answer to the reset left after it, then the question came.
        assert_eq!((after.port_rcv_pkts, after.port_xmit_pkts), (1, 1), "{after:?}");
        let wide = PortCountersExtended { port_select: PORT_1, ..PortCountersExtended::default() }.to_bytes();
        let wide = desk.performance(to, Method::GET, AttributeId::PORT_COUNTERS_EXTENDED, &wide).unwrap();
        assert!(PortCountersExtended::parse(&wide[64..]).unwrap().port_rcv_pkts > 3, "the reset leaves the wide counters");
    }
    let bad = PortCounters { port_select: PortNumber(99), ..PortCounters::default() }.to_bytes();
    let refused = desk.performance(switch.lid, Method::GET, AttributeId::PORT_COUNTERS, &bad).unwrap();
    assert_eq!(Header::view(&refused).status(), Status::INVALID_FIELD);
}

#[test]
fn wide_counters_are_reset_apart() {
    let mut desk = Desk::of_three();
    let to = desk.lid(1);
    let mut ask = |method, counter_select| {
        let select = PortCountersExtended { port_select: PORT_1, counter_select, ..PortCountersExtended::default() }.to_bytes();
        PortCountersExtended::parse(&desk.performance(to, method, AttributeId::PORT_COUNTERS_EXTENDED, &select).unwrap()[64..]).unwrap()
    };
    let none = ExtendedCounterSelect(0);
    (0..3).for_each(|_| assert_eq!(ask(Method::GET, none).port_multicast_rcv_pkts, 0));
    let first = ask(Method::SET, ExtendedCounterSelect::PORT_UNICAST_RCV_PKTS);
    assert_eq!((first.port_rcv_pkts, first.port_unicast_rcv_pkts, first.port_unicast_xmit_pkts), (4, 0, 3));
    let second = ask(Method::SET, ExtendedCounterSelect::PORT_RCV_PKTS);
    assert_eq!((second.port_rcv_pkts, second.port_unicast_rcv_pkts), (0, 1));
}

#[test]
fn a_wrong_m_key_gets_no_answer() {
    let mut desk = Desk::of_three();
    let mut info: PortInfo = desk.get(&[1, 2], AttributeId::PORT_INFO, 1);
    info.m_key = 7;
    info.m_key_protect_bits = MKeyProtection::HIDE_KEY;
    info.port_state = PortState::NO_CHANGE;
    assert!(desk.ask(&[1, 2], Method::SET, AttributeId::PORT_INFO, 1, info.to_bytes()).is_some());
    assert_eq!(desk.ask(&[1, 2], Method::SET, AttributeId::PORT_INFO, 1, info.to_bytes()), None);
    let read: PortInfo = desk.get(&[1, 2], AttributeId::PORT_INFO, 1);
    assert_eq!((read.m_key, read.m_key_violations), (0, 1), "reads stay free, and hide the key");
}

#[test]
fn a_set_lid_moves_the_port() {
    let mut desk = Desk::of_three();
    let mut info: PortInfo = desk.get(&[1, 2], AttributeId::PORT_INFO, 1);
    info.lid = Lid(77);
    info.port_state = PortState::NO_CHANGE;
    desk.ask(&[1, 2], Method::SET, AttributeId::PORT_INFO, 1, info.to_bytes()).unwrap();
    assert_eq!(desk.lid(1), Lid(77));
    info.lid = Lid(0xC000);
    let (_, refused) = desk.ask(&[1, 2], Method::SET, AttributeId::PORT_INFO, 1, info.to_bytes()).unwrap();
    assert_eq!(DirectedSmp::view(&refused).status(), Status::INVALID_FIELD.0);
    assert_eq!(desk.lid(1), Lid(77));
}

#[test]
fn a_manager_can_state_that_it_knows_extended_speeds() {
    const KNOWS_EXTENDED_SPEEDS: u32 = 1 << 31;
    let mut desk = Desk::of_three();
    for (path, port) in [(vec![1], 2), (vec![], 1)] {
        let mut info: PortInfo = desk.get(&path, AttributeId::PORT_INFO, port | KNOWS_EXTENDED_SPEEDS);
        assert_eq!(info, desk.get(&path, AttributeId::PORT_INFO, port));
        (info.port_state, info.vl_high_limit) = (PortState::NO_CHANGE, 7);
        let mut data = [0; 64];
        info.emit(&mut data);
        let (_, mad) = desk.ask(&path, Method::SET, AttributeId::PORT_INFO, port | KNOWS_EXTENDED_SPEEDS, data).expect("an answer");
        assert_eq!(DirectedSmp::view(&mad).status(), 0);
        assert_eq!(desk.get::<PortInfo>(&path, AttributeId::PORT_INFO, port).vl_high_limit, 7);
    }
}

#[test]
fn unknown_attributes_and_versions_are_refused() {
    let mut desk = Desk::of_three();
    let (_, answer) = desk.ask(&[1], Method::GET, AttributeId::VENDOR_DIAG, 0, [0; 64]).unwrap();
    assert_eq!(DirectedSmp::view(&answer).status(), Status::METHOD_ATTRIBUTE_NOT_SUPPORTED.0);
    let (_, answer) = desk.ask(&[], Method::GET, AttributeId::SWITCH_INFO, 0, [0; 64]).unwrap();
    assert_eq!(DirectedSmp::view(&answer).status(), Status::METHOD_ATTRIBUTE_NOT_SUPPORTED.0);
    let (_, answer) = desk.ask(&[1], Method::GET, AttributeId::PORT_INFO, 99, [0; 64]).unwrap();
    assert_eq!(DirectedSmp::view(&answer).status(), Status::INVALID_FIELD.0);
    let sm: SmInfo = desk.get(&[], AttributeId::SM_INFO, 0);
    assert_eq!(sm.sm_state, SmState::MASTER);
}

#[test]
fn any_bytes_leave_the_fabric_whole() {
    let mut desk = Desk::of_three();
    let mut random = 7u64;
    let hca = desk.world.hca_id(0, 0);
    for round in 0..4_000 {
        let mut mad = Box::new([0; 256]);
        for byte in mad.iter_mut() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (random >> 33) as u8;
        }
        mad[0] = 1;
        mad[1] = [0x81, 0x01, 0x04, 0x03][round % 4];
        mad[2] = 1;
        mad[3] = 1 + (round / 4 % 2) as u8;
        (mad[16], mad[17]) = (0, 0x10 + mad[17] % 17);
        (mad[6], mad[7]) = (0, mad[7] % 3);
        let to = [Lid::PERMISSIVE, Lid(1 + (round % 5) as u16)][usize::from(mad[1] != 0x81)];
        let qpn = Qpn(u32::from(mad[1] & 0x7F != 1));
        let packet = ManagementPacket { destination: qpn, source: qpn, ..subnet_packet(to, mad) };
        desk.world.send_management(hca, PORT_1, Box::new(packet), desk.world.now());
    }
    let mut notices = Vec::new();
    while desk.world.next_event_time().is_some() {
        desk.world.step(&mut desk.memory, &mut notices);
        notices.clear();
    }
    desk.world.audit().unwrap();
    assert_eq!(desk.world.packets_under_way(), 0);
    assert!(desk.world.now() > SimTime::ZERO);
}

#[test]
fn subnet_administration_knows_paths() {
    let mut desk = Desk::of_three();
    let (own, other) = (desk.lid(0), desk.lid(2));
    let mut ask = |mask: ComponentMask, wanted: PathRecord, attribute| {
        let header = desk.header(ManagementClass::SUBNET_ADMINISTRATION, Method::GET, attribute, 0);
        let mut mad = Box::new([0; 256]);
        let mut data = [0; SA_DATA_BYTES];
        wanted.emit(&mut data);
        SaMad::view_mut(&mut mad[..]).header(header).component_mask(mask).data(data);
        let packet = ManagementPacket { destination: Qpn(1), source: Qpn(1), ..subnet_packet(own, mad) };
        let (_, answer) = desk.exchange(packet).expect("an answer");
        let answer = SaMad::view(&answer.mad[..]);
        assert_eq!(answer.header().method, Method::GET_RESP);
        (answer.header().status, PathRecord::parse(&answer.data()).unwrap())
    };
    let by_lid = PathRecord { dlid: other, ..PathRecord::default() };
    let (status, path) = ask(ComponentMask::PATH_DLID, by_lid, AttributeId::PATH_RECORD);
    assert_eq!((status, path.slid, path.dlid, path.mtu), (Status::SUCCESS, own, other, MtuCode::B2048));
    let (status, same) = ask(ComponentMask::PATH_DGID, PathRecord { dgid: path.dgid, ..PathRecord::default() }, AttributeId::PATH_RECORD);
    assert_eq!((status, same.dlid), (Status::SUCCESS, other));
    let unknown = PathRecord { dlid: Lid(99), ..PathRecord::default() };
    assert_eq!(ask(ComponentMask::PATH_DLID, unknown, AttributeId::PATH_RECORD).0, Status::SA_NO_RECORDS);
    assert_eq!(ask(ComponentMask(0), unknown, AttributeId::PATH_RECORD).0, Status::SA_TOO_MANY_RECORDS);
    assert_eq!(ask(ComponentMask(0), unknown, AttributeId::TRACE_RECORD).0, Status::METHOD_ATTRIBUTE_NOT_SUPPORTED);
}

/// A receiver acknowledges by a packet with the method of the request.
#[test]
fn a_table_of_several_segments_follows_its_acknowledgements() {
    let mut desk = Desk::of_three();
    let own = desk.lid(0);
    let header = desk.header(ManagementClass::SUBNET_ADMINISTRATION, Method::GET_TABLE, AttributeId::PATH_RECORD, 0);
    let mut mad = Box::new([0; 256]);
    SaMad::view_mut(&mut mad[..]).header(header);
    let request = |mad: Box<[u8; 256]>| ManagementPacket { destination: Qpn(1), source: Qpn(1), ..subnet_packet(own, mad) };
    let (_, first) = desk.exchange(request(mad.clone())).expect("a segment");
    let first = SaMad::parse(&first.mad[..]).unwrap();
    // Three hosts and a switch have 16 paths: 1,024 bytes in 6 segments of 200.
    assert_eq!((first.rmpp.segment_number, first.rmpp.payload_length), (1, 1_024 + 6 * 20));
    assert_eq!((first.rmpp.flags, first.attribute_offset), (RmppFlags::ACTIVE | RmppFlags::FIRST, 8));
    let acknowledge = |number: u32, window: u32| {
        let mut mad = mad.clone();
        let rmpp = RmppHeader {
            version: 1,
            rmpp_type: RmppType::ACK,
            flags: RmppFlags::ACTIVE,
            segment_number: number,
            payload_length: window,
            ..RmppHeader::default()
        };
        SaMad::view_mut(&mut mad[..]).rmpp(rmpp);
        request(mad)
    };
    let segments = desk.exchange_all(acknowledge(1, 64));
    let numbers: Vec<u32> = segments.iter().map(|packet| SaMad::view(&packet.mad[..]).rmpp().segment_number).collect();
    assert_eq!(numbers, [2, 3, 4, 5, 6]);
    let last = SaMad::view(&segments[4].mad[..]).rmpp();
    assert_eq!((last.flags, last.payload_length), (RmppFlags::ACTIVE | RmppFlags::LAST, 24 + 20));
    assert!(desk.exchange_all(acknowledge(6, 64)).is_empty());
    assert!(desk.exchange_all(acknowledge(1, 64)).is_empty(), "the table is gone");
}

/// A table can name any port. Data to one that the switch lacks is lost, and nothing else happens.
#[test]
fn a_table_with_ports_that_the_switch_lacks_harms_nobody() {
    let mut desk = Desk::of_three();
    let mut block: LinearForwardingTable = desk.get(&[1], AttributeId::LINEAR_FORWARDING_TABLE, 0);
    let lid = desk.lid(2);
    block.ports[usize::from(lid.0)] = PortNumber(200);
    let (_, answer) = desk.ask(&[1], Method::SET, AttributeId::LINEAR_FORWARDING_TABLE, 0, block.to_bytes()).unwrap();
    assert_eq!(LinearForwardingTable::parse(&answer[64..]).unwrap().ports[usize::from(lid.0)], PortNumber(255));
    let select = PortCounters { port_select: PORT_1, ..PortCounters::default() }.to_bytes();
    assert_eq!(desk.performance(lid, Method::GET, AttributeId::PORT_COUNTERS, &select), None);
}

/// LIDs lead to a switch, and the directed part of the route begins there (IBTA 14.2.2).
#[test]
fn a_route_can_begin_by_lid() {
    let mut desk = Desk::of_three();
    let switch: PortInfo = desk.get(&[1], AttributeId::PORT_INFO, 0);
    let header = desk.header(ManagementClass::SUBNET_DIRECTED_ROUTE, Method::GET, AttributeId::NODE_INFO, 0);
    let (mut mad, mut route) = (Box::new([0; 256]), [0; 64]);
    header.emit(&mut mad[..]);
    route[1] = 2;
    let own = desk.lid(0);
    DirectedSmp::view_mut(&mut mad[..]).hop_count(1).dr_slid(own).dr_dlid(Lid::PERMISSIVE).initial_path(route);
    let (_, answer) = desk.exchange(subnet_packet(switch.lid, mad)).expect("an answer");
    let info = NodeInfo::parse(&answer.mad[64..]).unwrap();
    assert_eq!(info.node_guid, desk.world.node_guid(desk.world.hca_id(1, 0)));
}

#[test]
fn an_answer_to_a_new_lid_comes_from_the_old() {
    let mut desk = Desk::of_three();
    let (own, to) = (desk.lid(0), desk.lid(1));
    for (path, target) in [(&[1, 2][..], to), (&[][..], own)] {
        let mut info: PortInfo = desk.get(path, AttributeId::PORT_INFO, 1);
        (info.lid, info.port_state) = (Lid(target.0 + 40), PortState::NO_CHANGE);
        let header = desk.header(ManagementClass::SUBNET_LID_ROUTED, Method::SET, AttributeId::PORT_INFO, 1);
        let mut mad = Box::new([0; 256]);
        Smp::view_mut(&mut mad[..]).header(header).data(info.to_bytes());
        let (_, answer) = desk.exchange(subnet_packet(target, mad)).expect("an answer");
        assert_eq!((answer.slid, Header::view(&answer.mad[..]).status()), (target, Status::SUCCESS));
    }
}
