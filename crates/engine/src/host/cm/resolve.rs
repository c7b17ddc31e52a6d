//! Addresses and routes of identifiers.

use super::CmTable;
use super::address::Address;
use super::events::{Kind, Parameters};
use super::fields::Fields;
use super::identifier::{QP_RC, QP_XRC_SEND, Stage};
use super::path::{LocalPort, Path, Subnet, in_partition};
use softband_sim::{SimDuration, SimTime};

/// Most requests that a listener lets wait (`max_backlog` of the kernel).
const BACKLOG_MAX: u32 = 1024;
/// Levels and names of options.
const LEVEL_ID: u32 = 0;
const LEVEL_IB: u32 = 1;
const TOS: u32 = 0;
const REUSE_ADDRESS: u32 = 1;
const ONLY_OWN_FAMILY: u32 = 2;
const ACK_TIMEOUT: u32 = 3;
const PATH: u32 = 1;
/// Bytes of a path record with its flags (`struct ib_path_rec_data`).
const RECORD_BYTES: usize = 72;
/// `IB_PATH_GMP`, `IB_PATH_PRIMARY` and `IB_PATH_BIDIRECTIONAL`.
pub(super) const PATH_FLAGS: u32 = 1 | 2 | 8 | 32;

/// Bytes of a GID's subnet prefix.
const PREFIX_BYTES: usize = 8;

impl CmTable {
    /// Binds an identifier to an address, and to its HCA.
    pub(super) fn bind(&mut self, number: u32, to: Address, subnet: &dyn Subnet) -> Result<(), i32> {
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        if to.is_none() {
            return Err(libc::EAFNOSUPPORT);
        }
        if id.stage != Stage::Idle {
            return Err(libc::EINVAL);
        }
        let port = if to.is_any() { None } else { Some(own_port(id.host, &to, subnet)?) };
        let bound = self.take_port(number, to)?;
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        (id.source, id.port, id.stage) = (bound, port, Stage::Bound);
        Ok(())
    }

    /// Takes the port of an address, or any free port. Returns the address with it.
    fn take_port(&mut self, number: u32, to: Address) -> Result<Address, i32> {
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        let (host, may_share) = (id.host, id.may_share_port);
        let space = if to.is_ib() { to.port_space(id.space).ok_or(libc::EPROTONOSUPPORT)? } else { id.space };
        id.port_space = space;
        let port = if to.port == 0 { self.ports.free(host, space).ok_or(libc::EADDRNOTAVAIL)? } else { to.port };
        let to = to.with_port(space, port);
        self.check_port(number, &to, may_share)?;
        self.ports.add((host, space, port), number);
        Ok(to)
    }

    /// Checks that no other identifier has the port of an address. The numbers of the errors are
    /// those of the kernel's `cma_check_port`.
    fn check_port(&self, number: u32, to: &Address, may_share: bool) -> Result<(), i32> {
        let own = self.ids.get(&number).ok_or(libc::ENOENT)?;
        for user in self.ports.users(own.host, own.port_space, to.port).filter(|user| *user != number) {
            let Some(other) = self.ids.get(&user) else { continue };
            if may_share && other.may_share_port && other.stage != Stage::Listen {
                continue;
            }
            if own.only_own_family && other.only_own_family && !other.source.has_family_of(to) {
                continue;
            }
            if to.is_any() || other.source.is_any() {
                return Err(libc::EADDRNOTAVAIL);
            }
            if to.ip() == other.source.ip() {
                return Err(libc::EADDRINUSE);
            }
        }
        Ok(())
    }

    pub(super) fn listen(&mut self, number: u32, backlog: u32, subnet: &dyn Subnet) -> Result<(), i32> {
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        if id.stage == Stage::Idle {
            self.bind(number, Address::v4(0, 0), subnet)?;
        }
        let id = self.ids.get(&number).ok_or(libc::ENOENT)?;
        if id.stage != Stage::Bound {
            return Err(libc::EINVAL);
        }
        self.check_port(number, &id.source, false)?;
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        id.stage = Stage::Listen;
        id.backlog = if (1..=BACKLOG_MAX).contains(&backlog) { backlog } else { BACKLOG_MAX };
        Ok(())
    }

