//! Routes of hosts through other hosts: `routes` of `[hosts.*]`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use softband_spec::{FabricSpec, InterfaceAddress, RouteSpec};

use super::{addresses, tables};
use crate::diagnostic::Findings;
use crate::document::{Entry, Value, wrong_kind};

/// Routes of a host, at most.
const ROUTES_MAX: usize = 64;
const EXAMPLE: &str = "write a network and the host that leads there, such as \"10.2.0.0/16 via 10.1.0.3\" or \"default via 10.1.0.3\"";

/// Reads the routes into the hosts of `spec`, which have their interfaces.
pub(super) fn read_routes(hosts: Option<&Entry>, spec: &mut FabricSpec, findings: &mut Findings) {
    for (host, entry) in tables::by_host(hosts, "routes").into_iter().enumerate().take(spec.hosts.len()) {
        let Some(entry) = entry else { continue };
        let Value::Array(items) = &entry.node.value else {
            wrong_kind(entry, "a list of routes, such as [\"10.2.0.0/16 via 10.1.0.3\"]", findings);
            continue;
        };
        if !spec.has_modelled_network() && !items.is_empty() {
            let help = "add an interface of kind \"ipoib\" or \"ethernet\", or remove `routes`";
            let labels = vec![(entry.key_span.clone(), "these routes".into())];
            findings.error("only modelled networks have routes".into(), labels, Some(help.into()));
            continue;
        }
        if items.len() > ROUTES_MAX {
            let help = format!("write at most {ROUTES_MAX}, of wider networks");
            findings.error(format!("a host cannot have {} routes", items.len()), vec![(entry.node.span.clone(), "here".into())], Some(help));
        }
        let mut routes: Vec<RouteSpec> = Vec::new();
        for item in items {
            let text = if let Value::Text(text) = &item.value { text.as_str() } else { "" };
            match route(text, host, spec, &routes) {
                Ok(route) => routes.push(route),
                Err((message, help)) => fail(message, help, &item.span, findings),
            }
        }
        spec.hosts[host].routes = routes;
    }
}

fn fail(message: String, help: Option<String>, span: &Range<usize>, findings: &mut Findings) {
    findings.error(message, vec![(span.clone(), "here".into())], Some(help.unwrap_or_else(|| EXAMPLE.into())));
}

/// A message, with advice unless the usual one helps.
type Refusal = (String, Option<String>);

fn route(text: &str, host: usize, spec: &FabricSpec, others: &[RouteSpec]) -> Result<RouteSpec, Refusal> {
    let (network, gateway) = parse(text).ok_or_else(|| ("this is not a route".into(), None))?;
    if addresses::base(network) != network.address {
        let help = format!("write \"{}/{} via {gateway}\"", addresses::base(network), network.prefix);
        return Err((format!("{} has bits behind the {} of its network", network.address, network.prefix), Some(help)));
    }
    if network.address.is_loopback() || network.address.is_multicast() {
        return Err((format!("no route leads to {}", network.address), None));
    }
    if gateway.is_ipv4() != network.address.is_ipv4() {
        return Err(("the network and the gateway are of two families".into(), None));
    }
    if others.iter().any(|other| other.network == network) {
        let help = "keep one of them: a packet takes the first";
        return Err((format!("the host has a route to {}/{} already", network.address, network.prefix), Some(help.into())));
    }
    let interface = interface_to(gateway, network, host, spec)?;
    Ok(RouteSpec { network, gateway, interface })
}

/// Returns the index of the interface whose network has the gateway.
fn interface_to(gateway: IpAddr, network: InterfaceAddress, host: usize, spec: &FabricSpec) -> Result<usize, Refusal> {
    let name = &spec.hosts[host].name;
    let own =
        || spec.hosts[host].interfaces.iter().enumerate().flat_map(|(index, interface)| interface.addresses.iter().map(move |own| (index, *own)));
    if own().any(|(_, own)| own.address == gateway) {
        return Err((format!("{gateway} is an address of host `{name}` itself"), Some("name the next host on the way".into())));
    }
    if own().any(|(_, own)| own.prefix == network.prefix && addresses::base(own) == network.address) {
        let message = format!("host `{name}` has an interface in {}/{}", network.address, network.prefix);
        return Err((message, Some("remove the route: the interface leads there".into())));
    }
    let host_of_gateway = InterfaceAddress { address: gateway, prefix: if gateway.is_ipv4() { 32 } else { 128 } };
    let Some((index, _)) = own().find(|(_, own)| addresses::overlap(*own, host_of_gateway)) else {
        let networks: Vec<String> = own().map(|(_, own)| format!("{}/{}", addresses::base(own), own.prefix)).collect();
        let help = format!("name a host in a network of `{name}`: {}", networks.join(", "));
        return Err((format!("no interface of host `{name}` reaches the gateway {gateway}"), Some(help)));
    };
    let mut all = spec.hosts.iter().flat_map(|host| &host.interfaces).flat_map(|interface| &interface.addresses);
    if !all.any(|own| own.address == gateway) {
        let help = "write an address of the host that leads there, as `softband fabric show` lists them";
        return Err((format!("no host has the address {gateway}"), Some(help.into())));
    }
    Ok(index)
}

fn parse(text: &str) -> Option<(InterfaceAddress, IpAddr)> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [network, "via", gateway] = words[..] else { return None };
    let gateway: IpAddr = gateway.parse().ok()?;
    let all = |address: IpAddr| InterfaceAddress { address, prefix: 0 };
    let network = match network {
        "default" if gateway.is_ipv6() => all(Ipv6Addr::UNSPECIFIED.into()),
        "default" | "0.0.0.0/0" => all(Ipv4Addr::UNSPECIFIED.into()),
        "::/0" => all(Ipv6Addr::UNSPECIFIED.into()),
        _ => addresses::parse(network)?,
    };
    Some((network, gateway))
}
