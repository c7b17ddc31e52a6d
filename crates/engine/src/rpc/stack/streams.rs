//! Calls on stream sockets of stacks, and those that datagram sockets share.

use super::{OnStack, connect::FREE};
use crate::host::stack_sockets::Place;
use crate::protocol::{Caller, Outcome};
use crate::rpc::host_calls::HostCalls;
use softband_ipc::calls::{Count, Endpoint, SocketAccepted, SocketAddress, SocketData, SocketReceive, WithTail, readiness, stream};
use softband_ipc::layout::PAYLOAD_BYTES;
use softband_net::Payload;
use softband_net::calls::{Accept, Bind, Receive, ReceivePart, ReceiveUrgent, Send, Shutdown, TakeError};

impl HostCalls<'_> {
    pub(in crate::rpc) fn stack_bind(&mut self, at: OnStack, address: &SocketAddress) -> Outcome<SocketAddress> {
        let wanted = match self.address_for(at, &address.at, address.flags) {
            Ok(wanted) => wanted,
            Err(errno) => return Outcome::Fail(errno),
        };
        let (done, cost) = self.ask(at, Bind { socket: at.place.socket, address: wanted });
        let bound = self.kernels.as_ref().and_then(|kernels| kernels.stack(at.place.host).local_address(at.place.socket));
        let port = bound.map_or(address.at.port, |bound| u32::from(bound.port()));
        Outcome::Paid(done.map(|()| SocketAddress { at: Endpoint { port, ..address.at }, ..*address }), cost)
    }

    pub(in crate::rpc) fn stack_accept(&mut self, caller: Caller, at: OnStack) -> Outcome<SocketAccepted> {
        let by_sdp = self.accept_beside(at);
        let (accepted, cost) = by_sdp.unwrap_or_else(|| self.ask(at, Accept { socket: at.place.socket }));
        let accepted = accepted.map(|(socket, peer)| {
            let new = self.adopt(caller, Place { host: at.place.host, socket, is_datagram: false });
            SocketAccepted { object: new.object, reserved: 0, peer: peer.into() }
        });
        Outcome::Paid(accepted, cost)
    }

    /// Fails with the pending error of a socket, which it clears.
    pub(in crate::rpc) fn stack_error(&mut self, at: OnStack) -> Outcome<()> {
        if let Err(errno) = self.host.stack_sockets_mut().take_refusal(at.object) {
            return Outcome::Fail(errno);
        }
        let (taken, cost) = self.ask(at, TakeError { socket: at.place.socket });
        Outcome::Paid(taken, cost)
    }

    /// Fails as a call does on a socket whose connection the stack has not begun.
    fn check_begun(&mut self, at: OnStack) -> Result<(), i32> {
        self.host.stack_sockets_mut().take_refusal(at.object)?;
        if self.host.stack_sockets().sought(at.object).is_some() { Err(libc::EAGAIN) } else { Ok(()) }
    }

    pub(in crate::rpc) fn stack_send(&mut self, at: OnStack, request: &WithTail<SocketData, u8>) -> Outcome<Count> {
        let SocketData { len, flags, rest, .. } = request.head;
        let Some(data) = request.tail.get(..len as usize) else { return Outcome::Fail(libc::EPROTO) };
        if let Err(errno) = self.check_begun(at) {
            return Outcome::Fail(errno);
        }
        let (urgent, more) = (flags & stream::URGENT != 0, flags & stream::MORE != 0);
        let rest = (flags & stream::WAITS != 0).then_some(rest);
        let (sent, cost) = self.send_part(at, Send { socket: at.place.socket, payload: Payload::from(data), urgent, more }, rest);
        Outcome::Paid(sent, self.rest_of(at, flags, cost))
    }

    pub(in crate::rpc) fn stack_receive(&mut self, caller: Caller, at: OnStack, request: &SocketReceive) -> Outcome<WithTail<Count, u8>> {
        let (received, cost) = match self.check_begun(at) {
            Ok(()) => self.bytes_of(at, request),
            Err(errno) => (Err(errno), FREE),
        };
        let record = &mut self.processes[caller.process];
        if received == Err(libc::EAGAIN) {
            record.note_question(at.object, readiness::READABLE, false);
        } else {
            record.note_taken(at.object);
        }
        let cost = self.rest_of(at, request.flags, cost);
        Outcome::Paid(received.map(|tail| WithTail { head: Count { count: tail.len() as u64 }, tail }), cost)
    }

    fn bytes_of(&mut self, at: OnStack, request: &SocketReceive) -> super::Paid<Vec<u8>> {
        let (socket, peek) = (at.place.socket, request.peek != 0);
        if request.flags & stream::URGENT != 0 {
            let (byte, cost) = self.ask(at, ReceiveUrgent { socket, peek });
            return (byte.map(|byte| vec![byte]), cost);
        }
        let most = (request.len_max as usize).min(PAYLOAD_BYTES - size_of::<Count>()) as u32;
        let part = Receive { socket, most, peek };
        let (received, cost) = self.ask(at, ReceivePart { part, rest: request.rest });
        (received.map(|payload| payload.to_vec()), cost)
    }

    pub(in crate::rpc) fn stack_shutdown(&mut self, at: OnStack, how: u32) -> Outcome<()> {
        if self.give_up_seek(at) {
            return Outcome::Reply(());
        }
        let ends = |one: i32| how == one as u32 || how == libc::SHUT_RDWR as u32;
        let call = Shutdown { socket: at.place.socket, receive: ends(libc::SHUT_RD), send: ends(libc::SHUT_WR) };
        let (done, cost) = self.ask(at, call);
        self.end_listening_beside(at);
        Outcome::Paid(done, cost)
    }
}
