//! Completions of connections, and the core that takes them.

use super::end::{End, READ, RECEIVE};
use super::{Sdp, Work};
use crate::host::kernel::Common;
use crate::host::kernel::agenda::Due;
use crate::host::kernel::interrupts::Signal;
use softband_model::verbs::api::Completion;
use softband_net::{InterfaceId, Payload, SocketId};
use softband_sim::SimTime;
use softband_types::WcStatus;

/// News of a completion for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::host::kernel) enum News {
    None,
    /// The card of the interface interrupts.
    Interrupt(InterfaceId),
    /// The HCA has sent the oldest message of the socket.
    Sent(SocketId),
    /// The connection of the socket has failed.
    Failed(SocketId),
}

/// Work that a core has taken.
#[derive(Debug)]
pub(in crate::host::kernel) enum Taken {
    /// A message for a socket.
    Message(SocketId, Vec<u8>),
    /// The first message of a connection, with the number of its end.
    Request(u32, Vec<u8>),
    /// The bytes of a read for a socket.
    Read(SocketId, Payload),
}

impl Sdp {
    /// Notes a completion of an end's queue pair.
    pub(in crate::host::kernel) fn completed(&mut self, common: &mut Common, now: SimTime, number: u32, completion: &Completion) -> News {
        let Self { devices, ends, .. } = self;
        let Some(end) = ends.get_mut(&number) else { return News::None };
        let Some(device) = devices.get_mut(&end.interface) else { return News::None };
        if completion.status != WcStatus::Success {
            let has_failed = completion.status != WcStatus::FlushError && !end.is_closed;
            return end.socket.filter(|_| has_failed).map_or(News::None, News::Failed);
        }
        let slot = completion.wr_id as u32;
        let work = if completion.wr_id & RECEIVE != 0 {
            Work::Message { slot, len: completion.byte_len }
        } else if completion.wr_id & READ != 0 {
            Work::Read
        } else {
            End::release_sent(number, slot, &device.place, &mut common.store);
            return end.socket.map_or(News::None, News::Sent);
        };
        device.arrived.push_back((number, work));
        match device.interrupts.arrived(device.arrived.len(), now) {
            Signal::Now => News::Interrupt(end.interface),
            Signal::At(at) => {
                common.agenda.push(at, Due::SdpInterrupt { host: device.place.host, interface: end.interface });
                News::None
            }
            Signal::None => News::None,
        }
    }

    /// Returns whether an interrupt that was due at `now` still is.
    pub(in crate::host::kernel) fn awaits_interrupt(&self, now: SimTime, interface: InterfaceId) -> bool {
        self.devices.get(&interface).is_some_and(|device| device.interrupts.is_due(now))
    }

    /// Notes that a core begins to take work.
    pub(in crate::host::kernel) fn begin_polling(&mut self, interface: InterfaceId) {
        if let Some(device) = self.devices.get_mut(&interface) {
            device.interrupts.begin_polling();
        }
    }

    /// Takes the oldest work of an interface. Work of a closed connection is `None`.
    pub(in crate::host::kernel) fn take(&mut self, common: &mut Common, interface: InterfaceId) -> Option<Taken> {
        let device = self.devices.get_mut(&interface)?;
        let (number, work) = device.arrived.pop_front()?;
        let end = self.ends.get_mut(&number)?;
        match work {
            Work::Message { slot, len } => {
                let bytes = end.take_message((number, slot), len, &device.place, &mut common.store);
                match end.socket {
                    Some(socket) => Some(Taken::Message(socket, bytes)),
                    None => (!end.is_closed).then_some(Taken::Request(number, bytes)),
                }
            }
            Work::Read => {
                let data = end.take_read(number, &device.place, &mut common.store);
                end.socket.map(|socket| Taken::Read(socket, data))
            }
        }
    }

    /// Returns whether work is left. Without it, the core ends.
    pub(in crate::host::kernel) fn go_on_polling(&mut self, interface: InterfaceId) -> bool {
        let Some(device) = self.devices.get_mut(&interface) else { return false };
        let has_more = !device.arrived.is_empty();
        if !has_more {
            device.interrupts.end_polling();
        }
        has_more
    }
}
