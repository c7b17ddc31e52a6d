//! The send ring of an interface. The kernel fills it with packets and super-segments, which the card
//! cuts into frames. Each frame needs a place in the card's ring.

use super::address::{Mac, of_destination};
use super::{EthernetLink, frames};
use crate::host::kernel::Common;
use crate::host::kernel::agenda::Due;
use softband_fabric::World;
use softband_net::{Frame, LinkDestination};
use softband_sim::SimTime;
use std::collections::VecDeque;
use std::sync::Arc;

/// Frames of a packet or a super-segment that have no place in the card's ring yet.
struct Pieces {
    to: Mac,
    packets: Box<dyn Iterator<Item = Frame>>,
}

#[derive(Default)]
pub(super) struct Sender {
    /// Packets and super-segments whose frames wait for a place.
    waiting: VecDeque<Pieces>,
    /// Frame that the card has refused.
    refused: Option<Arc<[u8]>>,
    /// Frames of each packet or super-segment that have not left yet. The oldest comes first.
    leaving: VecDeque<u32>,
    /// Time of the last post. Threads and cores post in the order of the stack's effects.
    posted_at: SimTime,
}

impl Sender {
    /// Takes packets and super-segments without frames off the front. Returns their number.
    fn take_gone(&mut self) -> u32 {
        let mut gone = 0;
        while self.leaving.front() == Some(&0) {
            self.leaving.pop_front();
            gone += 1;
        }
        gone
    }

    fn frame_gone(&mut self) {
        if let Some(left) = self.leaving.front_mut() {
            *left = left.saturating_sub(1);
        }
    }
}

impl EthernetLink {
    /// Sends a packet or a super-segment at `at`, or later.
    pub(in crate::host::kernel) fn transmit(&mut self, world: &mut World, common: &mut Common, at: SimTime, (to, frame): (LinkDestination, Frame)) {
        let count = frame.packets();
        match of_destination(to) {
            Some(to) => {
                self.sender.leaving.push_back(count);
                self.sender.waiting.push_back(Pieces { to, packets: pieces(frame) });
            }
            None => self.sender.leaving.push_back(0),
        }
        self.fill_ring(world, at);
        self.report_gone(common, at);
    }

    /// Notes that the oldest frame has left the ring.
    pub(in crate::host::kernel) fn frame_sent(&mut self, world: &mut World, common: &mut Common, now: SimTime) {
        self.sender.frame_gone();
        self.fill_ring(world, now);
        self.report_gone(common, now);
    }

    /// Hands frames to the card, as far as its ring has room.
    fn fill_ring(&mut self, world: &mut World, at: SimTime) {
        self.sender.posted_at = self.sender.posted_at.max(at);
        while let Some(bytes) = self.next_frame() {
            match world.send_frame(self.place.hca, self.place.port, bytes.clone(), self.sender.posted_at) {
                Ok(()) => {}
                Err(softband_fabric::FrameError::RingFull) => {
                    self.sender.refused = Some(bytes);
                    return;
                }
                // Interfaces have the MTU of their link at most, so this is not reached.
                Err(_) => self.lose_newest(),
            }
        }
    }

    /// Takes the next frame. Frames without bytes are lost.
    fn next_frame(&mut self) -> Option<Arc<[u8]>> {
        if let Some(bytes) = self.sender.refused.take() {
            return Some(bytes);
        }
        loop {
            let pieces = self.sender.waiting.front_mut()?;
            let Some(frame) = pieces.packets.next() else {
                self.sender.waiting.pop_front();
                continue;
            };
            if let Some(bytes) = frames::encode(pieces.to, self.mac, &frame) {
                return Some(bytes);
            }
            self.lose_newest();
        }
    }

    /// Counts a frame of the first that waits as gone.
    fn lose_newest(&mut self) {
        let index = self.sender.leaving.len().checked_sub(self.sender.waiting.len());
        if let Some(left) = index.and_then(|index| self.sender.leaving.get_mut(index)) {
            *left = left.saturating_sub(1);
        }
    }

    fn report_gone(&mut self, common: &mut Common, at: SimTime) {
        for _ in 0..self.sender.take_gone() {
            common.agenda.push(at, Due::Sent { host: self.place.host, interface: self.place.interface });
        }
    }
}

/// Returns the packets of a frame. A super-segment becomes many.
fn pieces(frame: Frame) -> Box<dyn Iterator<Item = Frame>> {
    match frame {
        Frame::Packet(packet) if packet.packets() > 1 => Box::new(packet.cut().map(Frame::Packet)),
        single => Box::new(std::iter::once(single)),
    }
}
