//! Writes the interfaces of a host into a resolved fabric.

use std::fmt::Write;

use softband_spec::{HostSpec, InterfaceKind, InterfaceSpec, MANAGEMENT_NAME, RouteSpec};

use crate::fabric_file::resolved::quoted;

/// Writes the tables of a host's interfaces, unless it has only the management network.
pub(in crate::fabric_file) fn write_interfaces(out: &mut String, index: usize, host: &HostSpec) -> std::fmt::Result {
    let has = |name: &str| host.interfaces.iter().any(|interface| interface.name == name);
    // A NIC with a cable has an interface unless the file says otherwise.
    let mut absent: Vec<&str> = host.hcas.iter().filter(|card| card.nic.is_some()).map(|card| card.device.as_str()).collect();
    if host.interfaces.iter().all(|interface| interface.kind != InterfaceKind::Management) && !absent.contains(&MANAGEMENT_NAME) {
        absent.push(MANAGEMENT_NAME);
    }
    absent.retain(|name| !has(name));
    let table = format!("hosts.{}.interfaces", quoted(&host.name));
    if !absent.is_empty() {
        writeln!(out, "\n[{table}]")?;
        absent.iter().try_for_each(|name| writeln!(out, "{} = false", quoted(name)))?;
    }
    if host.interfaces == [InterfaceSpec::management(index)] {
        return Ok(());
    }
    host.interfaces.iter().try_for_each(|interface| write_interface(out, (&table, host), interface))
}

/// Writes the routes of a host, unless it has none.
pub(in crate::fabric_file) fn write_routes(out: &mut String, host: &HostSpec) -> std::fmt::Result {
    let routes: Vec<String> = host.routes.iter().map(|route| format!("\"{}\"", route_text(route))).collect();
    if routes.is_empty() { Ok(()) } else { writeln!(out, "routes = [{}]", routes.join(", ")) }
}

/// Returns a route as the file states it.
pub(crate) fn route_text(route: &RouteSpec) -> String {
    let RouteSpec { network, gateway, .. } = route;
    if network.prefix == 0 { format!("default via {gateway}") } else { format!("{}/{} via {gateway}", network.address, network.prefix) }
}

fn write_interface(out: &mut String, (table, host): (&str, &HostSpec), interface: &InterfaceSpec) -> std::fmt::Result {
    writeln!(out, "\n[{table}.{}]", quoted(&interface.name))?;
    match interface.kind {
        InterfaceKind::Management => return writeln!(out, "kind = \"management\""),
        InterfaceKind::Ipoib { hca, port, mode, pkey } => {
            writeln!(out, "kind = \"ipoib\"\nhca = {}\nport = {}", quoted(&host.hcas[hca].device), port.0)?;
            writeln!(out, "mode = \"{}\"\npkey = {:#06x}", mode.name(), pkey.0)?;
        }
        InterfaceKind::Ethernet { hca, port } => {
            let (card, key) = (&host.hcas[hca], if host.hcas[hca].nic.is_some() { "nic" } else { "hca" });
            writeln!(out, "kind = \"ethernet\"\n{key} = {}\nport = {}", quoted(&card.device), port.0)?;
        }
    }
    let addresses: Vec<String> = interface.addresses.iter().map(|own| format!("\"{}/{}\"", own.address, own.prefix)).collect();
    writeln!(out, "mtu = {}\naddresses = [{}]", interface.mtu_bytes, addresses.join(", "))
}
