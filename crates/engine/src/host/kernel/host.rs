//! The kernel of a host: its stack, the links of its interfaces, and the cores that serve them.

use super::Common;
use super::agenda::{Alarm, Due};
use super::core::{Core, price};
use super::ethernet::{Card, EthernetLink, Place as EthernetPlace};
use super::interrupts::Moderation;
use super::ipoib::{IpoibLink, Offloads, Place, SEND_RING_PACKETS};
use super::kind::Kind;
use super::link_local;
use super::management::{ManagementLink, Silence};
use super::sdp::Sdp;
use crate::host::network;
use softband_fabric::World;
use softband_ipc::interfaces;
use softband_model::parts::KernelPath;
use softband_model::verbs::api::{Completion, VerbsError};
use softband_net::{Body, Call, Charge, Effect, Frame, InterfaceConfig, InterfaceId, LinkAddress, LinkDestination, NetError, Route, Stack, wire};
use softband_sim::{RandomStream, SimDuration, SimTime};
use softband_spec::{FabricSpec, InterfaceKind, RouteSpec};
use softband_types::{HcaId, HostId, PortNumber, ProcessId};
use softband_wire::mad::McMemberRecord;
use std::net::IpAddr;
use std::sync::Arc;

/// Frames in the ring of an interface on the management network.
const MANAGEMENT_RING_PACKETS: u32 = 256;
/// Number of the random stream of SDP. The stack has stream 0.
const SDP_STREAM: u64 = 1;

pub(super) struct HostKernel {
    number: usize,
    stack: Stack,
    path: KernelPath,
    /// Links by interface. `lo` has none.
    links: Vec<Link>,
    sdp: Sdp,
    /// Time in which the kernel pins a page of a program for the HCA.
    pin_page: SimDuration,
    /// Event of the stack's timers.
    alarm: Option<Alarm>,
    is_alive: bool,
}

struct Link {
    core: Core,
    kind: Kind,
}

impl HostKernel {
    pub(super) fn new(spec: &FabricSpec, number: usize, seed: u64, world: &mut World, common: &mut Common) -> Result<Self, String> {
        let host = &spec.hosts[number];
        let seed = RandomStream::new(seed, number as u64).next_u64();
        let stack = Stack::new(host.kernel.clone(), seed);
        let links = vec![Link { core: Core::default(), kind: Kind::Loopback }];
        let mut kernel = Self {
            number,
            stack,
            path: host.part.kernel_path,
            links,
            sdp: Sdp::new(RandomStream::new(seed, SDP_STREAM)),
            pin_page: host.part.register_page,
            alarm: None,
            is_alive: true,
        };
        let time = host.kernel.neighbour_retransmit * u64::from(host.kernel.neighbour_requests);
        let silence = Silence { time, packets: host.kernel.neighbour_queue_packets };
        for interface in &host.interfaces {
            let refused = |reason: &dyn std::fmt::Display| format!("hosts.{}.interfaces.{}: {reason}", host.name, interface.name);
            let addresses = interface.addresses.iter().map(|own| softband_net::InterfaceAddress { address: own.address, prefix: own.prefix });
            let mut config = InterfaceConfig {
                name: interface.name.clone(),
                mtu_bytes: interface.mtu_bytes,
                addresses: addresses.collect(),
                link_address: None,
                has_segmentation: true,
                ring_packets: MANAGEMENT_RING_PACKETS,
                queue_packets: host.kernel.transmit_queue_packets,
            };
            let mut super_segment_packets = u32::MAX;
            let kind = match interface.kind {
                InterfaceKind::Management => {
                    Kind::Management(ManagementLink::new(host.part.ethernet_latency, host.part.ethernet_bytes_per_second, silence))
                }
                InterfaceKind::Ipoib { hca, port, mode, pkey } => {
                    let interface = InterfaceId(kernel.links.len() as u32);
                    let owner = ProcessId::of_kernel(HostId(number as u32));
                    let place = Place { host: number, interface, owner, hca: world.hca_id(number, hca), port, pkey, mode };
                    let work = Offloads::of(&host.hcas[hca].part.ipoib_offloads, &host.kernel, mode);
                    let link = kernel.ipoib_link(place, work, world, common).map_err(|error| refused(&error))?;
                    config.link_address = link.address(world);
                    super_segment_packets = link.super_segment_packets();
                    (config.has_segmentation, config.ring_packets) = (work.segmentation, SEND_RING_PACKETS);
                    Kind::Ipoib(Box::new(link))
                }
                InterfaceKind::Ethernet { hca, port } => {
                    let card = Card::of(host.hcas[hca].nic.as_ref(), &kernel.path);
                    let interface = InterfaceId(kernel.links.len() as u32);
                    let place = EthernetPlace { host: number, interface, hca: world.hca_id(number, hca), port };
                    let link = EthernetLink::new(place, &card, world, common).ok_or_else(|| refused(&"no cable ends on its port"))?;
                    config.link_address = link.address();
                    (config.has_segmentation, config.ring_packets) = (card.offloads.segmentation, card.ring_packets);
                    Kind::Ethernet(Box::new(link))
                }
            };
            let placed = interfaces::management(network::address(number)).hardware_address;
            let hardware = config.link_address.as_ref().map_or(placed.as_slice(), LinkAddress::as_slice);
            if let Some(own) = link_local::of(hardware) {
                config.addresses.push(own);
                if let Kind::Management(_) = kind {
                    common.network.add(own.address, (number, InterfaceId(kernel.links.len() as u32)));
                }
            }
            let added = kernel.stack.add_interface(config);
            kernel.stack.limit_super_segments(added, super_segment_packets);
            kernel.links.push(Link { core: Core::default(), kind });
        }
        kernel.add_routes(&host.routes);
        kernel.stack.set_forwarding(spec.forwards(number));
        Ok(kernel)
    }

