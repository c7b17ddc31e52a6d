use super::*;
use proptest::prelude::*;
use softband_types::{Lid, PKey, QKey, Qpn, ServiceLevel};

const NOW: SimTime = SimTime::from_picos(1);
const HEADER_BYTES: usize = 56;

/// A message of `len` bytes with an SA header.
fn message(len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|index| index as u8).collect();
    bytes[..4].copy_from_slice(&[1, 3, 2, 0x92]);
    bytes
}

fn packet(mad: &[u8; MAD_BYTES]) -> ManagementPacket {
    ManagementPacket {
        slid: Lid(1),
        dlid: Lid(2),
        service_level: ServiceLevel(0),
        source: Qpn(1),
        destination: Qpn(1),
        qkey: QKey(0x8001_0000),
        pkey: PKey::DEFAULT_FULL,
        mad: Box::new(*mad),
    }
}

fn header(mad: &[u8; MAD_BYTES]) -> Segment {
    Segment::of(mad).expect("an active segment")
}

/// Carries a message from a sender to a receiver. Loses each MAD for which `loses` says so. Returns
/// the message at the receiver.
fn carry(bytes: &[u8], mut loses: impl FnMut() -> bool) -> Option<Vec<u8>> {
    let mut sender = Message::new(bytes.to_vec(), HEADER_BYTES);
    let mut receiver: Option<Reception> = None;
    let mut joined = None;
    let mut leaving = sender.next();
    for _ in 0..10_000 {
        let mut answers = Vec::new();
        for mad in leaving.drain(..).filter(|_| !loses()) {
            let segment = header(&mad);
            assert_eq!(check_data(segment), Ok(()));
            if receiver.is_none() && segment.number == 1 {
                receiver = Some(Reception::new(packet(&mad), HEADER_BYTES, NOW));
            }
            let Some(receiver) = &mut receiver else { continue };
            let arrived = receiver.take(&mad, segment, NOW);
            assert!(joined.is_none() || arrived.message.is_none(), "a message comes once");
            joined = joined.or(arrived.message);
            answers.extend(arrived.acknowledgement);
        }
        for answer in answers.into_iter().filter(|_| !loses()) {
            assert_eq!(answer[3], 0x12, "it goes the other way");
            match sender.acknowledge(header(&answer)) {
                Acknowledged::GoesOn(more) => leaving.extend(more),
                Acknowledged::Complete => return joined,
                Acknowledged::Broken(status) => panic!("status {status}"),
            }
        }
        if leaving.is_empty() {
            leaving = sender.again();
        }
    }
    None
}

#[test]
fn lengths_of_first_and_last_segments_count_the_class_header() {
    // 500 bytes of data: two segments of 200 and one of 100.
    let mut sender = Message::new(message(HEADER_BYTES + 500), HEADER_BYTES);
    assert_eq!(sender.segments(), 3);
    let first = sender.next();
    assert_eq!(first.len(), 1, "the receiver has not opened its window yet");
    assert_eq!((header(&first[0]).flags, header(&first[0]).length_or_window), (ACTIVE | FIRST, 560));
    let answer = Segment { version: 1, kind: Some(Kind::Acknowledgement), flags: ACTIVE, status: 0, number: 1, length_or_window: 65 };
    let Acknowledged::GoesOn(rest) = sender.acknowledge(answer) else { panic!("the message goes on") };
    assert_eq!(rest.iter().map(|mad| (header(mad).flags, header(mad).length_or_window)).collect::<Vec<_>>(), [(ACTIVE, 0), (ACTIVE | LAST, 120)]);
    assert_eq!(Message::new(message(HEADER_BYTES), HEADER_BYTES).segments(), 1);
}

#[test]
fn wrong_acknowledgements_break_the_transfer() {
    let mut sender = Message::new(message(HEADER_BYTES + 500), HEADER_BYTES);
    sender.next();
    let answer =
        |status, number, window| Segment { version: 1, kind: Some(Kind::Acknowledgement), flags: ACTIVE, status, number, length_or_window: window };
    assert_eq!(sender.clone().acknowledge(answer(1, 1, 1)), Acknowledged::Broken(BAD_STATUS));
    assert_eq!(sender.clone().acknowledge(answer(0, 1, 0)), Acknowledged::Broken(WINDOW_TOO_SMALL));
    assert_eq!(sender.clone().acknowledge(answer(0, 2, 9)), Acknowledged::Broken(NUMBER_TOO_BIG));
    assert_eq!(sender.clone().acknowledge(answer(0, 0, 0)), Acknowledged::GoesOn(Vec::new()), "an old one");
}

#[test]
fn a_segment_with_a_false_number_ends_the_transfer() {
    let segment = |flags, status, number| Segment { version: 1, kind: Some(Kind::Data), flags, status, number, length_or_window: 0 };
    assert_eq!(check_data(segment(ACTIVE | FIRST, 0, 1)), Ok(()));
    assert_eq!(check_data(segment(ACTIVE, 0, 2)), Ok(()));
    assert_eq!(check_data(segment(ACTIVE, 0, 1)), Err(BAD_SEGMENT));
    assert_eq!(check_data(segment(ACTIVE | FIRST, 0, 2)), Err(BAD_SEGMENT));
    assert_eq!(check_data(segment(ACTIVE, 0, 0)), Err(BAD_SEGMENT));
    assert_eq!(check_data(segment(ACTIVE | FIRST, 7, 1)), Err(BAD_STATUS));
}

#[test]
fn long_messages_arrive_whole() {
    for len in [0, 1, 199, 200, 201, 400, 64 * 200, 64 * 200 + 1, 65 * 200, 129 * 200 + 7, 1_000_000] {
        let sent = message(HEADER_BYTES + len);
        let received = carry(&sent, || false).expect("it ends");
        assert_eq!(received.len(), sent.len(), "{len}");
        assert!(received[RMPP_HEADER_BYTES..] == sent[RMPP_HEADER_BYTES..] && received[..24] == sent[..24]);
    }
}

proptest! {
    #[test]
    fn losses_change_nothing(len in 0usize..30_000, losses in proptest::collection::vec(any::<bool>(), 0..200)) {
        let sent = message(HEADER_BYTES + len);
        let mut losses = losses.into_iter();
        let received = carry(&sent, || losses.next().unwrap_or(false)).expect("it ends");
        prop_assert!(received[RMPP_HEADER_BYTES..] == sent[RMPP_HEADER_BYTES..]);
    }

    #[test]
    fn any_bytes_are_taken_without_harm(mads in proptest::collection::vec(proptest::collection::vec(0u8..8, 40), 1..60)) {
        let mut reception: Option<Reception> = None;
        let mut sender = Message::new(message(3_000), HEADER_BYTES);
        sender.next();
        for bytes in mads {
            let mut mad = [0; MAD_BYTES];
            mad[..40].copy_from_slice(&bytes);
            let Some(segment) = Segment::of(&mad) else { continue };
            sender.acknowledge(segment);
            sender.next();
            reception.get_or_insert_with(|| Reception::new(packet(&mad), HEADER_BYTES, NOW)).take(&mad, segment, NOW);
        }
    }
}
