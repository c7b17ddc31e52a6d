//! The connection manager of programs (`/dev/infiniband/rdma_cm`).

use crate::host::cm::{Command, LocalPort, Path, Port, Subnet};
use crate::host::network;
use crate::host::objects::Object;
use crate::process::processes::Processes;
use crate::protocol::Caller;
use crate::rpc::room::Verbs;
use crate::scheduler::agenda::Event;
use softband_fabric::World;
use softband_ipc::calls::{self, CmCommand, CmReply, WithTail, readiness};
use softband_ipc::layout::PAYLOAD_BYTES;
use softband_model::management::ManagementPacket;
use softband_model::verbs::api::AddressVector;
use softband_sim::{SimDuration, SimTime};
use softband_spec::HostSpec;
use softband_types::{Gid, Lid, LinkLayer, LinkRate, LinkSpeed, Mtu, PKey, PortNumber, ServiceLevel};
use softband_wire::mad::{MtuCode, RateCode};

/// Longest time of a packet, as path records of OpenSM state it by default: 1.07 s.
const PACKET_LIFE_TIME: u8 = 18;
/// Longest time of a frame, as the kernel assumes it (`CMA_IBOE_PACKET_LIFETIME`): 0.27 s.
const PACKET_LIFE_TIME_ON_ETHERNET: u8 = 16;

impl Verbs<'_> {
    pub(crate) fn cm_open(&mut self, caller: Caller, (): &()) -> Result<calls::Object, i32> {
        let host = self.processes[caller.process].host();
        let part = &self.world.spec().hosts[host].part;
        // In wall pace a wakeup costs the host's own time.
        let wakeup = if self.scheduler.is_wall() { SimDuration::ZERO } else { part.event_wakeup };
        let object = self.host.add(Object::ConnectionManager);
        self.host.cm_mut().open(object, host, wakeup);
        self.processes[caller.process].hold(object);
        Ok(calls::Object { object, reserved: 0 })
    }

    pub(crate) fn cm_command(&mut self, caller: Caller, request: &WithTail<CmCommand, u8>) -> Result<WithTail<CmReply, u8>, i32> {
        let head = &request.head;
        let object = self.processes[caller.process].held(head.object)?;
        if head.number == CmCommand::ANNOUNCE {
            self.announce_unread(object);
            return Ok(WithTail { head: CmReply { len: 0, withdrawn: 0 }, tail: Vec::new() });
        }
        let bytes = request.tail.get(..head.len as usize).ok_or(libc::EPROTO)?;
        let room = (head.room as usize).min(PAYLOAD_BYTES - size_of::<CmReply>());
        let command = Command::parse(head.number, room, bytes)?;
        if let Command::Migrate { from, .. } = command {
            self.processes[caller.process].held(from).map_err(|_| libc::EINVAL)?;
        }
        let subnet = Fabric { world: self.world, processes: self.processes, is_starting: self.is_starting() };
        let outcome = self.host.cm_mut().command(object, &command, room, &subnet, self.scheduler.now());
        self.settle_cm();
        let reply = outcome?;
        let head = CmReply { len: reply.len() as u32, withdrawn: self.host.cm().withdrawn() };
        Ok(WithTail { head, tail: reply })
    }

    /// Sends a byte for each unread event of a channel, in wall pace. The program has taken all bytes.
    fn announce_unread(&mut self, object: u32) {
        if self.scheduler.is_wall() {
            let unread = self.host.cm().unread(object);
            for _ in 0..unread {
                self.plane().tell_of_event(object);
            }
        }
    }

    /// Hands a MAD that has arrived at a port to the connection manager. Returns whether it is for the
    /// manager.
    pub(crate) fn cm_arrived(&mut self, port: Port, packet: &ManagementPacket) -> bool {
        let subnet = Fabric { world: self.world, processes: self.processes, is_starting: self.is_starting() };
        let is_for_manager = self.host.cm_mut().arrive(port, packet, &subnet, self.scheduler.now());
        if is_for_manager {
            self.settle_cm();
        }
        is_for_manager
    }

    /// Ends memberships of a port in multicast groups that an event of the port ends in the kernel
    /// (`mcast_event_handler` in `multicast.c`).
    pub(crate) fn cm_port_event(&mut self, port: Port, event: u32) {
        /// PORT_ERR, LID_CHANGE and CLIENT_REREGISTER of `ibv_event_type`.
        const ENDING: [u32; 3] = [10, 11, 17];
        if ENDING.contains(&event) {
            self.host.cm_mut().groups_lost(port, self.scheduler.now());
            self.settle_cm();
        }
    }

    /// Returns whether programs may start that the engine does not know yet. In wall pace this is always so.
    fn is_starting(&self) -> bool {
        self.scheduler.is_wall() || self.scheduler.now() == SimTime::ZERO
    }

    /// Refuses the requests that wait for a listener on a host whose programs have ended.
    pub(crate) fn cm_refuse_seekers_of(&mut self, host: usize) {
        self.host.cm_mut().refuse_seekers_of(host);
        self.settle_cm();
    }

    /// Repeats messages without answers, and ends waits.
    pub(crate) fn cm_expires(&mut self) {
        self.host.cm_mut().expire(self.scheduler.now());
        self.settle_cm();
    }

    /// Sends the packets that the last operation has left, announces its events, and schedules the
    /// next deadline.
    fn settle_cm(&mut self) {
        let now = self.scheduler.now().max(self.world.now());
        for ((hca, port), packet) in self.host.cm_mut().take_outgoing() {
            self.world.send_management(hca, port, packet, now);
        }
        for (at, object) in self.host.cm_mut().take_changed() {
            self.scheduler.push(at, u32::MAX, Event::ObjectChanged { object, edge: readiness::READABLE });
        }
        // In wall pace the main loop looks at the deadline.
        if !self.scheduler.is_wall()
            && let Some(at) = self.host.cm_mut().take_due()
        {
            self.scheduler.push(at.max(now), u32::MAX, Event::CmExpires);
        }
    }
}

