//! An end of a connection: its queue pair, and the buffers of its messages.

use super::NUMBERS;
use super::objects::{OF_SDP, Objects, Pair};
use crate::host::kernel::ipoib::Place;
use crate::host::kernel::store::PacketStore;
use softband_fabric::World;
use softband_model::verbs::api::{ReceiveRequest, ScatterGatherEntry, SendOperation, SendRequest};
use softband_net::sdp::{BUFFER_BYTES, Order, RECEIVE_BUFFERS, REGION_BITS, source_address};
use softband_net::{InterfaceId, Payload, SocketId};
use softband_sim::SimTime;
use std::collections::VecDeque;
use std::net::IpAddr;

/// Mark of receive requests among the numbers of work requests.
pub(super) const RECEIVE: u64 = 1 << 32;
/// Mark of reads.
pub(super) const READ: u64 = 1 << 33;
/// Slots of an end: buffers of receive requests, of messages, and of a read.
const SLOTS: u32 = 256;
const FIRST_SEND: u32 = RECEIVE_BUFFERS;
const SENDS: u32 = SLOTS - 1 - FIRST_SEND;
const READ_SLOT: u32 = SLOTS - 1;

#[derive(Debug)]
pub(super) struct End {
    pub(super) interface: InterfaceId,
    /// `None` until a socket accepts the connection.
    pub(super) socket: Option<SocketId>,
    /// Address of the other host.
    pub(super) to: IpAddr,
    pub(super) pair: Option<Pair>,
    /// Orders that wait for the queue pair, with their times.
    pub(super) waiting: VecDeque<(SimTime, Order)>,
    /// Host and number of the other end.
    pub(super) peer: Option<(usize, u32)>,
    /// Time of the last post. Threads and cores post in the order of the stack's effects.
    posted_at: SimTime,
    next_send: u32,
    /// Receive buffers that hold messages, the oldest first.
    pub(super) occupied: VecDeque<u32>,
    /// Bytes of the read under way.
    reading: u32,
    pub(super) is_closed: bool,
}

const _: () = assert!(OF_SDP + (((NUMBERS as u64) * (SLOTS as u64)) << REGION_BITS) <= source_address(0), "buffers lie below sources");

/// Returns the address of a slot.
fn address(end: u32, slot: u32) -> u64 {
    OF_SDP | u64::from(end * SLOTS + slot) << REGION_BITS
}

/// The memory and the queue pair that an end's posts use.
pub(super) struct Ground<'a> {
    pub(super) place: Place,
    pub(super) objects: Objects,
    pub(super) store: &'a mut PacketStore,
    pub(super) world: &'a mut World,
}

impl End {
    pub(super) fn new(interface: InterfaceId, socket: Option<SocketId>, to: IpAddr) -> Self {
        Self {
            interface,
            socket,
            to,
            pair: None,
            waiting: VecDeque::new(),
            peer: None,
            posted_at: SimTime::ZERO,
            next_send: 0,
            occupied: VecDeque::new(),
            reading: 0,
            is_closed: false,
        }
    }

    fn at(&mut self, now: SimTime) -> SimTime {
        self.posted_at = self.posted_at.max(now);
        self.posted_at
    }

    /// Posts all receive buffers of a new queue pair.
    pub(super) fn post_receives(&mut self, number: u32, now: SimTime, ground: &mut Ground<'_>) {
        for slot in 0..RECEIVE_BUFFERS {
            self.post_receive((number, slot), now, ground);
        }
    }

    fn post_receive(&mut self, (number, slot): (u32, u32), now: SimTime, ground: &mut Ground<'_>) {
        let (Some(pair), address) = (self.pair, address(number, slot)) else { return };
        let Place { owner, hca, .. } = ground.place;
        ground.store.put_region(owner, address, Vec::new());
        let entry = ScatterGatherEntry { address, len_bytes: BUFFER_BYTES, lkey: ground.objects.lkey };
        let request = ReceiveRequest::new(RECEIVE | u64::from(slot), vec![entry]);
        ground.world.post_receive(now, owner, hca, pair.qpn, request);
    }

    /// Gives the oldest occupied buffers back to the receive queue.
    pub(super) fn repost(&mut self, number: u32, buffers: u32, now: SimTime, ground: &mut Ground<'_>) {
        for _ in 0..buffers {
            let Some(slot) = self.occupied.pop_front() else { return };
            self.post_receive((number, slot), now, ground);
        }
    }

    /// Posts a message: its header, then its data.
    pub(super) fn send(&mut self, number: u32, (mut message, payload): (Vec<u8>, Payload), now: SimTime, ground: &mut Ground<'_>) {
        let Some(pair) = self.pair else { return };
        let slot = FIRST_SEND + self.next_send;
        self.next_send = (self.next_send + 1) % SENDS;
        message.extend(payload.to_vec());
        let entry = ScatterGatherEntry { address: address(number, slot), len_bytes: message.len() as u32, lkey: ground.objects.lkey };
        let Place { owner, hca, .. } = ground.place;
        ground.store.put_region(owner, entry.address, message);
        let request = SendRequest::new(u64::from(slot), SendOperation::Send { immediate: None }, vec![entry]);
        ground.world.post_send(self.at(now), owner, hca, pair.qpn, request);
    }

    /// Posts a read of the peer's memory.
    pub(super) fn read(&mut self, number: u32, (remote_address, rkey, bytes): (u64, u32, u32), now: SimTime, ground: &mut Ground<'_>) {
        let (Some(pair), address) = (self.pair, address(number, READ_SLOT)) else { return };
        let Place { owner, hca, .. } = ground.place;
        ground.store.put_region(owner, address, Vec::with_capacity(bytes as usize));
        let entry = ScatterGatherEntry { address, len_bytes: bytes, lkey: ground.objects.lkey };
        let operation = SendOperation::RdmaRead { remote_address, rkey: softband_types::RKey(rkey) };
        self.reading = bytes;
        let request = SendRequest::new(READ, operation, vec![entry]);
        ground.world.post_send(self.at(now), owner, hca, pair.qpn, request);
    }

    /// Takes the bytes of the read that is complete.
    pub(super) fn take_read(&mut self, number: u32, place: &Place, store: &mut PacketStore) -> Payload {
        let mut bytes = store.take_region(place.owner, address(number, READ_SLOT));
        bytes.resize(self.reading as usize, 0);
        Payload::from(std::sync::Arc::<[u8]>::from(bytes))
    }

    /// Takes the bytes of a message out of its receive buffer.
    pub(super) fn take_message(&mut self, (number, slot): (u32, u32), len: u32, place: &Place, store: &mut PacketStore) -> Vec<u8> {
        let mut bytes = store.take_region(place.owner, address(number, slot));
        bytes.truncate(len as usize);
        self.occupied.push_back(slot);
        bytes
    }

    /// Forgets all buffers of the end.
    pub(super) fn release(number: u32, place: &Place, store: &mut PacketStore) {
        for slot in 0..SLOTS {
            store.take_region(place.owner, address(number, slot));
        }
    }

    /// Forgets the bytes of a message that the HCA has sent.
    pub(super) fn release_sent(number: u32, slot: u32, place: &Place, store: &mut PacketStore) {
        store.take_region(place.owner, address(number, slot));
    }
}
