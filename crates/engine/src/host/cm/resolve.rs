//! Addresses and routes of identifiers.

use super::CmTable;
use super::address::Address;
use super::events::{Kind, Parameters};
use super::fields::Fields;
use super::identifier::{QP_RC, QP_XRC_SEND, Stage};
use super::path::{LocalPort, Subnet};
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

impl CmTable {
    /// Binds an identifier to an address, and to its HCA.
    pub(super) fn bind(&mut self, number: u32, to: Address, subnet: &dyn Subnet) -> Result<(), i32> {
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        if to.is_ib() || to.is_none() {
            return Err(libc::EAFNOSUPPORT);
        }
        if id.stage != Stage::Idle {
            return Err(libc::EINVAL);
        }
        let mut port = None;
        if !to.is_any() {
            let host = to.ipv4().and_then(|ip| subnet.host_of(ip)).filter(|host| *host == id.host).ok_or(libc::EADDRNOTAVAIL)?;
            port = Some(subnet.first_port(host).ok_or(libc::ENODEV)?);
        }
        let bound = self.take_port(number, to)?;
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        (id.source, id.port, id.stage) = (bound, port, Stage::Bound);
        Ok(())
    }

    /// Takes the port of an address, or any free port. Returns the address with it.
    fn take_port(&mut self, number: u32, to: Address) -> Result<Address, i32> {
        let id = self.ids.get(&number).ok_or(libc::ENOENT)?;
        let (host, space) = (id.host, id.space);
        let mut to = to;
        if to.port == 0 {
            to.port = self.ports.free(host, space).ok_or(libc::EADDRNOTAVAIL)?;
        } else {
            self.check_port(number, &to, id.may_share_port)?;
        }
        self.ports.add((host, space, to.port), number);
        Ok(to)
    }

    /// Checks that no other identifier has the port of an address. The numbers of the errors are
    /// those of the kernel's `cma_check_port`.
    fn check_port(&self, number: u32, to: &Address, may_share: bool) -> Result<(), i32> {
        let own = self.ids.get(&number).ok_or(libc::ENOENT)?;
        for user in self.ports.users(own.host, own.space, to.port).filter(|user| *user != number) {
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
        let host = id.host;
        if destination.is_multicast() {
            return self.resolve_group(number, destination, subnet, now);
        }
        let target = if destination.is_any() { Some(host) } else { subnet.host_of(destination.ipv4().ok_or(libc::ENETUNREACH)?) };
        let port = subnet.first_port(host).ok_or(libc::ENODEV)?;
        let peer = target.and_then(|host| subnet.first_port(host));
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        id.destination = destination;
        let Some(peer) = peer else {
            id.stage = Stage::AddressQuery;
            self.set_deadline(number, Some(now + SimDuration::from_micros(u64::from(millis) * 1_000)));
            return Ok(());
        };
        if destination.is_any() {
            id.source = destination.with_port(id.source.port);
        } else if id.source.is_any() {
            id.source = id.source.with_ipv4(subnet.address_of(host));
        }
        (id.port, id.peer, id.stage) = (Some(port), Some(peer), Stage::AddressResolved);
        self.post(number, Kind::AddressResolved, 0, Parameters::default(), now);
        Ok(())
    }

    /// Binds an identifier to the port by which it can join a multicast group.
    fn resolve_group(&mut self, number: u32, group: Address, subnet: &dyn Subnet, now: SimTime) -> Result<(), i32> {
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        id.port = Some(subnet.first_port(id.host).ok_or(libc::ENODEV)?);
        (id.destination, id.stage) = (group, Stage::AddressResolved);
        if id.source.is_any() {
            id.source = id.source.with_ipv4(subnet.address_of(id.host));
        }
        self.post(number, Kind::AddressResolved, 0, Parameters::default(), now);
        Ok(())
    }

    pub(super) fn resolve_route(&mut self, number: u32, subnet: &dyn Subnet, now: SimTime) -> Result<(), i32> {
        let id = self.ids.get_mut(&number).ok_or(libc::ENOENT)?;
        id.advance(Stage::AddressResolved, Stage::RouteResolved)?;
        let between = |(from, to): (LocalPort, LocalPort)| subnet.path(&from, &to);
        id.path = id.port.zip(id.peer).and_then(between);
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
            // The traffic class of RoCE; packets within a subnet have none.
            (LEVEL_ID, TOS, 1) => {}
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