/// The subnet as the engine knows it.
struct Fabric<'a> {
    world: &'a World,
    processes: &'a Processes,
    is_starting: bool,
}

impl Fabric<'_> {
    fn facts(&self, host: usize, (hca, port): Port) -> Option<LocalPort> {
        let snapshot = self.world.port(hca, port)?;
        // On Ethernet the interface's IPv4 address follows the link-local one.
        let (gid_index, gid) = (0..).zip(snapshot.gids).filter_map(|(index, gid)| Some((index, gid?))).last()?;
        let pkey = self.world.pkeys(hca).first().copied().unwrap_or(PKey(0xFFFF));
        let interface = if snapshot.link_layer == LinkLayer::Ethernet { Some(u32::from_be_bytes(gid.ipv4()?)) } else { None };
        let (lid, sm_lid, node_guid) = (snapshot.lid, snapshot.sm_lid, self.world.node_guid(hca));
        Some(LocalPort { host, hca, port, lid, gid, gid_index, interface, node_guid, pkey, pkey_index: 0, sm_lid })
    }

    /// Returns the host with an interface on Ethernet that has this address.
    fn host_of_interface(&self, ip: u32) -> Option<usize> {
        let (hca, _) = self.world.port_with_gid(Gid::of_ipv4(ip.to_be_bytes()))?;
        let (host, index) = self.world.place_of(hca);
        self.world.spec().hosts[host].hcas[index].nic.is_none().then_some(host)
    }
}

