//! Routes of a host: to its networks, through other hosts, and to its own addresses.

use super::{Message, Network, Request, SCOPE_HOST, SCOPE_LINK, SCOPE_UNIVERSE, each_address, each_v6, has_v4, has_v6, word};
use softband_ipc::interfaces::{Address, AddressV6, Interface};
use std::net::Ipv6Addr;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_TABLE: u16 = 15;
const TABLE_MAIN: u8 = 254;
const TABLE_LOCAL: u8 = 255;
/// The route is the answer to one question, and no entry of a table.
const RTM_F_CLONED: u32 = 0x200;
pub(super) const RTPROT_UNSPEC: u8 = 0;
const RTPROT_KERNEL: u8 = 2;
/// Programs at the start of the host have added the route.
const RTPROT_BOOT: u8 = 3;
const RTN_UNICAST: u8 = 1;
const RTN_LOCAL: u8 = 2;

/// Metric of the kernel's routes of IPv6 (`IP6_RT_PRIO_ADDRCONF`).
const METRIC_V6: u32 = 256;

/// A route of the host: destination with its prefix, table, origin, scope, type and flags. An entry
/// without a source names its gateway.
pub(super) struct Route<'a> {
    family: libc::c_int,
    to: (Vec<u8>, u8),
    table: u8,
    origin: u8,
    scope: u8,
    kind: u8,
    flags: u32,
    by: &'a Interface,
    gateway: Option<Vec<u8>>,
    source: Option<Vec<u8>>,
    metric: u32,
}

impl Route<'_> {
    pub(super) fn message(&self, head: (u16, u16, u32, u32)) -> Message {
        let [a, b, c, d] = self.flags.to_ne_bytes();
        let fixed = [self.family as u8, self.to.1, 0, 0, self.table, self.origin, self.scope, self.kind, a, b, c, d];
        let to = Some(&self.to.0).filter(|_| self.to.1 > 0);
        let metric = (self.metric != 0).then(|| self.metric.to_ne_bytes().to_vec());
        let parts = [(RTA_DST, to), (RTA_PREFSRC, self.source.as_ref()), (RTA_GATEWAY, self.gateway.as_ref()), (RTA_PRIORITY, metric.as_ref())];
        let message = Message::new(head, &fixed).with(RTA_TABLE, &u32::from(self.table).to_ne_bytes());
        let given = parts.into_iter().filter_map(|(kind, value)| Some((kind, value?)));
        given.fold(message, |message, (kind, value)| message.with(kind, value)).with(RTA_OIF, &self.by.index.to_ne_bytes())
    }
}

fn octets(v4: u32) -> Vec<u8> {
    v4.to_be_bytes().to_vec()
}

/// Returns the routes of the host: through other hosts, to its networks, and to its own addresses. The
/// default route comes first, as the kernel lists it.
pub(super) fn routes<'a>((interfaces, gateways): Network<'a>) -> Vec<Route<'a>> {
    let origin = RTPROT_KERNEL;
    let far = |is_default: bool| {
        gateways.iter().filter(move |route| (route.network.prefix == 0) == is_default).filter_map(move |route| {
            let by = interfaces.iter().find(|one| one.index == route.index)?;
            let gateway = Some(octets(route.gateway));
            Some(Route { origin: RTPROT_BOOT, gateway, ..unicast(by, route.network) })
        })
    };
    let networks = each_address(interfaces).map(move |(by, own)| {
        let network = Address { address: own.network(), ..own };
        let route = Route { origin, scope: SCOPE_LINK, source: Some(octets(own.address)), ..unicast(by, network) };
        if by.is_loopback() { Route { table: TABLE_LOCAL, scope: SCOPE_HOST, kind: RTN_LOCAL, ..route } } else { route }
    });
    let own = each_address(interfaces).map(move |(by, own)| {
        let to = Address { prefix: 32, ..own };
        let source = Some(octets(own.address));
        Route { table: TABLE_LOCAL, origin, scope: SCOPE_HOST, kind: RTN_LOCAL, source, ..unicast(by, to) }
    });
    far(true).chain(networks).chain(far(false)).chain(own).collect()
}