    /// Resolves an address to a port of the subnet. An address without an answer fails after the
    /// program's time.
    pub(super) fn resolve_address(
        &mut self,
        number: u32,
        (source, destination): (Option<Address>, Address),
        millis: u32,
        subnet: &dyn Subnet,
        now: SimTime,
    ) -> Result<(), i32> {
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        if id.stage == Stage::Idle {
            self.bind(number, source.unwrap_or_else(|| destination.any_of_family()), subnet)?;
        }
        let id = self.ids.get(&number).ok_or(libc::ENOENT)?;
        if id.stage != Stage::Bound || !id.source.has_family_of(&destination) {
            return Err(libc::EINVAL);
        }
        if destination.is_multicast() {
            return self.resolve_group(number, destination, subnet, now);
        }
        if destination.is_ib() {
            return self.resolve_gid(number, destination, subnet, now);
        }
        let (host, space) = (id.host, id.port_space);
        let ip = if destination.is_any() { subnet.address_of(host) } else { destination.ipv4().ok_or(libc::ENETUNREACH)? };
        let (port, own_ip) = port_toward(host, id.port, ip, subnet).ok_or(libc::ENODEV)?;
        let peer = subnet.host_of(ip).and_then(|host| port_at(host, ip, Some(&port), subnet));
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        id.destination = destination;
        let Some(peer) = peer else {
            id.stage = Stage::AddressQuery;
            self.set_deadline(number, Some(now + SimDuration::from_micros(u64::from(millis) * 1_000)));
            return Ok(());
        };
        if destination.is_any() {
            id.source = destination.with_port(space, id.source.port);
        } else if id.source.is_any() {
            id.source = id.source.with_ipv4(own_ip);
        }
        (id.port, id.peer, id.stage) = (Some(port), Some(peer), Stage::AddressResolved);
        self.post(number, Kind::AddressResolved, 0, Parameters::default(), now);
        Ok(())
    }

    /// Binds an identifier to the InfiniBand port from which it reaches a GID (`cma_resolve_ib_dev` of
    /// the kernel). Nobody asks whether a port has the GID before the route is resolved.
    fn resolve_gid(&mut self, number: u32, destination: Address, subnet: &dyn Subnet, now: SimTime) -> Result<(), i32> {
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        let infiniband = subnet.ports(id.host).into_iter().filter(|port| !port.is_ethernet());
        let ports: Vec<_> = infiniband.filter_map(|port| in_partition(&port, destination.pkey(), subnet)).collect();
        let gid = destination.gid().unwrap_or_default();
        let is_loopback = destination.is_any();
        let fits = |port: &&LocalPort| is_loopback || port.gid.0[..PREFIX_BYTES] == gid.0[..PREFIX_BYTES];
        let own = ports.iter().find(|port| port.gid == gid);
        let port = *id.port.as_ref().or(own).or_else(|| ports.iter().find(fits)).ok_or(libc::ENODEV)?;
        if id.source.is_any() {
            id.source = id.source.with_gid(port.gid);
        }
        id.peer = if is_loopback { Some(port) } else { subnet.port_with_gid(gid) };
        (id.destination, id.port, id.stage) = (destination, Some(port), Stage::AddressResolved);
        self.post(number, Kind::AddressResolved, 0, Parameters::default(), now);
        Ok(())
    }

    /// Binds an identifier to the port by which it can join a multicast group.
    fn resolve_group(&mut self, number: u32, group: Address, subnet: &dyn Subnet, now: SimTime) -> Result<(), i32> {
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        let port = id.port.or_else(|| subnet.ports(id.host).first().copied()).ok_or(libc::ENODEV)?;
        (id.port, id.destination, id.stage) = (Some(port), group, Stage::AddressResolved);
        if id.source.is_any() {
            let address = subnet.address_of(id.host);
            id.source = if id.source.is_ib() { id.source.with_gid(port.gid) } else { id.source.with_ipv4(address) };
        }
        self.post(number, Kind::AddressResolved, 0, Parameters::default(), now);
        Ok(())
    }

