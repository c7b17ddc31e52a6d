//! Addresses of interfaces: those that the file states, and subnets for the others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use softband_spec::{FabricSpec, InterfaceAddress, InterfaceKind, MANAGEMENT_FIRST, MANAGEMENT_PREFIX};

use super::Draft;
use crate::diagnostic::Findings;
use crate::document::{Entry, Value, wrong_kind};

/// An address with its place in the file.
pub(super) type Placed = (InterfaceAddress, Range<usize>);

/// Addresses of an interface, at most.
const ADDRESSES_MAX: usize = 16;
/// Bits of the prefix of subnets that the file does not state.
const USUAL_PREFIX: u8 = 16;
const EXAMPLE: &str = "write an address and the bits of its subnet's prefix, such as \"10.1.0.1/16\"";

/// Reads `addresses`.
pub(super) fn list(entry: &Entry, findings: &mut Findings) -> Vec<Placed> {
    let Value::Array(items) = &entry.node.value else {
        wrong_kind(entry, "a list of addresses, such as [\"10.1.0.1/16\"]", findings);
        return Vec::new();
    };
    let mut addresses: Vec<Placed> = Vec::new();
    for item in items {
        let text = if let Value::Text(text) = &item.value { text.as_str() } else { "" };
        let problem = match parse(text) {
            Some(address) => match unusable(address) {
                None if addresses.iter().any(|(own, _)| overlap(*own, address)) => "the interface has an address in this subnet already",
                None => {
                    addresses.push((address, item.span.clone()));
                    continue;
                }
                Some(problem) => problem,
            },
            None => "this is not an address with a prefix",
        };
        findings.error(problem.into(), vec![(item.span.clone(), "here".into())], Some(EXAMPLE.into()));
    }
    if items.is_empty() || items.len() > ADDRESSES_MAX {
        let help = format!("write 1 to {ADDRESSES_MAX}, or leave `addresses` out for an address of a usual subnet");
        findings.error(format!("an interface cannot have {} addresses", items.len()), vec![(entry.node.span.clone(), "here".into())], Some(help));
    }
    addresses
}

/// Reads `subnet` of all hosts. Returns `None` after an error.
pub(super) fn subnet(entry: &Entry, findings: &mut Findings) -> Option<Placed> {
    let text = if let Value::Text(text) = &entry.node.value { text.as_str() } else { "" };
    let found = parse(text).filter(|subnet| base(*subnet) == subnet.address && nth(*subnet, 0).is_some_and(|first| unusable(first).is_none()));
    if found.is_none() {
        let help = "write its first address and the bits of its prefix, such as \"10.1.0.0/16\"; each host gets an address in it";
        findings.error("this is not a subnet for hosts".into(), vec![(entry.node.span.clone(), "here".into())], Some(help.into()));
    }
    found.map(|subnet| (subnet, entry.node.span.clone()))
}

fn parse(text: &str) -> Option<InterfaceAddress> {
    let (address, prefix) = text.split_once('/')?;
    let (address, prefix) = (address.parse::<IpAddr>().ok()?, prefix.parse::<u8>().ok()?);
    (1..=bits(address)).contains(&prefix).then_some(InterfaceAddress { address, prefix })
}

/// Returns the reason why no host can have the address.
fn unusable(own: InterfaceAddress) -> Option<&'static str> {
    let is_special = match own.address {
        // RFC 6890: this network, and addresses from 240.0.0.0 on.
        IpAddr::V4(address) => address.is_loopback() || address.is_multicast() || address.octets()[0] == 0 || address.octets()[0] >= 240,
        IpAddr::V6(address) => address.is_loopback() || address.is_multicast() || address.is_unspecified() || address.to_ipv4_mapped().is_some(),
    };
    let (number, size) = (number(own.address), bits(own.address) - own.prefix);
    let host = number & mask(size);
    // RFC 4291, 2.5.6: fe80::/10.
    let is_of_link = matches!(own.address, IpAddr::V6(address) if address.segments()[0] & 0xffc0 == 0xfe80);
    if is_of_link {
        Some("each interface has a link-local address of its own")
    } else if is_special {
        Some("no host can have this address")
    } else if overlap(own, management()) {
        Some("this address belongs to the management network, 198.18.0.0/16")
    } else if own.address.is_ipv4() && size > 1 && (host == 0 || host == mask(size)) {
        // RFC 1122, 3.2.1.3. A subnet of two addresses has no broadcast address (RFC 3021).
        Some("this address stands for the whole subnet or its broadcast")
    } else {
        None
    }
}

fn management() -> InterfaceAddress {
    InterfaceAddress { address: MANAGEMENT_FIRST.into(), prefix: MANAGEMENT_PREFIX }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// Returns a number whose last bits are ones.
fn mask(bits: u8) -> u128 {
    1u128.checked_shl(bits.into()).map_or(u128::MAX, |power| power - 1)
}

/// Checks whether the subnets of two addresses have an address in common.
fn overlap(one: InterfaceAddress, two: InterfaceAddress) -> bool {
    let prefix = one.prefix.min(two.prefix);
    let shift = bits(one.address).saturating_sub(prefix);
    let head = |own: InterfaceAddress| number(own.address).checked_shr(shift.into()).unwrap_or(0);
    one.address.is_ipv4() == two.address.is_ipv4() && head(one) == head(two)
}

/// Returns the first address of the subnet.
fn base(own: InterfaceAddress) -> IpAddr {
    with_number(own.address, number(own.address) & !mask(bits(own.address) - own.prefix))
}

fn with_number(like: IpAddr, number: u128) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::from(number as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from(number).into(),
    }
}