fn unicast(by: &Interface, to: Address) -> Route<'_> {
    Route {
        family: libc::AF_INET,
        to: (octets(to.address), to.prefix),
        table: TABLE_MAIN,
        origin: RTPROT_UNSPEC,
        scope: SCOPE_UNIVERSE,
        kind: RTN_UNICAST,
        flags: 0,
        by,
        gateway: None,
        source: None,
        metric: 0,
    }
}

fn unicast_v6(by: &Interface, to: Ipv6Addr, prefix: u8) -> Route<'_> {
    let zero = Address { address: 0, prefix };
    Route { family: libc::AF_INET6, to: (to.octets().to_vec(), prefix), origin: RTPROT_KERNEL, ..unicast(by, zero) }
}

/// Returns the routes of IPv6.
pub(super) fn routes_v6(interfaces: &[Interface]) -> Vec<Route<'_>> {
    let networks = each_v6(interfaces)
        .filter(|(by, _)| !by.is_loopback())
        .map(|(by, own)| Route { metric: METRIC_V6, ..unicast_v6(by, own.network(), own.prefix) });
    let own = each_v6(interfaces).map(|(by, own)| Route { table: TABLE_LOCAL, kind: RTN_LOCAL, ..unicast_v6(by, own.address, 128) });
    networks.chain(own).collect()
}

/// Returns the route to one destination.
pub(super) fn route_to(request: &Request, (interfaces, gateways): Network, head: (u16, u16, u32, u32)) -> Result<Message, i32> {
    const FIXED: usize = 12;
    let asked = request.attribute(FIXED, RTA_DST);
    if let Some(to) = asked.filter(|_| !has_v4(request) && has_v6(request)).and_then(|bytes| bytes.first_chunk::<16>()) {
        return route_to_v6((*to).into(), request, interfaces, head);
    }
    let to = asked.filter(|_| has_v4(request)).and_then(|bytes| bytes.first_chunk().copied());
    let to = u32::from_be_bytes(to.ok_or(libc::ENETUNREACH)?);
    let near = each_address(interfaces).filter(|(_, own)| to & own.mask() == own.network()).map(|(by, own)| (own.prefix, by, own.address, None));
    let far = gateways.iter().filter(|route| to & route.network.mask() == route.network.address).filter_map(|route| {
        let by = interfaces.iter().find(|one| one.index == route.index)?;
        Some((route.network.prefix, by, by.addresses.first()?.address, Some(route.gateway)))
    });
    // The route with the longest prefix leads, and that of an interface before others.
    let found = far.chain(near).max_by_key(|(prefix, ..)| *prefix);
    let (_, by, source, gateway) = found.ok_or(libc::ENETUNREACH)?;
    // The answer has neither the origin nor the scope of the route (`rt_fill_info`).
    let is_own = by.is_loopback() || source == to;
    let gateway = gateway.map(octets);
    let route = Route { flags: RTM_F_CLONED, gateway, source: Some(octets(source)), ..unicast(by, Address { address: to, prefix: 32 }) };
    Ok(if is_own { Route { table: TABLE_LOCAL, kind: RTN_LOCAL, ..route } } else { route }.message(head))
}

/// Returns the route to a destination of IPv6. A link-local one needs the number of its interface.
fn route_to_v6(to: Ipv6Addr, request: &Request, interfaces: &[Interface], head: (u16, u16, u32, u32)) -> Result<Message, i32> {
    const FIXED: usize = 12;
    let device = request.attribute(FIXED, RTA_OIF).map_or(0, |index| word(index, 0));
    let leads = |(by, own): &(&Interface, AddressV6)| {
        let is_in = u128::from(to) & u128::from(own.mask()) == u128::from(own.network());
        is_in && (device == 0 || by.index == device)
    };
    let is_own = each_v6(interfaces).find(|(_, own)| own.address == to);
    let found = is_own.or_else(|| each_v6(interfaces).filter(leads).max_by_key(|(_, own)| own.prefix));
    let (by, own) = found.ok_or(libc::ENETUNREACH)?;
    let route = Route { source: Some(own.address.octets().to_vec()), ..unicast_v6(by, to, 128) };
    Ok(if is_own.is_some() { Route { table: TABLE_LOCAL, kind: RTN_LOCAL, ..route } } else { route }.message(head))
}
