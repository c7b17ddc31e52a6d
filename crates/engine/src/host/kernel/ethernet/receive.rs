//! The receive ring of an interface: the card's filter of addresses, and the frames that a core takes.

use super::address::{BROADCAST, Mac, of_group};
use super::{EthernetLink, frames};
use crate::host::kernel::Common;
use crate::host::kernel::agenda::Due;
use crate::host::kernel::core::{JOINED_BYTES_MAX, Joined};
use crate::host::kernel::interrupts::{Interrupts, Moderation, Signal};
use softband_fabric::World;
use softband_net::{Frame, Packet, PayloadSlice};
use softband_sim::{SimDuration, SimTime};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

pub(super) struct Receiver {
    interrupts: Interrupts,
    /// Groups whose frames the card takes, with the groups of IP that need them.
    groups: BTreeMap<Mac, u32>,
    /// Frames that no core has taken yet.
    arrived: VecDeque<Arc<[u8]>>,
}

impl Receiver {
    pub(super) fn new(moderation: Moderation, interval: SimDuration) -> Self {
        Self { interrupts: Interrupts::new(moderation).with_interval(interval), groups: BTreeMap::new(), arrived: VecDeque::new() }
    }

    fn takes(&self, own: Mac, to: Mac) -> bool {
        to == own || to == BROADCAST || self.groups.contains_key(&to)
    }
}

impl EthernetLink {
    /// Lets the card take the frames of a group of IP.
    pub(in crate::host::kernel) fn join_group(&mut self, group: IpAddr) {
        *self.receiver.groups.entry(of_group(group)).or_default() += 1;
    }

    /// Ends [`Self::join_group`]. Several groups share an address.
    pub(in crate::host::kernel) fn leave_group(&mut self, group: IpAddr) {
        let address = of_group(group);
        if let Some(members) = self.receiver.groups.get_mut(&address) {
            *members = members.saturating_sub(1);
            if *members == 0 {
                self.receiver.groups.remove(&address);
            }
        }
    }

    /// Notes a frame that has arrived. Returns whether the card interrupts now.
    pub(in crate::host::kernel) fn frame_arrived(&mut self, world: &mut World, common: &mut Common, now: SimTime, frame: Arc<[u8]>) -> bool {
        if !frames::destination(&frame).is_some_and(|to| self.receiver.takes(self.mac, to)) {
            world.return_frames(self.place.hca, self.place.port, 1);
            return false;
        }
        self.receiver.arrived.push_back(frame);
        match self.receiver.interrupts.arrived(self.receiver.arrived.len(), now) {
            Signal::Now => true,
            Signal::At(at) => {
                common.agenda.push(at, Due::Interrupt { host: self.place.host, interface: self.place.interface });
                false
            }
            Signal::None => false,
        }
    }

    pub(in crate::host::kernel) fn awaits_interrupt(&self, now: SimTime) -> bool {
        self.receiver.interrupts.is_due(now)
    }

    /// Notes that a core begins to take frames.
    pub(in crate::host::kernel) fn begin_polling(&mut self) {
        self.receiver.interrupts.begin_polling();
    }

    /// Takes the oldest frame, and gives its buffer back to the ring. With aggregation, the following
    /// segments of its connection come with it. A frame that holds no packet is `None`.
    pub(in crate::host::kernel) fn take_frame(&mut self, world: &mut World) -> Option<(Frame, Joined)> {
        let mut frame = self.take_one(world)?;
        let bytes = match &mut frame {
            Frame::Packet(packet) if self.offloads.aggregation => self.aggregate(world, packet),
            _ => 0,
        };
        // The card has joined them.
        Some((frame, Joined { packets: 0, bytes }))
    }

    fn take_one(&mut self, world: &mut World) -> Option<Frame> {
        let bytes = self.receiver.arrived.pop_front()?;
        world.return_frames(self.place.hca, self.place.port, 1);
        frames::decode(&bytes)
    }

    /// Joins the following segments to a packet. Returns the bytes of their frames.
    fn aggregate(&mut self, world: &mut World, packet: &mut Packet) -> u64 {
        let mut bytes = 0;
        while let Some(Frame::Packet(next)) = self.receiver.arrived.front().and_then(frames::decode) {
            if packet.join(next, JOINED_BYTES_MAX).is_some() {
                break;
            }
            bytes += self.next_bytes();
            self.receiver.arrived.pop_front();
            world.return_frames(self.place.hca, self.place.port, 1);
        }
        bytes
    }

    /// Returns the packet of the oldest frame.
    pub(in crate::host::kernel) fn next_packet(&self) -> Option<PayloadSlice> {
        frames::content(self.receiver.arrived.front()?)
    }

    /// Returns the bytes of the oldest frame, which the core takes next.
    pub(in crate::host::kernel) fn next_bytes(&self) -> u64 {
        self.receiver.arrived.front().map_or(0, |bytes| bytes.len() as u64)
    }

    /// Returns whether frames are left. Without them, the core ends its work.
    pub(in crate::host::kernel) fn go_on_polling(&mut self) -> bool {
        let has_more = !self.receiver.arrived.is_empty();
        if !has_more {
            self.receiver.interrupts.end_polling();
        }
        has_more
    }
}
