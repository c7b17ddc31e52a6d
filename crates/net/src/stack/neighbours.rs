//! Neighbours of the stack: requests, answers, and packets that wait for them.

use super::{Stack, TimerOf};
use crate::error::NetError;
use crate::frame::{Frame, LinkAddress, LinkDestination, NeighbourMessage};
use crate::interface::{InterfaceId, Owner, Waiting};
use crate::neighbour::{Key, Resolution, Step, solicited_group};
use crate::packet::{Packet, Unreachable, UnreachableReason};
use crate::socket::Kind;
use std::net::IpAddr;

impl Stack {
    /// Returns the neighbours whose link address the host knows.
    pub fn neighbours(&self) -> impl Iterator<Item = (InterfaceId, IpAddr, LinkAddress)> {
        self.neighbours.all()
    }

    /// Sends a packet to a neighbour, now or when its link address is known.
    pub(super) fn send_to_neighbour(&mut self, key: Key, packet: Packet, owner: Option<Owner>) -> Result<(), NetError> {
        self.make_neighbour_room(key);
        let link = match self.neighbours.resolve(key, self.now, &self.kernel) {
            Resolution::Known(link) => link,
            Resolution::Ask(link) => {
                self.ask(key, Some(link));
                link
            }
            Resolution::Wait(asks) => {
                if let Some(owner) = self.neighbours.wait(key, packet, owner, &self.kernel) {
                    self.lose(owner);
                }
                if asks {
                    self.ask(key, None);
                }
                return Ok(());
            }
        };
        self.enqueue(key.0, Waiting { to: LinkDestination::Link(link), frame: Frame::Packet(packet), owner })
    }

    /// Makes room for a neighbour. Packets that waited for a forgotten one are lost.
    fn make_neighbour_room(&mut self, key: Key) {
        for (_, owner) in self.neighbours.make_room(key) {
            self.lose(owner);
        }
    }

    /// Sends a request, to all hosts unless a link address is given, and sets its timer.
    fn ask(&mut self, (interface, target): Key, link: Option<LinkAddress>) {
        let config = &self.interfaces[interface.0 as usize].config;
        let own = config.addresses.iter().map(|own| own.address).find(|own| own.is_ipv4() == target.is_ipv4());
        if let (Some(sender), Some(sender_link)) = (own, config.link_address) {
            let to = match (link, target) {
                (Some(link), _) => LinkDestination::Link(link),
                (None, IpAddr::V4(_)) => LinkDestination::Broadcast,
                (None, IpAddr::V6(target)) => LinkDestination::Group(solicited_group(target)),
            };
            let message = NeighbourMessage { is_request: true, sender, sender_link, target, target_link: link };
            // A full queue loses the request, and its timer sends another.
            let _ = self.enqueue(interface, Waiting { to, frame: Frame::Neighbour(message), owner: None });
        }
        if let Some(at) = self.neighbours.deadline((interface, target)) {
            self.timers.insert((at, TimerOf::Neighbour(interface, target)));
        }
    }

    pub(super) fn neighbour_timer(&mut self, key: Key) {
        match self.neighbours.timer(key, self.now, &self.kernel) {
            Step::Ask(link) => self.ask(key, link),
            Step::Failed(waiting) => waiting.into_iter().for_each(|(packet, owner)| self.fail_packet(&packet, owner)),
            Step::None => {}
        }
    }

    /// Tells the sender of a packet that the next host does not answer.
    fn fail_packet(&mut self, packet: &Packet, owner: Option<Owner>) {
        self.lose(owner);
        if !self.is_local(packet.source) {
            return self.report(packet, UnreachableReason::Host);
        }
        let Some((tcp, source_port, destination_port)) = packet.ports() else { return };
        let unreachable = Unreachable { reason: UnreachableReason::Host, tcp, source_port, destination: packet.destination, destination_port };
        self.unreachable_in(self.now, packet.source, &unreachable);
    }

    /// Notes that a packet was lost within the host.
    pub(super) fn lose(&mut self, owner: Option<Owner>) {
        let Some(Owner { socket, bytes }) = owner else { return };
        match self.sockets.get_mut(&socket).map(|socket| &mut socket.kind) {
            Some(Kind::Connection(connection)) => connection.dropped_locally(bytes),
            Some(Kind::Datagram(datagram)) => {
                let events = datagram.left_host(bytes);
                self.ready(socket, events);
            }
            Some(Kind::Idle | Kind::Listener(_) | Kind::Sdp(_)) | None => {}
        }
    }

    pub(super) fn neighbour_in(&mut self, interface: InterfaceId, message: &NeighbourMessage) {
        let Some(at) = self.interfaces.get(interface.0 as usize) else { return };
        let Some(own_link) = at.config.link_address else { return };
        let is_for_us = at.has(message.target);
        let key = (interface, message.sender);
        // RFC 4861, 7.2.5: an answer without a link address confirms the one that is known.
        let sender_link = match message.sender_link {
            link if link.as_slice().is_empty() => self.neighbours.link(key),
            link => Some(link),
        };
        let Some(sender_link) = sender_link else { return };
        // RFC 826: a host that asks for this one will hear from it. Others are only updated.
        let is_useful = message.is_request && is_for_us || self.neighbours.is_known(key);
        if is_useful && !message.sender.is_unspecified() && !at.has(message.sender) {
            self.make_neighbour_room(key);
            let waiting = self.neighbours.learn(key, sender_link, self.now, &self.kernel);
            for (packet, owner) in waiting {
                let to = LinkDestination::Link(sender_link);
                if self.enqueue(interface, Waiting { to, frame: Frame::Packet(packet), owner }).is_err() {
                    self.lose(owner);
                }
            }
        }
        if message.is_request && is_for_us {
            let answer = NeighbourMessage {
                is_request: false,
                sender: message.target,
                sender_link: own_link,
                target: message.sender,
                target_link: Some(sender_link),
            };
            // The asker asks again if a full queue loses the answer.
            let _ = self.enqueue(interface, Waiting { to: LinkDestination::Link(sender_link), frame: Frame::Neighbour(answer), owner: None });
        }
    }
}
