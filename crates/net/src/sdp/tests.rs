//! Two connections over a lossless wire.

mod limits;

use super::connection::{Connection, Context};
use super::headers::hello_of;
use super::user::{Got, Part, Taken};
use super::{Message, Order, RECEIVE_BUFFERS};
use crate::error::NetError;
use crate::events::Events;
use crate::interface::InterfaceId;
use crate::payload::Payload;
use crate::tcp::{SocketOptions, State};
use proptest::prelude::*;
use softband_model::parts::KernelPart;
use softband_sim::SimTime;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;

const BUFFER: u32 = 100_000;

/// A connection with its queue pair.
struct End {
    connection: Connection,
    options: SocketOptions,
    /// Messages of the peer that are under way.
    inbox: VecDeque<Vec<u8>>,
    sources: BTreeMap<u64, Payload>,
    /// Reads that the wire has not carried out: address and bytes.
    reads: VecDeque<(u64, u32)>,
    /// Messages that the HCA has not reported as sent.
    unreported: u32,
    free_buffers: u32,
    messages: Vec<Message>,
    events: Events,
    is_closed: bool,
}

struct Wire {
    ends: [End; 2],
    now: SimTime,
    kernel: KernelPart,
}

fn end(connection: Connection, options: SocketOptions) -> End {
    End {
        connection,
        options,
        inbox: VecDeque::new(),
        sources: BTreeMap::new(),
        reads: VecDeque::new(),
        unreported: 0,
        free_buffers: RECEIVE_BUFFERS,
        messages: Vec::new(),
        events: Events::NONE,
        is_closed: false,
    }
}

fn options() -> SocketOptions {
    SocketOptions::new(&KernelPart::linux_6_1())
}

impl Wire {
    /// Connects two ends.
    fn new() -> Self {
        let (a, b): (SocketAddrV4, SocketAddrV4) = ("10.0.0.1:4000".parse().unwrap(), "10.0.0.2:5000".parse().unwrap());
        let kernel = KernelPart::linux_6_1();
        let own = options();
        let mut cx = Context::new(SimTime::ZERO, &own, &kernel, 7);
        let client = Connection::connect((a, b), InterfaceId(1), (BUFFER, 1), &mut cx);
        let Some(Order::Send { header, .. }) = cx.orders.get(1) else { panic!("no Hello") };
        let request = hello_of(header).expect("a Hello");
        let mut accepting = Context::new(SimTime::ZERO, &own, &kernel, 7);
        let server = Connection::accept(&request, InterfaceId(1), (BUFFER, 2), &mut accepting);
        let orders = [cx.orders.split_off(2), accepting.orders];
        let mut wire = Self { ends: [end(client, options()), end(server, options())], now: SimTime::ZERO, kernel };
        wire.ends[0].unreported = 1;
        wire.ends[1].free_buffers -= 1;
        for (side, orders) in orders.into_iter().enumerate() {
            wire.carry_out(side, orders);
        }
        wire
    }

