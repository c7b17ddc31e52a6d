//! The receive ring of an interface.

use super::connected::SHARED;
use super::{Common, GRH_BYTES, IpoibLink, RECEIVE, frames};
use crate::host::kernel::agenda::Due;
use crate::host::kernel::core::{JOINED_BYTES_MAX, Joined};
use crate::host::kernel::interrupts::{Interrupts, Moderation, Signal};
use crate::host::kernel::store::Slot;
use softband_fabric::World;
use softband_model::verbs::api::{Completion, ReceiveRequest, ScatterGatherEntry};
use softband_net::{Frame, PayloadSlice};
use softband_sim::SimTime;
use softband_types::WcStatus;
use std::collections::VecDeque;

/// Packet that waits for a core.
#[derive(Debug)]
enum Arrived {
    /// The packet lies in the ring: its receive request, and its bytes.
    InRing(u64, u32),
    /// The interrupt has moved the packet to the kernel's backlog.
    InBacklog(PayloadSlice),
}

#[derive(Debug)]
pub(super) struct Receiver {
    buffer_bytes: u32,
    interrupts: Interrupts,
    /// Packets that no core has taken yet.
    arrived: VecDeque<Arrived>,
    /// Frame of the oldest of them, if the core has looked at it already.
    decoded: Option<Frame>,
}

impl Receiver {
    pub(super) fn new(buffer_bytes: u32, moderation: Moderation) -> Self {
        Self { buffer_bytes, interrupts: Interrupts::new(moderation), arrived: VecDeque::new(), decoded: None }
    }
}

impl IpoibLink {
    pub(super) fn post_receive(&mut self, world: &mut World, now: SimTime, number: u32) {
        let slot = Slot::to_receive(self.area, number);
        let entry = ScatterGatherEntry { address: slot.address(), len_bytes: self.receiver.buffer_bytes, lkey: self.lkey };
        let request = ReceiveRequest::new(RECEIVE | u64::from(number), vec![entry]);
        world.post_receive(now, self.place.owner, self.place.hca, self.qpn, request);
    }

    /// Notes a completion of the queue pair. Returns whether the card interrupts now.
    pub(in crate::host::kernel) fn completed(&mut self, world: &mut World, common: &mut Common, now: SimTime, completion: &Completion) -> bool {
        let (number, is_success) = (completion.wr_id as u32, completion.status == WcStatus::Success);
        if completion.wr_id & RECEIVE == 0 {
            self.sent(world, common, now, (number, completion.qpn), completion.status);
            return false;
        }
        if !is_success {
            self.post_again(world, common, now, completion);
            return false;
        }
        let len = completion.byte_len;
        match self.offloads.backlog {
            None => self.receiver.arrived.push_back(Arrived::InRing(completion.wr_id, len)),
            // `netif_rx` loses what the backlog does not take.
            Some(most) => {
                let bytes = self.unload(world, common, now, (completion.wr_id, len));
                let has_room = self.receiver.arrived.len() < most as usize;
                self.receiver.arrived.extend(bytes.filter(|_| has_room).map(Arrived::InBacklog));
            }
        }
        match self.receiver.interrupts.arrived(self.receiver.arrived.len(), now) {
            Signal::Now => true,
            Signal::At(at) => {
                common.agenda.push(at, Due::Interrupt { host: self.place.host, interface: self.place.interface });
                false
            }
            Signal::None => false,
        }
    }

    /// Posts the buffer of a receive request that failed, unless its whole queue did. The shared queue
    /// outlives the failure of a connection.
    fn post_again(&mut self, world: &mut World, common: &mut Common, now: SimTime, completion: &Completion) {
        let number = completion.wr_id as u32;
        if completion.wr_id & SHARED != 0 {
            self.take_shared(world, common, now, number);
        } else if completion.status != WcStatus::FlushError {
            common.store.take(Slot::to_receive(self.area, number));
            self.post_receive(world, now, number);
        }
    }

    /// Returns whether an interrupt that was due at `now` still is.
    pub(in crate::host::kernel) fn awaits_interrupt(&self, now: SimTime) -> bool {
        self.receiver.interrupts.is_due(now)
    }

