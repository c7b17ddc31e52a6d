//! Largest packets to destinations that a link does not reach with the MTU of its interface.

use super::{Addresses, Stack};
use crate::interface::InterfaceId;
use crate::scope;
use crate::tcp::Connection;
use softband_sim::{SimDuration, SimTime};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Life of an entry (`ip_rt_mtu_expires` of Linux).
const LIFE: SimDuration = SimDuration::from_micros(600_000_000);

/// Most entries. Programs that only ask cannot fill the memory.
const ENTRIES_MAX: usize = 1_024;

/// Least MTU that a report can state (`ip_rt_min_pmtu` of Linux).
const MTU_MIN: u32 = 552;

/// MTUs of destinations, each with the end of its life.
#[derive(Debug, Default)]
pub(super) struct PathMtus(BTreeMap<IpAddr, (u32, SimTime)>);

impl PathMtus {
    /// Returns the MTU to a destination, at most that of its interface.
    pub(super) fn of(&self, destination: IpAddr, interface_bytes: u32, now: SimTime) -> u32 {
        let known = self.0.get(&destination).filter(|(_, until)| *until > now);
        known.map_or(interface_bytes, |(bytes, _)| interface_bytes.min(*bytes))
    }

    fn note(&mut self, destination: IpAddr, bytes: u32, now: SimTime) {
        if self.0.len() >= ENTRIES_MAX && !self.0.contains_key(&destination) {
            self.0.pop_first();
        }
        self.0.insert(destination, (bytes, now.saturating_add(LIFE)));
    }
}

impl Stack {
    /// Notes that a router takes packets of at most `mtu_bytes` to a destination. Connections to it send
    /// smaller packets, and datagrams leave in fragments.
    pub(super) fn path_shrank(&mut self, now: SimTime, addresses: Addresses, mtu_bytes: u32) {
        let (local, remote) = addresses;
        let is_known = self.is_local(local.ip()) && !self.is_local(remote.ip());
        // Linux believes in no smaller one (`ip_rt_min_pmtu`), and a path never grows by such a report.
        let bytes = mtu_bytes.max(MTU_MIN);
        if !is_known || bytes >= self.path_mtu(remote.ip()) {
            return;
        }
        self.path_mtus.note(remote.ip(), bytes, now);
        let concerned: Vec<_> = self.connections.iter().filter(|((_, to), _)| to.ip() == remote.ip()).map(|(_, id)| *id).collect();
        for id in concerned {
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
        self.path_mtus.note(scope::on_link(destination, interface), mtu_bytes, now);
        if let Some(at) = self.interfaces.get_mut(interface.0 as usize) {
            at.counters.sent_dropped += 1;
        }
    }
}