    fn step<R>(&mut self, side: usize, step: impl FnOnce(&mut Connection, &mut Context<'_>) -> R) -> R {
        let End { connection, options, events, .. } = &mut self.ends[side];
        let mut cx = Context::new(self.now, options, &self.kernel, 7);
        let result = step(connection, &mut cx);
        *events |= cx.events;
        let orders = cx.orders;
        self.carry_out(side, orders);
        result
    }

    fn carry_out(&mut self, side: usize, orders: Vec<Order>) {
        for order in orders {
            let own = &mut self.ends[side];
            match order {
                Order::Connect { .. } => panic!("connected already"),
                Order::Send { mut header, payload } => {
                    header.extend(payload.to_vec());
                    own.messages.push(Message::decode(&header).expect("a message").0);
                    own.unreported += 1;
                    let peer = &mut self.ends[1 - side];
                    peer.inbox.push_back(header);
                    assert!(peer.free_buffers > 0 || peer.is_closed, "a message without a buffer");
                    peer.free_buffers = peer.free_buffers.saturating_sub(1);
                }
                Order::Read { address, bytes, rkey } => {
                    assert_eq!(rkey, 7);
                    own.reads.push_back((address, bytes));
                }
                Order::Expose { source, payload } => drop(own.sources.insert(super::source_address(source), payload)),
                Order::Conceal { source } => drop(own.sources.remove(&super::source_address(source))),
                Order::Repost { buffers } => own.free_buffers += buffers,
                Order::Close => own.is_closed = true,
            }
        }
    }

    /// Carries out one thing that is under way for a side, by choice. Returns whether there was one.
    fn advance(&mut self, side: usize, choice: u8) -> bool {
        let own = &mut self.ends[side];
        match choice % 3 {
            0 if own.unreported > 0 => {
                own.unreported -= 1;
                self.step(side, Connection::sent);
            }
            1 if !own.reads.is_empty() => {
                let Some((address, bytes)) = own.reads.pop_front() else { return false };
                let peer = &self.ends[1 - side];
                let (start, whole) = peer.sources.range(..=address).next_back().expect("an exposed source");
                let data = whole.part((address - start) as u32, bytes);
                assert_eq!(data.len(), bytes);
                self.step(side, |connection, cx| connection.read_done(&data, cx));
            }
            2 if !own.inbox.is_empty() => {
                let Some(message) = own.inbox.pop_front() else { return false };
                self.step(side, |connection, cx| connection.arrived(&message, cx));
            }
            _ => return false,
        }
        true
    }

    fn run(&mut self) {
        while (0..2).any(|side| (0..3).any(|choice| self.advance(side, choice))) {}
    }

    fn send(&mut self, side: usize, bytes: &[u8], part: Part) -> Result<Taken, NetError> {
        let payload = Payload::from(bytes);
        self.step(side, |connection, cx| connection.send(&payload, part, cx))
    }

    fn copy(&mut self, side: usize, bytes: &[u8]) -> Result<Taken, NetError> {
        self.send(side, bytes, Part { urgent: false, more: false, rest: None })
    }

    /// Reads up to `most` bytes, once.
    fn read(&mut self, side: usize, most: u32) -> Result<Vec<u8>, NetError> {
        match self.step(side, |connection, cx| connection.receive((most, most), false, cx))? {
            Got::Data(payload, _) => Ok(payload.to_vec()),
            Got::Reading(_) => Err(NetError::WouldBlock),
        }
    }

    fn count(&self, side: usize, wanted: impl Fn(&Message) -> bool) -> usize {
        self.ends[side].messages.iter().filter(|message| wanted(message)).count()
    }
}

fn bytes(count: usize, from: usize) -> Vec<u8> {
    (from..from + count).map(|index| (index * 7 + index / 251) as u8).collect()
}

#[test]
fn both_sides_hear_of_the_connection_and_small_data_crosses_it() {
    let mut wire = Wire::new();
    assert_eq!(wire.ends[0].connection.state(), State::SynSent);
    wire.run();
    assert!(wire.ends[0].events.intersects(Events::CONNECTED));
    assert_eq!(wire.copy(0, b"hello"), Ok(Taken::Copied(5)));
    wire.run();
    assert_eq!(wire.read(1, 3), Ok(b"hel".to_vec()));
    assert_eq!(wire.read(1, 9), Ok(b"lo".to_vec()));
    assert_eq!(wire.read(1, 9), Err(NetError::WouldBlock));
}

#[test]
fn a_large_blocking_call_is_read_from_its_place() {
    let mut wire = Wire::new();
    wire.run();
    let data = bytes(200_000, 0);
    for (start, rest) in [(0, 150_000), (50_000, 100_000), (100_000, 50_000), (150_000, 0)] {
        let part = Part { urgent: false, more: rest > 0, rest: Some(rest) };
        assert_eq!(wire.send(0, &data[start..start + 50_000], part), Ok(Taken::Pinned(50_000)));
    }
    assert!(wire.ends[0].connection.awaits_peer());
    assert_eq!(wire.copy(0, b"x"), Err(NetError::WouldBlock));
    wire.run();
    let mut received = Vec::new();
    while received.len() < data.len() {
        match wire.read(1, 120_000) {
            Ok(part) => received.extend(part),
            Err(error) => assert_eq!(error, NetError::WouldBlock),
        }
        wire.run();
    }
    assert_eq!(received, data);
    assert!(!wire.ends[0].connection.awaits_peer() && wire.ends[0].sources.is_empty());
    assert!(wire.ends[0].events.intersects(Events::WRITABLE));
    assert_eq!(wire.count(0, |message| matches!(message, Message::Source { .. })), 1);
    assert_eq!(wire.count(1, |message| matches!(message, Message::ReadComplete { bytes: 200_000 })), 1);
    assert_eq!(wire.count(0, |message| matches!(message, Message::Data { bytes: 1.. })), 0);
}

#[test]
fn a_reader_of_little_gets_a_source_by_copy() {
    let mut wire = Wire::new();
    wire.run();
    let data = bytes(65_536, 3);
    wire.send(0, &data, Part { urgent: false, more: false, rest: Some(0) }).expect("room");
    wire.run();
    let mut received = Vec::new();
    while received.len() < data.len() {
        match wire.read(1, 1_000) {
            Ok(part) => received.extend(part),
            Err(error) => assert_eq!(error, NetError::WouldBlock),
        }
        wire.run();
    }
    assert_eq!(received, data);
    assert_eq!(wire.count(1, |message| *message == Message::SendSmall), 1);
    assert!(!wire.ends[0].connection.awaits_peer());
}

/// Offers bytes of a blocking call in one part.
const IN_PLACE: Part = Part { urgent: false, more: false, rest: Some(0) };

/// Reads all bytes that arrive.
fn drain(wire: &mut Wire, side: usize, most: u32) -> Vec<u8> {
    let mut received = Vec::new();
    loop {
        let part = wire.read(side, most);
        wire.run();
        match part {
            Ok(part) if !part.is_empty() => received.extend(part),
            Err(NetError::WouldBlock) if wire.ends[side].connection.rx.is_readable(false) => {}
            _ => return received,
        }
    }
}

#[test]
fn programs_that_send_before_they_read_do_not_wait_for_each_other() {
    let mut wire = Wire::new();
    wire.run();
    let data = [bytes(200_000, 1), bytes(200_000, 5)];
    for (side, data) in data.iter().enumerate() {
        assert_eq!(wire.send(side, data, IN_PLACE), Ok(Taken::Pinned(200_000)));
    }
    wire.run();
    assert!((0..2).all(|side| !wire.ends[side].connection.awaits_peer()), "both calls are over");
    assert!(drain(&mut wire, 1, 400_000) == data[0] && drain(&mut wire, 0, 400_000) == data[1]);
}

#[test]
fn a_call_beside_a_source_of_the_peer_goes_by_copy() {
    let mut wire = Wire::new();
    wire.run();
    let data = bytes(90_000, 2);
    wire.send(0, &data, IN_PLACE).expect("room");
    wire.run();
    assert_eq!(wire.send(1, &data, IN_PLACE), Ok(Taken::Copied(90_000)));
    wire.run();
    assert!(drain(&mut wire, 0, 90_000) == data && drain(&mut wire, 1, 90_000) == data);
}

#[test]
fn a_source_without_a_reader_goes_by_copy_after_a_second() {
    let mut wire = Wire::new();
    wire.run();
    let data = bytes(200_000, 3);
    // In the second case, the reader has begun when the sender gives up.
    for begins in [false, true] {
        wire.send(0, &data, IN_PLACE).expect("room");
        wire.run();
        let reading = if begins { wire.read(1, 120_000) } else { Err(NetError::WouldBlock) };
        assert_eq!(reading, Err(NetError::WouldBlock));
        let begin = wire.now;
        wire.now = wire.ends[0].connection.deadline().expect("a limit of the wait");
        assert_eq!(wire.now, begin + super::SOURCE_TIMEOUT);
        wire.step(0, Connection::timer);
        wire.run();
        assert!(!wire.ends[0].connection.awaits_peer() && wire.ends[0].sources.is_empty());
        assert_eq!(wire.ends[0].connection.deadline(), None);
        assert!(drain(&mut wire, 1, 200_000) == data);
    }
    assert_eq!(wire.count(0, |message| *message == Message::CancelSource), 2);
    assert_eq!(wire.count(1, |message| matches!(message, Message::ReadComplete { bytes: 120_000 })), 1);
}

#[test]
fn an_urgent_byte_comes_beside_the_stream() {
    let mut wire = Wire::new();
    wire.run();
    wire.copy(0, b"abc").expect("room");
    wire.send(0, b"defU", Part { urgent: true, more: false, rest: None }).expect("room");
    wire.copy(0, b"xyz").expect("room");
    wire.run();
    assert!(wire.ends[1].events.intersects(Events::URGENT));
    assert_eq!(wire.ends[1].connection.receive_urgent(false, false), Ok(b'U'));
    assert_eq!(wire.ends[1].connection.receive_urgent(false, false), Err(NetError::Invalid));
    assert_eq!(wire.read(1, 99), Ok(b"abcdef".to_vec()));
    assert!(wire.ends[1].connection.is_at_mark());
    assert_eq!(wire.read(1, 99), Ok(b"xyz".to_vec()));
}

#[test]
fn each_direction_ends_by_itself_and_then_the_connection() {
    let mut wire = Wire::new();
    wire.run();
    wire.copy(0, b"last").expect("room");
    wire.step(0, Connection::shut_send);
    wire.run();
    assert_eq!(wire.read(1, 9), Ok(b"last".to_vec()));
    assert_eq!(wire.read(1, 9), Ok(Vec::new()));
    assert_eq!((wire.ends[0].connection.state(), wire.ends[1].connection.state()), (State::FinWait2, State::CloseWait));
    wire.copy(1, b"answer").expect("room");
    wire.step(1, Connection::close);
    wire.run();
    assert_eq!(wire.read(0, 9), Ok(b"answer".to_vec()));
    assert_eq!(wire.read(0, 9), Ok(Vec::new()));
    assert!(wire.ends[0].is_closed && wire.ends[1].is_closed);
    assert_eq!(wire.copy(0, b"more"), Err(NetError::Broken));
}

#[test]
fn a_close_with_unread_data_aborts() {
    let mut wire = Wire::new();
    wire.run();
    wire.copy(0, b"lost").expect("room");
    wire.run();
    wire.step(1, Connection::close);
    wire.run();
    assert!(wire.ends[0].is_closed && wire.ends[1].is_closed);
    assert_eq!(wire.read(0, 9), Err(NetError::Reset));
    assert_eq!(wire.copy(0, b"more"), Err(NetError::Broken));
}

#[test]
fn a_peer_that_never_ends_is_aborted_in_time() {
    let mut wire = Wire::new();
    wire.run();
    wire.step(0, Connection::close);
    wire.run();
    let deadline = wire.ends[0].connection.deadline().expect("a wait for the peer");
    wire.now = deadline;
    wire.step(0, Connection::timer);
    wire.run();
    assert!(wire.ends[0].is_closed);
    assert_eq!(wire.read(1, 1), Err(NetError::Reset));
}

#[derive(Clone, Debug)]
enum Action {
    Send(usize, usize),
    SendInPlace(usize, usize),
    Read(usize, u32),
    Advance(usize, u8),
}

fn action() -> impl Strategy<Value = Action> {
    let side = 0..2_usize;
    prop_oneof![
        2 => (side.clone(), prop_oneof![1..40_usize, 1..90_000_usize]).prop_map(|(side, len)| Action::Send(side, len)),
        1 => (side.clone(), 65_536..300_000_usize).prop_map(|(side, len)| Action::SendInPlace(side, len)),
        3 => (side.clone(), prop_oneof![1..5_000_u32, 1..400_000_u32]).prop_map(|(side, most)| Action::Read(side, most)),
        8 => (side, any::<u8>()).prop_map(|(side, choice)| Action::Advance(side, choice)),
    ]
}

/// Carries out actions, then reads the rest. Returns the messages of both sides.
fn exchange(actions: &[Action]) -> [Vec<Message>; 2] {
    let mut wire = Wire::new();
    let (mut sent, mut received) = ([0_usize; 2], [0_usize; 2]);
    let mut read = |wire: &mut Wire, side: usize, most: u32| {
        let Ok(part) = wire.read(side, most) else { return 0 };
        assert_eq!(part, bytes(part.len(), received[side]), "the stream is in order");
        received[side] += part.len();
        part.len()
    };
    for action in actions {
        match *action {
            Action::Send(side, len) => {
                if let Ok(Taken::Copied(taken)) = wire.copy(side, &bytes(len, sent[side])) {
                    sent[side] += taken as usize;
                }
            }
            Action::SendInPlace(side, len) => {
                // Beside a source of the peer, the bytes go by copy.
                if let Ok(Taken::Pinned(taken) | Taken::Copied(taken)) = wire.send(side, &bytes(len, sent[side]), IN_PLACE) {
                    sent[side] += taken as usize;
                }
            }
            Action::Read(side, most) => drop(read(&mut wire, side, most)),
            Action::Advance(side, choice) => drop(wire.advance(side, choice)),
        }
    }
    loop {
        wire.run();
        let progress = read(&mut wire, 0, 100_000) + read(&mut wire, 1, 100_000);
        let is_idle = wire.ends.iter().all(|end| end.inbox.is_empty() && end.reads.is_empty() && end.unreported == 0);
        if progress == 0 && is_idle {
            break;
        }
    }
    assert_eq!([received[1], received[0]], sent, "nothing is lost and nothing waits for ever");
    wire.ends.map(|end| end.messages)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn streams_arrive_whole_whatever_the_order_of_events(actions in prop::collection::vec(action(), 0..300)) {
        let first = exchange(&actions);
        prop_assert_eq!(first, exchange(&actions));
    }

    #[test]
    fn no_bytes_upset_a_connection(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut wire = Wire::new();
        wire.run();
        wire.ends[0].inbox.push_back(bytes);
        wire.ends[0].free_buffers -= 1;
        wire.run();
    }
}
