//! Calls on datagram sockets of stacks.

use super::OnStack;
use crate::host::datagrams::{DATAGRAM_MAX, Incoming};
use crate::protocol::{Caller, Outcome};
use crate::rpc::host_calls::HostCalls;
use softband_ipc::calls::{DatagramReceive, DatagramReceived, DatagramSend, DatagramWish, WithTail, datagram};
use softband_net::calls::{ReceiveFrom, SendMessage, Way};
use softband_net::{InterfaceId, Payload};
use std::net::{IpAddr, Ipv6Addr};

impl HostCalls<'_> {
    /// Sends a whole datagram.
    pub(in crate::rpc) fn stack_datagram_send(&mut self, at: OnStack, head: &DatagramSend, bytes: &[u8]) -> Outcome<()> {
        let to = if head.flags & datagram::NO_ADDRESS == 0 { self.address_for(at, &head.to, head.flags).map(Some) } else { Ok(None) };
        let to = match to {
            Ok(to) => to,
            Err(errno) => return Outcome::Fail(errno),
        };
        let call = SendMessage { socket: at.place.socket, payload: Payload::from(bytes), to, way: way_of(&head.way) };
        let (sent, cost) = self.ask(at, call);
        Outcome::Paid(sent.map(|_| ()), cost)
    }

    /// Takes the next datagram for the caller, unless it asks for more of its last one.
    pub(in crate::rpc) fn stack_datagram_receive(
        &mut self,
        caller: Caller,
        at: OnStack,
        request: &DatagramReceive,
    ) -> Outcome<WithTail<DatagramReceived, u8>> {
        let place = (caller.process, caller.slot);
        if request.offset != 0 {
            return self.next_part(place, request).into();
        }
        let call = ReceiveFrom { socket: at.place.socket, most: DATAGRAM_MAX as u32, peek: request.peek != 0 };
        let (received, cost) = self.ask(at, call);
        let part = received.and_then(|received| {
            let head = DatagramReceived {
                len: 0,
                whole: 0,
                from: received.from.into(),
                to: octets(received.to),
                interface: received.interface.0 + 1,
                hop_limit: received.hop_limit.into(),
                at: received.arrived_at.as_picos(),
            };
            self.host.keep_incoming(place, Incoming { head, bytes: received.payload.to_vec() });
            self.next_part(place, request)
        });
        Outcome::Paid(part, cost)
    }
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Returns the way that control messages wish. A hop limit beyond 255 is that of the socket.
fn way_of(wish: &DatagramWish) -> Way {
    let source = Some(Ipv6Addr::from(wish.source)).filter(|source| !source.is_unspecified());
    Way {
        interface: wish.interface.checked_sub(1).map(InterfaceId),
        source: source.map(|source| source.to_canonical()).filter(|source| !source.is_unspecified()),
        hop_limit: u8::try_from(wish.hop_limit).ok().filter(|limit| *limit > 0),
    }
}