/// Returns the address of a host in a subnet. `None` if the subnet is too small.
fn nth(subnet: InterfaceAddress, host: usize) -> Option<InterfaceAddress> {
    let most = mask(bits(subnet.address) - subnet.prefix);
    // The last address is the broadcast address.
    let offset = (host as u128 + 1 < most).then_some(host as u128 + 1)?;
    Some(InterfaceAddress { address: with_number(subnet.address, number(base(subnet)) + offset), ..subnet })
}

/// Gives addresses to interfaces without, and checks those of the whole fabric.
pub(super) fn assign(drafts: &mut [Vec<Draft>], spec: &FabricSpec, findings: &mut Findings) {
    refuse_mixed(drafts, spec, findings);
    let subnets = usual_subnets(drafts);
    for (host, drafts) in drafts.iter_mut().enumerate() {
        for draft in drafts.iter_mut().filter(|draft| draft.addresses.is_empty()) {
            let span = draft.subnet.as_ref().map_or(&draft.name_span, |(_, span)| span).clone();
            let subnet = draft.subnet.as_ref().map(|(subnet, _)| *subnet).or_else(|| subnets.get(&draft.name).copied());
            match subnet.and_then(|subnet| nth(subnet, host)) {
                Some(address) => draft.addresses.push((address, span)),
                None => {
                    let help = "write a `subnet` with a shorter prefix, or `addresses` for each host";
                    let message = format!("host `{}` has no address for `{}`: the subnet is too small", spec.hosts[host].name, draft.name);
                    findings.error(message, vec![(span, "here".into())], Some(help.into()));
                }
            }
        }
    }
    check_unique(drafts, spec, findings);
    drafts.iter().enumerate().for_each(|(host, drafts)| check_apart(&spec.hosts[host].name, drafts, findings));
}

/// Refuses stated and usual addresses for interfaces of one name, which would be in different
/// subnets.
fn refuse_mixed(drafts: &[Vec<Draft>], spec: &FabricSpec, findings: &mut Findings) {
    let mut stated: BTreeMap<&str, &Draft> = BTreeMap::new();
    for draft in drafts.iter().flatten().filter(|draft| !draft.addresses.is_empty()) {
        stated.entry(&draft.name).or_insert(draft);
    }
    for (host, drafts) in drafts.iter().enumerate() {
        for draft in drafts.iter().filter(|draft| draft.addresses.is_empty() && draft.subnet.is_none()) {
            let Some(other) = stated.get(draft.name.as_str()) else { continue };
            let message = format!("`{}` of host `{}` has no address, and another host's has one", draft.name, spec.hosts[host].name);
            let labels = vec![(draft.name_span.clone(), "this interface".into()), (other.name_span.clone(), "this one has".into())];
            findings.error(message, labels, Some("write `addresses` for each host, or for none".into()));
        }
    }
}

/// Returns the subnets of interfaces whose tables name none: 10.1.0.0/16, 10.2.0.0/16 and so on, in
/// the order of the interfaces' names, without subnets that the file uses.
fn usual_subnets(drafts: &[Vec<Draft>]) -> BTreeMap<String, InterfaceAddress> {
    let all = || drafts.iter().flatten();
    let used: BTreeSet<InterfaceAddress> = all()
        .flat_map(|draft| draft.addresses.iter().chain(&draft.subnet))
        .map(|(own, _)| InterfaceAddress { address: base(*own), ..*own })
        .collect();
    let free = (1..=255).map(|number| InterfaceAddress { address: Ipv4Addr::new(10, number, 0, 0).into(), prefix: USUAL_PREFIX });
    let free = free.filter(|subnet| used.iter().all(|other| !overlap(*subnet, *other)));
    let names: BTreeSet<&String> = all().filter(|draft| draft.addresses.is_empty() && draft.subnet.is_none()).map(|draft| &draft.name).collect();
    names.into_iter().cloned().zip(free).collect()
}

/// Refuses an address of two interfaces.
fn check_unique(drafts: &[Vec<Draft>], spec: &FabricSpec, findings: &mut Findings) {
    let mut taken: BTreeMap<IpAddr, (usize, &Draft, &Range<usize>)> = BTreeMap::new();
    for (host, draft) in drafts.iter().enumerate().flat_map(|(host, drafts)| drafts.iter().map(move |draft| (host, draft))) {
        for (own, span) in draft.addresses.iter().filter(|_| draft.kind != InterfaceKind::Management) {
            let Some((other_host, other, place)) = taken.insert(own.address, (host, draft, span)) else { continue };
            let name = |host: usize, draft: &Draft| format!("`{}` of host `{}`", draft.name, spec.hosts[host].name);
            let message = format!("{} is the address of {} and {}", own.address, name(other_host, other), name(host, draft));
            let labels = vec![(span.clone(), "taken again here".into()), (place.clone(), "first taken here".into())];
            findings.error(message, labels, Some("give each interface of the fabric an address of its own".into()));
        }
    }
}

/// Refuses two interfaces of a host in one subnet: its route would lead to the first of them only.
fn check_apart(host: &str, drafts: &[Draft], findings: &mut Findings) {
    for (at, draft) in drafts.iter().enumerate() {
        for (own, span) in &draft.addresses {
            let others = drafts[..at].iter().flat_map(|other| other.addresses.iter().map(move |address| (other, address)));
            let Some((other, (_, place))) = others.into_iter().find(|(_, (address, _))| overlap(*own, *address)) else { continue };
            let message = format!("`{}` and `{}` of host `{host}` are in one subnet", other.name, draft.name);
            let labels = vec![(span.clone(), "this address".into()), (place.clone(), "and this one".into())];
            findings.error(message, labels, Some("give each interface of a host a subnet of its own".into()));
        }
    }
}
