//! Kernels of the hosts: TCP/IP on simulated time over the interfaces of the fabric file.
//!
//! A run has kernels if any host has an interface whose packets cross modelled links. Then all
//! sockets of all hosts use them. Each host has a [`Stack`]. This module turns its effects into
//! events, prices its work, and carries its frames over links.
//!
//! The caller drives it: [`Kernels::next_time`] names the next event, [`Kernels::run`] executes it.

mod agenda;
mod connections;
mod core;
mod ethernet;
mod groups;
mod host;
mod interrupts;
mod ipoib;
mod kind;
mod link_local;
mod management;
mod paths;
mod sdp;
pub(crate) mod settings;
mod store;

use crate::host::cm::memberships::Memberships;
use agenda::{Agenda, Alarm, Due};
use host::HostKernel;
use management::Network;
use paths::{Expired, Paths, Query};
use softband_fabric::World;
use softband_model::management::ManagementPacket;
use softband_model::verbs::api::{Completion, HostMemory};
use softband_net::{Call, Events, InterfaceId, NetError, SocketId, Stack};
use softband_sim::{SimDuration, SimTime};
use softband_types::{CqHandle, HcaId, PortNumber};
use softband_wire::mad::PathRecord;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{AllMemory, PacketStore};

/// News of a socket: its time, its host, and the events.
pub(crate) type News = (SimTime, usize, SocketId, Events);

/// The kernels of all hosts.
pub(crate) struct Kernels {
    hosts: Vec<HostKernel>,
    common: Common,
    /// Objects of programs by host and socket.
    objects: BTreeMap<(usize, SocketId), u32>,
    /// Times for which the caller has events of its own, the earliest last.
    scheduled: Vec<SimTime>,
}

/// State that the kernels share.
struct Common {
    agenda: Agenda,
    network: Network,
    news: Vec<News>,
    store: PacketStore,
    /// Interfaces by their completion queues.
    queues: BTreeMap<CqHandle, (usize, InterfaceId)>,
    /// Ends of connections of SDP by their completion queues.
    sdp_queues: BTreeMap<CqHandle, (usize, u32)>,
    /// Interfaces by their ports of Ethernet.
    ports: BTreeMap<(HcaId, PortNumber), (usize, InterfaceId)>,
    memberships: Memberships,
    /// Queries for paths.
    paths: Paths,
    /// Interfaces by the numbers of their wishes to be members.
    wishes: BTreeMap<u32, (usize, InterfaceId)>,
    last_wish: u32,
    /// Joins of interfaces that failed in a row.
    failed_joins: BTreeMap<(usize, InterfaceId), u32>,
    /// Deadline of the memberships for which the agenda has an event.
    expires: Option<SimTime>,
    expiry: Option<Alarm>,
}

impl Kernels {
    /// Creates the kernels of a fabric's hosts. Returns `None` if no interface of the fabric sends
    /// packets over modelled links, unless the fabric needs kernels `in_any_case`. `seed` chooses ports and first sequence numbers.
    ///
    /// # Errors
    /// If the fabric has an interface that the engine does not offer.
    pub(crate) fn new(world: &mut World, seed: u64, in_any_case: bool) -> Result<Option<Self>, String> {
        if !in_any_case && !world.spec().has_modelled_network() {
            return Ok(None);
        }
        let spec = world.spec().clone();
        let mut common = Common::new(Network::of(&spec));
        let mut hosts = Vec::new();
        for number in 0..spec.hosts.len() {
            hosts.push(HostKernel::new(&spec, number, seed, world, &mut common)?);
        }
        let mut kernels = Self { hosts, common, objects: BTreeMap::new(), scheduled: Vec::new() };
        kernels.join_before_run(world);
        Ok(Some(kernels))
    }

    /// Carries out a program's call at `now`. Returns its result, and the time that it costs the
    /// calling thread. The World may have gone on since `now`, and takes no request in its past.
    pub(crate) fn call<C: Call>(&mut self, world: &mut World, now: SimTime, host: usize, call: C) -> (Result<C::Reply, NetError>, SimDuration) {
        let Some(kernel) = self.hosts.get_mut(host) else { return (Err(NetError::BadSocket), SimDuration::ZERO) };
        let now = now.max(world.now());
        kernel.call(world, &mut self.common, now, call)
    }

