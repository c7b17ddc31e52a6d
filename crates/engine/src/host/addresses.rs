//! Names and addresses of hosts whose network is modelled: each interface has its own.

use softband_spec::{FabricSpec, HostSpec, InterfaceKind, InterfaceSpec};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the interfaces of a host in the order of their importance: the management network first.
fn ordered(host: &HostSpec) -> impl Iterator<Item = &InterfaceSpec> {
    let is_management = |interface: &&InterfaceSpec| interface.kind == InterfaceKind::Management;
    host.interfaces.iter().filter(is_management).chain(host.interfaces.iter().filter(move |interface| !is_management(interface)))
}

fn ipv4_of(interface: &InterfaceSpec) -> Option<Ipv4Addr> {
    interface.addresses.iter().find_map(|own| match own.address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    })
}

fn ipv6_of(interface: &InterfaceSpec) -> Option<Ipv6Addr> {
    interface.addresses.iter().find_map(|own| match own.address {
        IpAddr::V6(address) => Some(address),
        IpAddr::V4(_) => None,
    })
}

/// Returns the addresses of a name, of both families: `b` means the first interface of host `b`, and
/// `b-ib0` its interface `ib0`. A host's own name wins.
pub(crate) fn addresses_of(spec: &FabricSpec, name: &str) -> Option<(Option<Ipv4Addr>, Option<Ipv6Addr>)> {
    if let Some(host) = spec.hosts.iter().find(|host| host.name == name) {
        return some((ordered(host).find_map(ipv4_of), ordered(host).find_map(ipv6_of)));
    }
    spec.hosts.iter().find_map(|host| {
        let wanted = name.strip_prefix(host.name.as_str())?.strip_prefix('-')?;
        let interface = host.interfaces.iter().find(|interface| interface.name == wanted)?;
        some((ipv4_of(interface), ipv6_of(interface)))
    })
}

fn some(of: (Option<Ipv4Addr>, Option<Ipv6Addr>)) -> Option<(Option<Ipv4Addr>, Option<Ipv6Addr>)> {
    Some(of).filter(|(v4, v6)| v4.is_some() || v6.is_some())
}

/// Returns the host that has the address.
pub(crate) fn host_of(spec: &FabricSpec, address: IpAddr) -> Option<usize> {
    spec.hosts.iter().position(|host| host.interfaces.iter().any(|interface| has(interface, address)))
}

/// Returns the name of an address, as [`addresses_of`] takes it.
pub(crate) fn name_of(spec: &FabricSpec, address: IpAddr) -> Option<String> {
    let host = &spec.hosts[host_of(spec, address)?];
    let interface = host.interfaces.iter().find(|interface| has(interface, address))?;
    let has_family = |interface: &&InterfaceSpec| interface.addresses.iter().any(|own| own.address.is_ipv4() == address.is_ipv4());
    let is_first = ordered(host).find(has_family).is_some_and(|first| first.name == interface.name);
    Some(if is_first { host.name.clone() } else { format!("{}-{}", host.name, interface.name) })
}

fn has(interface: &InterfaceSpec, address: IpAddr) -> bool {
    interface.addresses.iter().any(|own| own.address == address)
}

#[cfg(test)]
mod tests;