    pub(super) fn resolve_route(&mut self, number: u32, subnet: &dyn Subnet, now: SimTime) -> Result<(), i32> {
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        id.advance(Stage::AddressResolved, Stage::RouteResolved)?;
        let between = |(from, to): (LocalPort, LocalPort)| subnet.path(&from, &to);
        let traffic_class = id.type_of_service;
        let with_class = |path: Path| if path.source.is_ethernet() { Path { traffic_class, ..path } } else { path };
        id.path = id.port.zip(id.peer).and_then(between).map(with_class);
        if id.path.is_none() {
            id.stage = Stage::AddressResolved;
            self.post(number, Kind::RouteError, -libc::EINVAL, Parameters::default(), now);
            return Ok(());
        }
        self.post(number, Kind::RouteResolved, 0, Parameters::default(), now);
        Ok(())
    }

    pub(super) fn set_option(&mut self, number: u32, (level, name): (u32, u32), value: &[u8], now: SimTime) -> Result<(), i32> {
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        let is_set = value.iter().any(|byte| *byte != 0);
        match (level, name, value.len()) {
            // Packets within a subnet of InfiniBand have no traffic class.
            (LEVEL_ID, TOS, 1) => id.type_of_service = value[0],
            (LEVEL_ID, REUSE_ADDRESS, 4) if is_set && id.stage != Stage::Listen || id.stage == Stage::Idle => id.may_share_port = is_set,
            (LEVEL_ID, ONLY_OWN_FAMILY, 4) if matches!(id.stage, Stage::Idle | Stage::Bound) => id.only_own_family = is_set,
            (LEVEL_ID, ACK_TIMEOUT, 1) if matches!(id.qp_type, QP_RC | QP_XRC_SEND) => id.ack_timeout = Some(value[0]),
            (LEVEL_ID, TOS..=ACK_TIMEOUT, _) => return Err(libc::EINVAL),
            (LEVEL_IB, PATH, len) => {
                let is_path = |record: &[u8]| Fields(record).u32(0) == PATH_FLAGS;
                if !len.is_multiple_of(RECORD_BYTES) || !value.chunks(RECORD_BYTES).any(is_path) {
                    return Err(libc::EINVAL);
                }
                return self.set_path(number, value, now);
            }
            _ => return Err(libc::ENOSYS),
        }
        Ok(())
    }
}

/// Returns the port of `host` that an address of it names.
///
/// # Errors
/// `EADDRNOTAVAIL` for the address of another host, `ENODEV` for an address without an HCA.
fn own_port(host: usize, to: &Address, subnet: &dyn Subnet) -> Result<LocalPort, i32> {
    if let Some(gid) = to.gid() {
        let port = subnet.ports(host).into_iter().find(|port| port.gid == gid && !port.is_ethernet()).ok_or(libc::ENODEV)?;
        return Ok(in_partition(&port, to.pkey(), subnet).unwrap_or(port));
    }
    let ip = to.ipv4().filter(|ip| subnet.host_of(*ip) == Some(host)).ok_or(libc::EADDRNOTAVAIL)?;
    port_at(host, ip, None, subnet).ok_or(libc::ENODEV)
}

/// Returns the port of a host at an address of it: the interface with this address, or the first port
/// of the link layer of `own`.
fn port_at(host: usize, ip: u32, own: Option<&LocalPort>, subnet: &dyn Subnet) -> Option<LocalPort> {
    let has_layer = |port: &LocalPort| own.is_none_or(|own| own.is_ethernet() == port.is_ethernet());
    let is_at = |port: &LocalPort| if ip == subnet.address_of(host) { has_layer(port) } else { port.interface == Some(ip) };
    subnet.ports(host).into_iter().find(is_at)
}

/// Returns the port by which a host reaches an address, and its own address there. An identifier that
/// is bound keeps its port. Otherwise a link layer counts that both hosts have.
fn port_toward(host: usize, bound: Option<LocalPort>, ip: u32, subnet: &dyn Subnet) -> Option<(LocalPort, u32)> {
    let target = subnet.host_of(ip);
    let is_of_interface = target.is_some_and(|target| ip != subnet.address_of(target));
    let reaches = |port: &LocalPort| match target {
        Some(_) if is_of_interface => port.is_ethernet(),
        Some(target) => port_at(target, ip, Some(port), subnet).is_some(),
        None => true,
    };
    let ports = subnet.ports(host);
    let port = bound.or_else(|| ports.iter().find(|port| reaches(port)).or(ports.first()).copied())?;
    let address = port.interface.filter(|_| is_of_interface).unwrap_or_else(|| subnet.address_of(host));
    Some((port, address))
}