    /// Returns the stack of a host.
    pub(crate) fn stack(&self, host: usize) -> &Stack {
        self.hosts[host].stack()
    }

    /// Gives a setting of a host's kernel a value.
    ///
    /// # Errors
    /// ENOENT for a setting that the model does not have, EINVAL for a bad value.
    pub(crate) fn change_setting(&mut self, host: usize, name: &str, value: &str) -> Result<(), i32> {
        let kernel = self.hosts.get_mut(host).ok_or(libc::ENOENT)?;
        settings::change(kernel.stack_mut().kernel_mut(), name, value)
    }

    /// Returns whether a host has not died.
    pub(crate) fn is_alive(&self, host: usize) -> bool {
        self.hosts.get(host).is_some_and(HostKernel::is_alive)
    }

    /// Names the object by which programs know a socket. News of the socket concern it.
    pub(crate) fn register(&mut self, host: usize, socket: SocketId, object: u32) {
        self.objects.insert((host, socket), object);
    }

    /// Forgets the object of a socket.
    pub(crate) fn forget(&mut self, host: usize, socket: SocketId) {
        self.objects.remove(&(host, socket));
    }

    /// Returns the object of a socket, if it has one.
    pub(crate) fn object_of(&self, host: usize, socket: SocketId) -> Option<u32> {
        self.objects.get(&(host, socket)).copied()
    }

