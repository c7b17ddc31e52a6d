//! Fragments of UDP datagrams and echoes (RFC 791, 3.2; RFC 8200, 4.5): cut before the queue, joined on arrival.

use super::{Stack, TimerOf};
use crate::interface::{InterfaceId, Owner};
use crate::packet::{Body, Fragment, ICMP_PROTOCOL, ICMPV6_PROTOCOL, Packet, UDP_PROTOCOL, ip_header_bytes};
use crate::payload::Payload;
use crate::scope;
use crate::wire;
use softband_sim::{SimDuration, SimTime};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Bytes of the fragment header of IPv6.
const IPV6_FRAGMENT_BYTES: u32 = 8;

/// Time that a datagram waits for its missing fragments, as Linux's `ipfrag_time`.
const WAIT: SimDuration = SimDuration::from_micros(30_000_000);

/// Memory of a fragment beyond its payload.
const OVERHEAD_BYTES: u32 = 768;

/// Source, destination and identification of a datagram in fragments.
pub(super) type FragmentKey = (IpAddr, IpAddr, u32);

/// Datagram whose fragments arrive.
#[derive(Debug)]
struct Assembly {
    pieces: BTreeMap<u32, Payload>,
    memory_bytes: u32,
    /// Length, once the last fragment stated it.
    len: Option<u32>,
    deadline: SimTime,
    /// Number of its latest fragment.
    touched: u64,
    /// Fragments contradicted each other, so that all others are lost too (RFC 5722, section 4).
    is_broken: bool,
}

/// Datagrams in fragments.
#[derive(Debug)]
pub(super) struct Fragments {
    next: u32,
    assemblies: BTreeMap<FragmentKey, Assembly>,
    /// Datagrams by their latest fragment, the oldest first.
    ages: BTreeMap<u64, FragmentKey>,
    arrived: u64,
    memory_bytes: u32,
}

/// Result of a fragment's arrival.
enum Step {
    /// More are missing.
    Wait,
    /// All are here.
    Done(Payload),
    /// The fragment contradicts earlier ones. The datagram is lost (RFC 5722).
    Broken,
}

impl Fragments {
    pub(super) fn new(first: u32) -> Self {
        Self { next: first, assemblies: BTreeMap::new(), ages: BTreeMap::new(), arrived: 0, memory_bytes: 0 }
    }

    fn identify(&mut self, destination: IpAddr) -> u32 {
        self.next = self.next.wrapping_add(1);
        if destination.is_ipv4() { self.next & 0xffff } else { self.next }
    }

    fn forget(&mut self, key: &FragmentKey) -> Option<Assembly> {
        let gone = self.assemblies.remove(key)?;
        self.ages.remove(&gone.touched);
        self.memory_bytes -= gone.memory_bytes;
        Some(gone)
    }

    /// Forgets the oldest datagram, if the memory exceeds `bytes`.
    fn evict_above(&mut self, bytes: u32) -> Option<(FragmentKey, Assembly)> {
        let key = *self.ages.values().next().filter(|_| self.memory_bytes > bytes)?;
        self.forget(&key).map(|gone| (key, gone))
    }

    fn take(&mut self, key: FragmentKey, fragment: Fragment, deadline: SimTime) -> Step {
        self.arrived += 1;
        let touched = self.arrived;
        let fresh = || Assembly { pieces: BTreeMap::new(), memory_bytes: 0, len: None, deadline, touched, is_broken: false };
        let assembly = self.assemblies.entry(key).or_insert_with(fresh);
        self.ages.remove(&assembly.touched);
        self.ages.insert(touched, key);
        assembly.touched = touched;
        let before = assembly.memory_bytes;
        let step = assembly.insert(fragment);
        self.memory_bytes = self.memory_bytes + assembly.memory_bytes - before;
        step
    }
}

/// Returns the addresses that checksums cover: links know no scopes.
fn on_wire(packet: &Packet) -> (IpAddr, IpAddr) {
    (scope::plain(packet.source), scope::plain(packet.destination))
}

/// Returns the number of ICMP for the family of an address.
const fn icmp_protocol(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => ICMP_PROTOCOL,
        IpAddr::V6(_) => ICMPV6_PROTOCOL,
    }
}

fn memory(payload: &Payload) -> u32 {
    payload.len() + OVERHEAD_BYTES
}

impl Assembly {
    /// Keeps a fragment, or gives up the datagram if it contradicts others.
    fn insert(&mut self, fragment: Fragment) -> Step {
        if !self.is_broken && self.keep(fragment).is_err() {
            (self.is_broken, self.pieces, self.memory_bytes) = (true, BTreeMap::new(), OVERHEAD_BYTES);
        }
        match self.whole() {
            _ if self.is_broken => Step::Broken,
            Some(payload) => Step::Done(payload),
            None => Step::Wait,
        }
    }

    /// Keeps a fragment, unless an equal one is there. Fails if it contradicts others.
    fn keep(&mut self, fragment: Fragment) -> Result<(), ()> {
        let (start, end) = (fragment.offset, fragment.offset.saturating_add(fragment.payload.len()));
        if self.pieces.get(&start).is_some_and(|piece| piece.len() == fragment.payload.len()) {
            return Ok(());
        }
        let before = self.pieces.range(..=start).next_back().map(|(from, piece)| from + piece.len());
        let behind = self.pieces.range(start..).next().map(|(from, _)| *from);
        let highest = self.pieces.last_key_value().map_or(0, |(from, piece)| from + piece.len());
        let overlaps = before.is_some_and(|stop| stop > start) || behind.is_some_and(|from| from < end);
        let is_beyond = self.len.is_some_and(|len| end > len || !fragment.has_more && end != len);
        if overlaps || is_beyond || !fragment.has_more && highest > end {
            return Err(());
        }
        if !fragment.has_more {
            self.len = Some(end);
        }
        self.memory_bytes += memory(&fragment.payload);
        self.pieces.insert(start, fragment.payload);
        Ok(())
    }

