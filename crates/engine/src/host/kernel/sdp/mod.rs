//! SDP (IBTA annex A4): a reliable connection of the kernel for each stream, on the ports of IPoIB
//! interfaces.
//!
//! The stack of the host has the protocol. This module has the queue pairs, their buffers, and the
//! core that takes messages. It makes objects of an HCA with the first connection, so a fabric whose
//! programs use no SDP has none of them.

mod completions;
mod end;
mod host;
mod objects;
mod orders;
mod pairs;

use super::interrupts::{Interrupts, Moderation};
use super::ipoib::Place;
use end::End;
use objects::Objects;
use softband_model::verbs::api::VerbsError;
use softband_net::{InterfaceId, SocketId};
use softband_sim::SimDuration;
use std::collections::{BTreeMap, VecDeque};

/// Time for which a queue pair outlives its connection, so that its last messages arrive.
const DRAIN: SimDuration = SimDuration::from_micros(100_000);
/// Most connections of a host.
const ENDS_MAX: usize = 1 << 16;

/// Work of a connection that a core takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// A message in a receive buffer, with its length.
    Message { slot: u32, len: u32 },
    /// A read of the peer's memory is complete.
    Read,
}

/// Port of an interface that offers SDP.
#[derive(Debug)]
struct Device {
    place: Place,
    objects: Option<Objects>,
    interrupts: Interrupts,
    /// Work that no core has taken, with its connection.
    arrived: VecDeque<(u32, Work)>,
}

/// Connections of a host.
#[derive(Debug, Default)]
pub(super) struct Sdp {
    devices: BTreeMap<InterfaceId, Device>,
    ends: BTreeMap<u32, End>,
    by_socket: BTreeMap<SocketId, u32>,
    #[cfg(test)]
    reads: u32,
}

impl Sdp {
    /// Adds the port of an interface.
    pub(super) fn add(&mut self, place: Place, moderation: Moderation) {
        let interrupts = Interrupts::new(moderation);
        self.devices.insert(place.interface, Device { place, objects: None, interrupts, arrived: VecDeque::new() });
    }

    #[cfg(test)]
    pub(super) fn reads(&self) -> u32 {
        self.reads
    }

    /// Makes an end of a connection. Returns its number, or `None` if the host has too many.
    fn open(&mut self, end: End) -> Option<u32> {
        let number = (0..).zip(self.ends.keys()).find(|(free, taken)| free != *taken).map_or(self.ends.len() as u32, |(free, _)| free);
        if self.ends.len() >= ENDS_MAX {
            return None;
        }
        if let Some(socket) = end.socket {
            self.by_socket.insert(socket, number);
        }
        self.ends.insert(number, end);
        Some(number)
    }

    /// Gives an end the socket that accepted its connection.
    fn adopt(&mut self, number: u32, socket: SocketId) {
        if let Some(end) = self.ends.get_mut(&number) {
            end.socket = Some(socket);
            self.by_socket.insert(socket, number);
        }
    }
}

impl Device {
    /// Returns the objects of the HCA, which the first use creates.
    fn objects(&mut self, world: &mut softband_fabric::World) -> Result<Objects, VerbsError> {
        match self.objects {
            Some(objects) => Ok(objects),
            None => {
                let objects = Objects::new(&self.place, world)?;
                self.objects = Some(objects);
                Ok(objects)
            }
        }
    }
}
