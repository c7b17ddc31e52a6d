//! Largest packets to destinations that a link does not reach with the MTU of its interface.

use super::{Addresses, Stack};
use crate::interface::InterfaceId;
use crate::packet::IPV6_MTU_MIN;
use crate::scope;
use crate::tcp::Connection;
use softband_sim::{SimDuration, SimTime};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Life of an entry (`ip_rt_mtu_expires` of Linux).
const LIFE: SimDuration = SimDuration::from_micros(600_000_000);

/// Most entries. Programs that only ask cannot fill the memory.
const ENTRIES_MAX: usize = 1_024;

/// Least MTU that a report about IPv4 can state (`ip_rt_min_pmtu` of Linux).
const MTU_MIN: u32 = 552;

/// MTU of one destination.
#[derive(Clone, Copy, Debug)]
struct PathMtu {
    bytes: u32,
    /// End of its life.
    until: SimTime,
    /// The link of the own interface has this MTU to the destination. Otherwise a router reported it.
    is_of_link: bool,
}

/// MTUs of destinations.
#[derive(Debug, Default)]
pub(super) struct PathMtus(BTreeMap<IpAddr, PathMtu>);

impl PathMtus {
    /// Returns the MTU to a destination, at most that of its interface.
    pub(super) fn of(&self, destination: IpAddr, interface_bytes: u32, now: SimTime) -> u32 {
        self.known(destination, now).map_or(interface_bytes, |known| interface_bytes.min(known.bytes))
    }

    /// Returns the MTU of the own link to a destination. Linux forwards without regard to reports of
    /// routers (`ip_forward_use_pmtu`).
    pub(super) fn of_link(&self, destination: IpAddr, interface_bytes: u32, now: SimTime) -> u32 {
        let known = self.known(destination, now).filter(|known| known.is_of_link);
        known.map_or(interface_bytes, |known| interface_bytes.min(known.bytes))
    }

    fn known(&self, destination: IpAddr, now: SimTime) -> Option<&PathMtu> {
        self.0.get(&destination).filter(|known| known.until > now)
    }

    fn note(&mut self, destination: IpAddr, (bytes, is_of_link): (u32, bool), now: SimTime) {
        if self.0.len() >= ENTRIES_MAX && !self.0.contains_key(&destination) {
            self.0.pop_first();
        }
        self.0.insert(destination, PathMtu { bytes, until: now.saturating_add(LIFE), is_of_link });
    }
}

impl Stack {
    /// Notes that a router takes packets of at most `mtu_bytes` to a destination. Connections to it send
    /// smaller packets, and datagrams leave in fragments. The connection of the lost packet repairs the
    /// loss at once. Each other one hears of its own losses.
    pub(super) fn path_shrank(&mut self, now: SimTime, addresses: Addresses, is_tcp: bool, mtu_bytes: u32) {
        let (local, remote) = addresses;
        let is_known = self.is_local(local.ip()) && !self.is_local(remote.ip());
        // RFC 8201, 4: no report lowers a path of IPv6 below the least MTU of its links.
        if !is_known || remote.is_ipv6() && mtu_bytes < IPV6_MTU_MIN {
            return;
        }
        // Linux believes in no smaller one (`ip_rt_min_pmtu`), and a path never grows by such a report.
        let bytes = mtu_bytes.max(MTU_MIN);
        if bytes < self.path_mtu(remote.ip()) {
            self.path_mtus.note(remote.ip(), (bytes, false), now);
        }
        if let Some(id) = self.connections.get(&addresses).copied().filter(|_| is_tcp) {
            self.with_connection(now, id, Connection::path_shrank);
        }
    }

    /// Returns the MTU to a destination.
    pub(super) fn path_mtu(&self, destination: IpAddr) -> u32 {
        let interface = self.way(destination).map_or(InterfaceId(0), |(interface, ..)| interface);
        self.path_mtus.of(destination, self.interfaces[interface.0 as usize].config.mtu_bytes, self.now)
    }

    /// Notes that an interface lost a packet that was too long for its destination. Later datagrams
    /// to it go in fragments of at most `mtu_bytes` (`ipoib_cm_skb_too_long` of Linux).
    pub fn too_long(&mut self, now: SimTime, interface: InterfaceId, destination: IpAddr, mtu_bytes: u32) {
        self.path_mtus.note(scope::on_link(destination, interface), (mtu_bytes, true), now);
        if let Some(at) = self.interfaces.get_mut(interface.0 as usize) {
            at.counters.sent_dropped += 1;
        }
    }
}