    /// Notes that a core begins to take packets.
    pub(in crate::host::kernel) fn begin_polling(&mut self) {
        self.receiver.interrupts.begin_polling();
    }

    /// Returns the bytes of the oldest packet, which the core takes next.
    pub(in crate::host::kernel) fn next_bytes(&self) -> u64 {
        match self.receiver.arrived.front() {
            Some(Arrived::InRing(_, len)) => u64::from(*len),
            Some(Arrived::InBacklog(bytes)) => u64::from(bytes.len),
            None => 0,
        }
    }

    /// Takes the oldest packet, and gives its buffer back to the ring. With aggregation, the following
    /// segments of its connection come with it. A packet that is no frame is `None`.
    pub(in crate::host::kernel) fn take_frame(&mut self, world: &mut World, common: &mut Common, now: SimTime) -> Option<(Frame, Joined)> {
        let (mut frame, mut joined) = (self.take_one(world, common, now)?, Joined::default());
        while self.offloads.aggregation
            && let Frame::Packet(packet) = &mut frame
            && let Some(next) = self.decode_next(common)
        {
            let refused = match next {
                Frame::Packet(next) => packet.join(next, JOINED_BYTES_MAX).map(Frame::Packet),
                other => Some(other),
            };
            if refused.is_some() {
                self.receiver.decoded = refused;
                break;
            }
            joined.packets += 1;
            joined.bytes += self.next_bytes();
            self.release_oldest(world, common, now);
        }
        Some((frame, joined))
    }

    /// Returns the frame of the oldest packet, if it is a datagram in the ring.
    fn decode_next(&self, common: &Common) -> Option<Frame> {
        let Some(Arrived::InRing(request, len)) = self.receiver.arrived.front() else { return None };
        let packet = common.store.get(Slot::to_receive(self.area, *request as u32)).filter(|_| request & SHARED == 0)?;
        frames::decode(&packet.part(GRH_BYTES, *len)?)
    }

    /// Returns the oldest packet.
    pub(in crate::host::kernel) fn next_packet(&self, common: &Common) -> Option<PayloadSlice> {
        let bytes = match self.receiver.arrived.front()? {
            Arrived::InRing(request, len) if request & SHARED != 0 => self.shared(common, *request as u32)?.part(0, *len)?,
            Arrived::InRing(request, len) => common.store.get(Slot::to_receive(self.area, *request as u32))?.part(GRH_BYTES, *len)?,
            Arrived::InBacklog(bytes) => bytes.clone(),
        };
        frames::content(&bytes)
    }

    fn take_one(&mut self, world: &mut World, common: &mut Common, now: SimTime) -> Option<Frame> {
        let decoded = self.receiver.decoded.take();
        let bytes = self.release_oldest(world, common, now);
        decoded.or_else(|| frames::decode(&bytes?))
    }

    /// Takes the oldest packet. Returns its bytes.
    fn release_oldest(&mut self, world: &mut World, common: &mut Common, now: SimTime) -> Option<PayloadSlice> {
        match self.receiver.arrived.pop_front()? {
            Arrived::InRing(request, len) => self.unload(world, common, now, (request, len)),
            Arrived::InBacklog(bytes) => Some(bytes),
        }
    }

    /// Takes the packet of a receive request, and posts its buffer again.
    fn unload(&mut self, world: &mut World, common: &mut Common, now: SimTime, (request, len): (u64, u32)) -> Option<PayloadSlice> {
        let number = request as u32;
        if request & SHARED != 0 {
            return self.take_shared(world, common, now, number).part(0, len);
        }
        let packet = common.store.take(Slot::to_receive(self.area, number));
        self.post_receive(world, now, number);
        packet.part(GRH_BYTES, len)
    }

    /// Returns whether packets are left. Without them, the core ends its work.
    pub(in crate::host::kernel) fn go_on_polling(&mut self) -> bool {
        let has_more = !self.receiver.arrived.is_empty();
        if !has_more {
            self.receiver.interrupts.end_polling();
        }
        has_more
    }
}
