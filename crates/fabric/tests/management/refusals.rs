//! Requests that an agent refuses: classes, methods, attributes and versions (IBTA 13.4.7).

use crate::common::*;
use crate::desk::*;
use softband_model::management::ManagementPacket;
use softband_types::*;
use softband_wire::mad::*;

const UNKNOWN_METHOD: Method = Method(0x33);

/// Sends a request to the queue pair 1 of a port, and returns method and status of the answer.
fn ask(desk: &mut Desk, to: Lid, header: Header) -> Option<(Method, Status)> {
    let mut mad = Box::new([0; 256]);
    header.emit(&mut mad[..]);
    let qpn = Qpn(u32::from(!header.mgmt_class.is_subnet_management()));
    let packet = ManagementPacket { source: qpn, destination: qpn, qkey: QKey(0x8001_0000), ..subnet_packet(to, mad) };
    let (_, answer) = desk.exchange(packet)?;
    let header = Header::view(&answer.mad[..]);
    Some((header.method(), header.status()))
}

#[test]
fn a_switch_refuses_classes_that_it_does_not_serve() {
    let mut desk = Desk::of_three();
    let switch = desk.get::<PortInfo>(&[1], AttributeId::PORT_INFO, 0).lid;
    let refused = Status::METHOD_ATTRIBUTE_NOT_SUPPORTED;
    let vendors = [ManagementClass::VENDOR_FIRST, ManagementClass(0x0A), ManagementClass(0x33), ManagementClass::BASEBOARD];
    for class in vendors.into_iter().chain([ManagementClass::SUBNET_ADMINISTRATION, ManagementClass::CONGESTION]) {
        let header = desk.header(class, Method::GET, AttributeId(0x17), 0);
        assert_eq!(ask(&mut desk, switch, header), Some((Method::GET_RESP, refused)), "{class:?}");
        let header = desk.header(class, Method::GET_TABLE, AttributeId(0x17), 0);
        assert_eq!(ask(&mut desk, switch, header), Some((Method::GET_TABLE_RESP, refused)), "{class:?}");
        for method in [Method::SEND, Method::TRAP, Method::GET_RESP, UNKNOWN_METHOD] {
            let header = desk.header(class, method, AttributeId(0x17), 0);
            assert_eq!(ask(&mut desk, switch, header), None, "{method:?} has no answer");
        }
    }
}

#[test]
fn agents_refuse_methods_attributes_and_versions() {
    let mut desk = Desk::of_three();
    let switch = desk.get::<PortInfo>(&[1], AttributeId::PORT_INFO, 0).lid;
    let classes = [(ManagementClass::SUBNET_LID_ROUTED, AttributeId::NODE_INFO), (ManagementClass::PERFORMANCE, AttributeId::CLASS_PORT_INFO)];
    for (to, (class, attribute)) in [switch, desk.lid(1), desk.lid(0)].into_iter().flat_map(|to| classes.map(|class| (to, class))) {
        let good = desk.header(class, Method::GET, attribute, 0);
        let cases = [
            (good, Method::GET_RESP, Status::SUCCESS),
            (Header { attribute_id: AttributeId(0xFF77), ..good }, Method::GET_RESP, Status::METHOD_ATTRIBUTE_NOT_SUPPORTED),
            (Header { method: Method::SET, ..good }, Method::GET_RESP, Status::METHOD_ATTRIBUTE_NOT_SUPPORTED),
            (Header { class_version: 9, ..good }, Method::GET_RESP, Status::BAD_VERSION),
            (Header { base_version: 2, ..good }, Method::GET_RESP, Status::BAD_VERSION),
            (Header { method: Method::GET_TABLE, ..good }, Method::GET_TABLE_RESP, Status::METHOD_NOT_SUPPORTED),
            (Header { method: UNKNOWN_METHOD, ..good }, Method(0xB3), Status::METHOD_NOT_SUPPORTED),
        ];
        for (header, method, status) in cases {
            assert_eq!(ask(&mut desk, to, header), Some((method, status)), "{to:?} {header:?}");
        }
    }
}

#[test]
fn tools_see_the_makers_of_nodes() {
    let mut desk = Desk::of_three();
    let of = |desk: &mut Desk, path: &[u8]| {
        let info: NodeInfo = desk.get(path, AttributeId::NODE_INFO, 0);
        (info.vendor_id, info.device_id)
    };
    let (switch, hca) = (switch_part(), hca_part());
    assert_eq!(of(&mut desk, &[1]), (switch.vendor_id, switch.device_id));
    assert_eq!(of(&mut desk, &[]), (hca.vendor_id, hca.vendor_part_id as u16));
}
