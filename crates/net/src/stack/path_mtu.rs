//! Largest packets to destinations that a link does not reach with the MTU of its interface.

use super::Stack;
use crate::interface::InterfaceId;
use crate::scope;
use softband_sim::{SimDuration, SimTime};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Life of an entry (`ip_rt_mtu_expires` of Linux).
const LIFE: SimDuration = SimDuration::from_micros(600_000_000);

/// Most entries. Programs that only ask cannot fill the memory.
const ENTRIES_MAX: usize = 1_024;

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
    /// Notes that an interface lost a packet that was too long for its destination. Later datagrams
    /// to it go in fragments of at most `mtu_bytes` (`ipoib_cm_skb_too_long` of Linux).
    pub fn too_long(&mut self, now: SimTime, interface: InterfaceId, destination: IpAddr, mtu_bytes: u32) {
        self.path_mtus.note(scope::on_link(destination, interface), mtu_bytes, now);
        if let Some(at) = self.interfaces.get_mut(interface.0 as usize) {
            at.counters.sent_dropped += 1;
        }
    }
}
