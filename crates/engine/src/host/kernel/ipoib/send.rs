//! The send ring of an interface.

use super::address::{BROADCAST_QKEY, is_connected, parse};
use super::connected::Connection;
use super::{Common, IpoibLink, frames};
use crate::host::kernel::agenda::Due;
use crate::host::kernel::store::Slot;
use softband_fabric::World;
use softband_model::verbs::api::{AddressVector, DatagramDestination, QpModification, ScatterGatherEntry, SendOperation, SendRequest};
use softband_net::{Frame, LinkAddress, LinkDestination};
use softband_sim::SimTime;
use softband_types::{AhHandle, QpState, Qpn};
use std::collections::VecDeque;

/// Queue pair of a multicast group (IBTA 9.6.1.2).
const GROUP_QPN: Qpn = Qpn(0xFF_FFFF);

/// Way of a packet to its receiver.
#[derive(Clone, Copy, Debug)]
enum Destination {
    Datagram(DatagramDestination),
    Connection(Qpn),
}

/// Answer to the question for a way.
enum Way {
    Open(Destination),
    /// The neighbour needs a connection.
    Asked(LinkAddress),
    /// A connection is about to be made.
    Soon,
    None,
}

#[derive(Debug)]
pub(super) struct Sender {
    /// Free slots. The last that became free comes first.
    free: Vec<u32>,
    /// Frame of each slot, by its number.
    frame_of: Vec<u64>,
    /// Packets of the frames in the ring that are not sent yet. The oldest frame has number `first`.
    frames: VecDeque<u32>,
    first: u64,
    /// Frames that wait for membership, or for room.
    waiting: VecDeque<(LinkDestination, Frame)>,
    /// Time of the last post. Threads and cores post in the order of the stack's effects.
    posted_at: SimTime,
}

impl Sender {
    pub(super) fn new(slots: u32) -> Self {
        let (free, frame_of) = ((0..slots).rev().collect(), vec![0; slots as usize]);
        Self { free, frame_of, frames: VecDeque::new(), first: 0, waiting: VecDeque::new(), posted_at: SimTime::ZERO }
    }

    /// Takes slots for the packets of a new frame, or `None` if the ring lacks room.
    fn take_slots(&mut self, packets: usize) -> Option<Vec<u32>> {
        let slots = self.free.split_off(self.free.len().checked_sub(packets)?);
        let frame = self.first + self.frames.len() as u64;
        self.frames.push_back(packets as u32);
        for slot in &slots {
            self.frame_of[*slot as usize] = frame;
        }
        Some(slots)
    }

    /// Gives a slot back. Returns the number of frames that leave the ring: they leave in order.
    fn give_back(&mut self, slot: u32) -> u32 {
        let Some(frame) = self.frame_of.get(slot as usize) else { return 0 };
        let index = frame.wrapping_sub(self.first) as usize;
        if let Some(left) = self.frames.get_mut(index) {
            *left = left.saturating_sub(1);
            self.free.push(slot);
        }
        let mut done = 0;
        while self.frames.front() == Some(&0) {
            self.frames.pop_front();
            self.first += 1;
            done += 1;
        }
        done
    }

    fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

impl IpoibLink {
    /// Sends a frame at `at`, or later.
    pub(in crate::host::kernel) fn transmit(&mut self, world: &mut World, common: &mut Common, at: SimTime, (to, frame): (LinkDestination, Frame)) {
        if !self.is_active(world) {
            // Without carrier, Linux drops packets (`noop_qdisc`).
            return self.note_sent(common, at);
        }
        self.sender.waiting.push_back((to, frame));
        self.send_waiting(world, common, at);
    }

    /// Sends the frames that wait, as far as the ring has room.
    pub(super) fn send_waiting(&mut self, world: &mut World, common: &mut Common, at: SimTime) {
        while self.group.is_some() {
            let Some((to, frame)) = self.sender.waiting.front() else { return };
            if frame.packets() as usize > self.sender.free.len() {
                return;
            }
            let way = match self.way(world, *to) {
                Way::Asked(address) => return self.request_connection(common, at, address),
                Way::Soon => return,
                Way::Open(way) => Some(way),
                Way::None => None,
            };
            let Some((_, frame)) = self.sender.waiting.pop_front() else { return };
            let packets = frames::encode(frame);
            let most = if matches!(way, Some(Destination::Connection(_))) { usize::MAX } else { self.datagram_bytes(world) as usize };
            match way.filter(|_| !packets.is_empty() && packets.iter().all(|packet| packet.len() <= most)) {
                Some(way) => self.post(world, common, at, way, packets),
                None => self.note_sent(common, at),
            }
        }
    }

    /// Drops the oldest frame that waits, if it waits for a connection to this neighbour.
    pub(super) fn drop_first(&mut self, common: &mut Common, now: SimTime, to: LinkAddress) {
        if self.sender.waiting.front().is_some_and(|(other, _)| *other == LinkDestination::Link(to)) {
            self.sender.waiting.pop_front();
            self.note_sent(common, now);
        }
    }