    /// Takes the news of sockets so far, in the order of their origin.
    pub(crate) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.common.news)
    }

    /// Returns the time of the next event of timers, links and cores.
    pub(crate) fn next_time(&self) -> Option<SimTime> {
        self.common.agenda.next_time()
    }

    /// Returns the time of the next event if the caller has none of its own for it yet.
    pub(crate) fn take_due(&mut self) -> Option<SimTime> {
        let next = self.next_time()?;
        if self.scheduled.last().is_some_and(|at| *at <= next) {
            return None;
        }
        self.scheduled.push(next);
        Some(next)
    }

    /// Executes the events up to `now`.
    pub(crate) fn run(&mut self, world: &mut World, now: SimTime) {
        while self.scheduled.pop_if(|at| *at <= now).is_some() {}
        let now = now.max(world.now());
        self.execute(world, now);
        self.settle_groups(world, now);
    }

    fn execute(&mut self, world: &mut World, now: SimTime) {
        while let Some((at, due)) = self.common.agenda.pop_until(now) {
            match due {
                Due::Timer { host } => self.hosts[host].timer(world, &mut self.common, now),
                Due::Sent { host, interface } => self.hosts[host].sent(world, &mut self.common, now, interface),
                Due::FrameSent { host, interface, frame } => self.hosts[host].frame_done(world, &mut self.common, now, (interface, frame)),
                Due::TooLong { host, interface, destination, mtu_bytes } => self.hosts[host].too_long(now, interface, destination, mtu_bytes),
                Due::Interrupt { host, interface } => self.hosts[host].interrupt(&mut self.common, at, interface),
                Due::Taken { host, interface } => self.hosts[host].taken(world, &mut self.common, now, interface),
                Due::Join { host, interface } => self.hosts[host].join(world, &mut self.common, now, interface),
                Due::Connect { host, interface, to } => self.connect(world, now, (host, interface), to),
                Due::Disconnect { host, interface, to, qpn } => self.disconnect(world, now, (host, interface), (to, qpn)),
                Due::SdpConnect { host, end } => self.sdp_connect(world, now, (host, end)),
                Due::SdpLost { host, end, error } => self.hosts[host].sdp_failed(world, &mut self.common, now, (end, error)),
                Due::SdpRelease { host, end } => self.sdp_release(world, now, (host, end)),
                Due::SdpInterrupt { host, interface } => self.hosts[host].sdp_interrupt(&mut self.common, at, interface),
                Due::SdpTaken { host, interface } => self.sdp_taken(world, now, (host, interface)),
                Due::GroupsExpire => self.common.expire(now),
                Due::PathExpires { transaction } => self.path_expires(world, now, transaction),
                Due::Arrived { host, interface, frame } => self.hosts[host].arrived(world, &mut self.common, now, interface, frame),
            }
        }
    }

    /// Returns the memory of kernels and programs together, for the World.
    pub(crate) fn memory_beside<'a>(&'a mut self, programs: &'a mut dyn HostMemory) -> AllMemory<'a> {
        AllMemory { packets: &mut self.common.store, programs }
    }

    /// Notes a completion of a kernel's queue pair.
    pub(crate) fn completed(&mut self, world: &mut World, now: SimTime, cq: CqHandle, completion: &Completion) {
        if let Some((host, end)) = self.common.sdp_queues.get(&cq).copied() {
            self.hosts[host].sdp_completed(world, &mut self.common, now, end, completion);
        } else if let Some((host, interface)) = self.common.queues.get(&cq).copied() {
            self.hosts[host].completed(world, &mut self.common, now, interface, completion);
        }
    }

    /// Notes that a frame has left a port of Ethernet.
    pub(crate) fn frame_sent(&mut self, world: &mut World, now: SimTime, port: (HcaId, PortNumber)) {
        if let Some((host, interface)) = self.common.ports.get(&port).copied() {
            self.hosts[host].frame_sent(world, &mut self.common, now, interface);
        }
    }

    /// Notes a frame that has arrived at a port of Ethernet. Ports without an interface discard it.
    pub(crate) fn frame_arrived(&mut self, world: &mut World, now: SimTime, port: (HcaId, PortNumber), frame: Arc<[u8]>) {
        match self.common.ports.get(&port).copied() {
            Some((host, interface)) => self.hosts[host].frame_arrived(world, &mut self.common, now, interface, frame),
            None => world.return_frames(port.0, port.1, 1),
        }
    }

    /// Handles a MAD that has arrived at a port. Returns whether it answers a request of a kernel.
    pub(crate) fn arrived(&mut self, world: &mut World, now: SimTime, port: (HcaId, PortNumber), packet: &ManagementPacket) -> bool {
        if let Some((query, record)) = self.common.paths.take_answer(port, packet) {
            self.path_found(world, now, &query, record);
            return true;
        }
        let is_answer = self.common.memberships.arrive(port, packet, now);
        if is_answer {
            self.settle_groups(world, now);
        }
        is_answer
    }

    fn path_expires(&mut self, world: &mut World, now: SimTime, transaction: u64) {
        match self.common.paths.expire(transaction) {
            Some(Expired::Again((hca, port), packet)) => {
                world.send_management(hca, port, packet, now);
                self.common.agenda.push(now + paths::TIMEOUT, Due::PathExpires { transaction });
            }
            Some(Expired::Over(query)) => self.path_found(world, now, &query, None),
            None => {}
        }
    }

    fn path_found(&mut self, world: &mut World, now: SimTime, query: &Query, record: Option<PathRecord>) {
        let (host, interface) = query.of;
        if let Some((_, link)) = self.hosts[host].ipoib(interface) {
            link.path_found(world, &mut self.common, now, query.to, record);
        }
    }

    /// Notes an event of a port, numbered as in `enum ibv_event_type`.
    pub(crate) fn port_event(&mut self, world: &mut World, now: SimTime, port: (HcaId, PortNumber), event: u32) {
        let (host, _) = world.place_of(port.0);
        self.hosts[host].port_event(world, &mut self.common, now, port, event);
        self.settle_groups(world, now);
    }

    /// Returns the number of reads that connections of SDP have posted.
    #[cfg(test)]
    fn sdp_reads(&mut self) -> u32 {
        self.hosts.iter_mut().map(|host| host.sdp_mut().reads()).sum()
    }

    /// Returns the number of ends that connections of SDP have.
    #[cfg(test)]
    fn sdp_ends(&mut self) -> usize {
        self.hosts.iter_mut().map(|host| host.sdp_mut().count()).sum()
    }

    /// Stops the kernel of a host that has died: it answers no more.
    pub(crate) fn host_died(&mut self, host: usize) {
        if let Some(kernel) = self.hosts.get_mut(host) {
            kernel.die();
            self.common.network.lose(host);
        }
    }
}

#[cfg(test)]
mod tests;
