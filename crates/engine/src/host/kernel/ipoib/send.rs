//! The send ring of an interface.

use super::address::{BROADCAST_QKEY, parse};
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

#[derive(Debug)]
pub(super) struct Sender {
    slots: u32,
    next: u32,
    /// Packets in the ring, and for each frame in it the packets that are not sent yet.
    outstanding: u32,
    frames: VecDeque<u32>,
    /// Frames that wait for membership, or for room.
    waiting: VecDeque<(LinkDestination, Frame)>,
    /// Time of the last post. Threads and cores post in the order of the stack's effects.
    posted_at: SimTime,
}

impl Sender {
    pub(super) fn new(slots: u32) -> Self {
        Self { slots, next: 0, outstanding: 0, frames: VecDeque::new(), waiting: VecDeque::new(), posted_at: SimTime::ZERO }
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
            if frame.packets() > self.sender.slots.saturating_sub(self.sender.outstanding) {
                return;
            }
            let (to, packets) = (*to, frames::encode(frame.clone()));
            self.sender.waiting.pop_front();
            match self.destination(world, to).filter(|_| !packets.is_empty()) {
                Some(destination) => self.post(world, common, at, destination, packets),
                None => self.note_sent(common, at),
            }
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

    fn destination(&mut self, world: &mut World, to: LinkDestination) -> Option<DatagramDestination> {
        let (ah, remote_qpn) = match to {
            LinkDestination::Link(address) => self.handle_of(world, address)?,
            // Receivers filter by the IP address.
            LinkDestination::Broadcast | LinkDestination::Group(_) => (self.group?, GROUP_QPN),
            LinkDestination::Host(_) => return None,
        };
        Some(DatagramDestination { ah, remote_qpn, remote_qkey: BROADCAST_QKEY })
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

    fn post(&mut self, world: &mut World, common: &mut Common, at: SimTime, to: DatagramDestination, packets: Vec<Vec<u8>>) {
        let super::Place { owner, hca, .. } = self.place;
        self.sender.posted_at = self.sender.posted_at.max(at);
        self.sender.outstanding += packets.len() as u32;
        self.sender.frames.push_back(packets.len() as u32);
        for packet in packets {
            let number = self.sender.next;
            self.sender.next = (number + 1) % self.sender.slots;
            let slot = Slot::to_send(self.area, number);
            let entry = ScatterGatherEntry { address: slot.address(), len_bytes: packet.len() as u32, lkey: self.lkey };
            common.store.put(slot, packet);
            let send = SendOperation::Send { immediate: None };
            let request = SendRequest { datagram: Some(to), ..SendRequest::new(u64::from(number), send, vec![entry]) };
            world.post_send(self.sender.posted_at, owner, hca, self.qpn, request);
        }
    }

    /// Notes the completion of a packet. They come in the order of their posts.
    pub(super) fn sent(&mut self, world: &mut World, common: &mut Common, now: SimTime, number: u32, is_success: bool) {
        common.store.take(Slot::to_send(self.area, number));
        self.sender.outstanding = self.sender.outstanding.saturating_sub(1);
        if let Some(left) = self.sender.frames.front_mut() {
            *left -= 1;
            if *left == 0 {
                self.sender.frames.pop_front();
                self.note_sent(common, now);
            }
        }
        if !is_success && self.sender.outstanding == 0 {
            // A failed send stops the queue until the kernel starts it again (`ipoib_qp_state_validate`).
            let restart = QpModification { state: Some(QpState::Rts), current_state: Some(QpState::Sqe), ..QpModification::default() };
            let _ = world.modify_qp(now, self.place.owner, self.place.hca, self.qpn, &restart);
        }
        self.send_waiting(world, common, now);
    }
}