    /// Makes an interface of IPoIB, which joins its group and offers SDP.
    fn ipoib_link(&mut self, place: Place, work: Offloads, world: &mut World, common: &mut Common) -> Result<IpoibLink, VerbsError> {
        let moderation = Moderation { packets: self.path.moderation_packets, time: self.path.moderation_time };
        let interface = place.interface;
        let mut link = IpoibLink::new(place, (moderation, work), world, common)?;
        link.join(world, common, SimTime::ZERO);
        self.sdp.add(place, moderation);
        self.stack.offer_sdp(interface);
        Ok(link)
    }

    fn add_routes(&mut self, routes: &[RouteSpec]) {
        for route in routes {
            let (network, prefix) = (route.network.address, route.network.prefix);
            let interface = InterfaceId(route.interface as u32 + 1);
            self.stack.add_route(Route { network, prefix, gateway: Some(route.gateway), interface, source: None, metric: 0 });
        }
    }

    pub(super) fn stack(&self) -> &Stack {
        &self.stack
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn stack_mut(&mut self) -> &mut Stack {
        &mut self.stack
    }

    pub(super) fn sdp_mut(&mut self) -> &mut Sdp {
        &mut self.sdp
    }

    pub(super) fn is_alive(&self) -> bool {
        self.is_alive
    }

    pub(super) fn die(&mut self) {
        self.is_alive = false;
    }

    pub(super) fn call<C: Call>(
        &mut self,
        world: &mut World,
        common: &mut Common,
        now: SimTime,
        call: C,
    ) -> (Result<C::Reply, NetError>, SimDuration) {
        let reply = self.stack.call(now, call);
        let end = self.settle(world, common, now, Some(now)).unwrap_or(now);
        (reply, end.saturating_since(now))
    }

    pub(super) fn timer(&mut self, world: &mut World, common: &mut Common, now: SimTime) {
        if self.is_alive {
            self.stack.timer(now);
            self.settle(world, common, now, None);
        }
    }

    pub(super) fn sent(&mut self, world: &mut World, common: &mut Common, now: SimTime, interface: InterfaceId) {
        if self.is_alive {
            self.stack.tx_done(now, interface);
            self.settle(world, common, now, None);
        }
    }

    pub(super) fn frame_done(&mut self, world: &mut World, common: &mut Common, now: SimTime, (interface, frame): (InterfaceId, u64)) {
        if self.is_alive {
            self.stack.tx_done_of(now, interface, frame);
            self.settle(world, common, now, None);
        }
    }

    pub(super) fn too_long(&mut self, now: SimTime, interface: InterfaceId, destination: IpAddr, mtu_bytes: u32) {
        self.stack.too_long(now, interface, destination, mtu_bytes);
    }

    pub(super) fn arrived(&mut self, world: &mut World, common: &mut Common, now: SimTime, interface: InterfaceId, frame: Frame) {
        if self.is_alive {
            self.stack.packet_in(now, interface, frame);
            self.settle(world, common, now, None);
        }
    }

    /// Carries out the effects of the stack's last entry. A thread that called pays from its clock
    /// on, and gets its clock back. Without a thread, the cores of the interfaces pay.
    pub(super) fn settle(&mut self, world: &mut World, common: &mut Common, now: SimTime, mut thread: Option<SimTime>) -> Option<SimTime> {
        while let Some(effect) = self.stack.next_effect() {
            match effect {
                Effect::Charge(charge) => self.pay(charge, now, &mut thread),
                Effect::Transmit { interface, to, frame } => {
                    self.pay_checksums(interface, &frame, now, &mut thread);
                    let core = self.links.get(interface.0 as usize).map_or(now, |link| link.core.begin(now));
                    self.transmit(world, common, thread.unwrap_or(core), interface, (to, frame));
                }
                Effect::Sdp { socket, interface, order } => {
                    let core = self.links.get(interface.0 as usize).map_or(now, |link| link.core.begin(now));
                    if let Err(error) = self.sdp.order(world, common, thread.unwrap_or(core), (socket, interface), order) {
                        self.stack.sdp_lost(now, socket, error);
                    }
                }
                Effect::SetTimer(at) => common.agenda.replace(&mut self.alarm, at, Due::Timer { host: self.number }),
                // Other links carry groups of IP over their broadcast group.
                Effect::Join { interface, group } => {
                    if let Some((_, link)) = self.ethernet(interface) {
                        link.join_group(group);
                    }
                }
                Effect::Leave { interface, group } => {
                    if let Some((_, link)) = self.ethernet(interface) {
                        link.leave_group(group);
                    }
                }
                Effect::Ready { socket, events } => common.news.push((thread.unwrap_or(now), self.number, socket, events)),
            }
        }
        thread
    }

    fn pay(&mut self, charge: Charge, now: SimTime, thread: &mut Option<SimTime>) {
        let links = &self.links;
        let is_ideal = |interface: InterfaceId| matches!(links.get(interface.0 as usize), Some(Link { kind: Kind::Management(_), .. }));
        let cost = price(&self.path, self.pin_page, charge, is_ideal);
        match (thread, charge) {
            (Some(clock), _) => *clock += cost,
            (None, Charge::Sent { interface, .. }) => {
                if let Some(link) = self.links.get_mut(interface.0 as usize) {
                    link.core.work(now, cost);
                }
            }
            // The core has paid for a received packet when it took it.
            (None, Charge::Received { .. } | Charge::Call | Charge::Copied { .. } | Charge::Pinned { .. }) => {}
        }
    }

    /// Pays for the checksums of a frame that the card does not compute. Some kernels sum while they
    /// copy, and the price of the copy contains it.
    fn pay_checksums(&mut self, interface: InterfaceId, frame: &Frame, now: SimTime, thread: &mut Option<SimTime>) {
        let is_summed = match frame {
            Frame::Packet(packet) => self.sums(packet.source, matches!(packet.body, Body::Tcp(_))),
            Frame::Neighbour(_) => true,
        };
        if self.stack.kernel().checksum_with_copy || !is_summed {
            return;
        }
        let Some(Link { core, kind }) = self.links.get_mut(interface.0 as usize) else { return };
        let cost = kind.checksum_cost(&self.path, frame.wire_bytes());
        match thread {
            Some(clock) => *clock += cost,
            None if cost > SimDuration::ZERO => {
                core.work(now, cost);
            }
            None => {}
        }
    }

    /// Returns whether the kernel reads the payload of a packet for its checksum. Those that it forwards
    /// pass unread, except segments that it joins (`skb_gro_checksum_validate`), and cuts again.
    fn sums(&self, end: IpAddr, is_tcp: bool) -> bool {
        self.stack.takes(end) || is_tcp && self.links.iter().any(|link| link.kind.joins())
    }

    /// Returns the time that a core needs for the next packet.
    fn receive_cost(&self, common: &Common, interface: InterfaceId) -> SimDuration {
        let Some(Link { kind, .. }) = self.links.get(interface.0 as usize) else { return SimDuration::ZERO };
        let checksum = kind.checksum_cost(&self.path, kind.next_bytes());
        let receiver = || kind.next_packet(common).and_then(|packet| wire::receiver(packet.bytes()));
        let passes = checksum > SimDuration::ZERO && self.stack.forwards() && receiver().is_some_and(|(to, is_tcp)| !self.sums(to, is_tcp));
        self.path.receive_packet + if passes { SimDuration::ZERO } else { checksum }
    }

    fn ethernet(&mut self, interface: InterfaceId) -> Option<(&mut Core, &mut EthernetLink)> {
        match self.links.get_mut(interface.0 as usize)? {
            Link { core, kind: Kind::Ethernet(link) } => Some((core, link)),
            _ => None,
        }
    }

    pub(super) fn ipoib(&mut self, interface: InterfaceId) -> Option<(&mut Core, &mut IpoibLink)> {
        match self.links.get_mut(interface.0 as usize)? {
            Link { core, kind: Kind::Ipoib(link) } => Some((core, link)),
            _ => None,
        }
    }

    /// Returns the interface with a link address, if the host runs.
    pub(super) fn interface_with(&self, world: &World, address: LinkAddress) -> Option<InterfaceId> {
        let has = |link: &Link| matches!(&link.kind, Kind::Ipoib(link) if link.address(world) == Some(address));
        self.links.iter().position(has).filter(|_| self.is_alive).map(|index| InterfaceId(index as u32))
    }

    /// Notes a completion of the interface's queue pair. A card that interrupts starts a core.
    pub(super) fn completed(&mut self, world: &mut World, common: &mut Common, now: SimTime, interface: InterfaceId, completion: &Completion) {
        let Some((_, link)) = self.ipoib(interface) else { return };
        if link.completed(world, common, now, completion) {
            self.start_core(common, now, interface);
        }
    }

    /// Notes that a frame of Ethernet has left the card.
    pub(super) fn frame_sent(&mut self, world: &mut World, common: &mut Common, now: SimTime, interface: InterfaceId) {
        if let Some((_, link)) = self.ethernet(interface) {
            link.frame_sent(world, common, now);
        }
    }

    /// Notes a frame of Ethernet that has arrived. A card that interrupts starts a core.
    pub(super) fn frame_arrived(&mut self, world: &mut World, common: &mut Common, now: SimTime, interface: InterfaceId, frame: Arc<[u8]>) {
        let Some((_, link)) = self.ethernet(interface) else { return };
        if link.frame_arrived(world, common, now, frame) {
            self.start_core(common, now, interface);
        }
    }

    /// Handles the end of the card's wait for more packets.
    pub(super) fn interrupt(&mut self, common: &mut Common, now: SimTime, interface: InterfaceId) {
        if self.links.get(interface.0 as usize).is_some_and(|link| link.kind.awaits_interrupt(now)) {
            self.start_core(common, now, interface);
        }
    }

    /// Lets the core of an interface work. Returns the end of the work.
    pub(super) fn work(&mut self, now: SimTime, interface: InterfaceId, cost: impl FnOnce(&KernelPath) -> SimDuration) -> SimTime {
        let cost = cost(&self.path);
        self.links.get_mut(interface.0 as usize).map_or(now, |link| link.core.work(now, cost))
    }

    fn start_core(&mut self, common: &mut Common, now: SimTime, interface: InterfaceId) {
        let (host, cost) = (self.number, self.path.interrupt + self.receive_cost(common, interface));
        let Some(Link { core, kind }) = self.links.get_mut(interface.0 as usize) else { return };
        kind.begin_polling();
        common.agenda.push(core.work(now, cost), Due::Taken { host, interface });
    }

    /// Hands the packet that a core has taken to the stack. The core takes the next one, if any.
    pub(super) fn taken(&mut self, world: &mut World, common: &mut Common, now: SimTime, interface: InterfaceId) {
        let Some(link) = self.links.get_mut(interface.0 as usize) else { return };
        let (host, path) = (self.number, self.path);
        if let Some((frame, joined)) = link.kind.take_frame(world, common, now) {
            link.core.work(now, path.join_packet * u64::from(joined.packets) + link.kind.checksum_cost(&path, joined.bytes));
            self.arrived(world, common, now, interface, frame);
        }
        let cost = self.receive_cost(common, interface);
        let Some(Link { core, kind }) = self.links.get_mut(interface.0 as usize) else { return };
        if kind.go_on_polling() {
            common.agenda.push(core.work(now, cost), Due::Taken { host, interface });
        }
    }

    pub(super) fn join(&mut self, world: &mut World, common: &mut Common, now: SimTime, interface: InterfaceId) {
        if let Some((_, link)) = self.ipoib(interface) {
            link.join(world, common, now);
        }
    }

    pub(super) fn joined(&mut self, world: &mut World, common: &mut Common, now: SimTime, interface: InterfaceId, record: &McMemberRecord) {
        if let Some((_, link)) = self.ipoib(interface) {
            link.joined(world, common, now, record);
        }
    }

    /// Notes an event of a port at its interfaces.
    pub(super) fn port_event(&mut self, world: &mut World, common: &mut Common, now: SimTime, port: (HcaId, PortNumber), event: u32) {
        for link in &mut self.links {
            if let Kind::Ipoib(link) = &mut link.kind
                && link.port() == port
            {
                link.port_event(world, common, now, event);
            }
        }
    }

    fn transmit(&mut self, world: &mut World, common: &mut Common, at: SimTime, interface: InterfaceId, (to, frame): (LinkDestination, Frame)) {
        let from = (self.number, interface);
        match self.links.get_mut(interface.0 as usize).map(|link| &mut link.kind) {
            Some(Kind::Management(link)) => link.transmit(&common.network, &mut common.agenda, from, at, to, frame),
            Some(Kind::Ipoib(link)) => link.transmit(world, common, at, (to, frame)),
            Some(Kind::Ethernet(link)) => link.transmit(world, common, at, (to, frame)),
            Some(Kind::Loopback) | None => {}
        }
    }
}
