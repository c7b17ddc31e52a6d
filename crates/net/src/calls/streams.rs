//! Calls that send and receive, by the protocol of their socket.

use super::{Receive, ReceiveFrom, Send, SendTo};
use crate::error::NetError;
use crate::payload::Payload;
use crate::sdp::Part;
use crate::socket_id::Protocol;
use crate::stack::{Call, Charge, Stack};
use softband_sim::SimTime;

pub(super) fn send(call: Send, rest: Option<u32>, stack: &mut Stack, now: SimTime) -> Result<u32, NetError> {
    match stack.socket_mut(call.socket)?.protocol() {
        Protocol::Datagram | Protocol::Echo => return SendTo { socket: call.socket, payload: call.payload, to: None }.run(stack, now),
        Protocol::Sdp => {
            let part = Part { urgent: call.urgent, more: call.more, rest };
            return stack.send_sdp(now, call.socket, &call.payload, part);
        }
        Protocol::Stream => {}
    }
    stack.socket_mut(call.socket)?.connection().map_err(|_| NetError::Broken)?;
    let step = stack.with_connection(now, call.socket, |connection, cx| connection.send(&call.payload, (call.urgent, call.more), cx));
    let taken = step.unwrap_or(Err(NetError::BadSocket))?;
    stack.charge(Charge::Copied { bytes: taken });
    Ok(taken)
}

pub(super) fn receive(call: Receive, rest: u32, stack: &mut Stack, now: SimTime) -> Result<Payload, NetError> {
    match stack.socket_mut(call.socket)?.protocol() {
        Protocol::Datagram | Protocol::Echo => {
            let whole = ReceiveFrom { socket: call.socket, most: call.most, peek: call.peek };
            return whole.run(stack, now).map(|received| received.payload);
        }
        Protocol::Sdp => return stack.receive_sdp(now, call.socket, (call.most, rest), call.peek),
        Protocol::Stream => {}
    }
    stack.socket_mut(call.socket)?.connection()?;
    let step = stack.with_connection(now, call.socket, |connection, cx| connection.receive(call.most, call.peek, cx));
    let payload = step.unwrap_or(Err(NetError::BadSocket))?;
    stack.charge(Charge::Copied { bytes: payload.len() });
    Ok(payload)
}
