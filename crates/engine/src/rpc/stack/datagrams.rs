//! Calls on datagram sockets of stacks.

use super::{OnStack, shown};
use crate::host::datagrams::{DATAGRAM_MAX, Received};
use crate::protocol::{Caller, Outcome};
use crate::rpc::host_calls::HostCalls;
use softband_ipc::calls::{DatagramReceive, DatagramReceived, DatagramSend, SocketAddress, WithTail, datagram};
use softband_net::Payload;
use softband_net::calls::{ReceiveFrom, SendTo};

impl HostCalls<'_> {
    /// Sends a whole datagram.
    pub(in crate::rpc) fn stack_datagram_send(&mut self, at: OnStack, head: &DatagramSend, bytes: &[u8]) -> Outcome<()> {
        let named = SocketAddress { object: at.object, address: head.address, port: head.port, flags: head.flags };
        let to = if head.flags & datagram::NO_ADDRESS == 0 { self.address_for(at, &named, libc::ENETUNREACH).map(Some) } else { Ok(None) };
        let to = match to {
            Ok(to) => to,
            Err(errno) => return Outcome::Fail(errno),
        };
        let (sent, cost) = self.ask(at, SendTo { socket: at.place.socket, payload: Payload::from(bytes), to });
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
            let (address, port) = shown(received.from);
            self.host.keep_incoming(place, Received { from: (address, port as u16), bytes: received.payload.to_vec() });
            self.next_part(place, request)
        });
        Outcome::Paid(part, cost)
    }
}
