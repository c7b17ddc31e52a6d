//! Frames as bytes: golden packets, and every frame reads back.

#[path = "common/sums.rs"]
mod sums;

use proptest::prelude::*;
use softband_net::wire::{DecodeError, EncodeError, decode, encode, ether_type};
use softband_net::{
    Body, Datagram, Flags, Fragment, Frame, LinkAddress, NeighbourMessage, Options, Packet, Payload, Segment, SeqNumber, Timestamps, Unreachable,
    UnreachableReason,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn bytes_of(frame: &Frame) -> Vec<u8> {
    let mut bytes = vec![0xee];
    encode(frame, &mut bytes).expect("a frame with bytes");
    assert_eq!(bytes.len() as u64 - 1, frame.wire_bytes());
    bytes.split_off(1)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a text of the frame in which payload is bytes, however it lies in buffers.
fn text(frame: &Frame) -> String {
    let mut frame = frame.clone();
    let mut bytes = Vec::new();
    if let Frame::Packet(packet) = &mut frame
        && let Some(payload) = match &mut packet.body {
            Body::Tcp(segment) => Some(&mut segment.payload),
            Body::Udp(datagram) => Some(&mut datagram.payload),
            Body::Echo(echo) => Some(&mut echo.payload),
            Body::Fragment(fragment) => Some(&mut fragment.payload),
            Body::Unreachable(_) => None,
        }
    {
        bytes = std::mem::take(payload).to_vec();
    }
    format!("{frame:?} {}", hex(&bytes))
}

fn v4(host: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, host])
}
fn v6(host: u16) -> IpAddr {
    IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, host])
}
fn packet(source: IpAddr, destination: IpAddr, body: Body) -> Frame {
    Frame::Packet(Packet { source, destination, hop_limit: 64, body })
}
fn infiniband() -> LinkAddress {
    LinkAddress::new(&[0, 0, 4, 0x48, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 3, 0, 0, 0x12, 0x34]).expect("20 bytes")
}

#[test]
fn packets_have_the_bytes_of_the_standards() {
    let options = Options {
        mss: Some(1_460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 0x0102_0304, echo: 0 }),
        ..Options::default()
    };
    let syn = Segment {
        source_port: 0xc001,
        destination_port: 80,
        seq: SeqNumber(0x1122_3344),
        flags: Flags { syn: true, ..Flags::default() },
        window: 64_240,
        options,
        ..Segment::default()
    };
    let datagram = Datagram { source_port: 5_000, destination_port: 53, payload: Payload::from(&b"hello"[..]) };
    let refused = Unreachable { reason: UnreachableReason::Port, tcp: false, source_port: 5_000, destination: v4(2), destination_port: 9 };
    let arp = NeighbourMessage {
        is_request: true,
        sender: [10, 1, 0, 1].into(),
        sender_link: infiniband(),
        target: [10, 1, 0, 2].into(),
        target_link: None,
    };
    let ask = NeighbourMessage { is_request: true, sender: v6(1), sender_link: infiniband(), target: v6(2), target_link: None };
    // Python's `struct` and the formulas of the RFCs made these bytes.
    let golden = [
        (
            packet(v4(1), v4(2), Body::Tcp(syn)),
            0x0800,
            "4500003c00004000400626ba0a0000010a000002c00100501122334400000000a002faf0304f0000020405b40402080a01020304\
             0000000001030307",
        ),
        (
            packet(v6(1), v6(2), Body::Udp(datagram)),
            0x86dd,
            "60000000000d1140fd000000000000000000000000000001fd00000000000000000000000000000213880035000dae40\
             68656c6c6f",
        ),
        (
            packet(v4(2), v4(1), Body::Unreachable(refused)),
            0x0800,
            "4500003800004000400126c30a0000020a0000010303e963000000004500001c00004000401126cf0a0000010a000002\
             1388000900080000",
        ),
        (
            Frame::Neighbour(arp),
            0x0806,
            "002008001404000100000448fe800000000000000002c903000012340a0100010000000000000000000000000000000000000000\
             0a010002",
        ),
        (
            Frame::Neighbour(ask),
            0x86dd,
            "6000000000303afffd000000000000000000000000000001ff0200000000000000000001ff0000028700a18300000000\
             fd0000000000000000000000000000020103000000000448fe800000000000000002c90300001234",
        ),
    ];
    for (frame, kind, bytes) in golden {
        assert_eq!((ether_type(&frame), hex(&bytes_of(&frame))), (kind, bytes.to_owned()), "{frame:?}");
    }
    // The example of an IPv4 header that textbooks have: 192.168.0.1 to 192.168.0.199.
    let datagram = Datagram { source_port: 1, destination_port: 2, payload: Payload::counted(0x73 - 28) };
    let frame = packet([192, 168, 0, 1].into(), [192, 168, 0, 199].into(), Body::Udp(datagram));
    assert_eq!(hex(&bytes_of(&frame)[..20]), "45000073000040004011b861c0a80001c0a800c7");
}

