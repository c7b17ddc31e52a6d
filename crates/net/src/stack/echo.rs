//! ICMP echo (RFC 792; RFC 4443, 4): answers of hosts, and sockets that ask (icmp(7), `ping_group_range`).

use super::Stack;
use crate::error::NetError;
use crate::events::Events;
use crate::interface::InterfaceId;
use crate::packet::{Body, Echo, HOP_LIMIT, ICMP_HEADER_BYTES, Packet};
use crate::payload::Payload;
use crate::scope;
use crate::socket_id::{Family, Protocol, SocketId};
use crate::udp::Received;
use crate::wire;
use std::net::{IpAddr, SocketAddr};

/// Types of requests in messages of programs.
const REQUEST: u8 = 8;
const REQUEST_V6: u8 = 128;

/// Returns the request that a program wrote. The kernel fills in its identifier.
pub(super) fn request_of(message: &Payload, identifier: u16) -> Body {
    let header = message.part(0, ICMP_HEADER_BYTES).to_vec();
    let sequence = header.get(6..).and_then(|rest| rest.first_chunk()).copied().map_or(0, u16::from_be_bytes);
    let payload = message.part(ICMP_HEADER_BYTES, message.len().saturating_sub(ICMP_HEADER_BYTES));
    Body::Echo(Echo { is_request: true, identifier, sequence, payload })
}

impl Stack {
    /// Fails unless a program's message is a request for an echo, as Linux's `ping_common_sendmsg`.
    pub(super) fn check_echo(&mut self, id: SocketId, message: &Payload) -> Result<(), NetError> {
        let kind = if self.socket_mut(id)?.family == Family::V4 { REQUEST } else { REQUEST_V6 };
        if message.len() > u32::from(u16::MAX) {
            return Err(NetError::MessageTooLong);
        }
        let header = message.part(0, ICMP_HEADER_BYTES).to_vec();
        if header.len() == ICMP_HEADER_BYTES as usize && header[..2] == [kind, 0] { Ok(()) } else { Err(NetError::Invalid) }
    }

    /// Answers a request, or hands an answer to the socket that asked.
    pub(super) fn echo_in(&mut self, interface: InterfaceId, packet: Packet, is_group: bool) {
        match &packet.body {
            // Linux answers no request to several hosts (`icmp_echo_ignore_broadcasts`).
            Body::Echo(echo) if echo.is_request && !is_group => {
                let body = Body::Echo(Echo { is_request: false, ..echo.clone() });
                let answer = Packet { source: packet.destination, destination: packet.source, hop_limit: HOP_LIMIT, body };
                if let Ok((interface, next, _)) = self.way(answer.destination) {
                    self.send_in_fragments(interface, next, answer, None);
                }
            }
            Body::Echo(echo) if !echo.is_request => self.give_answer(interface, echo, &packet),
            _ => self.interfaces[interface.0 as usize].counters.received_dropped += 1,
        }
    }

    fn give_answer(&mut self, interface: InterfaceId, echo: &Echo, packet: &Packet) {
        let (from, to) = (packet.source, packet.destination);
        let heard_on = self.heard_on(interface, to);
        let takes = |id: &SocketId| self.takes_answer(*id, (from, to), heard_on);
        // Sockets may share an identifier. Linux finds the latest.
        let found = self.ports.of(Protocol::Echo, echo.identifier).filter(takes).last();
        let Some(id) = found else {
            self.interfaces[interface.0 as usize].counters.received_dropped += 1;
            return;
        };
        let payload = wire::echo_content(echo, (scope::plain(from), scope::plain(to)));
        let (from, len_bytes, hop_limit) = (SocketAddr::new(from, 0), payload.len(), packet.hop_limit);
        let received = Received { from, to, payload, interface: heard_on, hop_limit, len_bytes, arrived_at: self.now };
        let events = self.socket_mut(id).and_then(|socket| Ok(socket.datagram()?.push(received))).unwrap_or(Events::NONE);
        self.ready(id, events);
    }

    fn takes_answer(&self, id: SocketId, (from, to): (IpAddr, IpAddr), heard_on: InterfaceId) -> bool {
        let Some(socket) = self.sockets.get(&id) else { return false };
        let crate::socket::Kind::Datagram(datagram) = &socket.kind else { return false };
        let is_peer = datagram.peer.is_none_or(|peer| peer.ip() == from);
        // Each family has a protocol of its own.
        (socket.family == Family::V4) == to.is_ipv4() && socket.covers(to) && socket.hears(heard_on) && is_peer
    }
}
