//! Memberships of interfaces in multicast groups: requests to subnet administration, and their ends.

use super::agenda::{Agenda, Due};
use super::management::Network;
use super::store::PacketStore;
use super::{Common, Kernels};
use crate::host::cm::memberships::{Memberships, Wish};
use crate::host::cm::path::LocalPort;
use softband_fabric::World;
use softband_net::InterfaceId;
use softband_sim::{SimDuration, SimTime};
use std::collections::BTreeMap;

/// Wait after a join that failed (`ipoib_mcast_join_complete` of the kernel).
const RETRY: SimDuration = SimDuration::from_micros(1_000_000);

impl Common {
    pub(super) fn new(network: Network) -> Self {
        Self {
            agenda: Agenda::default(),
            network,
            news: Vec::new(),
            store: PacketStore::default(),
            queues: BTreeMap::new(),
            memberships: Memberships::of_interfaces(),
            wishes: BTreeMap::new(),
            last_wish: 0,
            expires: None,
        }
    }

    /// Begins to join a group, unless the interface is about to.
    pub(super) fn join(&mut self, of: (usize, InterfaceId), port: LocalPort, wish: Wish, now: SimTime) {
        if self.wishes.values().any(|other| *other == of) {
            return;
        }
        self.last_wish = self.last_wish.wrapping_add(1);
        self.wishes.insert(self.last_wish, of);
        self.memberships.join(self.last_wish, port, wish, now);
    }

    pub(super) fn expire(&mut self, now: SimTime) {
        self.expires = None;
        self.memberships.expire(now);
    }
}

impl Kernels {
    /// Sends the requests that the last operation has left, and tells interfaces of the ends of
    /// their joins.
    pub(super) fn settle_groups(&mut self, world: &mut World, now: SimTime) {
        loop {
            for ((hca, port), packet) in self.common.memberships.take_outgoing() {
                world.send_management(hca, port, packet, now.max(world.now()));
            }
            let outcomes = self.common.memberships.take_outcomes();
            if outcomes.is_empty() {
                break;
            }
            for (number, outcome) in outcomes {
                let Some((host, interface)) = self.common.wishes.get(&number).copied() else { continue };
                match outcome {
                    Ok(record) => self.hosts[host].joined(world, &mut self.common, now, interface, &record),
                    Err(error) => {
                        self.common.wishes.remove(&number);
                        // A membership that a manager has ended is asked for at once.
                        let wait = if error == libc::ENETRESET { SimDuration::ZERO } else { RETRY };
                        self.common.agenda.push(now + wait, Due::Join { host, interface });
                    }
                }
            }
        }
        if let Some(at) = self.common.memberships.next_deadline()
            && self.common.expires.is_none_or(|set| at < set)
        {
            self.common.expires = Some(at);
            self.common.agenda.push(at, Due::GroupsExpire);
        }
    }
}
