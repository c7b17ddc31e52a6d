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
use softband_sim::{RandomStream, SimDuration};
use std::collections::{BTreeMap, VecDeque};

/// Time for which a queue pair outlives its connection, so that its last messages arrive.
const DRAIN: SimDuration = SimDuration::from_micros(100_000);
/// Most connections of a host.
const ENDS_MAX: usize = 1 << 16;
/// Numbers of ends. A number comes again after all others, so that nothing meets a later end.
const NUMBERS: u32 = 1 << 17;

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
#[derive(Debug)]
pub(super) struct Sdp {
    /// Source of first packet sequence numbers.
    random: RandomStream,
    devices: BTreeMap<InterfaceId, Device>,
    ends: BTreeMap<u32, End>,
    /// Number from which the search for a free one begins.
    next_end: u32,
    by_socket: BTreeMap<SocketId, u32>,
    #[cfg(test)]
    reads: u32,
}

impl Sdp {
    pub(super) fn new(random: RandomStream) -> Self {
        Self {
            random,
            devices: BTreeMap::new(),
            ends: BTreeMap::new(),
            next_end: 0,
            by_socket: BTreeMap::new(),
            #[cfg(test)]
            reads: 0,
        }
    }

    /// Adds the port of an interface.
    pub(super) fn add(&mut self, place: Place, moderation: Moderation) {
        let interrupts = Interrupts::new(moderation);
        self.devices.insert(place.interface, Device { place, objects: None, interrupts, arrived: VecDeque::new() });
    }

    #[cfg(test)]
    pub(super) fn reads(&self) -> u32 {
        self.reads
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Makes an end of a connection. Returns its number, or `None` if the host has too many.
    fn open(&mut self, end: End) -> Option<u32> {
        if self.ends.len() >= ENDS_MAX {
            return None;
        }
        let number = (0..NUMBERS).map(|step| (self.next_end + step) % NUMBERS).find(|number| !self.ends.contains_key(number))?;
        self.next_end = number + 1;
        if let Some(socket) = end.socket {
            self.by_socket.insert(socket, number);
        }
        self.ends.insert(number, end);
        Some(number)
    }

    /// Gives an end the socket that accepted its connection.
    pub(super) fn adopt(&mut self, number: u32, socket: SocketId) {
        if let Some(end) = self.ends.get_mut(&number) {
            end.socket = Some(socket);
            self.by_socket.insert(socket, number);
        }
    }

    pub(super) fn socket_of(&self, number: u32) -> Option<SocketId> {
        self.ends.get(&number)?.socket
    }

    /// Forgets an end, with the work that no core has taken.
    fn forget(&mut self, number: u32) -> Option<End> {
        let end = self.ends.remove(&number)?;
        if let Some(device) = self.devices.get_mut(&end.interface) {
            device.arrived.retain(|(of, _)| *of != number);
        }
        Some(end)
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
