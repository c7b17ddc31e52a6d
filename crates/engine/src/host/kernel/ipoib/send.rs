//! The send ring of an interface.

use super::address::{is_connected, parse};
use super::connected::Connection;
use super::{Common, IpoibLink, Neighbour, frames};
use crate::host::kernel::agenda::Due;
use crate::host::kernel::store::Slot;
use softband_fabric::World;
use softband_model::verbs::api::{AddressVector, DatagramDestination, QpModification, ScatterGatherEntry, SendOperation, SendRequest};
use softband_net::{Frame, LinkAddress, LinkDestination};
use softband_sim::SimTime;
use softband_types::{AhHandle, Gid, QpState, Qpn, WcStatus};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Queue pair of a multicast group (IBTA 9.6.1.2).
const GROUP_QPN: Qpn = Qpn(0xFF_FFFF);

/// Way of a packet to its receiver.
#[derive(Clone, Copy, Debug)]
pub(super) enum Destination {
    Datagram(DatagramDestination),
    Connection(Qpn),
}

/// Answer to the question for a way.
pub(super) enum Way {
    Open(Destination),
    /// The neighbour needs a connection.
    Asked(LinkAddress),
    /// The path to the port is not known.
    Unknown(Gid),
    /// A connection is about to be made, or a path about to be named.
    Soon,
    None,
}

#[derive(Debug)]
pub(super) struct Sender {
    /// Free slots. The last that became free comes first.
    free: Vec<u32>,
    /// Frame of each slot, by its number.
    frame_of: Vec<u64>,
    /// Frames in the ring by number, with the slots of their packets.
    frames: BTreeMap<u64, Vec<u32>>,
    /// Number of the next frame, in the order of the stack.
    next: u64,
    /// Frames that wait for membership, for a connection, or for room.
    waiting: VecDeque<(u64, LinkDestination, Frame)>,
    /// Time of the last post. Threads and cores post in the order of the stack's effects.
    posted_at: SimTime,
    /// Room for the bytes of a packet.
    scratch: Vec<u8>,
}

impl Sender {
    pub(super) fn new(slots: u32) -> Self {
        let (free, frame_of) = ((0..slots).rev().collect(), vec![0; slots as usize]);
        Self { free, frame_of, frames: BTreeMap::new(), next: 0, waiting: VecDeque::new(), posted_at: SimTime::ZERO, scratch: Vec::new() }
    }

    fn number_frame(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Takes slots for the packets of a frame, or `None` if the ring lacks room.
    fn take_slots(&mut self, frame: u64, packets: usize) -> Option<Vec<u32>> {
        let slots = self.free.split_off(self.free.len().checked_sub(packets)?);
        self.frames.insert(frame, slots.clone());
        for slot in &slots {
            self.frame_of[*slot as usize] = frame;
        }
        Some(slots)
    }

    /// Gives slots back: that of a request that failed, or those of a whole frame, whose last request
    /// alone completes. Returns the slots, and the frame that leaves the ring with them, if any. A
    /// connection with a dead neighbour holds its frames for long, and other frames pass them.
    fn give_back(&mut self, slot: u32, is_whole: bool) -> (Vec<u32>, Option<u64>) {
        let frame = self.frame_of.get(slot as usize).copied().unwrap_or(u64::MAX);
        let Some(slots) = self.frames.get_mut(&frame) else { return (Vec::new(), None) };
        let gone: Vec<u32> = slots.extract_if(.., |own| is_whole || *own == slot).collect();
        let is_empty = slots.is_empty();
        if is_empty {
            self.frames.remove(&frame);
        }
        self.free.extend(gone.iter().rev());
        (gone, Some(frame).filter(|_| is_empty))
    }

    /// Returns the packets that the ring holds.
    pub(super) fn slots(&self) -> u32 {
        self.frame_of.len() as u32
    }

    /// Returns the number that all later frames reach or exceed.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns whether the ring has no frame with a lower number.
    pub(super) fn has_sent_before(&self, frame: u64) -> bool {
        self.frames.first_key_value().is_none_or(|(first, _)| *first >= frame)
    }
}

impl IpoibLink {
    /// Sends a frame at `at`, or later.
    pub(in crate::host::kernel) fn transmit(&mut self, world: &mut World, common: &mut Common, at: SimTime, (to, frame): (LinkDestination, Frame)) {
        let number = self.sender.number_frame();
        if !self.is_active(world) || self.has_given_up {
            // Without carrier, Linux drops packets (`noop_qdisc`).
            return self.note_sent(common, at, number);
        }
        self.sender.waiting.push_back((number, to, frame));
        self.send_waiting(world, common, at);
    }