    fn whole(&self) -> Option<Payload> {
        let len = self.len?;
        if self.pieces.values().map(Payload::len).sum::<u32>() != len {
            return None;
        }
        let mut payload = Payload::empty();
        self.pieces.values().for_each(|piece| payload.append(piece.clone()));
        Some(payload)
    }
}

impl Stack {
    /// Sends a UDP datagram or an echo, in fragments if its packet exceeds the MTU. A full queue loses it
    /// without a word: Linux reports that only to a program with `IP_RECVERR`.
    pub(super) fn send_in_fragments(&mut self, interface: InterfaceId, next: IpAddr, packet: Packet, owner: Option<Owner>) {
        let mtu = self.path_mtus.of(packet.destination, self.interfaces[interface.0 as usize].config.mtu_bytes, self.now);
        if packet.wire_bytes() <= u64::from(mtu) {
            return self.send_or_lose(interface, next, packet, owner);
        }
        let (content, protocol) = match &packet.body {
            Body::Udp(datagram) => (wire::udp_content(datagram, on_wire(&packet)), UDP_PROTOCOL),
            Body::Echo(echo) => (wire::echo_content(echo, on_wire(&packet)), icmp_protocol(packet.destination)),
            _ => return self.lose(owner),
        };
        let headers = ip_header_bytes(packet.destination) + if packet.destination.is_ipv4() { 0 } else { IPV6_FRAGMENT_BYTES };
        let most = (mtu.saturating_sub(headers) & !7).max(8);
        let identification = self.fragments.identify(packet.destination);
        let (mut offset, mut owned) = (0, owner.map_or(0, |owner| owner.bytes));
        while offset < content.len() {
            let payload = content.part(offset, most);
            let end = offset + payload.len();
            let has_more = end < content.len();
            // The last fragment holds the rest of the socket's bytes.
            let bytes = if has_more { owned.min(payload.len()) } else { owned };
            owned -= bytes;
            let fragment = Fragment { identification, offset, has_more, protocol, payload };
            let packet = Packet { body: Body::Fragment(fragment), ..packet.clone() };
            self.send_or_lose(interface, next, packet, owner.map(|owner| Owner { bytes, ..owner }));
            offset = end;
        }
    }

    fn send_or_lose(&mut self, interface: InterfaceId, next: IpAddr, packet: Packet, owner: Option<Owner>) {
        if interface == InterfaceId(0) {
            self.loop_back(packet, owner);
        } else if self.send_by(interface, next, packet, owner).is_err() {
            self.lose(owner);
        }
    }

    /// Keeps a fragment, or delivers the datagram that it completes.
    pub(super) fn fragment_in(&mut self, interface: InterfaceId, packet: Packet, is_group: bool) {
        let addresses = on_wire(&packet);
        let Body::Fragment(fragment) = packet.body else { return };
        let (key, protocol) = ((packet.source, packet.destination, fragment.identification), fragment.protocol);
        let is_known = protocol == UDP_PROTOCOL || protocol == icmp_protocol(packet.destination);
        if !is_known || fragment.payload.is_empty() || !self.finds_fragment_room(memory(&fragment.payload)) {
            self.interfaces[interface.0 as usize].counters.received_dropped += 1;
            return;
        }
        if !self.fragments.assemblies.contains_key(&key) {
            self.timers.insert((self.now + WAIT, TimerOf::Fragments(key)));
        }
        let body = match self.fragments.take(key, fragment, self.now + WAIT) {
            Step::Wait => return,
            Step::Broken => None,
            Step::Done(content) => {
                let gone = self.fragments.forget(&key);
                self.forget_fragment_timer(key, gone);
                match protocol {
                    UDP_PROTOCOL => wire::udp_datagram(&content, addresses).map(Body::Udp),
                    _ => wire::echo_message(&content, addresses).map(Body::Echo),
                }
            }
        };
        let (source, destination, hop_limit) = (packet.source, packet.destination, packet.hop_limit);
        match body {
            Some(body @ Body::Echo(_)) => self.echo_in(interface, Packet { source, destination, hop_limit, body }, is_group),
            Some(body) => self.datagram_in(interface, Packet { source, destination, hop_limit, body }, is_group),
            None => self.interfaces[interface.0 as usize].counters.received_dropped += 1,
        }
    }

    /// Returns whether a fragment of `bytes` finds room. Linux before 4.17 makes some: above the limit,
    /// it forgets the oldest datagrams down to a low mark.
    fn finds_fragment_room(&mut self, bytes: u32) -> bool {
        let limit = self.kernel.fragment_memory_bytes;
        let Some(low) = self.kernel.fragment_memory_low_bytes else {
            return self.fragments.memory_bytes + bytes <= limit;
        };
        if self.fragments.memory_bytes > limit {
            while let Some((key, gone)) = self.fragments.evict_above(low) {
                self.forget_fragment_timer(key, Some(gone));
            }
        }
        true
    }

    fn forget_fragment_timer(&mut self, key: FragmentKey, gone: Option<Assembly>) {
        if let Some(gone) = gone {
            self.timers.remove(&(gone.deadline, TimerOf::Fragments(key)));
        }
    }

    /// Forgets a datagram whose fragments did not all arrive in time.
    pub(super) fn fragments_expired(&mut self, key: FragmentKey) {
        self.fragments.forget(&key);
    }
}
