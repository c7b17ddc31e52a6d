//! Writes the interfaces of a host into a resolved fabric.

use std::fmt::Write;

use softband_spec::{HostSpec, InterfaceKind, InterfaceSpec, MANAGEMENT_NAME};

use crate::fabric_file::resolved::quoted;

/// Writes the tables of a host's interfaces, unless it has only the management network.
pub(in crate::fabric_file) fn write_interfaces(out: &mut String, index: usize, host: &HostSpec) -> std::fmt::Result {
    if host.interfaces == [InterfaceSpec::management(index)] {
        return Ok(());
    }
    let table = format!("hosts.{}.interfaces", quoted(&host.name));
    let has_management = host.interfaces.iter().any(|interface| interface.kind == InterfaceKind::Management);
    if !has_management && host.interfaces.iter().all(|interface| interface.name != MANAGEMENT_NAME) {
        writeln!(out, "\n[{table}]\n{MANAGEMENT_NAME} = false")?;
    }
    host.interfaces.iter().try_for_each(|interface| write_interface(out, (&table, host), interface))
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
            writeln!(out, "kind = \"ethernet\"\nhca = {}\nport = {}", quoted(&host.hcas[hca].device), port.0)?;
        }
    }
    let addresses: Vec<String> = interface.addresses.iter().map(|own| format!("\"{}/{}\"", own.address, own.prefix)).collect();
    writeln!(out, "mtu = {}\naddresses = [{}]", interface.mtu_bytes, addresses.join(", "))
}