#[test]
fn frames_without_bytes_are_refused_and_leave_nothing() {
    let segment = Segment { payload: Payload::counted(3_000), packet_payload_bytes: 1_460, ..Segment::default() };
    let mut sack = Options { timestamps: Some(Timestamps::default()), ..Options::default() };
    (0..4).for_each(|number| sack.sack.push(SeqNumber(number), SeqNumber(number + 1)));
    let datagram = |len| Body::Udp(Datagram { source_port: 1, destination_port: 2, payload: Payload::counted(len) });
    let fragment = |offset| Body::Fragment(Fragment { identification: 1, offset, has_more: true, protocol: 17, payload: Payload::counted(8) });
    let link = LinkAddress::new(&[1; 8]).expect("an address");
    let message = NeighbourMessage { is_request: true, sender: v4(1), sender_link: link, target: v4(2), target_link: None };
    let cases = [
        (packet(v4(1), v4(2), Body::Tcp(segment)), EncodeError::SuperSegment),
        (packet(v4(1), v4(2), Body::Tcp(Segment { options: sack, ..Segment::default() })), EncodeError::TooLong),
        (packet(v4(1), v6(2), datagram(1)), EncodeError::MixedFamilies),
        (packet(v4(1), v4(2), datagram(65_508)), EncodeError::TooLong),
        (packet(v4(1), v4(2), fragment(4)), EncodeError::Misaligned),
        (packet(v6(1), v6(2), fragment(65_536)), EncodeError::Misaligned),
        (Frame::Neighbour(message), EncodeError::LinkAddress),
    ];
    for (frame, error) in cases {
        let mut bytes = vec![1, 2];
        assert_eq!((encode(&frame, &mut bytes), bytes), (Err(error), vec![1, 2]), "{frame:?}");
    }
    assert_eq!(bytes_of(&packet(v4(1), v4(2), datagram(65_507))).len(), 65_535);
}

#[test]
fn each_flipped_bit_of_a_segment_shows() {
    let segment = Segment { seq: SeqNumber(7), window: 3, payload: Payload::from(&b"abc"[..]), ..Segment::default() };
    for (source, destination) in [(v4(1), v4(2)), (v6(1), v6(2))] {
        let bytes = bytes_of(&packet(source, destination, Body::Tcp(segment.clone())));
        // IPv6 protects neither class, flow label nor hop limit.
        let free = if source.is_ipv4() { vec![] } else { vec![0, 1, 2, 3, 7] };
        for bit in (0..bytes.len() * 8).filter(|bit| !free.contains(&(bit / 8))) {
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&wrong).is_err(), "bit {bit} of {source}");
        }
        assert!((0..bytes.len()).all(|len| decode(&bytes[..len]).is_err()));
        assert!(decode(&[bytes, vec![0; 9]].concat()).is_ok(), "links pad short frames");
    }
    assert_eq!(decode(&[]).err(), Some(DecodeError::Truncated));
    assert_eq!(decode(&[0xff; 60]).err(), Some(DecodeError::Version));
}