    /// Sends the frames that wait, as far as the ring has room. Those that wait for a connection let
    /// others pass.
    pub(super) fn send_waiting(&mut self, world: &mut World, common: &mut Common, at: SimTime) {
        let mut index = 0;
        while self.group.is_some() {
            let Some((_, to, frame)) = self.sender.waiting.get(index) else { return };
            let packets = frame.packets() as usize;
            if packets > self.sender.free.len() && packets <= self.sender.frame_of.len() {
                return;
            }
            let way = match self.way(world, *to) {
                Way::Open(way) => Some(way),
                Way::None => None,
                asked => {
                    match asked {
                        Way::Asked(address) => self.request_connection(common, at, address),
                        Way::Unknown(gid) => self.ask_path(world, common, at, gid),
                        _ => {}
                    }
                    index += 1;
                    continue;
                }
            };
            let Some((number, _, frame)) = self.sender.waiting.remove(index) else { return };
            match way {
                Some(way) => self.send_by(world, common, at, way, (number, frame)),
                None => self.note_sent(common, at, number),
            }
        }
    }

    /// Sends a frame whose way is known. Datagrams beyond the MTU of the port are lost.
    fn send_by(&mut self, world: &mut World, common: &mut Common, at: SimTime, way: Destination, (number, frame): (u64, Frame)) {
        let destination = if let Frame::Packet(packet) = &frame { Some(packet.destination) } else { None };
        let packets = frames::encode(frame, &mut self.sender.scratch);
        let most = if let Destination::Connection(_) = way { usize::MAX } else { self.datagram_bytes(world) as usize };
        if packets.iter().any(|packet| packet.len() > most) {
            if let Some(destination) = destination {
                let super::Place { host, interface, .. } = self.place;
                let mtu_bytes = most.saturating_sub(frames::HEADER_BYTES) as u32;
                common.agenda.push(at, Due::TooLong { host, interface, destination, mtu_bytes });
            }
            self.note_sent(common, at, number);
        } else if packets.is_empty() {
            self.note_sent(common, at, number);
        } else {
            self.post(world, common, at, way, (number, packets));
        }
    }

    /// Drops the frames that wait for a connection to this neighbour.
    pub(super) fn drop_to(&mut self, common: &mut Common, now: SimTime, to: LinkAddress) {
        self.drop_waiting_if(common, now, |other| other == LinkDestination::Link(to));
    }

    /// Drops the frames that wait: the link went down.
    pub(super) fn drop_waiting(&mut self, common: &mut Common, now: SimTime) {
        self.drop_waiting_if(common, now, |_| true);
    }

    pub(super) fn drop_waiting_if(&mut self, common: &mut Common, now: SimTime, is_lost: impl Fn(LinkDestination) -> bool) {
        let (lost, kept): (VecDeque<_>, _) = std::mem::take(&mut self.sender.waiting).into_iter().partition(|(_, to, _)| is_lost(*to));
        self.sender.waiting = kept;
        for (number, ..) in lost {
            self.note_sent(common, now, number);
        }
    }

    fn note_sent(&self, common: &mut Common, at: SimTime, frame: u64) {
        common.agenda.push(at, Due::FrameSent { host: self.place.host, interface: self.place.interface, frame });
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
        if let (LinkDestination::Link(address), Some(paths)) = (&to, &self.paths) {
            return self.way_by_path(paths, address);
        }
        let found = match to {
            LinkDestination::Link(address) => self.handle_of(world, address),
            // Receivers filter by the IP address.
            LinkDestination::Broadcast | LinkDestination::Group(_) => self.group.map(|group| (group, GROUP_QPN)),
            LinkDestination::Host(_) => None,
        };
        let remote_qkey = self.qkey;
        let datagram = |(ah, remote_qpn)| Destination::Datagram(DatagramDestination { ah, remote_qpn, remote_qkey });
        found.map_or(Way::None, |found| Way::Open(datagram(found)))
    }

