//! Lengths and fields of images.

use super::*;
use crate::packet::{MessageCount, RemoteRange, SrqNumber};
use crate::verbs::api::{GlobalRoute, PayloadSlice};
use softband_types::{Lid, PKey, Psn, QKey, Qpn, ServiceLevel};
use softband_wire::headers::Lrh;
use softband_wire::mad::Layout;

const ADDRESSES: LinkAddresses = LinkAddresses { lane: VirtualLane(3), source: Gid([1; 16]), macs: [[2; 6], [4; 6]] };

fn packet(service: QpType, kind: PacketKind, payload: Option<&[u8]>) -> Packet {
    Packet {
        slid: Lid(1),
        dlid: Lid(2),
        service_level: ServiceLevel(0),
        pkey: PKey::DEFAULT_FULL,
        source: Qpn(0x11),
        destination: Qpn(0x22),
        psn: Psn::new(7),
        ack_request: false,
        solicited: false,
        fecn: false,
        becn: false,
        grh: None,
        carried: Carried::Messages(MessageCount::new(5)),
        service,
        kind,
        payload: payload.map(|bytes| PayloadSlice { len: bytes.len() as u32, offset: 0, buffer: Some(bytes.into()) }),
    }
}

fn kinds() -> Vec<PacketKind> {
    let range = RemoteRange { address: 1, rkey: 2, len_bytes: 3 };
    let mut kinds = vec![
        PacketKind::ReadRequest { range },
        PacketKind::CompareSwap { address: 8, rkey: 1, compare: 2, swap: 3 },
        PacketKind::FetchAdd { address: 8, rkey: 1, add: 2 },
        PacketKind::AtomicWrite { address: 8, rkey: 1, value: 2 },
        PacketKind::AtomicAck { original: 9 },
        PacketKind::Ack,
        PacketKind::Nak(NakCode::RemoteAccessError),
        PacketKind::RnrNak { timer_code: 12 },
        PacketKind::CongestionNotification,
    ];
    for (first, last) in [(true, true), (true, false), (false, true), (false, false)] {
        let position = Position { first, last };
        let immediate = last.then_some(1);
        kinds.push(PacketKind::Send { position, immediate, invalidate: None });
        kinds.push(PacketKind::Send { position, immediate: None, invalidate: last.then_some(2) });
        kinds.push(PacketKind::Write { position, range: first.then_some(range), immediate });
        kinds.push(PacketKind::ReadResponse { position });
    }
    kinds.extend([None, Some(1)].map(|immediate| PacketKind::Datagram { qkey: QKey(1), immediate }));
    kinds
}

#[test]
fn an_image_is_as_long_as_the_model_counts() {
    let ipv4 = GlobalRoute { dgid: Gid::of_ipv4([10, 77, 0, 2]), ..GlobalRoute::default() };
    let payloads: [Option<&[u8]>; 4] = [None, Some(&[1]), Some(&[1, 2, 3, 4]), Some(&[7; 99])];
    for (kind, payload) in kinds().into_iter().flat_map(|kind| payloads.map(|payload| (kind, payload))) {
        for (grh, carried) in [(None, Carried::Nothing), (Some(ipv4), Carried::Nothing), (None, Carried::XrcSrq(SrqNumber::new(4)))] {
            let packet = Packet { grh, carried, ..packet(QpType::Rc, kind, payload) };
            assert_eq!(packet.image(Framing::Infiniband, &ADDRESSES).len(), packet.bytes(Framing::Infiniband) as usize, "{kind:?}");
            if grh.is_some() {
                let framing = Framing::Ethernet { tagged: true };
                let addresses = LinkAddresses { source: Gid::of_ipv4([10, 77, 0, 1]), ..ADDRESSES };
                assert_eq!(packet.image(framing, &addresses).len() + 4, packet.bytes(framing) as usize, "{kind:?}");
            }
        }
    }
}

#[test]
fn a_packet_reads_back_from_its_image() {
    let position = Position { first: true, last: true };
    let kind = PacketKind::Write { position, range: Some(RemoteRange { address: 0x1234, rkey: 5, len_bytes: 3 }), immediate: None };
    let bytes = packet(QpType::Uc, kind, Some(&[9, 8, 7])).image(Framing::Infiniband, &ADDRESSES);
    let lrh = Lrh::view(&bytes);
    assert_eq!((lrh.virtual_lane(), lrh.dlid(), lrh.slid(), lrh.next_header()), (VirtualLane(3), Lid(2), Lid(1), Lrh::NEXT_BTH));
    assert_eq!(usize::from(lrh.packet_words()) * 4 + 2, bytes.len());
    let bth = Bth::view(&bytes[8..]);
    assert_eq!((bth.opcode(), bth.pad_bytes(), bth.destination(), bth.psn()), (Opcode(0x2A), 1, Qpn(0x22), Psn::new(7)));
    assert_eq!(Reth::view(&bytes[20..]).address(), 0x1234);
    assert_eq!(bytes[36..40], [9, 8, 7, 0]);
}

#[test]
fn the_check_values_of_a_packet_follow_its_changes() {
    let of = |lane, fecn| {
        let packet = Packet { fecn, ..packet(QpType::Rc, PacketKind::Ack, None) };
        let bytes = packet.image(Framing::Infiniband, &LinkAddresses { lane: VirtualLane(lane), ..ADDRESSES });
        (bytes[24..28].to_vec(), bytes[28..].to_vec())
    };
    // Switches change lane and congestion bits: the invariant CRC remains, the variant one changes.
    let (first, second, third) = (of(0, false), of(1, false), of(0, true));
    assert!(first.0 == second.0 && first.0 == third.0);
    assert!(first.1 != second.1 && first.1 != third.1);
}

#[test]
fn responses_carry_their_syndrome_and_count() {
    let aeth = |kind| Aeth::parse(&packet(QpType::Rc, kind, None).image(Framing::Infiniband, &ADDRESSES)[20..]).unwrap();
    assert_eq!(aeth(PacketKind::Ack), Aeth { syndrome: 0x1F, messages: 5 });
    assert_eq!(aeth(PacketKind::Nak(NakCode::RemoteAccessError)).syndrome, 0x62);
    assert_eq!(aeth(PacketKind::RnrNak { timer_code: 12 }).syndrome, 0x2C);
}