/// Returns the bytes of a packet of IPv4 with this content, and with right checksums.
fn v4_bytes(protocol: u8, content: &[u8]) -> Vec<u8> {
    let len = (20 + content.len() as u16).to_be_bytes();
    let mut bytes = vec![0x45, 0, len[0], len[1], 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    bytes.extend_from_slice(content);
    sums::mend(&mut bytes);
    bytes
}

/// Returns the bytes of a packet of IPv6 whose content begins with the header `next`.
fn v6_bytes(next: u8, content: &[u8]) -> Vec<u8> {
    let len = (content.len() as u16).to_be_bytes();
    let mut bytes = vec![0x60, 0, 0, 0, len[0], len[1], next, 255];
    for host in [v6(1), v6(2)] {
        let IpAddr::V6(host) = host else { continue };
        bytes.extend_from_slice(&host.octets());
    }
    bytes.extend_from_slice(content);
    sums::mend(&mut bytes);
    bytes
}

/// Returns a TCP header with these options, whose length is a multiple of 4 bytes.
fn tcp_bytes(options: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 5, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, (20 + options.len() as u8) << 2, 2, 1, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(options);
    bytes
}

fn options_of(bytes: &[u8]) -> Options {
    match decode(bytes) {
        Ok(Frame::Packet(Packet { body: Body::Tcp(segment), .. })) => segment.options,
        other => panic!("no segment: {other:?}"),
    }
}

#[test]
fn options_that_fill_the_header_have_no_padding() {
    let timestamps = Some(Timestamps { value: 1, echo: 2 });
    let mut options = Options { mss: Some(1_460), timestamps, ..Options::default() };
    (0..3).for_each(|number| options.sack.push(SeqNumber(number), SeqNumber(number + 9)));
    let frame = packet(v4(1), v4(2), Body::Tcp(Segment { options, ..Segment::default() }));
    let bytes = bytes_of(&frame);
    assert_eq!((bytes.len(), options_of(&bytes)), (80, options));
    // Less of them leaves one byte behind the last.
    let mut options = Options { window_scale: Some(7), timestamps, ..Options::default() };
    (0..3).for_each(|number| options.sack.push(SeqNumber(number), SeqNumber(number + 9)));
    let bytes = bytes_of(&packet(v4(1), v4(2), Body::Tcp(Segment { options, ..Segment::default() })));
    assert_eq!((bytes.len(), options_of(&bytes), bytes.last()), (80, options, Some(&0)));
}

#[test]
fn a_malformed_option_ends_the_options_and_not_the_segment() {
    let mss = Options { mss: Some(1_460), ..Options::default() };
    for rest in [[8, 10, 0, 0], [3, 1, 7, 4], [3, 0, 4, 2], [1, 1, 1, 3]] {
        let options = [&[2, 4, 5, 0xb4], &rest[..]].concat();
        assert_eq!(options_of(&v4_bytes(6, &tcp_bytes(&options))), mss, "{rest:?}");
    }
}

#[test]
fn extension_headers_without_work_for_the_host_are_skipped() {
    let datagram = [0, 5, 0, 7, 0, 10, 1, 1, 0x61, 0x62];
    let padding = |next| [next, 0, 1, 4, 0, 0, 0, 0];
    let routing = |next, left| [next, 0, 4, left, 0, 0, 0, 0];
    let alone = |next| [next, 0, 0, 0, 0, 0, 0, 9];
    let taken = [
        (17, vec![]),
        (0, padding(17).to_vec()),
        (60, padding(17).to_vec()),
        (43, routing(17, 0).to_vec()),
        (0, [padding(60), padding(43), routing(44, 0), alone(60), padding(17)].concat()),
        // An option that a host may skip.
        (60, [17, 0, 0x1e, 4, 1, 2, 3, 4].to_vec()),
    ];
    for (next, headers) in taken {
        let frame = decode(&v6_bytes(next, &[&headers[..], &datagram].concat())).expect("a datagram");
        let Frame::Packet(Packet { body: Body::Udp(datagram), .. }) = frame else { panic!("{frame:?}") };
        assert_eq!((datagram.destination_port, datagram.payload.to_vec()), (7, b"ab".to_vec()));
    }
    let refused = [
        (43, routing(17, 1).to_vec(), DecodeError::Unsupported),
        // An option that a host must know.
        (60, [17, 0, 0xde, 4, 1, 2, 3, 4].to_vec(), DecodeError::Unsupported),
        (0, padding(0).repeat(100), DecodeError::Unsupported),
        (0, [17, 255, 1, 4, 0, 0, 0, 0].to_vec(), DecodeError::Truncated),
    ];
    for (next, headers, error) in refused {
        assert_eq!(decode(&v6_bytes(next, &[&headers[..], &datagram].concat())).err(), Some(error), "{headers:?}");
    }
}

#[test]
fn a_question_to_a_known_neighbour_goes_to_it_alone() {
    let ask = NeighbourMessage { is_request: true, sender: v6(1), sender_link: infiniband(), target: v6(2), target_link: None };
    for (target_link, destination) in [(None, "ff0200000000000000000001ff000002"), (Some(infiniband()), "fd000000000000000000000000000002")] {
        let bytes = bytes_of(&Frame::Neighbour(NeighbourMessage { target_link, ..ask }));
        assert_eq!(hex(&bytes[24..40]), destination);
        assert!(matches!(decode(&bytes), Ok(Frame::Neighbour(message)) if message.target == v6(2)));
    }
}

#[test]
fn an_answer_may_leave_out_the_link_address_and_a_question_may_not() {
    let IpAddr::V6(subject) = v6(1) else { panic!("IPv6") };
    let content = |kind, flags| [&[kind, 0, 0, 0, flags, 0, 0, 0], &subject.octets()[..]].concat();
    let frame = decode(&v6_bytes(58, &content(136, 0x40))).expect("an answer");
    let Frame::Neighbour(message) = &frame else { panic!("{frame:?}") };
    assert!(message.sender == v6(1) && message.sender_link.as_slice().is_empty());
    assert_eq!(bytes_of(&frame).len(), 64);
    assert_eq!(decode(&v6_bytes(58, &content(135, 0))).err(), Some(DecodeError::Unsupported));
}

fn family() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<(Ipv4Addr, Ipv4Addr)>().prop_map(|(a, b)| (IpAddr::V4(a), IpAddr::V4(b))),
        any::<(Ipv6Addr, Ipv6Addr)>().prop_map(|(a, b)| (IpAddr::V6(a), IpAddr::V6(b))),
    ]
}