    /// Drops the frames that wait: the link went down.
    pub(super) fn drop_waiting(&mut self, common: &mut Common, now: SimTime) {
        for _ in std::mem::take(&mut self.sender.waiting) {
            self.note_sent(common, now);
        }
    }

    fn note_sent(&self, common: &mut Common, at: SimTime) {
        common.agenda.push(at, Due::Sent { host: self.place.host, interface: self.place.interface });
    }

    fn way(&mut self, world: &mut World, to: LinkDestination) -> Way {
        if let LinkDestination::Link(address) = to
            && let Some(connections) = self.connections.as_ref().filter(|_| is_connected(&address))
        {
            return match connections.to(&address) {
                None => Way::Asked(address),
                Some(Connection::Requested) => Way::Soon,
                Some(Connection::Ready(qpn)) => Way::Open(Destination::Connection(qpn)),
            };
        }
        let found = match to {
            LinkDestination::Link(address) => self.handle_of(world, address),
            // Receivers filter by the IP address.
            LinkDestination::Broadcast | LinkDestination::Group(_) => self.group.map(|group| (group, GROUP_QPN)),
            LinkDestination::Host(_) => None,
        };
        let datagram = |(ah, remote_qpn)| Destination::Datagram(DatagramDestination { ah, remote_qpn, remote_qkey: BROADCAST_QKEY });
        found.map_or(Way::None, |found| Way::Open(datagram(found)))
    }

    /// Returns the address handle of a neighbour by its path; `None` without a path.
    fn handle_of(&mut self, world: &mut World, address: LinkAddress) -> Option<(AhHandle, Qpn)> {
        if let Some(known) = self.handles.get(&address) {
            return Some(*known);
        }
        let (qpn, gid) = parse(&address)?;
        let super::Place { owner, hca, port, .. } = self.place;
        let (peer, peer_port) = world.port_with_gid(gid)?;
        let dlid = world.port(peer, peer_port)?.lid;
        let vector = world.resolve(hca, &AddressVector { dlid, port, ..AddressVector::default() }).ok()?;
        let handle = world.create_ah(owner, self.pd, vector).ok()?;
        self.handles.insert(address, (handle, qpn));
        Some((handle, qpn))
    }

    fn post(&mut self, world: &mut World, common: &mut Common, at: SimTime, to: Destination, packets: Vec<Vec<u8>>) {
        let super::Place { owner, hca, .. } = self.place;
        self.sender.posted_at = self.sender.posted_at.max(at);
        let Some(slots) = self.sender.take_slots(packets.len()) else { return self.note_sent(common, at) };
        for (number, packet) in slots.into_iter().zip(packets) {
            let slot = Slot::to_send(self.area, number);
            let entry = ScatterGatherEntry { address: slot.address(), len_bytes: packet.len() as u32, lkey: self.lkey };
            common.store.put(slot, packet);
            let send = SendOperation::Send { immediate: None };
            let (qpn, datagram) = match to {
                Destination::Datagram(to) => (self.qpn, Some(to)),
                Destination::Connection(qpn) => (qpn, None),
            };
            let request = SendRequest { datagram, ..SendRequest::new(u64::from(number), send, vec![entry]) };
            world.post_send(self.sender.posted_at, owner, hca, qpn, request);
        }
    }

    /// Notes the completion of a packet.
    pub(super) fn sent(&mut self, world: &mut World, common: &mut Common, now: SimTime, (number, qpn): (u32, Qpn), is_success: bool) {
        common.store.take(Slot::to_send(self.area, number));
        for _ in 0..self.sender.give_back(number) {
            self.note_sent(common, now);
        }
        if !is_success && qpn != self.qpn {
            self.connection_failed(common, now, qpn);
        } else if !is_success && self.sender.is_empty() {
            // A failed send stops the queue until the kernel starts it again (`ipoib_qp_state_validate`).
            let restart = QpModification { state: Some(QpState::Rts), current_state: Some(QpState::Sqe), ..QpModification::default() };
            let _ = world.modify_qp(now, self.place.owner, self.place.hca, self.qpn, &restart);
        }
        self.send_waiting(world, common, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_the_ring_in_order() {
        let mut sender = Sender::new(3);
        let (a, b) = (sender.take_slots(2).expect("room"), sender.take_slots(1).expect("room"));
        assert_eq!(sender.take_slots(1), None);
        assert_eq!(sender.give_back(b[0]), 0, "the older frame is still there");
        assert_eq!((sender.give_back(a[1]), sender.give_back(a[0])), (0, 2));
        assert!(sender.is_empty());
        assert_eq!(sender.take_slots(4), None);
        assert_eq!(sender.take_slots(3).map(|slots| slots.len()), Some(3));
    }
}
