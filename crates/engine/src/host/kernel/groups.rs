//! Memberships of interfaces in multicast groups: requests to subnet administration, and their ends.

use super::agenda::{Agenda, Due};
use super::management::Network;
use super::paths::Paths;
use super::store::PacketStore;
use super::{Common, Kernels};
use crate::host::cm::memberships::{Memberships, Wish};
use crate::host::cm::path::LocalPort;
use softband_fabric::World;
use softband_net::InterfaceId;
use softband_sim::{SimDuration, SimTime};
use std::collections::BTreeMap;

/// Joins that fail in a row before the interface waits for an event of its port. Linux goes on for
/// ever; a run would never end.
const JOINS_MAX: u32 = 32;
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
            sdp_queues: BTreeMap::new(),
            ports: BTreeMap::new(),
            memberships: Memberships::of_interfaces(),
            paths: Paths::default(),
            wishes: BTreeMap::new(),
            last_wish: 0,
            failed_joins: BTreeMap::new(),
            expires: None,
            expiry: None,
        }
    }

    /// Begins to join a group, unless the interface is about to. The wish gets whether it may create
    /// the group: it may after a plain join has failed.
    pub(super) fn join(&mut self, of: (usize, InterfaceId), port: LocalPort, wish: impl Fn(bool) -> Wish, now: SimTime) {
        let wish = wish(self.failed_joins.get(&of).is_some_and(|failed| failed % 2 == 1));
        if self.wishes.values().any(|other| *other == of) {
            return;
        }
        self.last_wish = self.last_wish.wrapping_add(1);
        self.wishes.insert(self.last_wish, of);
        self.memberships.join(self.last_wish, port, wish, now);
    }

    /// Plans another attempt to join after one that failed. Returns whether there is none.
    fn join_again(&mut self, of: (usize, InterfaceId), error: i32, now: SimTime) -> bool {
        let failed = self.failed_joins.entry(of).or_default();
        *failed += u32::from(error != libc::ENETRESET);
        if *failed >= JOINS_MAX {
            return true;
        }
        // A membership that a manager has ended is asked for at once, and so is a new group.
        let is_urgent = error == libc::ENETRESET || error == libc::EINVAL && *failed % 2 == 1;
        let wait = if is_urgent { SimDuration::ZERO } else { RETRY };
        self.agenda.push(now + wait, Due::Join { host: of.0, interface: of.1 });
        false
    }

    pub(super) fn expire(&mut self, now: SimTime) {
        self.expires = None;
        self.memberships.expire(now);
    }
}

impl Kernels {
    /// Lets interfaces join their groups before the run, if the subnet is configured before it.
    pub(super) fn join_before_run(&mut self, world: &mut World) {
        // First to join groups, then to create those that do not exist.
        for _ in 0..2 {
            for ((hca, port), packet) in self.common.memberships.take_outgoing() {
                let answers = world.ask_administration((*packet).clone());
                if answers.is_empty() {
                    world.send_management(hca, port, packet, SimTime::ZERO);
                }
                for answer in answers {
                    self.common.memberships.arrive((hca, port), &answer, SimTime::ZERO);
                }
            }
            self.note_joins(world, SimTime::ZERO);
            self.execute(world, SimTime::ZERO);
        }
        self.settle_groups(world, SimTime::ZERO);
    }

    /// Sends the requests that the last operation has left, and tells interfaces of the ends of
    /// their joins.
    pub(super) fn settle_groups(&mut self, world: &mut World, now: SimTime) {
        loop {
            for ((hca, port), packet) in self.common.memberships.take_outgoing() {
                world.send_management(hca, port, packet, now.max(world.now()));
            }
            if !self.note_joins(world, now) {
                break;
            }
        }
        if let Some(at) = self.common.memberships.next_deadline()
            && self.common.expires.is_none_or(|set| at < set)
        {
            self.common.expires = Some(at);
            self.common.agenda.replace(&mut self.common.expiry, at, Due::GroupsExpire);
        }
    }
    /// Tells interfaces of the ends of their joins. Returns whether there was any.
    fn note_joins(&mut self, world: &mut World, now: SimTime) -> bool {
        let outcomes = self.common.memberships.take_outcomes();
        let has_any = !outcomes.is_empty();
        for (number, outcome) in outcomes {
            let Some((host, interface)) = self.common.wishes.get(&number).copied() else { continue };
            match outcome {
                Ok(record) => {
                    self.common.failed_joins.remove(&(host, interface));
                    self.hosts[host].joined(world, &mut self.common, now, interface, &record);
                }
                Err(error) => {
                    self.common.wishes.remove(&number);
                    if self.common.join_again((host, interface), error, now)
                        && let Some((_, link)) = self.hosts[host].ipoib(interface)
                    {
                        link.give_up(&mut self.common, now);
                    }
                }
            }
        }
        has_any
    }
}