/// Returns payload in two pieces, so that sums over odd pieces show.
fn payload(most: usize) -> impl Strategy<Value = Payload> {
    (proptest::collection::vec(any::<u8>(), 0..most), any::<prop::sample::Index>()).prop_map(|(bytes, cut)| {
        let cut = if bytes.is_empty() { 0 } else { cut.index(bytes.len()) };
        let mut payload = Payload::from(&bytes[..cut]);
        payload.append(Payload::from(&bytes[cut..]));
        payload
    })
}

fn segment() -> impl Strategy<Value = Body> {
    let blocks = proptest::collection::vec(any::<(u32, u32)>(), 0..5);
    let options = (any::<Option<u16>>(), any::<Option<u8>>(), any::<bool>(), any::<Option<(u32, u32)>>(), blocks);
    let options = options.prop_map(|(mss, window_scale, sack_permitted, timestamps, blocks)| {
        let timestamps = timestamps.map(|(value, echo)| Timestamps { value, echo });
        let mut options = Options { mss, window_scale, sack_permitted, timestamps, ..Options::default() };
        blocks.into_iter().for_each(|(begin, end)| options.sack.push(SeqNumber(begin), SeqNumber(end)));
        options
    });
    let options = options.prop_filter("options of at most 40 bytes", |options| options.wire_bytes() <= 40);
    let numbers = any::<(u16, u16, u32, u32, u16, u16)>();
    (numbers, any::<[bool; 6]>(), options, payload(1_500)).prop_map(|(numbers, bits, options, payload)| {
        let (source_port, destination_port, seq, ack, window, urgent) = numbers;
        let [fin, syn, rst, psh, ack_flag, urg] = bits;
        Body::Tcp(Segment {
            source_port,
            destination_port,
            seq: SeqNumber(seq),
            ack: SeqNumber(ack),
            flags: Flags { fin, syn, rst, psh, ack: ack_flag, urg },
            window,
            urgent,
            options,
            payload,
            packet_payload_bytes: 0,
        })
    })
}