    /// Returns the address handle of a neighbour by its path; `None` without a path.
    fn handle_of(&mut self, world: &mut World, address: LinkAddress) -> Option<(AhHandle, Qpn)> {
        let super::Place { owner, hca, port, .. } = self.place;
        let known = self.handles.get(&address).copied();
        let (qpn, gid) = parse(&address)?;
        let peer = known.map(|known| known.peer).or_else(|| world.port_with_gid(gid))?;
        let dlid = world.port(peer.0, peer.1)?.lid;
        if let Some(Neighbour { handle, .. }) = known {
            if known.is_some_and(|known| known.lid == dlid) {
                return Some((handle, qpn));
            }
            // A subnet manager has given the neighbour another LID.
            self.handles.remove(&address);
            self.retire(handle);
        }
        let vector = world.resolve(hca, &AddressVector { dlid, port, ..AddressVector::default() }).ok()?;
        let handle = world.create_ah(owner, self.pd, vector).ok()?;
        self.handles.insert(address, Neighbour { handle, peer, lid: dlid });
        Some((handle, qpn))
    }

    fn post(&mut self, world: &mut World, common: &mut Common, at: SimTime, to: Destination, (frame, packets): (u64, Vec<Arc<[u8]>>)) {
        let super::Place { owner, hca, .. } = self.place;
        self.sender.posted_at = self.sender.posted_at.max(at);
        // The stack makes no super-segment of more packets than the ring has.
        let Some(slots) = self.sender.take_slots(frame, packets.len()) else { return self.note_sent(common, at, frame) };
        let last = slots.last().copied();
        for (number, packet) in slots.into_iter().zip(packets) {
            let slot = Slot::to_send(self.area, number);
            let entry = ScatterGatherEntry { address: slot.address(), len_bytes: packet.len() as u32, lkey: self.lkey };
            common.store.put(slot, packet);
            let send = SendOperation::Send { immediate: None };
            let (qpn, datagram) = match to {
                Destination::Datagram(to) => (self.qpn, Some(to)),
                Destination::Connection(qpn) => (qpn, None),
            };
            let signaled = Some(number) == last;
            let request = SendRequest { datagram, signaled, ..SendRequest::new(u64::from(number), send, vec![entry]) };
            world.post_send(self.sender.posted_at, owner, hca, qpn, request);
        }
    }

    /// Notes the completion of a packet.
    pub(super) fn sent(&mut self, world: &mut World, common: &mut Common, now: SimTime, (number, qpn): (u32, Qpn), status: WcStatus) {
        let (slots, frame) = self.sender.give_back(number, status == WcStatus::Success);
        for slot in slots {
            common.store.take(Slot::to_send(self.area, slot));
        }
        if let Some(frame) = frame {
            self.note_sent(common, now, frame);
            self.destroy_retired(world);
        }
        if status != WcStatus::Success && qpn != self.qpn {
            self.connection_failed(common, now, qpn);
        } else if ![WcStatus::Success, WcStatus::FlushError].contains(&status) {
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
    fn frames_pass_those_whose_packets_are_still_under_way() {
        let mut sender = Sender::new(3);
        let (first, second) = (sender.number_frame(), sender.number_frame());
        let (a, b) = (sender.take_slots(first, 2).expect("room"), sender.take_slots(second, 1).expect("room"));
        assert_eq!(sender.take_slots(sender.next(), 1), None);
        assert_eq!(sender.give_back(b[0], true), (b, Some(second)));
        assert!(!sender.has_sent_before(second));
        assert_eq!(sender.give_back(a[1], false), (vec![a[1]], None));
        assert_eq!(sender.give_back(a[0], true), (vec![a[0]], Some(first)));
        assert!(sender.has_sent_before(sender.next()));
        assert_eq!(sender.take_slots(sender.next(), 4), None);
        assert_eq!(sender.take_slots(sender.next(), 3).map(|slots| slots.len()), Some(3));
    }
}
