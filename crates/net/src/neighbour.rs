//! Link addresses of neighbours: ARP (RFC 826) for IPv4, neighbour discovery (RFC 4861) for IPv6.

use crate::frame::LinkAddress;
use crate::interface::{InterfaceId, Owner};
use crate::packet::Packet;
use softband_model::parts::KernelPart;
use softband_sim::SimTime;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};

/// Returns the group that hears requests for an IPv6 address (RFC 4291, 2.7.1).
pub(crate) fn solicited_group(target: Ipv6Addr) -> IpAddr {
    let low = u128::from(target) & 0xff_ffff;
    IpAddr::V6(Ipv6Addr::from(0xff02_0000_0000_0000_0000_0001_ff00_0000 | low))
}

/// Most neighbours, as Linux's `gc_thresh3`. Hosts that only ask cannot fill the memory.
const NEIGHBOURS_MAX: usize = 1_024;

#[derive(Clone, Copy, Debug)]
enum State {
    /// No link address is known.
    Incomplete,
    /// The link address is good until then.
    Reachable(LinkAddress, SimTime),
    /// The link address is used, and in question.
    Probed(LinkAddress),
}

#[derive(Debug)]
struct Neighbour {
    state: State,
    requests: u32,
    deadline: Option<SimTime>,
    waiting: VecDeque<(Packet, Option<Owner>)>,
}

/// Key of a neighbour.
pub(crate) type Key = (InterfaceId, IpAddr);

/// Answer to the question for a link address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// Use this one.
    Known(LinkAddress),
    /// Use this one, and ask the neighbour itself.
    Ask(LinkAddress),
    /// The packet waits, and all hosts are asked if the flag says so.
    Wait(bool),
}

/// Step of a neighbour's timer.
#[derive(Debug)]
pub(crate) enum Step {
    /// Ask all hosts, or the one with this link address.
    Ask(Option<LinkAddress>),
    /// The neighbour does not answer; these packets waited for it.
    Failed(VecDeque<(Packet, Option<Owner>)>),
    /// Nothing is due.
    None,
}

#[derive(Debug, Default)]
pub(crate) struct Neighbours(BTreeMap<Key, Neighbour>);

impl Neighbours {
    /// Looks up a link address.
    pub(crate) fn resolve(&mut self, key: Key, now: SimTime, kernel: &KernelPart) -> Resolution {
        let retry = Some(now + kernel.neighbour_retransmit);
        let Some(neighbour) = self.0.get_mut(&key) else {
            let fresh = Neighbour { state: State::Incomplete, requests: 1, deadline: retry, waiting: VecDeque::new() };
            self.0.insert(key, fresh);
            return Resolution::Wait(true);
        };
        match neighbour.state {
            State::Incomplete => Resolution::Wait(false),
            State::Reachable(link, until) if now >= until => {
                (neighbour.state, neighbour.requests, neighbour.deadline) = (State::Probed(link), 1, retry);
                Resolution::Ask(link)
            }
            State::Reachable(link, _) | State::Probed(link) => Resolution::Known(link),
        }
    }

    /// Keeps a packet until its neighbour answers. Returns the oldest if there are too many.
    pub(crate) fn wait(&mut self, key: Key, packet: Packet, owner: Option<Owner>, kernel: &KernelPart) -> Option<Option<Owner>> {
        let Some(neighbour) = self.0.get_mut(&key) else { return Some(owner) };
        neighbour.waiting.push_back((packet, owner));
        let is_over = neighbour.waiting.len() > kernel.neighbour_queue_packets as usize;
        is_over.then(|| neighbour.waiting.pop_front()).flatten().map(|(_, owner)| owner)
    }

    /// Notes a link address. Returns the packets that waited for it.
    pub(crate) fn learn(&mut self, key: Key, link: LinkAddress, now: SimTime, kernel: &KernelPart) -> VecDeque<(Packet, Option<Owner>)> {
        let state = State::Reachable(link, now.saturating_add(kernel.neighbour_reachable));
        let fresh = || Neighbour { state, requests: 0, deadline: None, waiting: VecDeque::new() };
        let neighbour = self.0.entry(key).or_insert_with(fresh);
        (neighbour.state, neighbour.requests, neighbour.deadline) = (state, 0, None);
        std::mem::take(&mut neighbour.waiting)
    }

    /// Forgets a neighbour if a new one finds no room: the first without waiting packets, or else the
    /// first. Returns its packets, which are lost.
    #[must_use]
    pub(crate) fn make_room(&mut self, key: Key) -> VecDeque<(Packet, Option<Owner>)> {
        if self.0.len() < NEIGHBOURS_MAX || self.0.contains_key(&key) {
            return VecDeque::new();
        }
        let idle = self.0.iter().find(|(_, neighbour)| neighbour.waiting.is_empty()).map(|(key, _)| *key);
        let gone = idle.or_else(|| self.0.keys().next().copied());
        gone.and_then(|key| self.0.remove(&key)).map(|gone| gone.waiting).unwrap_or_default()
    }

    /// Returns the link address of a neighbour, good or in question.
    pub(crate) fn link(&self, key: Key) -> Option<LinkAddress> {
        match self.0.get(&key)?.state {
            State::Incomplete => None,
            State::Reachable(link, _) | State::Probed(link) => Some(link),
        }
    }
    pub(crate) fn is_known(&self, key: Key) -> bool {
        self.0.contains_key(&key)
    }
    pub(crate) fn deadline(&self, key: Key) -> Option<SimTime> {
        self.0.get(&key).and_then(|neighbour| neighbour.deadline)
    }

    /// Runs a neighbour's timer.
    pub(crate) fn timer(&mut self, key: Key, now: SimTime, kernel: &KernelPart) -> Step {
        let Some(neighbour) = self.0.get_mut(&key) else { return Step::None };
        if neighbour.deadline.is_none_or(|at| at > now) {
            return Step::None;
        }
        if neighbour.requests >= kernel.neighbour_requests {
            let waiting = std::mem::take(&mut neighbour.waiting);
            self.0.remove(&key);
            return Step::Failed(waiting);
        }
        neighbour.requests += 1;
        neighbour.deadline = Some(now + kernel.neighbour_retransmit);
        match neighbour.state {
            State::Incomplete => Step::Ask(None),
            State::Probed(link) | State::Reachable(link, _) => Step::Ask(Some(link)),
        }
    }

    /// Returns the known link addresses, as `ip neighbour` shows them.
    pub(crate) fn all(&self) -> impl Iterator<Item = (InterfaceId, IpAddr, LinkAddress)> {
        self.0.iter().filter_map(|((interface, address), neighbour)| match neighbour.state {
            State::Incomplete => None,
            State::Reachable(link, _) | State::Probed(link) => Some((*interface, *address, link)),
        })
    }
}