fn body(destination: IpAddr) -> impl Strategy<Value = Body> {
    let datagram = (any::<(u16, u16)>(), payload(3_000))
        .prop_map(|((source_port, destination_port), payload)| Body::Udp(Datagram { source_port, destination_port, payload }));
    let fragment = (any::<(u32, bool, u8)>(), 0..8_000_u32, payload(9)).prop_map(move |((number, has_more, protocol), place, mut payload)| {
        payload.append(Payload::from(&vec![7; 16 - payload.len() as usize][..]));
        // IPv4 has 16 bits. A lone fragment is a whole packet.
        let identification = if destination.is_ipv4() { number & 0xffff } else { number };
        Body::Fragment(Fragment { identification, offset: (place + u32::from(!has_more)) * 8, has_more, protocol, payload })
    });
    let error = any::<(u8, bool, u16, u16)>().prop_map(move |(kind, tcp, source_port, destination_port)| {
        let reason = match kind % 5 {
            0 => UnreachableReason::Port,
            1 => UnreachableReason::Host,
            2 => UnreachableReason::Network,
            3 => UnreachableReason::HopLimit,
            _ => UnreachableReason::TooLong { mtu_bytes: u32::from(source_port) },
        };
        Body::Unreachable(Unreachable { reason, tcp, source_port, destination, destination_port })
    });
    prop_oneof![4 => segment(), 2 => datagram, 1 => fragment, 1 => error]
}

fn frame() -> impl Strategy<Value = Frame> {
    let packet = (family(), any::<u8>()).prop_flat_map(|((source, destination), hop_limit)| {
        body(destination).prop_map(move |body| Frame::Packet(Packet { source, destination, hop_limit, body }))
    });
    let link = prop_oneof![any::<[u8; 6]>().prop_map(|link| link.to_vec()), any::<[u8; 20]>().prop_map(|link| link.to_vec())];
    let message = (family(), any::<bool>(), link).prop_map(|((sender, target), is_request, link)| {
        let link = LinkAddress::new(&link).expect("at most 20 bytes");
        let target_link = Some(link).filter(|_| !is_request && target.is_ipv4() && link.as_slice().iter().any(|byte| *byte != 0));
        Frame::Neighbour(NeighbourMessage { is_request, sender, sender_link: link, target, target_link })
    });
    prop_oneof![4 => packet, 1 => message]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_frame_reads_back(frame in frame()) {
        let read = decode(&bytes_of(&frame)).map_err(|error| TestCaseError::fail(format!("{error}: {frame:?}")))?;
        prop_assert_eq!(text(&read), text(&frame));
    }

    #[test]
    fn any_bytes_are_an_error_or_a_frame_with_bytes(frame in frame(), changes in proptest::collection::vec(any::<(prop::sample::Index, u8)>(), 0..4)) {
        let mut bytes = bytes_of(&frame);
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        sums::mend(&mut bytes);
        if let Ok(frame) = decode(&bytes) {
            prop_assert_eq!(text(&decode(&bytes_of(&frame)).expect("a frame")), text(&frame));
        }
    }
}