impl Subnet for Fabric<'_> {
    fn host_of(&self, ip: u32) -> Option<usize> {
        let own = ip.checked_sub(network::address(0)).map(|host| host as usize);
        own.filter(|host| *host < self.world.spec().hosts.len()).or_else(|| self.host_of_interface(ip))
    }

    fn address_of(&self, host: usize) -> u32 {
        network::address(host)
    }

    fn ports(&self, host: usize) -> Vec<LocalPort> {
        let hcas = self.world.spec().hosts.get(host).into_iter().flat_map(HostSpec::verbs_devices);
        let numbers = hcas.flat_map(|(index, hca)| (1..=hca.part.ports).map(move |port| (index, PortNumber(port))));
        let ports = numbers.filter_map(|(index, port)| self.facts(host, (self.world.hca_id(host, index), port)));
        // A port of InfiniBand without a cable knows no subnet manager, and one of Ethernet has no addresses.
        let mut ports: Vec<_> = ports.filter(|port| port.interface.is_some() || port.sm_lid != Lid::NONE).collect();
        ports.sort_by_key(|port| port.interface.is_some());
        ports
    }

    fn port_with_gid(&self, gid: Gid) -> Option<LocalPort> {
        let port = self.world.port_with_gid(gid).and_then(|port| self.local_port(port));
        port.filter(|port| port.interface.is_none() && port.sm_lid != Lid::NONE)
    }

    fn pkeys(&self, port: &LocalPort) -> &[PKey] {
        self.world.pkeys(port.hca)
    }

    fn local_port(&self, (hca, port): Port) -> Option<LocalPort> {
        let (host, _) = self.world.place_of(hca);
        self.facts(host, (hca, port))
    }

    fn may_listen(&self, host: usize) -> bool {
        self.is_starting || self.processes.any(|process| process.host() == host && process.is_alive())
    }

    fn path(&self, from: &LocalPort, to: &LocalPort) -> Option<Path> {
        let state = |port: &LocalPort| self.world.port(port.hca, port.port).filter(|port| port.active);
        let (source, destination) = (state(from)?, state(to)?);
        let mtu = self.world.path_mtu((from.hca, from.port), (to.hca, to.port))?;
        let is_ethernet = from.interface.is_some();
        if is_ethernet != to.interface.is_some() {
            return None;
        }
        let vector = AddressVector { dlid: to.lid, port: from.port, ..AddressVector::default() };
        let service_level = if is_ethernet { ServiceLevel(0) } else { self.world.resolve(from.hca, &vector).ok()?.service_level };
        let rate = [source.rate, destination.rate].into_iter().min_by_key(|rate| tenths(*rate))?;
        Some(Path {
            source: *from,
            dlid: to.lid,
            dgid: to.gid,
            service_level,
            mtu: MtuCode(code_of(mtu)),
            rate: rate_code(rate),
            packet_life_time: if is_ethernet { PACKET_LIFE_TIME_ON_ETHERNET } else { PACKET_LIFE_TIME },
            traffic_class: 0,
        })
    }
}

fn code_of(mtu: Mtu) -> u8 {
    Mtu::ALL.iter().position(|other| *other == mtu).map_or(0, |index| index as u8 + 1)
}

/// Returns the nominal rate of a link in tenths of a gigabit a second.
fn tenths(rate: LinkRate) -> u64 {
    let lane = match rate.speed {
        LinkSpeed::Gigabit => 10,
        LinkSpeed::Sdr => 25,
        LinkSpeed::Ddr => 50,
        LinkSpeed::Qdr | LinkSpeed::Fdr10 => 100,
        LinkSpeed::Fdr => 140,
        LinkSpeed::Edr => 250,
        LinkSpeed::Hdr => 500,
        LinkSpeed::Ndr => 1_000,
        LinkSpeed::Xdr => 2_000,
    };
    lane * rate.width.lanes()
}

/// Returns the code of a rate (IBTA 15.2.5.16), or 0 for a rate without a code.
fn rate_code(rate: LinkRate) -> RateCode {
    const RATES: [(u64, RateCode); 22] = [
        (25, RateCode::G2_5),
        (50, RateCode::G5),
        (100, RateCode::G10),
        (140, RateCode::G14),
        (200, RateCode::G20),
        (250, RateCode::G25),
        (280, RateCode::G28),
        (300, RateCode::G30),
        (400, RateCode::G40),
        (500, RateCode::G50),
        (560, RateCode::G56),
        (600, RateCode::G60),
        (800, RateCode::G80),
        (1_000, RateCode::G100),
        (1_120, RateCode::G112),
        (1_200, RateCode::G120),
        (1_680, RateCode::G168),
        (2_000, RateCode::G200),
        (3_000, RateCode::G300),
        (4_000, RateCode::G400),
        (6_000, RateCode::G600),
        (8_000, RateCode::G800),
    ];
    let wanted = tenths(rate);
    RATES.iter().find(|(tenths, _)| *tenths == wanted).map_or(RateCode(0), |(_, code)| *code)
}
